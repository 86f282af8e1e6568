"""Figure 2 of the FlashAttention paper in its own form, ours over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from iosim.show.plots.figures import GRID, INK, QUIET, bare, style, ticked

BYTES, TIME = style("flash").colour, style("standard").colour
ROWS = {"GFLOP": "GFLOPs", "GB": "HBM R/W (GB)", "ms": "Runtime (ms)"}
DOUBTFUL, TRAFFIC = "#aaaaaa", "HBM accesses (GB)"
COLOURS = {"GFLOP": INK, "GB": BYTES, "ms": TIME}
ACROSS = (0.0, 0.62, 0.98)  # where the columns of the table stand; the numbers end there
TOP, ROW = 0.86, 0.235  # where it begins, and how tall a row is

Pair = tuple[float, float]  # what was published, and ours


class Figure2(Protocol):
    """What is drawn of a :class:`iosim.study.paper.Figure2`: published numbers, and ours."""

    def problems(self) -> tuple[tuple[int | None, int], ...]:
        """N and d of the left, the middle and the right panel."""

    def table(self) -> Sequence[tuple[str, str, float, float | None, bool]]:
        """Left: method, unit, the published number, ours, and whether the published one fits the caption."""

    def over_blocks(self) -> Sequence[tuple[int, Pair, Pair, bool]]:
        """Middle: Bc, GB, ms, and whether the bytes take longer than the products."""

    def over_density(self) -> Sequence[tuple[Pair, float, Pair, bool]]:
        """Right: percent of non-zero blocks (published, drawn), GB of ours, ms, and whether every block is kept."""

    def line(self) -> Pair:
        """Right: ms a percent, and ms at 0 percent, of the line through the published times."""


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
    title(axes, "Left: both passes", made.problems()[0])
    heads(axes)
    found = made.table()
    rights = dict(zip(dict.fromkeys(method for method, *_ in found), ACROSS[1:], strict=False))
    for method, right in rights.items():
        axes.text(right, TOP + 0.04, method, fontsize=11, fontweight="bold", color=INK, ha="right")
    for method, unit, published, ours, fits in found:
        if method in rights:
            right, top, said = rights[method], TOP - ROW * list(ROWS).index(unit), "no kernel" if ours is None else f"{ours:.4g}"
            axes.text(right, top - 0.10, f"{published:g}", fontsize=13, color=INK if fits else DOUBTFUL, ha="right", va="center")
            axes.text(right, top - 0.18, said, fontsize=9.5, color=COLOURS[unit], ha="right", va="center")
    if not all(fits for *_, fits in found):
        text = "grey: does not fit the caption (iosim paper fig2)"
        axes.text(0, TOP - ROW * len(ROWS) - 0.07, text, fontsize=9, color=QUIET, va="center")


def heads(axes: Axes) -> None:
    """The rows of the table and the lines between them."""
    axes.text(ACROSS[0], TOP + 0.04, "Attention", fontsize=11, fontweight="bold", color=INK)
    for place, (unit, name) in enumerate(ROWS.items()):
        axes.text(ACROSS[0], TOP - ROW * place - 0.10, name, fontsize=11, color=INK, va="center")
        axes.text(ACROSS[0], TOP - ROW * place - 0.18, "ours", fontsize=9.5, color=COLOURS[unit], va="center")
    for place in range(len(ROWS) + 1):
        axes.plot([0, 0.98], [TOP - ROW * place] * 2, color=GRID, linewidth=0.9)


def over_blocks(axes: Axes, made: Figure2) -> None:
    """The middle panel: traffic on the left axis, time on the right one."""
    points = made.over_blocks()
    places = range(len(points))
    time = twin(axes, TRAFFIC, "forward runtime (ms)")
    line(axes, places, [gigabytes[1] for _, gigabytes, _, _ in points], BYTES)
    line(time, places, [taken[1] for _, _, taken, _ in points], TIME)
    hollow(axes, places, [gigabytes[0] for _, gigabytes, _, _ in points], BYTES)
    hollow(time, places, [taken[0] for _, _, taken, _ in points], TIME)
    axes.set_xlabel("block size Bc", color=INK)
    ticked(axes.xaxis, places, [str(cols) for cols, *_ in points])
    from_zero(axes, 1.12)
    from_zero(time, 1.35)  # so that the two curves, of one shape, do not hide each other
    sides(time, [(taken, memory) for _, _, taken, memory in points])
    title(axes, "Middle: block size", made.problems()[1])


def over_density(axes: Axes, made: Figure2) -> None:
    """The right panel: time on the left axis, traffic on the right one, and the line through the published times."""
    points, (slope, start) = made.over_density(), made.line()
    traffic = twin(axes, "forward + backward runtime (ms)", TRAFFIC)
    drawn = [percent[1] for percent, *_ in points]
    line(traffic, drawn, [gigabytes for _, gigabytes, _, _ in points], BYTES)
    line(axes, drawn, [taken[1] for _, _, taken, _ in points], TIME)
    ends = [0.0, max(100.0, *drawn)]
    axes.plot(ends, [slope * end + start for end in ends], color=TIME, linewidth=1.0, linestyle=(0, (1, 2)))
    for taken in [taken[0] for _, _, taken, dense in points if dense]:
        axes.axhline(taken, color=TIME, linewidth=1.0, linestyle=(0, (5, 3)))
        axes.text(2, taken * 1.02, "dense FlashAttention", fontsize=9, color=TIME, va="bottom")
    sparse = [(percent[0], taken[0]) for percent, _, taken, dense in points if not dense]
    hollow(axes, [percent for percent, _ in sparse], [taken for _, taken in sparse], TIME)
    axes.text(0.98, 0.035, "ours leaves out dropout and launching", fontsize=9, color=QUIET, ha="right", transform=axes.transAxes)
    axes.set_xlabel("non-zero blocks (%)", color=INK)
    axes.set_xlim(0, ends[1])
    from_zero(axes, 1.12)
    from_zero(traffic, 2.3)
    said = f"dotted: {slope:.2f} ms a percent {'-' if start < 0 else '+'} {abs(start):.1f} ms"
    axes.text(2, axes.get_ylim()[1] * 0.74, said, fontsize=9, color=TIME)
    title(axes, "Right: sparsity", made.problems()[2])


def twin(axes: Axes, left: str, right: str) -> Axes:
    """A second axis on the right; each has the colour of what it measures."""
    bare(axes)
    other = axes.twinx()
    other.spines[["top", "left"]].set_visible(False)
    other.spines["right"].set_color(QUIET)
    for one, name in ((axes, left), (other, right)):
        colour = BYTES if name == TRAFFIC else TIME
        one.set_ylabel(name, color=colour)
        one.tick_params(axis="y", colors=colour, labelsize=9)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    return other


def line(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    """What was counted here."""
    axes.plot(x, y, color=colour, linewidth=1.8, marker=".", markersize=5)


def hollow(axes: Axes, x: Sequence[float], y: Sequence[float], colour: str) -> None:
    """What was published: circles are traffic, squares are times."""
    axes.plot(x, y, "o" if colour == BYTES else "s", color=colour, markerfacecolor="white", markersize=8, markeredgewidth=1.7)


def from_zero(axes: Axes, room: float) -> None:
    """Let the axis begin at 0 and end at ``room`` times the largest number."""
    axes.set_ylim(0, axes.dataLim.y1 * room)


def sides(axes: Axes, times: Sequence[tuple[Pair, bool]]) -> None:
    """Say which of the times of the middle panel bytes bind, and which products."""
    (first, memory), (last, still) = times[0], times[-1]
    if memory:
        axes.text(0, 0.5 * first[1], "bound by bytes", fontsize=9, color=TIME, va="top")
    if not still:
        axes.text(len(times) - 0.92, 1.15 * max(last), "bound by FLOPs", fontsize=9, color=TIME, ha="right", va="bottom")


def title(axes: Axes, text: str, problem: tuple[int | None, int]) -> None:
    """What a panel shows, and N and d of its problem."""
    n, d = problem
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold", color=INK, pad=20)
    axes.text(0, 1.025, f"N = {n:,}, d = {d}" if n else f"d = {d}", transform=axes.transAxes, fontsize=9, color=QUIET)
