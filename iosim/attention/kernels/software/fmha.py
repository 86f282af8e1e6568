"""Apex FMHA: attention fused into one kernel that still stores P for the backward pass."""

from __future__ import annotations

from iosim.attention.declaration import fills, heads, kernel, reads, whole_rows
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.core.options import Options
from iosim.machine import Hbm, Machine, exp, finite, nonzero


def always_whole(_: Options) -> bool:
    """K and V are whole on chip."""
    return True


@kernel(
    reads("Q", "K", "V"), fills("P", "O"), wide=always_whole, grid=heads, backward="fmha-backward",
    source="NVIDIA Apex, as described by Dao et al. 2022, arXiv 2205.14135, Appendix E.4", letter="h", place=14,
)  # fmt: skip
def fmha(m: Machine, Q: Hbm, K: Hbm, V: Hbm, P: Hbm, O: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """NVIDIA Apex's fused attention for short sequences, forward, as described by Dao et al. 2022 (arXiv 2205.14135, Appendix E.4).

    K and V stand whole on chip; rows of S, P and O are made there, and P is stored for the backward pass. ``Bc`` is not used.
    Words: N_q N_k + N_q (d + d_v) + N_k (d + d_v); which pairs dropout keeps is told by the sign of P, and moves nothing.
    """
    (N_q, _), (N_k, _) = Q.shape, V.shape
    for j in m.tiles(N_k, N_k):
        k, v = m.load(K[j]), m.load(V[j])
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q = m.load(Q[i])
            s = scores(m, q, k, i, j, scale, mask)
            s[...] = exp(s - finite(s.rowmax()))
            s /= nonzero(s.rowsum())
            m.store(P[i, j], s)
            m.store(O[i], dropped(m, s, i, j, mask) @ v)


@kernel(
    reads("Q", "K", "V", "P", "dO"), fills("dQ", "dK", "dV"), wide=always_whole, grid=heads, product=whole_rows, forward="fmha",
    source="our own listing", letter="H", place=15,
)  # fmt: skip
def fmha_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, P: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask,
) -> None:  # fmt: skip
    """The backward pass from the stored P, fused: what it must move at least, where K, V, dK and dV stand whole on chip.

    Our own listing: how Apex splits its backward pass into kernels is not described. ``Bc`` is not used.
    Words, d = d_v: N_q N_k + 3 N_q d + 4 N_k d.
    """
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    for j in m.tiles(N_k, N_k):
        k, v = m.load(K[j]), m.load(V[j])
        dk, dv = m.full(0.0, j.size, d, name="dK_j"), m.full(0.0, j.size, d_v, name="dV_j")
        for i in m.tiles(N_q, Br):
            q, do, p = m.load(Q[i]), m.load(dO[i]), m.load(P[i, j])
            dv += dropped(m, p, i, j, mask).T @ do
            dp = m.let(dropped(m, do @ v.T, i, j, mask), "dP_ij")
            ds = m.let(scale * (p * (dp - (p * dp).rowsum())), "dS_ij")
            m.store(dQ[i], ds @ k)
            dk += ds.T @ q
        m.store(dK[j], dk)
        m.store(dV[j], dv)
