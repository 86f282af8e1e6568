"""Areas: how many pairs of any tile attend, from sums that are made once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iosim.predict.census.tiles import Axis
from iosim.predict.sizes import Bools, Ints


@dataclass(frozen=True, eq=False)  # no slots: the sums are kept
class Areas:
    """Cells, of which the true ones can be counted in the tiles of any grid at the cost of its tiles, not of its cells."""

    cells: Bools

    def in_tiles(self, rows: Axis, cols: Axis) -> Ints:
        """How many are true in each tile."""
        if cols.block == 1:
            return np.diff(self._above[rows.edges], axis=0)
        if rows.block == 1:
            return self._turned.in_tiles(cols, rows).T
        return np.diff(np.diff(self._above_and_left[np.ix_(rows.edges, cols.edges)], axis=0), axis=1)

    @cached_property
    def _above(self) -> Ints:
        """How many are true above row r, in each column."""
        sums = np.zeros((len(self.cells) + 1, self.cells.shape[1]), dtype=np.min_scalar_type(len(self.cells)))
        for r, line in enumerate(self.cells):  # line by line: many times faster than cumsum down the columns
            np.add(sums[r], line, out=sums[r + 1])
        return sums

    @cached_property
    def _above_and_left(self) -> Ints:
        """How many are true above row r and left of column c."""
        sums = np.zeros((len(self.cells) + 1, self.cells.shape[1] + 1), dtype=np.min_scalar_type(self.cells.size))
        np.cumsum(self._above, axis=1, out=sums[:, 1:])
        return sums

    @cached_property
    def _turned(self) -> Areas:
        """The same cells, rows and columns exchanged."""
        return Areas(np.ascontiguousarray(self.cells.T))
