"""A smaller problem that shows the same, in fewer and smaller tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from iosim.attention.plan import Plan
from iosim.core.masks import patterns
from iosim.core.problem import Attention, Blocks

SIDES = (4, 2, 1)  # of the tiles, the smaller ones where M holds no larger
TILES = (8, 6, 4, 3)  # a side of the grid, the most first
FEWEST = (2, 1)  # where all else is too much


@dataclass(frozen=True, slots=True)
class Smaller:
    """The plans of the smaller problem, in the order of those that were too large, the first of which is ``large``.

    An element mask keeps every ``elements``-th row and column, a grid of tiles every ``tiles``-th; both are cut to size.
    """

    large: Plan
    plans: tuple[Plan, ...]

    @property
    def problem(self) -> Attention:
        """The first of them."""
        return self.plans[0].problem

    @property
    def blocks(self) -> Blocks:
        """Their blocks."""
        return self.plans[0].blocks

    @property
    def grid(self) -> tuple[int, int]:
        """How many tiles of queries and of keys there are."""
        return grid_of(self.plans[0])

    @property
    def elements(self) -> tuple[int, int]:
        """The steps in an element mask."""
        return self.large.problem.n // self.problem.n, self.large.problem.nk // self.problem.nk

    @property
    def tiles(self) -> tuple[int, int]:
        """The steps in a grid of tiles, whose heads are not packed."""
        (down, across), (tr, tc) = self.grid, grid_of(self.large)
        return tr // down, tc // across

    @property
    def shown(self) -> str:
        """What can be seen of it."""
        down, across = self.grid
        return f"shows the same in a grid of {down} by {1 if wide(self.large) else across} tiles"

    @property
    def streamed(self) -> bool:
        """Whether a row of S did not fit; in the smaller problem it might."""
        return any(plan.options.softmax == "streamed" for plan in self.plans)

    @property
    def over(self) -> bool:
        """Whether it needs more than M, which must be asked for."""
        return any(plan.overflow == "record" and not wide(plan) for plan in self.plans)


def smaller(plans: Sequence[Plan], fits: Callable[[Plan], bool]) -> Smaller | None:
    """The largest of the candidates whose plans all fit, with the options and the SRAM of ``plans``; None where none does.

    Other problems than that of the first plan are left alone. Candidates that need no more than M come first.
    """
    sizes = plans[0].problem.n, plans[0].problem.nk
    same = [plan for plan in plans if (plan.problem.n, plan.problem.nk) == sizes]
    strict = [plan if wide(plan) else replace(plan, overflow="error") for plan in same]
    every = chain(*(candidates(strict, side) for side in SIDES), candidates(same, SIDES[0]))
    return next((Smaller(plans[0], made) for made in every if all(map(fits, made))), None)


def candidates(plans: Sequence[Plan], side: int) -> Iterator[tuple[Plan, ...]]:
    """Fewer tiles, and then fewer heads in a group, in tiles of at most ``side`` rows."""
    sides = Blocks(min(side, *(plan.blocks.rows for plan in plans)), min(side, *(plan.blocks.cols for plan in plans)))
    group = plans[0].problem.group
    groups = (group, *(fewer for fewer in (4, 2, 1) if fewer < group))
    for heads, most in (*product(groups, TILES), *product((1,), FEWEST)):
        one = reduced(plans[0], sides, most, heads)
        made = tuple(replace(plan, problem=like(one, plan.problem, sides), blocks=sides) for plan in plans)
        if grid_of(made[0])[0] <= 2 * TILES[0]:  # the queries of many heads, packed, may be more
            yield made


def reduced(plan: Plan, sides: Blocks, most: int, heads: int) -> Attention:
    """The problem of at most ``most`` tiles a side, without its masks."""
    p, packed = plan.problem, heads if plan.options.pack else 1
    down, across = (min(most, tiles) for tiles in grid_of(plan))
    n, nk = max(1, down * sides.rows // packed), across * sides.cols
    deep = min(3, -(-p.d // plan.blocks.cols)) if plan.kernel.pieces(plan) > 1 else 1
    d = min(p.d, deep * SIDES[0])
    window = p.window and (reach(p.window[0], plan, sides, nk), reach(p.window[1], plan, sides, nk))
    return Attention(
        min(n, p.n), d, nk=min(nk, p.nk), dv=width(p, d), batch=p.batch, heads=p.kv_heads * heads, kv_heads=p.kv_heads, dtype=p.dtype,
        scale=p.scale, window=window, dropout=p.dropout, dropout_seed=p.dropout_seed,
    )  # fmt: skip


def like(one: Attention, large: Attention, sides: Blocks) -> Attention:
    """``one`` with the rules of ``large``: its element mask thinned out, its block mask full, which has the most tiles."""
    mask, steps = large.mask, (large.n // one.n, large.nk // one.nk)
    part = None if mask is None else mask[:: steps[0], :: steps[1]][: one.n, : one.nk]
    tiles = None if large.block_mask is None else patterns.dense(one.n, one.nk, sides.rows, sides.cols)
    return replaced(one, causal=large.causal, mask=part, block_mask=tiles)


def replaced(problem: Attention, **fields: object) -> Attention:
    """A problem with other fields."""
    return replace(problem, **fields)  # type: ignore[arg-type]  # Attention checks them


def grid_of(plan: Plan) -> tuple[int, int]:
    """Tiles of queries, those of all heads where they are packed, and of keys."""
    rows = plan.problem.n * (plan.problem.group if plan.options.pack else 1)
    return -(-rows // plan.blocks.rows), -(-plan.problem.nk // plan.blocks.cols)


def reach(window: int, plan: Plan, sides: Blocks, nk: int) -> int:
    """One side of a window, reaching over as many tiles as before, at most half of the keys; -1 stays unbounded."""
    return window if window <= 0 else min(-(-window * sides.cols // plan.blocks.cols), max(1, nk // 2))


def width(problem: Attention, d: int) -> int:
    """The width of V where Q and K have ``d`` columns, in about the old proportion."""
    return min(problem.dv, max(1, min(round(d * problem.dv / problem.d), 4 * d)))


def wide(plan: Plan) -> bool:
    """Whether a tile holds all keys."""
    return plan.kernel.wide(plan.options)
