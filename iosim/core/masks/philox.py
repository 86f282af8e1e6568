"""Philox4x32-10: random words as a function of a counter and a key, so that any of them can be had at any time, in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
ROUNDS = 10
WEYL = 0x9E3779B9, 0xBB67AE85
MASK = 0xFFFFFFFF
# Arrays without axes: a NumPy scalar of the same value is converted anew in every operation, which makes small tiles a sixth slower.
MULTIPLIERS = np.array(0xD2511F53, np.uint64), np.array(0xCD9E8D57, np.uint64)
HALF, LOW = np.array(32, np.uint64), np.array(MASK, np.uint64)


def philox4x32(c0: ArrayLike, c1: ArrayLike, c2: ArrayLike, c3: ArrayLike, key: tuple[int, int]) -> tuple[U32, U32, U32, U32]:
    """The four random words of every counter ``(c0, c1, c2, c3)`` under ``key``, after ten rounds.

    The counter's words are integers that broadcast against each other; each result has their common shape. Words of counter
    and key count modulo 2^32. Equals ``philox4x32`` with 10 rounds of Random123 (Salmon, Moraes, Dror and Shaw, "Parallel random
    numbers: as easy as 1, 2, 3", SC11), whose known answer for zeros this is:

    >>> [f"{word:08x}" for word in philox4x32(0, 0, 0, 0, key=(0, 0))]
    ['6627e8d5', 'e169c58d', 'bc57ac4c', '9b00dbd8']
    """
    x0, x1, x2, x3 = (_word(c) for c in (c0, c1, c2, c3))
    for k0, k1 in _round_keys(*key):
        # Nothing is broadcast before it must be: the first rounds of rows (r, 1) and columns (1, c) cost r + c, not r c.
        p0, p2 = x0 * MULTIPLIERS[0], x2 * MULTIPLIERS[1]
        x0, x1, x2, x3 = (p2 >> HALF) ^ (x1 ^ k0), p2 & LOW, (p0 >> HALF) ^ (x3 ^ k1), p0 & LOW
    return _u32(x0), _u32(x1), _u32(x2), _u32(x3)


def _word(counter: ArrayLike) -> U64:
    return np.asarray(counter).astype(np.uint64) & LOW


def _u32(word: U64) -> U32:
    return np.asarray(word, np.uint32)


def _round_keys(k0: int, k1: int) -> list[tuple[U64, U64]]:
    return [(_key(k0 + i * WEYL[0]), _key(k1 + i * WEYL[1])) for i in range(ROUNDS)]


def _key(word: int) -> U64:
    return np.array(word & MASK, np.uint64)
