"""``iosim paper runtimes``: the ratios of all time tables, and the milliseconds of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from iosim.cli.pages.paper_numbers import LEGEND, MARKS, commands, counted, fits, headed, measured, theirs
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.core.tables import Cell, digits, table
from iosim.study.paper import Compared, Data, Judged, Runtimes
from iosim.study.paper.compared import NO_KERNEL, NO_TEST
from iosim.study.published.cells import PASSES


def text_of(made: Runtimes, width: int) -> str:
    """The ratios of all tables, those that are judged alike together."""
    lines = [wrapped(fits(made.times), width), "Below stands predicted over published time; ! is outside what is claimed."]
    for one, rows in made.groups:
        lines += ["", wrapped(f"{one.section.removesuffix(', ms')}, {headed(one)}", width)]
        if one.verdict not in (NO_KERNEL, NO_TEST):
            lines += ["", ratios(rows)]
    more = wrapped("The milliseconds of one table, and what counts them: iosim paper runtimes --table NUMBER", width)
    return "\n".join([*lines, "", more])


def ratios(rows: Sequence[Judged]) -> str:
    """A line for each pass of each method, a column for each N."""
    lengths = sorted({one.cell.n for one in rows})
    several = len({one.cell.method for one in rows}) > 1
    lines: list[list[Cell]] = []
    for (number, pass_, method), group in groupby(rows, key=lambda one: (one.cell.table, one.cell.pass_, one.cell.method)):
        cells = {one.cell.n: one for one in group}
        place = [str(number), pass_, _rules(next(iter(cells.values()))), *([method] if several else [])]
        lines.append([*place, *(_ratio(cells[n].compared) if n in cells else "" for n in lengths)])
    heads = [f"{n:,}" for n in lengths]
    return table(["table", "pass", "rules", *(["method"] if several else []), *heads], lines, right=["table", *heads])


def _ratio(row: Compared) -> str:
    return digits(row.ratio or 0.0) + ("!" if row.agrees is False else "")


def table_of(data: Data, made: Runtimes, number: int, width: int) -> str:
    """The milliseconds of one table; raises :class:`BadInput` for one that holds no times."""
    rows = made.of_table(number).judged
    if not rows:
        known = ", ".join(map(str, dict.fromkeys(one.cell.table for one in made.judged)))
        raise BadInput(f"Table {number} holds no times; those that do are {known} (Table 21 is in iosim paper memory)")
    setup = next(found.setup for found, cell in data.cells() if cell.table == number)
    ours, theirs_alone = ([one for one in rows if (one.compared.ours is None) is alone] for alone in (False, True))
    first = rows[0].cell
    title = f"Table {number}, ms" + ("" if first.dropout or first.mask else ", no dropout, no mask")
    lines = [wrapped(measured(title, setup, dropout=first.dropout, mask=first.mask), width), "", side_by_side(ours, width), ""]
    lines += [wrapped(f"{LEGEND}, * the model is fitted on it; without a mark nothing is claimed.", width)]
    lines += ["", published_alone(theirs_alone, width)] if theirs_alone else []
    lines += ["", *(wrapped(remark, width) for remark in remarks(ours))]
    last = {one.cell.method: one.compared for one in ours}
    return "\n".join([*lines, "", "bytes and FLOPs of the last N counted by", *commands(last.values(), width)])


def side_by_side(rows: Sequence[Judged], width: int) -> str:
    """Published, predicted and ratio of each method beside each other; below each other where there is no room."""
    methods = list(dict.fromkeys(one.cell.method for one in rows))
    shown = _beside(rows, methods)
    if max(map(len, shown.split("\n"))) <= width:
        return shown
    return "\n\n".join(_beside([one for one in rows if one.cell.method == method], [method]) for method in methods)


def _beside(rows: Sequence[Judged], methods: Sequence[str]) -> str:
    """A line for each pass and N."""
    cells = {(str(one.cell.pass_), one.cell.n, one.cell.method): one for one in rows}
    places = sorted({(PASSES.index(one.cell.pass_), one.cell.n) for one in rows})
    lines: list[list[Cell]] = []
    for pass_, n in ((PASSES[place], n) for place, n in places):
        lines.append([pass_, f"{n:,}", *(text for method in methods for text in _three(cells.get((pass_, n, method))))])
    heads = [text for method in methods for text in (method.removesuffix(" Attention"), "ours", "ratio ")]
    return table(["pass", "N", *heads], lines, right=["N", *heads])


def _three(one: Judged | None) -> tuple[str, str, str]:
    if one is None:
        return "", "", ""
    row = one.compared
    return theirs(row.published), counted(row.ours or 0.0), digits(row.ratio or 0.0) + ("*" if one.fitted else MARKS[row.agrees])


def published_alone(rows: Sequence[Judged], width: int) -> str:
    """The methods without a kernel; where the table is too wide, how to see it."""
    lengths = [str(n) for n in sorted({one.cell.n for one in rows})]
    cells = {(one.cell.method, str(one.cell.n)): theirs(one.cell.value) for one in rows}
    methods = list(dict.fromkeys(one.cell.method for one in rows))
    lines: list[list[Cell]] = [[method, *(cells.get((method, n), "") for n in lengths)] for method in methods]
    shown = table(["without a kernel", *lengths], lines, right=lengths)
    if max(map(len, shown.split("\n"))) <= width:
        return shown
    return wrapped(f"Without a kernel, and told by --csv: {', '.join(methods)}.", width)


def remarks(rows: Sequence[Judged]) -> Iterator[str]:
    """Why each kind came out so, and what else is known of the cells."""
    yield from dict.fromkeys(f"{one.kind.title}: {one.kind.why}." for one in rows)
    yield from dict.fromkeys(f"Known: {note.text}" for one in rows for note in one.notes)


def _rules(one: Judged) -> str:
    return ", ".join([*(["dropout"] if one.cell.dropout else []), *(["mask"] if one.cell.mask else [])])
