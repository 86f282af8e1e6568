"""``iosim explain KERNEL``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from iosim import theory
from iosim.cli.asked import check_variants, plan_of, problem_of
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, kernel_argument, takes
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.rooms import Resident, at_the_peak, listed
from iosim.cli.run import what_differs
from iosim.report import Report
from iosim.run import report
from iosim.tables import Cell, described, table


@click.command("explain", cls=Command)
@kernel_argument
@takes(*SIZES, *RULES, "sram", "blocks", "overflow", *VARIANTS, "json", "csv")
def command(kernel: str, **given: Unpack[Given]) -> None:
    """Take the words that KERNEL moves apart, term by term.

    One line per array, direction and reason: the term in symbols, in numbers, and why. Their sum is set beside the words that were
    counted by running the listing. Exits with 1 if they differ.

    \b
    iosim explain flash2 --n 4096 --causal
    iosim explain standard --reuse ideal
    """
    check_variants(given, [kernel])
    made = report(plan_of(kernel, given, problem_of(given)), execute=False, replay=False)
    terms = theory.terms(kernel, made.problem, made.blocks, made.plan.options)
    residents = at_the_peak(made.plan)
    rows = [row_of(term) for term in terms]
    document = {
        **made.record(),
        "theta": theory.theta(kernel),
        "terms": rows,
        "predicted_total": sum(int(term.total) for term in terms) * made.problem.instances,
        "residents": [resident._asdict() for resident in residents],
    }
    deliver(given, Answer(text_of(made, terms, residents), document, rows, failed=what_differs(made)))


def row_of(term: theory.Term) -> Record:
    """A term of one head as a record."""
    return {
        "array": term.array,
        "direction": term.direction,
        "symbol": term.symbol,
        "times": int(term.times),
        "words": int(term.words),
        "total": int(term.total),
        "init": term.init,
        "why": term.why,
    }


def text_of(made: Report, terms: Sequence[theory.Term], residents: Sequence[Resident]) -> str:
    """The terms as a table, their sum beside the count, how it grows, and what stands on chip."""
    p, blocks = made.problem, made.blocks
    over = f", {made.overflow:,} too many: overflow recorded" if made.overflow else ""
    lines = [
        f"{made.kernel}: {described(p)}, SRAM {made.sram}, blocks {blocks} (Br x Bc)",
        f"Tr = ceil(Nq / Br) = {-(-p.n // blocks.rows):,}, Tc = ceil(Nk / Bc) = {-(-p.nk // blocks.cols):,}; words of one head",
        "",
        table(["array", "move", "term", "numbers", "words", "why"], lines_of(made, terms), right=["numbers"], width=width()),
        "",
        f"all heads   {p.instances:,} x {made.total // p.instances:,} = {made.total:,} words",
        f"grows as    {theory.theta(made.kernel)}, M in words",
        f"peak SRAM   {made.peak_sram:,} of {made.sram.amount:,} {made.sram.unit}{over}",
        listed(residents, "which is    ", width()),
    ]
    return "\n".join(lines if p.instances > 1 else lines[:5] + lines[6:])


def lines_of(made: Report, terms: Sequence[theory.Term]) -> list[list[Cell]]:
    """The table of the terms, with their sum and the count below."""
    predicted, counted = sum(int(term.total) for term in terms), made.total // made.problem.instances
    verdict = "equal" if predicted == counted else "DIFFERENT"
    rows: list[list[Cell]] = [[t.array, t.direction, t.symbol, f"{t.times:,} x {t.words:,}", int(t.total), t.why] for t in terms]
    return [
        *rows,
        ["sum", "", "", "", predicted, "of these terms"],
        ["counted", "", "", "", counted, f"by running the listing: {verdict}"],
    ]
