"""Bands: which tiles causal and window rules visit, computed from the indices of the tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.theory.sizes import Int, Ints, ceil_div
from iosim.theory.tiles import Axis, Census, split


class Span(NamedTuple):
    """For every line of tiles, the tiles ``start .. stop - 1`` across it; none where stop <= start."""

    start: Ints
    stop: Ints

    def __and__(self, other: Span) -> Span:
        return Span(np.maximum(self.start, other.start), np.minimum(self.stop, other.stop))

    def tally(self, across: Axis) -> Ints:
        """The number of tiles ``[last line?, last tile across?]``."""
        length = np.maximum(self.stop - self.start, 0)
        last = (self.start < across.count) & (self.stop == across.count)
        return np.array([split(length - last), split(last)]).T


class Streams(NamedTuple):
    """What the tiles of an outer loop visit, for many block sizes at once, where the inner loop goes row by row.

    ``length``: inner rows, summed over the outer tiles; ``area``: the same times the rows of the tile; ``met``: rows of the outer
    tiles that visit anything; ``met_inner``: inner rows that are visited at all; ``partial``: the area that is partly hidden, 0 for
    rules that need no mask to be read.
    """

    length: Ints
    area: Ints
    met: Ints
    met_inner: int
    partial: Int


@dataclass(frozen=True, slots=True)
class Band:
    """Query r may attend to key c where r + nk - n - left <= c <= r + nk - n + right."""

    n: int
    nk: int
    left: int
    right: int

    @property
    def offset(self) -> int:
        """How far the last key is ahead of the last query: the rule is aligned bottom-right."""
        return self.nk - self.n

    @property
    def cuts_nothing(self) -> bool:
        """Whether the first query reaches the last key and the last query the first key."""
        return self.right >= self.n - 1 and self.left >= self.nk - 1

    @property
    def queries(self) -> int:
        """Queries that attend to something; they are the last ones."""
        return self.n - min(self.n, max(0, -self.offset - self.right))

    def transposed(self) -> Band:
        """The same band, seen from the keys: rows and columns change places."""
        return Band(self.nk, self.n, self.right, self.left)

    def visited(self, rows: Axis, cols: Axis) -> Span:
        """The key tiles that each query tile visits: the block range of the FlashAttention-2 kernels.

        n_max = min(ceil(N_k / Bc), ceil(((i + 1) Br + N_k - N_q + right) / Bc)), n_min = max(0, floor((i Br + N_k - N_q - left) / Bc)).
        """
        top = rows.starts + self.offset
        n_max = np.minimum(cols.count, ceil_div(top + rows.block + self.right, cols.block))
        n_min = np.maximum(0, (top - self.left) // cols.block)
        return Span(n_min, n_max)

    def full(self, rows: Axis, cols: Axis) -> Span:
        """The key tiles in which every query of a tile attends to every key: what its first and its last query share."""
        top = rows.starts + self.offset
        bottom = np.minimum(top + rows.block, self.nk) - 1
        stop = top + self.right + 1
        return Span(
            np.maximum(0, ceil_div(bottom - self.left, cols.block)),
            np.where(stop >= self.nk, cols.count, stop // cols.block),
        )

    def begun(self, rows: Axis, cols: Axis) -> Span:
        """The query tiles for which a key tile j is the first: those with n_min = j, so floor((i Br + N_k - N_q - left) / Bc) = j."""
        reach = self.left - self.offset
        edges = np.maximum(0, ceil_div(cols.starts + reach, rows.block))
        edges[0] = 0  # whoever reaches before key 0 begins there
        return Span(edges, np.append(edges[1:], rows.count))

    def census(self, rows: Axis, cols: Axis) -> Census:
        """The tiles that are visited; costs as much as the axis that has fewer tiles."""
        met = cols.count - (self.nk - self.transposed().queries) // cols.block  # the keys that are met are the last ones
        if rows.count <= cols.count:
            lines = self.visited(rows, cols)
            tiles = _tallies(lines, self.full(rows, cols), Span(lines.start, lines.start + 1), cols)
        else:
            across = self.transposed()
            lines = across.visited(cols, rows)
            tiles = _tallies(lines, across.full(cols, rows), self.begun(rows, cols), rows).transpose(1, 0, 2, 3)
        return Census(rows, cols, tiles, (met - 1, 1))

    def streams(self, block: Ints) -> Streams:
        """What query tiles of each height in ``block`` visit where key tiles are one row high."""
        tiles = ceil_div(self.n, block)
        begin = self.offset - self.left
        length = self._ramp(block + self.offset + self.right, block, tiles) - self._ramp(begin, block, tiles)
        missing = tiles * block - self.n  # the last tile is so much shorter, and ends at the last key
        last = self.nk - np.clip(begin + (tiles - 1) * block, 0, self.nk)
        met = self.n - (self.n - self.queries) // block * block
        return Streams(length, length * block - missing * last, met, self.transposed().queries, 0)

    def lines(self, rows: Axis) -> Ints:
        """The keys that each query tile visits, where key tiles are one row high."""
        span = self.visited(rows, Axis(self.nk, 1))
        return np.asarray(np.maximum(0, span.stop - span.start))

    def cut(self, rows: Axis | None = None, cols: Axis | None = None) -> Band:
        """The band itself: no work on its tiles can be done beforehand."""
        return self

    def _ramp(self, start: Int, step: Ints, count: Int) -> Ints:
        """The sum of clip(start + i step, 0, nk) over i < count, without a loop."""
        return _below(self.nk, start, step, count) - _below(0, start, step, count)


def _below(limit: int, start: Int, step: Ints, count: Int) -> Ints:
    """The sum of min(start + i step, limit) over i < count."""
    rising = np.clip(ceil_div(limit - start, step), 0, count)
    return np.asarray(rising * start + step * (rising * (rising - 1) // 2) + (count - rising) * limit)


def _tallies(visited: Span, full: Span, first: Span, across: Axis) -> Ints:
    """Counts ``[last line?, last tile across?, full?, first?]`` of the tiles that each line visits, and of those among them that are so."""
    everything, whole, begun = (span.tally(across) for span in (visited, visited & full, visited & first))
    both = (visited & full & first).tally(across)
    partial = np.stack([everything - whole - begun + both, begun - both], axis=-1)
    return np.asarray(np.stack([partial, np.stack([whole - both, both], axis=-1)], axis=-2))
