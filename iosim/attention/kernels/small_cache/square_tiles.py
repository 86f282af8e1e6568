"""Saha and Ye's attention for a small cache, forward."""

from __future__ import annotations

import numpy as np

from iosim.attention.declaration import fills, keeps, kernel, reads
from iosim.attention.kernels.masking import Mask, dropped
from iosim.attention.kernels.small_cache.products import by_depth, cut_columns, inner, product
from iosim.core.options import DEPTH, SKIP
from iosim.machine import Block, Hbm, Machine, Tile, exp, finite, maximum, nonzero


@kernel(
    reads("Q", "K", "V"), fills("O", "l", "m"), keeps("S"), options=(SKIP, DEPTH), product=by_depth, pieces=cut_columns,
    backward="square-tiles-backward", source="Saha and Ye 2024, arXiv 2402.07443, Algorithm 1",
    paper=True, rival=True, colour="#E69F00", mark="P", letter="q", place=8,
)  # fmt: skip
def square_tiles(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, S: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, depth: str = "square",
) -> None:  # fmt: skip
    """SquareTilingAttention (Saha and Ye 2024, arXiv 2402.07443, Algorithm 1): S = QK^T through HBM, then O = PV, both in blocked products.

    Tiles of S are Br x Bc, those of O Br rows by Bc columns; columns of Q and K, and the keys of PV, are met Bc at a time, or one by one
    with ``depth="one"``, which moves the same words in less room: B^2 + 4 B words instead of 3 B^2 + 2 B serve tiles of B x B.
    Differs from the print, which stores exp(S) and its row sums: S itself is stored, beside the row maxima m and l, the sums of exp(S - m),
    for which 2 N_q words more move. Tiles in which no pair attends are skipped; S is not written there.
    Words, dense: N_q N_k (1 + ceil(d_v / Bc)) + Tc N_q d + Tr N_k (d + d_v) + N_q d_v + 4 N_q;
    in tiles of B x B, d = d_v, N_q = N_k: 3 N d ceil(N / B) + N^2 (1 + ceil(d / B)) + N d + 4 N.
    """
    wide = min(Bc, K.shape[0])
    score_tiles(m, Q, K, L, M, S, Br=Br, Bc=Bc, deep=1 if depth == "one" else wide, scale=scale, mask=mask)
    output_tiles(m, V, O, L, M, S, Br=Br, Bc=Bc, wide=wide, mask=mask, depth=depth)


def score_tiles(m: Machine, Q: Hbm, K: Hbm, L: Hbm, M: Hbm, S: Hbm, *, Br: int, Bc: int, deep: int, scale: float, mask: Mask) -> None:
    """S = scale QK^T, and of every row its maximum m and l, the sum of exp(S - m), both kept online."""
    for i in m.tiles(Q.shape[0], Br):
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(K.shape[0], Bc, seen=mask.grid.row(i)):
            s = blocked_scores(m, Q, K, i, j, deep=deep, scale=scale, mask=mask)
            m.store(S[i, j], s)
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            l_i *= exp(m_i - finite(m_new))
            l_i += exp(s - finite(m_new)).rowsum()
            m_i[...] = m_new
        m.store(L[i], l_i)
        m.store(M[i], m_i)


def output_tiles(m: Machine, V: Hbm, O: Hbm, L: Hbm, M: Hbm, S: Hbm, *, Br: int, Bc: int, wide: int, mask: Mask, depth: str) -> None:
    """O = exp(S - m) V / l: a tile of O stays on chip while S and V stream past it, so that S is read once for each tile of columns."""
    (N_q, d_v), N_k = O.shape, V.shape[0]
    for i in m.tiles(N_q, Br):
        l_i, m_i = m.load(L[i]), m.load(M[i])
        height, seen = inner(mask.grid.row(i), Bc, N_k, depth)
        for y in m.tiles(d_v, wide):
            o = m.full(0.0, i.size, y.size, name="O_iy")
            for j in m.tiles(N_k, height, seen=seen):
                s, v = m.load(S[i, j]), m.load(V[j, y])
                o += dropped(m, exp(s - finite(m_i)), i, j, mask) @ v
            m.store(O[i, y], o / nonzero(l_i))


def blocked_scores(m: Machine, Q: Hbm, K: Hbm, i: Tile, j: Tile, *, deep: int, scale: float, mask: Mask) -> Block:
    """S_ij = scale Q_i K_j^T from ``deep`` columns at a time, -inf where a pair may not attend; a partial tile holds its mask too."""
    s = product(m, Q, K, i, j, deep=deep, name="S_ij")
    s *= scale
    if not (i.full and j.full):
        mask.hide(m, s, i, j)
    return s
