"""How far a tiled kernel may be from the float64 oracle: rounding grows with the logits and with the rescalings.

A logit s carries an absolute error of some eps * |s|, which exp turns into a relative error of the weight; every visited
key tile rescales o and l once more. Hence no fixed tolerance is right: it must know max|S| and ceil(Nk / Bc).
The constants of O and LSE were measured: C over N = 64..1024, d = 16..128 and input scales 0.1..8, the term of the rescalings up
to N = 16384. Those of the gradients are counted, rounding by rounding.
"""

from __future__ import annotations

import math

import numpy as np

from iosim_reference.gradients import Gradients, PerGradient

_ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53}
_OUTPUT_LOGITS = {"float32": 16, "float64": 64}
_LSE_LOGITS = {"float32": 8, "float64": 64}
_EXP = 8
"""How many roundings an exponential or a logarithm is worth: 4 units in the last place."""


def output_bound(max_score: float, nk: int, bc: int, max_v: float, dtype: str = "float32") -> float:
    """The largest |dO| that rounding explains: eps * (C (1 + max|S|) + 2 ceil(Nk / Bc)) * max|V|, and the smallest normal number.

    ``max_score`` = max|S| is :attr:`Result.max_score <iosim_reference.Result>`; ``dtype`` is that of the arithmetic: float32
    (eps = 2^-24, C = 16) or float64 (2^-53, 64). Raises ``ValueError`` for another dtype, negative sizes or an empty tile.

    >>> output_bound(max_score=4.0, nk=1024, bc=64, max_v=1.0) * 2**24
    112.0
    """
    eps = _checked(dtype, max_score, nk, bc, max_v)
    underflow = float(np.finfo(dtype).smallest_normal)
    return eps * (_OUTPUT_LOGITS[dtype] * (1 + max_score) + 2 * math.ceil(nk / bc)) * max_v + underflow


def lse_bound(max_score: float, nk: int, bc: int, dtype: str = "float32") -> float:
    """The largest |dLSE| that rounding explains: eps * (C (1 + max|S| + ln Nk) + 2 ceil(Nk / Bc)), C = 8 (float32) or 64 (float64).

    Without the last term it fails for many tiles: near-equal logits, Nk = 16384 and Bc = 1 were seen to err by 97 eps.
    An LSE carries a logit's rounding whole: where products cancel, ``max_score`` must be the largest scale |q|.|k| (for one key of
    13 elements, the error was seen to be 6 times what max|S| allows).

    >>> lse_bound(max_score=4.0, nk=1, bc=1) * 2**24
    42.0
    """
    eps = _checked(dtype, max_score, nk, bc)
    return eps * (_LSE_LOGITS[dtype] * (1 + max_score + math.log(nk)) + 2 * math.ceil(nk / bc))


def gradient_bound(exact: Gradients, blocks: tuple[int, int], dtype: str = "float32", *, forward_cols: int | None = None) -> PerGradient:
    """The largest errors of dQ, dK and dV that rounding explains in a backward pass in ``dtype`` over blocks of (Br, Bc) pairs.

    Holds for a pass over the inputs of ``exact`` that recomputes P as exp(S - LSE) or exp(S - m) / l from the forward pass's statistics,
    takes D = rowsum(dO * O) of the stored O, all in ``dtype``, and adds up the products of tiles in any order. ``forward_cols`` is the
    forward pass's Bc where that was another. Blocks (N, Nk) are the untiled pass.

    Derivation: count roundings. Each moves the addends that pass it by a factor within e^(+-u), u = 2^-24 or 2^-53, so r of them
    cost a sum (e^(ru) - 1) times that of its absolute addends. With L = max scale |q|.|k|, E = 8 for an exp or a log (4 ulp),
    b = forward Bc and t = ceil(Nk / b):

    - A weight is worth x = (d + 8) L + E: a logit is off by (d + 2) L u, and the argument of exp, formed of numbers up to 2 L and perhaps
      in base 2, by 6 L u. Rescalings telescope: all their arguments together add no more.
    - l is worth x + b + (E + 5) t: b for the sum in a tile, and an exp and at most five roundings for each tile; LSE = m + log l is
      worth 3 L + (E + 3) ln Nk more. O holds weights over l, 2 x + b + (2 E + 5) t; P holds x, the LSE and an argument with 3 ln Nk more.
      Both are below w = 2 (d + 8) L + 3 L + 2 E + b + (2 E + 5) t + (E + 6) ln Nk + 2.
    - An addend of dS_ij holds two weights or fewer (of dV_j, one), each common to all x of dO_ix V_jx: they meet ``magnitudes.weights``.
      Other roundings meet each dO_ix V_jx by itself, hence ``magnitudes.products``: b + 5 t in O, dv in D or dP, 11 for Z, 1/l,
      P (dP - D), scale and stores, and the sum of tiles, Bc + ceil(Nk / Bc) for dQ and Br + group * ceil(N / Br) for dK and dV.
    - With r of these, the error is below (e^(2wu) - 1) weights + e^(2wu) (e^(ru) - 1) products, for dV with w instead of 2 w.
    - What underflows is off by less than the smallest normal number, at most 8 (group N + Nk + dv) times for each unit of 1 + reach.
    - u is taken 1 % larger for terms of second order, supposing (d + 8) u < 0.01. ``exact`` is an untiled pass in float64 itself: the same
      bound for that is added.

    Raises ``ValueError`` for another dtype or an empty block.

    >>> from iosim_reference import gradients
    >>> exact = gradients([[1.0]], [[0.0], [1.0]], [[1.0], [3.0]], [[1.0]], scale=1.0)
    >>> [round(bound * 2**24) for bound in gradient_bound(exact, (1, 2))]
    [667, 663, 63]
    """
    n, nk = exact.dq.shape[-2], exact.dk.shape[-2]
    kernel = _rounding(exact, blocks, blocks[1] if forward_cols is None else forward_cols, dtype)
    oracle = _rounding(exact, (n, nk), nk, "float64")
    return PerGradient(*(a + b for a, b in zip(kernel, oracle, strict=True)))


def _rounding(exact: Gradients, blocks: tuple[int, int], cols: int, dtype: str) -> PerGradient:
    n, nk, dv, size = exact.dq.shape[-2], exact.dk.shape[-2], exact.dv.shape[-1], exact.magnitudes
    u = 1.01 * _checked(dtype, size.logit, nk, min(*blocks, cols))
    group = math.prod(exact.dq.shape[:-2]) // math.prod(exact.dk.shape[:-2])
    w = _weight_roundings(exact, cols)
    in_ds = dv + _chain(nk, cols, 5)
    over_keys, over_queries = 11 + _chain(nk, blocks[1]), 11 + _chain(n, blocks[0], group)
    rounding = PerGradient(
        _moved(2 * w * u, (in_ds + over_keys) * u, size.weights.dq, size.products.dq),
        _moved(2 * w * u, (in_ds + over_queries) * u, size.weights.dk, size.products.dk),
        _moved(w * u, over_queries * u, size.weights.dv, size.products.dv),
    )
    underflow = 8 * float(np.finfo(dtype).smallest_normal) * (group * n + nk + dv)
    return PerGradient(*(moved + underflow * (1 + reach) for moved, reach in zip(rounding, size.reach, strict=True)))


def _moved(weights_by: float, products_by: float, weights: float, products: float) -> float:
    """(e^w - 1) weights + e^w (e^r - 1) products; an exponent beyond 700 stays there, where nothing is left to tell."""
    of_weights, of_products = (math.expm1(min(exponent, 700.0)) for exponent in (weights_by, products_by))
    return of_weights * weights + (1 + of_weights) * (of_products * products)


def _weight_roundings(exact: Gradients, cols: int) -> float:
    """w of :func:`gradient_bound`."""
    nk, d = map(int, exact.dk.shape[-2:])
    logit = exact.magnitudes.logit
    return (2 * d + 19) * logit + 2 * _EXP + _chain(nk, cols, 2 * _EXP + 5) + (_EXP + 6) * math.log(nk) + 2


def _chain(size: int, block: int, a_tile: int = 1) -> int:
    """The roundings of a sum over ``size`` addends: one for each in a block, and ``a_tile`` for each block."""
    return min(block, size) + a_tile * math.ceil(size / block)


def _checked(dtype: str, max_score: float, nk: int, bc: int, max_v: float = 0.0) -> float:
    if dtype not in _ROUNDING:
        raise ValueError(f"no bound is known for arithmetic in {dtype!r}; known: {', '.join(_ROUNDING)}")
    if not (max_score >= 0 and max_v >= 0 and nk >= 1 and bc >= 1):
        raise ValueError(f"need max_score, max_v >= 0 and nk, bc >= 1, not {max_score}, {max_v}, {nk}, {bc}")
    return _ROUNDING[dtype]
