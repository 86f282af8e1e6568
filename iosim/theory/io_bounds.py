"""Lower bounds in M with their constants: what no schedule of exact attention can do without in an SRAM of M words."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Literal

from iosim.errors import BadInput
from iosim.specs import Attention
from iosim.theory.bounds import compulsory, pairs
from iosim.units import whole

SAHA_YE = "Saha and Ye 2024, arXiv 2402.07443, Lemma 3.3"
SMITH = "Smith et al. 2019, arXiv 1702.02017"
TOUCHED = "every input that is used is read, every output written"
IRONY = "Irony, Toledo and Tiskin 2004, after Hong and Kung 1981"


@dataclass(frozen=True, slots=True)
class Bound:
    """No schedule moves fewer than ``words``, which may be below 0 where the bound says nothing.

    ``formula`` in N_q, N_k, d, d_v, M and E, the pairs that attend (dense: N_q N_k); ``holds`` says for which M and which algorithms;
    ``constant`` whether its constant is the source's ("proved") or was worked out from the source here ("derived", see docs/bounds.md).
    """

    name: str
    words: int
    formula: str
    holds: str
    source: str
    constant: Literal["proved", "derived"]


def bounds(problem: Attention, sram: int) -> tuple[Bound, ...]:
    """Every bound on one KV head and its group, forward, for an SRAM of ``sram`` words; the first is the compulsory traffic.

    Raises :class:`BadInput` for an SRAM below one word, and where a block mask is combined with another rule: nobody has counted
    its pairs.

    >>> [bound.words for bound in bounds(Attention(n=4096, d=64), 16384)]
    [1048576, 2080768, -32768]
    """
    m, least, attending = whole("sram", sram), compulsory(problem), pairs(problem)
    if least is None or attending is None:
        raise BadInput("no bound is known for a block mask combined with another rule; give one of them alone")
    return (
        Bound("compulsory", least, "N_q (d + d_v) + N_k (d + d_v)", "any M, any algorithm", TOUCHED, "proved"),
        _saha_ye(attending * problem.group, problem.d, m),
        _small_cache(attending * problem.group, problem.d, m),
    )  # fmt: skip


def least_words(problem: Attention, sram: int) -> int | None:
    """The largest of :func:`bounds`; None where none is known. Raises :class:`BadInput` for an SRAM below one word.

    >>> least_words(Attention(n=4096, d=64), 256)
    117440000
    """
    if pairs(problem) is None:
        return None
    return max(bound.words for bound in bounds(problem, sram))


def product_bounds(rows: int, inner: int, cols: int, sram: int) -> tuple[Bound, ...]:
    """Bounds on one matrix product, ``(rows, inner) @ (inner, cols)``, by the standard algorithm in an SRAM of ``sram`` words.

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


def _saha_ye(attending: int, d: int, m: int) -> Bound:
    words = -(-attending * d * d // (m + 4 * d * d)) - m
    return Bound("Saha-Ye", words, "E d^2 / (M + 4 d^2) - M", "any M, standard products", SAHA_YE, "derived")


def _small_cache(attending: int, d: int, m: int) -> Bound:
    """Writing every score beside attention would compute Q K^T, at E words more."""
    words = _root_up(4 * attending**2 * d * d, m) - 2 * m - attending
    holds, source = "any M, standard products; above 0 only below M = 4 d^2", f"{SMITH}, by Saha and Ye, Theorem 3.7"
    return Bound("small cache", words, "2 E d / sqrt(M) - 2 M - E", holds, source, "derived")


def _root_up(numerator: int, denominator: int) -> int:
    """The square root of a fraction, rounded up, exactly."""
    whole_part = isqrt(numerator // denominator)
    return whole_part + (whole_part**2 * denominator < numerator)
