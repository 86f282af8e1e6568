"""Tiles and the loops that hand them out: every tile, or one of each kind with its multiplicity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from iosim.core.errors import KindMismatch, LoopMisuse
from iosim.core.masks.runs import FIRST, FULL, LAST, Int
from iosim.core.masks.visits import Visit

if TYPE_CHECKING:
    from iosim.machine.machine import Machine

Path = tuple[tuple[int, int, int], ...]
Deed = tuple[str | int, ...]


class Tile:
    """One turn of a loop: some rows of an axis, and the scope in which on-chip blocks live until the loop moves on.

    A body may use its ``size``, whether it is ``full`` (every pair may attend) and whether this is the ``first`` or the ``last`` visit to
    it, never its place: in count mode one tile stands for all of its kind. ``deeds`` is what it did, noted where a machine checks kinds.
    """

    __slots__ = (
        "axis", "code", "deeds", "first", "full", "group", "height", "last", "loop", "machine", "mark", "open", "owner", "parent", "size",
        "start", "times", "used",
    )  # fmt: skip

    wanted = "a tile of this machine; use those of m.tiles(...)"

    def __init__(
        self, machine: Machine, parent: Tile | None, visit: Visit, axis: int, height: int, loop: int = 0, owner: object = None
    ) -> None:
        self.start, self.size, self.code, self.times, self.group = visit
        self.full, self.first, self.last = self.code & FULL != 0, self.code & FIRST != 0, self.code & LAST != 0
        self.machine, self.parent, self.axis = machine, parent, axis
        self.height, self.loop, self.owner = height, loop, owner
        self.open, self.used, self.mark = False, machine.used, len(machine.residents)
        self.deeds: list[Deed] = []

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise LoopMisuse("a tile can be neither copied nor pickled; use it inside its own loop body")

    def __repr__(self) -> str:
        return f"a tile of {self.size} rows"

    @property
    def kind(self) -> Path:
        """Its loops from the outermost in, each with the size and code of its tile: tiles that agree in it must do the same."""
        return () if self.parent is None else (*self.parent.kind, (self.loop, self.size, self.code))

    @property
    def members(self) -> Sequence[int] | Int:
        """The indices of all the tiles that this one stands for; read by masks, not by listings."""
        self.check()
        index = self.start // self.height
        return range(index, index + 1) if self.group is None else self.group.indices()

    def rows_covered(self) -> Int:
        """The rows of all the tiles that this one stands for, as (start, stop) pairs."""
        if self.group is None:
            return np.array([[self.start, self.start + self.size]])
        return np.minimum(np.stack([self.group.first, self.group.stop], axis=1) * self.height, self.axis)

    def check(self) -> None:
        """Raise :class:`LoopMisuse` once the loop has moved on."""
        if not self.open:
            raise LoopMisuse(
                f"{self!r} was used after its loop had moved on; use a tile inside its own loop body, and never keep tiles in a list"
            )


def independent(inner: Tile, owner: object) -> None:
    """Raise :class:`LoopMisuse` unless ``owner`` is open, and no loop inside it was limited by it already: only then do counts multiply."""
    tile: Tile | None = inner
    while tile is not owner:
        if tile is None or tile.owner is owner:
            raise LoopMisuse(
                "seen= was asked of a tile that is not open, or that limits a loop around this one already; "
                "ask it of an open tile, and write loops that depend on one tile one after the other, not nested"
            )
        tile = tile.parent


class Tiles:
    """A loop over tiles: opens one, and closes it before the next.

    A class, not a generator: a generator left by ``break`` would release its tile silently; this notices at the next step of the
    loop around it, or when the machine finishes.
    """

    __slots__ = ("axis", "height", "home", "loop", "machine", "owner", "started", "tile", "visits")

    def __init__(self, machine: Machine, visits: Iterator[Visit], axis: int, height: int, loop: int, owner: object) -> None:
        self.machine, self.visits, self.home = machine, visits, machine.tile
        self.axis, self.height, self.loop, self.owner = axis, height, loop, owner
        self.tile: Tile | None = None
        self.started = False

    def __iter__(self) -> Tiles:
        if self.started or self.machine.tile is not self.home:
            raise LoopMisuse("a loop over tiles runs once, where it was made; call m.tiles(...) again in the for statement")
        self.started = True
        return self

    def __next__(self) -> Tile:
        m = self.machine
        if self.tile is not None:
            m.leave(self.tile)
            self.tile = None
        elif m.tile is not self.home:
            raise LoopMisuse("a loop over tiles was started inside another one's tile; write nested loops as nested for statements")
        visit = next(self.visits, None)
        if visit is None:
            raise StopIteration
        self.tile = Tile(m, self.home, visit, self.axis, self.height, self.loop, self.owner)
        m.enter(self.tile)
        return self.tile


def compare(kind: Path, known: list[Deed], found: list[Deed]) -> None:
    """Raise :class:`KindMismatch` where two tiles of one kind did different things."""
    for step, (one, other) in enumerate(zip_longest(known, found, fillvalue=("nothing more",)), start=1):
        if one != other:
            raise KindMismatch(
                f"two tiles of one kind ({kind[-1][1]} rows, loop depth {len(kind)}) did different things at step {step}: "
                f"{' '.join(map(str, one))} against {' '.join(map(str, other))}; "
                "a body may depend only on its tile's size, full, first and last"
            )
