"""Products of matrices that lie in HBM: the passes of standard attention.

``whole`` keeps what all tiles of rows share whole on chip, so that everything moves once; otherwise tiles in which no pair attends
are skipped.
"""

from __future__ import annotations

from iosim.kernels.masking import Mask, dropped
from iosim.memory import Hbm, Machine


def outer(m: Machine, A: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, mask: Mask, whole: bool) -> None:
    """C = A B^T after dropout, as dP = dO V^T: A_i on chip and B streamed past it; where no pair attends C is 0."""
    N_q, N_k = C.shape
    if whole:
        for j in m.tiles(N_k, N_k):
            b = m.load(B[j])
            for i in m.tiles(N_q, Br):
                m.store(C[i, j], dropped(m, m.load(A[i]) @ b.T, i, j, mask))
        return
    for i in m.tiles(N_q, Br):
        a = m.load(A[i])
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):
            m.store(C[i, j], dropped(m, a @ m.load(B[j]).T, i, j, mask))
        for j in m.tiles(N_k, Bc, seen=mask.grid.unseen(i)):
            m.store(C[i, j], m.full(0.0, i.size, j.size, name=f"{C.name}_ij"))


def weighted_rows(m: Machine, P: Hbm, V: Hbm, O: Hbm, *, Br: int, Bc: int, mask: Mask, whole: bool, drop: bool = False) -> None:
    """O = P V, as dQ = dS K: O_i on chip and V streamed past it; ``drop``: P after dropout."""
    (N_q, width), N_k = O.shape, V.shape[0]
    if whole:
        for j in m.tiles(N_k, N_k):
            v = m.load(V[j])
            for i in m.tiles(N_q, Br):
                p = m.load(P[i, j])
                m.store(O[i], (dropped(m, p, i, j, mask) if drop else p) @ v)
        return
    for i in m.tiles(N_q, Br):
        o = m.full(0.0, i.size, width, name=f"{O.name}_i")
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):
            p, v = m.load(P[i, j]), m.load(V[j])
            o += (dropped(m, p, i, j, mask) if drop else p) @ v
        m.store(O[i], o)


def weighted_columns(m: Machine, P: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, mask: Mask, drop: bool = False) -> None:
    """C = P^T B, as dV = P^T dO: C_j on chip, P and B streamed past it; everything moves once where one tile holds all keys."""
    (N_k, width), N_q = C.shape, B.shape[0]
    for j in m.tiles(N_k, Bc):
        c = m.full(0.0, j.size, width, name=f"{C.name}_j")
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            p, b = m.load(P[i, j]), m.load(B[i])
            c += (dropped(m, p, i, j, mask) if drop else p).T @ b
        m.store(C[j], c)
