"""The best blocks: the fewest words of all that fit, found without trying every pair of sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.problem import Blocks
from iosim.core.units import Capacity
from iosim.predict.blocks.fitting import largest, widest
from iosim.predict.blocks.outer_search import OuterSearch
from iosim.predict.blocks.plane_search import PlaneSearch
from iosim.predict.blocks.staircase import MOST
from iosim.predict.case import Case
from iosim.predict.census.band import Band
from iosim.predict.census.packed import PackedBand
from iosim.predict.census.patterns import Pairs
from iosim.predict.census.visits import everywhere
from iosim.predict.room import Room, room
from iosim.predict.sizes import Ints, ceil_div


def best(asked: Case, capacity: Capacity) -> Blocks | None:
    """The blocks that move the fewest words among all that fit; among equals the fewest tiles, then the fewest residents.

    None where no blocks fit. The case must leave the blocks free.
    """
    space = room(asked.problem, capacity.unit)
    if isinstance(asked.pattern, PackedBand):
        asked = replace(asked, pattern=asked.pattern.pairs())
    if not isinstance(asked.pattern, Band | Pairs):
        return _uniform(asked, capacity.amount, space)
    if asked.formula.both(asked.options):
        return PlaneSearch(asked, asked.pattern, capacity.amount, space).best()
    return OuterSearch(asked, asked.pattern, capacity.amount, space).best()


def _uniform(asked: Case, amount: int, space: Room) -> Blocks | None:
    """Where every tile is visited.

    There words never rise and residents never fall as a block grows, and the bound on residents is exact. So beside each outer block
    the largest inner one that fits is best; and of all blocks that cut an axis, and columns, into as many tiles, the smallest.
    """
    last = asked.problem.n, asked.problem.nk
    outer_rows, inner_rows = last if asked.formula.outside == "queries" else last[::-1]
    limit = largest(lambda block: asked.enough(asked.blocks(block, 1), space), amount, outer_rows)
    if limit == 0:
        return None
    outer = np.unique(_even(outer_rows, np.arange(1, limit + 1)))
    most = widest(asked, outer, amount, space)
    inner = np.max([_even(length, most) for length in (inner_rows, *asked.cut)], axis=0)  # columns are cut where keys are inside
    rows, cols = asked.sides(outer, inner)
    terms = asked.terms_of(everywhere(asked.shape, rows, cols, elements=asked.problem.mask is not None))
    tiles = ceil_div(asked.problem.n, rows) * ceil_div(asked.problem.nk, cols)
    near = sum(np.multiply(term.times, term.words, dtype=float) for term in terms)
    held = np.flatnonzero(np.broadcast_to(near, np.shape(tiles)) < MOST)
    if not len(held):
        raise BadInput("all blocks move more words than 64 bits count safely; ask for a smaller problem")
    ranked = np.broadcast_arrays(asked.bound(rows, cols, space), tiles, sum(term.total for term in terms))
    found = held[np.lexsort([key[held] for key in ranked])[0]]
    return Blocks(int(rows[found]), int(cols[found]))


def _even(rows: int, block: Ints) -> Ints:
    """The smallest blocks that cut ``rows`` into as few tiles as ``block`` does."""
    return -(-rows // -(-rows // block))
