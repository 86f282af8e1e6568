"""Counts and lower bounds over M, regime by regime, and how far apart they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import blended_transform_factory
from numpy.typing import NDArray

from iosim.errors import BadInput
from iosim.plots.curves import label
from iosim.plots.figures import GRID, INK, QUIET, STYLES, Style, bare
from iosim.regimes import FAR, Regime, RegimeMap, Rival, Steps, floors, theta_words
from iosim.tables import described, words
from iosim.theory.sizes import Ints
from iosim.units import Capacity

SHADES = {"small cache": "#fdf3dc", "middle": "#ffffff", "everything fits": "#e6f1f8"}
BENEATH = "#dcdcdc"
DASHES = ((0, (7, 2)), (0, (1.2, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1.5)), (0, (9, 2, 1, 2, 1, 2)))  # of the bounds, in their order
ALONG = (0.14, 0.32, 0.4, 0.23, 0.5)  # where each is named, so that none hides another
POINTS = 300  # of the bounds, which are smooth
ROOM = 5.0  # above the highest curve, for the names of the regimes: so many times its words
MOST_TICKS = 9
NARROW = 0.13  # of the width of a panel: the name of a regime needs as much
RATIOS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


def bounds(found: RegimeMap) -> Figure:
    """Two panels over M: what every rival moves and what no schedule can do without; and how many times the largest bound each moves.

    The strong line is the largest of the bounds. M is in words, on logarithmic axes; the regimes are shaded, and dots mark where another
    rival begins to move the fewest words. Raises :class:`iosim.errors.BadInput` where nothing fits at any M of the rows, or all are one.

    >>> from iosim import Attention, regime_map
    >>> [axes.get_ylabel() for axes in bounds(regime_map(Attention(n=256, d=16))).axes]
    ['words moved, one head', 'times the largest bound']
    """
    places = sampled(found)
    asked = [floors(found.problem, int(m), backward=found.backward) for m in places]
    each = {column[0].name: np.array([bound.words for bound in column], dtype=float) for column in zip(*asked, strict=True)}
    lowest = np.max(list(each.values()), axis=0)
    figure = Figure(figsize=(9.4, 8.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, height_ratios=[1.8, 1])
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlim=(places[0], places[-1]))
        bare(axes)
        axes.grid(axis="y", which="major", color=GRID, linewidth=0.6)
    traffic(panels[0], found, places, lowest)
    each_bound(panels[0], found, places, each)
    distance(panels[1], found, places, lowest)
    for axes in panels:
        shade(axes, found, names=axes is panels[0])
    capacities(panels[1], found, places)
    return figure


def sampled(found: RegimeMap) -> Ints:
    """The capacities at which smooth curves are drawn, from the first of the rows to the last."""
    rows = [row.sram for row in found.rows]
    if all(row.words is None for row in found.rows) or min(rows) == max(rows):
        raise BadInput("there is nothing to draw: no kernel fits at any M, or there is one M only; ask for a range of them")
    return np.unique(np.geomspace(min(rows), max(rows), POINTS).round().astype(np.int64))


def traffic(axes: Axes, found: RegimeMap, places: Ints, lowest: NDArray[np.float64]) -> None:
    """The upper panel: what moves, and the largest of the bounds strong."""
    ends = [curve(axes, one, who, places) for one, who in zip(found.curves, found.rivals, strict=True)]
    highest = max(line.get_ydata().max() for line in axes.lines)  # type: ignore[union-attr]  # they are arrays
    axes.set_ylim(lowest[-1] / 3, highest * ROOM)
    axes.fill_between(places, lowest, axes.get_ylim()[0], color=BENEATH, linewidth=0, zorder=1)
    axes.plot(places, lowest, color=INK, linewidth=2.2, zorder=3)
    axes.text(0.012, 0.02, "no schedule moves fewer words", transform=axes.transAxes, fontsize=9, color=INK, va="bottom", zorder=6)
    turns(axes, found, places)
    label(axes, [*named(found, ends), (float(lowest[-1]), "largest bound", INK)], apart=0.045)
    axes.set_ylabel("words moved, one head", color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    passes, blocks = ("backward" if found.backward else "forward"), {"best": "best blocks", "paper": "the papers' blocks"}[found.rule]
    axes.set_title("Counts and lower bounds over M", loc="left", fontsize=12, fontweight="bold", color=INK, pad=24)
    axes.text(0, 1.022, f"{described(found.problem)}, {passes}, {blocks}", transform=axes.transAxes, fontsize=9, color=QUIET)


def look(rival: Rival) -> Style:
    """The style of a kernel; a backward one without a style of its own takes that of its forward one."""
    return STYLES.get(rival.kernel) or STYLES[short(rival.kernel)]


def dashed(rival: Rival) -> bool:
    """Whether it is drawn with dashes: of the two depths of square tiles, the printed one."""
    return rival.options.get("depth") == "square"


def named(found: RegimeMap, ends: Sequence[float]) -> list[tuple[float, str, str]]:
    """The labels of the rivals that fit, beside their last numbers."""
    fitting = [(end, who) for end, who in zip(ends, found.rivals, strict=True) if end]
    return [(end, short(who.name) + (" (dashed)" if dashed(who) else ""), look(who).colour) for end, who in fitting]


def short(name: str) -> str:
    """The name of a rival where the pass is said once for all.

    >>> short("square-tiles-backward (one)")
    'square-tiles (one)'
    """
    return name.replace("-backward", "")


def curve(axes: Axes, one: Steps, rival: Rival, places: Ints, per: NDArray[np.float64] | None = None) -> float:
    """Draw a rival, in its own words or ``per`` the bound at each M, marked at powers of four, and return its last number; 0 for none."""
    at = corners(one, places)
    known = at[one.words_at(at) < FAR]
    if not len(known):
        return 0.0
    scale = np.ones(len(known)) if per is None else np.interp(known, places, per)
    moved = one.words_at(known) / scale
    colour, marker = look(rival)
    axes.plot(known, moved, color=colour, linewidth=1.7, linestyle=(0, (3, 1.4)) if dashed(rival) else "solid", zorder=4)
    marks = np.flatnonzero(np.isin(known, 4 ** np.arange(31)))
    face = "white" if dashed(rival) else colour
    axes.plot(known[marks], moved[marks], marker, color=colour, markerfacecolor=face, markersize=5.5, zorder=5)
    return float(moved[-1])


def corners(one: Steps, places: Ints) -> Ints:
    """The capacities between which a curve is drawn as a line: both sides of its steps, powers of four, and ``places``."""
    every = np.unique(np.concatenate([places, one.sram, one.sram - 1, 4 ** np.arange(31)]))
    return np.asarray(every[(every >= places[0]) & (every <= places[-1])])


def each_bound(axes: Axes, found: RegimeMap, places: Ints, each: Mapping[str, NDArray[np.float64]]) -> None:
    """Every bound where it says something, thin and named; backward the Θ as well, without a constant."""
    for place, (name, line) in enumerate(each.items()):
        seen = np.where(line < axes.get_ylim()[0], np.nan, line)
        axes.plot(places, seen, color=QUIET, linewidth=1.1, linestyle=DASHES[place % len(DASHES)], zorder=2)
        beside(axes, places, seen, name, ALONG[place % len(ALONG)])
    if found.backward and theta_words(found.problem, 1, backward=True) is not None:
        alone = np.array([theta_words(found.problem, int(m), backward=True) for m in places], dtype=float)
        axes.plot(places, alone, color=QUIET, linewidth=1.1, linestyle=(0, (1, 2.5)), zorder=2)
        beside(axes, places, alone, "Θ alone, no bound", 0.28)


def beside(axes: Axes, places: Ints, line: NDArray[np.float64], text: str, along: float) -> None:
    """Name a line below it, so far along; they fall, so that what stands to the left of a point on one is clear of it."""
    seen = np.flatnonzero(np.isfinite(line))
    if len(seen):
        at = seen[int(len(seen) * along)]
        name = axes.annotate(text, (places[at], line[at]), (0, -3), textcoords="offset points", fontsize=8, color=QUIET, zorder=6)
        name.set(ha="right", va="top", bbox={"facecolor": BENEATH, "edgecolor": "none", "pad": 0.8})


def turns(axes: Axes, found: RegimeMap, places: Ints) -> None:
    """Dots where another rival begins to move the fewest words, the last one named."""
    wins = [win for win in found.leaders()[1:] if places[0] <= win.sram <= places[-1]]
    for win in wins:
        row = found.row(win.sram)
        assert row.words is not None
        axes.plot([win.sram], [row.words], "o", markersize=4.5, markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.1, zorder=7)
    if wins:
        last = wins[-1]
        text = f"{short(str(last.name))} moves the fewest\nfrom M = {last.sram:,} words on"
        late = share(axes, last.sram) > 0.7
        at, beyond = (last.sram, float(found.row(last.sram).words or 0)), (-12, 95) if late else (26, 34)
        name = axes.annotate(
            text, at, beyond, textcoords="offset points", fontsize=8.5, color=INK,
            arrowprops={"arrowstyle": "-", "color": QUIET, "linewidth": 0.8, "shrinkB": 3}, zorder=8,
        )  # fmt: skip
        name.set(ha="right" if late else "left")


def share(axes: Axes, m: float) -> float:
    """How far along the axis M lies, from 0 to 1."""
    low, high = np.log(axes.get_xlim())
    return float((np.log(m) - low) / (high - low))


def distance(axes: Axes, found: RegimeMap, places: Ints, lowest: NDArray[np.float64]) -> None:
    """The lower panel: every rival in units of the largest bound."""
    ends = [curve(axes, one, who, places, lowest) for one, who in zip(found.curves, found.rivals, strict=True)]
    axes.plot(places, np.ones(len(places)), color=INK, linewidth=2.2, zorder=3)
    highest = max(line.get_ydata().max() for line in axes.lines)  # type: ignore[union-attr]  # they are arrays
    axes.set_ylim(0.8, highest * 1.3)
    axes.fill_between(places, 1, 0.8, color=BENEATH, linewidth=0, zorder=1)
    label(axes, [*named(found, ends), (1.0, "largest bound", INK)], apart=0.08)
    axes.yaxis.set_major_locator(FixedLocator(RATIOS))
    axes.yaxis.set_major_formatter(FixedFormatter([f"{ratio:,}" for ratio in RATIOS]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("times the largest bound", color=INK)


def shade(axes: Axes, found: RegimeMap, *, names: bool) -> None:
    """The regimes as regions, and their names where there is room."""
    low, high = axes.get_xlim()
    for one in found.regimes:
        start, stop = max(low, one.start), min(high, high if one.stop is None else one.stop)
        if start < stop:
            axes.axvspan(start, stop, color=SHADES[one.name], linewidth=0, zorder=0)
            if start > low:
                axes.axvline(start, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
            if names:
                region(axes, one, start, stop)


def region(axes: Axes, one: Regime, start: float, stop: float) -> None:
    """Name a regime in its region; at an edge of the panel, where that is narrow, it may reach beyond."""
    across, place, aligned = blended_transform_factory(axes.transData, axes.transAxes), (start * stop) ** 0.5, "center"
    if share(axes, stop) - share(axes, start) < NARROW:
        if share(axes, start) > 0 and share(axes, stop) < 1:
            return
        place, aligned = (start, "left") if share(axes, start) <= 0 else (stop, "right")
    text = axes.text(place, 0.975, f"{one.name}\n{one.condition}\n{one.theta}", transform=across, fontsize=9, color=INK)
    text.set(ha=aligned, va="top", linespacing=1.35)


def capacities(axes: Axes, found: RegimeMap, places: Ints) -> None:
    """The axis of M: words, and the bytes that they are below them."""
    powers = [2**power for power in range(63) if places[0] <= 2**power <= places[-1]]
    shown = powers[:: -(-len(powers) // MOST_TICKS)]
    size = found.problem.itemsize
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{m:,}\n{Capacity(m * size, 'bytes')}" for m in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel(f"SRAM capacity M (words; below: bytes of {found.problem.dtype})", color=INK)
