"""Take the answers out of notebooks, for grade."""

from __future__ import annotations

import click

from iosim.cli.exercise_notes import beside, note
from iosim.cli.options import Command
from iosim.cli.output import width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.course.export.collect import collect


@click.command("collect", cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--out", metavar="DIR", default="collected", help="The folder to make.")
def command(folder: str, out: str) -> None:
    """Take the answers out of the notebooks in DIR, exported to otter or nbgrader and handed in, as .py files that grade takes.

    Only what stands in the cells of the answers counts; nothing is run. DIR may be nbgrader's folder submitted.

    \b
    iosim exercise collect submitted --out answers
    iosim exercise grade answers
    """
    files, without = collect(folder, out)
    if not files:
        notebooks = "the only notebook" if len(without) == 1 else f"any of {len(without)} notebooks, the first of them"
        raise BadInput(f"nothing to collect in {notebooks}: {without[0]}")
    for line in without:
        note(line)
    told = f"Wrote {len(files)} answer{'' if len(files) == 1 else 's'} into {beside(out)}."
    click.echo(wrapped(f"{told} Next: iosim exercise grade {beside(out)}", width()))
