"""The solution, once you have passed."""

from __future__ import annotations

import click

from iosim.cli.exercise_notes import name_argument
from iosim.cli.options import Command
from iosim.core.errors import BadInput
from iosim.course.progress import recall
from iosim.course.spec import Exercise
from iosim.course.text import solution_source


@click.command("solution", cls=Command)
@name_argument
@click.option("--reveal", is_flag=True, help="Show it even if you have not passed.")
def command(exercise: Exercise, reveal: bool) -> None:
    """Print the solution of the exercise NAME, once you have passed it.

    \b
    iosim exercise solution softmax
    iosim exercise solution flash2 --reveal
    """
    if not reveal and exercise.name not in recall().passed:
        raise BadInput(
            f"you have not passed {exercise.name} yet; a hint: iosim exercise hint {exercise.name}, and --reveal shows the solution anyhow"
        )
    click.echo(solution_source(exercise), nl=False)
