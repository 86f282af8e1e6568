"""Every pair of blocks that can matter to a frontier, asked what it moves and what it needs.

Where every tile is visited, words depend on the blocks only through the numbers of tiles that they cut the axes into, and d and d_v where
a kernel cuts columns too; and residents never fall as a block grows. So of all blocks that cut these into as many tiles the smallest is
no worse than any other: it moves as many words and needs no more room. An axis of N rows has fewer than 2 sqrt(N) + 1 such blocks, which
leaves about 4 N pairs, each of which is asked exactly. Nothing is bounded, and nothing lost.

Under causal or a window words need not fall as a block grows, and every block is asked. Where the outer block alone decides the words it is
asked beside single inner rows, which never add words or residents (see :mod:`iosim.predict.blocks.outer_search`); else beside every other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Blocks
from iosim.predict.blocks.fused_tiles import Schedule, most_words
from iosim.predict.blocks.staircase import check_countable, lowest, smallest_blocks
from iosim.predict.case import Case
from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Everywhere
from iosim.predict.census.visits import everywhere
from iosim.predict.heads import of_group
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Ints
from iosim.predict.term import Term

Sides = Literal["all", "powers", "divisors"]
MOST_PAIRS = 2**20  # of blocks that are asked under causal or a window
_PART = 2**16  # pairs that are asked together


class Steps(NamedTuple):
    """The steps of a staircase: from ``sram`` words on so many ``words``, in blocks ``rows`` x ``cols``."""

    sram: Ints
    words: Ints
    rows: Ints
    cols: Ints


def steps(sram: Int, words: Int, rows: Int, cols: Int) -> Steps:
    """The steps among pairs of blocks, given as arrays that broadcast; among equals those of the largest tiles."""
    found = [np.ravel(column) for column in np.broadcast_arrays(sram, words, rows, cols)]
    keep = lowest(found[0], found[1], -found[2] * found[3])
    return Steps(*(column[keep] for column in found))


def allowed(rows: int, sides: Sides) -> Ints:
    """The blocks of an axis of ``rows`` whose side is allowed: any, powers of two and the axis itself, or its divisors.

    >>> allowed(6, "powers"), allowed(6, "divisors")
    (array([1, 2, 4, 6]), array([1, 2, 3, 6]))
    """
    every: Ints = np.arange(1, rows + 1)
    if sides == "powers":
        return np.append(2 ** np.arange((rows - 1).bit_length()), rows)
    kept: Ints = every[rows % every == 0] if sides == "divisors" else every
    return kept


def enough(rows: int, sides: Sides, *cut: int) -> Ints:
    """Those of the allowed blocks that are no worse than the others where every tile is visited and ``cut`` columns are cut too."""
    if sides != "all":
        return allowed(rows, sides)
    return np.array(sorted({min(block, rows) for block in smallest_blocks(rows, *cut).tolist()}))


def ideal_steps(schedule: Schedule, problem: Attention, sides: Sides) -> Steps:
    """The steps of one schedule in fused tiles."""
    check_countable(most_words(problem))
    rows, cols = enough(problem.n, sides)[:, None], enough(problem.nk, sides)
    return steps(schedule.room(problem, rows, cols), problem.group * schedule.words(problem, rows, cols), rows, cols)


@dataclass(frozen=True, slots=True)
class FrontierSearch:
    """The search of one case, whose words ``heads`` heads of a group move one after the other."""

    asked: Case
    space: Room
    sides: Sides
    heads: int

    def best(self) -> Steps:
        """The steps of the frontier; raises :class:`iosim.core.errors.BadInput` where there are too many blocks to ask."""
        single = everywhere(self.asked.shape, 1, 1, elements=self.asked.problem.mask is not None)
        check_countable(int(self.words(self.asked.terms_of(single))))
        if self.asked.fixed is not None:
            return self.one(self.asked.fixed)
        if isinstance(self.asked.pattern, Everywhere):
            return self.uniform()
        if not isinstance(self.asked.pattern, Band):
            raise BadInput("the frontier is known without a mask, under causal and under a window; leave out the element mask, or pack")
        return self.plane(self.asked.pattern) if self.asked.formula.both(self.asked.options) else self.line(self.asked.pattern)

    def one(self, blocks: Blocks) -> Steps:
        """The single step of a block mask's blocks."""
        words = self.words(self.asked.terms(self.asked.census(blocks)))
        return steps(self.asked.residents(blocks, self.space), words, blocks.rows, blocks.cols)

    def uniform(self) -> Steps:
        """Where every tile is visited: some rows of blocks at a time beside all columns."""
        nk = self.asked.problem.nk
        high = enough(self.asked.problem.n, self.sides)
        wide = np.array([nk]) if self.asked.whole_keys else enough(nk, self.sides, *self.asked.cut)
        size = max(1, _PART // len(wide))
        return _joined(self.pairs(high[start : start + size, None], wide) for start in range(0, len(high), size))

    def pairs(self, rows: Ints, cols: Ints) -> Steps:
        """Every block of ``rows``, a column, beside every one of ``cols``."""
        visits = everywhere(self.asked.shape, rows, cols, elements=self.asked.problem.mask is not None)
        return steps(self.asked.bound(rows, cols, self.space), self.words(self.asked.terms_of(visits)), rows, cols)

    def line(self, band: Band) -> Steps:
        """Every outer block beside single inner rows."""
        n, nk, queries = self.asked.problem.n, self.asked.problem.nk, self.asked.formula.outside == "queries"
        outer = allowed(n if queries else nk, self.sides)
        rows, cols = self.asked.sides(outer, np.ones_like(outer))
        sram = [self.asked.residents(Blocks(*blocks), self.space) for blocks in zip(rows.tolist(), cols.tolist(), strict=True)]
        words = self.words(self.asked.terms_of(band.tally(rows, cols).visits(elements=False)))
        return steps(np.array(sram), words, rows, cols)

    def plane(self, band: Band) -> Steps:
        """Every pair of blocks. The kernels that need it have no first visits that take more room than others."""
        grids = np.meshgrid(allowed(self.asked.problem.n, self.sides), allowed(self.asked.problem.nk, self.sides))
        rows, cols = (grid.ravel() for grid in grids)
        if len(rows) > MOST_PAIRS:
            known = f"known for {MOST_PAIRS:,} pairs of blocks at most, not {len(rows):,}"
            raise BadInput(f"under causal or a window this frontier is {known}; ask for fewer rows, or leave the mask out")
        return _joined(self.some(band, rows[start : start + _PART], cols[start : start + _PART]) for start in range(0, len(rows), _PART))

    def some(self, band: Band, rows: Ints, cols: Ints) -> Steps:
        """Some pairs of blocks."""
        tally = band.tally(rows, cols)
        words = self.words(self.asked.terms_of(tally.visits(elements=False)))
        return steps(self.asked.peak(tally.kinds(), self.space), words, rows, cols)

    def words(self, terms: tuple[Term, ...]) -> Int:
        """What the heads of a group move whose every head has ``terms``."""
        every = terms if self.heads == 1 else of_group(terms, self.asked.shape, self.heads)
        return sum((term.total for term in every), start=0)


def _joined(parts: Iterable[Steps]) -> Steps:
    return steps(*(np.concatenate(column) for column in zip(*parts, strict=True)))
