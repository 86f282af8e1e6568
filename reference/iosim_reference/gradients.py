"""Gradients of attention in float64, in closed form, a few query rows at a time; and how large their addends are.

With S = scale * Q K^T, P = softmax(S), Z = 1/(1 - p) where dropout keeps a pair and 0 where it does not, and O = (P Z) V::

    dV_j = sum_i P_ij Z_ij dO_i                  D_i = sum_l P_il dP_il
    dP_ij = Z_ij dO_i . V_j                      dQ_i = scale * sum_j dS_ij K_j
    dS_ij = P_ij (dP_ij - D_i)                   dK_j = scale * sum_i dS_ij Q_i

Source: Dao et al. 2022, "FlashAttention", Algorithms 3 and 4. Here D is the sum itself; that it is dO_i . O_i is for kernels to use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from iosim_reference.attention import BlockMask, Dropout, Float, Part, Problem, Rules, Window, scores_of, softmax, tensor


class PerGradient(NamedTuple):
    """One number for each of the three gradients."""

    dq: float
    dk: float
    dv: float


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """How large the addends of a gradient are, with what cancels in dP - D and in dO . V made explicit: what rounding is relative to.

    ``logit``: the largest \\|scale\\| sum_x \\|q_x k_x\\| of an allowed pair, never below max\\|S\\|.

    ``products``, the largest over elements x of, with a_ij = Z_ij sum_y \\|dO_iy V_jy\\| and A_ij = P_ij (a_ij + sum_l P_il a_il):

    - dq: \\|scale\\| sum_j A_ij \\|K_jx\\|
    - dk: \\|scale\\| sum_i A_ij \\|Q_ix\\|
    - dv: sum_i P_ij Z_ij \\|dO_ix\\|

    ``weights``: the same, but with a_ij = \\|dP_ij\\|, a dot product whose cancellation an error in a weight does not undo.

    ``reach``: above what absolute errors of 1 in weights, products and sums would do to an element, for each addend: for underflow.
    dq: \\|scale\\| (1 + max_x sum_j \\|K_jx\\|) r, dk: the same with Q, and dv: (1 + max_x sum_i \\|dO_ix\\|) / (1 - p),
    where r = (1 + max_i sum_y \\|dO_iy\\| (1 + max\\|V\\|)) / (1 - p).

    Sums over i are over all query heads that share the keys; in ``reach``, as many times the largest head.
    """

    logit: float
    products: PerGradient
    weights: PerGradient
    reach: PerGradient


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """What a loss with gradient ``do`` at the output gives: ``dq``, ``dk``, ``dv``, shaped like q, k and v.

    ``output``, ``lse`` and ``max_score`` are those of :class:`Result <iosim_reference.Result>`; ``magnitudes`` are for
    :func:`gradient_bound <iosim_reference.gradient_bound>`.
    """

    dq: Float
    dk: Float
    dv: Float
    output: Float
    lse: Float
    max_score: float
    magnitudes: Magnitudes


def gradients(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    do: ArrayLike,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    mask: ArrayLike | None = None,
    block_mask: BlockMask | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    head: int = 0,
) -> Gradients:
    """dQ, dK and dV of the sum of dO * O, where O is what :func:`attention <iosim_reference.attention>` gives for the same arguments.

    ``do`` has the shape of O: ``(N, dv)`` or ``(B, H, N, dv)``. dK and dV of a KV head are summed over the query heads that read it.
    A query that may attend to nothing has gradient 0 and adds nothing to dK and dV.
    Raises ``ValueError`` as attention does, for ``do`` too, and where a product or a sum of absolute values exceeds float64.

    >>> found = gradients([[1.0]], [[0.0], [1.0]], [[1.0], [3.0]], [[1.0]], scale=1.0)
    >>> found.dq.round(4).tolist(), found.dk.round(4).tolist(), found.dv.round(4).tolist()
    ([[0.3932]], [[-0.3932], [0.3932]], [[0.2689], [0.7311]])
    """
    problem = Problem.of(q, k, v, scale, Rules(causal, window, mask, block_mask), Dropout(dropout, seed, head))
    do = _like_output(do, problem)
    run = _Run(np.empty_like(do), np.empty(do.shape[:-1]), _Flow.zeros(problem), _Flow.zeros(problem), _Flow.zeros(problem))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in problem.parts():
            run.add(part, do[part.queries], problem.tau)
        reach = _reach(problem, do)
    if not np.isfinite([*run.exact.largest(), *run.products.largest(), *run.weights.largest(), run.logit]).all():
        raise ValueError("the gradients, or the absolute values that they add up, overflow float64; give smaller tensors or scale")
    magnitudes = Magnitudes(run.logit, run.products.largest(), run.weights.largest(), reach)
    return Gradients(run.exact.dq, run.exact.dk, run.exact.dv, run.output, run.lse, run.max_score, magnitudes)


@dataclass(slots=True)
class _Flow:
    """Three sums, over keys, over queries and over queries: the gradients, or the same sums of absolute values."""

    dq: Float
    dk: Float
    dv: Float

    @classmethod
    def zeros(cls, problem: Problem) -> _Flow:
        return cls(*(np.zeros_like(x) for x in (problem.q, problem.k, problem.v)))

    def add(self, part: Part, ds: Float, weights: Float, q: Float, k: Float, do: Float) -> None:
        self.dq[part.queries] = ds @ k
        self.dk[part.keys] += ds.T @ q
        self.dv[part.keys] += weights.T @ do

    def largest(self) -> PerGradient:
        return PerGradient(*(float(np.abs(x).max()) for x in (self.dq, self.dk, self.dv)))


@dataclass(slots=True)
class _Run:
    """What has been found so far."""

    output: Float
    lse: Float
    exact: _Flow
    products: _Flow
    weights: _Flow
    max_score: float = 0.0
    logit: float = 0.0

    def add(self, part: Part, do: Float, tau: float) -> None:
        scores, largest = scores_of(part, tau)
        unnormalised, l, self.lse[part.queries] = softmax(scores)
        p = unnormalised / l
        pz = part.dropped(p) / part.share
        self.output[part.queries] = pz @ part.v
        dp = _products(part, do, part.v)
        self.exact.add(part, tau * p * (dp - _mean(p, dp)), pz, part.q, part.k, do)
        self.max_score = max(self.max_score, largest)
        self.add_magnitudes(part, do, tau, p, pz, np.abs(dp))

    def add_magnitudes(self, part: Part, do: Float, tau: float, p: Float, pz: Float, dp: Float) -> None:
        do, q, k, v, tau = np.abs(do), np.abs(part.q), np.abs(part.k), np.abs(part.v), abs(tau)
        for flow, a in (self.weights, dp), (self.products, _products(part, do, v)):
            flow.add(part, tau * p * (a + _mean(p, a)), pz, q, k, do)
        self.logit = max(self.logit, float((tau * (q @ k.T)).max(where=part.pairs, initial=0.0)))


def _products(part: Part, do: Float, v: Float) -> Float:
    """Z_ij dO_i . V_j, and 0 where a pair may not attend: a product behind a mask may be too large, but not leak."""
    return part.dropped(np.where(part.pairs, do @ v.T, 0.0)) / part.share


def _mean(weights: Float, values: Float) -> Float:
    mean: Float = np.einsum("ij,ij->i", weights, values)[:, None]
    return mean


def _like_output(do: ArrayLike, problem: Problem) -> Float:
    do, shape = tensor("do", do), (*problem.q.shape[:-1], problem.v.shape[-1])
    if do.shape != shape:
        raise ValueError(f"do has shape {do.shape} but the output has {shape}")
    return do


def _reach(problem: Problem, do: Float) -> PerGradient:
    queries, keys, rows = (1 + float(np.abs(x).sum(axis=-2).max()) for x in (problem.q, problem.k, do))
    into_ds = 1 + float(np.abs(do).sum(axis=-1).max()) * (1 + float(np.abs(problem.v).max()))
    tau, share = abs(problem.tau), 1 - problem.dropout.p
    return PerGradient(tau * keys * into_ds / share, tau * problem.group * queries * into_ds / share, problem.group * rows / share)
