"""Lower bounds that are proved with their constants, on the traffic of every pebbling, in words.

*Segments*, for C = A B. Cut a pebbling after every T loads. In one segment at most M + T elements of A, B and C are in fast memory at
some time: M at its start and T that are loaded. Of a elements of A, b of B and c of C at most sqrt(a b c) multiply-adds can be made
(Loomis & Whitney 1949). So there are at least n k m / F segments, F = max sqrt(a b c) over a + b + c <= M + T, and T loads in all
but one of them. Creating a sum counts as a load of zero in this; there are n m of these and as many stores of outputs, so that loads
and stores together are at least T (ceil(n k m / F) - 1), for every T. With T = 2 M this is at least 2 n k m / sqrt(M) - 2 M, the bound
of Smith et al. 2019 (arXiv 1702.02017). Recomputing does not help: each sum has one reader (see :mod:`iosim_reference.pebbling.game`).

*Scores*, for attention (Saha and Ye, arXiv 2402.07443, Theorem 3.7). Let a pebbling of attention store each score when it is first
there, n nk words, and leave out the loads of V and the stores of O, nk d + n d words at least: it computes Q K^T. So attention moves
at least segments(n, d, nk) - n nk + (n + nk) d words, recomputation or not.

*Saha-Ye*, for attention: M (n nk / (M^2 / d^2 + 4 M) - 1), from their Lemma 3.3 with its constants kept. A part of a 2M-partition
touches the scores of I queries and J keys that lie in its dominator, (I + J) d <= 2 M, so at most M^2 / d^2; and at most 2 M more
through partial sums in its dominator, and 2 M through sums that it leaves behind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

Bounds = Mapping[str, int]


def product_bounds(n: int, k: int, m: int, memory: int) -> Bounds:
    """Bounds on C = A B for A ``(n, k)``, B ``(k, m)``.

    >>> product_bounds(3, 3, 3, 3)
    {'compulsory': 27, 'segments': 39}
    """
    return {"compulsory": n * k + k * m + n * m, "segments": _segments(n, k, m, memory)}


def attention_bounds(n: int, d: int, nk: int, memory: int) -> Bounds:
    """Bounds on softmax(Q K^T) V for Q ``(n, d)``, K and V ``(nk, d)``.

    >>> attention_bounds(2, 2, 4, 3)
    {'compulsory': 24, 'scores': 25, 'Saha-Ye': 0}
    """
    io = (n + nk) * d
    parts = -(-n * nk * d * d // (memory**2 + 4 * memory * d * d))
    return {"compulsory": 2 * io, "scores": _segments(n, d, nk, memory) - n * nk + io, "Saha-Ye": memory * (parts - 1)}


def in_force(bounds: Bounds) -> tuple[str, int]:
    """The largest bound and its name; the first where several are equal.

    >>> in_force(product_bounds(3, 3, 3, 4))
    ('segments', 28)
    """
    return max(bounds.items(), key=lambda bound: bound[1])


def _segments(n: int, k: int, m: int, memory: int) -> int:
    sizes, work = (n * k, k * m, n * m), n * k * m
    # From all operands and sums together on, one segment can do all the work and the bound is 0.
    lengths = range(1, sum(sizes) - memory)
    return max((loads * (-(-work // _most(sizes, memory + loads)) - 1) for loads in lengths), default=0)


def _most(sizes: tuple[int, int, int], words: int) -> int:
    """The most multiply-adds that ``words`` elements of A, B and C allow: floor(sqrt(a b c)), a + b + c <= words."""
    most = (math.isqrt(a * _most_pairs(sizes[1], sizes[2], words - a)) for a in range(1, min(sizes[0], words - 2) + 1))
    return max(most, default=1)


def _most_pairs(first: int, second: int, words: int) -> int:
    b = min(first, max(words // 2, words - second))
    return b * min(second, words - b)
