"""The three regimes of M, what grows how in each, and the bounds with constants that hold there."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from iosim.core.problem import Attention
from iosim.predict.bounds import BACKWARD_GROWTH, FORWARD_GROWTH, TOUCHED, Bound, backward_bounds, bounds
from iosim.predict.peaks import smallest_sram


@dataclass(frozen=True, slots=True)
class Regime:
    """A range of M: from ``start`` words on and below ``stop`` (None: without end); ``start == stop`` where it is empty.

    There the least traffic grows like ``theta``, which kernels like ``reached`` attain up to a constant.
    """

    name: str
    condition: str
    start: int
    stop: int | None
    theta: str
    reached: str
    source: str

    def holds(self, sram: int) -> bool:
        """Whether it is the regime of ``sram`` words."""
        return self.start <= sram and (self.stop is None or sram < self.stop)


def regimes(problem: Attention, *, backward: bool = False) -> tuple[Regime, Regime, Regime]:
    """The small cache (M < d²), the middle, and from M = Nd words on the cache in which everything fits, or nearly.

    d is the width of Q and K, N the shorter of the two sequences; where N <= d the middle is empty. The theorems are for N_k = N and
    d_v = d; elsewhere their constants may differ. Where d_v > d, or Nd words hold no blocks of flash2, the last one is
    called a large cache instead: not everything fits.

    >>> [(one.name, one.start, one.stop) for one in regimes(Attention(n=4096, d=64))]
    [('small cache', 1, 4096), ('middle', 4096, 262144), ('everything fits', 262144, None)]
    """
    square, all_fits = problem.d**2, min(problem.n, problem.nk) * problem.d
    small = min(square, all_fits)
    thetas = _thetas(problem, backward)
    source, end = (BACKWARD_GROWTH if backward else FORWARD_GROWTH).source, "-backward" if backward else ""
    rows = "Nd" if problem.n <= problem.nk else "Nk d"
    below = "d²" if small == square else rows
    return (
        Regime("small cache", f"M < {below}", 1, small, thetas[0], f"square-tiles{end}", source),
        Regime("middle", f"d² ≤ M < {rows}", small, all_fits, thetas[1], f"flash{end}", source),
        Regime(_largest(problem, all_fits), f"M ≥ {rows}", all_fits, None, thetas[2], f"flash2{end}", TOUCHED),
    )


def _largest(problem: Attention, edge: int) -> str:
    """What a cache of ``edge`` = Nd words and more is called."""
    holds = problem.dv <= problem.d and edge >= smallest_sram("flash2", problem)
    return "everything fits" if holds else "large cache"


def floors(problem: Attention, sram: int, *, backward: bool = False) -> tuple[Bound, ...]:
    """The bounds with their constants on one head, for an SRAM of ``sram`` words: see :mod:`iosim.predict.bounds`."""
    return backward_bounds(problem, sram) if backward else bounds(problem, sram)


def theta_words(problem: Attention, sram: int, *, backward: bool = False) -> float | None:
    """The expression in the Θ at ``sram`` words, without a constant; None where N_k is not N or d_v is not d.

    >>> theta_words(Attention(n=4096, d=64), 1024), theta_words(Attention(n=4096, d=64), 16384)
    (33554432.0, 4194304.0)
    """
    n, d = problem.n, problem.d
    if (problem.nk, problem.dv) != (n, d):
        return None
    more = backward * n * d
    least = min((n * n * d + more * d) / sqrt(sram), (n * n * d * d + more * d * d) / sram)
    return max(least, float(n * d))


def _thetas(problem: Attention, backward: bool) -> tuple[str, str, str]:
    both, rows = ("N²", "Nd") if problem.n == problem.nk else ("N Nk ", "(N + Nk) d")
    if backward:
        return f"Θ(({both}d + Nd²)/√M)", f"Θ(({both}d² + Nd³)/M)", f"Θ({rows})"
    return f"Θ({both}d/√M)", f"Θ({both}d²/M)", f"Θ({rows})"
