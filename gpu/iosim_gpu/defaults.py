"""What the checks measure unless they are told otherwise, and the tiles that the kernels are compiled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim_gpu.case import KERNELS, Case

DQ_PASSES: tuple[Literal["shared", "own"], ...] = ("shared", "own")

D, THREADS = 64, 128
TILES = {kernel: (32, 16) if kernel.endswith("-backward") else (32, 32) for kernel in KERNELS}
"""Br and Bc that leave room in the 48 KB that a block of threads has anywhere, at d = 64."""

SMALL = {"rows": 8, "cols": 12, "d": 16, "threads": 24}
"""Tiles that are quickly simulated: neither side divides the other nor any N below, and threads that neither divide d nor equal it."""

SHAPES: tuple[dict[str, int | bool], ...] = (
    {"n": 37, "nk": 29, "heads": 2},
    {"n": 29, "nk": 29, "causal": True},
    {"n": 19, "nk": 37, "causal": True, "batch": 2},
    {"n": 37, "nk": 19, "causal": True},  # bottom-right: the first 18 queries attend to nothing
)
LARGE = (Case("flash", 64, D, 32, 32, THREADS), Case("flash2", 64, D, 32, 32, THREADS))
"""The tiles that a GPU would be given, where a whole warp reads one row."""
LARGE_TOO = (
    Case("standard", 64, D, 32, 32, THREADS),
    Case("block-sparse", 64, D, 32, 32, THREADS, mask=BlockMask.from_dense([[True, False], [True, True]], 64, 64, 32, 32)),
    Case("flash2-backward", 64, D, 32, 16, THREADS),
)
"""The same of the other kernels, which no GPU profiles."""


def cases(kernels: Sequence[str] = KERNELS) -> list[Case]:
    """Every kernel in its variants: ragged, causal, more queries than keys and fewer, several heads, and masked where it takes a mask."""
    return [case for kernel in kernels for case in _of(kernel)]


def _of(kernel: str) -> list[Case]:
    small = [case for variant in variants(kernel) for case in _small(kernel, variant)]
    return small + [case for case in (*LARGE, *LARGE_TOO) if case.kernel == kernel]


def variants(kernel: str) -> tuple[Literal["shared", "own"], ...]:
    """Where dQ is made, for a kernel that makes one."""
    return DQ_PASSES if kernel.endswith("-backward") else DQ_PASSES[:1]


def _small(kernel: str, dq_pass: Literal["shared", "own"]) -> list[Case]:
    made = []
    for shape in SHAPES:
        mask = striped(int(shape["n"]), int(shape["nk"])) if kernel == "block-sparse" else None
        made.append(Case(kernel, mask=mask, dq_pass=dq_pass, **SMALL, **shape))  # type: ignore[arg-type]  # bool only where it is one
    return made


def striped(n: int, nk: int) -> BlockMask:
    """Tiles on and beside the diagonal, less one empty row and one empty column of tiles."""
    rows, cols = SMALL["rows"], SMALL["cols"]
    i, j = np.indices((-(-n // rows), -(-nk // cols)))
    return BlockMask.from_dense((np.abs(i - j) != 1) & (i != 1) & (j != 1), n, nk, rows, cols)


def compiled(kernel: str, rows: int = 0, cols: int = 0, d: int = D, threads: int = THREADS, *, causal: bool = False) -> list[Case]:
    """One case for each variant of ``kernel`` in these tiles, or its own where a side is 0, to be compiled and not run."""
    if kernel not in KERNELS:
        raise BadInput(f"no CUDA kernel is called {kernel!r}; there are {', '.join(KERNELS)}")
    rows, cols = rows or TILES[kernel][0], cols or TILES[kernel][1]
    mask = BlockMask.from_dense(np.ones((1, 1), bool), rows, cols, rows, cols) if kernel == "block-sparse" else None
    return [Case(kernel, rows, d, rows, cols, threads, nk=cols, causal=causal, mask=mask, dq_pass=one) for one in variants(kernel)]
