"""Counts and lower bounds over M, regime by regime, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter
from matplotlib.transforms import Bbox, IdentityTransform, blended_transform_factory
from numpy.typing import NDArray

from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.core.tables import words
from iosim.core.units import Capacity
from iosim.predict.over_m import FAR, Steps, leaders
from iosim.predict.regimes import Regime, floors, regimes, theta_words
from iosim.predict.rivals import BlockRule, Rival
from iosim.predict.sizes import Ints
from iosim.show.plots.curves import label
from iosim.show.plots.figures import GRID, INK, QUIET, bare, pixels_per_point, style, ticked

SHADES = {"small cache": "#fdf3dc", "middle": "#ffffff", "everything fits": "#e6f1f8", "large cache": "#e6f1f8"}
BENEATH = "#dcdcdc"
STRONG, ALONE = "largest bound", "Θ alone, no bound"
DASHES = ((0, (7, 2)), (0, (1.2, 1.2)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1.5)), (0, (9, 2, 1, 2, 1, 2)))  # of the bounds, in their order
ALONG = np.linspace(0.05, 0.95, 61)  # of the width of a panel: where a bound may be named
BESIDE, CLEAR = 3.0, 12.0  # points from a line to its name; and from there to others, where more is no better
POINTS = 300  # of the bounds, which are smooth
ROOM = 5.0  # above the highest curve, for the names of the regimes: so many times its words
MOST_TICKS = 9
NARROW = 0.13  # of the width of a panel: the name of a regime needs as much
RATIOS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)


class RegimeMap(Protocol):
    """What is drawn of a :class:`iosim.study.regimes.RegimeMap`: some rivals on one problem over M."""

    @property
    def problem(self) -> Attention:
        """The problem, of which one head counts."""

    @property
    def backward(self) -> bool:
        """Whether it is the backward pass."""

    @property
    def rule(self) -> BlockRule:
        """Whose blocks the rivals take."""

    @property
    def rivals(self) -> Sequence[Rival]:
        """Who is compared."""

    @property
    def curves(self) -> Sequence[Steps]:
        """What each moves at every M."""

    @property
    def capacities(self) -> Sequence[int]:
        """The M of the map, in words."""


def bounds(found: RegimeMap) -> Figure:
    """Two panels over M: the words of every rival above the lower bounds, and the same as multiples of the largest bound.

    The strong line is the largest of the bounds. M is in words, on logarithmic axes. The regimes are shaded, and dots mark where another
    rival begins to move the fewest words. Raises :class:`iosim.core.errors.BadInput` where nothing fits at any M, and for a single M.

    >>> from iosim import Attention, regime_map
    >>> [axes.get_ylabel() for axes in bounds(regime_map(Attention(n=256, d=16))).axes]
    ['words moved, one head', 'times the largest bound']
    """
    places = sampled(found)
    asked = [floors(found.problem, int(m), backward=found.backward) for m in places]
    each = {column[0].name: np.array([bound.words for bound in column], dtype=float) for column in zip(*asked, strict=True)}
    lowest = np.max(list(each.values()), axis=0)
    figure = Figure(figsize=(9.8 if found.backward else 9.4, 8.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, height_ratios=[1.8, 1])
    for axes in panels:
        axes.set(xscale="log", yscale="log", xlim=(places[0], places[-1]))
        bare(axes)
        axes.grid(axis="y", which="major", color=GRID, linewidth=0.6)
    traffic(panels[0], found, places, lowest)
    thin = each_bound(panels[0], found, places, each)
    distance(panels[1], found, places, lowest)
    for axes in panels:
        shade(axes, found, names=axes is panels[0])
    capacities(panels[1], found, places)
    figure.draw_without_rendering()  # from here on it is known where things stand
    for name, line in thin.items():
        beside(panels[0], line, name)
    return figure


def sampled(found: RegimeMap) -> Ints:
    """The capacities at which smooth curves are drawn, from the first of the rows to the last."""
    if len(set(found.capacities)) < 2 or all(one.words_at(max(found.capacities)) == FAR for one in found.curves):
        raise BadInput("there is nothing to draw: no kernel fits at any M, or there is one M only; ask for a range of them")
    low, high = min(found.capacities), max(found.capacities)
    return np.unique(np.geomspace(low, high, POINTS).round().astype(np.int64))


def traffic(axes: Axes, found: RegimeMap, places: Ints, lowest: NDArray[np.float64]) -> None:
    """The upper panel: the words of the rivals, and the largest bound as a strong line."""
    ends = [curve(axes, one, who, places) for one, who in zip(found.curves, found.rivals, strict=True)]
    highest = max(line.get_ydata().max() for line in axes.lines)  # type: ignore[union-attr]  # they are arrays
    axes.set_ylim(lowest[-1] / 3, highest * ROOM)
    axes.fill_between(places, lowest, axes.get_ylim()[0], color=BENEATH, linewidth=0, zorder=1)
    axes.plot(places, lowest, color=INK, linewidth=2.2, zorder=3, label=STRONG)
    axes.text(0.012, 0.02, "no schedule moves fewer words", transform=axes.transAxes, fontsize=9, color=INK, va="bottom", zorder=6)
    turns(axes, found, places)
    label(axes, [*named(found, ends), (float(lowest[-1]), STRONG, INK)], apart=0.045)
    axes.set_ylabel("words moved, one head", color=INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    passes, blocks = ("backward" if found.backward else "forward"), {"best": "best blocks", "paper": "the papers' blocks"}[found.rule]
    axes.set_title("Counts and lower bounds over M", loc="left", fontsize=12, fontweight="bold", color=INK, pad=24)
    axes.text(0, 1.022, f"{described(found.problem)}, {passes}, {blocks}", transform=axes.transAxes, fontsize=9, color=QUIET)


def dashed(rival: Rival) -> bool:
    """Whether its line is dashed, as that of the printed square tiles is."""
    return rival.options.get("depth") == "square"


def named(found: RegimeMap, ends: Sequence[float]) -> list[tuple[float, str, str]]:
    """The labels of the rivals that fit, beside their last numbers."""
    fitting = [(end, who) for end, who in zip(ends, found.rivals, strict=True) if end]
    return [(end, who.name + (" (dashed)" if dashed(who) else ""), style(who.kernel).colour) for end, who in fitting]


def curve(axes: Axes, one: Steps, rival: Rival, places: Ints, per: NDArray[np.float64] | None = None) -> float:
    """Draw a rival, marked at powers of four, and return its last number; 0 where it fits nowhere.

    Args:
        axes: The panel.
        one: What it moves over M.
        rival: Who it is.
        places: The M of smooth curves.
        per: The bound at each of ``places``, to draw how many times as much it moves.
    """
    at = corners(one, places)
    known = at[one.words_at(at) < FAR]
    if not len(known):
        return 0.0
    scale = np.ones(len(known)) if per is None else np.interp(known, places, per)
    moved = one.words_at(known) / scale
    colour, marker = style(rival.kernel)
    axes.plot(known, moved, color=colour, linewidth=1.7, linestyle=(0, (3, 1.4)) if dashed(rival) else "solid", zorder=4)
    marks = np.flatnonzero(np.isin(known, 4 ** np.arange(31)))
    face = "white" if dashed(rival) else colour
    axes.plot(known[marks], moved[marks], marker, color=colour, markerfacecolor=face, markersize=5.5, zorder=5)
    return float(moved[-1])


def corners(one: Steps, places: Ints) -> Ints:
    """The capacities between which a curve is drawn as a line: both sides of its steps, powers of four, and ``places``."""
    every = np.unique(np.concatenate([places, one.sram, one.sram - 1, 4 ** np.arange(31)]))
    return np.asarray(every[(every >= places[0]) & (every <= places[-1])])


def each_bound(axes: Axes, found: RegimeMap, places: Ints, each: Mapping[str, NDArray[np.float64]]) -> dict[str, Line2D]:
    """Draw every bound that lies in the panel as a thin line, and backward the Θ without its constant; returns the lines by name."""
    thin, styles = dict(each), dict(zip(each, cycle(DASHES), strict=False))
    if found.backward and theta_words(found.problem, 1, backward=True) is not None:
        thin[ALONE] = np.array([theta_words(found.problem, int(m), backward=True) for m in places], dtype=float)
    drawn = {}
    for name, line in thin.items():
        seen = np.where(line < axes.get_ylim()[0], np.nan, line)
        dashes = styles.get(name, (0, (1, 2.5)))
        (drawn[name],) = axes.plot(places, seen, color=QUIET, linewidth=1.1, linestyle=dashes, zorder=2, label=name)
    return drawn


def beside(axes: Axes, line: Line2D, text: str) -> None:
    """Write the name of a bound at its line, below the largest bound, where it is farthest from all other lines."""
    name = axes.text(0, 0, text, transform=IdentityTransform(), fontsize=8, color=QUIET, zorder=6, va="bottom")
    size, others = name.get_window_extent(), [other for other in axes.lines if other is not line and other.get_linestyle() != "None"]
    texts = [other.get_window_extent() for other in axes.texts if other is not name]
    boxes = [box for box in beneath(axes, line, size) if not any(box.overlaps(other) for other in texts)]
    if not boxes:
        name.remove()
        return
    best = max(boxes, key=lambda box: min([CLEAR * pixels_per_point(axes), *(gap(other, box) for other in others)]))
    name.set(transform=axes.transAxes, position=axes.transAxes.inverted().transform(best.min))


def beneath(axes: Axes, line: Line2D, size: Bbox) -> Iterator[Bbox]:
    """Where the name of a bound, of such a size, may stand: below its line, then above."""
    (strong,) = (other for other in axes.lines if other.get_label() == STRONG)
    room, away = axes.bbox, BESIDE * pixels_per_point(axes)
    for below in (True, False):
        for left in room.x0 + ALONG * room.width:
            low, high = between(line, left, left + size.width)
            box = Bbox.from_bounds(left, low - away - size.height if below else high + away, size.width, size.height)
            inside = room.x0 < box.x0 and box.x1 < room.x1 and room.y0 < box.y0
            if low <= high and inside and box.y1 + away / 2 < between(strong, box.x0, box.x1)[0]:
                yield box


def gap(line: Line2D, box: Bbox) -> float:
    """How far above or below a box a line passes, in pixels; 0 where it may touch."""
    low, high = between(line, box.x0, box.x1)
    return max(0.0, low - float(box.y1), float(box.y0) - high)


def between(line: Line2D, left: float, right: float) -> tuple[float, float]:
    """The lowest and the highest that a line is in a range, in pixels; infinity and minus infinity where it is not seen there."""
    x, y = line.get_transform().transform(np.column_stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)])).T
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    ends = [end for end in (left, right) if len(x) and x[0] <= end <= x[-1]]
    seen = [*y[(left <= x) & (x <= right)].tolist(), *np.interp(ends, x, y).tolist()] if len(x) else []
    return min(seen, default=np.inf), max(seen, default=-np.inf)


def turns(axes: Axes, found: RegimeMap, places: Ints) -> None:
    """Dots where another rival begins to move the fewest words, the last one named."""
    wins = [win for win in leaders(found.curves)[1:] if places[0] <= win.sram <= places[-1]]
    fewest = [min(int(one.words_at(win.sram)) for one in found.curves) for win in wins]
    for win, moved in zip(wins, fewest, strict=True):
        axes.plot([win.sram], [moved], "o", markersize=4.5, markerfacecolor="white", markeredgecolor=INK, markeredgewidth=1.1, zorder=7)
    if wins:
        last = wins[-1]
        text = f"{last.name} moves the fewest\nfrom M = {last.sram:,} words on"
        late = share(axes, last.sram) > 0.7
        at = (last.sram, float(fewest[-1]))
        above = (last.sram, 0.8), blended_transform_factory(axes.transData, axes.transAxes)  # all curves have fallen there
        beyond, coordinates = above if late else ((26, 34), "offset points")
        name = axes.annotate(
            text, at, beyond, textcoords=coordinates, fontsize=8.5, color=INK,
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
    label(axes, [*named(found, ends), (1.0, STRONG, INK)], apart=0.08)
    ticked(axes.yaxis, RATIOS, [f"{ratio:,}" for ratio in RATIOS])
    axes.set_ylabel("times the largest bound", color=INK)


def shade(axes: Axes, found: RegimeMap, *, names: bool) -> None:
    """The regimes as regions, and their names where there is room."""
    low, high = axes.get_xlim()
    for one in regimes(found.problem, backward=found.backward):
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
    ticked(axes.xaxis, shown, [f"{m:,}\n{Capacity(m * size, 'bytes')}" for m in shown])
    axes.set_xlabel(f"SRAM capacity M (words; below: bytes of {found.problem.dtype})", color=INK)
