"""Lower bounds: what no algorithm can do without."""

from __future__ import annotations

import numpy as np

from iosim.masks.block import BlockMask
from iosim.specs import Attention
from iosim.theory.band import Band
from iosim.theory.patterns import Pairs, pattern
from iosim.theory.tiles import axis


def compulsory(problem: Attention) -> int | None:
    """Words that one KV head and its group move whatever the algorithm and the SRAM: each row that is used, once, and O.

    Used are the queries that attend to something, and the keys and values that somebody attends to: without a mask
    N_q (d + d_v) + N_k (d + d_v). None where a block mask and another rule are combined. (Where a query attends to a single key,
    its output is that key's value whatever Q and K hold; no algorithm is expected to look for such queries.)

    >>> compulsory(Attention(n=1024, d=64))
    262144
    """
    used = _used(problem)
    if used is None:
        return None
    queries, keys = used
    of_queries = queries * problem.d + problem.n * problem.dv
    return problem.group * of_queries + keys * (problem.d + problem.dv)


def pairs(problem: Attention) -> int | None:
    """How many pairs of one head attend; None where a block mask and another rule are combined, unless an element mask is among them.

    >>> pairs(Attention(n=4, d=1, causal=True))
    10
    """
    if problem.block_mask is not None and problem.mask is None:
        return _covered_pairs(problem.block_mask) if problem.band is None else None
    who = pattern(problem)
    if isinstance(who, Pairs):
        return int(np.count_nonzero(who.keep))
    return _in_band(who) if isinstance(who, Band) else problem.n * problem.nk


def _in_band(band: Band) -> int:
    """The pairs of a band, counted query by query."""
    span = band.visited(axis(band.n, 1), axis(band.nk, 1))
    return int(np.maximum(span.stop - span.start, 0).sum())


def _covered_pairs(mask: BlockMask) -> int:
    """The pairs in the tiles of a block mask."""
    down, across = (np.minimum(block, size - np.arange(0, size, block)) for block, size in ((mask.rows, mask.n), (mask.cols, mask.nk)))
    return int((down[mask.rows_of()] * across[mask.indices]).sum())


def _used(problem: Attention) -> tuple[int, int] | None:
    """How many queries attend to something, and how many keys somebody attends to."""
    if problem.block_mask is not None:
        alone = problem.band is None and problem.mask is None
        return _covered(problem.block_mask) if alone else None
    who = pattern(problem)
    return (who.queries, who.keys) if isinstance(who, Band | Pairs) else (problem.n, problem.nk)


def _covered(mask: BlockMask) -> tuple[int, int]:
    """How many rows and columns of pairs lie in tiles of a block mask."""
    rows, cols = np.flatnonzero(np.diff(mask.indptr)), np.unique(mask.indices)
    down = np.minimum(mask.rows, mask.n - rows * mask.rows)
    across = np.minimum(mask.cols, mask.nk - cols * mask.cols)
    return int(down.sum()), int(across.sum())
