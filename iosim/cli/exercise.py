"""``iosim exercise``: the commands for students and teachers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from iosim.cli.group import Group

PAGES = {
    "list": "The exercises, and which of them you have passed.",
    "start": "Write the file that you begin an exercise with.",
    "check": "Judge your file: values, memory rules, words moved.",
    "hint": "One hint more, of three.",
    "solution": "The solution, once you have passed.",
    "grade": "Grade a folder of submissions, one row each.",
    "export": "Write exercises for otter-grader, nbgrader or Gradescope.",
    "collect": "Take the answers out of notebooks, for grade.",
}


class Pages(Group):
    """The commands under ``iosim exercise``."""

    known: ClassVar[Mapping[str, str]] = PAGES
    home: ClassVar[str] = "iosim.cli.exercise_"


@click.group("exercise", cls=Pages, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Exercises that grade the traffic: write attention yourself, and see whether its words are as few as they can be.

    A function is judged by its values. A kernel runs on the machine that iosim counts with, and is judged by three things apart: its
    values, the memory rules, and the words it moves. Inputs are drawn anew each time, unusual ones among them.

    Start with: iosim exercise list
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
