"""Tiles and loops of the stand-in machine, and what masks say of them: numbers for what the grader holds. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

from iosim.core import opaque
from iosim.core.errors import BadInput
from iosim.course.grading import records as r
from iosim.course.grading.standin_log import Log, whole

Row = Sequence[Sequence[int]]


class Runs:
    """Which tiles a loop visits: (first, stop, code) triples, and the number that names them."""

    __slots__ = ("_handle", "_triples")

    def __init__(self, handle: int, triples: Row) -> None:
        self._handle, self._triples = handle, triples

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        return ((first, stop, code) for first, stop, code in self._triples)


class Rule:
    """A rule of the mask: it can be given to m.pairs, and not be called."""

    __slots__ = ("_number",)

    def __init__(self, number: int) -> None:
        self._number = number


class Tile(opaque.Tile):
    """One turn of a loop: its ``size``, whether it is ``full``, and whether this is the ``first`` or the ``last`` visit to it."""

    __slots__ = ("_code", "_handle", "_index", "_loop", "first", "full", "last", "size")

    def __init__(self, loop: Tiles, handle: int, index: int, code: int) -> None:
        self._loop, self._handle, self._index, self._code = loop, handle, index, code
        self.size = max(0, min(loop._height, loop._rows - index * loop._height))
        self.full, self.first, self.last = opaque.MEANING[code]

    def tiles(self, b: int, *, seen: Runs | None = None) -> Tiles:
        """Cut this tile into tiles of ``b`` rows, the last one short."""
        return Tiles(self._loop._log, self.size, whole("the tile height", b), seen, self)

    def slot(self, rows: int) -> Slot:
        """The rows that belong to this tile in an array that holds ``rows`` for every tile of its loop."""
        log, many = self._loop._log, whole("the rows of a slot", rows)
        handle = log._next()
        log._put(r.SLOT, handle, self._handle, rows=many)
        return Slot(handle, many)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a tile has size, full, first, last, tiles and slot, and no {name}: one tile stands for all of its kind")


class Slot(opaque.Slot):
    """An index of an HBM array: the rows that belong to a tile."""

    __slots__ = ("_handle", "rows")

    def __init__(self, handle: int, rows: int) -> None:
        self._handle, self.rows = handle, rows


class Tiles:
    """A loop over tiles; every step of it is written down, so that one that is left early is noticed."""

    __slots__ = ("_axis", "_handle", "_height", "_log", "_over", "_rows", "_turns")

    def __init__(self, log: Log, rows: int, height: int, seen: Runs | None, outer: Tile | None = None) -> None:
        self._log, self._rows, self._height, self._handle, self._over = log, rows, height, log._next(), False
        self._axis = rows if outer is None else 0  # that of a tile inside a tile is for no grid to know
        log._put(r.LOOP, self._handle, 0 if seen is None else seen._handle, 0 if outer is None else outer._handle, self._axis, height)
        if outer is not None and seen is not None:
            raise BadInput("seen= limits a loop over a whole axis; i.tiles(b) visits all rows of i")
        triples = ((0, -(-rows // height), 1 if outer is None else outer._code),) if seen is None else seen._triples
        self._turns = ((index, code) for first, stop, code in triples for index in range(first, stop))

    def __iter__(self) -> Tiles:
        self._log._put(r.ITER, a=self._handle)
        return self

    def __next__(self) -> Tile:
        log, turn = self._log, next(self._turns, None)
        if turn is None:
            if not self._over:
                log._put(r.NEXT, a=self._handle)
            self._over = True
            raise StopIteration
        tile = Tile(self, log._next(), *turn)
        log._put(r.NEXT, tile._handle, self._handle, rows=tile.size, flags=turn[1])
        if tile.size == 0:
            raise BadInput(f"seen= visits tile {turn[0]}, which is out of range: {self._rows} rows in tiles of {self._height}")
        return tile
