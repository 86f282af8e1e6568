"""FlashAttention-2, backward."""

from __future__ import annotations

from iosim.attention.declaration import fills, keeps, kernel, key_tiles, only, reads, widened
from iosim.attention.kernels.backward.matrices import fill
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.attention.settling import accumulator_of_a_shared_pass
from iosim.core.options import ACCUMULATOR, DQ_PASS, PACK, SKIP
from iosim.machine import Block, Hbm, Machine, Tile, exp, finite


@kernel(
    reads("Q", "K", "V", "O", "LSE", "dO"), fills("dQ", "dK", "dV", "D"), keeps(only("dQ_acc", widened, "dQ")),
    options=(SKIP, ACCUMULATOR, DQ_PASS, PACK), settle=accumulator_of_a_shared_pass, outside="keys", grid=key_tiles, forward="flash2",
    source="Dao 2023, arXiv 2307.08691, Algorithm 2",
    paper=True, rival=True, colour="#009E73", mark="^", letter="B", place=7,
)  # fmt: skip
def flash2_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, D: Hbm, dQ_acc: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, dq_pass: str = "shared",
) -> None:  # fmt: skip
    """FlashAttention-2 backward (Dao 2023, arXiv 2307.08691, Algorithm 2): D = rowsum(dO * O) first, then keys outside.

    dK_j and dV_j stay on chip; dQ is read and written in HBM by every key tile (``dQ_acc``: dQ itself, or an array of the accumulator's
    type that a last pass converts). With ``dq_pass="own"`` a second kernel, queries outside, makes S and dP once more instead, and no tile
    accumulates into HBM. Differs from the print: O_i is not loaded beside D_i, which is all that it serves for.
    Words, dense, d = d_v: 3 N_q d + N_q + 4 N_k d + Tc (4 N_q d + 2 N_q);
    own: 5 N_q d + 3 N_q + 4 N_k d + Tc (2 N_q d + 2 N_q) + 2 Tr N_k d.
    """
    for i in m.tiles(Q.shape[0], Br):
        m.store(D[i], (m.load(dO[i]) * m.load(O[i])).rowsum())
    if dq_pass == "own":
        keys_outside(m, Q, K, V, LSE, dO, D, None, dK, dV, Br=Br, Bc=Bc, scale=scale, mask=mask)
        queries_outside(m, Q, K, V, LSE, dO, D, dQ, Br=Br, Bc=Bc, scale=scale, mask=mask)
        return
    fill(m, dQ_acc, Br, 0.0, init=True)
    keys_outside(m, Q, K, V, LSE, dO, D, dQ_acc, dK, dV, Br=Br, Bc=Bc, scale=scale, mask=mask)
    if dQ_acc is not dQ:
        for i in m.tiles(Q.shape[0], Br):
            m.store(dQ[i], m.load(dQ_acc[i]))


def keys_outside(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, LSE: Hbm, dO: Hbm, D: Hbm, dQ: Hbm | None, dK: Hbm, dV: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask,
) -> None:  # fmt: skip
    """dK_j and dV_j on chip while the query tiles stream past; dQ, if it is asked for here, is accumulated in HBM."""
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        dk, dv = m.full(0.0, j.size, d, name="dK_j"), m.full(0.0, j.size, d_v, name="dV_j")
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q, do = m.load(Q[i]), m.load(dO[i])
            s = weights(m, q, k, m.load(LSE[i]), i, j, scale, mask)
            dv += dropped(m, s, i, j, mask).T @ do
            s *= dropped(m, do @ v.T, i, j, mask) - m.load(D[i])  # dS_ij takes the room of P_ij
            if dQ is not None:
                dq = m.load(dQ[i])
                dq += scale * (s @ k)
                m.store(dQ[i], dq)
            dk += scale * (s.T @ q)
        m.store(dK[j], dk)
        m.store(dV[j], dv)


def queries_outside(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, LSE: Hbm, dO: Hbm, D: Hbm, dQ: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask
) -> None:
    """dQ_i on chip while the key tiles stream past."""
    N_q, d = Q.shape
    for i in m.tiles(N_q, Br):
        q, do, lse, D_i = m.load(Q[i]), m.load(dO[i]), m.load(LSE[i]), m.load(D[i])
        dq = m.full(0.0, i.size, d, name="dQ_i")
        for j in m.tiles(K.shape[0], Bc, seen=mask.grid.row(i)):
            k, v = m.load(K[j]), m.load(V[j])
            s = weights(m, q, k, lse, i, j, scale, mask)
            s *= dropped(m, do @ v.T, i, j, mask) - D_i
            dq += scale * (s @ k)
        m.store(dQ[i], dq)


def weights(m: Machine, q: Block, k: Block, lse: Block, i: Tile, j: Tile, scale: float, mask: Mask) -> Block:
    """P_ij = exp(S_ij - LSE_i), made again."""
    s = scores(m, q, k, i, j, scale, mask)
    s[...] = exp(s - finite(lse))
    return s
