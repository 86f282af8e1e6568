"""Softmax in three, four and again three accesses per element, and the merge that makes attention tileable.

========  =====================  =======  ======  ========
function  passes over x          loads    stores  accesses
========  =====================  =======  ======  ========
naive     sum, scale             2        1       3
safe      max, sum, scale        3        1       4
online    max and sum, scale     2        1       3
========  =====================  =======  ======  ========

Accesses are per element. Source: Milakov & Gimelshein 2018, "Online normalizer calculation for softmax".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from types import EllipsisType

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """What a softmax must remember of the logits x that it has seen, and of the values v behind them.

    ``m`` = max(x), ``l`` = sum exp(x - m), ``o`` = sum exp(x - m) v, not yet divided by ``l``. For one row ``m`` and ``l``
    are numbers and ``o`` is ``(dv,)``; for r rows they are ``(r, 1)`` and ``(r, dv)``. Nothing seen is :data:`IDENTITY`.
    """

    m: float | Float
    l: float | Float
    o: float | Float = 0.0

    @property
    def output(self) -> Float:
        """The softmax-weighted mean of the values; 0 where nothing was seen."""
        return np.divide(self.o, _nonzero(self.l))

    @property
    def lse(self) -> Float:
        """log sum exp(x), the natural logarithm; -inf where nothing was seen."""
        return np.add(self.m, np.log(_nonzero(self.l)))


IDENTITY = State(-np.inf, 0.0, 0.0)
"""The state of no logits at all: ``merge(IDENTITY, x)`` is exactly ``x``."""


def state(x: ArrayLike, v: ArrayLike | None = None) -> State:
    """The :class:`State` of one tile: logits ``(c,)`` or ``(r, c)``, values ``(c, dv)`` if any; -inf is a masked logit.

    Raises ``ValueError`` for a NaN or +inf logit.

    >>> tile = state([0.0, 0.0], [[1.0], [3.0]])
    >>> tile.m.item(), tile.l.item(), tile.o.item(), tile.output.item()
    (0.0, 2.0, 4.0, 2.0)
    """
    logits = _logits(x)
    m = logits.max(axis=-1, keepdims=True, initial=-np.inf)
    p = _exp_below(logits, m)
    return State(m, p.sum(axis=-1, keepdims=True), 0.0 if v is None else p @ np.asarray(v, dtype=np.float64))


def merge(a: State, b: State) -> State:
    """The state of the logits of ``a`` and of ``b`` together: associative, commutative, with identity :data:`IDENTITY`.

    Each part is rescaled by exp(m_old - m_new), never by its inverse: FlashAttention-2's printed line has a stray -1.

    >>> both = merge(state([0.0, 0.0], [[1.0], [3.0]]), state([np.log(3), 0.0], [[7.0], [11.0]]))
    >>> round(both.l.item(), 12), round(both.o.item(), 12), round(both.output.item(), 12)
    (2.0, 12.0, 6.0)
    """
    m = np.maximum(a.m, b.m)
    alpha, beta = _exp_below(a.m, m), _exp_below(b.m, m)
    return State(m, alpha * a.l + beta * b.l, alpha * a.o + beta * b.o)


def naive(x: ArrayLike) -> Float:
    """exp(x) / sum exp(x) along the last axis, as written in textbooks: NaN as soon as a logit exceeds about 709.

    >>> naive([1000.0, 1000.0])
    array([nan, nan])
    """
    x = _logits(x)
    y, l = np.empty_like(x), np.zeros(1)
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is what this function is here to show
        for j in _columns(x):
            l = l + np.exp(x[j])
        for j in _columns(x):
            y[j] = np.exp(x[j]) / l
    return y


def safe(x: ArrayLike) -> Float:
    """Softmax along the last axis with the maximum taken off first: right for any finite logits, at one more pass.

    >>> safe([1000.0, 1000.0])
    array([0.5, 0.5])
    """
    x = _logits(x)
    y, m, l = np.empty_like(x), np.full(1, -np.inf), np.zeros(1)
    for j in _columns(x):
        m = np.maximum(m, x[j])
    for j in _columns(x):
        l = l + _exp_below(x[j], m)
    for j in _columns(x):
        y[j] = _exp_below(x[j], m) / _nonzero(l)
    return y


def online(x: ArrayLike) -> Float:
    """Softmax along the last axis with maximum and sum found in one pass, by merging element after element.

    >>> online([1000.0, 1000.0])
    array([0.5, 0.5])
    """
    x = _logits(x)
    y = np.empty_like(x)
    seen = reduce(merge, (state(x[j]) for j in _columns(x)), IDENTITY)
    for j in _columns(x):
        y[j] = _exp_below(x[j], seen.m) / _nonzero(seen.l)
    return y


def _logits(x: ArrayLike) -> Float:
    # asanyarray: a subclass that counts its accesses must survive, or nobody could check the table above.
    logits: Float = np.asanyarray(x, dtype=np.float64)
    if logits.ndim not in (1, 2):
        raise ValueError(f"logits must be a vector (N,) or rows (r, N), not of shape {logits.shape}")
    if np.isnan(logits).any() or np.isposinf(logits).any():
        raise ValueError("logits must be finite, or -inf where masked; found NaN or +inf")
    return logits


def _columns(x: Float) -> Iterator[tuple[EllipsisType, slice]]:
    """The index of each column, kept as an axis of length 1 so that one row and many rows read alike."""
    return ((..., slice(j, j + 1)) for j in range(x.shape[-1]))


def _exp_below(x: float | Float, m: float | Float) -> Float:
    """exp(x - m), and 0 where nothing but -inf was seen: (-inf) - (-inf) would be NaN."""
    return np.exp(np.subtract(x, np.where(np.isneginf(m), 0.0, m)))


def _nonzero(l: float | Float) -> Float:
    return np.where(np.equal(l, 0.0), 1.0, l)
