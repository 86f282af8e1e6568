"""Patterns: who may attend to whom in a problem, asked for the census of any grid that is laid over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from iosim.specs import Attention
from iosim.theory.band import Band, Span, Streams
from iosim.theory.sizes import Bools, Ints
from iosim.theory.tiles import Axis, Census, axis, of_entries, split


class Pattern(Protocol):
    """Which tiles of a grid are visited."""

    def census(self, rows: Axis, cols: Axis) -> Census:
        """How many tiles of each kind are visited."""


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Every tile is visited, and all are ``full`` or none is."""

    full: bool

    def census(self, rows: Axis, cols: Axis) -> Census:
        """All tiles; the first of a query tile is in column 0."""
        visited = np.zeros((2, 2, 2, 2), dtype=np.int64)
        visited[:, :, int(self.full), 0] = np.outer(rows.numbers, cols.numbers)
        column = visited[:, int(cols.count == 1), int(self.full)]
        column[:, 0] -= rows.numbers
        column[:, 1] += rows.numbers
        return Census(rows, cols, visited, cols.numbers)


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """The tiles ``(row[e], col[e])`` of a block mask, sorted, where a band does not hide them."""

    row: Ints
    col: Ints
    band: Band

    def census(self, rows: Axis, cols: Axis) -> Census:
        """The tiles left by both; ``rows`` and ``cols`` must be the grid of the mask. Costs what the kept tiles cost."""
        visited, full = self._inside(self.band.visited(rows, cols)), self._inside(self.band.full(rows, cols))
        return of_entries(rows, cols, self.row[visited], self.col[visited], full[visited])

    def _inside(self, span: Span) -> Bools:
        return (span.start[self.row] <= self.col) & (self.col < span.stop[self.row])


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The pairs of an element mask that all rules allow, or cells of such pairs: whether ``some`` of a cell attend, and ``all``."""

    some: Bools
    all: Bools

    def cut(self, rows: Axis | None = None, cols: Axis | None = None) -> Pairs:
        """Cells as high as the tiles of ``rows`` and as wide as those of ``cols``."""
        return Pairs(_merged(np.logical_or, self.some, rows, cols), _merged(np.logical_and, self.all, rows, cols))

    def transposed(self) -> Pairs:
        """The same cells, seen from the keys: rows and columns change places."""
        return Pairs(np.ascontiguousarray(self.some.T), np.ascontiguousarray(self.all.T))

    def census(self, rows: Axis, cols: Axis) -> Census:
        """The tiles in which any pair attends; reads every pair once."""
        cells = self.cut(rows, cols)
        begun = np.flatnonzero(cells.some.any(axis=1))
        column = cells.some[begun].argmax(axis=1)
        first = of_entries(rows, cols, begun, column, cells.all[begun, column]).visited[..., 1]
        full = _corners(cells.all)
        again = np.stack([_corners(cells.some) - full, full], axis=-1) - first
        met = np.logical_or.reduce(cells.some, axis=0)
        return Census(rows, cols, np.stack([again, first], axis=-1), split(met))

    @property
    def queries(self) -> int:
        """Queries that attend to something."""
        return int(np.count_nonzero(self.some.any(axis=1)))

    def lines(self, rows: Axis) -> Ints:
        """The keys that each query tile visits, where key tiles are one row high."""
        return np.asarray(self.cut(rows).some.sum(axis=1))

    def streams(self, block: Ints) -> Streams:
        """What query tiles of each height in ``block`` visit where key tiles are one row high; reads every pair once a height."""
        each = [self._stream(axis(len(self.some), height)) for height in block.tolist()]
        length, area, met, partial = np.array(each, dtype=np.int64).T
        return Streams(length, area, met, self.transposed().queries, partial)

    def _stream(self, rows: Axis) -> tuple[int, int, int, int]:
        cells, size = self.cut(rows), np.diff(rows.starts, append=rows.rows)
        length = cells.some.sum(axis=1)
        partial = length - cells.all.sum(axis=1)
        return int(length.sum()), int(size @ length), int(size @ (length > 0)), int(size @ partial)


def pattern(problem: Attention, *, skip: bool = True) -> Pattern:
    """Who may attend to whom in ``problem``, all rules together; with ``skip=False`` any rule makes every tile a partial one."""
    band = band_of(problem)
    if not skip and problem.masked:
        return Everywhere(full=False)
    if problem.mask is not None:
        keep = _pairs(problem, problem.mask)
        return Pairs(keep, keep)
    if problem.block_mask is not None:
        rows = np.repeat(np.arange(len(problem.block_mask.indptr) - 1), np.diff(problem.block_mask.indptr))
        return Entries(rows, problem.block_mask.indices, band)
    return Everywhere(full=True) if band.cuts_nothing else band


def band_of(problem: Attention) -> Band:
    """What causal and window leave; where they leave all, a band that cuts nothing."""
    all_of_it = problem.n + problem.nk
    left, right = (all_of_it if reach < 0 else min(reach, all_of_it) for reach in problem.band or (-1, -1))
    return Band(problem.n, problem.nk, left, right)


def _pairs(problem: Attention, mask: Bools) -> Bools:
    band, keep = band_of(problem), mask
    if not band.cuts_nothing:
        upper = np.tri(band.n, band.nk, band.offset + band.right, dtype=np.bool_)
        keep = keep & upper & ~np.tri(band.n, band.nk, band.offset - band.left - 1, dtype=np.bool_)
    if problem.block_mask is not None:
        tiles = problem.block_mask
        keep = keep & tiles.dense().repeat(tiles.rows, axis=0)[: band.n].repeat(tiles.cols, axis=1)[:, : band.nk]
    return keep


def _merged(join: np.ufunc, cells: Bools, rows: Axis | None, cols: Axis | None) -> Bools:
    # Cells that are already as large as the tiles stay as they are, so that a cut can be made in two steps.
    if rows is not None and len(cells) != rows.count:
        # Strip by strip: many times faster than reduceat across rows.
        cells = np.stack([join.reduce(cells[start : start + rows.block]) for start in rows.starts])
    if cols is not None and cells.shape[1] != cols.count:
        cells = join.reduceat(cells, cols.starts, axis=1)
    return cells


def _corners(cells: Bools) -> Ints:
    """The number of true cells ``[last row?, last column?]``."""
    return np.array([split(cells[:-1].sum(axis=0)), split(cells[-1])])
