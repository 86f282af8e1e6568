"""Attention for a small cache, backward: every step a blocked product."""

from __future__ import annotations

from iosim.attention.declaration import fills, keeps, kernel, reads
from iosim.attention.kernels.masking import Mask, dropped
from iosim.attention.kernels.small_cache.products import by_columns, by_depth, by_rows, cut_columns, inner, product
from iosim.attention.kernels.small_cache.square_tiles import blocked_scores
from iosim.core.options import DEPTH, SKIP
from iosim.machine import Hbm, Machine, exp, finite, nonzero


@kernel(
    reads("Q", "K", "V", "O", "l", "m", "dO"), fills("dQ", "dK", "dV", "D"), keeps("P", "dS"), options=(SKIP, DEPTH), product=by_depth,
    pieces=cut_columns, forward="square-tiles", source="after Saha and Ye 2024, arXiv 2402.07443, who print no backward pass",
    paper=True, rival=True, colour="#56B4E9", mark="X", letter="Q", place=9,
)  # fmt: skip
def square_tiles_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, D: Hbm, P: Hbm, dS: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, depth: str = "square",
) -> None:  # fmt: skip
    """Backward pass in the tiles of Saha and Ye (2024, arXiv 2402.07443), who print none: every step that multiplies is a blocked product.

    D = rowsum(dO * O), P = exp(S - m) / l with S made again, dP = dO V^T, dS = scale P (dP - D), dV = P^T dO, dQ = dS K, dK = dS^T Q.
    P and dS lie in HBM, but not where no pair attends. ``depth="one"`` has room for a single tile, and so dP goes through HBM too.
    Words, dense, tiles of B x B, d = d_v, N_q = N_k: 7 N d ceil(N / B) + 3 N^2 (1 + ceil(d / B)) + 5 N d + 4 N; depth "one": 2 N^2 more.
    """
    wide = min(Bc, K.shape[0])
    deep = 1 if depth == "one" else wide
    row_sums(m, O, dO, D, Br=Br, deep=deep)
    weight_tiles(m, Q, K, L, M, P, Br=Br, Bc=Bc, deep=deep, scale=scale, mask=mask)
    score_gradients = gradient_lines if depth == "one" else gradient_tiles
    score_gradients(m, V, dO, D, P, dS, Br=Br, Bc=Bc, deep=deep, scale=scale, mask=mask)
    by_columns(m, P, dO, dV, Br=Br, Bc=Bc, wide=wide, mask=mask, depth=depth, drop=True)
    by_rows(m, dS, K, dQ, Br=Br, Bc=Bc, wide=wide, mask=mask, depth=depth)
    by_columns(m, dS, Q, dK, Br=Br, Bc=Bc, wide=wide, mask=mask, depth=depth)


def row_sums(m: Machine, O: Hbm, dO: Hbm, D: Hbm, *, Br: int, deep: int) -> None:
    """D = rowsum(dO * O), from ``deep`` columns at a time."""
    for i in m.tiles(O.shape[0], Br):
        D_i = m.full(0.0, i.size, 1, name="D_i")
        for y in m.tiles(O.shape[1], deep):
            D_i += (m.load(dO[i, y]) * m.load(O[i, y])).rowsum()
        m.store(D[i], D_i)


def weight_tiles(m: Machine, Q: Hbm, K: Hbm, L: Hbm, M: Hbm, P: Hbm, *, Br: int, Bc: int, deep: int, scale: float, mask: Mask) -> None:
    """P = exp(S - m) / l, made again from Q, K and the statistics of the forward pass."""
    for i in m.tiles(Q.shape[0], Br):
        l_i, m_i = m.load(L[i]), m.load(M[i])
        for j in m.tiles(K.shape[0], Bc, seen=mask.grid.row(i)):
            s = blocked_scores(m, Q, K, i, j, deep=deep, scale=scale, mask=mask)
            m.store(P[i, j], exp(s - finite(m_i)) / nonzero(l_i))


def gradient_tiles(m: Machine, V: Hbm, dO: Hbm, D: Hbm, P: Hbm, dS: Hbm, *, Br: int, Bc: int, deep: int, scale: float, mask: Mask) -> None:
    """dS = scale P (dP - D): dP = dO V^T stays on chip, and takes its tile of P beside it."""
    for i in m.tiles(dO.shape[0], Br):
        D_i = m.load(D[i])
        for j in m.tiles(V.shape[0], Bc, seen=mask.grid.row(i)):
            dp = product(m, dO, V, i, j, deep=deep, name="dP_ij")
            p = m.load(P[i, j])
            m.store(dS[i, j], scale * (p * (dropped(m, dp, i, j, mask) - D_i)))


def gradient_lines(m: Machine, V: Hbm, dO: Hbm, D: Hbm, P: Hbm, dS: Hbm, *, Br: int, Bc: int, deep: int, scale: float, mask: Mask) -> None:
    """The same where there is room for one tile alone: dP waits in the place of dS until it is turned into that, single keys at a time."""
    for i in m.tiles(dO.shape[0], Br):
        for j in m.tiles(V.shape[0], Bc, seen=mask.grid.row(i)):
            m.store(dS[i, j], dropped(m, product(m, dO, V, i, j, deep=deep, name="dP_ij"), i, j, mask))
    for i in m.tiles(dO.shape[0], Br):
        D_i = m.load(D[i])
        height, seen = inner(mask.grid.row(i), Bc, V.shape[0], "one")
        for j in m.tiles(V.shape[0], height, seen=seen):
            p, dp = m.load(P[i, j]), m.load(dS[i, j])
            m.store(dS[i, j], scale * (p * (dp - D_i)))
