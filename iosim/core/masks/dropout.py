"""Which pairs of a query and a key survive dropout: a function of their indices, so that the mask is never stored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Bool, Index
from iosim.core.masks.philox import MASK, philox4x32
from iosim.core.units import whole

LANES = 4  # words, and so columns, of one counter


@dataclass(frozen=True, slots=True)
class Keep:
    """Does the pair of query ``row`` and key ``col`` survive dropout with probability ``p`` of being dropped?

    It does if word ``col % 4`` of Philox4x32-10 with counter ``(row, col // 4, head, 0)`` and key ``(seed & 0xffffffff, seed >> 32)``
    is at least ``threshold``. Every tiling, order and pass sees the same mask, and nothing but the seed need be saved: the state R
    of Algorithm 2, line 1 (Dao et al. 2022). ``row`` and ``col // 4`` count modulo 2^32, as words of a counter do.

    With a ``group`` of heads packed, query-major, ``row`` stands for query ``row // group`` of head ``head + row % group``.
    ``p`` lies in [0, 1), ``seed`` in [0, 2^64), ``head`` in [0, 2^32); raises :class:`iosim.core.errors.BadInput` otherwise.

    >>> keep = Keep(0.5, seed=1, head=0)
    >>> keep(np.arange(2)[:, None], np.arange(6)[None, :]).astype(int)
    array([[1, 1, 1, 1, 1, 0],
           [1, 1, 0, 1, 1, 1]])
    """

    p: float
    seed: int
    head: int
    group: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", checked_p(self.p))
        object.__setattr__(self, "seed", _unsigned("seed", self.seed, 64))
        object.__setattr__(self, "head", _unsigned("head", self.head, 32))

    def __call__(self, rows: Index, cols: Index) -> Bool:
        """For every pair of ``rows`` (r, 1) and ``cols`` (1, c), in any order and with any gaps: True where it is kept, (r, c)."""
        groups, place = _cover(np.asarray(cols, np.int64).ravel())
        words = philox4x32(rows // self.group, groups, self.head + rows % self.group, 0, key=(self.seed & MASK, self.seed >> 32))
        keep = np.stack(words, axis=-1) >= self.threshold
        return keep.reshape(len(rows), LANES * len(groups))[:, place]

    @property
    def threshold(self) -> int:
        """The least word that is kept: ``p`` 2^32, a half rounded to even; 2^32, above every word, where ``p`` rounds to 1."""
        return round(self.p * 2**32)

    @property
    def scale(self) -> float:
        """What a kept weight is multiplied by, 1 / (1 - p), so that its expectation stays."""
        return 1 / (1 - self.p)


def checked_p(p: float) -> float:
    """``p`` as a ``float`` in [0, 1); raises :class:`BadInput` for anything else, NaN, booleans and strings among it.

    >>> checked_p(np.float64(0.25))
    0.25
    """
    real = isinstance(p, int | float | np.integer | np.floating) and not isinstance(p, bool)
    number = float(p) if real and 0 <= p < 1 else math.nan
    if not number < 1:  # a wider float below 1 may round to 1
        raise BadInput(f"the dropout probability must be a number from 0 to below 1, not {p!r}")
    return number


def _unsigned(name: str, value: int, bits: int) -> int:
    number = whole(name, value, 0)
    if number >> bits:
        raise BadInput(f"{name} must be a whole number below 2**{bits}, not {number}")
    return number


def _cover(cols: Index) -> tuple[Index, slice | Index]:
    """The groups of four columns that hold ``cols``, and the place of each of ``cols`` among the columns of these groups."""
    if len(cols) and (np.diff(cols) == 1).all():  # as in any tile; sorting costs more than a round
        first, last = int(cols[0]), int(cols[-1])
        begin = first % LANES
        return np.arange(first // LANES, last // LANES + 1), slice(begin, begin + len(cols))
    groups, inverse = np.unique(cols // LANES, return_inverse=True)
    return groups, inverse * LANES + cols % LANES
