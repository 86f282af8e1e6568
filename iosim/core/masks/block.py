"""A block mask: which tiles of the pair grid are visited, and in which of them an element rule still applies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core.errors import BadInput
from iosim.core.masks import flex, npy
from iosim.core.masks.arrays import Bool, Index, boolean, frozen, integers
from iosim.core.units import whole

Layout = Literal["dense", "csr", "flex"]

_FORMULA = "(ceil(n/Br), ceil(nk/Bc))"
_INT32_MAX = 2**31 - 1


def grid_shape(n: int, nk: int, rows: int, cols: int) -> tuple[int, int]:
    """``(Tr, Tc)``: how many tiles of ``rows`` x ``cols`` pairs cover ``n`` x ``nk`` pairs; the last ones may be smaller.

    Raises :class:`iosim.core.errors.BadInput` for a size below 1 and for more tiles than int32 can index.

    >>> grid_shape(5, 7, rows=2, cols=3)
    (3, 3)
    """
    grid = -(-whole("n", n) // whole("Br", rows)), -(-whole("nk", nk) // whole("Bc", cols))
    if max(grid) > _INT32_MAX:
        raise BadInput(f"{n} x {nk} pairs in {rows}x{cols} tiles make a grid {grid}, more than int32 can index; use larger blocks")
    return grid


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BlockMask:
    """Which tiles of a ``(ceil(n/Br), ceil(nk/Bc))`` grid may attend: rows are query tiles, columns key tiles.

    Kept as compressed sparse rows, so that a million tokens cost what their kept tiles cost: tile row r keeps the columns
    ``indices[indptr[r]:indptr[r + 1]]``, in rising order. ``full`` says of each kept tile whether all its pairs may attend
    (True), or an element rule applies inside it (False: a partial tile). ``rows`` x ``cols`` pairs make a tile (Br x Bc);
    tiles at the end are clipped to ``n`` x ``nk``. The arrays are copied and read-only; masks are equal by content.

    Raises :class:`iosim.core.errors.BadInput` when the arrays do not describe such a grid.

    >>> BlockMask.from_elements(np.tril(np.ones((5, 7), bool), 2), rows=2, cols=3)
    BlockMask(3x3 tiles of 2x3 over 5x7 pairs: 7 kept, 2 partial)
    """

    n: int
    nk: int
    rows: int
    cols: int
    indptr: Index
    indices: Index
    full: Bool

    def __post_init__(self) -> None:
        for name, label in (("n", "n"), ("nk", "nk"), ("rows", "Br"), ("cols", "Bc")):
            object.__setattr__(self, name, whole(label, getattr(self, name)))
        object.__setattr__(self, "indptr", frozen(integers("indptr", self.indptr)))
        object.__setattr__(self, "indices", frozen(integers("indices", self.indices)))
        object.__setattr__(self, "full", frozen(boolean("full", self.full)))
        self._check_rows()
        self._check_columns()

    def _check_rows(self) -> None:
        if self.indptr.shape != (self.grid[0] + 1,):
            found = f"indptr has shape {self.indptr.shape} (tile rows + 1)"
            raise BadInput(_wrong_grid(found, self.n, self.nk, self.rows, self.cols))
        if self.indices.ndim != 1 or self.indices.size > _INT32_MAX:
            raise BadInput(f"indices has shape {self.indices.shape} but must be one list of fewer than 2^31 columns")
        if self.full.shape != self.indices.shape:
            raise BadInput(f"full has shape {self.full.shape} but there are {self.indices.size} kept tiles, one flag each")
        if self.indptr[0] != 0 or self.indptr[-1] != self.nnz or (np.diff(self.indptr) < 0).any():
            raise BadInput(f"indptr must rise from 0 to the number of kept tiles, {self.nnz}")

    def _check_columns(self) -> None:
        outside = (self.indices < 0) | (self.indices >= self.grid[1])
        if outside.any():
            found = f"there is a tile in column {self.indices[outside.argmax()]}"
            raise BadInput(_wrong_grid(found, self.n, self.nk, self.rows, self.cols))
        falling = np.diff(self.indices, prepend=-1) <= 0
        falling[self.indptr[:-1][np.diff(self.indptr) > 0]] = False
        if falling.any():
            row = self.rows_of()[falling.argmax()]
            raise BadInput(f"tile row {row} names its columns twice or out of order; each row must rise")

    @classmethod
    def from_dense(cls, keep_tiles: ArrayLike, n: int, nk: int, rows: int, cols: int) -> BlockMask:
        """Full tiles where ``keep_tiles``, a boolean or 0/1 grid ``(ceil(n/Br), ceil(nk/Bc))``, is true.

        >>> BlockMask.from_dense([[1, 0], [1, 1]], n=4, nk=6, rows=2, cols=3).density
        0.75
        """
        keep = boolean("the block mask", keep_tiles)
        if keep.shape != grid_shape(n, nk, rows, cols):
            raise BadInput(_wrong_grid(f"the block mask has shape {keep.shape}", n, nk, rows, cols))
        return cls(n, nk, rows, cols, *_compressed(keep), np.ones(np.count_nonzero(keep), np.bool_))

    @classmethod
    def from_elements(cls, mask: ArrayLike, rows: int, cols: int) -> BlockMask:
        """Keep a tile when any pair of ``mask``, boolean or 0/1 of shape ``(n, nk)``, is true in it; full when all are."""
        elements = boolean("mask", mask)
        if elements.ndim != 2 or not elements.size:
            raise BadInput(f"mask has shape {elements.shape} but must have two axes (n, nk) of at least 1")
        n, nk = elements.shape
        whole("Br", rows), whole("Bc", cols)
        down, across = np.arange(0, n, rows), np.arange(0, nk, cols)
        keep = np.logical_or.reduceat(np.logical_or.reduceat(elements, down, axis=0), across, axis=1)
        full = np.logical_and.reduceat(np.logical_and.reduceat(elements, down, axis=0), across, axis=1)
        return cls(n, nk, rows, cols, *_compressed(keep), full[keep])

    @classmethod
    def from_csr(
        cls, indptr: ArrayLike, indices: ArrayLike, n: int, nk: int, rows: int, cols: int, full: ArrayLike | None = None
    ) -> BlockMask:
        """Keep the tiles of compressed sparse rows: ``indptr`` (Tr + 1), ``indices`` (nnz), rising in each row.

        ``full`` (nnz) tells full tiles from partial ones; None = all are full.
        """
        columns = integers("indices", indices)
        flags = np.ones(columns.shape, np.bool_) if full is None else boolean("full", full)
        return cls(n, nk, rows, cols, integers("indptr", indptr), columns, flags)

    @classmethod
    def from_flex(
        cls, kv_num_blocks: ArrayLike, kv_indices: ArrayLike, full_kv_num_blocks: ArrayLike | None = None,
        full_kv_indices: ArrayLike | None = None, *, n: int, nk: int, rows: int, cols: int,
    ) -> BlockMask:  # fmt: skip
        """Keep the tiles that the arrays of a PyTorch FlexAttention ``BlockMask`` name, for one head.

        ``kv_*`` name partial tiles and ``full_kv_*`` full ones; lists need no order, and leading axes B = H = 1 are dropped.
        FlexAttention pads the last tiles, so those that are clipped come as partial; :meth:`filled` makes them full.
        """
        grid = grid_shape(n, nk, rows, cols)
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise BadInput("full_kv_num_blocks and full_kv_indices come together: give both or neither")
        row, col = flex.tiles("kv", kv_num_blocks, kv_indices, grid)
        full = np.zeros(row.size, np.bool_)
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            full_row, full_col = flex.tiles("full_kv", full_kv_num_blocks, full_kv_indices, grid)
            row, col = np.concatenate([row, full_row]), np.concatenate([col, full_col])
            full = np.concatenate([full, np.ones(full_row.size, np.bool_)])
        order = np.lexsort((col, row))
        return cls(n, nk, rows, cols, _indptr(np.bincount(row, minlength=grid[0])), col[order], full[order])

    @classmethod
    def load(cls, path: npy.Path, n: int, nk: int, rows: int, cols: int) -> BlockMask:
        """Read a .npy file: a boolean or 0/1 grid of tiles, or an element mask when its shape is ``(n, nk)``.

        Raises :class:`iosim.core.errors.BadInput` like :func:`iosim.core.masks.npy.load_elements`. Where ``(n, nk)`` is also the shape
        of the grid, a tile is one pair and both readings say the same.
        """
        grid = grid_shape(n, nk, rows, cols)
        array = npy.read(path, {_FORMULA: grid, "(n, nk)": (n, nk)})
        return cls.from_dense(array, n, nk, rows, cols) if array.shape == grid else cls.from_elements(array, rows, cols)

    @property
    def grid(self) -> tuple[int, int]:
        """``(Tr, Tc)``: tile rows and tile columns."""
        return grid_shape(self.n, self.nk, self.rows, self.cols)

    @property
    def nnz(self) -> int:
        """How many tiles are kept, full or partial."""
        return self.indices.size

    @property
    def partial(self) -> int:
        """How many kept tiles are partial."""
        return self.nnz - int(np.count_nonzero(self.full))

    @property
    def density(self) -> float:
        """The kept fraction of the tiles, s in Proposition 4 of the FlashAttention paper."""
        return self.nnz / (self.grid[0] * self.grid[1])

    @property
    def sparsity(self) -> float:
        """The fraction of the tiles that is left out: 1 - density."""
        return 1 - self.density

    def filled(self) -> BlockMask:
        """The same tiles, all of them full: no element rule is left."""
        return replace(self, full=np.ones(self.nnz, np.bool_))

    def _repr_html_(self) -> str:
        """What a notebook shows: the grid, tile by tile."""
        from iosim.core.masks.drawn import html

        return html(repr(self), self.rows_of(), self.indices, self.indices + 1, self.full, self.grid)

    def rows_of(self) -> Index:
        """The tile row of every kept tile, in the order of ``indices``."""
        return np.repeat(np.arange(self.grid[0]), np.diff(self.indptr))

    def dense(self) -> Bool:
        """A boolean grid ``(Tr, Tc)``: True = kept."""
        return self.states() > 0

    def states(self) -> NDArray[np.uint8]:
        """A grid ``(Tr, Tc)``: 0 empty, 1 partial, 2 full."""
        grid = np.zeros(self.grid, np.uint8)
        grid[self.rows_of(), self.indices] = np.where(self.full, 2, 1)
        return grid

    def to_csr(self) -> tuple[flex.Int32, flex.Int32]:
        """``(indptr, indices)`` in int32, as :meth:`from_csr` reads them; ``full`` stays behind."""
        return self.indptr.astype(np.int32), self.indices.astype(np.int32)

    def to_flex(self) -> flex.Flex:
        """The four arrays that FlexAttention keeps for one head, lists padded to ``Tc``: 8 bytes for every tile of the grid."""
        row, partial = self.rows_of(), ~self.full
        return flex.Flex(
            *flex.lists(row[partial], self.indices[partial], self.grid),
            *flex.lists(row[self.full], self.indices[self.full], self.grid),
        )

    def nbytes(self, layout: Layout) -> int:
        """Bytes that the mask takes: ``dense`` one a tile, ``csr`` int32 as :meth:`to_csr`, ``flex`` int32 as :meth:`to_flex`.

        >>> mask = BlockMask.from_dense(np.eye(16, dtype=bool), 1024, 1024, 64, 64)
        >>> mask.nbytes("dense"), mask.nbytes("csr"), mask.nbytes("flex")
        (256, 132, 2176)
        """
        tr, tc = self.grid
        sizes = {"dense": tr * tc, "csr": 4 * (tr + 1 + self.nnz), "flex": 8 * tr * (1 + tc)}
        if layout not in sizes:
            raise BadInput(f"unknown block mask layout {layout!r}; known: {', '.join(sizes)}")
        return sizes[layout]

    def __and__(self, other: BlockMask) -> BlockMask:
        """The tiles that both keep; full where both are full."""
        if not isinstance(other, BlockMask):
            return NotImplemented
        mine, theirs = self._keys(other), other._keys(self)
        both, here, there = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
        return self._of_keys(both, self.full[here] & other.full[there])

    def __or__(self, other: BlockMask) -> BlockMask:
        """The tiles that either keeps; full where either is full."""
        if not isinstance(other, BlockMask):
            return NotImplemented
        mine, theirs = self._keys(other), other._keys(self)
        merged = np.sort(np.concatenate([mine, theirs]))
        either = merged[np.diff(merged, prepend=-1) > 0]
        full = np.zeros(either.size, np.bool_)
        full[np.searchsorted(either, mine[self.full])] = True
        full[np.searchsorted(either, theirs[other.full])] = True
        return self._of_keys(either, full)

    def _keys(self, partner: BlockMask) -> Index:
        """The place of every kept tile in the grid, row by row, if ``partner`` has the same grid."""
        if self._tiling != partner._tiling:
            raise BadInput(f"block masks combine on one grid only, not {self!r} with {partner!r}")
        return self.rows_of() * self.grid[1] + self.indices

    def _of_keys(self, keys: Index, full: Bool) -> BlockMask:
        row, col = np.divmod(keys, self.grid[1])
        return BlockMask(*self._tiling, _indptr(np.bincount(row, minlength=self.grid[0])), col, full)

    @property
    def _tiling(self) -> tuple[int, int, int, int]:
        return self.n, self.nk, self.rows, self.cols

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockMask):
            return NotImplemented
        mine, theirs = (self.indptr, self.indices, self.full), (other.indptr, other.indices, other.full)
        return self._tiling == other._tiling and all(map(np.array_equal, mine, theirs))

    def __hash__(self) -> int:
        return hash((*self._tiling, self.indptr.tobytes(), self.indices.tobytes(), self.full.tobytes()))

    def __repr__(self) -> str:
        tr, tc = self.grid
        tiles = f"{tr}x{tc} tiles of {self.rows}x{self.cols} over {self.n}x{self.nk} pairs"
        return f"BlockMask({tiles}: {self.nnz} kept, {self.partial} partial)"


def _compressed(keep: Bool) -> tuple[Index, Index]:
    return _indptr(np.count_nonzero(keep, axis=1)), np.nonzero(keep)[1]


def _indptr(counts: Index) -> Index:
    return np.concatenate([[0], np.cumsum(counts)])


def _wrong_grid(found: str, n: int, nk: int, rows: int, cols: int) -> str:
    return f"{found} but n={n}, nk={nk} in {rows}x{cols} tiles need shape {_FORMULA} = {grid_shape(n, nk, rows, cols)}"
