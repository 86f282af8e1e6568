"""FlashAttention, backward, in the loop order of the first paper."""

from __future__ import annotations

from iosim.attention.declaration import created, fills, heads, keeps, kernel, only, reads, widened
from iosim.attention.kernels.backward.matrices import fill
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.attention.settling import accumulator_made_on_chip
from iosim.core.options import ACCUMULATOR, FIRST_PASS, PACK, SKIP
from iosim.machine import Hbm, Machine, exp, finite, nonzero


@kernel(
    reads("Q", "K", "V", "O", "l", "m", "dO"), fills("dQ", "dK", "dV"), keeps(only("D", created), only("dQ_acc", widened, "dQ")),
    options=(SKIP, FIRST_PASS, ACCUMULATOR, PACK), settle=accumulator_made_on_chip, outside="keys", grid=heads, forward="flash",
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 4",
    paper=True, rival=True, colour="#0072B2", mark="o", letter="F", place=6,
)  # fmt: skip
def flash_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, D: Hbm | None, dQ_acc: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, first_pass: str = "load",
) -> None:  # fmt: skip
    """FlashAttention backward (Dao et al. 2022, arXiv 2205.14135, Algorithm 4): keys outside; dQ lives in HBM, P is made again from l, m.

    As printed, dQ, dK, dV start as zeros in HBM and every visit computes D_i. With ``first_pass="create"``, as in released code, a query
    tile's first visit stores D_i and makes dQ_i on chip, and query tiles never visited are written as zeros at the end. Between
    visits dQ waits in ``dQ_acc``, which is dQ itself or an array of the accumulator's type.
    Words, dense, d = d_v, as printed: 6 N_k d + Tc (5 N_q d + 2 N_q) + N_q d; create: 4 N_k d + Tc (4 N_q d + 3 N_q).
    """
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    create = first_pass == "create"
    if not create:
        fill(m, dQ_acc, Br, 0.0, init=True)
        fill(m, dK, Bc, 0.0, init=True)
        fill(m, dV, Bc, 0.0, init=True)
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        dk, dv = m.full(0.0, j.size, d, name="dK_j"), m.full(0.0, j.size, d_v, name="dV_j")
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q, do, l_i, m_i = m.load(Q[i]), m.load(dO[i]), m.load(L[i]), m.load(M[i])
            s = scores(m, q, k, i, j, scale, mask)
            s[...] = exp(s - finite(m_i)) / nonzero(l_i)  # P_ij takes the room of S_ij
            dv += dropped(m, s, i, j, mask).T @ do
            dp = m.let(dropped(m, do @ v.T, i, j, mask), "dP_ij")
            if D is None or i.first:
                D_i = m.let((do * m.load(O[i])).rowsum(), "D_i")
                if D is not None:
                    m.store(D[i], D_i)
            else:
                D_i = m.load(D[i])
            s *= dp - D_i  # dS_ij takes the room of P_ij
            dq = m.full(0.0, i.size, d, name="dQ_i") if create and i.first else m.load(dQ_acc[i])
            dq += scale * (s @ k)
            m.store((dQ if i.last else dQ_acc)[i], dq)
            dk += scale * (s.T @ q)
        m.store(dK[j], dk)
        m.store(dV[j], dv)
    if create:
        fill(m, dQ, Br, 0.0, seen=mask.grid.unvisited_rows())
