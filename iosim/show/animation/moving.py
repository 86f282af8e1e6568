"""The moving picture of one run, or of two side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from iosim.attention.catalogue import Named, kernel
from iosim.attention.compare import check_some_have, options_of
from iosim.attention.plan import BlockChoice, Given, Overflow, Plan, make_plan
from iosim.core.errors import BadInput
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.units import Capacity, capacity
from iosim.show.animation.limits import measure
from iosim.show.animation.page import page
from iosim.show.animation.recording import Recording, record
from iosim.show.animation.steps import steps_of
from iosim.show.animation.trace_file import named, read_trace

HEIGHT = {1: 860, 2: 1500}  # pixels of the frame in a notebook, by the number of runs, where no run has more than FEW arrays
MORE = {1: 60, 2: 100}  # pixels for each array beyond: its row of tiles, of counts and of numbers
FEW, TALLEST = 6, 2400
SMALL = Attention(n=16, d=4)
SIDE = (4, 4)
PLENTY = Capacity(2**30)  # words, to see how many a run takes


@dataclass(frozen=True, slots=True, repr=False)
class MovingPicture:
    """One or two recorded runs; ``html`` is a page of its own, and a notebook shows it in a frame."""

    runs: tuple[Recording, ...]

    @property
    def html(self) -> str:
        """The whole page, without any other file or address."""
        return page([run.document() for run in self.runs])

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        steps = " and ".join(f"{run.name}, {len(run.steps.rows):,} steps" for run in self.runs)
        return f"MovingPicture({steps}; .save('picture.html') writes the page)"

    @property
    def _height(self) -> int:
        """The height of the frame in pixels, high enough that it does not scroll inside the notebook."""
        count, most = len(self.runs), max(len(run.steps.arrays) for run in self.runs)
        return min(TALLEST, HEIGHT[count] + MORE[count] * max(0, most - FEW))

    def _repr_html_(self) -> str:
        """A frame without access to the notebook around it."""
        title = escape(" beside ".join(run.name for run in self.runs), quote=True)
        style = f"width:100%;height:{self._height}px;border:1px solid #8888;border-radius:8px"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.html, quote=True)}"></iframe>'


def animate(
    name: Named,
    problem: Attention = SMALL,
    *,
    beside: Named | Attention | None = None,
    sram: Capacity | int | str | None = None,
    blocks: BlockChoice = SIDE,
    overflow: Overflow | None = None,
    seed: int = 0,
    **options: Value | None,
) -> MovingPicture:
    """Run one head of ``name`` on random numbers and return its :class:`MovingPicture`.

    Raises :class:`BadInput` for a run of more than 120,000 events, naming a smaller problem, and for the same run twice.

    Args:
        name: The kernel.
        problem: What it runs on.
        beside: Another kernel on the same problem, or another problem for the same kernel.
        sram: M; None takes the smallest power of two, in words, in which the runs fit.
        blocks: As for :func:`iosim.simulate`.
        overflow: "error" or "record".
        seed: Of the random numbers.
        options: Each applies to the kernels that have it.

    >>> animate("flash2", beside="flash")
    MovingPicture(flash2, 240 steps and flash, 320 steps; .save('picture.html') writes the page)
    """
    asked: list[tuple[Named, Attention]] = [(name, problem)]
    if beside is not None:
        asked.append((name, beside) if isinstance(beside, Attention) else (beside, problem))
    check_arguments(asked, options)

    def planned(size: Capacity | int | str) -> list[Plan]:
        return [make_plan(own, one, size, blocks, overflow, options_of(own, options)) for own, one in asked]

    return picture(planned(roomy(planned(PLENTY)) if sram is None else sram), seed)


def check_arguments(asked: Sequence[tuple[Named, Attention]], options: Given) -> None:
    """Raise :class:`BadInput` for the same run twice, for options that no kernel has, and for values of a wrong type."""
    for option, value in options.items():
        if not isinstance(value, str | bool | int | None):
            raise BadInput(f"{option} must be a text, a number, True or False, not {' '.join(repr(value).split()):.40}")
    check_some_have([name for name, _ in asked], options)
    names, problems = [kernel(name) for name, _ in asked], [problem for _, problem in asked]
    if len(asked) > 1 and names[0] == names[1] and alike(*problems):
        raise BadInput(f"beside shows the same run of {names[0]} twice; name another kernel or give another problem")


def alike(one: Attention, other: object) -> bool:
    """Whether two problems are the same, masks included."""
    return isinstance(other, Attention) and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.__slots__)


def picture(plans: Sequence[Plan], seed: int = 0) -> MovingPicture:
    """The same for plans."""
    for place, plan in enumerate(plans):
        measure(plan, [*plans[:place], *plans[place + 1 :]])  # all of them before any runs
    return MovingPicture(tuple(record(plan, seed) for plan in plans))


def roomy(plans: Sequence[Plan]) -> int:
    """The smallest power of two in which every plan fits, in the unit of their SRAM."""
    return 1 << (max(plan.peak() for plan in plans) - 1).bit_length()


def from_trace(path: str | Path, sram: Capacity | int | str | None = None) -> MovingPicture:
    """The picture of a trace in a file, without listing and numbers, which a trace does not hold; M is its peak where not given.

    ``sram`` as for :func:`iosim.simulate`. Raises :class:`BadInput` for what :func:`~iosim.show.animation.trace_file.read_trace` refuses,
    and for an M in another unit than the trace's.
    """
    if not isinstance(path, str | Path):
        raise BadInput(f"the path of a trace must be a str or a Path, not {' '.join(repr(path).split()):.40}")
    size = None if sram is None else capacity(sram)
    made = read_trace(str(path))
    if size is not None and size.unit != made.unit:
        told = f"counts SRAM in {made.unit}; give M in {made.unit}, not {size}, or leave it out"
        raise BadInput(f"{named(str(path))} {told}")
    most = max(1, *(event.sram for event in made.events)) if size is None else size.amount
    name = os.fsencode(Path(path).name).decode(errors="replace")  # a page is UTF-8, and the name of a file may be any bytes
    return MovingPicture((Recording(name, "a trace: events alone", most, made.unit, steps_of(made.events)),))
