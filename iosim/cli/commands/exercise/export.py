"""Write exercises for otter-grader, nbgrader or Gradescope."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import click

from iosim.cli.exercise_notes import beside
from iosim.cli.options import Command
from iosim.cli.output import width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES
from iosim.course.catalogue import exercise as exercise_named
from iosim.course.export import IN_KERNEL, TARGETS, export
from iosim.course.spec import Exercise

TOOLS = {"otter": "otter", "nbgrader": "nbgrader"}  # what is imported by the name of the target


def every(context: click.Context, argument: click.Parameter, names: tuple[str, ...]) -> tuple[Exercise, ...]:
    """The exercises of these names or numbers, each once, or ``all``."""
    if not names:
        raise BadInput(
            f"{context.info_name} needs exercises: all, or {', '.join(f'{one.number} {one.name}' for one in EXERCISES.values())}"
        )
    chosen = EXERCISES.values() if names == ("all",) else map(exercise_named, names)
    return tuple({one.name: one for one in chosen}.values())


@click.command("export", cls=Command)
@click.argument("exercises", metavar="NAME...", nargs=-1, callback=every)
@click.option("--to", "target", type=click.Choice(tuple(TARGETS)), required=True, help="The tool that is to grade them.")
@click.option("--out", metavar="DIR", help="The folder to make, exercises-TOOL if not given; for gradescope also a name that ends in .zip.")
def command(exercises: Sequence[Exercise], target: str, out: str | None) -> None:
    """Write exercises for the tool in which a class hands in: NAME... are names or numbers, or all.

    otter: a master notebook for otter assign. nbgrader: an assignment for nbgrader's source folder. Both run the tests in the student's
    kernel, so that they cannot stop a submission that changes the tests, NumPy or iosim: where marks count, grade again with iosim
    exercise grade. gradescope: an autograder that calls iosim exercise grade in processes of its own, for .py files.

    \b
    iosim exercise export softmax merge --to otter
    iosim exercise export flash2 --to nbgrader --out source/flash2
    iosim exercise export all --to gradescope --out autograder.zip
    """
    written = export(exercises, target, f"exercises-{target}" if out is None else out)
    lines = [f"Wrote {', '.join(map(beside, written))}.", *after(target, written)]
    click.echo("\n".join(wrapped(line, width()) for line in lines))


def after(target: str, written: Sequence[Path]) -> list[str]:
    """What to do with it, and what is not to be expected of it."""
    where = beside(written[0])
    if target == "gradescope":
        packed = where if len(written) == 1 else f"a zip of the files in {beside(written[0].parent)}"
        return [f"Upload {packed} as the autograder. Students hand in .py files, called as iosim exercise start calls them."]
    told = {
        "otter": f"Next: otter assign {where} DIR",
        "nbgrader": f"Next: nbgrader generate_assignment {beside(written[0].parent.name)}, in the course whose folder source it lies in.",
    }
    missing = find_spec(TOOLS[target]) is None
    return [told[target], *([f"{target} is not installed here: pip install 'iosim[exports]'"] if missing else []), IN_KERNEL]
