"""A machine whose sizes are symbols, and the grid of a problem without a mask for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np
import sympy

from iosim.attention.symbolic.loops import Loop, summed
from iosim.attention.symbolic.sizes import opened
from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.errors import BadInput
from iosim.core.masks.runs import FIRST, FULL, LAST, Runs
from iosim.core.masks.visits import Visit
from iosim.core.opaque import Shape
from iosim.machine import Hbm, Machine, Tile

Only = dict[sympy.Symbol, sympy.Symbol]
ONE = np.array([1])


@dataclass(frozen=True, slots=True)
class Turns(Runs):
    """The turns of a loop in place of its runs, which are open: their kinds, and for which tiles of the loop around it each stands."""

    kinds: tuple[tuple[int, Only], ...] = ()


class SymbolicMachine(Machine):
    """A machine in count mode that takes sympy symbols for sizes; see :class:`iosim.Machine` for what a listing may do.

    A loop runs once, or four times where its tiles may be visited for the first or the last time. SRAM is unbounded, and ``finish``
    gives reads, writes and operations as sympy expressions. It cannot see whether an output is written whole.

    >>> m, (n, d, b) = SymbolicMachine(), sympy.symbols("n d b", integer=True, positive=True)
    >>> X, Y = m.input("X", (n, d)), m.output("Y", (n, 1))
    >>> for i in m.tiles(n, b):
    ...     m.store(Y[i], m.load(X[i]).rowsum())
    >>> m.finish().arrays["X"].reads
    d*n
    """

    __slots__ = ("loops",)

    def __init__(self) -> None:
        super().__init__(None, mode="count")
        self.loops: list[Loop] = []
        self.peak = self.largest_unnamed = cast(int, math.inf)  # records are not kept: nobody knows which of two symbols is larger

    def size(self, name: str, value: object) -> int:
        """A number of rows or columns, or a symbol for one."""
        return opened(cast(int, value)) if isinstance(value, sympy.Basic) else super().size(name, value)

    def turns(self, n: int, b: int, seen: Runs | None, code: int) -> Iterator[Visit]:
        """One turn for all tiles, or those that ``seen`` tells apart, which comes from :class:`Everywhere`."""
        if seen is not None and not isinstance(seen, Turns):
            raise BadInput(
                "seen= gives the numbers of tiles, which are open here; ask a grid of iosim.attention.symbolic.Everywhere for it"
            )
        loop = Loop(len(self.loops), n, b)
        self.loops.append(loop)
        kinds = ((code, {}),) if seen is None else seen.kinds
        times = sympy.sympify(self.times)
        return iter([(0, loop.size, kind, times.xreplace(only) * loop.every, None) for kind, only in kinds])

    def finish(self) -> Counts:
        """End the run and return its counts, summed over all tiles; raises :class:`BadInput` where the words have no closed form.

        Operations without one are None.
        """
        counts = super().finish()
        moved = {name: Traffic(*map(self._summed, (a.reads, a.writes, a.init_writes))) for name, a in counts.arrays.items()}
        return replace(counts, arrays=moved, flops=Flops(*map(self._summed_if_possible, (self.matmul, self.elementwise, self.exp))))

    def _summed_if_possible(self, operations: int) -> int:
        try:
            return self._summed(operations)
        except BadInput:
            return cast(int, None)

    def _declare(self, name: str, shape: Shape, dtype: str, kind: Literal["input", "output", "scratch"]) -> Hbm:
        return super()._declare(name, shape, dtype, "input" if kind == "input" else "scratch")

    def loop_of(self, tile: Tile) -> Loop:
        """The loop that handed out a tile."""
        return next(loop for loop in self.loops if loop.size is tile.size)

    def _summed(self, words: int) -> int:
        return cast(int, summed(words, self.loops))


class Everywhere:
    """The grid of a problem without a mask: every tile meets every other."""

    def row(self, i: Tile) -> Runs:
        """Key tiles that query tile ``i`` visits: all."""
        i._of_axis()
        return self.columns()

    def col(self, j: Tile) -> Runs:
        """Query tiles that key tile ``j`` visits: all, for the first time by the first key tile and for the last time by the last."""
        j._of_axis()
        loop = cast(SymbolicMachine, j.machine).loop_of(j)
        kinds = {loop.only: FIRST | LAST, loop.first: FIRST, loop.last: LAST, loop.between: 0}
        return Turns(ONE, ONE, ONE, owner=j, kinds=tuple((FULL | kind, {loop.every: tiles}) for tiles, kind in kinds.items()))

    def columns(self, skip_empty: bool = False) -> Runs:
        """Key tiles: all of them, none of which is empty."""
        return Turns(ONE, ONE, ONE, kinds=((FULL, {}),))

    def unseen(self, i: Tile) -> Runs:
        """Key tiles in which no query of tile ``i`` attends to anything: none."""
        i._of_axis()
        return self.unvisited_rows()

    def unvisited_rows(self) -> Runs:
        """Query tiles that no key tile visits: none."""
        return Turns(ONE, ONE, ONE)
