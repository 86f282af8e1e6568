"""Tiles and the loops that hand them out: every tile, or one of each kind with its multiplicity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iosim.errors import LoopMisuse
from iosim.masks.runs import FIRST, FULL, Int, Runs

if TYPE_CHECKING:
    from iosim.memory.machine import Machine
    from iosim.memory.scope import Scope


@dataclass(frozen=True, slots=True)
class Group:
    """Tiles of one kind: runs of indices, for which the first one stands."""

    first: Int
    stop: Int

    @property
    def count(self) -> int:
        return int((self.stop - self.first).sum())

    def indices(self) -> Sequence[int] | Int:
        """Every index, as often as it is visited; a range where that says it all."""
        if len(self.first) == 1:
            return range(int(self.first[0]), int(self.stop[0]))
        return np.concatenate([np.arange(a, b) for a, b in zip(self.first, self.stop, strict=True)])


class Tile:
    """Rows of one axis that a loop stands on; valid until the loop moves on.

    A body may use its ``size``, whether it is ``full`` (every pair may attend) and whether this is the ``first`` visit to it, never
    its place: in count mode one tile stands for all of its kind.
    """

    __slots__ = ("axis", "first", "full", "group", "height", "scope", "size", "start")

    def __init__(self, scope: Scope, visit: Visit, axis: int, height: int) -> None:
        self.scope, self.axis, self.height = scope, axis, height
        self.start, self.size, code, _, self.group = visit
        self.full, self.first = code & FULL != 0, code & FIRST != 0

    @property
    def members(self) -> Sequence[int] | Int:
        """The indices of all the tiles that this one stands for; read by masks, not by listings."""
        self.check()
        index = self.start // self.height
        return range(index, index + 1) if self.group is None else self.group.indices()

    def rows_covered(self) -> Int:
        """The rows of all the tiles that this one stands for, as (start, stop) pairs."""
        if self.group is None:
            return np.array([[self.start, self.start + self.size]])
        return np.minimum(np.stack([self.group.first, self.group.stop], axis=1) * self.height, self.axis)

    def check(self) -> None:
        """Raise :class:`LoopMisuse` once the loop has moved on."""
        if not self.scope.open:
            raise LoopMisuse(
                f"a tile of {self.size} rows was used after its loop had moved on; "
                "use a tile inside its own loop body, and never keep tiles in a list"
            )


class Visit(NamedTuple):
    """One turn of a loop: the tile at ``start``, ``times`` times; without a group it stands for itself alone."""

    start: int
    size: int
    code: int
    times: int
    group: Group | None


class Tiles:
    """A loop over tiles: enters a scope for each and releases it before the next.

    A class, not a generator: a generator left by ``break`` would release its scope silently, this notices at the next step of the
    loop around it, or when the machine finishes.
    """

    __slots__ = ("axis", "height", "home", "machine", "number", "scope", "started", "visits")

    def __init__(self, machine: Machine, axis: int, height: int, visits: Iterator[Visit]) -> None:
        self.machine, self.axis, self.height, self.visits, self.home = machine, axis, height, visits, machine.scope
        self.scope: Scope | None = None
        self.started, self.number = False, machine.scope.loops

    def __iter__(self) -> Tiles:
        if self.started or self.machine.scope is not self.home:
            raise LoopMisuse("a loop over tiles runs once, where it was made; call m.tiles(...) again in the for statement")
        self.started = True
        return self

    def __next__(self) -> Tile:
        if self.scope is not None:
            self.machine.leave(self.scope)
            self.scope = None
        elif self.machine.scope is not self.home:
            raise LoopMisuse("a loop over tiles was started inside another one's tile; write nested loops as nested for statements")
        visit = next(self.visits, None)
        if visit is None:
            raise StopIteration
        self.scope = self.machine.enter(visit, self.home, self.number)
        return Tile(self.scope, visit, self.axis, self.height)


def every_tile(n: int, b: int, runs: Runs, times: int) -> Iterator[Visit]:
    """Each tile by itself, in order: what execution and tracing visit."""
    for first, stop, code in runs:
        for start in range(first * b, stop * b, b):
            yield Visit(start, min(b, n - start), code, times, None)


def one_of_each_kind(n: int, b: int, runs: Runs, times: int, check: int) -> Iterator[Visit]:
    """One tile of each kind for all of them; up to ``check`` others follow, counted zero times, to be compared with it."""
    for size, code, group in kinds(n, b, runs):
        start = int(group.first[0])
        yield Visit(start * b, size, code, times * group.count, group)
        for index in sample(group, check):
            yield Visit(index * b, size, code, 0, None)


def kinds(n: int, b: int, runs: Runs) -> Iterator[tuple[int, int, Group]]:
    """Sort the tiles of ``runs`` by kind: their code, and whether they are the short last tile of the axis."""
    last, tail = (n - 1) // b, (n - 1) % b + 1
    for code in range((FULL | FIRST) + 1):
        first, stop = runs.first[runs.code == code], runs.stop[runs.code == code]
        short = (stop > last) & (tail < b)
        body = np.where(short, last, stop)
        if (first < body).any():
            yield b if last or tail == b else tail, code, Group(first[first < body], body[first < body])
        if short.any():
            yield tail, code, Group(np.full(short.sum(), last), np.full(short.sum(), last + 1))


def sample(group: Group, limit: int) -> list[int]:
    """Up to ``limit`` members besides the first, spread over the group, its last one among them."""
    if limit == 0 or group.count == 1:
        return []
    members = np.asarray(group.indices())[1:]
    picks = np.unique(np.linspace(0, len(members) - 1, min(limit, len(members))).astype(np.int64))
    return [int(members[pick]) for pick in picks]


def whole_axis(n: int, b: int) -> Runs:
    """All tiles of an axis, each full."""
    return Runs(np.array([0]), np.array([-(-n // b)]), np.array([FULL]))
