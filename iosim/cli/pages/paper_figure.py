"""``iosim paper fig2``: Figure 2 as text, panel by panel."""

from __future__ import annotations

from collections.abc import Iterator

from iosim.cli.pages.paper_numbers import commands, counted, fits, measured, numbers, passes, sentence, theirs
from iosim.cli.wrapping import wrapped
from iosim.core.tables import Cell, digits, table
from iosim.study.paper import Compared, Figure2, Finding
from iosim.study.paper.compared import AGREES, DIFFERS

LEFT, MIDDLE, RIGHT = "Figure 2, left", "Figure 2, middle", "Figure 2, right"


def text_of(made: Figure2, width: int) -> str:
    """The three panels."""
    panels = ("\n".join(panel(made, width)) for panel in (_left, _middle, _right))
    return "\n\n\n".join([*panels, wrapped(fits(made.times), width)])


def _of(made: Figure2, section: str) -> list[Finding]:
    return [one for one in made.findings if one.section.startswith(section)]


def _left(made: Figure2, width: int) -> Iterator[str]:
    found = _of(made, LEFT)
    single, other = [one for one in found if len(one.rows) == 1], [row for one in found if len(one.rows) > 1 for row in one.rows]
    rows = [row for one in single for row in one.rows]
    yield wrapped(measured(f"{LEFT}: both passes", made.data.left.setup, dropout=True, mask=True), width)
    yield from ("", numbers(rows, ["version", "method", ""], _labels, width), "", *_reasons(single, width), "", *_moved(made, width))
    if other:
        yield from ("", "FlashAttention counted otherwise, GB", "")
        yield numbers(other, ["convention"], lambda row: [str(row.labels["convention"])], width)
    yield from ("", "counted by", *commands([*rows, *other], width))


def _labels(row: Compared) -> list[Cell]:
    return [str(row.labels["version"]), str(row.labels["method"]), row.unit]


def _reasons(found: list[Finding], width: int) -> Iterator[str]:
    """Every reason once, after the numbers that it is about."""
    for why in dict.fromkeys(one.why for one in found if one.why):
        about = dict.fromkeys(
            f"{row.labels['method']}, {row.published:g} {row.unit}" for one in found if one.why == why for row in one.rows
        )
        yield wrapped(f"{'; '.join(about)}: {why}.", width)


def _moved(made: Figure2, width: int) -> Iterator[str]:
    for column in made.left:
        if column.section == LEFT and column.work is not None:
            yield wrapped(f"{column.row.method} moves {'; '.join(passes(column.work))}.", width)


def _middle(made: Figure2, width: int) -> Iterator[str]:
    yield wrapped(measured(f"{MIDDLE}: forward pass over the key block Bc", made.data.middle.setup, dropout=True, mask=True), width)
    for one in _of(made, MIDDLE):
        yield from ("", numbers(one.rows, ["Bc", ""], lambda row: [str(row.labels["block_cols"]), row.unit], width))
        yield from ("", wrapped(sentence(one.why), width))
    yield from ("", "counted by", *commands((point.traffic for point in made.middle), width))


def _right(made: Figure2, width: int) -> Iterator[str]:
    found = _of(made, RIGHT)
    yield wrapped(measured(f"{RIGHT}: both passes over the density of a block mask", made.data.right.setup, dropout=True, mask=True), width)
    head = ["blocks %", "published ms", "line", "ours ms", "ratio", "drawn %", "counted GB", "line"]
    yield from ("", table(head, [_density(made, index) for index in range(len(made.right.points))], right=head), "")
    yield from (wrapped(f"{AGREES if check.holds else DIFFERS}: {check.said}.", width) for one in found for check in one.checks)
    yield from (wrapped(sentence(one.why), width) for one in found)
    yield from ("", "counted by", *commands((point.time for point in made.right.points), width))


def _density(made: Figure2, index: int) -> list[Cell]:
    panel = made.right
    point = panel.points[index]
    percent, row = point.published.percent, point.time
    times = [f"{percent:g}", theirs(point.published.milliseconds), counted(panel.time.at(percent)), counted(row.ours or 0.0)]
    return [*times, digits(row.ratio or 0.0), f"{point.percent:.2f}", counted(point.gigabytes), counted(panel.traffic.at(point.percent))]
