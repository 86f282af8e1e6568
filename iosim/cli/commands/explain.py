"""One line per array and direction: the term in symbols, in numbers, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from iosim import predict
from iosim.attention.declaration import Kernel
from iosim.attention.plan import Plan
from iosim.attention.report import Report
from iosim.attention.run import closed_form, report
from iosim.cli.commands.run import what_differs
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, kernel_argument, takes
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.pages import explain_check, explain_symbolic
from iosim.cli.pages.residents import Resident, at_the_peak, listed
from iosim.cli.plans import check_variants, plan_of, problem_of
from iosim.cli.wrapping import wrapped
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.tables import Cell, table

NARROWEST = 32  # columns for a reason beside its term


@click.command("explain", cls=Command)
@kernel_argument
@explain_check.check_option
@explain_check.of_option
@explain_symbolic.option
@takes(*SIZES, *RULES, "sram", "blocks", "overflow", *VARIANTS, "json", "csv")
def command(kernel: Kernel, check: str | None, of: str | None, open_sizes: bool, **given: Unpack[Given]) -> None:
    """Take the words that KERNEL moves apart, term by term.

    One line per array, direction and reason: the term in symbols, in numbers, and why. Their sum is set beside the words that were
    counted by running the listing. Exits with 1 if they differ. With --check, a formula of your own is compared with the count instead;
    with --symbolic, the terms are derived by running the listing with symbols for its sizes.

    \b
    iosim explain flash2 --n 4096 --causal
    iosim explain standard --reuse ideal
    iosim explain flash2 --check "2*N*d*(1 + ceil(N/Br))"
    iosim explain flash --symbolic
    """
    check_variants(given, [kernel])
    if open_sizes:
        return deliver(given, explain_symbolic.answer(kernel, given))
    if check is not None:
        return deliver(given, explain_check.answer(kernel, check, of, given))
    if of is not None:
        raise BadInput("--of says what --check compares a formula with; give --check too")
    made = report(plan_of(kernel, given, problem_of(given)), execute=False, replay=False)
    terms = terms_of(made.plan)
    residents = at_the_peak(made.plan)
    rows = [row_of(term) for term in terms]
    document = {
        **made.record(), "theta": theta(made.plan), "terms": rows,
        "predicted_total": sum(int(term.total) for term in terms) * made.problem.instances if terms else None,
        "residents": [resident._asdict() for resident in residents],
    }  # fmt: skip
    deliver(given, Answer(text_of(made, terms, residents), document, rows, failed=what_differs(made)))


def terms_of(plan: Plan) -> tuple[predict.Term, ...]:
    """The terms of the closed form: by hand, else derived from the listing; none where there is neither."""
    if plan.formula is not None:
        return predict.terms(plan.formula, plan.problem, plan.blocks, plan.options)
    if not closed_form(plan)[0]:
        return ()
    from iosim.attention.symbolic import derived_terms  # here, since it loads sympy

    return derived_terms(plan)


def theta(plan: Plan) -> str | None:
    """How the words grow; None where only a closed form by hand could say so."""
    return None if plan.formula is None else predict.theta(plan.formula)


def row_of(term: predict.Term) -> Record:
    """A term of one head as a record."""
    return {
        "array": term.array, "direction": term.direction, "symbol": term.symbol, "times": int(term.times), "words": int(term.words),
        "total": int(term.total), "init": term.init, "why": term.why,
    }  # fmt: skip


def text_of(made: Report, terms: Sequence[predict.Term], residents: Sequence[Resident]) -> str:
    """The terms as a table, their sum beside the count, how it grows, and what stands on chip."""
    p, blocks, grows = made.problem, made.blocks, theta(made.plan)
    over = f", {made.overflow:,} too many: overflow recorded" if made.overflow else ""
    lines = [
        wrapped(f"{made.kernel}: {described(p)}, SRAM {made.sram}, blocks {blocks} (Br x Bc)", width()),
        wrapped(legend(made), width()),
        "",
        terms_table(made, terms, width()),
        "",
        f"{'all KV heads' if p.group > 1 else 'all heads  '} {p.instances:,} x {made.total // p.instances:,} = {made.total:,} words",
        *([] if grows is None else [f"grows as    {grows}, M in words{' (without a mask)' if p.masked and kernel_is_dense(made) else ''}"]),
        f"peak SRAM   {made.peak_sram:,} of {made.sram.amount:,} {made.sram.unit}{over}",
        listed(residents, "which is    ", width()),
    ]
    return "\n".join(lines if p.instances > 1 else lines[:5] + lines[6:])


def legend(made: Report) -> str:
    """What the symbols of the terms stand for, and whose words they are."""
    p, blocks, packed = made.problem, made.blocks, made.problem.group > 1 and made.plan.options.pack
    rows = p.n * (p.group if packed else 1)
    tiles = f"Tr = ceil(Nq / Br) = {-(-rows // blocks.rows):,}, Tc = ceil(Nk / Bc) = {-(-p.nk // blocks.cols):,}"
    if p.group == 1:
        return f"{tiles}; words of one head"
    lead = f"Nq = {p.group} x {p.n:,} rows, those of {p.group} heads packed; {tiles}" if packed else f"g = {p.group}, {tiles}"
    return f"{lead}; words of one KV head and the {p.group} heads that share it"


def kernel_is_dense(made: Report) -> bool:
    """Whether the growth law of the kernel speaks of all tiles, not of those of a mask."""
    return made.plan.kernel.brings is None


def terms_table(made: Report, terms: Sequence[predict.Term], width: int) -> str:
    """The terms, with their sum and the count below; where the reasons find no room beside them, each stands below its term."""
    if not terms:
        return "\n".join([*made.notes, f"counted     {made.total // made.problem.instances:,} words"])
    predicted, counted = sum(int(term.total) for term in terms), made.total // made.problem.instances
    rows: list[list[Cell]] = [[t.array, t.direction, t.symbol, f"{t.times:,} x {t.words:,}", int(t.total)] for t in terms]
    rows += [["sum", "", "", "", predicted], ["counted", "", "", "", counted]]
    verdict = "equal" if predicted == counted else "DIFFERENT"
    reasons = [*(term.why for term in terms), "of these terms", f"by running the listing: {verdict}"]
    head = ["array", "move", "term", "numbers", "words"]
    top, rule, *lines = table(head, rows, right=["numbers"]).split("\n")
    if width - len(rule) < NARROWEST:
        below = [f"{line}\n{' ' * 9}{reason}" for line, reason in zip(lines, reasons, strict=True)]
        return "\n".join([top, rule, *below])
    beside = [[*row, reason] for row, reason in zip(rows, reasons, strict=True)]
    return table([*head, "why"], beside, right=["numbers"], width=width)
