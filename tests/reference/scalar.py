"""The definition of attention, spelled out: one loop over queries, one over keys, one over dimensions.

No NumPy and no vectors, so that nothing is left to trust; for small shapes only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

Rows = Sequence[Sequence[float]]
Keep = Sequence[Sequence[bool]]


def attention(
    q: Rows,
    k: Rows,
    v: Rows,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Keep | None = None,
    block_mask: tuple[Keep, int, int] | None = None,
) -> tuple[list[list[float]], list[float]]:
    """Output ``(N, dv)`` and log-sum-exp ``(N,)`` of one head, as lists; the rules are those of the fast oracle.

    >>> attention([[0.0]], [[1.0], [2.0]], [[10.0], [20.0]])
    ([[15.0]], [0.6931471805599453])
    """
    n, nk, d, dv = len(q), len(k), len(q[0]), len(v[0])
    tau = 1 / math.sqrt(d) if scale is None else scale
    output, lse = [], []
    for i in range(n):
        scores = {}
        for j in range(nk):
            if may_attend(i, j, n, nk, causal=causal, window=window, mask=mask, block_mask=block_mask):
                scores[j] = tau * sum(q[i][x] * k[j][x] for x in range(d))
        weights, log_sum = _weights(scores)
        output.append([math.fsum(weights[j] * v[j][x] for j in weights) for x in range(dv)])
        lse.append(log_sum)
    return output, lse


def may_attend(
    i: int,
    j: int,
    n: int,
    nk: int,
    *,
    causal: bool = False,
    window: tuple[int, int] | None = None,
    mask: Keep | None = None,
    block_mask: tuple[Keep, int, int] | None = None,
) -> bool:
    """Whether query ``i`` of ``n`` may attend to key ``j`` of ``nk``: the last query stands at the last key.

    >>> may_attend(0, 3, 2, 5, causal=True), may_attend(0, 4, 2, 5, causal=True)
    (True, False)
    """
    here = i + nk - n
    left, right = (-1, -1) if window is None else window
    if causal and j > here:
        return False
    if left != -1 and j < here - left:
        return False
    if right != -1 and j > here + right:
        return False
    if mask is not None and not mask[i][j]:
        return False
    if block_mask is not None:
        keep, br, bc = block_mask
        return bool(keep[i // br][j // bc])
    return True


def _weights(scores: dict[int, float]) -> tuple[dict[int, float], float]:
    """Softmax over the keys of ``scores``, and the log of its denominator; (nothing, -inf) where there are none."""
    if not scores:
        return {}, -math.inf
    top = max(scores.values())
    total = math.fsum(math.exp(s - top) for s in scores.values())
    return {j: math.exp(s - top) / total for j, s in scores.items()}, top + math.log(total)
