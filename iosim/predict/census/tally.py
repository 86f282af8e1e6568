"""Tallies: how many tiles of each kind are visited on many grids at once, where it does not matter which visits are first ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.predict.census.tiles import Kinds, Tile
from iosim.predict.census.visits import Visits, summed
from iosim.predict.sizes import Bools, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """``rows`` of an array cut in many ways: into tiles of each height in ``block``, of which the last may be shorter."""

    rows: int
    block: Ints

    @property
    def count(self) -> Ints:
        """The number of tiles."""
        return -(-self.rows // self.block)

    @property
    def sizes(self) -> tuple[Ints, Ints]:
        """Rows of any tile but the last, and of the last."""
        return self.block, self.rows - (self.count - 1) * self.block


class Sums(NamedTuple):
    """What :class:`iosim.predict.census.visits.Visits` are made of, one number a grid; ``elements`` is the area of the partial tiles."""

    queries: Ints
    keys: Ints
    pairs: Ints
    elements: Ints
    queries_met: Ints
    keys_met: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """How many tiles of each kind a kernel visits; the last axis of every array counts the grids.

    ``visited[r, c, full]``: tiles; r and c are 1 for the last tile of their axis, as in a :class:`iosim.predict.census.tiles.Census`.
    ``met_rows[r]``, ``met_cols[c]``: query tiles that visit anything, and key tiles that some query tile visits.
    """

    rows: Cuts
    cols: Cuts
    visited: Ints
    met_rows: Ints
    met_cols: Ints

    @property
    def tiles(self) -> Ints:
        """Tiles in all."""
        return np.asarray(self.visited.sum(axis=(0, 1, 2)))

    @property
    def sums(self) -> Sums:
        """The rows and pairs of the visited tiles."""
        high, wide = np.stack(self.rows.sizes), np.stack(self.cols.sizes)
        area, partial = high[:, None] * wide, self.visited[:, :, 0]
        both = self.visited.sum(axis=2)
        return Sums(
            queries=(high[:, None] * both).sum(axis=(0, 1)),
            keys=(wide * both).sum(axis=(0, 1)),
            pairs=(area * both).sum(axis=(0, 1)),
            elements=(area * partial).sum(axis=(0, 1)),
            queries_met=(high * self.met_rows).sum(axis=0),
            keys_met=(wide * self.met_cols).sum(axis=0),
        )

    def visits(self, *, elements: bool) -> Visits:
        """What the visited tiles amount to."""
        sums = self.sums
        given = sums._asdict() | {"elements": sums.elements if elements else None}
        return summed(**given, queries_unmet=self.rows.rows - sums.queries_met, cols=self.cols.block)

    def kinds(self) -> Kinds:
        """The tiles that occur; in place of those that do not, tiles of no rows. None is said to be a first one."""
        down, across = (np.stack([cuts.count - 1, np.ones_like(cuts.count)]) for cuts in (self.rows, self.cols))
        missing = self.visited.sum(axis=2) < down[:, None] * across
        visited = tuple(self._tile(r, c, self.visited[r, c, full] > 0, full=bool(full)) for r, c, full in np.ndindex(2, 2, 2))
        unseen = tuple(self._tile(r, c, missing[r, c], full=False) for r, c in np.ndindex(2, 2))
        return Kinds(self.rows.block, self.cols.block, visited, unseen)

    def _tile(self, r: int, c: int, occurs: Bools, *, full: bool) -> Tile:
        return Tile(np.where(occurs, self.rows.sizes[r], 0), np.where(occurs, self.cols.sizes[c], 0), full, first=False)
