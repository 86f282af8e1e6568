"""How far a tiled kernel may be from the float64 oracle: rounding grows with the logits and with the rescalings.

A logit s carries an absolute error of some eps * |s|, which exp turns into a relative error of the weight; every visited
key tile rescales o and l once more. Hence no fixed tolerance is right: it must know max|S| and ceil(Nk / Bc).
The constants were measured: C over N = 64..1024, d = 16..128 and input scales 0.1..8, the term of the rescalings up to N = 16384.
"""

from __future__ import annotations

import math

import numpy as np

_ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53}
_OUTPUT_LOGITS = {"float32": 16, "float64": 64}
_LSE_LOGITS = {"float32": 8, "float64": 64}


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

    >>> lse_bound(max_score=4.0, nk=1, bc=1) * 2**24
    42.0
    """
    eps = _checked(dtype, max_score, nk, bc)
    return eps * (_LSE_LOGITS[dtype] * (1 + max_score + math.log(nk)) + 2 * math.ceil(nk / bc))


def _checked(dtype: str, max_score: float, nk: int, bc: int, max_v: float = 0.0) -> float:
    if dtype not in _ROUNDING:
        raise ValueError(f"no bound is known for arithmetic in {dtype!r}; known: {', '.join(_ROUNDING)}")
    if not (max_score >= 0 and max_v >= 0 and nk >= 1 and bc >= 1):
        raise ValueError(f"need max_score, max_v >= 0 and nk, bc >= 1, not {max_score}, {max_v}, {nk}, {bc}")
    return _ROUNDING[dtype]
