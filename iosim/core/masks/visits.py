"""Visits: the turns of a loop over tiles, every one, or one of each kind with its multiplicity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.masks.runs import Int, Runs


@dataclass(frozen=True, slots=True)
class Group:
    """Tiles of one kind, as runs of indices; the first one stands for all."""

    first: Int
    stop: Int

    @property
    def count(self) -> int:
        """How many tiles."""
        return int((self.stop - self.first).sum())

    def indices(self) -> Sequence[int] | Int:
        """Every index, as often as it is visited; a range where that says it all."""
        if len(self.first) == 1:
            return range(int(self.first[0]), int(self.stop[0]))
        return np.concatenate([np.arange(a, b) for a, b in zip(self.first, self.stop, strict=True)])


Visit = tuple[int, int, int, int, Group | None]
"""One turn of a loop: start, size, code, how many times, and the group it stands for (None: itself alone)."""


def every_tile(n: int, b: int, runs: Runs) -> Iterator[Visit]:
    """Each tile by itself, in order: what execution and tracing visit."""
    for first, stop, code in runs:
        if not 0 <= first < stop <= -(-n // b):
            raise misfit(n, b, first, stop)
        for start in range(first * b, stop * b, b):
            yield start, min(b, n - start), code, 1, None


def one_of_each_kind(n: int, b: int, runs: Runs, times: int, check: int) -> Iterator[Visit]:
    """One tile of each kind for all of them; up to ``check`` others follow, counted zero times, to be compared with it."""
    for size, code, group in kinds(n, b, runs):
        yield int(group.first[0]) * b, size, code, times * group.count, group
        for index in sample(group, check):
            yield index * b, size, code, 0, None


def kinds(n: int, b: int, runs: Runs) -> Iterator[tuple[int, int, Group]]:
    """Sort the tiles of ``runs`` by kind: their code, and whether they are the short last tile of the axis."""
    last, tail = (n - 1) // b, (n - 1) % b + 1
    wrong = (runs.first < 0) | (runs.first >= runs.stop) | (runs.stop > last + 1)
    if wrong.any():
        raise misfit(n, b, runs.first[wrong][0], runs.stop[wrong][0])
    for code in np.flatnonzero(np.bincount(runs.code)).tolist():
        mine = runs.code == code
        first, stop = runs.first[mine], runs.stop[mine]
        short = stop > last
        body = np.where(short, last, stop)
        if (first < body).any():
            yield b, code, Group(first[first < body], body[first < body])
        if short.any():
            yield tail, code, Group(np.full(short.sum(), last), np.full(short.sum(), last + 1))


def sample(group: Group, limit: int) -> list[int]:
    """Up to ``limit`` members besides the first, spread over the group, its last one among them."""
    others = group.count - 1
    if limit == 0 or others == 0:
        return []
    picks = np.unique(np.linspace(others, 1, min(limit, others)).astype(np.int64))
    ends = np.cumsum(group.stop - group.first)
    run = np.searchsorted(ends, picks, side="right")
    return [int(index) for index in group.stop[run] - (ends[run] - picks)]  # never all indices, of which there may be (N / B)^2


def misfit(n: int, b: int, first: int, stop: int) -> BadInput:
    """What is wrong with runs that were made for another axis."""
    return BadInput(
        f"seen= visits tiles {first} to {stop - 1} but an axis of {n} cut into {b} has {-(-n // b)}; make the grid for these blocks"
    )
