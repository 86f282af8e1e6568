"""Words per array, reads and writes apart."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from iosim.attention.report import Report
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.tables import words
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style

THICK = 0.38


def bars(reports: Sequence[Report]) -> Figure:
    """One panel a report, on one axis of words: for each array a full bar for what was read and a hatched one for what was written.

    >>> from iosim import Attention, simulate
    >>> [axes.get_title(loc="left") for axes in bars([simulate("flash2", Attention(n=256, d=64))]).axes]
    ['flash2: 131 k words, blocks 88x64']
    """
    if not reports:
        raise BadInput("there is nothing to draw: no report was given")
    lines = [len(report.arrays) for report in reports]
    figure = Figure(figsize=(8.4, 0.9 + sum(0.5 + 0.36 * count for count in lines)), layout="constrained")
    grid = figure.subplots(len(reports), 1, sharex=True, squeeze=False, height_ratios=[count + 0.8 for count in lines])
    most = max(max(array.reads, array.writes) for report in reports for array in report.arrays.values())
    for (axes,), report in zip(grid, reports, strict=True):
        panel(axes, report, most)
    first, last = reports[0], grid[-1][0]
    last.set_xlabel("words (array elements)" + (", all heads together" if first.problem.instances > 1 else ""), color=INK)
    last.xaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    figure.suptitle(f"Words per array: {described(first.problem)}, SRAM {first.sram}", x=0.01, ha="left", fontsize=11, color=INK)
    keys = [Patch(facecolor=QUIET, label="read"), Patch(facecolor="white", edgecolor=QUIET, hatch="////", label="written")]
    figure.legend(handles=keys, loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return figure


def panel(axes: Axes, report: Report, most: int) -> None:
    """Draw the arrays of one report."""
    colour = style(report.kernel).colour
    for place, array in enumerate(report.arrays.values()):
        apart = THICK / 2 if array.reads and array.writes else 0
        axes.barh(place - apart, array.reads, THICK, color=colour)
        axes.barh(place + apart, array.writes, THICK, facecolor="white", edgecolor=colour, hatch="////", linewidth=0.8)
        for at, count in ((place - apart, array.reads), (place + apart, array.writes)):
            if count:
                axes.text(count + most * 0.008, at, words(count), va="center", fontsize=8, color=INK)
    axes.set_ylim(-0.6, len(report.arrays) - 0.4)
    axes.set_yticks(range(len(report.arrays)), list(report.arrays))
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.08)
    over = ", overflow recorded" if report.overflow else ""
    title = f"{report.kernel}: {words(report.total)} words, blocks {report.blocks}{over}"
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold", color=INK)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    bare(axes)
