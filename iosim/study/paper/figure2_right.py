"""Figure 2, right: time over the density of a block mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from iosim.core.errors import BadInput
from iosim.study.calibration import Line, line_fit
from iosim.study.paper.compared import Check, Compared, Finding
from iosim.study.paper.counting import Work, asked_of, count
from iosim.study.paper.data import Data
from iosim.study.paper.times import FLASH, Times
from iosim.study.published import DensityPoint

SECTION = "Figure 2, right"
STRAIGHT = 0.999  # r^2 of what is called a straight line


@dataclass(frozen=True, slots=True)
class Point:
    """One density: the published time, and what was counted under a random block mask of that density."""

    published: DensityPoint
    work: Work
    time: Compared

    @property
    def percent(self) -> float:
        """The density of the mask that was drawn."""
        return 100 * (self.work.kept or 0.0)

    @property
    def gigabytes(self) -> float:
        """All bytes of Algorithms 5 and 4 as they are printed."""
        return self.work.bytes / 1e9


@dataclass(frozen=True, slots=True)
class Panel:
    """The points, and the lines through published times (ms) and counted bytes (GB) over the density in percent."""

    points: tuple[Point, ...]
    time: Line
    traffic: Line

    @property
    def sparse(self) -> tuple[Point, ...]:
        """The points but for dense FlashAttention."""
        return tuple(point for point in self.points if point.published.method != FLASH)

    @property
    def r2_of_time(self) -> float:
        """How straight the published times are."""
        return r2(self.time, [point.published.milliseconds for point in self.sparse])

    @property
    def r2_of_traffic(self) -> float:
        """And the counted bytes."""
        return r2(self.traffic, [point.gigabytes for point in self.points])


def panel(data: Data, times: Times) -> Panel:
    """Count every density; raises :class:`BadInput` for fewer than two, which have no line."""
    points = tuple(_point(data, row, times) for row in data.right)
    sparse = [point for point in points if point.published.method != FLASH]
    if len({point.published.percent for point in sparse}) < 2 or len({point.percent for point in points}) < 2:
        raise BadInput(f"a line over the density needs two block masks of different density, and the data has {len(sparse)}")
    time = line_fit([point.published.percent for point in sparse], [point.published.milliseconds for point in sparse])
    return Panel(points, time, line_fit([point.percent for point in points], [point.gigabytes for point in points]))


def findings(found: Panel) -> list[Finding]:
    """The times, and how straight both lines are."""
    why = "the counted FLOPs at the rate of a full grid: dropout, launching and empty blocks are not in the model"
    checks = (
        Check(f"published times lie on {spelled(found.time, 'ms')}, r^2 = {found.r2_of_time:.4f}", found.r2_of_time > STRAIGHT),
        Check(f"counted bytes lie on {spelled(found.traffic, 'GB')}, r^2 = {found.r2_of_traffic:.4f}", found.r2_of_traffic > STRAIGHT),
    )
    return [Finding("fig2", SECTION, "ms", tuple(point.time for point in found.points), why, checks)]


def r2(line: Line, y: Sequence[float]) -> float:
    """The part of the variance of ``y`` that its ``line`` explains; 1 is straight.

    >>> r2(line_fit([1, 2, 3], [3, 5, 7]), [3, 5, 7])
    1.0
    """
    middle = math.fsum(y) / len(y)
    return 1 - math.fsum(rest * rest for rest in line.residuals) / math.fsum((value - middle) ** 2 for value in y)


def spelled(line: Line, unit: str) -> str:
    """A line over the density in words."""
    return f"{line.slope:.3g} {unit} a percent {'-' if line.intercept < 0 else '+'} {abs(line.intercept):.3g} {unit}"


def _point(data: Data, row: DensityPoint, times: Times) -> Point:
    setup = data.right.setup
    work = count(asked_of(setup, "block-sparse", "fwd+bwd", dropout=True, density=row.percent / 100))
    labels = {"quantity": "time", "method": row.method, "percent": row.percent, "percent_drawn": 100 * (work.kept or 0.0)}
    ours = times.predicted(work, setup, FLASH)
    name = f"{SECTION}, {row.method} at {row.percent:g} %"
    return Point(row, work, Compared(name, row.milliseconds, "ms", ours, data.right.source, labels, work=work, made=times.made(fused=True)))
