"""A problem in one line, for titles of pages and figures."""

from __future__ import annotations

from iosim.core.problem import Attention


def described(problem: Attention) -> str:
    """The problem in one line: its sizes, its element type, who may attend and how many heads.

    >>> described(Attention(n=1024, d=64, nk=512, causal=True, heads=8))
    'n=1024 nk=512 d=64 float32 causal, 1 x 8 heads'
    """
    p = problem
    sizes = [f"n={p.n}", *([f"nk={p.nk}"] if p.nk != p.n else []), f"d={p.d}", *([f"dv={p.dv}"] if p.dv != p.d else []), p.dtype]
    shared = f" on {p.kv_heads} KV heads" if p.group > 1 else ""
    heads = [f"{p.batch} x {p.heads} heads{shared}"] if p.batch * p.heads > 1 else []
    return ", ".join([" ".join([*sizes, *rules(p)[:1]]), *rules(p)[1:], *([f"dropout {p.dropout:g}"] if p.dropout else []), *heads])


def rules(problem: Attention) -> list[str]:
    """The rules that say who may attend, each in a few words; none without a mask."""
    blocks = problem.block_mask
    return [
        *(["causal"] if problem.causal else []),
        *([f"window {problem.window[0]},{problem.window[1]}"] if problem.window else []),
        *(["element mask"] if problem.mask is not None else []),
        *([f"block mask with {blocks.nnz:,} of {blocks.grid[0] * blocks.grid[1]:,} tiles"] if blocks is not None else []),
    ]
