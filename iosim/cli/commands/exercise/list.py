"""The exercises, and which of them you have passed."""

from __future__ import annotations

from typing import Unpack

import click

from iosim.cli.options import Command, Given, takes
from iosim.cli.output import Answer, deliver, width
from iosim.cli.wrapping import wrapped
from iosim.core.tables import table
from iosim.course.catalogue import EXERCISES
from iosim.course.progress import Progress, place, recall
from iosim.course.spec import Exercise
from iosim.course.text import file_name, lines


@click.command("list", cls=Command)
@takes("json", "csv")
def command(**given: Unpack[Given]) -> None:
    """List the exercises in the order of the course, and say which of them you have passed.

    That is kept in iosim/exercises.json in the folder that XDG_STATE_HOME names, or else in ~/.local/state.

    \b
    iosim exercise list
    iosim exercise start softmax
    """
    progress = recall()
    rows = [record(one, progress) for one in EXERCISES.values()]
    document = {"passed": sum(row["passed"] is True for row in rows), "progress": str(place()), "exercises": rows}
    deliver(given, Answer(text_of(progress), document, rows))


def record(exercise: Exercise, progress: Progress) -> dict[str, object]:
    """One exercise as a record."""
    return {
        "number": exercise.number, "name": exercise.name, "title": exercise.title, "kind": exercise.kind, "function": exercise.function,
        "file": file_name(exercise), "lines": lines(exercise), "passed": exercise.name in progress.passed,
        "hints": progress.hints.get(exercise.name, 0),
    }  # fmt: skip


def text_of(progress: Progress) -> str:
    """The table, and what to do next."""
    every = list(EXERCISES.values())
    rows = [["✔" if one.name in progress.passed else "", one.number, one.name, one.kind, lines(one), one.title] for one in every]
    return "\n".join(
        [table(["", "", "exercise", "kind", "lines", "what you write"], rows, width=width()), "", wrapped(said(progress), width())]
    )


def said(progress: Progress) -> str:
    """How many are passed, and which comes next."""
    left = [one for one in EXERCISES.values() if one.name not in progress.passed]
    passed = f"{len(EXERCISES) - len(left)} of {len(EXERCISES)} passed"
    if not left:
        return f"{passed}: that is the whole course."
    begin = f"iosim exercise start {left[0].name}"
    return f"{passed}. {'Next' if progress.passed else 'Begin with'}: {begin}"
