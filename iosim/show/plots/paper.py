"""Figure 2 of the FlashAttention paper in its own form, ours over it."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim.study.paper import Compared, Figure2
from iosim.study.paper.compared import NO_FIT
from iosim.study.paper.figure2_left import Column

BYTES, TIME = style("flash").colour, style("standard").colour
ROWS = {"GFLOP": "GFLOPs", "GB": "HBM R/W (GB)", "ms": "Runtime (ms)"}
COLOURS = {"GFLOP": INK, "GB": BYTES, "ms": TIME}
ACROSS = (0.0, 0.62, 0.98)  # where the columns of the table stand; the numbers end there
TOP, ROW = 0.86, 0.235  # where it begins, and how tall a row is


def figure(made: Figure2) -> Figure:
    """The three panels: a table, traffic and time over the block size, time and traffic over the density.

    What was published is hollow, ours is a line; traffic and time have one colour each.

    >>> from iosim.study.paper import figure2, load
    >>> len(figure(figure2(load())).axes)  # two panels have a second axis
    5
    """
    drawn = Figure(figsize=(13.6, 4.9), layout="constrained")
    left, middle, right = drawn.subplots(1, 3, width_ratios=[1.05, 1, 1])
    numbers(left, made)
    over_blocks(middle, made)
    over_density(right, made)
    drawn.legend(handles=keys(), loc="outside lower center", ncols=2, frameon=False, fontsize=10)
    drawn.suptitle("FlashAttention, Figure 2: as published, and as counted", x=0.002, ha="left", fontsize=13, fontweight="bold", color=INK)
    return drawn


def keys() -> list[Line2D]:
    """What hollow marks and lines mean."""
    theirs = Line2D([], [], color=QUIET, marker="o", markerfacecolor="white", markersize=7.5, markeredgewidth=1.6, linestyle="none")
    ours = Line2D([], [], color=QUIET, linewidth=1.8)
    theirs.set_label("published")
    ours.set_label("ours: words counted on the machine, times that follow from words and FLOPs")
    return [theirs, ours]


def numbers(axes: Axes, made: Figure2) -> None:
    """The left panel: a table, ours below what was published."""
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(0, 1))
    title(axes, "Left: both passes", made.data.left.setup.n, made.data.left.setup.d)
    first = [column for column in made.left if column.row.version == made.left[0].row.version]
    axes.text(ACROSS[0], TOP + 0.04, "Attention", fontsize=11, fontweight="bold", color=INK)
    for right, column in zip(ACROSS[1:], first, strict=False):
        axes.text(right, TOP + 0.04, column.row.method, fontsize=11, fontweight="bold", color=INK, ha="right")
        rows = {one.unit: one for one in compared(made, column)}
        for place, unit in enumerate(ROWS):
            cell(axes, right, TOP - ROW * place, rows[unit])
    for place, (unit, name) in enumerate(ROWS.items()):
        axes.plot([0, 0.98], [TOP - ROW * place] * 2, color=GRID, linewidth=0.9)
        axes.text(ACROSS[0], TOP - ROW * place - 0.10, name, fontsize=11, color=INK, va="center")
        axes.text(ACROSS[0], TOP - ROW * place - 0.18, "ours", fontsize=9.5, color=COLOURS[unit], va="center")
    axes.plot([0, 0.98], [TOP - ROW * len(ROWS)] * 2, color=GRID, linewidth=0.9)
    if any(one.word == NO_FIT for column in first for one in compared(made, column)):
        axes.text(
            0, TOP - ROW * len(ROWS) - 0.07, "grey: does not fit the caption (iosim paper fig2)", fontsize=9, color=QUIET, va="center"
        )


def cell(axes: Axes, right: float, top: float, one: Compared) -> None:
    """A published number, grey where it does not fit, and ours below."""
    doubtful = one.word == NO_FIT
    axes.text(right, top - 0.10, f"{one.published:g}", fontsize=13, color="#aaaaaa" if doubtful else INK, ha="right", va="center")
    ours = "no kernel" if one.ours is None else f"{one.ours:.4g}"
    axes.text(right, top - 0.18, ours, fontsize=9.5, color=COLOURS[one.unit], ha="right", va="center")


def compared(made: Figure2, column: Column) -> list[Compared]:
    """The numbers of one column of the table."""
    where = column.row.version, column.row.method
    rows = [row for found in made.findings if len(found.rows) == 1 for row in found.rows]
    return [row for row in rows if (row.labels.get("version"), row.labels["method"]) == where]


def over_blocks(axes: Axes, made: Figure2) -> None:
    """The middle panel: traffic on the left axis, time on the right one."""
    points, places = made.middle, range(len(made.middle))
    time = twin(axes, "HBM accesses (GB)", "forward runtime (ms)", BYTES, TIME)
    line(axes, places, [point.traffic.ours or 0.0 for point in points], BYTES)
    line(time, places, [point.time.ours or 0.0 for point in points], TIME)
    hollow(axes, places, [point.published.gigabytes for point in points], BYTES, "o")
    hollow(time, places, [point.published.milliseconds for point in points], TIME, "s")
    axes.set_xlabel("block size Bc", color=INK)
    axes.xaxis.set_major_locator(FixedLocator(list(places)))
    axes.xaxis.set_major_formatter(FixedFormatter([str(point.published.block_cols) for point in points]))
    axes.xaxis.set_minor_locator(NullLocator())
    from_zero(axes, 1.12)
    from_zero(time, 1.35)  # so that the two curves, of one shape, do not hide each other
    sides(time, made)
    title(axes, "Middle: block size", made.data.middle.setup.n, made.data.middle.setup.d)


def over_density(axes: Axes, made: Figure2) -> None:
    """The right panel: time on the left axis, traffic on the right one, and the line through the published times."""
    panel = made.right
    traffic = twin(axes, "forward + backward runtime (ms)", "HBM accesses (GB)", TIME, BYTES)
    drawn = [point.percent for point in panel.points]
    line(traffic, drawn, [point.gigabytes for point in panel.points], BYTES)
    line(axes, drawn, [point.time.ours or 0.0 for point in panel.points], TIME)
    ends = [0.0, max(100.0, *drawn)]
    axes.plot(ends, [panel.time.at(end) for end in ends], color=TIME, linewidth=1.0, linestyle=(0, (1, 2)))
    for point in panel.points:
        if point not in panel.sparse:
            axes.axhline(point.published.milliseconds, color=TIME, linewidth=1.0, linestyle=(0, (5, 3)))
            axes.text(2, point.published.milliseconds * 1.02, "dense FlashAttention", fontsize=9, color=TIME, va="bottom")
    hollow(axes, [p.published.percent for p in panel.sparse], [p.published.milliseconds for p in panel.sparse], TIME, "s")
    axes.text(0.98, 0.035, "ours leaves out dropout and launching", fontsize=9, color=QUIET, ha="right", transform=axes.transAxes)
    axes.set_xlabel("non-zero blocks (%)", color=INK)
    axes.set_xlim(0, ends[1])
    from_zero(axes, 1.12)
    from_zero(traffic, 2.3)
    slope = f"{panel.time.slope:.2f} ms a percent {'-' if panel.time.intercept < 0 else '+'} {abs(panel.time.intercept):.1f} ms"
    axes.text(2, axes.get_ylim()[1] * 0.74, f"dotted: {slope}", fontsize=9, color=TIME)
    title(axes, "Right: sparsity", made.data.right.setup.n, made.data.right.setup.d)


def twin(axes: Axes, left: str, right: str, left_colour: str, right_colour: str) -> Axes:
    """A second axis on the right, each in the colour of what it measures."""
    bare(axes)
    other = axes.twinx()
    other.spines[["top", "left"]].set_visible(False)
    other.spines["right"].set_color(QUIET)
    for one, name, colour in ((axes, left, left_colour), (other, right, right_colour)):
        one.set_ylabel(name, color=colour)
        one.tick_params(axis="y", colors=colour, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    return other


def line(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    """What was counted here."""
    axes.plot(x, y, color=colour, linewidth=1.8, marker=".", markersize=5)


def hollow(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str, marker: str) -> None:
    """What was published."""
    axes.plot(x, y, marker, color=colour, markerfacecolor="white", markersize=8, markeredgewidth=1.7)


def from_zero(axes: Axes, room: float) -> None:
    """Let the axis begin at 0 and end at ``room`` times the largest number."""
    axes.set_ylim(0, axes.dataLim.y1 * room)


def sides(axes: Axes, made: Figure2) -> None:
    """Say which of the times of the middle panel bytes bind, and which products."""
    setup, last = made.data.middle.setup, len(made.middle) - 1
    memory = [made.times.memory(point.work) >= made.times.compute(point.work, setup) for point in made.middle]
    if memory[0]:
        axes.text(0, 0.5 * (made.middle[0].time.ours or 0.0), "bound by bytes", fontsize=9, color=TIME, va="top")
    if not memory[last]:
        highest = max(made.middle[last].time.ours or 0.0, made.middle[last].time.published)
        axes.text(last + 0.08, 1.15 * highest, "bound by FLOPs", fontsize=9, color=TIME, ha="right", va="bottom")


def title(axes: Axes, text: str, n: int | None, d: int) -> None:
    """What a panel shows, and of which problem."""
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.025, f"N = {n:,}, d = {d}" if n else f"d = {d}", transform=axes.transAxes, fontsize=9, color=QUIET)
