"""Exercises that grade the traffic: a course for students, a grader for teachers."""

from __future__ import annotations

import click

from iosim.cli.group import Group


@click.group("exercise", cls=Group, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Exercises that grade the traffic: write attention yourself, and see whether its words are as few as they can be.

    A function is judged by its values. A kernel runs on the machine that iosim counts with, and is judged by three things apart: its
    values, the memory rules, and the words it moves. Inputs are drawn anew each time, unusual ones among them.

    Start with: iosim exercise list
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
