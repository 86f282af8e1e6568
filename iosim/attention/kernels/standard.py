"""Standard attention: the scores S and the weights P go through HBM."""

from __future__ import annotations

import numpy as np

from iosim.attention.declaration import fills, ideal, kernel, reads
from iosim.attention.kernels.masking import Mask, dropped, scores
from iosim.attention.settling import softmax_that_fits
from iosim.core.options import REUSE, SKIP, SOFTMAX
from iosim.machine import Hbm, Machine, exp, finite, maximum, nonzero


@kernel(
    reads("Q", "K", "V"), fills("S", "P", "O"), options=(SKIP, REUSE, SOFTMAX), wide=ideal, settle=softmax_that_fits(rows=1),
    backward="standard-backward", source="Dao et al. 2022, arXiv 2205.14135, Algorithm 0",
    paper=True, usual=True, rival=True, colour="#D55E00", mark="s", letter="s", place=1,
)  # fmt: skip
def standard(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, S: Hbm, P: Hbm, O: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str = "tiled", softmax: str = "rows",
) -> None:  # fmt: skip
    """Standard attention (Dao et al. 2022, arXiv 2205.14135, Algorithm 0): three passes, S = QK^T, P = softmax(S), O = PV.

    ``reuse="tiled"`` re-reads K and V once a query tile; ``"ideal"`` keeps them whole on chip, which is the papers' count.
    ``softmax="rows"`` holds one row of S at a time, ``"streamed"`` reads S twice in tiles.
    S and P are always written whole: a mask saves products, and reads of K, P and V, but no S.
    Words, dense, ideal, rows: 4 N_q N_k + N_q (d + d_v) + N_k (d + d_v); tiled: the last term Tr times.
    """
    if reuse == "ideal":
        scores_ideal(m, Q, K, S, Br=Br, scale=scale, mask=mask)
    else:
        scores_tiled(m, Q, K, S, Br=Br, Bc=Bc, scale=scale, mask=mask)
    if softmax == "rows":
        softmax_rows(m, S, P)
    else:
        softmax_streamed(m, S, P, Br=Br, Bc=Bc)
    weighted_rows(m, P, V, O, Br=Br, Bc=Bc, mask=mask, whole=reuse == "ideal", drop=True)


def scores_tiled(m: Machine, Q: Hbm, K: Hbm, S: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """S = scale QK^T with Q_i on chip and K streamed past it; tiles that attend to nothing are filled with -inf."""
    N_q, N_k = S.shape
    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):
            k = m.load(K[j])
            m.store(S[i, j], scores(m, q, k, i, j, scale, mask))
        for j in m.tiles(N_k, Bc, seen=mask.grid.unseen(i)):
            m.store(S[i, j], m.full(-np.inf, i.size, j.size, name="S_ij"))


def scores_ideal(m: Machine, Q: Hbm, K: Hbm, S: Hbm, *, Br: int, scale: float, mask: Mask) -> None:
    """S = scale QK^T with the whole of K on chip, so that every operand moves once."""
    N_q, N_k = S.shape
    for j in m.tiles(N_k, N_k):
        k = m.load(K[j])
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q = m.load(Q[i])
            m.store(S[i, j], scores(m, q, k, i, j, scale, mask))


def softmax_rows(m: Machine, S: Hbm, P: Hbm) -> None:
    """P = softmax(S), one row at a time: S is read once, and a row of N_k words must fit."""
    for i in m.tiles(S.shape[0], 1):
        s = m.load(S[i])
        s[...] = exp(s - finite(s.rowmax()))
        m.store(P[i], s / nonzero(s.rowsum()))


def softmax_streamed(m: Machine, S: Hbm, P: Hbm, *, Br: int, Bc: int) -> None:
    """P = softmax(S) in tiles: an online pass for m and l, then a second read of S (Milakov and Gimelshein 2018)."""
    N_q, N_k = S.shape
    for i in m.tiles(N_q, Br):
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc):
            s = m.load(S[i, j])
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            l_i *= exp(m_i - finite(m_new))
            l_i += exp(s - finite(m_new)).rowsum()
            m_i[...] = m_new
        for j in m.tiles(N_k, Bc):
            s = m.load(S[i, j])
            m.store(P[i, j], exp(s - finite(m_i)) / nonzero(l_i))


def weighted_rows(m: Machine, P: Hbm, V: Hbm, O: Hbm, *, Br: int, Bc: int, mask: Mask, whole: bool, drop: bool = False) -> None:
    """O = P V with O_i on chip and V streamed past it, or with all of V on chip if ``whole``; ``drop``: P after dropout.

    Tiles in which no pair attends are skipped, but not if ``whole``.
    """
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
