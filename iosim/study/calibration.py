"""From predicted bytes and FLOPs to predicted times: one bandwidth and one rate, fitted on few published cells and judged on the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from iosim.core.errors import BadInput
from iosim.study.published import Cell, cells

Work = Callable[[Cell], float]

UNFUSED = ("PyTorch Attention", "Megatron")


@dataclass(frozen=True, slots=True)
class Residual:
    """A published time and the ``predicted`` one, in milliseconds."""

    cell: Cell
    predicted: float

    @property
    def ratio(self) -> float:
        """Predicted over published time."""
        return self.predicted / self.cell.value


@dataclass(frozen=True, slots=True)
class Residuals:
    """How predictions of many cells came out."""

    rows: tuple[Residual, ...]

    def __iter__(self) -> Iterator[Residual]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def worst(self) -> Residual:
        """The one whose ratio is furthest from 1."""
        return max(self.rows, key=lambda residual: abs(residual.ratio - 1))

    def within(self, tolerance: float) -> int:
        """How many ratios lie in [1 - ``tolerance``, 1 + ``tolerance``]."""
        return sum(abs(residual.ratio - 1) <= tolerance for residual in self.rows)


@dataclass(frozen=True, slots=True)
class Line:
    """A straight line: ``slope`` x + ``intercept``, and what each y lies above it."""

    slope: float
    intercept: float
    residuals: tuple[float, ...]

    def at(self, x: float) -> float:
        """The y of the line at ``x``."""
        return self.slope * x + self.intercept


def bandwidth_cells() -> list[Cell]:
    """The five cells that fix the bandwidth: PyTorch and Megatron in Table 18 (forward, no dropout, no mask), N >= 1024.

    >>> [(cell.method, cell.n) for cell in bandwidth_cells()][-1]
    ('Megatron', 2048)
    """
    return [cell for cell in cells(18) if cell.method in UNFUSED and 1024 <= cell.n <= 4096]


def rate_cells() -> list[Cell]:
    """The five cells that fix the rate: FlashAttention in Table 18 (forward, no dropout, no mask), N >= 4096.

    >>> [cell.n for cell in rate_cells()]
    [4096, 8192, 16384, 32768, 65536]
    """
    return [cell for cell in cells(18, method="FlashAttention") if cell.n >= 4096]


def fit_bandwidth(measured: Sequence[Cell], moved: Work) -> float:
    """Bytes a second: the geometric mean of what each cell's prediction ``moved`` (bytes of all heads) over its published time.

    For attention whose time is that of its HBM traffic. Raises :class:`BadInput` for no cells, cells that are no times, and
    predictions that are not finite and > 0.

    >>> round(fit_bandwidth(bandwidth_cells(), lambda cell: (4 * cell.n**2 + 4 * cell.n * 64) * 2 * 128) / 1e12, 4)
    0.9717
    """
    return _throughput(measured, moved)


def fit_rate(measured: Sequence[Cell], flops: Work) -> float:
    """FLOPs a second that a kernel sustains: the geometric mean of ``flops`` (of all heads) over published time.

    It holds for the grid of the measured cells only: FlashAttention's first release runs one thread block a head, and the 128 heads
    of Tables 9 to 21 fill 0.593 of two waves on 108 multiprocessors. Raises like :func:`fit_bandwidth`.

    >>> round(fit_rate(rate_cells(), lambda cell: 4 * cell.n**2 * 64 * 128) / 1e12, 1)
    65.5
    """
    return _throughput(measured, flops)


def residuals(measured: Sequence[Cell], predicted: Work) -> Residuals:
    """Published beside ``predicted`` times (milliseconds) of cells; raises like :func:`fit_bandwidth`.

    >>> found = residuals(rate_cells(), lambda cell: 4 * cell.n**2 * 64 * 128 / 65.5e9)
    >>> found.within(0.005), round(found.worst.ratio, 4)
    (5, 0.9968)
    """
    return Residuals(tuple(Residual(cell, _positive(cell, predicted)) for cell in _times(measured)))


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
        raise BadInput(f"a line needs two different x, of a size that can be squared; got x from {min(x):g} to {max(x):g}")
    slope = math.fsum((a - middle_x) * (b - middle_y) for a, b in zip(x, y, strict=True)) / spread
    intercept = middle_y - slope * middle_x
    return Line(slope, intercept, tuple(b - (slope * a + intercept) for a, b in zip(x, y, strict=True)))


def _throughput(measured: Sequence[Cell], work: Work) -> float:
    logs = [math.log(_positive(cell, work) / (cell.value / 1e3)) for cell in _times(measured)]
    return math.exp(math.fsum(logs) / len(logs))


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
