"""Exact attention in float64, a few query rows at a time: the values that every kernel is checked against."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim_reference.dropout import kept, threshold, whole_seed

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Window = tuple[int, int]
BlockMask = tuple[ArrayLike, int, int]

_SCORES_AT_ONCE = 2**19
"""How many scores are held at a time: 4 MiB of float64, never N x N."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What attention gives: ``output`` (..., N, dv), ``lse`` (..., N), and the largest \\|scale * q.k\\| of an allowed pair."""

    output: Float
    lse: Float
    max_score: float


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    scale: float | None = None,
    causal: bool = False,
    window: Window | None = None,
    mask: ArrayLike | None = None,
    block_mask: BlockMask | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    head: int = 0,
) -> Result:
    """O = softmax(scale * Q K^T) V and its log-sum-exp (natural log), over the pairs that :func:`allowed` gives.

    Shapes: one head, q ``(N, d)``, k ``(Nk, d)``, v ``(Nk, dv)``; or ``(B, H, N, d)`` for many, where k and v may have
    fewer heads (query head h reads head h // group). Any dtype that widens to float64. ``scale=None`` is 1/sqrt(d).
    ``dropout`` = p: after normalisation, the weights of the pairs that :func:`kept <iosim_reference.kept>` drops become 0 and
    the others are scaled by 1/(1 - p); the LSE knows nothing of it. Its random words depend on ``seed`` and on the index of the
    head: ``head`` for one, ``head`` + b H + h for many.
    A query that may attend to nothing gives O = 0 and LSE = -inf.
    Raises ``ValueError`` for other shapes, for empty or non-finite tensors, for scores beyond float64, for p outside [0, 1) and
    a seed outside [0, 2^64).

    >>> result = attention([[1.0], [1.0]], [[0.0], [1.0], [2.0]], [[1.0], [2.0], [3.0]], scale=1.0, causal=True)
    >>> result.output.ravel().round(4).tolist(), result.max_score
    ([1.7311, 2.5752], 2.0)
    """
    problem = Problem.of(q, k, v, scale, Rules(causal, window, mask, block_mask), Dropout(dropout, seed, head))
    output, lse, max_score = np.empty((*problem.q.shape[:-1], problem.v.shape[-1])), np.empty(problem.q.shape[:-1]), 0.0
    for part in problem.parts():
        scores, largest = scores_of(part, problem.tau)
        weights, l, lse[part.queries] = softmax(scores)
        output[part.queries] = part.dropped(weights) @ part.v / (l * part.share)
        max_score = max(max_score, largest)
    return Result(output, lse, max_score)


def allowed(
    n: int,
    nk: int,
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: ArrayLike | None = None,
    block_mask: BlockMask | None = None,
    rows: slice = slice(None),
) -> Bool:
    """Which (query, key) pairs may attend, for the query rows ``rows``: a boolean array ``(len(rows), nk)``.

    ``causal``: j <= i + nk - n, aligned bottom-right. ``window=(left, right)``: i + nk - n - left <= j <= i + nk - n + right,
    -1 = unbounded. ``mask``: boolean ``(n, nk)``, True = may attend. ``block_mask=(keep, Br, Bc)``: boolean ``(Tr, Tc)``.
    A pair needs every rule that is given. Raises ``ValueError`` for rules that do not fit ``n`` and ``nk``.

    >>> allowed(2, 5, causal=True).astype(int).tolist()
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    >>> int(allowed(5, 5, window=(1, 0)).sum())
    9
    """
    i, j = np.arange(n)[rows, None], np.arange(nk)[None, :]
    ahead = j - (i + nk - n)
    pairs = np.ones(ahead.shape, dtype=np.bool_)
    if causal:
        pairs &= ahead <= 0
    if window is not None:
        pairs &= _in_window(ahead, window)
    if mask is not None:
        pairs &= _boolean("mask", mask, (n, nk))[rows]
    if block_mask is not None:
        keep, br, bc = block_mask
        if br < 1 or bc < 1:
            raise ValueError(f"block_mask needs blocks of at least 1 x 1, not {br} x {bc}")
        pairs &= _boolean("block_mask", keep, (math.ceil(n / br), math.ceil(nk / bc)))[i // br, j // bc]
    return pairs


class Part(NamedTuple):
    """Some query rows of one head. ``kept`` are the pairs that dropout leaves, None for all; what is left is divided by ``share``."""

    queries: tuple[int | slice, ...]
    keys: tuple[int, ...]
    q: Float
    k: Float
    v: Float
    pairs: Bool
    kept: Bool | None
    share: float

    def dropped(self, weights: Float) -> Float:
        """Weights (or their gradients) with 0 where a pair is dropped; not yet divided by ``share``."""
        return weights if self.kept is None else weights * self.kept


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """What one call of :func:`attention` or of its gradients asks for, checked: float64 tensors, a scale, rules and dropout."""

    q: Float
    k: Float
    v: Float
    tau: float
    group: int
    rules: Rules
    dropout: Dropout

    @classmethod
    def of(cls, q: ArrayLike, k: ArrayLike, v: ArrayLike, scale: float | None, rules: Rules, dropout: Dropout) -> Problem:
        """The problem of the caller's arguments; raises ``ValueError`` for what cannot be meant, a seed that is not needed included."""
        tensors = tensor("q", q), tensor("k", k), tensor("v", v)
        group = _heads_per_kv_head(*tensors)
        threshold(dropout.p)
        whole_seed(dropout.seed, dropout.head)
        return cls(*tensors, _scale(scale, tensors[0].shape[-1]), group, rules, dropout)

    def parts(self) -> Iterator[Part]:
        """The problem a few query rows of one head at a time: never N x N pairs at once."""
        n, nk = self.q.shape[-2], self.k.shape[-2]
        for rows in _row_blocks(n, nk):
            pairs = self.rules.pairs(n, nk, rows)
            for number, head in enumerate(np.ndindex(self.q.shape[:-2])):
                queries, keys = (*head, rows), (*head[:-1], head[-1] // self.group) if head else ()
                left = self.dropout.kept(n, nk, number, rows)
                yield Part(queries, keys, self.q[queries], self.k[keys], self.v[keys], pairs, left, 1 - self.dropout.p)


class Rules(NamedTuple):
    """Which pairs may attend, as :func:`allowed` takes it."""

    causal: bool
    window: Window | None
    mask: ArrayLike | None
    block_mask: BlockMask | None

    def pairs(self, n: int, nk: int, rows: slice) -> Bool:
        """The allowed pairs of some query rows."""
        return allowed(n, nk, **self._asdict(), rows=rows)


class Dropout(NamedTuple):
    """The probability ``p`` that a pair is dropped, the seed, and the index of the first head."""

    p: float
    seed: int
    head: int

    def kept(self, n: int, nk: int, number: int, rows: slice) -> Bool | None:
        """The pairs that are left of some query rows of head ``head + number``; None for all."""
        return kept(n, nk, self.p, seed=self.seed, head=self.head + number, rows=rows) if self.p else None


def scores_of(part: Part, tau: float) -> tuple[Float, float]:
    """Scores with -inf where a pair may not attend, and the largest \\|score\\| where it may (0.0 if nowhere)."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = part.q @ part.k.T
        scores *= tau
        largest = float((np.abs(scores) * part.pairs).max())
    if not math.isfinite(largest):
        raise ValueError("scale * q.k overflows float64; give smaller q, k or scale")
    np.copyto(scores, -np.inf, where=~part.pairs)
    return scores, largest


def softmax(scores: Float) -> tuple[Float, Float, Float]:
    """Weights that are not yet divided by l, l as a column, and the log-sum-exp. Overwrites ``scores``, the largest array here."""
    m = scores.max(axis=1, keepdims=True)
    empty = np.isneginf(m)
    m[empty] = 0.0  # -inf - (-inf) would be NaN
    scores -= m
    weights = np.exp(scores, out=scores)
    l = np.where(empty, 1.0, weights.sum(axis=1, keepdims=True))
    return weights, l, np.where(empty, -np.inf, m + np.log(l))[:, 0]


def tensor(name: str, values: ArrayLike) -> Float:
    """An argument as finite float64 of two or four axes; raises ``ValueError`` with its name."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim not in (2, 4):
        raise ValueError(f"{name} has shape {array.shape}; give (N, d) for one head or (B, H, N, d) for many")
    if array.size == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}; every axis needs at least 1")
    finite = np.isfinite(array)
    if not finite.all():
        bad = tuple(np.argwhere(~finite)[0].tolist())
        raise ValueError(f"{name}{list(bad)} is {array[bad]}; every element must be finite")
    return array


def _heads_per_kv_head(q: Float, k: Float, v: Float) -> int:
    """How many query heads share a KV head; 1 without head axes."""
    if q.ndim != k.ndim or q.ndim != v.ndim:
        raise ValueError(f"q, k and v must have as many axes each, not {q.ndim}, {k.ndim} and {v.ndim}")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has d = {q.shape[-1]} but k has d = {k.shape[-1]}")
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(f"k has shape {k.shape} but v has {v.shape}; all axes but the last must agree")
    if q.ndim == 2:
        return 1
    if q.shape[0] != k.shape[0] or q.shape[1] % k.shape[1]:
        raise ValueError(f"q has (B, H) = {q.shape[:2]} but k has {k.shape[:2]}; B must agree and k's heads divide q's")
    return int(q.shape[1] // k.shape[1])


def _scale(scale: float | None, d: int) -> float:
    # "scale or ..." would take an explicit 0.0 for the default.
    tau = 1 / math.sqrt(d) if scale is None else scale
    if not math.isfinite(tau):
        raise ValueError(f"scale must be a finite number or None (1/sqrt(d)), not {scale}")
    return tau


def _in_window(ahead: NDArray[np.int64], window: Window) -> Bool:
    left, right = window
    if left < -1 or right < -1:
        raise ValueError(f"window must be (left, right) with both >= -1 (unbounded), not {window}")
    inside = np.ones(ahead.shape, dtype=np.bool_)
    if left >= 0:
        inside &= ahead >= -left
    if right >= 0:
        inside &= ahead <= right
    return inside


def _boolean(name: str, values: ArrayLike, shape: tuple[int, int]) -> Bool:
    array = np.asarray(values)
    if array.dtype != np.bool_:
        raise ValueError(f"{name} must be boolean (True = may attend), not {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape} but the problem needs {shape}")
    return array


def _row_blocks(n: int, nk: int) -> Iterator[slice]:
    rows = max(1, _SCORES_AT_ONCE // nk)
    return (slice(start, min(start + rows, n)) for start in range(0, n, rows))
