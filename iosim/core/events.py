"""Events: what crossed between HBM and SRAM, one tiny record each, for anyone who wants to watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Box = tuple[tuple[int, int], ...]
Kind = Literal["input", "output", "scratch", "begin", "end", "load", "alloc", "store", "init", "use"]


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a machine did, ``times`` identical repetitions of it.

    ``input``, ``output`` and ``scratch`` declare an HBM array; ``begin`` / ``end`` bracket a tile, at whose end what was made inside it is
    released; ``load`` and ``store`` (or ``init``, a store that only initialises) move the region ``box`` of array ``name``; ``alloc`` gives
    a computed value room; ``use`` says that an operation read the on-chip copy of a region. ``box`` holds (start, stop) per axis,
    ``words`` counts elements of ``itemsize`` bytes, ``sram`` is what is occupied afterwards, in the machine's unit.
    """

    kind: Kind
    name: str
    box: Box
    words: int
    itemsize: int
    times: int
    sram: int

    def record(self) -> dict[str, object]:
        """The same as a dictionary, in the order above; a tuple of numbers needs no deep copy."""
        return {name: getattr(self, name) for name in self.__slots__}


Observer = Callable[[Event], object]
"""A tracer, an animator, a profiler: anything that can be called with an event."""
