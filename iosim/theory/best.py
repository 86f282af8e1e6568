"""The best blocks: the fewest words of all that fit, found without trying every pair of sizes.

Only outer blocks are searched, each beside an inner block of 1, because cutting inner tiles into single rows never adds

* words: a row meets an outer tile only if the inner tile around it does, so no row makes more visits, nor more after its first,
  and every term grows with those; a mask is read for a row only where the tile around it is partial too;
* residents: the tile around a row holds at least what the row does. Where a row is visited for the first time, so that its O is
  computed and takes more bytes, the tile around it is too, or was before, in a column no narrower.

So the fewest words are found there, and then the inner block grows as far as the words stay the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from iosim.specs import Blocks
from iosim.theory.band import Band, Streams
from iosim.theory.case import Case
from iosim.theory.fitting import largest
from iosim.theory.patterns import Pairs
from iosim.theory.room import Room, room
from iosim.theory.sizes import Int, Ints
from iosim.theory.tiles import Kinds, Tile, axis
from iosim.theory.visits import summed
from iosim.units import Capacity


def best(asked: Case, capacity: Capacity) -> Blocks | None:
    """The blocks that move the fewest words among all that fit; among equals the fewest tiles, then the fewest residents.

    None where no blocks fit. The case must leave the blocks free.
    """
    space = room(asked.problem, capacity.unit)
    if isinstance(asked.pattern, Band | Pairs):
        return _Search(asked, asked.pattern, capacity.amount, space).best()
    return _uniform(asked, capacity.amount, space)


def _uniform(asked: Case, amount: int, space: Room) -> Blocks | None:
    """Where every tile is visited, words fall with the number of outer tiles alone, and the bound on residents is exact."""
    last = asked.problem.n, asked.problem.nk
    outer_rows, inner_rows = last if asked.formula.outside == "queries" else last[::-1]
    outer = largest(lambda block: asked.enough(asked.blocks(block, 1), space), amount, outer_rows)
    if outer == 0:
        return None
    outer = _even(outer_rows, outer)
    inner = largest(lambda block: asked.enough(asked.blocks(outer, block), space), amount, inner_rows)
    return asked.blocks(outer, _even(inner_rows, inner))


def _even(rows: int, block: int) -> int:
    """The smallest block that cuts ``rows`` into as few tiles as ``block`` does."""
    return -(-rows // -(-rows // block))


class _Found(NamedTuple):
    """Blocks that move the fewest words, in the order of preference."""

    tiles: int
    residents: int
    outer: int
    inner: int


@dataclass(frozen=True, slots=True)
class _Search:
    """The search where some tiles are not visited, so that words need not fall as blocks grow."""

    asked: Case
    pattern: Band | Pairs
    amount: int
    space: Room

    @property
    def keys_outside(self) -> bool:
        return self.asked.formula.outside == "keys"

    @property
    def lying(self) -> Band | Pairs:
        """The pattern with the axis of the outer loop as its rows."""
        return self.pattern.transposed() if self.keys_outside else self.pattern

    @property
    def rows(self) -> tuple[int, int]:
        """The rows of the outer axis and of the inner one."""
        n, nk = self.asked.problem.n, self.asked.problem.nk
        return (nk, n) if self.keys_outside else (n, nk)

    def best(self) -> Blocks | None:
        """The best blocks, or None where none fit."""
        if self.asked.smallest(self.space) > self.amount:
            return None
        met = self.lying.queries
        if met == 0:
            return Blocks(1, 1)  # nothing is visited, whatever the blocks
        limit = largest(lambda outer: int(self.floor(outer, 1, [(min(outer, met), 1)])), self.amount, self.rows[0])
        words = self.words(self.lying.streams(np.arange(1, limit + 1)))
        ranked = (np.argsort(words, kind="stable") + 1).tolist()
        least = next(int(words[outer - 1]) for outer in ranked if self.fits(outer))
        found: _Found | None = None
        for outer in ranked:
            if words[outer - 1] == least and self.fits(outer):
                found = self.grown(outer, least, found)
        return None if found is None else self.asked.blocks(found.outer, found.inner)

    def words(self, streams: Streams) -> Ints:
        """The words that outer blocks move beside single inner rows."""
        length, area, met, met_inner, partial = streams
        queries, keys = (length, area) if self.keys_outside else (area, length)
        queries_met, keys_met = (met_inner, met) if self.keys_outside else (met, met_inner)
        visits = summed(
            queries=queries,
            queries_met=queries_met,
            queries_unmet=self.asked.problem.n - queries_met,
            keys=keys,
            keys_met=keys_met,
            pairs=area,
            elements=None if self.asked.problem.mask is None else partial,
        )
        return np.asarray(sum(term.total for term in self.asked.terms_of(visits)))

    def fits(self, outer: int) -> bool:
        """Whether an outer block fits beside single inner rows: at once where it must, else by the tiles that occur."""
        blocks = self.asked.blocks(outer, 1)
        return self.asked.enough(blocks, self.space) <= self.amount or self.asked.residents(blocks, self.space) <= self.amount

    def floor(self, outer: int, inner: Int, met: list[tuple[int, int]]) -> Int:
        """What blocks need at least, where outer tiles of ``met`` (rows, inner rows that visit them) occur.

        Inner rows that visit the same outer tile do not all lie in a last tile that is smaller than they are many.
        """
        rows, cols = self.asked.sides(outer, inner)
        visited = (Tile(*self.asked.sides(size, np.minimum(inner, length)), full=True, first=False) for size, length in met)
        return self.asked.peak(Kinds(rows, cols, tuple(visited), met=tuple(size for size, _ in met)), self.space)

    def grown(self, outer: int, least: int, found: _Found | None) -> _Found | None:
        """The better of ``found`` and the best blocks with ``outer`` that move ``least`` words."""
        tiles = axis(self.rows[0], outer)
        lengths = self.lying.lines(tiles)
        longest = int(lengths[:-1].max(initial=0)), int(lengths[-1])
        met = [(size, length) for size, length in zip(tiles.sizes, longest, strict=True) if length]
        limit = largest(lambda inner: int(self.floor(outer, inner, met)), self.amount, self.rows[1])
        inners = np.arange(limit, 0, -1)
        fewest, least_room = -(-lengths.sum() // inners), np.broadcast_to(self.floor(outer, inners, met), inners.shape)
        cut = replace(self.asked, pattern=self.pattern.cut(cols=tiles) if self.keys_outside else self.pattern.cut(rows=tiles))
        for hope in zip(fewest.tolist(), least_room.tolist(), inners.tolist(), strict=True):
            if found is None or hope[:2] < found[:2]:
                found = self.better(cut, outer, hope[2], least, found)
        return found

    def better(self, cut: Case, outer: int, inner: int, least: int, found: _Found | None) -> _Found | None:
        """``found``, or the blocks ``outer`` by ``inner`` where they fit, move ``least`` words and are preferred."""
        blocks = cut.blocks(outer, inner)
        census = cut.census(blocks)
        residents = cut.residents_of(census, blocks, self.space)
        if residents > self.amount or sum(term.total for term in cut.terms(census)) != least:
            return found
        new = _Found(int(census.visited.sum()), residents, outer, inner)
        return new if found is None else min(found, new)
