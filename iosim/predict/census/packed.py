"""Packed heads: the band of a problem whose queries have several rows each, one for every head of a group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.core.errors import BadInput
from iosim.predict.census.band import Band, Span, tallies
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.tiles import Axis, Census
from iosim.predict.sizes import Ints, ceil_div

MOST_PAIRS = 2**26


@dataclass(frozen=True, slots=True)
class PackedBand:
    """The ``band`` of the queries where row r is query r // ``group``."""

    band: Band
    group: int

    def census(self, rows: Axis, cols: Axis) -> Census:
        """The tiles that are visited; costs as much as there are query tiles."""
        lines = self.visited(rows, cols)
        met = cols.count - (self.band.nk - self.band.keys) // cols.block  # the keys that are met are the last ones
        return Census(rows, cols, tallies(lines, self.full(rows, cols), Span(lines.start, lines.start + 1), cols), (met - 1, 1))

    def visited(self, rows: Axis, cols: Axis) -> Span:
        """The key tiles that each query tile visits: from the reach of its first query to that of its last."""
        first, last = self._ends(rows)
        stop = np.minimum(cols.count, ceil_div(last + self.band.right + 1, cols.block))
        return Span(np.maximum(0, (first - self.band.left) // cols.block), np.asarray(stop))

    def full(self, rows: Axis, cols: Axis) -> Span:
        """The key tiles in which the first and the last query of a tile attend to every key."""
        first, last = self._ends(rows)
        stop = first + self.band.right + 1
        return Span(
            np.maximum(0, ceil_div(last - self.band.left, cols.block)),
            np.where(stop >= self.band.nk, cols.count, stop // cols.block),
        )

    def pairs(self) -> Pairs:
        """Every pair by itself, for a search of all blocks; raises :class:`iosim.core.errors.BadInput` where they are too many."""
        b = self.band
        if b.n * self.group * b.nk > MOST_PAIRS:
            raise BadInput(
                f"the best blocks of packed heads under a mask are searched up to {MOST_PAIRS:,} pairs, not {b.n * self.group * b.nk:,}; "
                "ask for blocks='fit', or name them"
            )
        keep = np.tri(b.n, b.nk, b.offset + b.right, dtype=np.bool_) & ~np.tri(b.n, b.nk, b.offset - b.left - 1, dtype=np.bool_)
        rows = keep.repeat(self.group, axis=0)
        return Pairs(rows)

    def _ends(self, rows: Axis) -> tuple[Ints, Ints]:
        """The key opposite the first query of each tile, and that opposite its last."""
        last = np.minimum(rows.starts + rows.block, rows.rows) - 1
        return rows.starts // self.group + self.band.offset, last // self.group + self.band.offset
