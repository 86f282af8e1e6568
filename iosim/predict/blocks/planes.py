"""The plane of blocks: the words and the room of every pair of some Br and some Bc at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Unit
from iosim.predict.case import Case, case
from iosim.predict.census.band import Band
from iosim.predict.census.packed import PackedBand
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.tally import Tally
from iosim.predict.census.tiles import Kinds, Tile
from iosim.predict.census.visits import Visits, everywhere
from iosim.predict.heads import of_group
from iosim.predict.room import Room, room
from iosim.predict.sizes import Bools, Int, Ints, whole_numbers

_DEFAULTS = Options()
_MOST = 2**62  # words that an int64 holds with a bit to spare


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """What blocks of ``rows[i]`` x ``cols[j]`` move and need: ``words[i, j]`` and ``room[i, j]``, in words or in bytes."""

    rows: Ints
    cols: Ints
    words: Ints
    room: Ints

    def fits(self, amount: int) -> Bools:
        """Which blocks fit in an SRAM of ``amount``, in the unit of the room."""
        return self.room <= amount

    def least(self, amount: int) -> Blocks | None:
        """The blocks of the plane that move the fewest words of those that fit, among equals the largest; None where none fit."""
        i, j = np.nonzero(self.fits(amount))
        if not len(i):
            return None
        best = np.lexsort((self.room[i, j], -self.rows[i] * self.cols[j], self.words[i, j]))[0]
        return Blocks(int(self.rows[i[best]]), int(self.cols[j[best]]))


def plane(kernel: str, problem: Attention, rows: ArrayLike, cols: ArrayLike, options: Options = _DEFAULTS, unit: Unit = "words") -> Plane:
    """The words that one KV head and its group move, and their residents, for every Br in ``rows`` beside every Bc in ``cols``.

    Entry by entry what :func:`iosim.predict.predict` sums to and :func:`iosim.predict.residents` says, any mask included; blocks beyond
    the end of an axis count as clipped to it. Costs a few operations a pair of blocks; with an element mask what the visited tiles cost.
    Raises :class:`iosim.core.errors.BadInput` for an unknown kernel, sizes that are not whole numbers >= 1, a block mask, which leaves no
    blocks to choose, and more than 2^62 words.

    >>> found = plane("flash2", Attention(n=1024, d=64), [64, 128], [32, 64])
    >>> found.words.tolist(), found.fits(20000).tolist()
    ([[2229248, 2229248], [1180672, 1180672]], [[True, False], [False, False]])
    """
    high, wide = (np.atleast_1d(whole_numbers(name, side)) for name, side in (("Br", rows), ("Bc", cols)))
    asked, group = _free(case(kernel, problem, options)), 1 if options.pack else problem.group
    _check_size(asked, group)
    down, across = np.meshgrid(np.minimum(high, asked.problem.n), np.minimum(wide, asked.problem.nk), indexing="ij")
    visits, needs = _cut(asked, down.ravel(), across.ravel(), room(problem, unit))
    terms = asked.terms_of(visits)
    moved = sum(term.total for term in (terms if group == 1 else of_group(terms, asked.shape, group)))
    return Plane(high, wide, *(np.broadcast_to(part, down.size).reshape(down.shape) for part in (moved, needs)))


def _free(asked: Case) -> Case:
    """The case, if it leaves the blocks free, with a pattern of which many grids can be asked."""
    if asked.fixed is not None:
        raise BadInput(f"a block mask leaves no blocks to choose but the {asked.fixed} that it was made for; ask without one")
    return replace(asked, pattern=asked.pattern.pairs()) if isinstance(asked.pattern, PackedBand) else asked


def _check_size(asked: Case, group: int) -> None:
    """Refuse what int64 cannot hold; no blocks move more than single rows that meet all others."""
    terms = asked.terms_of(everywhere(asked.shape, 1, 1, elements=asked.problem.mask is not None))
    if (most := sum(int(term.times) * int(term.words) for term in terms) * group) > _MOST:
        raise BadInput(f"blocks of 1x1 move about {float(most):.1e} words, more than 64 bits count safely; ask for a smaller problem")


def _cut(asked: Case, down: Ints, across: Ints, space: Room) -> tuple[Visits, Int]:
    """What the tiles of each grid of ``down`` x ``across`` amount to, and the most that stands on chip at once."""
    elements = asked.problem.mask is not None
    if not isinstance(asked.pattern, Band | Pairs):
        return everywhere(asked.shape, down, across, elements=elements), asked.bound(down, across, space)
    tally = asked.pattern.tally(down, across)
    return tally.visits(elements=elements), _needs(asked, tally, space)


def _needs(asked: Case, tally: Tally, space: Room) -> Ints:
    """The residents of each grid, though a tally does not know which visits are first ones.

    The first tile that a query tile visits is no narrower than the others and takes no less room, and where no mask is read tiles of one
    size differ in nothing else. Where one is, that first tile may be full; where this matters, the census of the grid tells.
    """
    later, first = (np.asarray(asked.peak(_kinds(tally, first=which), space)) for which in (False, True))
    needs = np.broadcast_to(first, tally.tiles.shape).copy()
    for place in np.flatnonzero(later != first) if asked.problem.mask is not None else ():
        needs[place] = asked.residents(Blocks(int(tally.rows.block[place]), int(tally.cols.block[place])), space)
    return needs


def _kinds(tally: Tally, *, first: bool) -> Kinds:
    """The tiles that occur, as if all visits were first ones, or none; in place of what does not occur, tiles of no rows."""
    found = tally.kinds()
    number = np.stack([tally.rows.count - 1, np.ones_like(tally.rows.count)]) - tally.met_rows
    return replace(
        found,
        visited=tuple(Tile(tile.rows, tile.cols, tile.full, first) for tile in found.visited),
        met=tuple(np.where(tally.met_cols > 0, np.stack(tally.cols.sizes), 0)),
        unmet=tuple(np.where(number > 0, np.stack(tally.rows.sizes), 0)),
    )
