"""FlashAttention, forward, in the loop order of the first paper."""

from __future__ import annotations

import numpy as np

from iosim.attention.declaration import fills, heads, keeps, kernel, only, reads, widened
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.attention.settling import accumulator_made_on_chip
from iosim.core.options import ACCUMULATOR, FIRST_PASS, PACK, SKIP
from iosim.machine import Hbm, Machine, Tile, exp, finite, maximum, nonzero


@kernel(
    reads("Q", "K", "V"), fills("O", "l", "m"), keeps(only("O_acc", widened, "O")), options=(SKIP, FIRST_PASS, ACCUMULATOR, PACK),
    settle=accumulator_made_on_chip, outside="keys", grid=heads, backward="flash-backward",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithms 1 and 2",
    paper=True, usual=True, rival=True, colour="#0072B2", mark="o", letter="f", place=2,
)  # fmt: skip
def flash(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, O_acc: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, first_pass: str = "load", skip_empty: bool = False,
) -> None:  # fmt: skip
    """FlashAttention forward (Dao et al. 2022, arXiv 2205.14135, Algorithms 1 and 2): keys outside; O, l, m live in HBM.

    O in HBM is normalised after every key tile. With ``first_pass="create"``, O, l and m are made on chip at a query
    tile's first visit, as released code does, and query tiles never visited are written as zeros at the end. Between visits O waits
    in ``O_acc``, which is O itself or an array of the accumulator's type.
    Words, dense: K and V once; Q, O, l, m once for each of the Tc key tiles, O, l, m written as often, and filled once:
    N_k (d + d_v) + Tc (N_q (d + 2 d_v) + 4 N_q) + N_q (d_v + 2).
    """
    (N_q, _), (N_k, _) = Q.shape, V.shape
    create = first_pass == "create"
    if not create:
        for i in m.tiles(N_q, Br):
            write_zeros(m, i, O_acc, L, M, init=True)
    for j in m.tiles(N_k, Bc, seen=mask.grid.columns(skip_empty)):
        k, v = m.load(K[j]), m.load(V[j])
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q = m.load(Q[i])
            if create and i.first:
                o = m.full(0.0, i.size, O.shape[1], name="O_i")
                l_i, m_i = m.full(0.0, i.size, 1, name="l_i"), m.full(-np.inf, i.size, 1, name="m_i")
            else:
                o, l_i, m_i = m.load(O_acc[i]), m.load(L[i]), m.load(M[i])
            s = scores(m, q, k, i, j, scale, mask)
            m_t = m.let(s.rowmax(), "m_tilde")
            s[...] = exp(s - finite(m_t))  # P_ij takes the room of S_ij
            l_t = m.let(s.rowsum(), "l_tilde")
            m_new = m.let(maximum(m_i, m_t), "m_new")
            a, b = m.let(exp(m_i - finite(m_new)), "a"), m.let(exp(m_t - finite(m_new)), "b")
            l_new = m.let(a * l_i + b * l_t, "l_new")
            m.store((O if i.last else O_acc)[i], (l_i * a * o + b * (dropped(m, s, i, j, mask) @ v)) / nonzero(l_new))
            m.store(L[i], l_new)
            m.store(M[i], m_new)
    if create:
        for i in m.tiles(N_q, Br, seen=mask.grid.unvisited_rows()):
            write_zeros(m, i, O, L, M)


def write_zeros(m: Machine, i: Tile, O: Hbm, L: Hbm, M: Hbm, *, init: bool = False) -> None:
    """O_i = 0, l_i = 0, m_i = -inf in HBM: what a query that has seen no key holds (Algorithm 1, line 2)."""
    m.store(O[i], m.full(0.0, i.size, O.shape[1], name="O_i"), init=init)
    m.store(L[i], m.full(0.0, i.size, 1, name="l_i"), init=init)
    m.store(M[i], m.full(-np.inf, i.size, 1, name="m_i"), init=init)
