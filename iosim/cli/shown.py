"""A curve as text: a table of words, a chart beside it, and what it shows in sentences."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from iosim import theory
from iosim.specs import Attention
from iosim.sweep import Record
from iosim.tables import described, table, words
from iosim.units import Capacity

Axis = Literal["n", "sram"]

MARKS = {"standard": "s", "flash": "f", "flash2": "2", "block-sparse": "b"}
BOUND, SEVERAL = "|", "*"
NARROWEST_CHART = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """Several kernels counted at several points.

    ``points`` are the problems, without block masks, and the capacities; ``rows`` hold one record a kernel for each point. ``pattern`` is
    the block mask of block-sparse.
    """

    axis: Axis
    points: list[tuple[Attention, Capacity]]
    kernels: tuple[str, ...]
    rows: list[list[Record]]
    blocks: str
    pattern: str

    @property
    def records(self) -> list[Record]:
        """All records, kernels innermost."""
        return [record for row in self.rows for record in row]

    @property
    def letter(self) -> str:
        """The name of the axis in the papers."""
        return "N" if self.axis == "n" else "M"

    @property
    def names(self) -> list[str]:
        """The points, as people write them."""
        if self.axis == "n":
            return [f"{problem.n:,}" for problem, _ in self.points]
        return [f"{size.amount:,}" if size.unit == "words" else str(size) for _, size in self.points]

    @property
    def fixed(self) -> str:
        """What stays as it is."""
        problem, size = self.points[0]
        if self.axis == "sram":
            return f"{described(problem)}, blocks {self.blocks}"
        return f"{described(problem).removeprefix(f'n={problem.n} ')}, SRAM {size}, blocks {self.blocks}"

    @property
    def bounds(self) -> list[int]:
        """The words that whoever computes every pair must move, at each point."""
        return [(theory.compulsory(problem) or 0) * problem.instances for problem, _ in self.points]

    @property
    def bound(self) -> str:
        """What the bound is called: 4Nd where it is just that, of one head."""
        plain = all(bound == 4 * p.n * p.d * p.instances for (p, _), bound in zip(self.points, self.bounds, strict=True))
        return "4Nd" if plain and self.points[0][0].instances == 1 else "must move"

    @property
    def differing(self) -> int:
        """How many counts differ from their closed form."""
        return sum(not all(agreed.values()) for record in self.records if isinstance(agreed := record["agreed"], dict))

    def moved(self, kernel: str) -> list[int | None]:
        """The words that a kernel moves at each point; None where it does not fit."""
        column = self.kernels.index(kernel)
        totals = [row[column]["total"] for row in self.rows]
        return [total if isinstance(total, int) else None for total in totals]

    def over(self, kernel: str) -> list[bool]:
        """Where overflow was recorded."""
        column = self.kernels.index(kernel)
        return [bool(row[column]["overflow"]) for row in self.rows]


def shown(curve: Curve, width: int) -> str:
    """The whole curve as text of at most ``width`` columns, if that leaves room for its table."""
    lines = numbers(curve).split("\n")
    room = width - max(map(len, lines)) - 2
    if room >= NARROWEST_CHART:
        lines = [f"{line:{width - room}}{drawn}".rstrip() for line, drawn in zip(lines, chart(curve, room), strict=True)]
    notes = [*legend(curve, room >= NARROWEST_CHART), *sentences(curve)]
    return "\n".join([wrapped(title(curve), width), "", *lines, "", *(wrapped(note, width) for note in notes)])


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most ``width``, not broken at the hyphens of names."""
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def title(curve: Curve) -> str:
    """What is swept, and what stays as it is."""
    return f"HBM accesses over {curve.letter}, in words: {curve.fixed}"


def numbers(curve: Curve) -> str:
    """The words of every kernel at every point, as a table."""
    first = "N" if curve.axis == "n" else f"M ({curve.points[0][1].unit})"
    columns = [[spelled(*both) for both in zip(curve.moved(name), curve.over(name), strict=True)] for name in curve.kernels]
    head = [first, *curve.kernels, curve.bound]
    return table(head, list(zip(curve.names, *columns, map(words, curve.bounds), strict=True)), right=head)


def spelled(total: int | None, over: bool) -> str | None:
    """The words of one kernel at one point."""
    return None if total is None else words(total) + ("!" if over else "")


def chart(curve: Curve, width: int) -> Iterator[str]:
    """Beside each line of the table, the kernels as marks on a logarithmic axis; the rule of the table is the axis."""
    columns = {MARKS.get(name, name[:1]): curve.moved(name) for name in curve.kernels}
    known = [total for totals in columns.values() for total in totals if total is not None] + curve.bounds
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


def legend(curve: Curve, charted: bool) -> list[str]:
    """What the marks mean, and why some numbers are missing or only recorded."""
    lines = []
    if charted:
        marks = ", ".join(f"{MARKS.get(name, name[:1])} {name}" for name in curve.kernels)
        lines.append(f"Chart, log scale: {marks}, {SEVERAL} several; {BOUND} what must move.")
    if any(any(curve.over(name)) for name in curve.kernels):
        lines.append("! the blocks need more than M: overflow recorded")
    return lines + list(dict.fromkeys(reason for name in curve.kernels if (reason := refused(curve, name)) is not None))


def refused(curve: Curve, kernel: str) -> str | None:
    """Why a kernel has no number at some points: the reason at the first of them."""
    column = curve.kernels.index(kernel)
    reasons = [str(row[column]["error"]) for row in curve.rows if row[column]["error"] is not None]
    if not reasons:
        return None
    return f"– {reasons[0]}" + (f" (and at {len(reasons) - 1} more points)" if len(reasons) > 1 else "")


def sentences(curve: Curve) -> list[str]:
    """Where each kernel wins, how far the others are behind, and what stands behind the numbers."""
    exact = [name for name in curve.kernels if name != "block-sparse"]
    lines = []
    if len(exact) > 1:
        lines.append(f"Fewest words among exact kernels: {'; '.join(wins(curve, exact))}.")
        lines += behind(curve, exact)
    if len(exact) < len(curve.kernels):
        lines += sparser(curve, exact)
    counted = sum(record["total"] is not None for record in curve.records)
    verdict = "equal their closed forms" if not curve.differing else f"DIFFER from their closed forms in {curve.differing} cases"
    lines.append(f"All {counted} numbers were counted by running the listings on the machine, and {verdict}.")
    return lines


def wins(curve: Curve, names: Sequence[str]) -> list[str]:
    """For each kernel, where it fits and moves the fewest words."""
    first = [winner(curve, names, index) for index in range(len(curve.points))]
    return [
        f"{name} {where(curve, [found == name for found in first])}"
        for name in sorted(names, key=lambda name: (name not in first, names.index(name)))
    ]


def winner(curve: Curve, names: Sequence[str], index: int) -> str | None:
    """The kernel that fits and moves the fewest words at one point, if any fits."""
    fitting = {name: total for name in names if (total := curve.moved(name)[index]) is not None and not curve.over(name)[index]}
    return min(fitting, key=lambda name: fitting[name]) if fitting else None


def where(curve: Curve, holds: Sequence[bool]) -> str:
    """The points at which something holds, in words."""
    spans = []
    for held, group in groupby(range(len(holds)), key=lambda index: holds[index]):
        places = list(group)
        if held:
            spans.append(span(curve, places[0], places[-1]))
    return " and ".join(spans) or "nowhere"


def span(curve: Curve, start: int, stop: int) -> str:
    """A run of points, in words."""
    first, last, end = curve.names[start], curve.names[stop], len(curve.names) - 1
    if start == 0 and stop == end:
        return f"at every {curve.letter} shown"
    if stop == end and start < stop:
        return f"from {curve.letter} = {first} on"
    if start == stop:
        return f"at {curve.letter} = {first}"
    return f"up to {curve.letter} = {last}" if start == 0 else f"from {curve.letter} = {first} to {last}"


def behind(curve: Curve, names: Sequence[str]) -> list[str]:
    """At the last point, how many times the fewest words the other kernels move."""
    best = winner(curve, names, -1)
    fewest = curve.moved(best)[-1] if best is not None else None
    if not fewest:
        return []
    others = [
        f"{name} {total / fewest:#.3g} times"
        for name in names
        if name != best and not curve.over(name)[-1] and (total := curve.moved(name)[-1])
    ]
    return [f"At {curve.letter} = {curve.names[-1]}, {' and '.join(others)} as many as {best}."] if others else []


def sparser(curve: Curve, exact: Sequence[str]) -> list[str]:
    """Where block-sparse, which computes fewer pairs, fits and moves fewer words than every exact kernel."""
    found = [winner(curve, [*exact, "block-sparse"], index) == "block-sparse" for index in range(len(curve.points))]
    beats = f"; it moves fewer than all of them {where(curve, found)}" if exact else ""
    return [f"block-sparse computes only the tiles of its mask ({curve.pattern}){beats}."]
