"""The moving picture of one run, or of two side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from iosim.animation.limits import measure
from iosim.animation.page import page
from iosim.animation.recording import Recording, record
from iosim.animation.steps import steps_of
from iosim.animation.traced import read_trace
from iosim.compare import check_some_have, options_of
from iosim.errors import BadInput
from iosim.plan import BlockChoice, Plan, make_plan
from iosim.specs import Attention
from iosim.units import Capacity

HEIGHT = 860  # pixels of the frame in a notebook
SMALL = Attention(n=16, d=4)
SIDE = (4, 4)
PLENTY = Capacity(2**30)  # words, to see how many a run takes


@dataclass(frozen=True, slots=True, repr=False)
class MovingPicture:
    """One or two recorded runs; ``html`` is a page of its own, and a notebook shows it in a frame."""

    runs: tuple[Recording, ...]

    @property
    def html(self) -> str:
        """The whole page: it asks for no other file and no address."""
        return page([run.document() for run in self.runs])

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        steps = " and ".join(f"{run.name}, {len(run.steps.rows):,} steps" for run in self.runs)
        return f"MovingPicture({steps}; .save('picture.html') writes the page)"

    def _repr_html_(self) -> str:
        """A frame without access to the notebook around it."""
        title = escape(" beside ".join(run.name for run in self.runs), quote=True)
        style = f"width:100%;height:{HEIGHT}px;border:1px solid #8888;border-radius:8px"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{escape(self.html, quote=True)}"></iframe>'


def animate(
    name: str,
    problem: Attention = SMALL,
    *,
    beside: str | Attention | None = None,
    sram: Capacity | int | str | None = None,
    blocks: BlockChoice = SIDE,
    seed: int = 0,
    **options: str | bool | None,
) -> MovingPicture:
    """Run one head of ``name`` on random numbers and return its :class:`MovingPicture`.

    ``beside``: another kernel on the same problem, or another problem for the same kernel. ``sram``: where None, the smallest power of two,
    in words, in which the runs fit. ``blocks`` as for :func:`iosim.simulate`; one of the ``options`` applies to the kernels that have it.
    Raises :class:`BadInput` for a run of more than 120,000 events, naming a smaller problem.

    >>> animate("flash2", beside="flash")
    MovingPicture(flash2, 240 steps and flash, 320 steps; .save('picture.html') writes the page)
    """
    asked = [(name, problem)]
    if beside is not None:
        asked.append((beside, problem) if isinstance(beside, str) else (name, beside))
    check_some_have([kernel for kernel, _ in asked], options)

    def planned(size: Capacity | int | str) -> list[Plan]:
        return [make_plan(kernel, one, size, blocks, None, options_of(kernel, options)) for kernel, one in asked]

    return picture(planned(roomy(planned(PLENTY)) if sram is None else sram), seed)


def picture(plans: Sequence[Plan], seed: int = 0) -> MovingPicture:
    """The same for plans."""
    for place, plan in enumerate(plans):
        measure(plan, [*plans[:place], *plans[place + 1 :]])  # all of them before any runs
    return MovingPicture(tuple(record(plan, seed) for plan in plans))


def roomy(plans: Sequence[Plan]) -> int:
    """The smallest power of two in which every plan fits, in the unit of their SRAM."""
    return 1 << (max(plan.predicted_peak() for plan in plans) - 1).bit_length()


def from_trace(path: str, sram: Capacity | None = None) -> MovingPicture:
    """The picture of a trace in a file, without listing and numbers, which a trace does not hold; M is its peak where not given.

    Raises :class:`BadInput` for what :func:`~iosim.animation.traced.read_trace` refuses, and for an M in another unit than the trace's.
    """
    made = read_trace(path)
    if sram is not None and sram.unit != made.unit:
        raise BadInput(f"{path} counts SRAM in {made.unit}, so that an M of {sram} says nothing; give it in {made.unit}, or leave it out")
    peak = max(1, *(event.sram for event in made.events))
    capacity = peak if sram is None else sram.amount
    name = os.fsencode(Path(path).name).decode(errors="replace")  # a page is UTF-8, and the name of a file may be any bytes
    return MovingPicture((Recording(name, "a trace: events alone", capacity, made.unit, steps_of(made.events)),))
