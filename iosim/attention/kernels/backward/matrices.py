"""Passes over matrices that lie in HBM, which backward kernels are made of: two products, and filling one with a number."""

from __future__ import annotations

from iosim.attention.kernels.masking import Mask, dropped
from iosim.core.masks.runs import Runs
from iosim.machine import Hbm, Machine


def outer(m: Machine, A: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, mask: Mask, whole: bool) -> None:
    """C = A B^T after dropout, as dP = dO V^T: A_i on chip and B streamed past it, or all of B on chip if ``whole``.

    Tiles in which no pair attends are filled with 0, or computed like the others if ``whole``.
    """
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


def weighted_columns(m: Machine, P: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, mask: Mask, drop: bool = False) -> None:
    """C = P^T B, as dV = P^T dO: C_j on chip, P and B streamed past it; everything moves once where one tile holds all keys."""
    (N_k, width), N_q = C.shape, B.shape[0]
    for j in m.tiles(N_k, Bc):
        c = m.full(0.0, j.size, width, name=f"{C.name}_j")
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            p, b = m.load(P[i, j]), m.load(B[i])
            c += (dropped(m, p, i, j, mask) if drop else p).T @ b
        m.store(C[j], c)


def fill(m: Machine, X: Hbm, b: int, number: float, *, init: bool = False, seen: Runs | None = None) -> None:
    """Store ``number`` in every element of ``X``, or in the rows of the tiles ``seen``."""
    for i in m.tiles(X.shape[0], b, seen=seen):
        m.store(X[i], m.full(number, i.size, X.shape[1], name=f"{X.name}_i"), init=init)
