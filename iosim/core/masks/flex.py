"""FlexAttention's layout of a block mask: for each tile row, how many key tiles and which."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Index, integers

Int32 = NDArray[np.int32]


class Flex(NamedTuple):
    """The four int32 arrays of PyTorch's ``BlockMask`` for one head (B = H = 1, without those two axes).

    ``kv_*`` list the partial tiles, in which ``mask_mod`` is applied, ``full_kv_*`` the full ones. ``*_num_blocks`` have
    shape ``(Tr,)``; ``*_indices`` have shape ``(Tr, Tc)``: the columns of a row in rising order, then zeros.
    """

    kv_num_blocks: Int32
    kv_indices: Int32
    full_kv_num_blocks: Int32
    full_kv_indices: Int32


def lists(row: Index, col: Index, grid: tuple[int, int]) -> tuple[Int32, Int32]:
    """Lay out the tiles ``(row, col)``, sorted by row, as counts ``(Tr,)`` and padded lists ``(Tr, Tc)``."""
    counts = np.bincount(row, minlength=grid[0])
    place = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)
    columns = np.zeros(grid, np.int32)
    columns[row, place] = col
    return counts.astype(np.int32), columns


def tiles(name: str, num_blocks: ArrayLike, indices: ArrayLike, grid: tuple[int, int]) -> tuple[Index, Index]:
    """The tiles ``(row, col)`` that counts and padded lists name; what stands behind a row's count is ignored.

    Leading axes B = H = 1 are dropped. Raises :class:`iosim.core.errors.BadInput` for other heads, shapes or counts.
    """
    counts = _one_head(f"{name}_num_blocks", integers(f"{name}_num_blocks", num_blocks), grid[:1])
    columns = _one_head(f"{name}_indices", integers(f"{name}_indices", indices), grid)
    if counts.min() < 0 or counts.max() > grid[1]:
        raise BadInput(f"{name}_num_blocks must lie between 0 and Tc = {grid[1]}, not {counts.min()} to {counts.max()}")
    row, place = np.nonzero(np.arange(grid[1]) < counts[:, None])
    return row, columns[row, place]


def _one_head(name: str, array: Index, shape: tuple[int, ...]) -> Index:
    if array.shape not in (shape, (1, 1, *shape)):
        raise BadInput(f"{name} has shape {array.shape} but one head's tiles need {shape} or {(1, 1, *shape)}")
    return array.reshape(shape)
