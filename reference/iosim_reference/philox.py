"""Philox4x32-10: random words that are a function of a counter and a key, so that any of them can be asked for in any order.

Source: Salmon, Moraes, Dror & Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", and its library Random123.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Words = NDArray[np.uint64]

_LOW, _HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ROUNDS = 10


def philox(counter: tuple[ArrayLike, ArrayLike, ArrayLike, ArrayLike], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Four random words for each counter: shape ``(..., 4)`` for four words of counter that broadcast to ``(...)``.

    Raises ``ValueError`` unless every word is a whole number from 0 to 2^32 - 1.

    >>> [f"{word:08x}" for word in philox((0, 0, 0, 0), key=(0, 0)).tolist()]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    a, b, c, d = (_words("counter", word) for word in counter)
    k0, k1 = (_words("key", word) for word in key)
    for _ in range(_ROUNDS):
        a, b, c, d = _round(a, b, c, d, k0, k1)
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return np.stack(np.broadcast_arrays(a, b, c, d), axis=-1).astype(np.uint32)


def _round(a: Words, b: Words, c: Words, d: Words, k0: Words, k1: Words) -> tuple[Words, Words, Words, Words]:
    # A product of two words is below 2^64: uint64 holds it whole.
    of_a, of_c = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
    return (of_c >> _HALF) ^ b ^ k0, of_c & _LOW, (of_a >> _HALF) ^ d ^ k1, of_a & _LOW


def _words(name: str, values: ArrayLike) -> Words:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or (array.size and (array.min() < 0 or array.max() > _LOW)):
        raise ValueError(f"{name} needs whole numbers from 0 to 2^32 - 1, not {values!r}")
    return array.astype(np.uint64)
