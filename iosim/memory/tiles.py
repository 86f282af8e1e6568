"""Tiles and the loops that hand them out: every tile, or one of each kind with its multiplicity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from iosim.errors import BadInput, KindMismatch, LoopMisuse
from iosim.masks.runs import FIRST, FULL, Int
from iosim.masks.visits import Visit

if TYPE_CHECKING:
    from iosim.memory.machine import Machine

Path = tuple[tuple[int, int, int], ...]
Deed = tuple[str | int, ...]


@dataclass(slots=True)
class Notes:
    """What a tile did, kept only to compare it with others of its kind: its place in the loop nest, its loops and its deeds."""

    path: Path = ()
    loops: int = 0
    deeds: list[Deed] = field(default_factory=list)


class Tile:
    """One turn of a loop: some rows of an axis, and the scope in which on-chip blocks live until the loop moves on.

    A body may use its ``size``, whether it is ``full`` (every pair may attend) and whether this is the ``first`` visit to it, never
    its place: in count mode one tile stands for all of its kind.
    """

    __slots__ = (
        "axis", "first", "full", "group", "height", "mark", "notes", "open", "owner", "parent", "root", "size", "start", "times", "used",
    )  # fmt: skip

    def __init__(self, parent: Tile | None, visit: Visit, axis: int, height: int, owner: object = None) -> None:
        self.start, self.size, code, self.times, self.group = visit
        self.full, self.first = code & FULL != 0, code & FIRST != 0
        self.parent, self.axis, self.height, self.owner = parent, axis, height, owner
        self.root: Tile = self if parent is None else parent.root
        self.open = True
        self.notes: Notes | None = None
        self.used = self.mark = 0

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise LoopMisuse("a tile can be neither copied nor pickled; use it inside its own loop body")

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
        if not self.open:
            raise LoopMisuse(
                f"a tile of {self.size} rows was used after its loop had moved on; "
                "use a tile inside its own loop body, and never keep tiles in a list"
            )


def independent(inner: Tile, owner: object) -> None:
    """Raise :class:`LoopMisuse` unless ``owner`` is open, and no loop inside it was limited by it already: only then do counts multiply."""
    tile: Tile | None = inner
    while tile is not owner:
        if tile is None or tile.owner is owner:
            raise LoopMisuse(
                "seen= was asked of a tile that is not open, or that limits a loop around this one already; "
                "ask it of an open tile, and write loops that depend on one tile one after the other, not nested"
            )
        tile = tile.parent


class Tiles:
    """A loop over tiles: opens one, and closes it before the next.

    A class, not a generator: a generator left by ``break`` would release its tile silently; this notices at the next step of the
    loop around it, or when the machine finishes.
    """

    __slots__ = ("axis", "height", "home", "machine", "number", "owner", "started", "tile", "visits")

    def __init__(self, machine: Machine, axis: int, height: int, visits: Iterator[Visit], number: int = 0, owner: object = None) -> None:
        self.machine, self.axis, self.height, self.visits, self.home = machine, axis, height, visits, machine.tile
        self.tile: Tile | None = None
        self.started, self.number, self.owner = False, number, owner

    def __iter__(self) -> Tiles:
        if self.started or self.machine.tile is not self.home:
            raise LoopMisuse("a loop over tiles runs once, where it was made; call m.tiles(...) again in the for statement")
        self.started = True
        return self

    def __next__(self) -> Tile:
        m = self.machine
        if self.tile is not None:
            m.leave(self.tile)
            self.tile = None
        elif m.tile is not self.home:
            raise LoopMisuse("a loop over tiles was started inside another one's tile; write nested loops as nested for statements")
        visit = next(self.visits, None)
        if visit is None:
            raise StopIteration
        tile = self.tile = Tile(self.home, visit, self.axis, self.height, self.owner)
        m.enter(tile, self.number, visit[2])
        return tile


def allowed(rule: Callable[[Int, Int], NDArray[np.bool_]], i: Tile, j: Tile) -> NDArray[np.bool_]:
    """What ``rule`` says of every pair of a row of ``i`` and a row of ``j``; raises :class:`BadInput` unless it says booleans."""
    rows, cols = (np.arange(t.start, t.start + t.size) for t in (i, j))
    keep = np.asarray(rule(rows[:, None], cols[None, :]))
    if keep.dtype != np.bool_ or keep.shape not in {(i.size, j.size), (i.size, 1), (1, j.size), (1, 1), ()}:
        raise BadInput(f"the rule of m.pairs gave {keep.dtype} of shape {keep.shape}; it must give booleans of shape {(i.size, j.size)}")
    return np.broadcast_to(keep, (i.size, j.size))


def compare(known: Notes, found: Notes) -> None:
    """Raise :class:`KindMismatch` where two tiles of one kind did different things."""
    if known.deeds == found.deeds:
        return
    pairs = list(zip_longest(known.deeds, found.deeds, fillvalue=("nothing more",)))
    at = next(n for n, (one, other) in enumerate(pairs) if one != other)
    one, other = (" ".join(map(str, deed)) for deed in pairs[at])
    raise KindMismatch(
        f"two tiles of one kind ({found.path[-1][1]} rows, loop depth {len(found.path)}) did different things at step {at + 1}: "
        f"{one} against {other}; a body may depend only on its tile's size, full and first"
    )
