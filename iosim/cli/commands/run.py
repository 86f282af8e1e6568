"""One kernel on one problem: values checked against the oracle, words per array, formula beside the count."""

from __future__ import annotations

from typing import Unpack

import click

from iosim.attention.declaration import Kernel
from iosim.attention.passes import Passes
from iosim.attention.report import Report
from iosim.cli.drawing import bars
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, kernel_argument, takes
from iosim.cli.output import Answer, Record, deliver
from iosim.cli.plans import plans_of, report_of
from iosim.cli.progress import working


@click.command("run", cls=Command)
@kernel_argument
@takes(*SIZES, "scale", *RULES, "seed", "pass_", "sram", "blocks", "overflow", "no_execute", *VARIANTS, "json", "csv", "plot")
def command(kernel: Kernel, **given: Unpack[Given]) -> None:
    """Run one KERNEL on one problem.

    Prints the words that each array moves beside the closed form, peak SRAM, how far the values are from the oracle's and, on a
    --device, the time and what binds it. The first head is executed and all are counted; above N = 16384 nothing is executed. Exits with
    1 if two roads disagree.

    \b
    iosim run flash2 --n 1000 --sram 12288
    iosim run flash --first-pass create --blocks 64x64 --causal --json
    iosim run flash --pass both --device a100-40gb --n 4096 --batch 16 --heads 8
    """
    reports = []
    for plan in plans_of(kernel, given):
        with working(f"running {plan.kernel} in blocks {plan.blocks}"):
            reports.append(report_of(plan, given))
    deliver(given, answer(*reports))


def answer(*reports: Report) -> Answer:
    """The reports of one pass or of two, in every form."""
    made = reports[0] if len(reports) == 1 else Passes(reports)
    failures = [why for report in reports if (why := what_differs(report)) is not None]
    rows = [row for report in reports for row in rows_of(report)]
    return Answer(repr(made), made.record(), rows, lambda: bars(list(reports)), "; ".join(failures) or None)


def rows_of(made: Report) -> list[Record]:
    """One row an array."""
    return [
        {
            "kernel": made.kernel, "array": name, "reads": array.reads, "writes": array.writes, "init_writes": array.init_writes,
            "predicted_reads": made.predicted[name].reads if made.predicted else None,
            "predicted_writes": made.predicted[name].writes if made.predicted else None,
            "read_bytes": array.reads * array.itemsize, "write_bytes": array.writes * array.itemsize,
        }
        for name, array in made.arrays.items()
    ]  # fmt: skip


def what_differs(made: Report) -> str | None:
    """In one line what disagreed; None for a sound report."""
    if made.sound:
        return None
    roads = [f"{road} counts differ from the counted ones" for road, equal in made.agreed.items() if not equal]
    for name in made.broken:
        bound = f", above the bound {made.bounds[name]:.1e}" if name in made.bounds else ""
        roads.append(f"{name} is {made.errors[name]:.1e} from the oracle's{bound}")
    return f"{made.kernel}: {'; '.join(roads)}"
