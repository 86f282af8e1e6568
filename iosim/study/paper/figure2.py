"""Figure 2: the three panels together."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.study.paper import figure2_left, figure2_middle, figure2_right
from iosim.study.paper.compared import NO_FIT, Finding, Pair
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

    def problems(self) -> tuple[tuple[int | None, int], ...]:
        """N and d of the left, the middle and the right panel."""
        return tuple((one.n, one.d) for one in (self.data.left.setup, self.data.middle.setup, self.data.right.setup))

    def table(self) -> list[tuple[str, str, float, float | None, bool]]:
        """Left, first version: method, unit, the published number, ours, and whether the published one fits the caption."""
        first = [column for column in self.left if column.row.version == self.left[0].row.version]
        found = [row for one in figure2_left.findings(first, self.times) if len(one.rows) == 1 for row in one.rows]
        return [(str(row.labels["method"]), row.unit, row.published, row.ours, row.word != NO_FIT) for row in found]

    def over_blocks(self) -> list[tuple[int, Pair, Pair, bool]]:
        """Middle: Bc, GB and ms (published, ours), and whether the bytes take longer than the products."""
        setup = self.data.middle.setup
        return [
            (one.published.block_cols, one.traffic.pair, one.time.pair, self.times.memory(one.work) >= self.times.compute(one.work, setup))
            for one in self.middle
        ]

    def over_density(self) -> list[tuple[Pair, float, Pair, bool]]:
        """Right: percent of non-zero blocks (published, drawn), GB of ours, ms, and whether every block is kept."""
        return [
            ((one.published.percent, one.percent), one.gigabytes, one.time.pair, one not in self.right.sparse) for one in self.right.points
        ]

    def line(self) -> Pair:
        """Right: ms a percent, and ms at 0 percent, of the line through the published times."""
        return self.right.time.slope, self.right.time.intercept


def figure2(data: Data, times: Times | None = None) -> Figure2:
    """Count all panels; ``times`` are those fitted on the tables of the data where they are not given.

    >>> from iosim.study.paper.data import load
    >>> found = figure2(load())
    >>> [round(point.traffic.ours or 0, 4) for point in found.middle]
    [6.5767, 3.3554, 1.7448, 0.9395]
    """
    times = times or fit(data)
    return Figure2(data, times, figure2_left.columns(data), figure2_middle.points(data, times), figure2_right.panel(data, times))
