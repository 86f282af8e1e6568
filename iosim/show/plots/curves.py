"""HBM accesses over N or over M, on logarithmic axes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from iosim.attention.sweep import Record, least, least_of
from iosim.core.errors import BadInput
from iosim.core.units import Capacity
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style, ticked

MOST_TICKS = 7
APART = 0.055  # of the height of a panel: what two labels need


class Point(NamedTuple):
    """One count: where on the axis, how many words, and whether overflow was recorded."""

    at: int
    words: int
    over: bool


def curves(*sweeps: Sequence[Record], subtitles: Sequence[str] = ()) -> Figure:
    """One panel for each of ``sweeps``, as :func:`iosim.sweep` returns them: over M where that varies, else over N.

    Dashed and hollow where overflow was recorded, interrupted where a kernel does not fit. The grey region lies below the lower bound for
    algorithms that compute every pair in an SRAM of M. ``subtitles`` say what each panel holds fixed. Raises
    :class:`iosim.core.errors.BadInput` where there is nothing to draw.

    >>> from iosim import Attention, sweep
    >>> figure = curves(sweep(Attention(n=256, d=64), n=[256, 512, 1024]), sweep(Attention(n=1024, d=64), sram=[8192, 16384]))
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['sequence length N', 'SRAM capacity M (words)']
    """
    if not sweeps or any(all(record["total"] is None for record in sweep) for sweep in sweeps):
        raise BadInput("there is nothing to draw: no kernel fits at any point")
    figure = Figure(figsize=(1.0 + 5.6 * len(sweeps), 4.9), layout="constrained")
    for index, (axes, sweep) in enumerate(zip(figure.subplots(1, len(sweeps), squeeze=False)[0], sweeps, strict=True)):
        panel(axes, sweep, subtitles[index] if subtitles else fixed(sweep))
    figure.axes[0].set_ylabel("words moved between HBM and SRAM", color=INK)
    return figure


def panel(axes: Axes, sweep: Sequence[Record], subtitle: str) -> None:
    """Draw one sweep."""
    axis = axis_of(sweep)
    axes.set_xscale("log")
    axes.set_yscale("log")
    ends = {kernel: curve(axes, points(sweep, axis, kernel), kernel) for kernel in dict.fromkeys(str(record["kernel"]) for record in sweep)}
    bounds = envelope(axes, sweep, axis)
    bare(axes)
    axes.grid(axis="y", which="major", color=GRID, linewidth=0.6)
    ticks(axes, sweep, axis)
    labels = [(words, kernel, style(kernel).colour) for kernel, words in ends.items() if words]
    label(axes, [*labels, (bounds[-1][1], least_of([*ends]), QUIET)] if bounds else labels)
    letter = "N" if axis == "n" else "M"
    axes.set_title(f"HBM accesses over {letter}", loc="left", fontsize=11, fontweight="bold", color=INK, pad=22)
    dashed = "; dashed: overflow recorded" if any(record["overflow"] for record in sweep) else ""
    axes.text(0, 1.025, subtitle + dashed, transform=axes.transAxes, fontsize=9, color=QUIET)


def axis_of(sweep: Sequence[Record]) -> Literal["n", "sram"]:
    """What varies: M, or else N."""
    return "sram" if len({record["sram"] for record in sweep}) > 1 else "n"


def points(sweep: Sequence[Record], axis: str, kernel: str) -> list[Point | None]:
    """The curve of one kernel; None where it does not fit."""
    return [
        None if record["total"] is None else Point(whole(record[axis]), whole(record["total"]), bool(record["overflow"]))
        for record in sweep
        if record["kernel"] == kernel
    ]


def curve(axes: Axes, found: Sequence[Point | None], kernel: str) -> int | None:
    """Draw one kernel and return where its label goes: its last number of words."""
    colour, marker = style(kernel)
    for one, other in pairwise(found):
        if one is not None and other is not None:
            dashes = (0, (3, 2)) if one.over or other.over else "solid"
            axes.plot([one.at, other.at], [one.words, other.words], color=colour, linewidth=1.6, linestyle=dashes)
    known = [point for point in found if point is not None]
    for over, face in ((False, colour), (True, "white")):
        some = [point for point in known if point.over == over]
        axes.plot([p.at for p in some], [p.words for p in some], marker, color=colour, markerfacecolor=face, markersize=5.5)
    return known[-1].words if known else None


def envelope(axes: Axes, sweep: Sequence[Record], axis: str) -> list[tuple[int, int]]:
    """Shade what lies below the lower bound, and return it point by point."""
    places = sorted({whole(record[axis]) for record in sweep})
    found = {at: least([record for record in sweep if record[axis] == at]) for at in places}
    bounds = {at: bound for at, bound in found.items() if bound is not None}
    low = axes.get_ylim()[0]
    floor = min([low, *(bound / 1.6 for bound in bounds.values())])
    axes.plot(list(bounds), list(bounds.values()), color=QUIET, linewidth=1.0)
    axes.fill_between(list(bounds), list(bounds.values()), floor, color="#eeeeee", linewidth=0)
    axes.set_ylim(bottom=floor)
    return list(bounds.items())


def ticks(axes: Axes, sweep: Sequence[Record], axis: str) -> None:
    """Name the axis and the points on it, every second or third where they stand close."""
    places = sorted({whole(record[axis]) for record in sweep})
    shown = places[:: -(-len(places) // MOST_TICKS)]
    in_bytes = axis == "sram" and sweep[0]["sram_unit"] == "bytes"
    ticked(axes.xaxis, shown, [str(Capacity(place, "bytes")) if in_bytes else f"{place:,}" for place in shown])
    axes.set_xlabel("sequence length N" if axis == "n" else f"SRAM capacity M ({'bytes' if in_bytes else 'words'})", color=INK)


def label(axes: Axes, labels: Iterable[tuple[float, str, str]], apart: float = APART) -> None:
    """Write (words, text, colour) at the right side, each beside its curve but ``apart`` from the others, as :func:`spread` does."""
    low, high = (math.log(limit) for limit in axes.get_ylim())
    ordered = sorted(labels)
    heights = spread([(math.log(words) - low) / (high - low) for words, _, _ in ordered], apart)
    for height, (_, text, colour) in zip(heights, ordered, strict=True):
        axes.text(1.02, height, text, transform=axes.transAxes, color=colour, fontsize=9, fontweight="bold", va="center")


def spread(heights: Sequence[float], apart: float = APART) -> list[float]:
    """Rising heights, moved until neighbours are ``apart``; heights that are close move together around their middle.

    >>> [round(height, 4) for height in spread([0.1, 0.5, 0.5])]
    [0.1, 0.4725, 0.5275]
    """
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _first(groups[-1], apart) - _first(groups[-2], apart) < apart * len(groups[-2]):
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_first(group, apart) + apart * place for group in groups for place in range(len(group))]


def _first(group: Sequence[float], apart: float) -> float:
    """The first height of a group, whose middle is the mean of the heights that it wants."""
    return sum(group) / len(group) - apart * (len(group) - 1) / 2


def fixed(sweep: Sequence[Record]) -> str:
    """What a sweep holds fixed, as far as its records say."""
    first = sweep[0]
    sizes = f"d = {first['d']}, {first['dtype']}"
    if axis_of(sweep) == "sram":
        return f"N = {first['n']}, {sizes}"
    return f"{sizes}, SRAM {Capacity(whole(first['sram']), 'bytes' if first['sram_unit'] == 'bytes' else 'words')}"


def whole(value: object) -> int:
    """A number of a record, which is exact."""
    assert isinstance(value, int)
    return value
