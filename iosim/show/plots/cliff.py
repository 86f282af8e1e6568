"""What caches read from HBM over their size, beside the scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from iosim.core.errors import BadInput
from iosim.core.tables import words
from iosim.show.plots.figures import GRID, INK, QUIET, Style, bare

STYLES = {"listing": Style("#D55E00", "s"), "first-use": Style("#0072B2", "o")}
HELD = "held"  # the upright line
NAMES = {"listing": "fetched where the listing loads", "first-use": "fetched at first use"}
ABOVE = 1.06  # of the highest point: where the axis ends
LINE = 13.0  # points from one line of text above the panel to the next


class Moved(Protocol):
    """What a memory on chip moves."""

    @property
    def reads(self) -> int:
        """Words read from HBM."""


class Replay(Protocol):
    """What is drawn of an :class:`iosim.study.cache.CacheReplay`: one order of fetching under caches."""

    @property
    def order(self) -> str:
        """When a region is fetched: a key of ``STYLES``."""

    @property
    def ways(self) -> int:
        """Places a set of the set-associative caches."""

    @property
    def scratchpad(self) -> Moved:
        """What the listing's own loads and stores move."""

    @property
    def held(self) -> int:
        """The most words of loaded regions that stand in the scratchpad at once."""

    @property
    def enough(self) -> int:
        """The words from which on a fully associative cache moves no more than the scratchpad."""

    @property
    def steps(self) -> Sequence[int]:
        """The sizes at which a fully associative cache moves less."""

    def lru(self, size: int) -> Moved:
        """What a fully associative cache of ``size`` words moves."""

    def set_associative(self, size: int) -> Moved:
        """What a cache of ``size`` words moves whose sets have ``ways`` places."""


def cliff(replays: Sequence[Replay], sizes: Sequence[int], subtitle: str = "") -> Figure:
    """Words read from HBM over the size of the cache: lines where it is fully associative, marks where its sets have few places.

    One colour for each order of ``replays``, which are of one plan; ``sizes`` are those of the marks, and the axis spans them.
    Raises :class:`iosim.core.errors.BadInput` without replays or with fewer than two sizes.

    >>> from iosim import Attention
    >>> from iosim.study.cache import replay_cache
    >>> cliff([replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8))], [200, 300, 400]).axes[0].get_xlabel()
    'size of the cache (words)'
    """
    if not replays or len(set(sizes)) < 2:
        raise BadInput("there is nothing to draw: give a replay and two sizes or more")
    figure = Figure(figsize=(8.6, 5.2), layout="constrained")
    axes = figure.subplots()
    low, high = min(sizes), max(sizes)
    bare(axes)
    for replay in replays:
        steps(axes, replay, low, high)
        marks(axes, replay, sizes)
    scratchpad(axes, replays[0], low, high)
    top = ABOVE * max(np.max(line.get_ydata()) for line in axes.lines if line.get_gid() != HELD)
    axes.set(xlim=(low, high), ylim=(0, top))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_xlabel("size of the cache (words)", color=INK)
    axes.set_ylabel("words read from HBM", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    above(axes, replays, subtitle)
    return figure


def steps(axes: Axes, replay: Replay, low: int, high: int) -> None:
    """The fully associative caches of every size."""
    places = [low, *(size for size in replay.steps if low < size < high), high]
    reads = [replay.lru(size).reads for size in places]
    axes.plot(places, reads, color=STYLES[replay.order].colour, linewidth=2.0, drawstyle="steps-post", solid_joinstyle="miter")


def marks(axes: Axes, replay: Replay, sizes: Sequence[int]) -> None:
    """The set-associative caches of some sizes."""
    colour, marker = STYLES[replay.order]
    reads = [replay.set_associative(size).reads for size in sizes]
    axes.plot(sizes, reads, marker, color=colour, markerfacecolor="white", markeredgewidth=1.4, markersize=5.5, clip_on=False, zorder=3)


def scratchpad(axes: Axes, replay: Replay, low: int, high: int) -> None:
    """A level line at the words that the listing loads, and an upright one at the most words that it holds at once."""
    reads, held = replay.scratchpad.reads, replay.held
    axes.plot([low, high], [reads, reads], color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    text, inside = f"the scratchpad\nreads {words(reads)}", low <= held <= high
    axes.annotate(
        text if inside else f"{text},\nholds {held:,}", (1, reads), (6, 0), xycoords=axes.get_yaxis_transform(),
        textcoords="offset points", fontsize=9, color=INK, va="center",
    )  # fmt: skip
    if inside:
        axes.axvline(held, color=QUIET, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1, gid=HELD)
        side: Literal["left", "right"] = "left" if held <= (low + high) / 2 else "right"
        name = f"the scratchpad holds {held:,} words of loaded regions at once"
        axes.annotate(
            name, (held, 1), (0, 4), xycoords=axes.get_xaxis_transform(), textcoords="offset points", fontsize=9, color=QUIET, ha=side
        )


def above(axes: Axes, replays: Sequence[Replay], subtitle: str) -> None:
    """The title, and below it the kinds of cache and the orders, each with the size from which it moves no more than the scratchpad."""
    orders = [
        (f"{NAMES[replay.order]}: as the scratchpad from {replay.enough:,} words on", STYLES[replay.order].colour) for replay in replays
    ]
    kinds = f"line: fully associative; hollow: {replays[0].ways} ways"
    for place, (text, colour) in enumerate(reversed([(subtitle, QUIET), (kinds, QUIET), *orders]), start=1):
        weight = "normal" if colour == QUIET else "bold"
        axes.annotate(
            text, (0, 1), (0, 8 + LINE * place), xycoords="axes fraction", textcoords="offset points", fontsize=9, color=colour,
            fontweight=weight,
        )  # fmt: skip
    pad = 16 + LINE * (len(orders) + 3)
    axes.set_title("A cache in place of the scratchpad", loc="left", fontsize=11, fontweight="bold", color=INK, pad=pad)
