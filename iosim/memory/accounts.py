"""The books of a machine: what was computed, what lives on chip, what the open tile did, and who is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from iosim.errors import BadInput, RegisterOverflow
from iosim.memory.events import Box, Event, Kind, Observer
from iosim.memory.tiles import Tile

if TYPE_CHECKING:
    from iosim.memory.blocks import Block, OnChip, Value
    from iosim.memory.hbm import Region


class Accounts:
    """Counters of one machine, and the tile that is open: everything counts as often as that tile stands for."""

    __slots__ = (
        "check", "elementwise", "epoch", "exp", "largest_unnamed", "live", "matmul", "observers", "peak", "peak_unnamed", "registers",
        "residents", "root", "tile", "times", "used", "watched",
    )  # fmt: skip

    def __init__(self, registers: int | None, check: int, observers: Sequence[Observer]) -> None:
        self.registers, self.check, self.observers = registers, check, tuple(observers)
        self.watched = check > 0 or bool(self.observers)
        self.residents: list[Block] = []
        self.matmul = self.elementwise = self.exp = 0
        self.times, self.used, self.peak = 1, 0, 0
        self.root = self.tile = Tile(self, None, (0, 0, 0, 1, None), 0, 1)
        self.root.open = True
        self.epoch = self.live = self.largest_unnamed = self.peak_unnamed = 0

    def foreign(self, thing: object, kind: type[OnChip | Region | Tile]) -> NoReturn:
        """Raise :class:`BadInput`: ``thing`` is of another machine, or no ``kind`` at all."""
        if isinstance(thing, kind):
            raise BadInput(f"{thing!r} belongs to another machine; two machines never meet")
        raise BadInput(f"{type(thing).__name__} is not {kind.wanted}")

    def did(self, what: str, shape: Sequence[int]) -> None:
        """Note what the open tile did, to compare it with others of its kind."""
        self.tile.deeds.append((what, *shape))

    def tell(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        """Note what the open tile did, and emit it."""
        if self.check:
            self.did(f"{kind} {name}", [stop - start for start, stop in box])
        self.emit(kind, name, box, words, itemsize)

    def emit(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        """Tell every observer."""
        event = Event(kind, name, box, words, itemsize, self.times, self.used)
        for observe in self.observers:
            observe(event)

    def most_unnamed(self, value: Value) -> None:
        """Note a record of unnamed words if ``value`` makes one; raises :class:`RegisterOverflow` above ``registers``."""
        self.largest_unnamed = max(self.largest_unnamed, value.held)
        self.peak_unnamed = max(self.peak_unnamed, self.live)
        if self.registers is not None and self.live > self.registers:
            raise RegisterOverflow(
                f"an unnamed value{value.shape} makes {self.live} unnamed words but registers hold {self.registers}; "
                "give some of them room with m.let(value, name)"
            )
