"""FlashAttention-2, forward."""

from __future__ import annotations

import numpy as np

from iosim.attention.declaration import fills, kernel, query_tiles, reads
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.core.options import PACK, SKIP
from iosim.machine import Hbm, Machine, exp, finite, log, maximum, nonzero


@kernel(
    reads("Q", "K", "V"), fills("O", "LSE"), options=(SKIP, PACK), grid=query_tiles, backward="flash2-backward",
    source="Dao 2023, arXiv 2307.08691, Algorithm 1",
    paper=True, usual=True, rival=True, colour="#009E73", mark="^", letter="2", place=3,
)  # fmt: skip
def flash2(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """FlashAttention-2 forward (Dao 2023, arXiv 2307.08691, Algorithm 1): queries outside, keys inside.

    O stays on chip, unnormalised, until its row of tiles is done; of l and m only LSE = m + log l is saved.
    Differs from the print: the factor on the old O is exp(m_old - m_new), not its inverse; rows that attend to nothing are guarded.
    Words, dense: Q and O once, LSE once, K and V once for each of the Tr query tiles: N_q (d + d_v + 1) + Tr N_k (d + d_v).
    """
    (N_q, _), (N_k, d_v) = Q.shape, V.shape
    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        o = m.full(0.0, i.size, d_v, name="O_i")
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):
            k, v = m.load(K[j]), m.load(V[j])
            s = scores(m, q, k, i, j, scale, mask)
            m_new = m.let(finite(maximum(m_i, s.rowmax())), "m_new")  # once for all, since m never leaves the chip here
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            alpha = m.let(exp(m_i - m_new), "alpha")
            l_i *= alpha
            l_i += s.rowsum()
            o *= alpha
            o += dropped(m, s, i, j, mask) @ v
            m_i[...] = m_new
        m.store(O[i], o / nonzero(l_i))
        m.store(LSE[i], m_i + log(l_i))
