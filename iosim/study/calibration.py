"""What turns counted bytes and FLOPs into times: a throughput that is fitted on published cells, and a line through points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import geometric_mean

from iosim.core.errors import BadInput
from iosim.study.published import Cell

Work = Callable[[Cell], float]

UNFUSED = ("PyTorch Attention", "Megatron")


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line: ``slope`` x + ``intercept``, and what each y lies above it."""

    slope: float
    intercept: float
    residuals: tuple[float, ...]

    def at(self, x: float) -> float:
        """The y of the line at ``x``."""
        return self.slope * x + self.intercept


def throughput(measured: Sequence[Cell], work: Work) -> float:
    """Bytes or FLOPs a second: the geometric mean of the ``work`` of each cell (of all heads) over its published time.

    Bytes give the bandwidth of attention whose time is that of its HBM traffic. FLOPs give the rate of a kernel on the grid of the
    measured cells: FlashAttention's first release runs one thread block a head, and the 128 heads of Tables 9 to 21 fill 0.593 of two
    waves on 108 multiprocessors. Raises :class:`BadInput` for no cells, cells that are no times, and work that is not finite and > 0.

    >>> from iosim.study.published import cells
    >>> flash = [cell for cell in cells(18, method="FlashAttention") if cell.n >= 4096]
    >>> round(throughput(flash, lambda cell: 4 * cell.n**2 * 64 * 128) / 1e12, 1)
    65.5
    """
    return geometric_mean([_positive(cell, work) / (cell.value / 1e3) for cell in _times(measured)])


def line_fit(x: Sequence[float], y: Sequence[float]) -> Line:
    """The least-squares line through points; raises :class:`BadInput` for fewer than two different x or numbers that are not finite.

    >>> line_fit([1, 2, 3], [3, 5, 7])
    Line(slope=2.0, intercept=1.0, residuals=(0.0, 0.0, 0.0))
    """
    if not x or len(x) != len(y) or not all(map(math.isfinite, [*x, *y])):
        raise BadInput(f"a line needs one y for each x, and finite numbers; got {len(x)} x and {len(y)} y")
    middle_x, middle_y = math.fsum(x) / len(x), math.fsum(y) / len(y)
    spread = math.fsum((a - middle_x) * (a - middle_x) for a in x)
    if not 0 < spread < math.inf:
        raise BadInput(f"a line needs two different x whose squares fit in a float; got x from {min(x):g} to {max(x):g}")
    slope = math.fsum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread
    intercept = middle_y - slope * middle_x
    return Line(slope, intercept, tuple(b - (slope * a + intercept) for a, b in zip(x, y, strict=True)))


def _times(measured: Sequence[Cell]) -> Sequence[Cell]:
    """The cells, of which there is one at least and each is a time."""
    if not measured:
        raise BadInput("there are no cells to compare with; give at least one")
    for cell in measured:
        if cell.unit != "ms" or not (math.isfinite(cell.value) and cell.value > 0):
            raise BadInput(f"{_place(cell)} is {cell.value:g} {cell.unit}, not a time > 0 in ms; give cells of Tables 7 and 9 to 20")
    return measured


def _positive(cell: Cell, work: Work) -> float:
    found = work(cell)
    if not (math.isfinite(found) and found > 0):
        raise BadInput(f"the prediction for {_place(cell)} is {found:g}; it must be finite and > 0")
    return found


def _place(cell: Cell) -> str:
    return f"Table {cell.table}, {cell.method}, N = {cell.n}"
