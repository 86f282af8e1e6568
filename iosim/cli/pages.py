"""The pages of ``iosim paper``, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from iosim.cli.beside import INDENT, NUMBERS, commands, counted, digits, measured, numbers, passes, reason, summary, theirs
from iosim.cli.wrapping import wrapped
from iosim.errors import BadInput
from iosim.paper import Compared, Data, Figure2, Finding, Judged, Runtimes, Times
from iosim.paper.compared import NO_KERNEL, NO_TEST
from iosim.paper.figure2_right import spelled
from iosim.published.cells import PASSES
from iosim.tables import Cell, table


def overview(found: Sequence[Finding], times: Times, width: int) -> str:
    """One line for each published thing."""
    claimed = sum(row.claim is not None for one in found for row in one.rows)
    failures = sum(len(one.failures) for one in found)
    verdict = "all do" if not failures else f"{failures} claims do NOT hold"
    notes = [
        f"{sum(len(one.rows) for one in found):,} numbers. Of {claimed} it is claimed that ours agree, and {verdict}.",
        fits(times),
        "no fit: the published number fits no count, or not the other numbers; no test: the model leaves out what matters there.",
        "Every number, with the iosim run command that counts it: --json or --csv.",
    ]
    title = "The published numbers of the FlashAttention paper, and ours"
    return "\n".join([title, "", summary(found, width), "", *(wrapped(note, width) for note in notes)])


def fits(times: Times) -> str:
    """The two numbers from which all times follow."""
    return (
        f"Times follow from counts by one bandwidth, {times.bandwidth / 1e12:.3f} TB/s, and one rate, {times.fitted / 1e12:.1f} TFLOP/s on the "
        f"grid of Table 18, whose cells both are fitted on, and {times.rate / 1e12:.0f} where every wave is full."
    )


def fig2(made: Figure2, width: int) -> str:
    """Figure 2, panel by panel."""
    return "\n\n\n".join(["\n".join(panel(made, width)) for panel in (_left, _middle, _right)])


def _left(made: Figure2, width: int) -> Iterator[str]:
    setup = made.data.left.setup
    found = [one for one in made.findings if one.section.startswith("Figure 2, left")]
    single = [one for one in found if len(one.rows) == 1]
    other = [row for one in found if len(one.rows) > 1 for row in one.rows]
    yield wrapped(measured("Figure 2, left: forward and backward pass", setup), width)
    yield ""
    yield numbers([row for one in single for row in one.rows], ["version", "method", ""], _panel_labels, width)
    yield ""
    for why in dict.fromkeys(one.why for one in single if one.why):
        yield wrapped(f"{' and '.join(_names(one for one in single if one.why == why))}: {why}.", width)
    yield ""
    for column in made.left[:2]:
        if column.work is not None:
            yield wrapped(f"{column.row.method} moves " + "; ".join(passes(column.work)) + ".", width)
    if other:
        yield from ("", "FlashAttention counted otherwise, GB:", "")
        yield numbers(other, ["convention"], lambda row: [str(row.labels["convention"])], width)
    yield from ("", "counted by", *commands([column.work for column in made.left] + [row.work for row in other], width))


def _panel_labels(row: Compared) -> list[Cell]:
    return [str(row.labels["version"]), str(row.labels["method"]), row.unit]


def _names(found: Iterator[Finding]) -> list[str]:
    return [f"{one.rows[0].labels['method']}, {one.rows[0].published:g} {one.rows[0].unit}" for one in found]


def _middle(made: Figure2, width: int) -> Iterator[str]:
    yield wrapped(measured("Figure 2, middle: forward pass over the key block Bc", made.data.middle.setup, rules=False), width)
    for one in (one for one in made.findings if one.section == "Figure 2, middle"):
        yield from ("", numbers(one.rows, ["Bc", ""], lambda row: [str(row.labels["block_cols"]), row.unit], width))
        yield from ("", wrapped(f"{reason(one)}.", width))
    yield from ("", "counted by", *commands((point.work for point in made.middle), width))


def _right(made: Figure2, width: int) -> Iterator[str]:
    panel = made.right
    found = next(one for one in made.findings if one.section == "Figure 2, right")
    yield wrapped(measured("Figure 2, right: both passes over the density of a block mask", made.data.right.setup), width)
    yield ""
    head = ["% kept", "published ms", "line", "ours ms", "ratio", "drawn %", "counted GB", "line"]
    yield table(head, [_density(made, index) for index in range(len(panel.points))], right=head)
    yield ""
    yield from (wrapped(f"{line}.", width) for line in (*found.claims, found.why))
    yield from ("", "counted by", *commands([panel.points[0].work], width), "and its like")


def _density(made: Figure2, index: int) -> list[Cell]:
    point, panel = made.right.points[index], made.right
    published, row = point.published, point.time
    times = [f"{published.percent:g}", theirs(published.milliseconds), counted(panel.time.at(published.percent)), counted(row.ours or 0.0)]
    return [*times, digits(row.ratio or 0.0), f"{point.percent:.2f}", counted(point.gigabytes), counted(panel.traffic.at(point.percent))]


def every_table(made: Runtimes, width: int) -> str:
    """The ratios of all tables, those that are judged alike together."""
    lines = [wrapped(fits(made.times), width), "Below: predicted over published time."]
    for one, rows in made.groups:
        lines += ["", wrapped(f"{one.section.removesuffix(', ms')}, {one.title}: {one.verdict}. {reason(one)}.", width)]
        if one.verdict not in (NO_KERNEL, NO_TEST):
            lines += ["", ratios(rows)]
    return "\n".join([*lines, "", wrapped("The milliseconds of one table, and what counts them: iosim paper runtimes --table N.", width)])


def ratios(rows: Sequence[Judged]) -> str:
    """A line for each pass of each method, a column for each N."""
    lengths = sorted({one.cell.n for one in rows})
    lines: list[list[Cell]] = []
    for (number, pass_, method), group in groupby(rows, key=lambda one: (one.cell.table, one.cell.pass_, one.cell.method)):
        cells = {one.cell.n: one for one in group}
        first = next(iter(cells.values())).cell
        shown = [digits(cells[n].compared.ratio or 0.0) if n in cells else "" for n in lengths]
        lines.append([str(number), pass_, _rules(first.dropout, first.mask), method, *shown])
    heads = [f"{n:,}" for n in lengths]
    return table(["table", "pass", "rules", "method", *heads], lines, right=["table", *heads])


def _rules(dropout: bool, mask: bool) -> str:
    return ", ".join([*(["dropout"] if dropout else []), *(["mask"] if mask else [])])


def one_table(data: Data, made: Runtimes, number: int, width: int) -> str:
    """The milliseconds of one table; raises :class:`BadInput` for one that holds no times."""
    rows = [one for one in made.judged if one.cell.table == number]
    if not rows:
        held = ", ".join(map(str, dict.fromkeys(one.cell.table for one in made.judged)))
        raise BadInput(f"Table {number} holds no times; those that do are {held} (iosim paper memory shows Table 21)")
    setup = next(found.setup for found, cell in data.cells() if cell.table == number)
    first, ours = rows[0].cell, [one for one in rows if one.compared.ours is not None]
    title = f"Table {number}, ms: {', '.join(dict.fromkeys(one.cell.pass_ for one in rows))}, {_rules(first.dropout, first.mask) or 'no dropout, no mask'}"
    lines = [wrapped(measured(title, setup, rules=first.dropout or first.mask), width), "", side_by_side(ours), ""]
    lines += [wrapped("= within what is claimed, ! outside, * one of the cells that the model is fitted on; else nothing is claimed.", width)]
    lines += ["", published_only([one for one in rows if one.compared.ours is None], width)]
    remarks = dict.fromkeys(note.text for one in rows for note in one.notes)
    lines += [wrapped(f"{why}.", width) for why in dict.fromkeys(f"{one.kind.title}: {one.kind.why}" for one in ours)]
    lines += [wrapped(f"Known: {text}", width) for text in remarks]
    largest = {one.cell.method: one.compared.work for one in ours}
    return "\n".join([*lines, "", "bytes and FLOPs counted, at the largest N, by", *commands(largest.values(), width)])


def side_by_side(rows: Sequence[Judged]) -> str:
    """A line for each pass and N; published, predicted and ratio of each method beside each other."""
    cells = {(one.cell.pass_, one.cell.n, one.cell.method): one for one in rows}
    methods = list(dict.fromkeys(one.cell.method for one in rows))
    lines: list[list[Cell]] = []
    for pass_, n in dict.fromkeys((one.cell.pass_, one.cell.n) for one in sorted(rows, key=lambda one: (PASSES.index(one.cell.pass_), one.cell.n))):
        found = [cells.get((pass_, n, method)) for method in methods]
        lines.append([pass_, f"{n:,}", *(text for one in found for text in _three(one))])
    heads = [text for method in methods for text in (method.removesuffix(" Attention"), "ours", "ratio ")]
    return table(["pass", "N", *heads], lines, right=["N", *heads])


def _three(one: Judged | None) -> tuple[str, str, str]:
    if one is None:
        return "", "", ""
    row = one.compared
    mark = "*" if one.fitted else {True: "=", False: "!", None: " "}[row.agrees]
    return theirs(row.published), counted(row.ours or 0.0), digits(row.ratio or 0.0) + mark


def published_only(rows: Sequence[Judged], width: int) -> str:
    """What no kernel stands beside; only told of where there is no room for the table."""
    if not rows:
        return ""
    lengths = sorted({one.cell.n for one in rows})
    cells = {(one.cell.method, one.cell.n): theirs(one.cell.value) for one in rows}
    methods = dict.fromkeys(one.cell.method for one in rows)
    lines: list[list[Cell]] = [[method, *(cells.get((method, n), "") for n in lengths)] for method in methods]
    shown = table(["published only", *map(str, lengths)], lines, right=list(map(str, lengths)))
    if max(map(len, shown.split("\n"))) > width:
        return wrapped(f"Published only, and shown by --csv: {', '.join(methods)}.", width) + "\n"
    return shown + "\n"


def memory(found: Sequence[Finding], data: Data, width: int) -> str:
    """Table 21: printed, listed, and declared by our kernels."""
    setup = next(found.setup for found, cell in data.cells() if cell.unit == "MiB")
    lines = [wrapped(measured("Table 21: memory of both passes together, in MiB", setup, rules=False), width)]
    lines += [wrapped(text, width) for text in (
        "listed: the tensors that must live at once for the printed number; declared: the HBM arrays of our forward and backward kernel, "
        "each once; one pass: those of the pass that has more (peak_hbm_bytes).",
    )]
    for one in found:
        lines += ["", wrapped(f"{one.title}: {one.verdict}. {reason(one)}.", width)]
        if one.verdict != NO_KERNEL:
            lines += ["", footprints(one), "", *differences(one, width)]
    works = {row.labels["method"]: row.work for one in found for row in one.rows}
    return "\n".join([*lines, "", "declared at the largest N, counted by", *commands(works.values(), width)])


def footprints(one: Finding) -> str:
    """A line for each N."""
    lines: list[list[Cell]] = []
    for row in one.rows:
        sizes = [counted(int(str(row.labels[name])) / 2**20) for name in ("declared_bytes", "larger_pass_bytes")]
        lines.append([str(row.labels["method"]), f"{row.labels['n']:,}", theirs(row.published), counted(row.ours or 0.0), row.verdict, *sizes])
    head = ["method", "N", "published", "listed", "verdict", "declared", "one pass"]
    return table(head, lines, right=[name for name in head if name not in ("method", "verdict")])


def differences(one: Finding, width: int) -> Iterator[str]:
    """What list and kernels do not share, and at which N."""
    key = lambda row: (str(row.labels["listed_only"]), str(row.labels["declared_only"]))
    for listed, declared in dict.fromkeys(map(key, one.rows)):
        lengths = sorted({int(str(row.labels["n"])) for row in one.rows if key(row) == (listed, declared)})
        where = f"N = {lengths[0]:,}" + (f" to {lengths[-1]:,}" if len(lengths) > 1 else "")
        yield wrapped(f"{where}: listed and not declared: {listed or 'nothing'}; declared and not listed: {declared or 'nothing'}.", width)


def softmax(found: Sequence[Finding], data: Data, width: int) -> str:
    """Accesses of the three listings."""
    names = ("published_loads", "loads", "published_stores", "stores")
    head = ["softmax", "loads", "ours", "stores", "ours", "together", "ours", "verdict"]
    lines: list[list[Cell]] = []
    for row in (row for one in found for row in one.rows):
        four = [_whole(row.labels.get(name)) for name in names]
        lines.append([str(row.labels["method"]), *four, theirs(row.published), _whole(row.ours), row.verdict])
    text = [f"{data.softmax.name}: loads and stores of an element, published and counted", "", table(head, lines, right=head[1:-1]), ""]
    text += [wrapped(f"{one.title}: {one.why}.", width) for one in found if one.why]
    text += [wrapped(f"Counted by running {row.made}." , width) for one in found for row in one.rows if row.made]
    return "\n".join([*text, wrapped(f"Source: {data.softmax.source}.", width)])


def _whole(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else ""
