"""Runs: which tiles of an axis a loop visits, as (first, stop, kind) triples instead of lists of tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]

FULL = 1  # every pair of the tile may attend
FIRST = 2  # the first visit that the loop nest pays to this query tile
LAST = 4  # the last one


@dataclass(frozen=True, slots=True)
class Runs:
    """Tiles ``first[r] .. stop[r] - 1``, all of kind ``code[r]``, for every run r, summed over the ``members`` of the tile ``owner``."""

    first: Int
    stop: Int
    code: Int
    members: int = 1
    owner: object = None

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return zip(self.first.tolist(), self.stop.tolist(), self.code.tolist(), strict=True)


@dataclass(frozen=True, slots=True)
class Table:
    """The runs of every tile of one axis: those of tile t are ``pointer[t] : pointer[t + 1]``."""

    pointer: Int
    first: Int
    stop: Int
    code: Int

    def of(self, members: Sequence[int] | Int, owner: object = None) -> Runs:
        """The runs of all ``members`` of the tile ``owner`` together."""
        if isinstance(members, range) and members.step == 1:
            part: slice | Int = slice(self.pointer[members.start], self.pointer[members.stop])
        else:
            part = np.concatenate([np.arange(self.pointer[t], self.pointer[t + 1]) for t in members])
        return Runs(self.first[part], self.stop[part], self.code[part], len(members), owner)

    def visited(self) -> Int:
        """How many tiles each tile of the axis meets."""
        total = np.concatenate([[0], np.cumsum(self.stop - self.first)])
        return np.asarray(np.diff(total[self.pointer]))


def table_of_intervals(begin: Int, end: Int, kinds: Iterable[tuple[Int, Int, int]]) -> Table:
    """Cut the interval ``begin[t] .. end[t]`` of every tile t where a kind ``(from, to, bit)`` begins or ends."""
    kinds = list(kinds)
    cuts = [begin, *(np.clip(edge, begin, end) for low, high, _ in kinds for edge in (low, high)), np.maximum(begin, end)]
    edges = np.sort(np.stack(cuts, axis=1), axis=1)
    first, stop = edges[:, :-1], edges[:, 1:]
    code = np.zeros_like(first)
    for low, high, bit in kinds:
        code |= np.where((low[:, None] <= first) & (first < high[:, None]), bit, 0)
    kept = first < stop
    return Table(_pointer(kept.sum(axis=1)), first[kept], stop[kept], code[kept])


def table_of_entries(major: Int, minor: Int, code: Int, count: int) -> Table:
    """Join neighbours of one kind among entries that are sorted by ``major``, then ``minor``, for ``count`` major tiles."""
    joined = (np.diff(major) == 0) & (np.diff(minor) == 1) & (np.diff(code) == 0)
    starts = np.flatnonzero(np.concatenate([[True], ~joined])) if len(major) else np.zeros(0, dtype=np.int64)
    ends = np.concatenate([starts[1:], [len(major)]]) - 1 if len(major) else starts
    runs_each = np.bincount(major[starts], minlength=count)
    return Table(_pointer(runs_each), minor[starts], minor[ends] + 1, code[starts])


def complement(table: Table, length: int) -> Table:
    """The tiles of an axis of ``length`` tiles that ``table`` leaves out, for every tile."""
    rows = len(table.pointer) - 1
    owner = np.repeat(np.arange(rows), np.diff(table.pointer))
    first = np.insert(table.stop, table.pointer[:-1], 0)
    stop = np.insert(table.first, table.pointer[1:], length)
    owner = np.insert(owner, table.pointer[:-1], np.arange(rows))
    kept = first < stop
    return Table(_pointer(np.bincount(owner[kept], minlength=rows)), first[kept], stop[kept], np.zeros(kept.sum(), dtype=np.int64))


def joined(spans: Int) -> Int:
    """The same places as (start, stop) pairs that neither overlap nor touch, in order."""
    start, stop = spans[spans[:, 0].argsort()].T
    end = np.maximum.accumulate(stop)
    torn = np.flatnonzero(start[1:] > end[:-1]) + 1
    return np.array([start[np.concatenate([[0], torn])], end[np.concatenate([torn, [len(start)]]) - 1]]).T


def _pointer(lengths: Int) -> Int:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def whole_axis(n: int, b: int, code: int = FULL) -> Runs:
    """All tiles of an axis, each of kind ``code``."""
    return Runs(np.array([0]), np.array([-(-n // b)]), np.array([code]))
