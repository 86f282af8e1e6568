"""``iosim explain KERNEL --check FORMULA``."""

from __future__ import annotations

from collections.abc import Sequence

import click
from click.core import ParameterSource

from iosim.attention.catalogue import ours
from iosim.attention.declaration import Kernel
from iosim.cli.options import Given
from iosim.cli.output import Answer, width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.study.formula.check import Verdict, check_formula
from iosim.study.formula.typed import parse

OWN = (
    "n", "nk", "d", "dv", "batch", "heads", "kv_heads", "mask", "block_mask", "dropout", "sram", "device", "overflow", "pack",
)  # fmt: skip

check_option = click.option(
    "--check", metavar="FORMULA",
    help="Compare a formula over N N_q N_k d d_v M Br Bc with the count, at many sizes, and print nothing else.",
)  # fmt: skip
of_option = click.option(
    "--of", metavar="WHAT", help="What --check compares with: words (also where not given), reads, writes, or an array such as Q."
)


def answer(kernel: Kernel, expression: str, of: str | None, given: Given) -> Answer:
    """The verdict on a formula, in every form; raises :class:`BadInput` for options that the grid sets itself."""
    refuse(expression)
    verdict = check_formula(
        kernel, expression, of=of or "words", blocks=given["blocks"], dtype=given["dtype"], causal=given["causal"],
        window=given["window"], **given["variants"],
    )  # fmt: skip
    failed = None if verdict.holds else f"{kernel} does not move {verdict.formula}: {verdict.counterexample}"
    more = [] if verdict.holds or not ours(kernel) else [f"the terms: iosim explain {kernel}"]
    return Answer(text_of(verdict, more), verdict.record(), [verdict.record()], failed=failed)


def text_of(verdict: Verdict, more: Sequence[str]) -> str:
    """The verdict in lines that fit, and where to read on."""
    lines = [*str(verdict).split("\n"), *more]
    return "\n".join(wrapped(line, width()) for line in lines)


def refuse(expression: str) -> None:
    """Raise :class:`BadInput` for options that --check does not take."""
    context = click.get_current_context()
    asked = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    for name in asked:
        if name in OWN:
            raise BadInput(f"--check tries one head at many sizes of its own; leave out --{name.replace('_', '-')}")
    if "blocks" in asked and "M" not in parse(expression).names:
        raise BadInput("--check tries many Br and Bc where the formula does not name M; leave out --blocks")
