"""Standard attention, backward: P comes from HBM, dP and dS go through it."""

from __future__ import annotations

from iosim.attention.declaration import fills, ideal, kernel, reads, whole_rows
from iosim.attention.kernels.backward.matrices import outer, weighted_columns
from iosim.attention.kernels.masking import Mask
from iosim.attention.kernels.standard import weighted_rows
from iosim.attention.settling import softmax_that_fits
from iosim.core.options import REUSE, SKIP, SOFTMAX
from iosim.machine import Hbm, Machine


@kernel(
    reads("Q", "K", "V", "P", "dO"), fills("dP", "dS", "dQ", "dK", "dV"), options=(SKIP, REUSE, SOFTMAX), wide=ideal,
    settle=softmax_that_fits(rows=2), product=whole_rows, forward="standard",  # a row of dP stands beside that of P
    source="Dao et al. 2022, arXiv 2205.14135, Algorithm 3",
    paper=True, rival=True, colour="#D55E00", mark="s", letter="S", place=5,
)  # fmt: skip
def standard_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, P: Hbm, dO: Hbm, dP: Hbm, dS: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str = "tiled", softmax: str = "rows",
) -> None:  # fmt: skip
    """Standard attention backward (Dao et al. 2022, arXiv 2205.14135, Algorithm 3): five passes, each through HBM.

    dV = P^T dO, dP = dO V^T, dS = scale P (dP - rowsum(P dP)), dQ = dS K, dK = dS^T Q. The print leaves the scale out.
    ``reuse="ideal"`` moves every operand of a product once, which is the papers' count; ``softmax`` as in the forward pass.
    dP and dS are always written whole, and read whole by the softmax: a mask saves products and what those read.
    Words, dense, ideal, rows: 7 N_q N_k + 4 (N_q + N_k) d for d = d_v; tiled: dO, Q Tc times and V, K Tr times.
    """
    whole = reuse == "ideal"
    wide = V.shape[0] if whole else Bc
    weighted_columns(m, P, dO, dV, Br=Br, Bc=wide, mask=mask, drop=True)
    outer(m, dO, V, dP, Br=Br, Bc=Bc, mask=mask, whole=whole)
    if softmax == "rows":
        softmax_backward_rows(m, P, dP, dS, scale=scale)
    else:
        softmax_backward_streamed(m, P, dP, dS, Br=Br, Bc=Bc, scale=scale)
    weighted_rows(m, dS, K, dQ, Br=Br, Bc=Bc, mask=mask, whole=whole)
    weighted_columns(m, dS, Q, dK, Br=Br, Bc=wide, mask=mask)


def softmax_backward_rows(m: Machine, P: Hbm, dP: Hbm, dS: Hbm, *, scale: float) -> None:
    """dS = scale P (dP - rowsum(P dP)), one row at a time: P and dP are read once, and a row of each must fit."""
    for i in m.tiles(P.shape[0], 1):
        p, dp = m.load(P[i]), m.load(dP[i])
        m.store(dS[i], scale * (p * (dp - (p * dp).rowsum())))


def softmax_backward_streamed(m: Machine, P: Hbm, dP: Hbm, dS: Hbm, *, Br: int, Bc: int, scale: float) -> None:
    """dS = scale P (dP - rowsum(P dP)) in tiles: one pass for the sums, then a second read of P and dP."""
    N_q, N_k = P.shape
    for i in m.tiles(N_q, Br):
        D_i = m.full(0.0, i.size, 1, name="D_i")
        for j in m.tiles(N_k, Bc):
            D_i += (m.load(P[i, j]) * m.load(dP[i, j])).rowsum()
        for j in m.tiles(N_k, Bc):
            m.store(dS[i, j], scale * (m.load(P[i, j]) * (m.load(dP[i, j]) - D_i)))
