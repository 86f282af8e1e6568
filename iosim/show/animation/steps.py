"""Steps: the events of a run, one short row of integers each, and the scopes that they open and close."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from iosim.core.events import Event

Thing = tuple[str, int, int, int, int, int]
Step = tuple[int, int, int, int, int]
KINDS = ("begin", "end", "load", "alloc", "store", "init", "compute")
DECLARED = ("input", "output", "scratch")
UNKNOWN = -1


@dataclass(slots=True)
class Steps:
    """Rows ``(kind, line, thing, sram, at)``: the place of a kind in ``KINDS``, a line of the listing, what is concerned, and its contents.

    ``thing`` is an index of ``things``: name, first and last row, first and last column, words; for a tile its loop variable and rows;
    for ``compute`` the place of the block among those on chip. Rows of a computed block are those of the array's that it stands for, where
    an open tile says so, else they begin at -1. ``at`` is where its contents begin among the numbers. -1 stands for nothing.
    """

    rows: list[Step] = field(default_factory=list)
    things: dict[Thing, int] = field(default_factory=dict)
    arrays: list[tuple[str, str, int, int]] = field(default_factory=list)
    scopes: list[tuple[str, int, int]] = field(default_factory=list)

    def add(self, event: Event, line: int = UNKNOWN, at: int = UNKNOWN, variable: str = "") -> None:
        """Append what an event did. A declaration goes to ``arrays``; the use of an operand is no step."""
        if event.kind in DECLARED:
            self.arrays.append((event.name, event.kind, event.box[0][1], event.box[1][1]))
        elif event.kind != "use":
            self.rows.append((KINDS.index(event.kind), line, self._thing(event, variable), event.sram, at))

    def compute(self, place: int, line: int, at: int) -> None:
        """Append that a block on chip, by its place, was overwritten."""
        self.rows.append((KINDS.index("compute"), line, place, self.rows[-1][3], at))

    def top(self, name: str, height: int) -> int:
        """The first row that a computed block of ``height`` rows stands for: S_ij for tile i, dK_j for tile j."""
        role = "j" if name.partition("_")[2].startswith("j") else "i"
        tops = (start for variable, start, stop in self.scopes if variable.partition(".")[0] == role and stop - start == height)
        return next(tops, UNKNOWN)

    def _thing(self, event: Event, variable: str) -> int:
        if event.kind == "begin":
            ((start, stop),) = event.box
            self.scopes.append((variable, start, stop))
            thing = (variable, start, stop, 0, 0, 0)
        elif event.kind == "end":
            variable, start, stop = self.scopes.pop()
            thing = (variable, start, stop, 0, 0, 0)
        else:
            (top, bottom), (left, right) = event.box
            shift = self.top(event.name, bottom) if event.kind == "alloc" else 0
            thing = (event.name, top + shift, bottom + shift, left, right, event.words)
        return self.things.setdefault(thing, len(self.things))


def steps_of(events: Iterable[Event]) -> Steps:
    """The steps of a trace, which knows neither lines nor numbers."""
    steps = Steps()
    for event in events:
        steps.add(event)
    return steps
