"""The ledger of a machine: how it was built, what it has counted so far, and which tile is open.

Loops, arrays and values write in it. Nothing here is for listings: what they may call stands in :class:`iosim.machine.Machine`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Literal, NoReturn

import numpy as np

from iosim.core.errors import BadInput, KindMismatch, LoopMisuse, RegisterOverflow, SramOverflow
from iosim.core.events import Box, Event, Kind, Observer
from iosim.core.masks.runs import Runs, whole_axis
from iosim.core.masks.visits import Visit, every_tile, one_of_each_kind
from iosim.core.opaque import OnChip, Opaque, Shape, expect
from iosim.core.units import Capacity, Unit, capacity, whole

MOST_TOLD = 8  # residents that an overflow names; a listing that fails on purpose may have ten thousand

Mode = Literal["execute", "trace", "count"]
Path = tuple[tuple[int, int, int], ...]
Deed = tuple[str | int, ...]


class Scope:
    """What is open for a while: the whole run, or one turn of a loop.

    ``times``: how many such scopes it stands for. ``used`` and ``mark``: what was occupied, and by how many blocks, before it.
    ``deeds``: what was done in it, noted where a machine checks kinds.
    """

    __slots__ = ("deeds", "mark", "open", "parent", "times", "used")

    def __init__(self, parent: Scope | None = None, times: int = 1, used: int = 0, mark: int = 0) -> None:
        self.parent, self.times, self.used, self.mark, self.open = parent, times, used, mark, True
        self.deeds: list[Deed] = []

    @property
    def kind(self) -> Path:
        """Its loops from the outermost in, each with the size and code of its tile: scopes that agree in it must do the same."""
        return ()


class Ledger:
    """The state of a machine; see :class:`iosim.machine.Machine` for how it is built. Whatever happens counts ``times`` over."""

    __slots__ = (
        "arrays", "check", "cost", "dtype", "elementwise", "epoch", "exp", "finished", "known", "largest_unnamed", "limit", "live",
        "lowest", "matmul", "mode", "observers", "peak", "peak_unnamed", "registers", "residents", "root", "sram", "tile", "times", "unit",
        "used", "watched",
    )  # fmt: skip

    def __init__(
        self, sram: Capacity | int | str | None = None, *, mode: Mode = "execute", accumulator: str = "float32",
        overflow: Literal["error", "record"] = "error", registers: int | None = None, observers: Sequence[Observer] = (), check: int = 0,
    ) -> None:  # fmt: skip
        if mode not in ("execute", "trace", "count") or overflow not in ("error", "record"):
            raise BadInput(f"mode must be execute, trace or count and overflow error or record, not {mode!r} and {overflow!r}")
        if accumulator not in ("float32", "float64"):
            raise BadInput(f"the accumulator must be float32 or float64, not {accumulator!r}")
        size = None if sram is None else capacity(sram)
        self.sram = None if size is None else size.amount
        self.unit: Unit = "words" if size is None else size.unit
        self.limit = math.inf if size is None or overflow == "record" else size.amount
        self.mode, self.dtype, self.finished = mode, np.dtype(accumulator), False
        self.cost = self.dtype.itemsize if self.unit == "bytes" else 1
        self.lowest = np.array(np.finfo(self.dtype).min, self.dtype)
        self.registers = None if registers is None else whole("registers", registers, 0)
        self.check, self.observers = whole("check", check, 0), tuple(observers)
        self.watched = self.check > 0 or bool(self.observers)
        self.arrays: dict[str, Any] = {}  # HBM arrays and blocks, which are made of what stands here
        self.residents: list[Any] = []
        self.known: dict[Path, list[Deed]] = {}
        self.matmul = self.elementwise = self.exp = 0
        self.times, self.epoch = 1, 0
        self.used = self.peak = self.live = self.largest_unnamed = self.peak_unnamed = 0
        self.root = self.tile = Scope()

    def size(self, name: str, value: object) -> int:
        """A number of rows or columns, which a listing gave; raises :class:`BadInput` unless it is a whole number >= 1."""
        return whole(name, value)

    def turns(self, n: int, b: int, seen: Runs | None, code: int) -> Iterator[Visit]:
        """The turns of a loop over ``n`` rows in tiles of ``b``: all of them, with this ``code``, or those of ``seen``."""
        runs = whole_axis(n, b, code) if seen is None else seen
        if self.mode == "count":
            return one_of_each_kind(n, b, runs, self.times // runs.members, self.check)
        return every_tile(n, b, runs)

    def enter(self, tile: Scope) -> None:
        """Open a tile: what is made from now on lives in it."""
        self.tile, self.times, self.live = tile, tile.times, 0
        tile.open = True
        self.epoch += 1

    def leave(self, tile: Scope) -> None:
        """Close the tile and release what was made in it."""
        if self.tile is not tile or tile.parent is None:
            raise LoopMisuse(
                "an inner loop was left by break or return, or an outer one went on before it ended; let every loop run to its end"
            )
        if self.check:
            compare(tile.kind, self.known.setdefault(tile.kind, tile.deeds), tile.deeds)
        tile.open = False
        self.used, self.live = tile.used, 0
        del self.residents[tile.mark :]
        self.epoch += 1
        if self.observers:
            self.emit("end", "tile", (), 0, 0)
        self.tile, self.times = tile.parent, tile.parent.times

    def tell(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        """Note what the open tile did, to compare it with others of its kind, and emit it."""
        if self.check:
            self.tile.deeds.append((f"{kind} {name}", *(stop - start for start, stop in box)))
        self.emit(kind, name, box, words, itemsize)

    def emit(self, kind: Kind, name: str, box: Box, words: int, itemsize: int) -> None:
        """Tell every observer."""
        event = Event(kind, name, box, words, itemsize, self.times, self.used)
        for observe in self.observers:
            observe(event)

    def foreign(self, thing: object, kind: type[Opaque]) -> NoReturn:
        """Raise :class:`BadInput`: ``thing`` is of another machine, or no ``kind`` at all."""
        raise BadInput(f"{expect(kind, thing)!r} belongs to another machine; two machines never meet")

    def refuse(self, block: OnChip, cost: int) -> NoReturn:
        """Raise :class:`SramOverflow`: what ``block`` costs is more than is free."""
        more = [f"and {len(self.residents) - MOST_TOLD:,} more"] if len(self.residents) > MOST_TOLD else []
        held, free = ", ".join([*map(repr, self.residents[:MOST_TOLD]), *more]) or "nothing", self.limit - self.used
        raise SramOverflow(f"{block!r} needs {cost} {self.unit} but {free} of {self.limit} are free; resident: {held}")

    def most_unnamed(self, words: int, shape: Shape) -> None:
        """Note a record of unnamed words if a value makes one; raises :class:`RegisterOverflow` above ``registers``."""
        self.largest_unnamed = max(self.largest_unnamed, words)
        self.peak_unnamed = max(self.peak_unnamed, self.live)
        if self.registers is not None and self.live > self.registers:
            raise RegisterOverflow(
                f"an unnamed value{shape} makes {self.live} unnamed words but registers hold {self.registers}; "
                "give some of them room with m.let(value, name)"
            )


def compare(kind: Path, known: list[Deed], found: list[Deed]) -> None:
    """Raise :class:`KindMismatch` where two tiles of one kind did different things."""
    for step, (one, other) in enumerate(zip_longest(known, found, fillvalue=("nothing more",)), start=1):
        if one != other:
            raise KindMismatch(
                f"two tiles of one kind ({kind[-1][1]} rows, loop depth {len(kind)}) did different things at step {step}: "
                f"{' '.join(map(str, one))} against {' '.join(map(str, other))}; "
                "a body may depend only on its tile's size, full, first and last"
            )
