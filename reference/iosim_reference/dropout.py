"""Which pairs dropout keeps: a function of seed, head, row and column alone, so that no tiling or order of visits changes it."""

from __future__ import annotations

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from iosim_reference.philox import philox

Bool = NDArray[np.bool_]


def kept(n: int, nk: int, p: float, *, seed: int, head: int, rows: slice = slice(None)) -> Bool:
    """Which (query, key) pairs of one head survive dropout, for the query rows ``rows``: a boolean array ``(len(rows), nk)``.

    Pair (row, column) is kept iff word ``column % 4`` of philox(counter = (row, column // 4, head, 0), key = (low, high 32 bits
    of ``seed``)) is at least p * 2^32, rounded half to even: it is dropped with probability ``p`` to within 2^-33, and p = 0
    keeps all. Rows and columns are those of the whole problem. Attention scales what is kept by 1/(1 - p).
    Raises ``ValueError`` unless p is in [0, 1), seed in [0, 2^64), head in [0, 2^32) and both sizes in [1, 2^32].

    >>> kept(3, 6, 0.5, seed=1, head=0).astype(int).tolist()
    [[1, 1, 1, 1, 1, 0], [1, 1, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]]
    >>> kept(3, 6, 0.5, seed=1, head=0, rows=slice(2, 3)).astype(int).tolist()
    [[0, 1, 1, 1, 1, 1]]
    """
    least = threshold(p)
    seed, head = whole_seed(seed, head)
    n, nk = _whole("n", n, 1, 2**32), _whole("nk", nk, 1, 2**32)
    row, fours = np.arange(n)[rows, None], np.arange(-(-nk // 4))
    words = philox((row, fours, head, 0), key=(seed & 0xFFFFFFFF, seed >> 32))
    return words.reshape(len(row), 4 * len(fours))[:, :nk] >= least


def threshold(p: float) -> int:
    """The smallest word that is kept: p * 2^32, rounded half to even. Raises ``ValueError`` unless p is in [0, 1).

    >>> threshold(0.1)
    429496730
    """
    if not 0 <= p < 1:
        raise ValueError(f"dropout must be a probability in [0, 1), not {p}")
    return round(float(p) * 2**32)


def whole_seed(seed: SupportsIndex, head: SupportsIndex) -> tuple[int, int]:
    """Both as integers. Raises ``ValueError`` unless the seed is one in [0, 2^64) and the head in [0, 2^32).

    >>> whole_seed(7, 0)
    (7, 0)
    """
    return _whole("seed", seed, 0, 2**64 - 1), _whole("head", head, 0, 2**32 - 1)


def _whole(name: str, value: SupportsIndex, least: int, most: int) -> int:
    if not hasattr(value, "__index__") or not least <= operator.index(value) <= most:
        raise ValueError(f"{name} must be a whole number from {least} to {most}, not {value}")
    return operator.index(value)
