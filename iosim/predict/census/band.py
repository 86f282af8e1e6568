"""Bands: which tiles causal and window rules visit, computed from the indices of the tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.predict.census.tally import Cuts, Tally
from iosim.predict.census.tiles import Axis, Census, split
from iosim.predict.sizes import Ints, ceil_div, floors


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

    @property
    def keys(self) -> int:
        """Keys that some query attends to; the last ones, too."""
        return self.transposed().queries

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
        met = cols.count - (self.nk - self.keys) // cols.block  # the keys that are met are the last ones
        if rows.count <= cols.count:
            lines = self.visited(rows, cols)
            tiles = tallies(lines, self.full(rows, cols), Span(lines.start, lines.start + 1), cols)
        else:
            across = self.transposed()
            lines = across.visited(cols, rows)
            tiles = tallies(lines, across.full(cols, rows), self.begun(rows, cols), rows).transpose(1, 0, 2, 3)
        return Census(rows, cols, tiles, (met - 1, 1))

    def tally(self, rows: Ints, cols: Ints) -> Tally:
        """The tiles that are visited on each grid of ``rows`` x ``cols``, without a loop over tiles. Whether they are full does not matter
        to a rule that no words are read for: all are counted as such.
        """  # fmt: skip
        down, across = Cuts(self.n, rows), Cuts(self.nk, cols)
        begin, end = self.offset - self.left, self.offset + self.right + rows
        tiles = _clipped(end, rows, down.count, cols, across.count) - _clipped(begin - cols + 1, rows, down.count, cols, across.count)
        lowest = across.count - np.maximum(0, (begin + (down.count - 1) * rows) // cols)  # of the last query tile, down to the last key
        rightmost = down.count - np.clip(((across.count - 1) * cols - end) // rows + 1, 0, down.count)  # of the last key tile, likewise
        last = np.ones_like(tiles)
        visited = np.array([[tiles - lowest - rightmost + 1, rightmost - 1], [lowest - 1, last]])
        met_rows = down.count - 1 - (self.n - self.queries) // rows  # the queries and the keys that are met are the last ones
        met_cols = across.count - 1 - (self.nk - self.keys) // cols
        return Tally(
            down, across, np.stack([np.zeros_like(visited), visited], axis=2), np.stack([met_rows, last]), np.stack([met_cols, last])
        )


def _clipped(start: Ints, step: Ints, count: Ints, block: Ints, most: Ints) -> Ints:
    """The sum of clip(ceil((start + i step) / block), 0, most) over i < count, without a loop."""
    low: Ints = np.clip(-((start - 1) // step), 0, count)
    high: Ints = np.clip(((most - 1) * block - start) // step + 1, low, count)
    return floors(high - low, start + low * step + block - 1, step, block) + (count - high) * most


def tallies(visited: Span, full: Span, first: Span, across: Axis) -> Ints:
    """Counts ``[last line?, last tile across?, full?, first?]`` of the tiles that each line visits, and of those among them that are so."""
    everything, whole, begun = (span.tally(across) for span in (visited, visited & full, visited & first))
    both = (visited & full & first).tally(across)
    partial = np.stack([everything - whole - begun + both, begun - both], axis=-1)
    return np.asarray(np.stack([partial, np.stack([whole - both, both], axis=-1)], axis=-2))
