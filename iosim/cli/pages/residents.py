"""Which values take how much SRAM at the peak, seen by watching a machine count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from iosim.attention.plan import Plan
from iosim.cli.wrapping import TIE, wrapped
from iosim.core.events import Event


class Resident(NamedTuple):
    """A value on chip: its name, its shape and its room, in words or bytes."""

    name: str
    shape: str
    room: int


@dataclass(slots=True)
class Watch:
    """An observer that keeps the residents at the peak, in the order of arrival."""

    open: list[list[Resident]] = field(default_factory=lambda: [[]])
    used: int = 0
    peak: int = 0
    residents: tuple[Resident, ...] = ()

    def __call__(self, event: Event) -> None:
        """Note what the event adds or releases."""
        if event.kind == "begin":
            self.open.append([])
        elif event.kind == "end":
            self.open.pop()
        elif event.kind in ("load", "alloc"):
            shape = "x".join(str(stop - start) for start, stop in event.box)
            self.open[-1].append(Resident(event.name, shape, event.sram - self.used))
        if event.sram > self.peak:
            self.peak, self.residents = event.sram, tuple(resident for tile in self.open for resident in tile)
        self.used = event.sram


def at_the_peak(plan: Plan) -> tuple[Resident, ...]:
    """The values on chip when ``plan`` needs most.

    >>> from iosim.attention.plan import make_plan
    >>> from iosim.core.problem import Attention
    >>> plan = make_plan("flash2", Attention(n=1024, d=64), 49152, (64, 64), None, {})
    >>> sum(resident.room for resident in at_the_peak(plan)) == plan.predicted_peak()
    True
    """
    watch = Watch()
    plan.run(plan.machine("count", [watch]))
    return watch.residents


def listed(residents: Sequence[Resident], before: str, width: int) -> str:
    """The residents after the words ``before``, those of one shape together, the largest first, in lines of at most ``width``."""
    groups: dict[tuple[str, int], list[str]] = {}
    for name, shape, room in residents:
        groups.setdefault((shape, room), []).append(name)
    largest_first = sorted(groups.items(), key=lambda group: -group[0][1] * len(group[1]))
    parts = [f"{room * len(names):,} {', '.join(names)} ({shape})" for (shape, room), names in largest_first]
    return wrapped(" + ".join(part.replace(" ", TIE) for part in parts), width, before, indent=len(before))
