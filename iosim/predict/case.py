"""A case: one kernel on one problem, of which any blocks can be asked what they move and what they need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.predict.census.packed import PackedBand
from iosim.predict.census.patterns import Everywhere, Pattern, band_of, pattern
from iosim.predict.census.tally import Tally
from iosim.predict.census.tiles import Axis, Census, Kinds, Tile, axis
from iosim.predict.census.visits import Visits, counted, everywhere
from iosim.predict.formula import Formula
from iosim.predict.formulas import formula
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Ints, Shape, shape
from iosim.predict.term import Term


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A kernel's closed forms beside the problem that they are applied to.

    ``shares``: each head of a group stores its dK and dV, which are then summed, one beside the sum at a time.
    """

    formula: Formula
    problem: Attention
    options: Options
    pattern: Pattern
    shares: bool = False

    @property
    def whole_keys(self) -> bool:
        """Whether K and V stay whole on chip, so that the tiles are as wide as N_k."""
        return self.formula.wide or self.options.reuse == "ideal"

    @property
    def cut(self) -> tuple[int, ...]:
        """The widths that are cut into tiles of Bc columns."""
        return tuple(getattr(self.problem, name) for name in self.formula.cut)

    @property
    def shape(self) -> Shape:
        """The sizes of one head."""
        p = self.problem
        return shape(p.n, p.nk, p.d, p.dv, masked=p.masked, dropout=p.dropout > 0)

    @property
    def fixed(self) -> Blocks | None:
        """The blocks that a block mask dictates."""
        mask = self.problem.block_mask
        return None if mask is None or self.whole_keys else Blocks(mask.rows, mask.cols)

    def grid(self, blocks: Blocks) -> tuple[Axis, Axis]:
        """Query tiles and key tiles; raises :class:`iosim.core.errors.BadInput` where a block mask has other ones."""
        if self.fixed is not None and self.fixed != blocks:
            raise BadInput(f"blocks {blocks} do not suit a block mask made for blocks {self.fixed}; use those or rebuild the mask")
        return axis(self.problem.n, blocks.rows), axis(self.problem.nk, self.problem.nk if self.whole_keys else blocks.cols)

    def sides(self, outer: Int, inner: Int) -> tuple[Ints, Ints]:
        """Br and Bc of :meth:`blocks`, of which many can be asked at once."""
        rows, cols = (outer, inner) if self.formula.outside == "queries" else (inner, outer)
        return np.asarray(np.minimum(rows, self.problem.n)), np.asarray(np.minimum(cols, self.problem.nk))

    def blocks(self, outer: int, inner: int) -> Blocks:
        """The blocks that the outer and the inner loop cut, clipped to the axes."""
        rows, cols = (outer, inner) if self.formula.outside == "queries" else (inner, outer)
        return Blocks(min(rows, self.problem.n), min(cols, self.problem.nk))

    def census(self, blocks: Blocks) -> Census:
        """The tiles that are visited."""
        return self.pattern.census(*self.grid(blocks))

    def visits(self, census: Census) -> Visits:
        """What the visited tiles amount to: in symbols where every tile is visited."""
        elements = self.problem.mask is not None
        if isinstance(self.pattern, Everywhere):
            return everywhere(self.shape, census.rows.block, census.cols.block, elements=elements)
        return counted(census, elements=elements)

    def terms(self, census: Census) -> tuple[Term, ...]:
        """The words that one head moves."""
        return self.terms_of(self.visits(census))

    def terms_of(self, visits: Visits) -> tuple[Term, ...]:
        """The words of ``visits``, which may hold arrays."""
        return tuple(self.formula.terms(self.shape, visits, self.options))

    def words(self, tally: Tally) -> Ints:
        """The words that one head moves on each of many grids."""
        terms = self.terms_of(tally.visits(elements=self.problem.mask is not None))
        return np.asarray(sum(term.total for term in terms))

    def residents(self, blocks: Blocks, room: Room) -> int:
        """The most that stands on chip at once, over the kinds of tile that occur."""
        return self.residents_of(self.census(blocks), blocks, room)

    def residents_of(self, census: Census, blocks: Blocks, room: Room) -> int:
        """The same where the census is at hand."""
        kinds = Kinds(
            rows=min(blocks.rows, self.problem.n),
            cols=min(blocks.cols, self.problem.nk),
            visited=tuple(tile for tile, _ in census.kinds()),
            unseen=census.unseen(),
            met=_present(census.cols, census.met),
            unmet=_present(census.rows, census.unmet()),
        )
        return int(self.peak(kinds, room))

    def smallest(self, room: Room) -> int:
        """What the blocks need that need least: 1x1, unless a block mask dictates its own.

        Whatever 1x1 tiles stand on chip, larger ones hold as much: they are visited where a part of them is, and some tile is a first one.
        """
        return self.residents(self.fixed or Blocks(1, 1), room)

    def bound(self, rows: Int, cols: Int, room: Room) -> Int:
        """What suffices for blocks of ``rows`` x ``cols`` whatever the mask: as if a largest tile were partial, and a first one.

        And as if another were not visited, unless all are; then it is what they need. It never falls as a block grows.
        """
        rows, cols = np.minimum(rows, self.problem.n), np.minimum(cols, self.problem.nk)
        wide = self.problem.nk if self.whole_keys else cols
        visited, unseen = Tile(rows, wide, full=False, first=True), Tile(rows, wide, full=False, first=False)
        all_seen = isinstance(self.pattern, Everywhere)
        return self.peak(Kinds(rows, cols, visited=(visited,), unseen=() if all_seen else (unseen,), met=(cols,)), room)

    def enough(self, blocks: Blocks, room: Room) -> int:
        """The bound for one pair of blocks."""
        return int(self.bound(blocks.rows, blocks.cols, room))

    def peak(self, kinds: Kinds, room: Room) -> Int:
        """The largest of the peaks of ``kinds``."""
        peak = reduce(np.maximum, self.formula.peaks(self.shape, kinds, room, self.options))
        return np.maximum(peak, 2 * kinds.cols * max(self.problem.d, self.problem.dv) * room.given) if self.shares else peak


def case(kernel: str, problem: Attention, options: Options) -> Case:
    """``kernel`` on ``problem``; raises :class:`iosim.core.errors.BadInput` for an unknown kernel."""
    closed = formula(kernel)
    own = closed.relevant(options)
    if problem.group > 1 and options.pack:
        return _packed(closed, problem, own)
    shares = problem.group > 1 and closed.shares
    if own.reuse == "ideal" or closed.wide:
        return Case(closed, problem, own, Everywhere(full=not problem.masked), shares)
    return Case(closed, problem, own, pattern(problem, skip=own.skip), shares)


def _packed(closed: Formula, problem: Attention, own: Options) -> Case:
    """One head whose queries have a row for each head of the group."""
    band = band_of(problem)
    rows = replace(problem, n=problem.n * problem.group, causal=False, window=None, heads=problem.kv_heads, kv_heads=problem.kv_heads)
    if band.cuts_nothing or not own.skip:
        return Case(closed, rows, own, Everywhere(full=not problem.masked))
    return Case(closed, rows, own, PackedBand(band, problem.group))


def _present(tiles: Axis, numbers: tuple[int, int]) -> tuple[int, ...]:
    return tuple(size for size, number in zip(tiles.sizes, numbers, strict=True) if number)
