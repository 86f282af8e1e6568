"""The state of a trace: its arrays, the open tiles and what is on chip. Each event must follow from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim.core.events import Box, Event
from iosim.core.units import Unit
from iosim.show.animation.steps import DECLARED

MOST_LOOKED = 10**9  # words, in the different regions of all arrays that are written; a kernel cuts an array in a few ways
UNITS: tuple[Unit, ...] = ("words", "bytes")
DEEDS = {"load": "loads", "store": "stores", "init": "initialises", "use": "uses"}


@dataclass(frozen=True, slots=True)
class Declared:
    """An HBM array, and which of its elements hold data."""

    kind: str
    itemsize: int
    holds: NDArray[np.bool_]


class TraceState:
    """The state of a run, event by event. SRAM is counted in words and in bytes, since a trace does not say which of them it uses."""

    def __init__(self) -> None:
        self.arrays: dict[str, Declared] = {}
        self.used: dict[Unit, int] = dict.fromkeys(UNITS, 0)
        self.loaded: list[tuple[str, Box]] = []
        self.resident: Counter[tuple[str, Box]] = Counter()
        self.tiles: list[tuple[dict[Unit, int], int]] = []
        self.written: set[tuple[str, Box]] = set()  # regions that hold data, so that what moves often is looked at once
        self.looked = 0

    @property
    def unit(self) -> Unit:
        """The unit of SRAM that agrees with every event so far; words where both do."""
        return next(iter(self.used))

    def follow(self, event: Event) -> None:
        """Do what an event does; raises :class:`BadInput` where that is impossible, with a message that goes on after "line 7,"."""
        if event.kind in DECLARED:
            self._declare(event)
        elif event.kind == "begin":
            self.tiles.append((self.used, len(self.loaded)))
        elif event.kind == "end":
            self._end()
        else:
            self._touch(event)
        self._check_sram(event)

    def missing(self) -> str:
        """What is missing from a whole trace; "" where nothing is."""
        if self.tiles:
            return f"is the last, but {open_tiles(len(self.tiles))}"
        for name, array in self.arrays.items():
            if array.kind == "output" and not array.holds.all():
                return f"is the last, but {int((~array.holds).sum()):,} of {array.holds.size:,} elements of {name} were never written"
        return ""

    def _declare(self, event: Event) -> None:
        if event.name in self.arrays:
            raise BadInput(f"declares {event.name}, which was declared before")
        if self.tiles or any(start for start, _ in event.box):
            raise BadInput(f"declares {spelled(event)}, but arrays are declared whole, from 0, and outside of tiles")
        (_, rows), (_, cols) = event.box
        self.arrays[event.name] = Declared(event.kind, event.itemsize, np.full((rows, cols), event.kind == "input"))

    def _end(self) -> None:
        if not self.tiles:
            raise BadInput("ends a tile, but no tile is open")
        before, mark = self.tiles.pop()
        self.used = {unit: before[unit] for unit in self.used}
        self.resident.subtract(self.loaded[mark:])
        del self.loaded[mark:]

    def _touch(self, event: Event) -> None:
        if event.kind != "alloc":
            self._move(event, self._found(event))
        if event.kind in ("load", "alloc"):
            costs: dict[Unit, int] = {"words": event.words, "bytes": event.words * event.itemsize}
            self.used = {unit: used + costs[unit] for unit, used in self.used.items()}

    def _found(self, event: Event) -> Declared:
        """The array of an event that lies in HBM, its region inside."""
        array = self.arrays.get(event.name)
        if array is None:
            raise BadInput(f"{DEEDS[event.kind]} {spelled(event)}, which no line declares; declared: {', '.join(self.arrays) or 'nothing'}")
        if any(stop > size for (_, stop), size in zip(event.box, array.holds.shape, strict=True)):
            rows, cols = array.holds.shape
            raise BadInput(f"{DEEDS[event.kind]} {spelled(event)}, which lies outside of {event.name}[0:{rows}, 0:{cols}]")
        if event.itemsize != array.itemsize:
            raise BadInput(f"claims {event.itemsize} bytes an element of {event.name}, which was declared with {array.itemsize}")
        return array

    def _move(self, event: Event, array: Declared) -> None:
        place = event.name, event.box
        if event.kind == "use" and not self.resident[place]:
            raise BadInput(f"uses {spelled(event)}, which is not on chip")
        if event.kind in ("store", "init") and array.kind == "input":
            raise BadInput(f"{DEEDS[event.kind]} {spelled(event)}, but {event.name} is an input, which is never stored to")
        if event.kind != "use" and array.kind != "input" and place not in self.written:
            self._look(event, array)
        if event.kind == "load":
            self.loaded.append(place)
            self.resident[place] += 1

    def _look(self, event: Event, array: Declared) -> None:
        """Mark a region as written, or check that a region that is read was written."""
        self.looked += event.words
        if self.looked > MOST_LOOKED:
            raise BadInput(f"moves too many different regions: {self.looked:,} words in all, the limit is {MOST_LOOKED:,}")
        (top, bottom), (left, right) = event.box
        region = array.holds[top:bottom, left:right]
        if event.kind != "load":
            region[...] = True
        elif not region.all():
            raise BadInput(f"loads {spelled(event)}, of which elements were never written")
        self.written.add((event.name, event.box))

    def _check_sram(self, event: Event) -> None:
        claimed = {unit: used for unit, used in self.used.items() if used == event.sram}
        if not claimed:
            held = " or ".join(f"{used:,} {unit}" for unit, used in self.used.items())
            raise BadInput(f"says that SRAM holds {event.sram:,}, but it holds {held}")
        self.used = claimed


def spelled(event: Event) -> str:
    """The region of an event."""
    return f"{event.name}[{', '.join(f'{start}:{stop}' for start, stop in event.box)}]"


def open_tiles(count: int) -> str:
    """So many tiles, and their verb."""
    return "1 tile is still open" if count == 1 else f"{count} tiles are still open"
