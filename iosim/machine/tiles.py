"""Tiles and the loops that hand them out: every tile, or one of each kind with its multiplicity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from iosim.core import opaque
from iosim.core.errors import BadInput, LoopMisuse
from iosim.core.expressions import ceiling
from iosim.core.masks.runs import FULL, Int, Runs, joined, whole_axis
from iosim.core.masks.visits import Visit
from iosim.machine.ledger import Ledger, Path, Scope


class Tile(Scope, opaque.Tile):
    """One turn of a loop: some rows of an axis, and the scope in which on-chip blocks live until the loop moves on.

    A body may use its ``size``, whether it is ``full`` (every pair may attend) and whether this is the ``first`` or the ``last`` visit to
    it, never its place: in count mode one tile stands for all of its kind. A tile inside a tile is full, first and last where that is;
    it, too, has its ``start`` and its ``axis``, the rows that a whole loop cuts, from the array.
    """

    __slots__ = ("axis", "code", "first", "full", "group", "height", "last", "loop", "machine", "size", "start")

    def __init__(self, loop: Tiles, visit: Visit) -> None:
        start, self.size, self.code, self.times, self.group = visit
        self.full, self.first, self.last = opaque.MEANING[self.code]
        self.start, self.axis, self.height, self.loop = loop.start + start, loop.axis, loop.height, loop
        self.machine = m = loop.machine
        self.parent, self.used, self.mark, self.open, self.deeds = loop.home, m.used, len(m.residents), False, []

    def tiles(self, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut this tile into tiles of ``b`` rows, the last one short; a mask, and so ``seen``, knows only the tiles of a whole axis."""
        self._check()
        if seen is not None:
            raise BadInput("seen= limits a loop over a whole axis, m.tiles(n, b, seen=...); i.tiles(b) visits all rows of i")
        return Tiles(self.machine, self.size, self.machine.size("the tile height", b), None, self)

    def slot(self, rows: int) -> Slot:
        """The rows that belong to this tile in an array that holds ``rows`` for every tile of its loop, such as partial results."""
        self._of_axis()
        return Slot(self, self.machine.size("the rows of a slot", rows))

    @property
    def kind(self) -> Path:
        """Its loops from the outermost in, each with the size and code of its tile: tiles that agree in it must do the same."""
        return (*self.loop.home.kind, (self.loop.place, self.size, self.code))

    @property
    def members(self) -> Sequence[int] | Int:
        """The indices of all the tiles that this one stands for; read by masks, not by listings."""
        self._of_axis()
        index = self.start // self.height
        return range(index, index + 1) if self.group is None else self.group.indices()

    def _check(self) -> None:
        """Raise :class:`LoopMisuse` once the loop has moved on."""
        if not self.open:
            raise LoopMisuse(
                f"{self!r} was used after its loop had moved on; use a tile inside its own loop body, and never keep tiles in a list"
            )

    def _of_axis(self) -> None:
        """Raise :class:`BadInput` for a tile inside a tile, of which no mask knows."""
        self._check()
        if self.loop.outer is not None:
            raise BadInput(f"a mask knows the tiles of m.tiles({self.axis}, {self.height}), and no tile inside a tile; ask it of those")

    def _places(self, rows: Int) -> Int:
        """``rows`` of this tile, (start, stop) pairs, counted from where its loop begins, for all the tiles that it stands for."""
        loop, group = self.loop, self.group
        if group is None:
            return rows + (self.start - loop.start)
        runs = np.array([group.first, group.stop]).T
        if rows[0, 1] >= self.size:
            return np.asarray(np.minimum(runs * loop.height, loop.rows))
        return (np.concatenate([np.arange(*run) for run in joined(runs)])[:, None, None] * loop.height + rows).reshape(-1, 2)


class Slot(opaque.Slot):
    """An index of an HBM array: the place of a tile among the tiles of its axis, ``rows`` rows each."""

    __slots__ = ("rows", "tile")

    def __init__(self, tile: Tile, rows: int) -> None:
        self.tile, self.rows = tile, rows

    @property
    def axis(self) -> int:
        """The rows of an array that has a slot for every tile."""
        axis: int = ceiling(self.tile.axis, self.tile.height) * self.rows
        return axis

    @property
    def start(self) -> int:
        """Where it begins."""
        return self.tile.start // self.tile.height * self.rows

    def _places(self) -> Int:
        """The rows of the slots of all the tiles that its tile stands for, as (start, stop) pairs."""
        group = self.tile.group
        one = np.array([[self.start, self.start + self.rows]])
        return one if group is None else np.stack([group.first, group.stop], axis=1) * self.rows


def rows_of(tiles: Iterable[Tile]) -> Int:
    """The rows of an axis that ``tiles`` stand for, as (start, stop) pairs in order; tiles that fill the one around them count as that."""
    nothing = np.zeros((1, 2), np.int64)
    rows, inside = [nothing], {tile: [np.array([[0, tile.size]])] for tile in tiles}
    while inside:
        tile = max(inside, key=lambda tile: len(tile.kind))
        places, outer = tile._places(joined(np.concatenate(inside.pop(tile)))), tile.loop.outer
        (rows if outer is None else inside.setdefault(outer, [nothing])).append(places)
    return joined(np.concatenate(rows))


class Tiles:
    """A loop over tiles: opens one, and closes it before the next.

    A class, not a generator: a generator left by ``break`` would release its tile silently; this notices at the next step of the
    loop around it, or when the machine finishes. ``home`` is the scope that it runs in, ``outer`` the tile that it cuts, if it cuts one,
    ``rows`` what it cuts in all, ``place`` where it stands among the deeds of its home.
    """

    __slots__ = ("axis", "height", "home", "machine", "outer", "owner", "place", "rows", "start", "started", "tile", "visits")

    def __init__(self, machine: Ledger, n: int, b: int, seen: Runs | None, outer: Tile | None = None) -> None:
        self.machine, self.home, self.rows, self.height, self.outer = machine, machine.tile, n, b, outer
        self.axis: int = n if outer is None else outer.axis
        self.start: int = 0 if outer is None else outer.start
        self.owner = None if seen is None else seen.owner
        self.visits = machine.turns(n, b, seen, FULL if outer is None else outer.code)
        self.place = len(self.home.deeds)
        if machine.check:
            self.home.deeds.append(("loop", n, b, self._told(seen)))
        self.tile: Tile | None = None
        self.started = False

    def _told(self, seen: Runs | None) -> str:
        if self.outer is not None:
            return f"in a tile at depth {len(self.outer.kind)}"
        return "seen" if self.owner is not None else str(list(whole_axis(self.rows, self.height) if seen is None else seen))

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
        self.tile = tile = Tile(self, next(self.visits))
        m.enter(tile)
        if m.observers:
            m.emit("begin", "tile", ((tile.start, tile.start + tile.size),), 0, 0)
        return tile


def independent(inner: Scope, owner: object) -> None:
    """Raise :class:`LoopMisuse` unless ``owner`` is open, and no loop inside it was limited by it already: only then do counts multiply."""
    scope: Scope | None = inner
    while scope is not owner:
        if not isinstance(scope, Tile) or scope.loop.owner is owner:
            raise LoopMisuse(
                "seen= was asked of a tile that is not open, or that limits a loop around this one already; "
                "ask it of an open tile, and write loops that depend on one tile one after the other, not nested"
            )
        scope = scope.parent
