"""Blocks that are tried: what follows from them, or why there are none."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.attention.catalogue import kernel as kernel_of
from iosim.attention.plan import BlockChoice
from iosim.attention.report import Report
from iosim.attention.run import report
from iosim.cli.options import Given
from iosim.cli.output import Record
from iosim.cli.plans import plan_of
from iosim.core.errors import BadInput
from iosim.core.problem import Attention


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

    @property
    def fits(self) -> str:
        """Whether the blocks fit, and how much is missing."""
        if self.made is None:
            return "none fit"
        return f"{self.made.overflow:,} over" if self.made.overflow else "yes"


def tried(kernel: str, rule: str, choice: BlockChoice, given: Given, problem: Attention) -> Try:
    """What follows from the blocks of a rule, counted with overflow recorded.

    Args:
        kernel: Its name.
        rule: What the blocks are called.
        choice: The blocks, or the rule that chooses them.
        given: The command line.
        problem: One problem.
    """
    asked: Given = {**given, "blocks": choice, "overflow": "record"}
    try:
        return Try(kernel, rule, report(plan_of(kernel_of(kernel), asked, problem), execute=False, replay=False))
    except BadInput as error:
        return Try(kernel, rule, None, str(error))
