"""What the commands under ``iosim exercise`` are asked about, and what they say beside their answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from iosim.cli import reading
from iosim.cli.options import valued
from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES
from iosim.course.catalogue import exercise as exercise_named
from iosim.course.progress import Progress, keep, place
from iosim.course.spec import Exercise
from iosim.course.submission import shown

F = TypeVar("F", bound=Callable[..., object])


def named(context: click.Context, argument: click.Parameter, text: str | None) -> Exercise | None:
    """The exercise of a name or a number; the argument may not be left out."""
    if text is not None:
        return exercise_named(text)
    if isinstance(argument, click.Argument):
        raise BadInput(f"{context.info_name} needs an exercise: {', '.join(f'{one.number} {one.name}' for one in EXERCISES.values())}")
    return None


name_argument = click.argument("exercise", metavar="NAME", required=False, callback=named)
exercise_option = click.option("--exercise", metavar="NAME", callback=named, help="Which exercise it is for, whatever the file is called.")


def seed_option(told: str) -> Callable[[F], F]:
    """The option --seed, which a command gets as ``again``."""
    return valued("--seed", "SEED", reading.seed, told, "again")


def note(text: str) -> None:
    """One line on standard error, beside the answer."""
    click.echo(f"iosim: {' '.join(text.split())}", err=True)


def remember(progress: Progress) -> None:
    """Keep the progress, or say that it could not be kept."""
    try:
        keep(progress)
    except OSError as error:
        note(f"your progress is not kept: {shown(place())}: {(error.strerror or str(error)).lower()}")


def following(exercise: Exercise, progress: Progress) -> Exercise | None:
    """The next exercise that is not passed: one after this if there is any, or else the first; None where all are."""
    later = sorted(EXERCISES.values(), key=lambda one: (one.number <= exercise.number, one.number))
    return next((one for one in later if one.name not in progress.passed), None)


def beside(path: str | Path) -> str:
    """A path as it is typed in a shell."""
    text = shown(path)
    return text if text and all(sign.isalnum() or sign in "/._-~" for sign in text) else "'" + text.replace("'", "'\\''") + "'"
