"""The regimes in M: lower bounds, best kernel, crossovers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal, Unpack

import click

from iosim.attention.catalogue import KERNELS
from iosim.cli import drawing, reading
from iosim.cli.options import Command, Given, takes, valued
from iosim.cli.output import Answer, deliver, width
from iosim.cli.pages.bounds_counted import counted
from iosim.cli.pages.bounds_records import document, rows_of
from iosim.cli.pages.bounds_text import text_of
from iosim.cli.progress import working
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.study.regimes import BlockRule, RegimeMap, known, places, regime_map

Shown = Literal["best", "paper", "both"]
VARIANTS = ("first_pass", "softmax", "dq_pass", "depth")


def names(option: str, text: str) -> tuple[str, ...]:
    """Kernels of either pass, joined by commas, each once; which pass is asked for is another option.

    >>> names("--kernels", "flash,flash2,flash")
    ('flash', 'flash2')
    """
    for name in (part.strip() for part in text.split(",")):
        if name not in KERNELS:
            near = difflib.get_close_matches(name, [*known(False), *known(True)], 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadInput(f"unknown kernel {name!r}; known here: {', '.join(known(False))}, and backward {', '.join(known(True))}{meant}")
    return tuple(kernel.name for kernel in reading.kernels(option, text))


@click.command("bounds", cls=Command)
@valued("--n", "ROWS", reading.rows, "Query rows N.", default="4096")
@takes("nk", "d", "dv", "dtype")
@click.option("--backward", is_flag=True, help="The backward pass instead of the forward one.")
@takes("sizes")
@valued("--kernels", "NAMES", names, "Exact algorithms of papers, joined by commas; all of the pass where not given.", "rivals")
@click.option(
    "--blocks", "shown", type=click.Choice(("best", "paper", "both")), default="both",
    help="The best of all that fit, those of the papers, whose overflow is recorded, or the map of the best and crossovers of both.",
)  # fmt: skip
@takes(*VARIANTS, "json", "csv", "plot")
def command(backward: bool, rivals: tuple[str, ...] | None, shown: Shown, **given: Unpack[Given]) -> None:
    """Map the regimes of M: lower bounds, the kernel that moves the fewest words, and where another takes its place.

    Without options: N = 4096 and d = 64, from M = d to 4 N d words. Crossovers are exact: they are found by merging the steps in which
    words fall over M, and every change of sign is told. --device shows what M means on one device, in float16 unless --dtype says else.

    \b
    iosim bounds --d 128
    iosim bounds --backward --plot bounds.svg
    iosim bounds --sram 48KiB,100KiB --d 128
    """
    problem = Attention(given["n"], given["d"], nk=given["nk"], dv=given["dv"], dtype=given["dtype"])
    check(given, rivals or known(backward))
    with working("mapping"):
        made = [mapped(problem, rivals, backward, rule, given) for rule in rules_of(shown)]
    chip = given["device"]
    found = places(made[0], None if chip is None else [chip])
    checked = counted(made)
    failed = f"{checked.wrong} of {checked.right + checked.wrong} counts differ from their closed forms" if checked.wrong else None
    rows = [record for one in made for record in rows_of(one)]
    deliver(given, Answer(text_of(made, found, checked, width()), document(made, found), rows, lambda: drawing.bounds(made[0]), failed))


def check(given: Given, kernels: Sequence[str]) -> None:
    """Raise :class:`BadInput` for a variant that none of the kernels has, and name those of this command that they have."""
    has = [name for name in VARIANTS if any(name in KERNELS[kernel].has for kernel in kernels)]
    for name in given["variants"]:
        if name not in has:
            flags = ", ".join(map(flag, has)) or "none"
            raise BadInput(f"{flag(name)} is an option of none of {', '.join(kernels)}; known here for them: {flags}")


def flag(name: str) -> str:
    """How a variant is asked for.

    >>> flag("dq_pass")
    '--dq-pass'
    """
    return f"--{name.replace('_', '-')}"


def rules_of(shown: Shown) -> tuple[BlockRule, ...]:
    """The rules of blocks, the one whose map is shown first."""
    return ("best", "paper") if shown == "both" else (shown,)


def mapped(problem: Attention, kernels: Sequence[str] | None, backward: bool, rule: BlockRule, given: Given) -> RegimeMap:
    """The map under one rule of blocks, at the capacities that are asked for."""
    sizes = given["sizes"] if given["device"] is None else None
    options = {name: value for name, value in given["variants"].items() if isinstance(value, str)}
    return regime_map(problem, kernels, sram=sizes, backward=backward, blocks=rule, **options)
