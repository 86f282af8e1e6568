"""Published numbers beside ours: how numbers, setups and commands are spelled, and tables of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from iosim.cli.wrapping import TIE, wrapped
from iosim.core.tables import Cell, digits, table
from iosim.study.paper import Compared, Finding, Times
from iosim.study.paper.compared import AGREES, DIFFERS
from iosim.study.paper.counting import Work
from iosim.study.published import Setup

RANGE = 10  # numbers that are shown by their ends; of more, only how many there are
NUMBERS = ("published", "ours", "ratio")
INDENT = "    "
MARKS = {True: "=", False: "!", None: " "}
LEGEND = "= within what is claimed, ! outside"


def summary(found: Sequence[Finding], width: int) -> str:
    """One line a finding under its section, and below it what is claimed and why."""
    head, rule, *rows = table(["", *NUMBERS, "verdict"], [_line(one) for one in found], right=NUMBERS).split("\n")
    lines, section, told = [head, rule], "", set[str]()
    for one, row in zip(found, rows, strict=True):
        if one.section != section:
            section = one.section
            lines += ["", f"{section}: iosim paper {one.thing}"]
        why = reason(one)
        lines += [row, *([wrapped(why, width, INDENT, len(INDENT))] if why not in {"", *told} else [])]
        told.add(why)
    return "\n".join(lines)


def reason(one: Finding) -> str:
    """What is claimed of a finding, and why it came out so."""
    return ": ".join(part for part in (", ".join(one.claims), one.why) if part)


def headed(one: Finding) -> str:
    """What came out, and why."""
    claims = ", ".join(one.claims)
    between = {AGREES: " ", DIFFERS: "; claimed: "}.get(one.verdict, "; ")
    said = f"{one.verdict}{between}{claims}" if claims else one.verdict
    return f"{one.title}: {said}." + (f" {sentence(one.why)}" if one.why else "")


def sentence(text: str) -> str:
    """A reason as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


def _line(one: Finding) -> list[Cell]:
    published, ours = [row.published for row in one.rows], [row.ours for row in one.rows if row.ours is not None]
    ratios = [row.ratio for row in one.rows if row.ratio is not None]
    many = len(one.rows) > RANGE
    numbers = [f"{len(published)} numbers", ""] if many else [ends(published, theirs), ends(ours, counted)]
    return [one.title, *numbers, ends(ratios, digits), one.verdict]


def ends(values: Sequence[float], spell: Callable[[float], str]) -> str:
    """The smallest and the largest of some numbers; nothing for none.

    >>> ends([4.4], theirs), ends([0.939, 6.578, 1.744], theirs)
    ('4.4', '0.939..6.578')
    """
    return "..".join(dict.fromkeys(map(spell, [min(values), max(values)] if values else [])))


def theirs(value: float) -> str:
    """A number as it was published."""
    return f"{value:,g}"


def counted(value: float) -> str:
    """One of ours, to four digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def numbers(rows: Iterable[Compared], heads: Sequence[str], labels: Callable[[Compared], list[Cell]], width: int) -> str:
    """Numbers one by one, each with the ``labels`` that stand under ``heads``."""
    lines = [[*labels(row), *_beside(row)] for row in rows]
    return table([*heads, *NUMBERS, "verdict"], lines, right=NUMBERS, width=width)


def _beside(row: Compared) -> list[Cell]:
    ours = ["", ""] if row.ours is None or row.ratio is None else [counted(row.ours), digits(row.ratio)]
    claim = "" if row.claim is None or row.agrees is None else f"{' ' if row.agrees else ', claimed: '}{row.claim.said}"
    return [theirs(row.published), *ours, f"{row.verdict}{claim}"]


def measured(what: str, setup: Setup, *, dropout: bool = False, mask: bool = False) -> str:
    """The problem that was measured, with ``dropout`` and ``mask`` or without, and what of it is assumed."""
    size = f"N = {setup.n}, d = {setup.d}" if setup.n else f"d = {setup.d}"
    parts = [what, size, f"{setup.batch} x {setup.heads} heads of {setup.dtype}", setup.device]
    parts += [*([f"dropout {setup.dropout:g}"] if dropout else []), *([f"mask: {setup.mask}"] if mask else [])]
    return ", ".join(parts) + (f" (assumed: {', '.join(setup.assumed)})" if setup.assumed else "")


def fits(times: Times) -> str:
    """The two numbers from which all times follow."""
    bandwidth, fitted, rate = (digits(value / 1e12) for value in (times.bandwidth, times.fitted, times.rate))
    return (
        f"Times follow from counts by one bandwidth, {bandwidth} TB/s, and one rate, {fitted} TFLOP/s on the grid of Table 18, whose cells "
        f"both are fitted on, and {rate} where every wave is full."
    )


def passes(work: Work) -> Iterator[str]:
    """How often each array is moved."""
    for cols, shape in ((work.asked.n, "N x N"), (work.asked.d, "N x d")):
        found = work.passes(cols)
        if found:
            yield f"{shape}: {', '.join(f'{name}{TIE}{times:g}' for name, times in found.items())}; together {sum(found.values()):g}"


def commands(rows: Iterable[Compared], width: int) -> list[str]:
    """The commands that count the same, each once, ready to be pasted; an option stays with its value."""
    lines = (re.sub(r"(--[a-z-]+) (?!-)", rf"\1{TIE}", row.command) for row in rows if row.command is not None)
    return [wrapped(line, width - 2, "  ", 6).replace("\n", " \\\n") for line in dict.fromkeys(lines)]
