"""Grouped heads: what the query heads that share one K and V owe it in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

from iosim.memory import Hbm, Machine


def sum_over_heads(m: Machine, shares: Sequence[Hbm], total: Hbm, *, Bc: int) -> None:
    """dK, or dV, of a KV head: the sum of what each of its query heads stored (grouped-query attention, Ainslie et al. 2023).

    FlashAttention-2's code likewise stores a gradient a query head and reduces them afterwards.
    Words: (g + 1) N_k d, beside the g N_k d that the heads stored.
    """
    for j in m.tiles(total.shape[0], Bc):
        dk = m.load(shares[0][j])
        for share in shares[1:]:
            dk += m.load(share[j])
        m.store(total[j], dk)
