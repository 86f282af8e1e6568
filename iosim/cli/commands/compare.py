"""All kernels on one problem: counted, predicted, lower bound, error."""

from __future__ import annotations

from typing import Unpack

import click

from iosim.attention.compare import Comparison
from iosim.attention.report import Report
from iosim.cli.commands.run import what_differs
from iosim.cli.drawing import bars
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, takes
from iosim.cli.output import Answer, deliver
from iosim.cli.plans import check_variants, masked, plan_of, problem_of, report_of
from iosim.cli.progress import working
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.problem import Attention, Blocks


@click.command("compare", cls=Command)
@takes(*SIZES, "scale", *RULES, "seed", "kernels", "sram", "blocks", "overflow", "no_execute", *VARIANTS, "json", "csv", "plot")
def command(**given: Unpack[Given]) -> None:
    """Run all kernels on one problem and set them side by side.

    Counted and predicted words, the lower bound, peak SRAM, and how far the values are from the oracle's. A variant applies to the
    kernels that have it; a kernel that does not fit is listed with the reason. Exits with 1 if two roads disagree.

    \b
    iosim compare --n 4096 --sram 192KiB --dtype float16
    iosim compare --causal --kernels flash,flash2 --plot compare.svg
    """
    check_variants(given, given["kernels"])
    made = compared(given, problem_of(given))
    failures = [why for report in made if (why := what_differs(report)) is not None]
    records = [report.record() for report in made]
    deliver(given, Answer(repr(made), records, records, lambda: bars(made.reports), "; ".join(failures) or None))


def compared(given: Given, problem: Attention) -> Comparison:
    """The reports of the kernels that can run, and why the others cannot; raises :class:`BadInput` where none can."""
    if given.get("block_mask") is not None:
        if not isinstance(given["blocks"], Blocks):
            raise BadInput("compare needs one grid for --block-mask; give the blocks of all kernels, such as --blocks 64x64")
        problem = masked(problem, given, given["blocks"])
    reports: list[Report] = []
    refused: dict[str, str] = {}
    for name in given["kernels"]:
        try:
            plan = plan_of(name, given, problem)
            with working(f"running {name} in blocks {plan.blocks}"):
                reports.append(report_of(plan, given))
        except (SramOverflow, BadInput) as error:
            refused[name.name] = str(error)
    if not reports:
        raise BadInput("; ".join(dict.fromkeys(refused.values())))
    return Comparison(tuple(reports), refused)
