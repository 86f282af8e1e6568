"""``iosim tiles``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Unpack

import click

from iosim.cli.asked import check_variants, plan_of, problem_of
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, takes
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.rooms import at_the_peak, listed
from iosim.cli.run import what_differs
from iosim.errors import BadInput
from iosim.plan import BlockChoice
from iosim.report import Report
from iosim.run import report
from iosim.specs import Attention
from iosim.tables import Cell, described, table

RULES_OF_BLOCKS: tuple[BlockChoice, ...] = ("paper", "fit", "best")


@dataclass(frozen=True, slots=True)
class Try:
    """The blocks that a rule gives a kernel and what follows, or why it gives none."""

    kernel: str
    rule: str
    made: Report | None
    why: str | None = None

    def record(self) -> Record:
        """The try as a record; what is unknown is None."""
        known = {"rule": self.rule, "error": self.why}
        return {**known, "kernel": self.kernel} if self.made is None else {**known, **self.made.record(), "fits": not self.made.overflow}

    def line(self) -> list[Cell]:
        """The try as a line of the table."""
        if self.made is None:
            return [self.kernel, self.rule, None, None, None, "none fit", None]
        p, blocks = self.made.problem, self.made.blocks
        tiles = f"{-(-p.n // blocks.rows):,} x {-(-p.nk // blocks.cols):,}"
        fits = f"{self.made.overflow:,} over" if self.made.overflow else "yes"
        return [self.kernel, self.rule, str(blocks), tiles, self.made.peak_sram, fits, self.made.total]


@click.command("tiles", cls=Command)
@takes(*SIZES, *RULES, "kernels", "sram", "own_blocks", *VARIANTS, "json", "csv")
def command(**given: Unpack[Given]) -> None:
    """Show which blocks each rule chooses, what they need on chip, and what traffic follows.

    paper: the printed rule, which does not ask whether they fit; fit: the largest of its shape that really fit; best: the fewest words
    of all that fit; given: those of --blocks. Who takes the room is shown for given blocks, else for those of fit.

    \b
    iosim tiles --sram 49152 --n 4096
    iosim tiles --kernels flash2 --blocks 128x128 --dtype float16
    """
    check_variants(given, given["kernels"])
    problem = problem_of(given)
    tries = [attempt for kernel in given["kernels"] for attempt in tries_of(kernel, given, problem)]
    reports = [attempt.made for attempt in tries if attempt.made is not None]
    if not reports:
        raise BadInput("; ".join(dict.fromkeys(str(attempt.why) for attempt in tries)))
    failures = [why for made in reports if (why := what_differs(made)) is not None]
    records = [attempt.record() for attempt in tries]
    deliver(given, Answer(text_of(given, problem, tries), records, records, failed="; ".join(failures) or None))


def tries_of(kernel: str, given: Given, problem: Attention) -> Iterator[Try]:
    """What each rule gives ``kernel``, and the given blocks, all counted with overflow recorded."""
    own = given.get("blocks")
    for choice in (*RULES_OF_BLOCKS, *([own] if own else [])):
        rule = choice if isinstance(choice, str) else "given"
        asked: Given = {**given, "blocks": choice, "overflow": "record"}
        try:
            yield Try(kernel, rule, report(plan_of(kernel, asked, problem), execute=False, replay=False))
        except BadInput as error:
            yield Try(kernel, rule, None, str(error))


def text_of(given: Given, problem: Attention, tries: list[Try]) -> str:
    """The tries as a table, the reasons of those that found nothing, and who takes the room."""
    size = given["sram"]
    shown = "given" if given.get("blocks") else "fit"
    head = ["kernel", "rule", "Br x Bc", "tiles", f"peak SRAM ({size.unit})", "fits", "words moved"]
    rows = [attempt.line() for attempt in tries]
    for row, above in zip(rows[:0:-1], rows[-2::-1], strict=True):
        row[0] = "" if row[0] == above[0] else row[0]
    reasons = dict.fromkeys(f"note: {attempt.why}" for attempt in tries if attempt.why is not None)
    lines = [f"tiles: {described(problem)}, SRAM {size}", "", table(head, rows, right=["Br x Bc", "tiles"]), *reasons]
    plans = [attempt.made.plan for attempt in tries if attempt.rule == shown and attempt.made is not None]
    lines += ["", f"who takes the room when most is taken, {size.unit}, blocks {shown}:"] if plans else []
    return "\n".join([*lines, *(listed(at_the_peak(plan), f"{plan.kernel:13} ", width()) for plan in plans)])
