"""The books of a machine: who is resident, what was computed, and how much lived on chip at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iosim.errors import RegisterOverflow
from iosim.memory.tiles import Notes, Tile

if TYPE_CHECKING:
    from iosim.memory.blocks import Block, Value


class Accounts:
    """Counters of one machine, and the tile that is open: everything counts as often as that tile stands for."""

    __slots__ = (
        "check", "elementwise", "epoch", "exp", "largest_unnamed", "live", "matmul", "peak", "peak_unnamed", "registers", "residents",
        "root", "tile", "times", "used",
    )  # fmt: skip

    def __init__(self, registers: int | None, check: int) -> None:
        self.registers, self.check = registers, check
        self.root = self.tile = Tile(None, (0, 0, 0, 1, None), 0, 1)
        if check:
            self.root.notes = Notes()
        self.residents: list[Block] = []
        self.times, self.used, self.peak = 1, 0, 0
        self.matmul = self.elementwise = self.exp = 0
        self.epoch = self.live = self.largest_unnamed = self.peak_unnamed = 0

    def did(self, *deed: str | int) -> None:
        """Note what the open tile did, to compare it with others of its kind."""
        if self.tile.notes is not None:
            self.tile.notes.deeds.append(deed)

    def count_elementwise(self, shape: tuple[int, int]) -> int:
        """One operation an element; returns how many elements there are."""
        words = shape[0] * shape[1]
        self.elementwise += words * self.times
        if self.check:
            self.did("elementwise", *shape)
        return words

    def count_exp(self, shape: tuple[int, int]) -> int:
        """One exponential or logarithm an element; returns how many elements there are."""
        words = shape[0] * shape[1]
        self.exp += words * self.times
        if self.check:
            self.did("exp", *shape)
        return words

    def most_unnamed(self, value: Value) -> None:
        """Note a record of unnamed words if ``value`` makes one; raises :class:`RegisterOverflow` above ``registers``."""
        self.largest_unnamed = max(self.largest_unnamed, value.held)
        self.peak_unnamed = max(self.peak_unnamed, self.live)
        if self.registers is not None and self.live > self.registers:
            raise RegisterOverflow(
                f"an unnamed value{value.shape} makes {self.live} unnamed words but registers hold {self.registers}; "
                "give some of them room with m.let(value, name)"
            )
