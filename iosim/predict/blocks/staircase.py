"""Staircases: of many ways to do a thing, those that move fewer words than all that need no more room."""

from __future__ import annotations

from math import isqrt

import numpy as np

from iosim.core.errors import BadInput
from iosim.predict.sizes import Ints

MOST = 2**62


def lowest(sram: Ints, words: Ints, *ties: Ints) -> Ints:
    """The places of the steps, by rising ``sram``: each moves fewer ``words`` than all before it; equals are told apart by ``ties``.

    >>> lowest(np.array([7, 3, 5, 3]), np.array([1, 4, 4, 6]))
    array([1, 0])
    """
    order = np.lexsort((*reversed(ties), words, sram))
    if not len(order):
        return order
    least = np.minimum.accumulate(words[order])
    return order[np.diff(least, prepend=least[0] + 1) < 0]


def step_at(steps: Ints, sram: Ints) -> Ints:
    """The last of ``steps``, which rise, that is no more than each ``sram``, as an index; -1 where all are.

    >>> step_at(np.array([3, 7]), np.array([2, 3, 6, 7, 9]))
    array([-1,  0,  0,  1,  1])
    """
    return np.asarray(np.searchsorted(steps, sram, side="right") - 1)


def smallest_blocks(*lengths: int) -> Ints:
    """For every number of tiles that each of ``lengths`` can be cut into, the smallest blocks that do.

    There are less than 2 sqrt(length) + 1 of each length.

    >>> smallest_blocks(10)
    array([ 1,  2,  3,  4,  5, 10])
    """
    return np.unique(np.concatenate([_smallest(length) for length in lengths]))


def _smallest(length: int) -> Ints:
    """A block beyond the square root cuts into fewer tiles than that, or one more: so all counts are few, or those of a few rows."""
    few = np.arange(1, isqrt(length) + 2)
    counts = np.concatenate([few, -(-length // few)])
    return -(-length // counts)


def check_countable(most: int) -> None:
    """Refuse problems some of whose blocks move more words than 64 bits hold with a bit to spare: ``most``."""
    if most > MOST:
        raise BadInput(f"some blocks move {float(most):.1e} words, more than 64 bits count safely; ask for a smaller problem")
