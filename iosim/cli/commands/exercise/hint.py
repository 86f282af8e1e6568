"""One hint more, of three."""

from __future__ import annotations

import click

from iosim.cli.exercise_notes import name_argument, remember
from iosim.cli.options import Command
from iosim.cli.output import width
from iosim.cli.wrapping import wrapped
from iosim.course.progress import recall
from iosim.course.spec import Exercise


@click.command("hint", cls=Command)
@name_argument
@click.option("--level", type=click.IntRange(1, 3), help="This hint; the one after the last that you were given, if not said.")
def command(exercise: Exercise, level: int | None) -> None:
    """Give one hint for the exercise NAME: at first how to think of it, then what to do, at last nearly the code.

    \b
    iosim exercise hint flash2
    iosim exercise hint flash2 --level 1
    """
    progress = recall()
    given, most = progress.hints.get(exercise.name, 0), len(exercise.hints)
    number = level or min(given + 1, most)
    click.echo(f"Hint {number} of {most} for exercise {exercise.number}, {exercise.name}")
    click.echo(wrapped(exercise.hints[number - 1], width(), indent=0))
    if level is None and given >= most:
        click.echo(f"That was the last one. The solution: iosim exercise solution {exercise.name} --reveal")
    remember(progress.hinted(exercise.name, number))
