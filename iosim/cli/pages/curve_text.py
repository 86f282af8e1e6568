"""A curve as text: a table of words, and a chart beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from iosim.attention.sweep import least_of
from iosim.cli.pages.curve_findings import sentences, where
from iosim.cli.pages.curve_points import Curve
from iosim.cli.wrapping import wrapped
from iosim.core.tables import table, words

BOUND, SEVERAL = "|", "*"
NARROWEST = 12


def shown(curve: Curve, width: int) -> str:
    """The whole curve as text of at most ``width`` columns, if that leaves room for its table."""
    lines = numbers(curve).split("\n")
    room = width - max(map(len, lines)) - 2
    drawn = list(chart(curve, room)) if room >= NARROWEST else [""] * len(lines)
    lines = [f"{line:{width - room}}{beside}".rstrip() for line, beside in zip(lines, drawn, strict=True)]
    notes = [*legend(curve, drawn), *remarks(curve), *sentences(curve)]
    title = f"HBM accesses over {curve.letter}, in words: {curve.fixed}"
    return "\n".join([wrapped(title, width), "", *lines, "", *(wrapped(note, width) for note in notes)])


def numbers(curve: Curve) -> str:
    """The words of every kernel at every point, as a table."""
    first = "N" if curve.axis == "n" else f"M ({curve.points[0][1].unit})"
    columns = [[spelled(*both) for both in zip(curve.moved(name), curve.over(name), strict=True)] for name in curve.kernels]
    bounds = [None if bound is None else words(bound) for bound in curve.bounds]
    head = [first, *curve.kernels, "bound"]
    return table(head, list(zip(curve.names, *columns, bounds, strict=True)), right=head)


def spelled(total: int | None, over: bool) -> str | None:
    """The words of one kernel at one point."""
    return None if total is None else words(total) + ("!" if over else "")


def chart(curve: Curve, width: int) -> Iterator[str]:
    """Beside each line of the table, the kernels as marks on a logarithmic axis; the rule of the table is the axis."""
    columns = {letter: curve.moved(name) for name, letter in curve.letters.items()}
    known = [total for totals in (*columns.values(), curve.bounds) for total in totals if total is not None]
    low, high = math.log(min(known)), math.log(max(known))
    scale = (width - 1) / ((high - low) or 1)
    yield f"{words(min(known))}{words(max(known)):>{width - len(words(min(known)))}}"
    yield "─" * width
    for index, bound in enumerate(curve.bounds):
        marks = [(mark, totals[index]) for mark, totals in columns.items()]
        yield line_of([(BOUND, bound), *marks], lambda total: round((math.log(total) - low) * scale), width)


def line_of(marks: Sequence[tuple[str, int | None]], place: Callable[[int], int], width: int) -> str:
    """One line of a chart; where several kernels share a place, that is said."""
    line = [" "] * width
    for mark, total in marks:
        if total is not None:
            at = place(total)
            line[at] = mark if line[at] in (" ", BOUND) else SEVERAL
    return "".join(line)


def legend(curve: Curve, drawn: Sequence[str]) -> list[str]:
    """What the marks of the chart mean, if there is one."""
    if not any(drawn):
        return []
    marks = [f"{letter} {name}" for name, letter in curve.letters.items()]
    several = [f"{SEVERAL} several"] if any(SEVERAL in line for line in drawn) else []
    return [f"Chart, log scale: {', '.join([*marks, *several])}; {BOUND} {least_of([*curve.listings.values()])}."]


def remarks(curve: Curve) -> list[str]:
    """Why some numbers are missing, have an overflow, or are larger than expected."""
    over = ["! the blocks need more than M: overflow recorded"] if any(any(curve.over(name)) for name in curve.kernels) else []
    refusals = dict.fromkeys(reason for name in curve.kernels if (reason := refused(curve, name)) is not None)
    return [*over, *refusals, *(note for name in curve.kernels for note in noted(curve, name))]


def noted(curve: Curve, kernel: str) -> Iterator[str]:
    """What the library noted of a kernel, and at which points."""
    column = curve.kernels.index(kernel)
    notes = [row[column].get("notes") or [] for row in curve.rows]
    for note in dict.fromkeys(note for found in notes if isinstance(found, list) for note in found):
        yield f"{kernel} {where(curve, [isinstance(found, list) and note in found for found in notes])}: {note}."


def refused(curve: Curve, kernel: str) -> str | None:
    """Why a kernel has no number at some points: the reason at the first of them."""
    column = curve.kernels.index(kernel)
    reasons = [str(row[column]["error"]) for row in curve.rows if row[column]["error"] is not None]
    if not reasons:
        return None
    return f"– {reasons[0]}" + (f" (and at {len(reasons) - 1} more points)" if len(reasons) > 1 else "")
