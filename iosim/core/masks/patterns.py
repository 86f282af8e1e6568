"""Block masks from the literature, each made from a few numbers without an array of pairs or a grid of tiles.

Every pattern takes ``n`` queries, ``nk`` keys and tiles of ``rows`` x ``cols`` pairs (Br x Bc), writes tiles as (i, j) in a grid
of Tr x Tc, and costs what it keeps: time and memory grow with Tr and the kept tiles (``random`` also draws for the others).
One that would keep more than ``MOST`` tiles is refused with :class:`iosim.core.errors.BadInput`: causal does at n = 2^20 in 64x64
tiles, where the rule itself (``causal=True`` of the problem) needs no mask.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import reduce
from operator import or_

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Index
from iosim.core.masks.block import BlockMask, grid_shape
from iosim.core.units import real, whole

MOST = 2**26
MOST_DRAWS = 2**31


def dense(n: int, nk: int, rows: int, cols: int) -> BlockMask:
    """Every tile, full."""
    tr, tc = grid_shape(n, nk, rows, cols)
    return BlockMask.from_csr(*_runs(np.zeros(tr, np.int64), np.full(tr, tc)), n, nk, rows, cols)


def causal(n: int, nk: int, rows: int, cols: int) -> BlockMask:
    """The tiles that hold a pair j <= i + nk - n (aligned bottom-right), full where all their pairs are such.

    >>> causal(5, 7, rows=2, cols=3)
    BlockMask(3x3 tiles of 2x3 over 5x7 pairs: 7 kept, 2 partial)
    """
    return sliding_window(n, nk, rows, cols, -1, 0)


def sliding_window(n: int, nk: int, rows: int, cols: int, left: int, right: int) -> BlockMask:
    """The tiles that hold a pair i + nk - n - left <= j <= i + nk - n + right, full where all their pairs are such.

    Both ends are included and -1 = unbounded.

    >>> sliding_window(5, 5, rows=1, cols=1, left=1, right=0).nnz
    9
    """
    tr, tc = grid_shape(n, nk, rows, cols)
    left, right = _reach("left", left, n + nk), _reach("right", right, n + nk)
    top = np.arange(tr) * rows + nk - n  # the key on the diagonal of a tile's first query, and of its last one:
    bottom = np.minimum(top + rows, nk) - 1
    first, stop = (top - left) // cols, (bottom + right) // cols + 1
    indptr, indices = _runs(first.clip(0, tc), stop.clip(0, tc))
    full_first = -((left - bottom) // cols)
    full_stop = np.where(top + right >= nk - 1, tc, (top + right + 1) // cols)  # the last tile of a row may be clipped
    counts = np.diff(indptr)
    full = (indices >= np.repeat(full_first, counts)) & (indices < np.repeat(full_stop, counts))
    return BlockMask.from_csr(indptr, indices, n, nk, rows, cols, full)


def local_band(n: int, nk: int, rows: int, cols: int, radius: int) -> BlockMask:
    """Full tiles with |i - j| <= ``radius`` in a square grid; other grids stretch the band of size S = min(Tr, Tc).

    Stretched, tile (i, j) takes the place of tile (floor(i S / Tr), floor(j S / Tc)) of the square grid.

    >>> local_band(1024, 1024, 64, 64, radius=1).nnz
    46
    """
    grid = grid_shape(n, nk, rows, cols)
    size, reach = min(grid), min(whole("radius", radius, 0), *grid)
    cell, edges = _stretched(grid, size)
    first, stop = edges[(cell - reach).clip(0)], edges[(cell + reach + 1).clip(None, size)]
    return BlockMask.from_csr(*_runs(first, stop), n, nk, rows, cols)


def strided(n: int, nk: int, rows: int, cols: int, stride: int) -> BlockMask:
    """Full tiles with j = i modulo ``stride``, in any grid.

    Together with a local band this is the strided pattern of Child et al. 2019 (Sparse Transformers) on tiles.

    >>> strided(1024, 1024, 64, 64, stride=4).nnz
    64
    """
    tr, tc = grid_shape(n, nk, rows, cols)
    step = min(whole("stride", stride), max(tr, tc))
    return BlockMask.from_csr(*_runs(np.arange(tr) % step, np.full(tr, tc), step), n, nk, rows, cols)


def global_tiles(n: int, nk: int, rows: int, cols: int, count: int) -> BlockMask:
    """Full tiles in the first ``count`` tile rows and the first ``count`` tile columns.

    >>> global_tiles(1024, 1024, 64, 64, count=1).nnz
    31
    """
    tr, tc = grid_shape(n, nk, rows, cols)
    count = min(whole("count", count, 0), max(tr, tc))
    stop = np.where(np.arange(tr) < count, tc, min(count, tc))
    return BlockMask.from_csr(*_runs(np.zeros_like(stop), stop), n, nk, rows, cols)


def butterfly(n: int, nk: int, rows: int, cols: int) -> BlockMask:
    """The flat butterfly (Dao, Chen et al. 2022, Pixelated Butterfly): full tiles j = i and j = i XOR 2^f for f < log2(S).

    S is the largest power of two that is at most min(Tr, Tc). A square grid of S x S tiles keeps log2(S) + 1 tiles in each
    row and each column. Any other grid stretches it: tile (i, j) takes the place of tile (floor(i S / Tr), floor(j S / Tc)).

    >>> butterfly(1024, 1024, 64, 64).nnz == 16 * (4 + 1)
    True
    """
    grid = grid_shape(n, nk, rows, cols)
    factors = min(grid).bit_length() - 1
    cell, edges = _stretched(grid, 2**factors)
    partners = np.sort(cell[:, None] ^ np.array([0, *(2**f for f in range(factors))]), axis=1)
    return BlockMask.from_csr(*_runs(edges[partners], edges[partners + 1]), n, nk, rows, cols)


def random(n: int, nk: int, rows: int, cols: int, density: float, seed: int = 0) -> BlockMask:
    """Full tiles, each kept on its own with probability ``density``: where default_rng(seed).random((Tr, Tc)) < density.

    The same seed gives the same mask, and a larger density a larger one. Draws one number for every tile of the grid.

    >>> random(1024, 1024, 64, 64, density=0.25, seed=7).nnz
    65
    """
    tr, tc = grid_shape(n, nk, rows, cols)
    probability = _density(density)
    _affordable(int(probability * tr * tc))
    if tr * tc > MOST_DRAWS:
        raise BadInput(f"a random block mask draws a number for each of {tr * tc} tiles, more than {MOST_DRAWS}; use larger blocks")
    draw = np.random.default_rng(whole("seed", seed, 0)).random
    starts = range(0, tr * tc, 2**20)
    kept = np.concatenate([start + np.flatnonzero(draw(min(2**20, tr * tc - start)) < probability) for start in starts])
    row, col = np.divmod(kept, tc)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=tr))])
    return BlockMask.from_csr(indptr, col, n, nk, rows, cols)


PATTERNS: dict[str, tuple[Callable[..., BlockMask], str]] = {
    "butterfly": (butterfly, ""), "causal": (causal, ""), "dense": (dense, ""), "global": (global_tiles, "COUNT"),
    "local": (local_band, "RADIUS"), "random": (random, "DENSITY[,SEED]"), "strided": (strided, "STRIDE"),
    "window": (sliding_window, "LEFT,RIGHT"),
}  # fmt: skip
SPELLINGS = tuple(f"{name}:{values}" if values else name for name, (_, values) in PATTERNS.items())


def parse(spec: str, n: int, nk: int, rows: int, cols: int) -> BlockMask:
    """Read a block mask as the command line writes it: patterns joined by ``+`` (union), or the path of a .npy file.

    A pattern is one of ``SPELLINGS``. Whatever ends in ``.npy`` is a path as a whole (:meth:`BlockMask.load`).
    Raises :class:`iosim.core.errors.BadInput` for anything else.

    >>> parse("local:1+global:1", 1024, 1024, 64, 64).nnz
    74
    """
    if spec.endswith(".npy"):
        return BlockMask.load(spec, n, nk, rows, cols)
    return reduce(or_, (_parse_one(part.strip(), n, nk, rows, cols) for part in spec.split("+")))


def _parse_one(text: str, *shape: int) -> BlockMask:
    name, colon, rest = text.partition(":")
    if name not in PATTERNS:
        raise BadInput(f"unknown block mask {text!r}; known: {', '.join(SPELLINGS)}, joined by +, or the path of a .npy file")
    build, spelling = PATTERNS[name]
    values = rest.split(",") if colon else []
    most = spelling.count(",") + 1 if spelling else 0
    if not most - spelling.count("[") <= len(values) <= most:
        raise BadInput(f"cannot read the block mask {text!r}; write {name}{':' if spelling else ''}{spelling}")
    return build(*shape, *(_number(text, value) for value in values))


def _number(text: str, value: str) -> float:
    try:
        number = real(value)
    except ValueError:
        raise BadInput(f"cannot read the number {value!r} in the block mask {text!r}") from None
    with suppress(ValueError):  # it is no whole number
        return int(value)
    return number


def _runs(first: Index, stop: Index, step: int = 1) -> tuple[Index, Index]:
    """Compressed rows that hold the columns first, first + step, ... below stop; (Tr,) or (Tr, runs in rising order)."""
    counts = np.maximum(0, -((first - stop) // step))
    total = _affordable(int(counts.sum()))
    indptr = np.concatenate([[0], np.cumsum(counts.reshape(len(first), -1).sum(axis=1))])
    before = np.cumsum(counts) - counts.ravel()
    return indptr, np.repeat(first.ravel() - step * before, counts.ravel()) + step * np.arange(total)


def _stretched(grid: tuple[int, int], size: int) -> tuple[Index, Index]:
    """The row of a size x size square that each tile row lies in, and the first tile column of each of its columns."""
    tr, tc = grid
    return np.arange(tr) * size // tr, -(-np.arange(size + 1) * tc // size)


def _affordable(tiles: int) -> int:
    if tiles > MOST:
        raise BadInput(f"this block mask keeps {tiles} tiles, more than {MOST}; use larger blocks, or the rule itself (causal, window)")
    return tiles


def _reach(side: str, reach: int, farthest: int) -> int:
    given = whole(f"window {side}", reach, -1)
    return farthest if given < 0 else min(given, farthest)


def _density(density: float) -> float:
    if isinstance(density, bool) or not isinstance(density, int | float | np.number) or not 0 <= density <= 1:
        raise BadInput(f"density must be a number from 0 to 1, not {density!r}")
    return float(density)
