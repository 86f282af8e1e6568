"""How every figure looks, and how it is stored; nothing here opens a window or needs a display."""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from iosim.attention.catalogue import known

INK, QUIET, GRID = "#222222", "#666666", "#dddddd"


class Style(NamedTuple):
    """How a kernel is drawn: colours of Okabe and Ito, which the colour-blind tell apart, and a marker for print without colour."""

    colour: str
    marker: str


def style(name: str) -> Style:
    """How a kernel is drawn, the same in every figure: as it was declared.

    >>> style("flash2-backward") == style("flash2"), style("square-tiles-backward") == style("square-tiles"), style("fmha").marker
    (True, False, 'v')
    """
    found = known(name)
    return Style(found.colour, found.mark)


def bare(axes: Axes) -> None:
    """Leave out whatever carries no information: two of the four sides, and strong ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(QUIET)
    axes.tick_params(colors=INK, which="both", labelsize=9)
    axes.set_axisbelow(True)


def ticked(axis: Axis, places: Sequence[float], texts: Sequence[str]) -> None:
    """Ticks at some places only, each with its text."""
    axis.set_major_locator(FixedLocator(places))
    axis.set_major_formatter(FixedFormatter(texts))
    axis.set_minor_locator(NullLocator())


def pixels_per_point(axes: Axes) -> float:
    """How many pixels one point has, of which an inch has 72."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure.dpi / 72


def write(figure: Figure, file: BinaryIO, kind: str) -> None:
    """Store a figure as "png", "svg" or "pdf"; the same figure gives the same bytes."""
    undated = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with mpl.rc_context({"svg.hashsalt": "iosim"}):
        figure.savefig(file, format=kind, dpi=160, metadata=undated)
