"""What is in SRAM while a run moves its words."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from iosim.attention.report import Report
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.tables import words
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style

MOVES = ("load", "store", "init")
MOST_EVENTS = 200_000
ABOVE = 1.15  # of M, or of the peak: where the axis ends


def timeline(reports: Sequence[Report]) -> Figure:
    """One panel for each report, on one axis: the SRAM in use over the words that one head has moved so far, with a line at M.

    Where memory is the bottleneck, the horizontal axis is proportional to time. Raises :class:`iosim.core.errors.BadInput` without
    reports, and for a run of more than 200,000 events.

    >>> from iosim import Attention, simulate
    >>> figure = timeline([simulate("flash2", Attention(n=32, d=4), sram=256, blocks=(8, 8))])
    >>> figure.axes[0].get_title(loc="left")
    'flash2: at most 224 of 256 words, blocks 8x8'
    """
    if not reports:
        raise BadInput("there is nothing to draw: no report was given")
    if len({report.sram.unit for report in reports}) > 1:
        raise BadInput("the reports count SRAM in words and in bytes; give reports of one unit")
    figure = Figure(figsize=(8.6, 0.9 + 1.9 * len(reports)), layout="constrained")
    grid = figure.subplots(len(reports), 1, sharex=True, sharey=True, squeeze=False)
    top = max(max(report.sram.amount, report.peak_sram) for report in reports)
    for (axes,), report in zip(grid, reports, strict=True):
        panel(axes, report)
        axes.set_ylim(0, top * ABOVE)
    grid[-1][0].set_xlabel("words moved so far", color=INK)
    grid[-1][0].set_xlim(0, None)
    grid[-1][0].xaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    figure.suptitle(f"In SRAM over the run: {described(reports[0].problem)}", x=0.01, ha="left", fontsize=11, color=INK)
    return figure


def panel(axes: Axes, report: Report) -> None:
    """Draw one run."""
    moved, held = occupied(report)
    colour, unit = style(report.kernel).colour, report.sram.unit
    axes.fill_between(moved, held, step="post", color=colour, alpha=0.35, linewidth=0)
    axes.step(moved, held, where="post", color=colour, linewidth=0.9)
    axes.axhline(report.sram.amount, color=QUIET, linewidth=1.0, linestyle=(0, (5, 3)))
    axes.text(1.0, report.sram.amount, "M", transform=axes.get_yaxis_transform(), ha="left", va="center", color=INK, fontsize=9)
    over = ", overflow recorded" if report.overflow else ""
    told = f"{report.kernel}: at most {report.peak_sram:,} of {report.sram.amount:,} {unit}, blocks {report.blocks}{over}"
    axes.set_title(told, loc="left", fontsize=10, fontweight="bold", color=INK)
    axes.set_ylabel(f"SRAM ({unit})", color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    bare(axes)


def occupied(report: Report) -> tuple[list[int], list[int]]:
    """The words moved after each event, and what SRAM then holds."""
    events = report.plan.trace()
    if len(events) > MOST_EVENTS:
        raise BadInput(f"{report.kernel} has {len(events):,} events, the limit is {MOST_EVENTS:,}; draw a smaller problem")
    moved, held, total = [0], [0], 0
    for event in events:
        total += event.words if event.kind in MOVES else 0
        moved.append(total)
        held.append(event.sram)
    return moved, held
