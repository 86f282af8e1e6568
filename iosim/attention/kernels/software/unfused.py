"""Standard attention as frameworks run it: one kernel for every step, every step through HBM, whatever the mask hides."""

from __future__ import annotations

from dataclasses import replace

from iosim.attention.declaration import dropout, fills, ideal, keeps, kernel, only, reads, whole_rows
from iosim.attention.kernels.backward.matrices import outer, weighted_columns
from iosim.attention.kernels.backward.standard_backward import softmax_backward_rows
from iosim.attention.kernels.masking import Mask
from iosim.attention.kernels.standard import scores_ideal, scores_tiled, softmax_rows, weighted_rows
from iosim.core.options import REUSE
from iosim.machine import Hbm, Machine, exp, finite, nonzero

DROPPED = only("Pd", dropout, "P"), only("R", dropout)
UNFUSED = reads("Q", "K", "V", "P", "dO", *DROPPED), fills("dP", "dS", "dQ", "dK", "dV"), keeps(only("dPd", dropout, "dP"))


@kernel(
    reads("Q", "K", "V"), fills("S", "P", "O"), keeps(*DROPPED), options=(REUSE,), wide=ideal, backward="pytorch-backward",
    source="as benchmarked by Dao et al. 2022, arXiv 2205.14135, Appendix E", letter="p", place=10,
)  # fmt: skip
def pytorch(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, S: Hbm, P: Hbm, O: Hbm, Pd: Hbm, R: Hbm | None,
    *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str = "tiled",
) -> None:  # fmt: skip
    """Attention in PyTorch, step by step, as benchmarked by Dao et al. 2022 (arXiv 2205.14135, Appendix E).

    S = scale QK^T; where the problem has a mask, a pass that fills it in; softmax; where it has dropout, a pass that writes P after
    dropout (Pd) and which pairs were kept (R, a byte each); the product with V.
    Words, dense, ideal: 4 N_q N_k + N_q (d + d_v) + N_k (d + d_v), 2 N_q N_k more for a mask and 3 N_q N_k for dropout.
    """
    scores_everywhere(m, Q, K, S, Br=Br, Bc=Bc, scale=scale, mask=mask, reuse=reuse)
    if mask.rule is not None or mask.elements is not None:
        hide_pass(m, S, Br=Br, Bc=Bc, mask=mask)
    softmax_rows(m, S, P)
    if R is not None:
        dropout_pass(m, P, Pd, R, Br=Br, Bc=Bc, mask=mask)
    weighted_rows(m, Pd, V, O, Br=Br, Bc=Bc, mask=mask, whole=reuse == "ideal")


@kernel(
    reads("Q", "K", "V"), fills("S", "P", "O"), keeps(*DROPPED), options=(REUSE,), wide=ideal, backward="megatron-backward",
    source="Shoeybi et al. 2019, arXiv 1909.08053", letter="m", place=11,
)  # fmt: skip
def megatron(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, S: Hbm, P: Hbm, O: Hbm, Pd: Hbm, R: Hbm | None,
    *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str = "tiled",
) -> None:  # fmt: skip
    """Attention in Megatron-LM (Shoeybi et al. 2019, arXiv 1909.08053): as ``pytorch``, with mask and softmax fused into one pass.

    Words, dense, ideal: 4 N_q N_k + N_q (d + d_v) + N_k (d + d_v), 3 N_q N_k more for dropout, and an element mask once.
    """
    scores_everywhere(m, Q, K, S, Br=Br, Bc=Bc, scale=scale, mask=mask, reuse=reuse)
    masked_softmax_rows(m, S, P, mask=mask)
    if R is not None:
        dropout_pass(m, P, Pd, R, Br=Br, Bc=Bc, mask=mask)
    weighted_rows(m, Pd, V, O, Br=Br, Bc=Bc, mask=mask, whole=reuse == "ideal")


@kernel(*UNFUSED, name="pytorch-backward", forward="pytorch", letter="P", place=12, options=(REUSE,), wide=ideal, product=whole_rows)
@kernel(*UNFUSED, name="megatron-backward", forward="megatron", letter="M", place=13, options=(REUSE,), wide=ideal, product=whole_rows)
def unfused_backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, P: Hbm, dO: Hbm, Pd: Hbm, R: Hbm | None, dP: Hbm, dS: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, dPd: Hbm,
    *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str = "tiled",
) -> None:  # fmt: skip
    """The backward pass of ``pytorch`` and ``megatron``: as Algorithm 3, with a pass of its own for dropout, which reads R.

    Words, dense, ideal: 7 N_q N_k + 4 (N_q + N_k) d for d = d_v, and 3 N_q N_k more for dropout. A mask costs nothing: P is 0 there.
    """
    whole, bare = reuse == "ideal", replace(mask, kept=None)
    wide = V.shape[0] if whole else Bc
    weighted_columns(m, Pd, dO, dV, Br=Br, Bc=wide, mask=mask)
    outer(m, dO, V, dPd, Br=Br, Bc=Bc, mask=bare, whole=whole)
    if R is not None:
        dropout_backward_pass(m, dPd, R, dP, Br=Br, Bc=Bc, factor=mask.kept_scale)
    softmax_backward_rows(m, P, dP, dS, scale=scale)
    weighted_rows(m, dS, K, dQ, Br=Br, Bc=Bc, mask=mask, whole=whole)
    weighted_columns(m, dS, Q, dK, Br=Br, Bc=wide, mask=mask)


def scores_everywhere(m: Machine, Q: Hbm, K: Hbm, S: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask, reuse: str) -> None:
    """S = scale QK^T of every pair."""
    bare = replace(mask, rule=None, elements=None)
    if reuse == "ideal":
        scores_ideal(m, Q, K, S, Br=Br, scale=scale, mask=bare)
    else:
        scores_tiled(m, Q, K, S, Br=Br, Bc=Bc, scale=scale, mask=bare)


def hide_pass(m: Machine, S: Hbm, *, Br: int, Bc: int, mask: Mask) -> None:
    """Read S and write it back with -inf where a pair may not attend."""
    N_q, N_k = S.shape
    for i in m.tiles(N_q, Br):
        for j in m.tiles(N_k, Bc):
            s = m.load(S[i, j])
            mask.hide(m, s, i, j)
            m.store(S[i, j], s)


def masked_softmax_rows(m: Machine, S: Hbm, P: Hbm, *, mask: Mask) -> None:
    """P = softmax(S) of the pairs that may attend, one row at a time."""
    N_q, N_k = S.shape
    for i in m.tiles(N_q, 1):
        for j in m.tiles(N_k, N_k):
            s = m.load(S[i, j])
            mask.hide(m, s, i, j)
            s[...] = exp(s - finite(s.rowmax()))
            m.store(P[i, j], s / nonzero(s.rowsum()))


def dropout_pass(m: Machine, P: Hbm, Pd: Hbm, R: Hbm, *, Br: int, Bc: int, mask: Mask) -> None:
    """Read P, write R and Pd = P R / (1 - p)."""
    assert mask.kept is not None
    N_q, N_k = P.shape
    for i in m.tiles(N_q, Br):
        for j in m.tiles(N_k, Bc):
            r = m.let(m.pairs(mask.kept, i, j), "R_ij")
            m.store(R[i, j], r)
            m.store(Pd[i, j], m.load(P[i, j]) * (mask.kept_scale * r))


def dropout_backward_pass(m: Machine, dPd: Hbm, R: Hbm, dP: Hbm, *, Br: int, Bc: int, factor: float) -> None:
    """Read dPd and R, write dP = dPd R / (1 - p)."""
    N_q, N_k = dP.shape
    for i in m.tiles(N_q, Br):
        for j in m.tiles(N_k, Bc):
            m.store(dP[i, j], m.load(dPd[i, j]) * (factor * m.load(R[i, j])))
