"""Leading constants: what is left of the words of FlashAttention when all but N^2 d^2 / M is divided away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.core.units import Capacity, whole
from iosim.predict.blocks.rules import Rule, choose_blocks
from iosim.predict.blocks.staircase import check_countable
from iosim.predict.bounds import bounds
from iosim.predict.dense import dense_words
from iosim.predict.words import terms


@dataclass(frozen=True, slots=True)
class Leading:
    """``ratio``, the words times M / (N^2 d^2), lies from ``low`` to ``high``; all go to ``limit`` as N, then M / d^2, then d grow."""

    name: str
    limit: int
    ratio: Fraction
    low: Fraction
    high: Fraction


def leading_constants(n: int, d: int, sram: int) -> tuple[Leading, ...]:
    """flash in the paper's blocks and in the best, flash2 in the best, and the bound of Saha and Ye, for one head of N = N_k, d = d_v.

    Lower-order terms, with x = M / d^2: Tc <= N / Bc + 1, so that rounding it up, and what moves once, add x (6 d + 6) / N to flash, and
    for Tr x (4 d + 1) / N to flash2. The best blocks have an inner side of 1, so that 2 d + 8, or 2 d, words of M are not theirs, a
    row of theirs takes 2 d + 1, or 2 d + 5, and rounding down loses less than one of those. The paper's ceil(M / 4d) is less than
    (M + 4 d) / 4d. The statistics l and m make 3 d + 4 of 3 d. The bound has M + 4 d^2 for M, and takes M away.
    Raises :class:`iosim.core.errors.BadInput` where M <= 4 d + 8, which leaves no room for these, and beyond what 64 bits count.

    >>> [(found.limit, round(float(found.ratio), 2)) for found in leading_constants(2**24, 128, 256 * 128**2)]
    [(12, 12.13), (6, 6.1), (4, 4.09), (1, 0.98)]
    """
    n, d, sram = whole("n", n), whole("d", d), whole("sram", sram)
    if sram <= 4 * d + 8:
        raise BadInput(f"leading constants are known above M = 4 d + 8 = {4 * d + 8} words, not for {sram}; ask for a larger SRAM")
    check_countable(int(dense_words("flash", n=n, d=d, Br=1, Bc=1)))
    return tuple(_constants(Attention(n, d), Fraction(sram), Fraction(sram, d * d)))


def _constants(p: Attention, m: Fraction, x: Fraction) -> Iterator[Leading]:
    d = Fraction(p.d)
    paper, flash, flash2 = 12 + 16 / d, (3 + 4 / d) * (2 + 1 / d), 4 + 10 / d
    once, once2 = x * (6 * d + 6) / p.n, x * (4 * d + 1) / p.n
    yield Leading("flash, paper blocks", 12, _ratio("flash", p, m, "paper"), paper * m / (m + 4 * d), paper + once)
    yield Leading("flash, best blocks", 6, _ratio("flash", p, m, "best"), flash * m / (m - 2 * d - 8), flash * m / (m - 4 * d - 8) + once)
    yield Leading("flash2, best blocks", 4, _ratio("flash2", p, m, "best"), flash2 * m / (m - 2 * d), flash2 * m / (m - 4 * d - 4) + once2)
    least = next(bound.words for bound in bounds(p, int(m)) if bound.name == "Saha-Ye")
    scale = m / (p.n * d) ** 2
    yield Leading("Saha and Ye's bound", 1, least * scale, x / (x + 4) - m * scale, x / (x + 4) - m * scale + scale)


def _ratio(kernel: str, p: Attention, m: Fraction, rule: Rule) -> Fraction:
    words = sum(int(term.total) for term in terms(kernel, p, choose_blocks(kernel, p, Capacity(int(m)), rule)))
    return words * m / (p.n * p.d) ** 2
