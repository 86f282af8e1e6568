"""Grouped heads: what the query heads that share one K and V owe it in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence

from iosim.machine import Hbm, Machine


def sum_over_heads(m: Machine, shares: Sequence[Hbm], total: Hbm, *, Bc: int) -> None:
    """dK, or dV, of a KV head: the sum of what each of its g query heads stored (grouped-query attention, Ainslie et al. 2023).

    FlashAttention-2's code likewise stores a gradient for every query head and reduces them afterwards.
    Words: (g + 1) N_k d, beside the g N_k d that the heads stored.
    """
    N_k, d = total.shape
    for j in m.tiles(N_k, Bc):
        dk = m.load(shares[0][j])
        for share in shares[1:]:
            for x in m.tiles(d, d):  # one tile, at whose end the share is released
                dk += m.load(share[j, x])
        m.store(total[j], dk)
