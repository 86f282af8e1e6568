"""Write the file that you begin an exercise with."""

from __future__ import annotations

from pathlib import Path

import click

from iosim.cli.exercise_notes import beside, name_argument
from iosim.cli.options import Command
from iosim.cli.output import width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.course.spec import Exercise
from iosim.course.submission import shown
from iosim.course.text import about, file_name, starter


@click.command("start", cls=Command)
@name_argument
@click.argument("folder", metavar="[DIR]", default=".")
def command(exercise: Exercise, folder: str) -> None:
    """Write the file that the exercise NAME begins with, into DIR or the current folder; a file that exists is kept.

    It says what is asked for, and holds the function without its body. NAME is a name or a number of iosim exercise list.

    \b
    iosim exercise start softmax
    iosim exercise start 8 course
    """
    path = begun(exercise, Path(folder))
    lines = [
        f"Wrote {shown(path)}: exercise {exercise.number}, {exercise.title}.",
        f"It says what to write ({about(exercise)}). Then: iosim exercise check {beside(path)}",
        f"It is judged again at every save with: iosim exercise check --watch {beside(path)}",
    ]
    click.echo("\n".join(wrapped(line, width()) for line in lines))


def begun(exercise: Exercise, folder: Path) -> Path:
    """Write the starter file, whole or not at all; raises :class:`BadInput` where there is such a file, or no such folder."""
    path = folder / file_name(exercise)
    if not folder.is_dir():
        raise BadInput(f"{shown(folder)} is no folder; make it first, or leave DIR out for the current one")
    try:
        file = path.open("xb")
    except FileExistsError:
        raise BadInput(
            f"{shown(path)} exists and is kept; check it, or begin anew with: iosim exercise start {exercise.name} DIR"
        ) from None
    try:
        with file:
            file.write(starter(exercise).encode())
    except BaseException:
        path.unlink()
        raise
    return path
