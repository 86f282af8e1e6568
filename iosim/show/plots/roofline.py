"""The roofline of a device, and where runs stand below it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from iosim.attention.report import Report
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.hardware import Device
from iosim.core.tables import spell, words
from iosim.predict.roofline import Time
from iosim.show.plots.figures import GRID, INK, QUIET, bare, style
from iosim.show.plots.labels import Label, place

ROOM = 4.0  # how many times the axes go beyond what is on them


def roofline(reports: Sequence[Report], device: Device) -> Figure:
    """Flops a second of the matrix products over flops per byte moved, on logarithmic axes, one mark for each report.

    The roof is the sustained bandwidth and rate, at the fractions of peak that :func:`iosim.predict.roofline.roofline` assumes. A
    mark lies below the roof where other operations take the time, or where there are too few thread blocks for all SMs. Raises
    :class:`iosim.core.errors.BadInput` without reports, for reports of several element types, and for one that the device has no rate for.

    >>> from iosim import Attention, simulate
    >>> from iosim.core.hardware import device
    >>> report = simulate("flash2", Attention(n=256, d=64, dtype="float16"))
    >>> roofline([report], device("a100-40gb")).axes[0].get_xlabel()
    'flops of matrix products per byte moved'
    """
    times = [(report, time) for report in reports if (time := report.time_on(device)) is not None]
    if not times or len(times) < len(reports) or len({report.problem.dtype for report in reports}) > 1:
        raise BadInput(f"the reports need one element type that {device.key} has a rate for, and float64 has none")
    figure = Figure(figsize=(8.6, 5.4), layout="constrained")
    axes = figure.subplots()
    bare(axes)
    axes.set(xscale="log", yscale="log")
    corner = roof(axes, times)
    for report, time in times:
        axes.plot(*spot(time), style(report.kernel).marker, color=style(report.kernel).colour, markersize=9, clip_on=False, zorder=4)
    dress(axes, times[0])
    figure.draw_without_rendering()
    marked = [Label(f"{report.kernel}, {spell(time.seconds * 1e3)} ms", [spot(time)]) for report, time in times]
    place(axes, marked, corner)
    return figure


def spot(time: Time) -> tuple[float, float]:
    """Flops per byte, and flops a second."""
    return time.matmul_flops / time.moved, time.matmul_flops / time.seconds


def roof(axes: Axes, times: Sequence[tuple[Report, Time]]) -> list[tuple[float, float]]:
    """Draw the roof, name its two limits, and return it as points."""
    time = times[0][1]
    balance, found = time.matmul_rate / time.bandwidth, [spot(each) for _, each in times]
    low, high = min(balance, *(x for x, _ in found)) / ROOM, max(balance, *(x for x, _ in found)) * ROOM
    line = [(float(x), float(min(time.matmul_rate, time.bandwidth * x))) for x in np.geomspace(low, high, 200)]
    axes.plot(*zip(*line, strict=True), color=INK, linewidth=1.4, zorder=2)
    axes.set(xlim=(low, high), ylim=(min(line[0][1], *(y for _, y in found)) / 2, time.matmul_rate * ROOM))
    axes.axvline(balance, color=QUIET, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
    middle = (low * balance) ** 0.5
    slope = f"{words(time.bandwidth)}B/s"
    axes.annotate(slope, (middle, time.bandwidth * middle), (-8, 8), textcoords="offset points", ha="right", color=INK, fontsize=9)
    axes.annotate(f"{words(time.matmul_rate)}flop/s", (high, time.matmul_rate), (0, 6), textcoords="offset points", ha="right", fontsize=9)
    axes.annotate(f"balance: {balance:.0f} flops a byte", (balance, axes.get_ylim()[0]), (4, 5), textcoords="offset points", fontsize=9)
    return line


def dress(axes: Axes, first: tuple[Report, Time]) -> None:
    """The title, the axes and their units."""
    report, time = first
    axes.set_title(f"{time.device.name}, {described(report.problem)}", loc="left", fontsize=11, fontweight="bold", color=INK)
    axes.set_xlabel("flops of matrix products per byte moved", color=INK)
    axes.set_ylabel("flops of matrix products a second", color=INK)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda at, _: words(at)))
    for line in (axes.xaxis, axes.yaxis):
        line.set_minor_formatter(NullFormatter())
    axes.grid(color=GRID, linewidth=0.6)
