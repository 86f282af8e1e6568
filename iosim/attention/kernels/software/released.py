"""FlashAttention as its first released code ran it: one statistic a row, accumulators in float32."""

from __future__ import annotations

import numpy as np

from iosim.attention.declaration import fills, heads, keeps, kernel, reads
from iosim.attention.kernels.backward.matrices import fill
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.core.options import SKIP
from iosim.machine import Hbm, Machine, exp, finite, log, maximum, nonzero


@kernel(
    reads("Q", "K", "V"), fills("O", "LSE"), keeps("O_acc"), options=(SKIP,), outside="keys", grid=heads, backward="released-backward",
    source="github.com/Dao-AILab/flash-attention, May 2022 to 1.0", letter="r", place=16,
)  # fmt: skip
def released(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, O_acc: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """FlashAttention forward, release 0 of May 2022 to 1.0 (github.com/Dao-AILab/flash-attention): ``flash`` with LSE = m + log l alone.

    Between visits O waits in an array of the accumulator's type; a query tile's first visit reads neither, and its last writes O.
    The code takes tiles of 16 queries by 256 keys for d = 64. Words, dense, d = d_v: 2 N_k d + N_q d + Tc N_q d + 2 (Tc - 1) N_q d
    + (2 Tc - 1) N_q.
    """
    (N_q, _), (N_k, d_v) = Q.shape, V.shape
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q = m.load(Q[i])
            if i.first:
                o, lse = m.full(0.0, i.size, d_v, name="O_i"), m.full(-np.inf, i.size, 1, name="LSE_i")
            else:
                o, lse = m.load(O_acc[i]), m.load(LSE[i])
            s = scores(m, q, k, i, j, scale, mask)
            m_new = m.let(finite(maximum(lse, s.rowmax())), "m_new")
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            alpha = m.let(exp(lse - m_new), "alpha")  # what l was, in units of the new maximum
            l_new = m.let(alpha + s.rowsum(), "l_new")
            m.store((O if i.last else O_acc)[i], (alpha * o + dropped(m, s, i, j, mask) @ v) / nonzero(l_new))
            m.store(LSE[i], m_new + log(l_new))
    for i in m.tiles(N_q, Br, seen=mask.grid.unvisited_rows()):
        m.store(O[i], m.full(0.0, i.size, d_v, name="O_i"))
        m.store(LSE[i], m.full(-np.inf, i.size, 1, name="LSE_i"))


@kernel(
    reads("Q", "K", "V", "O", "LSE", "dO"), fills("dQ", "dK", "dV"), keeps("D", "dQ_acc"), options=(SKIP,), outside="keys", grid=heads,
    forward="released", source="github.com/Dao-AILab/flash-attention, May 2022 to 1.0", letter="R", place=17,
)  # fmt: skip
def released_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, D: Hbm, dQ_acc: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask,
) -> None:  # fmt: skip
    """The backward pass of the same code: D is made at a query tile's first visit and kept, dQ waits in the accumulator's type.

    Words, dense, d = d_v: 4 N_k d + 2 N_q d + 2 Tc N_q d + 2 (Tc - 1) N_q d + 2 Tc N_q.
    """
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        dk, dv = m.full(0.0, j.size, d, name="dK_j"), m.full(0.0, j.size, d_v, name="dV_j")
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q, do, lse = m.load(Q[i]), m.load(dO[i]), m.load(LSE[i])
            s = scores(m, q, k, i, j, scale, mask)
            s[...] = exp(s - finite(lse))  # P_ij takes the room of S_ij
            dv += dropped(m, s, i, j, mask).T @ do
            dp = m.let(dropped(m, do @ v.T, i, j, mask), "dP_ij")
            if i.first:
                D_i, dq = m.let((do * m.load(O[i])).rowsum(), "D_i"), m.full(0.0, i.size, d, name="dQ_i")
                m.store(D[i], D_i)
            else:
                D_i, dq = m.load(D[i]), m.load(dQ_acc[i])
            s *= dp - D_i  # dS_ij takes the room of P_ij
            dq += scale * (s @ k)
            m.store((dQ if i.last else dQ_acc)[i], dq)
            dk += scale * (s.T @ q)
        m.store(dK[j], dk)
        m.store(dV[j], dv)
    fill(m, dQ, Br, 0.0, seen=mask.grid.unvisited_rows())
