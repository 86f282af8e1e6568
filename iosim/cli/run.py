"""``iosim run KERNEL``."""

from __future__ import annotations

from typing import Unpack

import click

from iosim.cli.asked import check_variants, plan_of, problem_of, report_of
from iosim.cli.drawing import bars
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, kernel_argument, takes
from iosim.cli.output import Answer, Record, deliver
from iosim.cli.progress import working
from iosim.report import Report


@click.command("run", cls=Command)
@kernel_argument
@takes(*SIZES, "scale", *RULES, "seed", "sram", "blocks", "overflow", "no_execute", *VARIANTS, "json", "csv", "plot")
def command(kernel: str, **given: Unpack[Given]) -> None:
    """Run one KERNEL on one problem.

    Prints the words that each array moves beside the closed form, peak SRAM, and how far the values are from the oracle's.
    The first head is executed and all are counted; above N = 16384 nothing is executed. Exits with 1 if two roads disagree.

    \b
    iosim run flash2 --n 1000 --sram 12288
    iosim run flash --first-pass create --blocks 64x64 --causal --json
    """
    check_variants(given, [kernel])
    plan = plan_of(kernel, given, problem_of(given))
    with working(f"running {kernel} in blocks {plan.blocks}"):
        made = report_of(plan, given)
    deliver(given, answer(made))


def answer(made: Report) -> Answer:
    """A report in every form."""

    return Answer(repr(made), made.record(), rows_of(made), lambda: bars([made]), what_differs(made))


def rows_of(made: Report) -> list[Record]:
    """One row an array."""
    return [
        {
            "kernel": made.kernel,
            "array": name,
            "reads": array.reads,
            "writes": array.writes,
            "init_writes": array.init_writes,
            "predicted_reads": made.predicted[name].reads,
            "predicted_writes": made.predicted[name].writes,
            "read_bytes": array.reads * array.itemsize,
            "write_bytes": array.writes * array.itemsize,
        }
        for name, array in made.arrays.items()
    ]


def what_differs(made: Report) -> str | None:
    """In one line what disagreed; None for a sound report."""
    if made.sound:
        return None
    roads = [f"{road} counts differ from the counted ones" for road, equal in made.agreed.items() if not equal]
    for name in made.broken:
        bound = f", above the bound {made.bounds[name]:.1e}" if name in made.bounds else ""
        roads.append(f"{name} is {made.errors[name]:.1e} from the oracle's{bound}")
    return f"{made.kernel}: {'; '.join(roads)}"
