"""What a listing asks the stand-in machine about who may attend: tables that come with the job. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from iosim.core.errors import BadInput
from iosim.course.grading import records as r
from iosim.course.grading.standin import Hbm, Machine
from iosim.course.grading.standin_tiles import Rule, Runs, Tile
from iosim.course.grading.standin_values import Block, where


class Grid:
    """The tiles of a problem: ``tables`` as :func:`iosim.course.grading.job.tables_of` builds them."""

    __slots__ = ("_machine", "_tables")

    def __init__(self, machine: Machine, tables: Mapping[str, Any]) -> None:
        self._machine, self._tables = machine, tables

    def row(self, i: Tile) -> Runs:
        """Key tiles that query tile ``i`` visits."""
        return self._of(r.ROW, "by_row", "rows", i)

    def col(self, j: Tile) -> Runs:
        """Query tiles that key tile ``j`` visits."""
        return self._of(r.COL, "by_col", "cols", j)

    def unseen(self, i: Tile) -> Runs:
        """Key tiles in which no query of tile ``i`` attends to anything."""
        return self._of(r.UNSEEN, "unseen", "rows", i)

    def columns(self, skip_empty: bool = False) -> Runs:
        """Key tiles: all of them, or those that some query tile visits."""
        which = r.VISITED_COLUMNS if skip_empty else r.COLUMNS
        return Runs(self._ask(which), self._tables["visited_columns" if skip_empty else "columns"])

    def unvisited_rows(self) -> Runs:
        """Query tiles that no key tile visits."""
        return Runs(self._ask(r.UNVISITED_ROWS), self._tables["unvisited_rows"])

    def _of(self, which: int, table: str, size: str, tile: Tile) -> Runs:
        cut, (axis, height) = (tile._loop._axis, tile._loop._height), self._tables[size]
        handle = self._ask(which, tile._handle)
        if cut != (axis, height):
            raise BadInput(f"the grid has tiles of {height} out of {axis} rows but was asked for a tile of {cut[1]} out of {cut[0]}")
        return Runs(handle, self._tables[table][tile._index])

    def _ask(self, which: int, tile: int = 0) -> int:
        """The handle of the runs that the grid is asked for."""
        handle = self._machine._next()
        self._machine._put(r.SEEN, handle, tile, flags=which)
        return handle


class Mask:
    """Which tiles are visited (``grid``), and inside a tile what a rule of indices, or of elements in HBM, allows."""

    __slots__ = ("elements", "grid", "kept", "kept_scale", "rule")

    def __init__(self, machine: Machine, tables: Mapping[str, Any], arrays: Sequence[Hbm]) -> None:
        self.grid = Grid(machine, tables)
        self.rule = Rule(r.RULE) if tables["rule"] else None
        self.kept = Rule(r.KEPT) if tables["kept"] else None
        self.kept_scale: float = tables["kept_scale"]
        self.elements = None if tables["elements"] is None else arrays[tables["elements"]]

    def hide(self, m: Machine, s: Block, i: Tile, j: Tile) -> None:
        """Set the scores of forbidden pairs to -inf."""
        if self.rule is not None:
            s[...] = where(m.pairs(self.rule, i, j), s, -math.inf)
        if self.elements is not None:
            s[...] = where(m.load(self.elements[i, j]), s, -math.inf)
