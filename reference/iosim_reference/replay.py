"""A second opinion on a trace: every word is counted again from the boxes, on a stack and an address map of its own.

An event is a mapping with the keys ``kind name box words itemsize times``; ``box`` is one ``[start, stop]`` an axis.

=============== ====================================================================================================
kind            what happened
=============== ====================================================================================================
input, output   an array is declared in HBM: an input is full of data, an output is poison until it is written
scratch         an array is declared as an output is, but need not be written whole
begin, end      a tile of a loop begins; the innermost open one ends, and all that was made on chip inside it is gone
load            a region is read from HBM into a new on-chip block
alloc           a computed block is given room on chip
store, init     a region is written to HBM, as a result or to initialise it
use             an operation reads, on chip, a block that was loaded from this region
=============== ====================================================================================================

What a trace claims of ``words`` and ``itemsize`` is checked, never believed; the machine's own ``sram`` is not even read.
Events are numbered from 1, like the lines of a JSON-lines file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Box = tuple[tuple[int, int], ...]

_LOOP = ("begin", "end")
_IN_HBM = ("load", "store", "init", "use")
_KINDS = ("input", "output", "scratch", *_LOOP, "alloc", *_IN_HBM)


class ReplayError(ValueError):
    """A trace that contradicts itself, moves what it may not, or does not fit; the message names the event's number."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Words moved between HBM and one array's on-chip blocks; ``init_writes`` are included in ``writes``."""

    reads: int
    writes: int
    init_writes: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The recount: traffic of each array in words, the most SRAM ever occupied, and the HBM footprint of all arrays."""

    arrays: Mapping[str, Traffic]
    peak_words: int
    peak_bytes: int
    hbm_words: int
    hbm_bytes: int

    @property
    def reads(self) -> int:
        """Words read from HBM, all arrays together."""
        return sum(traffic.reads for traffic in self.arrays.values())

    @property
    def writes(self) -> int:
        """Words written to HBM, all arrays together, initialisation included."""
        return sum(traffic.writes for traffic in self.arrays.values())


def replay(events: Iterable[Mapping[str, object]], *, sram: int | None = None, unit: Literal["words", "bytes"] = "words") -> Replay:
    """Recount a trace in which every tile is enumerated, and check that it could have happened.

    ``sram`` is a capacity in ``unit``. In bytes a loaded block counts at its array's itemsize, a computed one at its own.
    Raises :class:`ReplayError` for a false claim, a region out of range, a read before the write, a use of what is not
    on chip, a store to an input, unbalanced tiles, an output element never written, or a block that does not fit.

    >>> size = {"words": 8, "itemsize": 4, "times": 1, "box": [[0, 4], [0, 2]]}
    >>> trace = [{"kind": kind, "name": name, **size} for kind, name in (("input", "Q"), ("output", "O"), ("load", "Q"), ("store", "O"))]
    >>> replay(trace)  # doctest: +NORMALIZE_WHITESPACE
    Replay(arrays={'Q': Traffic(reads=8, writes=0, init_writes=0), 'O': Traffic(reads=0, writes=8, init_writes=0)},
           peak_words=8, peak_bytes=32, hbm_words=16, hbm_bytes=64)
    """
    recount = _Recount(sram, unit)
    for number, claims in enumerate(events, start=1):
        recount.see(_read(number, claims))
    return recount.result()


def read_jsonl(path: str | Path) -> Iterator[dict[str, object]]:
    """The events of a trace file, one JSON object a line; raises :class:`ReplayError` for a line that is none."""
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                event = json.loads(line)
            except json.JSONDecodeError as error:
                raise ReplayError(f"line {number} is not JSON: {error}") from None
            if not isinstance(event, dict):
                raise ReplayError(f"line {number} must be a JSON object, not {event!r}")
            yield event


@dataclass(frozen=True, slots=True)
class _Event:
    number: int
    kind: str
    name: str
    box: Box
    itemsize: int

    @property
    def words(self) -> int:
        return math.prod(stop - start for start, stop in self.box)

    def error(self, message: str) -> ReplayError:
        box = ", ".join(f"{start}:{stop}" for start, stop in self.box)
        return ReplayError(f"event {self.number} ({self.kind} {self.name}[{box}]): {message}")


def _read(number: int, claims: Mapping[str, object]) -> _Event:
    """One event with its claims checked against each other."""
    missing = [key for key in ("kind", "name", "box", "words", "itemsize", "times") if key not in claims]
    if missing:
        raise ReplayError(f"event {number} has no {', '.join(missing)}")
    kind, times, itemsize = claims["kind"], claims["times"], claims["itemsize"]
    if kind not in _KINDS:
        raise ReplayError(f"event {number} has the unknown kind {kind!r}; known: {', '.join(_KINDS)}")
    event = _Event(number, str(kind), str(claims["name"]), _box(number, claims["box"]), itemsize if isinstance(itemsize, int) else 0)
    if times != 1:
        raise event.error(f"stands for {times!r} visits, but only a trace in which each tile is visited can be replayed")
    if kind not in _LOOP and event.itemsize < 1:
        raise event.error(f"itemsize must be a whole number of bytes >= 1, not {itemsize!r}")
    if kind not in _LOOP and claims["words"] != event.words:
        raise event.error(f"claims {claims['words']!r} words, but its box holds {event.words}")
    return event


def _box(number: int, sides: object) -> Box:
    if not isinstance(sides, list | tuple) or not all(_is_side(side) for side in sides):
        raise ReplayError(f"event {number}: a box is a list of [start, stop] with 0 <= start < stop, not {sides!r}")
    return tuple((start, stop) for start, stop in sides)


def _is_side(side: object) -> bool:
    if not isinstance(side, list | tuple) or len(side) != 2:
        return False
    start, stop = side
    return isinstance(start, int) and isinstance(stop, int) and 0 <= start < stop


@dataclass(slots=True)
class _HbmArray:
    """One declared array: for each element, whether it holds data and in how many resident blocks it is."""

    itemsize: int
    is_input: bool
    holds_data: NDArray[np.bool_]
    resident: NDArray[np.int32]
    whole: bool
    reads: int = 0
    writes: int = 0
    init_writes: int = 0


@dataclass(frozen=True, slots=True)
class _Block:
    """A resident block; ``addresses`` are the counters of the HBM elements it was loaded from, none if computed."""

    words: int
    nbytes: int
    addresses: NDArray[np.int32] | None


@dataclass(slots=True)
class _Recount:
    sram: int | None
    unit: Literal["words", "bytes"]
    arrays: dict[str, _HbmArray] = field(default_factory=dict)
    tiles: list[list[_Block]] = field(default_factory=lambda: [[]])  # the lowest is the kernel itself
    words: int = 0
    nbytes: int = 0
    peak_words: int = 0
    peak_bytes: int = 0

    def see(self, event: _Event) -> None:
        match event.kind:
            case "input" | "output" | "scratch":
                self.declare(event)
            case "begin":
                self.begin(event)
            case "end":
                self.end(event)
            case "load":
                self.load(event)
            case "alloc":
                self.occupy(event, None)
            case "store" | "init":
                self.write(event)
            case "use":
                self.use(event)

    def declare(self, event: _Event) -> None:
        if event.name in self.arrays:
            raise event.error("was declared before")
        if not event.box or any(start for start, _ in event.box):
            raise event.error("an array is declared whole: [0, size] on each axis")
        shape, is_input = tuple(stop for _, stop in event.box), event.kind == "input"
        data, resident = np.full(shape, is_input), np.zeros(shape, dtype=np.int32)
        self.arrays[event.name] = _HbmArray(event.itemsize, is_input, data, resident, whole=event.kind != "scratch")

    def begin(self, event: _Event) -> None:
        if len(event.box) != 1:
            raise event.error(f"a tile lies on one axis, not on {len(event.box)}")
        self.tiles.append([])

    def end(self, event: _Event) -> None:
        if len(self.tiles) == 1:
            raise event.error("no tile is open")
        for block in self.tiles.pop():
            self.words -= block.words
            self.nbytes -= block.nbytes
            if block.addresses is not None:
                block.addresses[...] -= 1

    def load(self, event: _Event) -> None:
        array, region = self.find(event)
        if not array.holds_data[region].all():
            raise event.error("reads elements that were never written")
        array.reads += event.words
        self.occupy(event, array.resident[region])

    def occupy(self, event: _Event, addresses: NDArray[np.int32] | None) -> None:
        block = _Block(event.words, event.words * event.itemsize, addresses)
        self.check_room(event, block)
        self.tiles[-1].append(block)
        self.words += block.words
        self.nbytes += block.nbytes
        self.peak_words, self.peak_bytes = max(self.peak_words, self.words), max(self.peak_bytes, self.nbytes)
        if addresses is not None:
            addresses[...] += 1

    def check_room(self, event: _Event, block: _Block) -> None:
        if self.sram is None:
            return
        needed, used = (block.words, self.words) if self.unit == "words" else (block.nbytes, self.nbytes)
        if used + needed > self.sram:
            raise event.error(f"needs {needed} {self.unit} but {self.sram - used} of {self.sram} are free")

    def write(self, event: _Event) -> None:
        array, region = self.find(event)
        if array.is_input:
            raise event.error("an input is read only")
        array.holds_data[region] = True
        array.writes += event.words
        if event.kind == "init":
            array.init_writes += event.words

    def use(self, event: _Event) -> None:
        array, region = self.find(event)
        if not array.resident[region].all():
            raise event.error("is not on chip")

    def find(self, event: _Event) -> tuple[_HbmArray, tuple[slice, ...]]:
        """The array an event names and where its box lies in it."""
        array = self.arrays.get(event.name)
        if array is None:
            raise event.error(f"was never declared; declared: {', '.join(self.arrays) or 'nothing'}")
        shape = array.resident.shape
        if len(event.box) != len(shape) or any(stop > size for (_, stop), size in zip(event.box, shape, strict=True)):
            raise event.error(f"lies outside the array, which has shape {shape}")
        if event.itemsize != array.itemsize:
            raise event.error(f"claims {event.itemsize} bytes an element, but the array was declared with {array.itemsize}")
        return array, tuple(slice(start, stop) for start, stop in event.box)

    def result(self) -> Replay:
        if len(self.tiles) > 1:
            raise ReplayError(f"the trace stops with {len(self.tiles) - 1} tiles open")
        for name, array in self.arrays.items():
            if array.whole and not array.holds_data.all():
                raise ReplayError(f"{name}: {int((~array.holds_data).sum())} of {array.holds_data.size} elements were never written")
        return Replay(
            arrays={name: Traffic(array.reads, array.writes, array.init_writes) for name, array in self.arrays.items()},
            peak_words=self.peak_words,
            peak_bytes=self.peak_bytes,
            hbm_words=sum(array.resident.size for array in self.arrays.values()),
            hbm_bytes=sum(array.resident.size * array.itemsize for array in self.arrays.values()),
        )
