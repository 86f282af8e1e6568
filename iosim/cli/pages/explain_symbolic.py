"""``iosim explain KERNEL --symbolic``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from iosim.attention.declaration import Kernel
from iosim.cli.options import VARIANTS, Given
from iosim.cli.output import Answer, width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput

if TYPE_CHECKING:
    from iosim.attention.symbolic import ClosedForm

BY_HAND = ("if square", "by hand")  # what is said of closed forms by hand alone
TAKEN = ("kernel", "open_sizes", "dropout", *VARIANTS, "variants", "json", "csv")

option = click.option(
    "--symbolic", "open_sizes", is_flag=True, help="Derive the terms by running the listing with symbols for its sizes, and compare them."
)


def answer(kernel: Kernel, given: Given) -> Answer:
    """The closed form in every form; raises :class:`BadInput` for options that name a size or a mask."""
    refuse()
    from iosim.attention.symbolic import closed_form  # here, since it loads sympy

    found = closed_form(kernel, dropout=given["dropout"], **given["variants"])
    different = ", ".join(f"{line.array} ({line.move})" for line in found.lines() if not line.equal)
    failed = None if found.agrees else f"{kernel}: what the run gives differs from the closed form by hand for {different}"
    record = found.record()
    return Answer(text_of(found), record, found.rows(), failed=failed)


def text_of(found: ClosedForm) -> str:
    """The terms as a table, and below it their sum in the ways in which it is used."""
    verdict = "equal in every line, for all sizes and for blocks up to their axis, ragged tiles included" if found.agrees else "DIFFERENT"
    spelled = found.spelled()
    below = {
        "words": spelled["words"], "if square": f"{spelled['square']}, where Nq = Nk = N and dv = d", "by hand": verdict,
        "products": f"{spelled['matmul']} operations", "elementwise": spelled["elementwise"], "exp and log": spelled["exp"],
        "for --check": found.formula,
    }  # fmt: skip
    lines = [
        wrapped(f"{found.name}: the listing, run once with symbols for its sizes", width()),
        "Tr = ceil(Nq / Br), Tc = ceil(Nk / Bc); words of one head without a mask",
        "",
        found.table(),
        "",
        *(wrapped(text, width(), f"{label:13}", 13) for label, text in below.items() if found.terms or label not in BY_HAND),
    ]
    return "\n".join(lines)


def refuse() -> None:
    """Raise :class:`BadInput` for options that --symbolic does not take."""
    context = click.get_current_context()
    for name in context.params:
        if name not in TAKEN and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            flag = f"--{name.replace('_', '-')}"
            why = "is a way of its own to read a closed form" if name in ("check", "of") else "would fix what it leaves open"
            raise BadInput(f"--symbolic derives the terms of one head for all sizes, without a mask; {flag} {why}: leave it out")
