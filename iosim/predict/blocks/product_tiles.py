"""One matrix product in tiles, as a mapping tool counts it: room for tiles of its three matrices alone.

C (m, n) = A (m, k) B (k, n). Whatever the loops, one matrix has a tile on chip, which stays while the third rank runs past it; of the other
two there are, at each step of that rank, a line as long as the tile's shorter side, and one word that meets it. So a tile of a x b takes
a b + min(a, b) + 1 words. Which matrix stays, and its tile, are searched. Deeper nests gain nothing: the tests go through all nests of two
loops a rank on small products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from iosim.predict.blocks.staircase import lowest, smallest_blocks, step_at
from iosim.predict.sizes import Ints, ceil_div


class Steps(NamedTuple):
    """The fewest ``words`` from each ``sram`` on: the first rises, the second falls."""

    sram: Ints
    words: Ints


def product_steps(m: int, k: int, n: int) -> Steps:
    """The fewest words that a product moves at every SRAM: A and B read, C written, and read again where its sums are not yet whole.

    >>> product_steps(4, 1, 4)  # from 6 words on A stays whole
    Steps(sram=array([3, 4, 6]), words=array([36, 28, 24]))
    """
    a, b, c = m * k, k * n, m * n
    every = (
        _staying(m, k, lambda down, deep: a + down * b + (2 * deep - 1) * c),
        _staying(n, k, lambda across, deep: b + across * a + (2 * deep - 1) * c),
        _staying(m, n, lambda down, across: c + across * a + down * b),
    )
    sram, words = (np.concatenate(parts) for parts in zip(*every, strict=True))
    keep = lowest(sram, words)
    return Steps(sram[keep], words[keep])


def _staying(height: int, width: int, words: Callable[[Ints, Ints], Ints]) -> Steps:
    """Every tile of the matrix that stays, ``height`` x ``width``; ``words`` are told how many tiles each rank is cut into."""
    high, wide = smallest_blocks(height)[:, None], smallest_blocks(width)
    sram = high * wide + np.minimum(high, wide) + 1
    return Steps(sram.ravel(), words(np.asarray(ceil_div(height, high)), np.asarray(ceil_div(width, wide))).ravel())


def in_turn(first: Steps, second: Steps) -> Steps:
    """Both, one after the other: in the room of either, the words of both."""
    sram = np.union1d(first.sram, second.sram)
    sram = sram[sram >= max(first.sram[0], second.sram[0])]
    return Steps(sram, first.words[step_at(first.sram, sram)] + second.words[step_at(second.sram, sram)])
