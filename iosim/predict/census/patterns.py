"""Patterns: who may attend to whom in a problem, asked for the census of any grid that is laid over it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from iosim.core.problem import Attention
from iosim.predict.census.areas import Areas
from iosim.predict.census.band import Band, Span
from iosim.predict.census.tally import Cuts, Tally
from iosim.predict.census.tiles import Axis, Census, axis, of_entries, split
from iosim.predict.sizes import Bools, Ints


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


@dataclass(frozen=True, eq=False)  # no slots: the areas are kept
class Pairs:
    """The pairs of an element mask that all rules allow."""

    keep: Bools

    def census(self, rows: Axis, cols: Axis) -> Census:
        """The tiles in which any pair attends; reads every pair once."""
        some, every = (_merged(join, self.keep, rows, cols) for join in (np.logical_or, np.logical_and))
        begun = np.flatnonzero(some.any(axis=1))
        column = some[begun].argmax(axis=1)
        first = of_entries(rows, cols, begun, column, every[begun, column]).visited[..., 1]
        full = _corners(every)
        again = np.stack([_corners(some) - full, full], axis=-1) - first
        met = np.logical_or.reduce(some, axis=0)
        return Census(rows, cols, np.stack([again, first], axis=-1), split(met))

    @property
    def queries(self) -> int:
        """Queries that attend to something."""
        return int(np.count_nonzero(self.keep.any(axis=1)))

    @property
    def keys(self) -> int:
        """Keys that some query attends to."""
        return int(np.count_nonzero(self.keep.any(axis=0)))

    def tally(self, rows: Ints, cols: Ints) -> Tally:
        """The tiles that are visited on each grid of ``rows`` x ``cols``; costs what they do, after every pair was read once."""
        down, across = Cuts(len(self.keep), rows), Cuts(self.keep.shape[1], cols)
        grids = zip(rows.tolist(), cols.tolist(), strict=True)
        each = [self._tallied(axis(down.rows, high), axis(across.rows, wide)) for high, wide in grids]
        visited, met_rows, met_cols = (np.stack(counts, axis=-1) for counts in zip(*each, strict=True))
        return Tally(down, across, visited, met_rows, met_cols)

    def _tallied(self, rows: Axis, cols: Axis) -> tuple[Ints, Ints, Ints]:
        """``visited``, ``met_rows`` and ``met_cols`` of one grid."""
        attending = self._areas.in_tiles(rows, cols)
        high, wide = (np.ones(1, dtype=np.int64) if cut.block == 1 else np.diff(cut.edges) for cut in (rows, cols))
        some, every = attending > 0, attending == high[:, None] * wide
        full = _corners(every)
        met_rows, met_cols = (np.array(split(np.asarray(some.any(axis=across))), dtype=np.int64) for across in (1, 0))
        return np.stack([_corners(some) - full, full], axis=-1), met_rows, met_cols

    @cached_property
    def _areas(self) -> Areas:
        return Areas(self.keep)


def pattern(problem: Attention, *, skip: bool = True) -> Pattern:
    """Who may attend to whom in ``problem``, all rules together; with ``skip=False`` any rule makes every tile a partial one."""
    band = band_of(problem)
    if not skip and problem.masked:
        return Everywhere(full=False)
    if problem.mask is not None:
        return Pairs(_pairs(problem, problem.mask))
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


def _merged(join: np.ufunc, pairs: Bools, rows: Axis, cols: Axis) -> Bools:
    if rows.block > 1:
        # Strip by strip: many times faster than reduceat across rows.
        pairs = np.stack([join.reduce(pairs[start : start + rows.block]) for start in rows.starts])
    return np.asarray(join.reduceat(pairs, cols.starts, axis=1) if cols.block > 1 else pairs)


def _corners(cells: Bools) -> Ints:
    """The number of true cells ``[last row?, last column?]``."""
    last = int(cells[-1, -1])
    below, beside = (np.count_nonzero(line) - last for line in (cells[-1], cells[:, -1]))
    return np.array([[np.count_nonzero(cells) - below - beside - last, beside], [below, last]])
