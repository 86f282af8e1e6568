"""A machine whose sizes are symbols, and the grid of a problem without a mask for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import sympy

from iosim.attention.symbolic.loops import Loop, summed
from iosim.attention.symbolic.sizes import opened
from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.errors import BadInput, LoopMisuse
from iosim.core.events import Kind
from iosim.core.masks.runs import FIRST, FULL, LAST, Runs
from iosim.machine import Hbm, Machine, Tile
from iosim.machine.blocks import Block, Shape, number
from iosim.machine.tiles import Tiles

Only = dict[sympy.Symbol, sympy.Symbol]


@dataclass(frozen=True, slots=True)
class Turns:
    """The turns of a loop: the kind of each, and for which tiles of the loop around it it stands, in place of every one."""

    kinds: tuple[tuple[int, Only], ...] = ((FULL, {}),)

    def runs(self) -> Runs:
        """Runs, as a listing asks a grid for them; how many tiles they are is open."""
        return Runs(np.array([0]), np.array([1]), np.array([FULL]), owner=self)


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

    def full(self, fill: float, rows: int, cols: int, *, name: str) -> Block:
        """A block of one number, with room until the tile ends."""
        number(fill)
        shape = opened(rows), opened(cols)
        return Block(self, shape, None, name, shape[0] * shape[1])

    def tiles(self, n: int, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut ``range(n)`` into tiles of ``b`` rows; ``seen`` comes from :class:`Everywhere`. One turn of each kind runs."""
        n, b = opened(n), opened(b)
        loop = Loop(len(self.loops), n, b)
        self.loops.append(loop)
        visits = [(0, loop.size, kind, self._times(only) * loop.every, None) for kind, only in _turns(seen).kinds]
        return Tiles(self, iter(visits), n, b, 0, loop)

    def finish(self) -> Counts:
        """End the run and return its counts, summed over all tiles; raises :class:`BadInput` where the sums have no closed form."""
        counts = super().finish()
        moved = {name: Traffic(*map(self._summed, (a.reads, a.writes, a.init_writes))) for name, a in counts.arrays.items()}
        flops = Flops(*map(self._summed, (self.matmul, self.elementwise, self.exp)))
        return replace(counts, arrays=moved, flops=flops)

    def _declare(self, name: str, shape: Shape, dtype: str, kind: Kind) -> Hbm:
        if name in self.arrays:
            raise BadInput(f"an HBM array needs a name of its own, not {name!r}; taken: {', '.join(self.arrays)}")
        array = self.arrays[name] = Hbm(self, name, (opened(shape[0]), opened(shape[1])), 4, "input" if kind == "input" else "scratch")
        return array

    def _times(self, only: Only) -> sympy.Expr:
        times = sympy.sympify(self.times)
        if only and not set(only) <= times.free_symbols:
            raise LoopMisuse("seen= was asked of a tile that is not open, or that limits a loop around this one already")
        return times.xreplace(only)

    def _summed(self, words: int) -> int:
        return cast(int, summed(words, self.loops))


class Everywhere:
    """The grid of a problem without a mask: every tile meets every other."""

    def row(self, i: Tile) -> Runs:
        """Key tiles that query tile ``i`` visits: all."""
        return Turns().runs()

    def col(self, j: Tile) -> Runs:
        """Query tiles that key tile ``j`` visits: all, for the first time by the first key tile and for the last time by the last."""
        loop = cast(Loop, j.owner)
        kinds = {loop.only: FIRST | LAST, loop.first: FIRST, loop.last: LAST, loop.between: 0}
        return Turns(tuple((FULL | kind, {loop.every: tiles}) for tiles, kind in kinds.items())).runs()

    def columns(self, skip_empty: bool = False) -> Runs:
        """Key tiles: all of them, none of which is empty."""
        return Turns().runs()

    def unseen(self, i: Tile) -> Runs:
        """Key tiles in which no query of tile ``i`` attends to anything: none."""
        return Turns(()).runs()

    def unvisited_rows(self) -> Runs:
        """Query tiles that no key tile visits: none."""
        return Turns(()).runs()


def _turns(seen: Runs | None) -> Turns:
    if seen is None:
        return Turns()
    if not isinstance(seen, Runs) or not isinstance(seen.owner, Turns):
        raise BadInput("seen= gives the numbers of tiles, which are open here; ask a grid of iosim.attention.symbolic.Everywhere for it")
    return seen.owner
