"""Figures on request. matplotlib loads only where one is drawn, since that takes longer than most commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from iosim.attention.report import Report
from iosim.cli.files import whole_file
from iosim.cli.pages.curve_points import Curve

if TYPE_CHECKING:
    from iosim.show.plots import Figure
    from iosim.study.regimes import RegimeMap


def bars(reports: Sequence[Report]) -> Figure:
    """Words per array."""
    from iosim.show import plots

    return plots.bars(reports)


def curves(made: Sequence[Curve]) -> Figure:
    """Words over N and over M."""
    from iosim.show import plots

    return plots.curves(*(curve.records for curve in made), subtitles=[curve.fixed for curve in made])


def bounds(found: RegimeMap) -> Figure:
    """Counts and lower bounds over M."""
    from iosim.show import plots

    return plots.bounds(found)


def tile_map(reports: Sequence[Report]) -> Figure:
    """Words over Br and Bc."""
    from iosim.show import plots

    return plots.tile_map(reports)


def draw(path: str, figure: Callable[[], Figure]) -> None:
    """Draw a figure to a file of the format that its name says, and tell where."""
    drawn = figure()
    from iosim.show import plots

    with whole_file(path) as file:
        plots.write(drawn, file, path.rpartition(".")[2].lower())
    click.echo(f"iosim: wrote {path}", err=True)
