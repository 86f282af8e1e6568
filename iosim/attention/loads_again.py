"""What a listing loads though it is on chip already."""

from __future__ import annotations

import sys
from inspect import unwrap
from types import FrameType

from iosim.attention.own_kernels import place_of
from iosim.attention.plan import Plan
from iosim.core.events import Box, Event


def loads_again(plan: Plan) -> list[str]:
    """Where the listing loads what is on chip already, line by line: that moves words for nothing."""
    watch = OnChip(unwrap(plan.kernel.listing).__code__.co_filename)
    plan.run(plan.machine("count", [watch.see]))  # where one tile of each kind shows it
    return [f"{place_of(plan.kernel)}, line {line}: {what} is loaded again while it is on chip" for line, what in watch.again.items()]


class OnChip:
    """The regions that open tiles hold, and the lines of ``file`` that load one of them again."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.held: list[set[tuple[str, Box]]] = [set()]
        self.again: dict[int, str] = {}

    def see(self, event: Event) -> None:
        """Take note of an event, as it happens."""
        region = event.name, event.box
        match event.kind:
            case "begin":
                self.held.append(set())
            case "end":
                self.held.pop()
            case "store" | "init":
                for scope in self.held:  # what is on chip is out of date
                    scope.discard(region)
            case "load" if any(region in scope for scope in self.held):
                self.again.setdefault(self._line(), event.name.partition("[")[0])
            case "load":
                self.held[-1].add(region)

    def _line(self) -> int:
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename != self.file:
            frame = frame.f_back
        return 0 if frame is None else frame.f_lineno
