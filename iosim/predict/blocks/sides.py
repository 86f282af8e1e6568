"""Sides: what the blocks of one axis bring with them, whatever the blocks of the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.tally import Cuts, Tally
from iosim.predict.census.tiles import Tile
from iosim.predict.sizes import Ints

_FIRST = 2**10  # candidates that are counted exactly in the first round


class Side(NamedTuple):
    """Blocks of one axis beside single rows of the other.

    ``cells``: single rows that their tiles meet, in all, ``pairs`` the area of those, and ``elements`` of those met in part. Some tile of
    ``size`` rows meets ``seen`` single rows at least, and some tile of as many rows ``hidden`` ones, at least, in part.
    """

    block: Ints
    cells: Ints
    pairs: Ints
    elements: Ints
    size: Ints
    seen: Ints
    hidden: Ints

    def at(self, places: Ints | slice) -> Side:
        """Some of the blocks, in any order."""
        return Side(*(column[places] for column in self))

    def column(self) -> Side:
        """The same one below the other, to be set beside every block of the other axis."""
        return Side(*(column[:, None] for column in self))

    def occurring(self, other: Ints, *, turned: bool = False) -> tuple[Tile, Tile]:
        """Tiles that are sure to occur beside blocks of ``other`` rows; ``turned`` where those are the query rows.

        Rows that meet the same tile do not all lie in a last tile that is smaller than they are many.
        """
        seen, hidden = (self.size, np.minimum(other, self.seen)), (self.size, np.minimum(other, self.hidden))
        if turned:
            seen, hidden = seen[::-1], hidden[::-1]
        return Tile(*seen, full=True, first=False), Tile(*hidden, full=False, first=False)


def query_side(pattern: Band | Pairs, block: Ints) -> tuple[Side, Tally]:
    """Query blocks beside single keys."""
    tally = pattern.tally(block, np.ones_like(block))
    return _side(tally, tally.rows, tally.met_rows, tally.visited.sum(axis=1)), tally


def key_side(pattern: Band | Pairs, block: Ints) -> tuple[Side, Tally]:
    """Key blocks beside single queries."""
    tally = pattern.tally(np.ones_like(block), block)
    return _side(tally, tally.cols, tally.met_cols, tally.visited.sum(axis=0)), tally


def _side(tally: Tally, cuts: Cuts, met: Ints, cells: Ints) -> Side:
    """The side of ``cuts``, of whose tiles ``met[last?]`` meet ``cells[last?, full?]`` single rows all together.

    Of the tiles but the last, some meets as many as they do on average.
    """
    body, each = met[0] > 0, np.maximum(met[0], 1)
    seen, hidden = (np.where(body, -(-number[0] // each), number[1]) for number in (cells.sum(axis=1), cells[:, 0]))
    sums = tally.sums
    return Side(cuts.block, tally.tiles, sums.pairs, sums.elements, np.where(body, *cuts.sizes), seen, hidden)


def rounds(order: Ints) -> Iterator[Ints]:
    """``order`` in parts, each twice as long as the one before: most searches end after the first."""
    start, stop = 0, _FIRST
    while start < len(order):
        yield order[start:stop]
        start, stop = stop, 3 * stop - 2 * start
