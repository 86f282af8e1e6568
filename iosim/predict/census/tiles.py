"""Tiles of a grid, and the census of those that a loop nest visits: how many there are of each kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.predict.sizes import Bools, Int, Ints


class Tile(NamedTuple):
    """A kind of tile: its size, whether all its pairs attend, whether it is the first that its query tile meets."""

    rows: Int
    cols: Int
    full: bool
    first: bool


@dataclass(frozen=True, slots=True)
class Axis:
    """``rows`` of an array cut into tiles of ``block`` rows, of which the last may be shorter."""

    rows: int
    block: int

    @property
    def count(self) -> int:
        """The number of tiles."""
        return -(-self.rows // self.block)

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of any tile but the last, and of the last."""
        return self.block, self.rows - (self.count - 1) * self.block

    @property
    def numbers(self) -> tuple[int, int]:
        """How many tiles there are of each of ``sizes``."""
        return self.count - 1, 1

    @property
    def starts(self) -> Ints:
        """The first row of every tile."""
        return np.arange(0, self.rows, self.block, dtype=np.int64)

    @property
    def edges(self) -> Ints:
        """The same, and where the last tile ends."""
        return np.append(self.starts, self.rows)


def axis(rows: int, block: int) -> Axis:
    """``rows`` cut into tiles of ``block``; a block beyond the end is clipped to it."""
    return Axis(rows, min(rows, block))


@dataclass(frozen=True, slots=True)
class Census:
    """How many tiles of each kind a kernel visits on a grid of ``rows`` (query tiles) by ``cols`` (key tiles).

    ``visited[r, c, full, first]`` counts tiles; r and c are 1 for the last tile of their axis, which may be shorter.
    ``met`` counts the key tiles that some query tile visits: all but the last, and the last.
    """

    rows: Axis
    cols: Axis
    visited: Ints
    met: tuple[int, int]

    def kinds(self) -> list[tuple[Tile, int]]:
        """Every kind of tile that is visited, and how often."""
        return [
            (Tile(self.rows.sizes[r], self.cols.sizes[c], bool(full), bool(first)), int(number))
            for (r, c, full, first), number in np.ndenumerate(self.visited)
            if number
        ]

    def unseen(self) -> tuple[Tile, ...]:
        """The kinds of tile that are not visited."""
        seen = self.visited.sum(axis=(2, 3))
        return tuple(
            Tile(self.rows.sizes[r], self.cols.sizes[c], full=False, first=False)
            for r, c in np.ndindex(2, 2)
            if seen[r, c] < self.rows.numbers[r] * self.cols.numbers[c]
        )

    def unmet(self) -> tuple[int, int]:
        """How many query tiles visit nothing: all but the last, and the last."""
        begun = self.visited[..., 1].sum(axis=(1, 2))  # a query tile that visits anything has exactly one first tile
        return self.rows.numbers[0] - int(begun[0]), self.rows.numbers[1] - int(begun[1])


def of_entries(rows: Axis, cols: Axis, i: Ints, j: Ints, full: Bools) -> Census:
    """The census of visited tiles (i, j), sorted by i, then j, each ``full`` or not."""
    first = np.diff(i, prepend=-1) > 0
    code = (((i == rows.count - 1) * 2 + (j == cols.count - 1)) * 2 + full) * 2 + first
    met = np.bincount(j, minlength=cols.count) > 0
    return Census(rows, cols, np.bincount(code, minlength=16).reshape(2, 2, 2, 2), split(met))


def split(lines: Ints | Bools) -> tuple[int, int]:
    """Summed over all tiles of an axis but the last, and for the last."""
    return int(lines[:-1].sum()), int(lines[-1])


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of tile that take room, for peaks of SRAM: plain integers, or arrays of them for many blocks at once.

    ``rows`` x ``cols`` are the largest tiles of the two axes; ``visited`` and ``unseen`` tiles of the grid, ``met`` key tiles
    that some query tile visits and ``unmet`` query tiles that visit nothing are those that occur.
    """

    rows: Int
    cols: Int
    visited: tuple[Tile, ...] = ()
    unseen: tuple[Tile, ...] = ()
    met: tuple[Int, ...] = ()
    unmet: tuple[Int, ...] = ()
