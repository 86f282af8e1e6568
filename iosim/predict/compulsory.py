"""What any algorithm must touch: the pairs that attend, the rows that are used, and the words that cross once at least."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from iosim.core.masks.block import BlockMask
from iosim.core.problem import Attention
from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Entries, Pairs, pattern
from iosim.predict.sizes import Int, Ints


class Attending(NamedTuple):
    """How many ``pairs`` of one head attend, how many ``queries`` attend to something, how many ``keys`` are attended to."""

    pairs: int
    queries: int
    keys: int


def attending(problem: Attention) -> Attending:
    """Who attends in ``problem``, all rules together, exactly; dropout, which comes after the softmax, hides nobody.

    A block mask costs what its kept tiles cost, an element mask what its pairs cost.

    >>> attending(Attention(n=4, d=1, causal=True))
    Attending(pairs=10, queries=4, keys=4)
    """
    who = pattern(problem)
    if isinstance(who, Pairs):
        return Attending(int(np.count_nonzero(who.keep)), who.queries, who.keys)
    if isinstance(who, Band):
        return Attending(_in_band(who), who.queries, who.keys)
    if isinstance(who, Entries) and problem.block_mask is not None:
        return _in_tiles(who, problem.block_mask)
    return Attending(problem.n * problem.nk, problem.n, problem.nk)


def compulsory(problem: Attention, who: Attending | None = None) -> int:
    """Words that one KV head and its group move forward whatever the algorithm and the SRAM: each row that is used, once, and O.

    Used are the queries that attend to something, and the keys and values that somebody attends to: without a mask
    N_q (d + d_v) + N_k (d + d_v). (Where a query attends to a single key, its output is that key's value whatever Q and K hold; no
    algorithm is expected to look for such queries.) ``who``: :func:`attending`, where it is known already.

    >>> compulsory(Attention(n=1024, d=64))
    262144
    """
    _, queries, keys = who or attending(problem)
    of_queries = queries * problem.d + problem.n * problem.dv
    return problem.group * of_queries + keys * (problem.d + problem.dv)


def compulsory_backward(problem: Attention, who: Attending | None = None) -> int:
    """The same for the backward pass: Q, K, V and dO where they are used, and dQ, dK and dV, which are written whole.

    Without a mask N_q (2 d + d_v) + 2 N_k (d + d_v). What the forward pass left, O and its statistics or P, is not counted: which of them
    is read differs from kernel to kernel. The gradients of K and V are those of the whole group.

    >>> compulsory_backward(Attention(n=1024, d=64))
    458752
    """
    _, queries, keys = who or attending(problem)
    d, dv = problem.d, problem.dv
    return problem.group * (queries * (d + dv) + problem.n * d) + (keys + problem.nk) * (d + dv)


def _in_band(band: Band) -> int:
    """The pairs of a band: one tile, of all pairs."""
    return int(_within(band.offset - band.left, band.offset + band.right, band.n, band.nk))


def _in_tiles(kept: Entries, mask: BlockMask) -> Attending:
    """Who attends in the tiles of a block mask, where a band does not hide it: counted tile by tile."""
    top, left = kept.row * mask.rows, kept.col * mask.cols
    high, wide = np.minimum(mask.rows, mask.n - top), np.minimum(mask.cols, mask.nk - left)
    ahead = top + kept.band.offset - left
    # The band from inside a tile: its query i attends to its keys from i + low to i + high.
    low, up = (np.clip(ahead + reach, -high - 1, wide) for reach in (-kept.band.left, kept.band.right))
    queries = _covered(top + np.maximum(0, -up), top + np.minimum(high, wide - low))
    keys = _covered(left + np.maximum(0, low), left + np.minimum(wide, high + up))
    return Attending(int(np.sum(_within(low, up, high, wide))), queries, keys)


def _within(low: Int, up: Int, high: Int, wide: Int) -> Int:
    """The pairs (i, j) of a tile of ``high`` x ``wide`` with i + low <= j <= i + up."""
    return _up_to(up, high, wide) - _up_to(low - 1, high, wide)


def _up_to(shift: Int, high: Int, wide: Int) -> Int:
    """The pairs (i, j) of a tile with j <= i + shift: the sum of clip(i + shift + 1, 0, wide) over its rows i."""
    return _triangle(shift + high) - _triangle(shift) - _triangle(shift + high - wide) + _triangle(shift - wide)


def _triangle(side: Int) -> Int:
    """1 + 2 + ... + side; 0 for a negative side."""
    return side * (side + 1) // 2 * (side > 0)


def _covered(start: Ints, stop: Ints) -> int:
    """How many whole numbers lie in at least one of the intervals ``start <= x < stop``, where start >= 0."""
    order = np.argsort(start, kind="stable")
    start, stop = start[order], stop[order]
    reached = np.maximum.accumulate(np.append(0, stop))[:-1]
    return int(np.maximum(stop - np.maximum(start, reached), 0).sum())
