"""Figure 2: the three panels together."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.study.paper import figure2_left, figure2_middle, figure2_right
from iosim.study.paper.compared import Finding
from iosim.study.paper.data import Data
from iosim.study.paper.times import Times, fit


@dataclass(frozen=True, slots=True)
class Figure2:
    """The figure: its published numbers, how times follow from counts, and each panel."""

    data: Data
    times: Times
    left: list[figure2_left.Column]
    middle: list[figure2_middle.Point]
    right: figure2_right.Panel

    @property
    def findings(self) -> list[Finding]:
        """Every number beside ours."""
        left, middle = figure2_left.findings(self.left, self.times), figure2_middle.findings(self.middle)
        return [*left, *middle, *figure2_right.findings(self.right)]


def figure2(data: Data, times: Times | None = None) -> Figure2:
    """Count all panels; ``times`` are those fitted on the tables of the data where they are not given.

    >>> from iosim.study.paper.data import load
    >>> found = figure2(load())
    >>> [round(point.traffic.ours or 0, 4) for point in found.middle]
    [6.5767, 3.3554, 1.7448, 0.9395]
    """
    times = times or fit(data)
    return Figure2(data, times, figure2_left.columns(data), figure2_middle.points(data, times), figure2_right.panel(data, times))
