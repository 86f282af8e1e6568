"""Lower bounds in M with their constants: what no schedule of exact attention can do without in an SRAM of M words.

docs/bounds.md derives each of them step by step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Literal

from iosim.core.problem import Attention
from iosim.core.units import whole
from iosim.predict.compulsory import attending, compulsory, compulsory_backward

SAHA_YE = "Saha and Ye 2024, arXiv 2402.07443, Lemma 3.3"
SMITH = "Smith et al. 2019, arXiv 1702.02017"
TOUCHED = "every input that is used is read, every output written"
IRONY = "Irony, Toledo and Tiskin 2004, after Hong and Kung 1981"
PRODUCTS = "docs/bounds.md, with the means of Hong and Kung 1981, Loomis and Whitney 1949 and Smith et al. 2019"
SMALL_CACHE = f"{SMITH}, by Saha and Ye, Theorem 3.7"


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule moves fewer than ``words``, which may be below 0 where the bound says nothing.

    ``formula`` in N_q, N_k, d, d_v, M and E, the pairs that attend (dense: N_q N_k; of the queries, N_q and E all heads of a group
    count); ``holds`` says for which M and which algorithms; ``constant`` whether its constant is the source's ("proved") or was worked
    out from the source here ("derived", see docs/bounds.md).
    """

    name: str
    words: int
    formula: str
    holds: str
    source: str
    constant: Literal["proved", "derived"]


@dataclass(frozen=True, slots=True)
class Growth:
    """What is proved of the least traffic up to a constant that nobody has stated: no number of words follows from it."""

    name: str
    formula: str
    holds: str
    source: str
    remark: str
    words: None = None
    constant: None = None


FORWARD_GROWTH = Growth(
    "Saha-Ye", "Θ(min(N² d / √M, N² d² / M))", "standard products, N_k = N, d_v = d",
    "Saha and Ye 2024, arXiv 2402.07443, Theorem 3.1",
    "both are N² at M = d²; above it FlashAttention attains the second, below it square tiles the first",
)  # fmt: skip
BACKWARD_GROWTH = Growth(
    "Li et al.", "Θ(min((N² d + N d²) / √M, (N² d² + N d³) / M))", "standard products, N_k = N, d_v = d",
    "Li et al. 2024, arXiv 2410.09397, Theorem 1.1",
    "it is proved for the gradient of a d x d matrix of weights between Q and K, whence N d² and N d³, not for dQ, dK and dV",
)  # fmt: skip


def bounds(problem: Attention, sram: int) -> tuple[Bound, ...]:
    """Every bound on one KV head and its group, forward, for an SRAM of ``sram`` words; the first is the compulsory traffic.

    Raises :class:`iosim.core.errors.BadInput` for an SRAM below one word.

    >>> [bound.words for bound in bounds(Attention(n=4096, d=64), 16384)]
    [1048576, 2080768, 491520, 16743426]
    """
    m, who = whole("sram", sram), attending(problem)
    e = who.pairs * problem.group
    stored = problem.group * problem.n * problem.dv
    return (
        Bound("compulsory", compulsory(problem, who), "N_q (d + d_v) + N_k (d + d_v)", "any M, any algorithm", TOUCHED, "proved"),
        _saha_ye(e, problem.d, m),
        _small_cache(e, problem.d, m, who.keys * problem.dv + stored),
        _products("two products", e, problem.d, problem.dv, m, "s = d + d_v, r = min(2 d, s)"),
    )  # fmt: skip


def backward_bounds(problem: Attention, sram: int) -> tuple[Bound, ...]:
    """Every bound on the backward pass of one KV head and its group, dQ, dK and dV from Q, K, V, dO and what the forward pass left.

    They hold whether P is made again or was stored, and whether dK and dV of a group are summed on chip or through HBM. The first is the
    compulsory traffic. Raises :class:`iosim.core.errors.BadInput` for an SRAM below one word.

    >>> [bound.words for bound in backward_bounds(Attention(n=4096, d=64), 16384)]
    [1835008, 33519618]
    """
    m, who = whole("sram", sram), attending(problem)
    least = compulsory_backward(problem, who)
    return (
        Bound("compulsory", least, "N_q (2 d + d_v) + 2 N_k (d + d_v)", "any M, any algorithm", TOUCHED, "proved"),
        _products("three products", who.pairs * problem.group, problem.dv, 2 * problem.d, m, "s = 2 d + d_v, r = min(2 d_v, s)"),
    )


def least_words(problem: Attention, sram: int) -> int:
    """The largest of :func:`bounds`. Raises :class:`iosim.core.errors.BadInput` for an SRAM below one word.

    >>> least_words(Attention(n=4096, d=64), 256)
    251657728
    """
    return max(bound.words for bound in bounds(problem, sram))


def least_backward_words(problem: Attention, sram: int) -> int:
    """The largest of :func:`backward_bounds`. Raises :class:`iosim.core.errors.BadInput` for an SRAM below one word.

    >>> least_backward_words(Attention(n=4096, d=64), 10**6)
    1835008
    """
    return max(bound.words for bound in backward_bounds(problem, sram))


def product_bounds(rows: int, inner: int, cols: int, sram: int) -> tuple[Bound, ...]:
    """Bounds on one matrix product, ``(rows, inner) @ (inner, cols)``, by the standard algorithm in an SRAM of ``sram`` words.

    The leading term of the last is attained: a tile of the product as large as the SRAM allows, and a column and a row beside it, move
    little more than 2 m n k / sqrt(M) + m n (Smith et al.; Kwasniewski et al. 2019, arXiv 1908.09606, COSMA).

    >>> [bound.words for bound in product_bounds(64, 64, 64, 256)]
    [12288, 5537, 32256]
    """
    sizes = [whole(name, size) for name, size in (("rows", rows), ("inner", inner), ("cols", cols))]
    m, n = whole("sram", sram), sizes[0] * sizes[1] * sizes[2]
    touched = sizes[0] * sizes[1] + sizes[1] * sizes[2] + sizes[0] * sizes[2]
    return (
        Bound("compulsory", touched, "m k + k n + m n", "any M, any algorithm", TOUCHED, "proved"),
        Bound("Hong-Kung", _root_up(n * n, 8 * m) - m, "m n k / (2 sqrt(2 M)) - M", "any M, standard products", IRONY, "proved"),
        Bound("Smith", _root_up(4 * n * n, m) - 2 * m, "2 m n k / sqrt(M) - 2 M", "any M, standard products", SMITH, "proved"),
    )


def _saha_ye(e: int, d: int, m: int) -> Bound:
    words = -(-e * d * d // (m + 4 * d * d)) - m
    return Bound("Saha-Ye", words, "E d^2 / (M + 4 d^2) - M", "any M, standard products", SAHA_YE, "derived")


def _small_cache(e: int, d: int, m: int, others: int) -> Bound:
    """Storing every score beside attention computes Q K^T, at E words more and without the ``others``, V and O."""
    words = _root_up(4 * e**2 * d**2, m) - 2 * m - e + others
    holds = "any M, standard products; its terms in M are above 0 only below M = 4 d^2"
    return Bound("small cache", words, "2 E d / sqrt(M) - 2 M - E + N_k d_v + N_q d_v", holds, SMALL_CACHE, "derived")


def _products(name: str, e: int, first: int, others: int, m: int, where: str) -> Bound:
    """Several products over the same pairs, counted together: ``first`` is the width of the one that makes a pair, ``others`` of the rest.

    Between two cuts, T loads and arrivals apart, at most ((M + T) / 3)^(3/2) / sqrt(w) multiply-adds are made, where a pair that arrives
    counts as w <= 1. T is 2 M; w is 1, or about r^2 / M, with the largest r for which making a pair twice saves nothing.
    """
    s = first + others
    r = min(2 * first, s)
    if m < r**2:
        words, formula, holds = _root_up(4 * e**2 * s**2, m) - e - 2 * m, "2 s E / sqrt(M) - E - 2 M", "M < r^2"
    else:
        words = -(-r * (2 * s - r) * e * (2 * m - 1) ** 2 // (4 * m**3)) - 2 * m + 1
        formula, holds = "r (2 s - r) (1 - 1 / (2 M))^2 E / M - 2 M + 1", "M >= r^2"
    return Bound(name, words, f"{formula}, {where}", f"{holds}, standard products", PRODUCTS, "derived")


def _root_up(numerator: int, denominator: int) -> int:
    """The square root of a fraction, rounded up, exactly."""
    whole_part = isqrt(numerator // denominator)
    return whole_part + (whole_part**2 * denominator < numerator)
