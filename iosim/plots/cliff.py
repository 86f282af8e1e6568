"""What caches read from HBM over their size, beside the scratchpad."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from iosim.cache import CacheReplay
from iosim.errors import BadInput
from iosim.plots.figures import GRID, INK, QUIET, Style, bare
from iosim.tables import words

STYLES = {"listing": Style("#D55E00", "s"), "first-use": Style("#0072B2", "o")}
NAMES = {"listing": "fetched where the listing loads", "first-use": "fetched at first use"}
ABOVE = 1.25  # of the highest point: where the axis ends, with room for the names


def cliff(replays: Sequence[CacheReplay], sizes: Sequence[int], subtitle: str = "") -> Figure:
    """Words read from HBM over the size of the cache: lines where it is fully associative, marks where its sets have few places.

    One colour for each order of ``replays``, which are of one plan; ``sizes`` are those of the marks, and the axis spans them.
    Raises :class:`iosim.errors.BadInput` without replays or with fewer than two sizes.

    >>> from iosim import Attention
    >>> from iosim.cache import replay_cache
    >>> cliff([replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8))], [200, 300, 400]).axes[0].get_xlabel()
    'size of the cache (words)'
    """
    if not replays or len(set(sizes)) < 2:
        raise BadInput("there is nothing to draw: give a replay and two sizes or more")
    figure = Figure(figsize=(8.6, 4.9), layout="constrained")
    axes = figure.subplots()
    low, high = min(sizes), max(sizes)
    bare(axes)
    for replay in replays:
        steps(axes, replay, low, high)
        marks(axes, replay, sizes)
    top = ABOVE * max(line.get_ydata().max() for line in axes.lines)  # type: ignore[union-attr]  # they are arrays
    axes.set(xlim=(low, high), ylim=(0, top))
    scratchpad(axes, replays[0], low, high)
    label(axes, replays)
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_xlabel("size of the cache (words)", color=INK)
    axes.set_ylabel("words read from HBM", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(7, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    axes.set_title("A cache in place of the scratchpad", loc="left", fontsize=11, fontweight="bold", color=INK, pad=22)
    axes.text(0, 1.025, subtitle, transform=axes.transAxes, fontsize=9, color=QUIET)
    return figure


def steps(axes: Axes, replay: CacheReplay, low: int, high: int) -> None:
    """The fully associative caches of every size."""
    places = [low, *(size for size in replay.profile.steps if low < size < high), high]
    reads = [replay.lru(size).reads for size in places]
    axes.plot(places, reads, color=STYLES[replay.order].colour, linewidth=2.0, drawstyle="steps-post", solid_joinstyle="miter")


def marks(axes: Axes, replay: CacheReplay, sizes: Sequence[int]) -> None:
    """The set-associative caches of some sizes."""
    colour, marker = STYLES[replay.order]
    reads = [replay.set_associative(size).reads for size in sizes]
    axes.plot(sizes, reads, marker, color=colour, markerfacecolor="white", markeredgewidth=1.4, markersize=5.5, clip_on=False, zorder=3)


def scratchpad(axes: Axes, replay: CacheReplay, low: int, high: int) -> None:
    """What the listing's loads read, and how much of it stands on chip at once."""
    reads, held = replay.scratchpad.reads, replay.held
    axes.plot([low, high], [reads, reads], color=INK, linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
    axes.text(high, reads * 0.97, f"the scratchpad reads {words(reads)}", fontsize=9, color=INK, ha="right", va="top")
    if low <= held <= high:
        axes.axvline(held, ymax=0.84, color=QUIET, linewidth=1.0, linestyle=(0, (1, 2)), zorder=1)
        text = f" the scratchpad holds {held:,} words\n of loaded regions at once"
        axes.text(held, axes.get_ylim()[1] * 0.03, text, fontsize=9, color=QUIET, va="bottom")


def label(axes: Axes, replays: Sequence[CacheReplay]) -> None:
    """Name the orders above the highest point, with the size from which each is harmless, and the two kinds of cache."""
    for place, replay in enumerate(replays):
        text = f"{NAMES[replay.order]}: as the scratchpad from {replay.enough:,} words on"
        colour = STYLES[replay.order].colour
        axes.text(
            0.99, 0.97 - 0.06 * place, text, transform=axes.transAxes, fontsize=9, color=colour, fontweight="bold", ha="right", va="top"
        )
    kinds = f"line: fully associative; hollow: {replays[0].ways} ways"
    axes.text(1, 1.025, kinds, transform=axes.transAxes, fontsize=9, color=QUIET, ha="right")
