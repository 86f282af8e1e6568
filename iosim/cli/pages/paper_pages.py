"""``iosim paper``, ``iosim paper memory`` and ``iosim paper softmax`` as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iosim.cli.pages.paper_numbers import LEGEND, MARKS, commands, counted, fits, headed, measured, summary, theirs
from iosim.cli.wrapping import wrapped
from iosim.core.tables import Cell, table
from iosim.study.paper import Compared, Data, Finding, Times
from iosim.study.paper.compared import NO_KERNEL

MIB = 2**20


def overview(found: Sequence[Finding], times: Times, width: int) -> str:
    """One line for each published thing."""
    rows = [row for one in found for row in one.rows]
    failures = sum(len(one.failures) for one in found)
    came_out = f"{failures} of the claims do NOT hold" if failures else "all do"
    notes = [
        f"{len(rows):,} numbers. Of {sum(row.claim is not None for row in rows)} it is claimed that ours agree: {came_out}.",
        fits(times),
        "no fit: the published number fits no count, or not the other numbers; no test: the model leaves out what matters there.",
        "Every number, with the command that counts it: iosim paper --json, or --csv.",
    ]
    title = "The published numbers of the FlashAttention paper, and ours"
    return "\n".join([title, "", summary(found, width), "", *(wrapped(note, width) for note in notes)])


def memory(found: Sequence[Finding], data: Data, width: int) -> str:
    """Table 21: printed, listed, and declared by our kernels."""
    setup = next((found.setup for found, cell in data.cells() if cell.unit == "MiB"), None)
    lines = [] if setup is None else [wrapped(measured("Table 21, MiB of both passes together", setup), width)]
    listed = "listed: the tensors that live at once. declared: the HBM arrays of our forward and backward kernel, each once."
    lines += ["", wrapped(listed, width)]
    lines += [wrapped(f"one pass: the arrays of the pass that has more, which is the peak_hbm_bytes of the machine. {LEGEND}.", width)]
    for one in found:
        lines += ["", wrapped(headed(one), width)]
        if one.verdict != NO_KERNEL:
            lines += ["", footprints(one), "", *(wrapped(text, width) for text in differences(one))]
    last = {row.labels["method"]: row for one in found for row in one.rows}
    return "\n".join([*lines, "", "arrays of the last N counted by", *commands(last.values(), width)])


def footprints(one: Finding) -> str:
    """A line for each N."""
    lines: list[list[Cell]] = []
    for row in one.rows:
        sizes = [counted(whole(row, name) / MIB) for name in ("declared_bytes", "larger_pass_bytes")]
        published = [theirs(row.published), counted(row.ours or 0.0) + MARKS[row.agrees]]
        lines.append([str(row.labels["method"]), f"{whole(row, 'n'):,}", *published, *sizes])
    head = ["method", "N", "published", "listed ", "declared", "one pass"]
    return table(head, lines, right=head[1:])


def differences(one: Finding) -> Iterator[str]:
    """What list and kernels do not share, and at which N."""
    found: dict[tuple[object, object], list[int]] = {}
    for row in one.rows:
        found.setdefault((row.labels["listed_only"], row.labels["declared_only"]), []).append(whole(row, "n"))
    for (listed, declared), lengths in found.items():
        where = " to ".join(dict.fromkeys(f"{n:,}" for n in (min(lengths), max(lengths))))
        yield f"N = {where}: listed, not declared: {listed or 'nothing'}; declared, not listed: {declared or 'nothing'}."


def whole(row: Compared, name: str) -> int:
    """A label that is a whole number."""
    value = row.labels[name]
    assert isinstance(value, int)
    return value


def softmax(found: Sequence[Finding], data: Data, width: int) -> str:
    """Accesses of the three listings."""
    rows = [row for one in found for row in one.rows]
    names = ("published_loads", "loads", "published_stores", "stores")
    lines: list[list[Cell]] = []
    for row in rows:
        split = [_spelled(row.labels.get(name)) for name in names]
        lines.append([str(row.labels["method"]), *split, theirs(row.published), _spelled(row.ours), row.verdict])
    head = ["softmax", "loads", "ours", "stores", "ours", "together", "ours", "verdict"]
    title = f"{data.softmax.name}, an element: published, and counted ({data.softmax.source})"
    text = [wrapped(title, width), "", table(head, lines, right=head[1:-1]), ""]
    text += [wrapped(f"{one.title}: {one.why}.", width) for one in found if one.why]
    return "\n".join([*text, "", "counted by", *commands(rows, width)])


def _spelled(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else ""
