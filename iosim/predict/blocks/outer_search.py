"""The best blocks where the block of the outer loop alone decides the words, and a mask leaves some tiles out.

Only outer blocks are searched, each beside an inner block of 1, because cutting inner tiles into single rows never adds

* words: a row meets an outer tile only if the inner tile around it does, so no row makes more visits, nor more after its first; a
  mask is read for a row only where the tile around it is partial too; and a row that is never visited moves no more than one that is;
* residents: the tile around a row holds at least what the row does. Where a row is visited for the first time, so that what is made
  there takes more room, the tile around it is too, or was before, in a column no narrower: with two rows or more of a full
  tile, which take no less than one row and its mask.

So the fewest words are found there, and then the inner block grows as far as the words stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.core.problem import Blocks
from iosim.predict.blocks.fitting import largest
from iosim.predict.blocks.sides import Side, key_side, query_side, rounds
from iosim.predict.case import Case
from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.tiles import Kinds, Tile
from iosim.predict.room import Room
from iosim.predict.sizes import Ints

_PART = 2**20  # pairs of blocks that are looked at together


class _Found(NamedTuple):
    """Blocks that move the fewest words, in the order of preference."""

    tiles: int
    residents: int
    blocks: tuple[int, int]


@dataclass(frozen=True, slots=True)
class OuterSearch:
    """The search over outer blocks; words need not fall as they grow."""

    asked: Case
    pattern: Band | Pairs
    amount: int
    space: Room

    @property
    def keys_outside(self) -> bool:
        """Whether the outer loop runs over keys."""
        return self.asked.formula.outside == "keys"

    def best(self) -> Blocks | None:
        """The best blocks, or None where none fit."""
        if self.asked.smallest(self.space) > self.amount:
            return None
        if self.pattern.queries == 0:
            return Blocks(1, 1)  # nothing is visited, whatever the blocks
        side, tally = (key_side if self.keys_outside else query_side)(self.pattern, self.outers())
        words = self.asked.words(tally)
        may_fit = np.flatnonzero(self.needs(side, np.ones_like(side.block)) <= self.amount)
        ranked = may_fit[np.argsort(words[may_fit], kind="stable")]
        least = next(int(words[place]) for place in ranked if self.fits(int(side.block[place])))
        return self.grown(side.at(np.flatnonzero(words == least)), least)

    def outers(self) -> Ints:
        """The outer blocks that may fit beside single rows: some tile holds a whole block of rows that are met, or all of them."""
        met, rows = (self.pattern.keys, self.asked.problem.nk) if self.keys_outside else (self.pattern.queries, self.asked.problem.n)

        def needs(outer: int) -> int:
            tile = Tile(*self.asked.sides(min(outer, met), 1), full=True, first=False)
            return int(self.asked.peak(Kinds(*self.asked.sides(outer, 1), (tile,)), self.space))

        return np.arange(1, largest(needs, self.amount, rows) + 1)

    def needs(self, side: Side, inner: Ints) -> Ints:
        """What the outer blocks of ``side`` need at least beside ``inner`` ones."""
        tiles = side.occurring(inner, turned=self.keys_outside)
        return np.asarray(self.asked.peak(Kinds(*self.asked.sides(side.block, inner), tiles), self.space))

    def fits(self, outer: int) -> bool:
        """Whether an outer block fits beside single inner rows: at once where it must, else by the tiles that occur."""
        blocks = self.asked.blocks(outer, 1)
        return self.asked.enough(blocks, self.space) <= self.amount or self.asked.residents(blocks, self.space) <= self.amount

    def grown(self, side: Side, least: int) -> Blocks:
        """The best blocks of those that move ``least`` words, some outer blocks of ``side`` beside single rows among them."""
        inner = np.arange(1, (self.asked.problem.n if self.keys_outside else self.asked.problem.nk) + 1)
        found = _Found(np.iinfo(np.int64).max, 0, (1, 1))
        step = max(1, _PART // len(inner))
        for start in range(0, len(side.block), step):
            part = side.at(slice(start, start + step))
            tiles, room = -(-part.cells[:, None] // inner), self.needs(part.column(), inner)
            i, j = np.nonzero((room <= self.amount) & (tiles <= found.tiles))
            tiles, room, outers, inners = tiles[i, j], room[i, j], part.block[i], inner[j]
            for some in rounds(np.lexsort((room, tiles))):
                if (int(tiles[some[0]]), int(room[some[0]])) >= found[:2]:
                    break
                found = self.better(found, outers[some], inners[some], room[some], least)
        return Blocks(*found.blocks)

    def better(self, found: _Found, outer: Ints, inner: Ints, room: Ints, least: int) -> _Found:
        """``found``, or the best of these blocks, which need ``room`` at least, if they fit, move ``least`` words and are better."""
        rows, cols = self.asked.sides(outer, inner)
        tally = self.pattern.tally(rows, cols)
        tiles, moved = tally.tiles, self.asked.words(tally)
        for place in np.lexsort((room, tiles)):
            if moved[place] == least and (int(tiles[place]), int(room[place])) < found[:2]:
                blocks = Blocks(int(rows[place]), int(cols[place]))
                residents = self.asked.residents(blocks, self.space)
                if residents <= self.amount:
                    found = min(found, _Found(int(tiles[place]), residents, (blocks.rows, blocks.cols)))
        return found
