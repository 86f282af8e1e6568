"""Which tiles a loop nest visits under a mask, which of them are full, and what holds inside the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim.core.masks.block import BlockMask
from iosim.core.masks.runs import FIRST, FULL, LAST, Int, Runs, Table, complement, table_of_entries, table_of_intervals
from iosim.core.problem import Attention, Blocks

Bool = NDArray[np.bool_]
MOST_TILES = 2**26
Rule = Callable[[Int, Int], Bool]


class Members(Protocol):
    """A tile of a loop, or the group of tiles that it stands for."""

    height: int
    axis: int

    @property
    def members(self) -> Sequence[int] | Int:
        """Their indices."""


class Grid:
    """The tiles of a problem, cut into blocks: rows are query tiles, columns are key tiles.

    ``by_row`` holds, for every query tile, the runs of key tiles that it meets; ``by_col`` the transpose, in which
    runs also say where a query tile is met for the first and for the last time by an outer loop over keys.
    """

    def __init__(self, rows: tuple[int, int], cols: tuple[int, int], by_row: Table, by_col: Table) -> None:
        self.rows, self.cols = rows, cols
        self.by_row, self.by_col = by_row, by_col

    def row(self, i: Members) -> Runs:
        """Key tiles that query tile ``i`` visits."""
        return self.by_row.of(_cut(i, "query", self.rows), i)

    def col(self, j: Members) -> Runs:
        """Query tiles that key tile ``j`` visits."""
        return self.by_col.of(_cut(j, "key", self.cols), j)

    def unseen(self, i: Members) -> Runs:
        """Key tiles in which no query of tile ``i`` attends to anything."""
        return self._gaps.of(_cut(i, "query", self.rows), i)

    def columns(self, skip_empty: bool = False) -> Runs:
        """Key tiles: all of them, or those that some query tile visits."""
        return _chosen(self.by_col.visited() > 0 if skip_empty else np.ones(self._columns, dtype=bool))

    def unvisited_rows(self) -> Runs:
        """Query tiles that no key tile visits."""
        return _chosen(self.by_row.visited() == 0)

    def __repr__(self) -> str:
        table, (n, height), (nk, width) = self.by_row, self.rows, self.cols
        each, down = table.stop - table.first, len(table.pointer) - 1
        partial = int(each[table.code & FULL == 0].sum())
        size = f"{down}x{self._columns} tiles of {height}x{width} over {n}x{nk} pairs"
        return f"Grid({size}: {int(each.sum()):,} visited, {partial:,} partial)"

    def _repr_html_(self) -> str:
        """What a notebook shows: the grid, tile by tile."""
        from iosim.core.masks.drawn import html

        table, down = self.by_row, len(self.by_row.pointer) - 1
        rows = np.repeat(np.arange(down), np.diff(table.pointer))
        return html(repr(self), rows, table.first, table.stop, table.code & FULL != 0, (down, self._columns))

    @property
    def _columns(self) -> int:
        return len(self.by_col.pointer) - 1

    @cached_property
    def _gaps(self) -> Table:
        return complement(self.by_row, self._columns)


def grid(problem: Attention, blocks: Blocks, *, skip: bool = True, group: int = 1) -> Grid:
    """The grid of ``problem`` cut into ``blocks``, which are those of its block mask (see :func:`check_grid`).

    With ``skip=False`` nothing is known of the tiles of a masked problem: each is visited, as a partial one. With a ``group`` of heads
    packed, a query has as many rows, one after the other; element and block masks are not for packed rows.
    """
    rows, cols = (problem.n * group, blocks.rows), (problem.nk, blocks.cols)
    shape = -(-rows[0] // rows[1]), -(-cols[0] // cols[1])
    if max(shape) > MOST_TILES:
        raise BadInput(f"{shape[0]} x {shape[1]} tiles are more than {MOST_TILES} along an axis; use larger blocks than {blocks}")
    if problem.masked and not skip:
        return Grid(rows, cols, *_everything(shape))
    if problem.mask is not None:
        return Grid(rows, cols, *_of_entries(shape, *_element_entries(problem, problem.mask, blocks)))
    if problem.block_mask is not None:
        return Grid(rows, cols, *_of_entries(shape, *_block_entries(problem, problem.block_mask, blocks)))
    return Grid(rows, cols, *_of_band(problem, shape, blocks, group))


def check_grid(mask: BlockMask, blocks: Blocks) -> None:
    """Raise :class:`BadInput` unless ``mask`` was made for ``blocks``."""
    if (mask.rows, mask.cols) != (blocks.rows, blocks.cols):
        found = -(-mask.n // blocks.rows), -(-mask.nk // blocks.cols)
        raise BadInput(
            f"blocks {blocks} make a grid of {found} tiles but the block mask has a grid of {mask.grid}, "
            f"made for blocks {mask.rows}x{mask.cols}; use those blocks or rebuild the mask"
        )


def allowed(rule: Rule, rows: Int, cols: Int) -> Bool:
    """What ``rule`` says of every pair of a row and a column; raises :class:`BadInput` unless it says booleans."""
    keep, shape = np.asarray(rule(rows[:, None], cols[None, :])), (len(rows), len(cols))
    if keep.dtype != np.bool_ or keep.shape not in {shape, (shape[0], 1), (1, shape[1]), (1, 1), ()}:
        raise BadInput(f"the rule of m.pairs gave {keep.dtype} of shape {keep.shape}; it must give booleans of shape {shape}")
    return np.broadcast_to(keep, shape)


@dataclass(frozen=True, slots=True)
class IndexRule:
    """May query ``row // group`` attend to key ``col``? Computed from the two indices, so that it moves no words."""

    offset: int
    band: tuple[int, int] | None
    block_mask: BlockMask | None = None
    group: int = 1

    def __call__(self, rows: Int, cols: Int) -> Bool:
        """For every pair of ``rows`` (r, 1) and ``cols`` (1, c)."""
        keep = np.ones(np.broadcast_shapes(rows.shape, cols.shape), dtype=bool)
        left, right = self.band or (-1, -1)
        rows = rows // self.group
        if left >= 0:
            keep &= cols >= rows + self.offset - left
        if right >= 0:
            keep &= cols <= rows + self.offset + right
        if self.block_mask is not None:
            keep &= self.block_mask.dense()[rows // self.block_mask.rows, cols // self.block_mask.cols]
        return keep


def index_rule(problem: Attention, *, with_blocks: bool = False, group: int = 1) -> IndexRule | None:
    """What causal and window say of a pair, and the block mask too where the grid does not already enforce it."""
    block_mask = problem.block_mask if with_blocks else None
    if problem.band is None and block_mask is None:
        return None
    return IndexRule(problem.nk - problem.n, problem.band, block_mask, group)


def _cut(tile: Members, axis: str, size: tuple[int, int]) -> Sequence[int] | Int:
    if (tile.axis, tile.height) != size:
        raise BadInput(
            f"the grid has {axis} tiles of {size[1]} out of {size[0]} rows but was asked for a tile of {tile.height} out of {tile.axis}; "
            f"loop over m.tiles({size[0]}, {size[1]})"
        )
    return tile.members


def _chosen(keep: Bool) -> Runs:
    index = np.flatnonzero(keep)
    table = table_of_entries(np.zeros_like(index), index, np.full_like(index, FULL), 1)
    return table.of(range(1))


def _everything(shape: tuple[int, int]) -> tuple[Table, Table]:
    rows, cols = (np.zeros(size, dtype=np.int64) for size in shape)
    first, last = (np.where(np.arange(shape[1]) == at, shape[0], 0) for at in (0, shape[1] - 1))
    kinds = [(cols, first, FIRST), (cols, last, LAST)]
    return table_of_intervals(rows, rows + shape[1], []), table_of_intervals(cols, cols + shape[0], kinds)


def _of_band(problem: Attention, shape: tuple[int, int], blocks: Blocks, group: int) -> tuple[Table, Table]:
    left, right = problem.band or (-1, -1)
    begin, end, full = spans(problem.n, problem.nk, blocks.rows, blocks.cols, left, right, group=group)
    by_row = table_of_intervals(begin, end, [(*full, FULL)])
    met = np.flatnonzero(begin < end)
    first, last = (_places(edge[met], met, shape[1]) for edge in (begin, end - 1))
    begin, end, full = spans(problem.nk, problem.n, blocks.cols, blocks.rows, right, left, across=group)
    return by_row, table_of_intervals(begin, end, [(*full, FULL), (*first, FIRST), (*last, LAST)])


def _places(edge: Int, met: Int, columns: int) -> tuple[Int, Int]:
    """For every key tile: the first and one past the last of the query tiles ``met``, neighbours all, whose ``edge`` it is."""
    offset, wanted = met[0] if len(met) else 0, np.arange(columns)
    return offset + np.searchsorted(edge, wanted, "left"), offset + np.searchsorted(edge, wanted, "right")


def spans(
    n: int, nk: int, rows: int, cols: int, left: int, right: int, *, group: int = 1, across: int = 1
) -> tuple[Int, Int, tuple[Int, Int]]:
    """For every tile of ``rows`` out of ``n``: the tiles of ``cols`` out of ``nk`` it meets (begin, end), and those it meets in full.

    Row r meets column c where r + nk - n - left <= c <= r + nk - n + right, -1 = unbounded. Each row stands for ``group`` rows of a tile
    and each column for ``across`` of them, where heads are packed.
    """
    starts = np.arange(0, n * group, rows, dtype=np.int64)
    top = starts // group + (nk - n)
    bottom = (np.minimum(starts + rows, n * group) - 1) // group + (nk - n)
    zero, whole = np.zeros_like(top), np.full_like(top, nk)
    low = zero if left < 0 else np.clip(top - left, 0, nk)
    high = whole if right < 0 else np.clip(bottom + right + 1, 0, nk)
    low_full = zero if left < 0 else np.clip(bottom - left, 0, nk)
    high_full = whole if right < 0 else np.clip(top + right + 1, 0, nk)
    begin, end = low * across // cols, -(-high * across // cols)
    full = -(-low_full * across // cols), np.where(high_full == nk, -(-nk * across // cols), high_full * across // cols)
    return begin, np.where(low < high, end, begin), full


def _of_entries(shape: tuple[int, int], i: Int, j: Int, full: Bool) -> tuple[Table, Table]:
    order = np.lexsort((i, j))
    new = np.concatenate([[True], np.diff(i) > 0, [True]])[: len(i) + 1]
    code = np.where(full, FULL, 0).astype(np.int64) | np.where(new[: len(i)], FIRST, 0) | np.where(new[1:], LAST, 0)
    by_row = table_of_entries(i, j, code & FULL, shape[0])
    return by_row, table_of_entries(j[order], i[order], code[order], shape[1])


def _element_entries(problem: Attention, mask: Bool, blocks: Blocks) -> tuple[Int, Int, Bool]:
    keep = mask
    rule = index_rule(problem, with_blocks=True)
    if rule is not None:
        keep = mask & rule(np.arange(problem.n)[:, None], np.arange(problem.nk)[None, :])
    tops, lefts = np.arange(0, problem.n, blocks.rows), np.arange(0, problem.nk, blocks.cols)
    kept = np.add.reduceat(np.add.reduceat(keep, tops, axis=0, dtype=np.int64), lefts, axis=1)
    i, j = np.nonzero(kept)
    area = np.diff(np.append(tops, problem.n))[i] * np.diff(np.append(lefts, problem.nk))[j]
    return i, j, kept[i, j] == area


def _block_entries(problem: Attention, mask: BlockMask, blocks: Blocks) -> tuple[Int, Int, Bool]:
    i, j = np.repeat(np.arange(mask.grid[0]), np.diff(mask.indptr)), mask.indices
    begin, end, full = spans(problem.n, problem.nk, blocks.rows, blocks.cols, *(problem.band or (-1, -1)))
    kept = (begin[i] <= j) & (j < end[i])
    i, j = i[kept], j[kept]
    return i, j, (full[0][i] <= j) & (j < full[1][i])
