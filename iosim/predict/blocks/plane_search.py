"""The best blocks where tiles of both axes are loaded once for each tile of the other, and a mask leaves some tiles out.

Neither block can be left aside, so all pairs of blocks are searched, but for those that their two blocks, each taken alone, rule out.
Cutting the tiles of an axis into single rows never adds words, nor makes tiles larger (see :mod:`iosim.predict.blocks.outer_search`). So
no pair moves less than the keys that its query tiles meet, the queries that its key tiles meet, and the pairs in either; and none needs
less room than tiles that are sure to occur. What is left is counted exactly, the most hopeful pairs first, until none can be better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim.core.problem import Blocks
from iosim.predict.blocks.fitting import farthest, largest, widest
from iosim.predict.blocks.sides import Side, key_side, query_side, rounds
from iosim.predict.case import Case
from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.tiles import Kinds, Tile
from iosim.predict.census.visits import summed
from iosim.predict.room import Room
from iosim.predict.sizes import Bools, Int, Ints

_PART = 2**18  # pairs of blocks that are looked at together


class _Found(NamedTuple):
    """Blocks that fit, in the order of preference; words beyond those that move whatever the blocks."""

    words: int
    tiles: int
    residents: int
    rows: int
    cols: int


@dataclass(frozen=True, slots=True)
class PlaneSearch:
    """The search over pairs of blocks."""

    asked: Case
    pattern: Band | Pairs
    amount: int
    space: Room

    def best(self) -> Blocks | None:
        """The best blocks, or None where none fit."""
        if self.asked.smallest(self.space) > self.amount:
            return None
        if self.pattern.queries == 0:
            return Blocks(1, 1)  # nothing is visited, whatever the blocks
        tall, _ = query_side(self.pattern, self.alone(lambda block: (block, 1), self.asked.problem.n, self.pattern.queries))
        wide, _ = key_side(self.pattern, self.alone(lambda block: (1, block), self.asked.problem.nk, self.pattern.keys))
        found = min(self.counted(*self.tries(max(len(tall.block), len(wide.block)))))
        hope, rows, cols = (np.concatenate(parts) for parts in zip(*self.hopes(tall, wide, found.words), strict=True))
        for some in rounds(np.argsort(hope)):
            if hope[some[0]] > found.words:
                break
            found = min([found, *self.counted(rows[some], cols[some])])
        return Blocks(found.rows, found.cols)

    def alone(self, size: Callable[[int], tuple[int, int]], rows: int, met: int) -> Ints:
        """The blocks of an axis of ``rows``, of which ``met`` meet anything, that may fit beside single rows: in tiles of ``size``."""

        def needs(block: int) -> int:
            return int(self.asked.peak(Kinds(*size(block), (Tile(*size(min(block, met)), full=True, first=False),)), self.space))

        return np.arange(1, largest(needs, self.amount, rows) + 1)

    def tries(self, most: int) -> tuple[Ints, Ints]:
        """Br and Bc of some blocks that fit: 1x1, the largest inner one beside each outer one up to ``most``, and squares."""
        outer = np.arange(1, most + 1)
        inner = widest(self.asked, outer, self.amount, self.space)
        square, some = outer[inner >= outer], inner > 0
        rows, cols = self.asked.sides(np.concatenate([[1], outer[some], square]), np.concatenate([[1], inner[some], square]))
        return np.asarray(rows), np.asarray(cols)

    def hopes(self, tall: Side, wide: Side, most: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """The pairs of blocks that may fit, and may move no more than ``most`` words: the least that they do move, Br and Bc."""
        lines = self.words(keys=tall.cells), self.words(queries=wide.cells)
        reach, start = self.reach(tall, len(wide.block)), 0
        while start < len(reach) and (most_cols := int(reach[start:].max())):
            high, broad = slice(start, start + max(1, _PART // most_cols)), slice(most_cols)
            areas = [
                self.words(pairs=side.pairs, elements=side.elements, cols=wide.block[broad])
                for side in (tall.at(high).column(), wide.at(broad))
            ]
            hope = lines[0][high, None] + lines[1][broad] + np.maximum(*areas)
            i, j = np.nonzero(hope <= most)
            fits = self.needs(tall.at(start + i), wide.at(j)) <= self.amount
            i, j = i[fits], j[fits]
            yield hope[i, j], tall.block[start + i], wide.block[j]
            start = high.stop

    def reach(self, tall: Side, most: int) -> Ints:
        """The largest Bc up to ``most`` that may fit beside each Br."""

        def fits(cols: Ints) -> Bools:
            return np.asarray(self.asked.peak(Kinds(tall.block, cols, tall.occurring(cols)), self.space) <= self.amount)

        return farthest(fits, np.full_like(tall.block, most))

    def needs(self, tall: Side, wide: Side) -> Ints:
        """What pairs of blocks need at least."""
        tiles = *tall.occurring(wide.block), *wide.occurring(tall.block, turned=True)
        return np.asarray(self.asked.peak(Kinds(tall.block, wide.block, tiles), self.space))

    def counted(self, rows: Ints, cols: Ints) -> list[_Found]:
        """The best of these blocks, if any of them fits."""
        tally = self.pattern.tally(rows, cols)
        sums, tiles = tally.sums, tally.tiles
        words = self.words(queries=sums.queries, keys=sums.keys, pairs=sums.pairs, elements=sums.elements, cols=cols)
        residents = np.broadcast_to(self.asked.peak(tally.kinds(), self.space), rows.shape)
        first = np.lexsort((residents, tiles, words, residents > self.amount))[0]
        one = _Found(*(int(column[first]) for column in (words, tiles, residents, rows, cols)))
        return [one] if one.residents <= self.amount else []

    def words(self, *, queries: Int = 0, keys: Int = 0, pairs: Int = 0, elements: Int = 0, cols: Int = 1) -> Ints:
        """The words of so many visits, beyond those that move whatever the blocks; of pairs, in tiles of ``cols`` keys."""
        visits, none = (
            summed(queries=a, keys=b, pairs=c, elements=d, queries_met=0, queries_unmet=None, keys_met=0, cols=cols)
            for a, b, c, d in ((queries, keys, pairs, elements), (0, 0, 0, 0))
        )
        some, always = (sum(term.total for term in self.asked.terms_of(these)) for these in (visits, none))
        return np.asarray(some - always)
