"""The stream of a kernel submission, distrusted byte by byte and replayed on a real machine, which judges what it judges in process.

The whole stream is checked first (:mod:`iosim.course.grading.stream`). Then each record becomes the operation of :mod:`iosim.machine` that
it names, on real blocks, tiles and loops: capacity, dead values, loops left early and outputs never written are found there, in the words
that students know. What an operation would make is measured before it is made, and what can no longer be used is forgotten at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from iosim import machine
from iosim.attention.kernels.masking import Mask
from iosim.core.errors import IosimError
from iosim.core.masks.grid import Grid
from iosim.core.masks.runs import Runs
from iosim.course.grading import records as r
from iosim.course.grading.caps import UNBOUNDED, Caps
from iosim.course.grading.stream import Failed, Records, Refused, label, parse
from iosim.machine import Block, Hbm, Machine, OnChip, Tile, Value, where
from iosim.machine.blocks import SPENT
from iosim.machine.tiles import Slot, Tiles

__all__ = ["Caps", "Failed", "Refused", "caps_of", "line_of", "replay"]

Record = tuple[int, int, int, int, int, int, int, int, int, float, bytes]
Handler = Callable[["Replay", Record], None]
FLAGS: Final = 1
LINE: Final = 2
OUT: Final = 3
A: Final = 4
B: Final = 5
C: Final = 6
ROWS: Final = 7
COLS: Final = 8
SCALAR: Final = 9
NAME: Final = 10
WHOLE = slice(None)
MOST_KEPT = 256  # runs, and labels, that are remembered because they may be asked for again
BLOCKS = (r.LOAD, r.FULL, r.LET)
OF_A_TILE = {r.ROW: Grid.row, r.COL: Grid.col, r.UNSEEN: Grid.unseen}
OF_ALL: dict[int, Callable[[Grid], Runs]] = {
    r.COLUMNS: Grid.columns, r.VISITED_COLUMNS: lambda grid: grid.columns(skip_empty=True), r.UNVISITED_ROWS: Grid.unvisited_rows,
}  # fmt: skip


def replay(stream: bytes, machine: Machine, arrays: Sequence[Hbm], mask: Mask | None, caps: Caps) -> None:
    """Replay ``stream`` on ``machine``, whose ``arrays`` are those of the job in order; then ``machine.finish()`` gives the counts.

    Raises :class:`Refused` for a malformed stream or one that asks for more than ``caps``, :class:`Failed` where the listing ended with an
    exception, and whatever the machine raises, in its own type; :func:`line_of` knows the line of the submission.
    """
    Replay(parse(stream, caps.records), machine, arrays, mask, caps).run()


def caps_of(stream: bytes, machine: Machine, arrays: Sequence[Hbm], mask: Mask | None, factor: int = 16) -> Caps:
    """Caps of ``factor`` times what the solution's own ``stream`` costs; it is replayed on ``machine``, which is used up by that.

    Where several data sets or trials of one exercise are graded, each trial has caps of its own: they follow its sizes.
    """
    run = Replay(parse(stream, UNBOUNDED.records), machine, arrays, mask, UNBOUNDED)
    run.run()
    used = Caps(len(run.records.table), run.largest, run.peak, run.elements, machine.matmul, run.most_loops)
    return used.times(factor)


def line_of(error: IosimError) -> int | None:
    """The line of the submission at which a replay raised ``error``, where it is known."""
    line = getattr(error, "line", None)
    return line if isinstance(line, int) else None


class Replay:
    """One run. ``values``, ``blocks``, ``tiles``, ``loops`` and ``runs`` hold what can still be used, by handle.

    A value leaves when it is used and when a tile begins or ends, a block, a tile and what the grid said of it when the tile ends, a
    loop when it is over: so a handle that is gone names something dead. A shell of it, without numbers, then makes the machine say so.
    """

    def __init__(self, records: Records, machine: Machine, arrays: Sequence[Hbm], mask: Mask | None, caps: Caps) -> None:
        self.records, self.m, self.arrays, self.mask, self.caps = records, machine, arrays, mask, caps
        self.values: dict[int, Value] = {}
        self.blocks: dict[int, Block] = {}
        self.tiles: dict[int, Tile] = {}
        self.slots: dict[int, Slot] = {}
        self.most_slots = MOST_KEPT
        self.loops: dict[int, Tiles] = {}
        self.runs: dict[int, Runs] = {}
        self.of_all: dict[int, Runs] = {}
        self.labels: dict[bytes, str] = {}
        self.opened: dict[int, tuple[int, int, int]] = {}
        self.at = self.loose = self.named = self.peak = self.largest = self.elements = self.most_loops = 0

    def run(self) -> None:
        """Replay every record; what the machine raises gets the line as ``line``."""
        line = 0
        try:
            with np.errstate(all="ignore"):  # a wrong answer is no reason for a warning
                for at, record in enumerate(self.records):
                    self.at, line = at, record[LINE]
                    HANDLERS[record[0]](self, record)
        except IosimError as error:
            if line_of(error) is None:
                error.line = line or None  # type: ignore[attr-defined]  # the machine's own type, with a line
            raise
        except MemoryError:
            raise self.refused("it asks for more memory than there is") from None
        if self.records.failed is not None:
            raise self.records.failed

    def refused(self, says: str) -> Refused:
        """Why the stream is refused at this record."""
        return Refused(says, int(self.records.table["line"][self.at]))

    # what is used

    def take(self, handle: int) -> OnChip:
        """A block, or a value, which is gone then."""
        value = self.values.pop(handle, None)
        if value is not None:
            shape = value.shape
            self.loose -= shape[0] * shape[1]
            return value
        block = self.blocks.get(handle)
        return self.dead_value(handle) if block is None else block

    def tile(self, handle: int) -> Tile:
        """A tile."""
        tile = self.tiles.get(handle)
        return self.dead_tile(handle) if tile is None else tile

    def index(self, handle: int) -> Tile | Slot | slice:
        """What a region is cut by: a tile, a slot, or 0 for the whole axis."""
        if not handle:
            return WHOLE
        slot = self.slots.get(handle)
        return self.tile(handle) if slot is None else slot

    def region(self, record: Record) -> tuple[Hbm, Tile | Slot | slice, Tile | Slot | slice]:
        """The array and the tiles of a load or a store."""
        if record[A] >= len(self.arrays):
            raise self.refused(f"the stream names array {record[A]} of {len(self.arrays)}")
        return self.arrays[record[A]], self.index(record[B]), self.index(record[C])

    def label(self, raw: bytes) -> str:
        """The label in a name field."""
        known = self.labels.get(raw)
        if known is None:
            if len(self.labels) >= MOST_KEPT:
                self.labels.clear()
            known = self.labels[raw] = label(raw)
        return known

    # what is made

    def give(self, record: Record, value: Value) -> None:
        """Keep a value that was made."""
        rows, cols = value.shape
        if rows != record[ROWS] or cols != record[COLS]:
            raise self.misshapen(record, value)
        self.values[record[OUT]] = value
        self.loose += rows * cols
        self.spend(rows * cols)

    def settle(self, record: Record, block: Block) -> None:
        """Keep a block that was made."""
        rows, cols = block.shape
        if rows != record[ROWS] or cols != record[COLS]:
            raise self.misshapen(record, block)
        self.blocks[record[OUT]] = block
        self.named += rows * cols
        self.measure(rows * cols)
        self.spend(rows * cols)

    def misshapen(self, record: Record, made: OnChip) -> Refused:
        """Why a record is refused whose operation makes another shape than it says."""
        return self.refused(f"the stream says that an operation makes ({record[ROWS]}, {record[COLS]}), but it makes {made!r}")

    def measure(self, words: int) -> None:
        """Raise :class:`Refused` if one value of so many words is too much."""
        if words > self.largest:
            if words > self.caps.words:
                raise self.refused(f"it makes a value of {words:,} words; at most {self.caps.words:,} are computed here")
            self.largest = words

    def spend(self, words: int) -> None:
        """Raise :class:`Refused` if there is too much at once, or too much work."""
        live = self.loose + self.named
        if live > self.peak:
            if live > self.caps.live:
                raise self.refused(f"it keeps {live:,} words at once; at most {self.caps.live:,} are kept here")
            self.peak = live
        self.elements += words
        if self.elements > self.caps.elements:
            raise self.refused(f"it makes and moves more than {self.caps.elements:,} elements")

    # what is dead

    def dead_value(self, handle: int) -> OnChip:
        """A shell of a value or a block that can no longer be used: whatever uses it raises what the machine says then."""
        maker = self.maker(handle)
        if maker["op"] in BLOCKS:
            block = Block.__new__(Block)
            block.label = self.arrays[maker["a"]].name if maker["op"] == r.LOAD else self.records.label(handle)
            block.tile = Tile.__new__(Tile)
            block.tile.open = False
            shell: OnChip = block
        elif maker["op"] in MAKERS:
            value = Value.__new__(Value)
            used = self.records.uses(handle)[0] < self.at
            value.epoch = SPENT if used or not self.records.crossed(handle, self.at) else SPENT - 1
            shell = value
        else:
            raise self.refused(f"the stream names handle {handle} as a value")
        shell.machine, shell.shape = self.m, (maker["rows"], maker["cols"])
        return shell

    def dead_tile(self, handle: int) -> Tile:
        """A shell of a tile whose loop has moved on."""
        maker = self.maker(handle)
        if maker["op"] != r.NEXT:
            raise self.refused(f"the stream names handle {handle} as a tile")
        loop = self.maker(maker["a"])
        tile = Tile.__new__(Tile)
        tile.machine, tile.open, tile.start, tile.size = self.m, False, 0, maker["rows"]
        tile.axis, tile.height = self.axis_of(loop), loop["cols"]
        return tile

    def axis_of(self, loop: dict[str, int]) -> int:
        """The axis that a loop cuts, in the end."""
        while loop["b"]:
            loop = self.maker(self.maker(loop["b"])["a"])
        return loop["rows"]

    def maker(self, handle: int) -> dict[str, int]:
        """The record that made a handle."""
        if handle == 0:
            raise self.refused("the stream names handle 0")
        return self.records.maker(handle)


def binary(fn: Callable[[OnChip, OnChip], Value]) -> Handler:
    """An operation of two values, of which one may stretch."""

    def handler(run: Replay, record: Record) -> None:
        x, y = run.take(record[A]), run.take(record[B])
        if x.shape != y.shape:
            (rows, cols), (rows_too, cols_too) = x.shape, y.shape
            if (rows == rows_too or 1 in (rows, rows_too)) and (cols == cols_too or 1 in (cols, cols_too)):
                run.measure(max(rows, rows_too) * max(cols, cols_too))
        run.give(record, fn(x, y))

    return handler


def with_number(fn: Callable[[OnChip, float], Value]) -> Handler:
    """An operation of a value and a number."""
    return lambda run, record: run.give(record, fn(run.take(record[A]), record[SCALAR]))


def unary(fn: Callable[[OnChip], Value]) -> Handler:
    """An operation of one value."""
    return lambda run, record: run.give(record, fn(run.take(record[A])))


def reduction(fn: Callable[[OnChip], Value]) -> Handler:
    """A reduction of rows, whose work is what it reads."""

    def handler(run: Replay, record: Record) -> None:
        x = run.take(record[A])
        run.give(record, fn(x))
        run.spend(x.shape[0] * x.shape[1])

    return handler


def update(fn: Callable[[OnChip, OnChip], object]) -> Handler:
    """An operation that writes into a block."""

    def handler(run: Replay, record: Record) -> None:
        x, y = run.take(record[A]), run.take(record[B])
        fn(x, y)
        run.spend(x.shape[0] * x.shape[1])

    return handler


def update_by_number(fn: Callable[[OnChip, float], object]) -> Handler:
    """An operation that writes a block and a number into the block."""

    def handler(run: Replay, record: Record) -> None:
        x = run.take(record[A])
        fn(x, record[SCALAR])
        run.spend(x.shape[0] * x.shape[1])

    return handler


def product(run: Replay, record: Record) -> None:
    """A matrix product, whose size and work are known before it is computed."""
    x, y = run.take(record[A]), run.take(record[B])
    (rows, inner), (inner_too, cols) = x.shape, y.shape
    if inner == inner_too:
        run.measure(rows * cols)
        if run.m.matmul + 2 * rows * inner * cols > run.caps.flops:
            raise run.refused(f"its products take more than {run.caps.flops:,} operations")
    run.give(record, x @ y)


def slot(run: Replay, record: Record) -> None:
    """The slot of a tile; those of tiles that are over are forgotten from time to time."""
    if len(run.slots) >= run.most_slots:
        run.slots = {handle: kept for handle, kept in run.slots.items() if kept.tile.open}
        run.most_slots = 2 * len(run.slots) + MOST_KEPT
    run.slots[record[OUT]] = run.tile(record[A]).slot(record[ROWS])


def load(run: Replay, record: Record) -> None:
    """A load of a region, as its tiles say."""
    array, top, left = run.region(record)
    run.settle(record, run.m.load(array[top, left]))


def store(run: Replay, record: Record) -> None:
    """A store to a region."""
    array, top, left = run.region(record)
    value = run.take(record[ROWS])
    run.m.store(array[top, left], value, init=record[FLAGS] == 1)
    run.spend(value.shape[0] * value.shape[1])


def full(run: Replay, record: Record) -> None:
    """A block of one number; where the machine has no room for it, that is for the machine to say."""
    words = record[ROWS] * record[COLS]
    if run.m.used + words * run.m.cost <= run.m.limit:
        run.measure(words)
    run.settle(record, run.m.full(record[SCALAR], record[ROWS], record[COLS], name=run.label(record[NAME])))


def let(run: Replay, record: Record) -> None:
    """A name and room for a value."""
    run.settle(record, run.m.let(run.take(record[A]), run.label(record[NAME])))


def pairs(run: Replay, record: Record) -> None:
    """One of the mask's rules, for all pairs of two tiles, as many as the tiles have."""
    rule = None if run.mask is None else run.mask.kept if record[FLAGS] == r.KEPT else run.mask.rule
    if rule is None:
        raise run.refused("the stream asks for a rule of the mask that there is not")
    i, j = run.tile(record[A]), run.tile(record[B])
    run.measure(i.size * j.size)
    run.give(record, run.m.pairs(rule, i, j))


def choose(run: Replay, record: Record) -> None:
    """What a condition keeps of a value, and a number elsewhere."""
    run.give(record, where(run.take(record[A]), run.take(record[B]), record[SCALAR]))


def ask(run: Replay, record: Record) -> None:
    """Which tiles a loop is to visit, asked of the real grid."""
    if len(run.runs) >= MOST_KEPT:
        run.runs.clear()
    run.runs[record[OUT]] = asked(run, record[FLAGS], record[A])


def asked(run: Replay, which: int, tile: int) -> Runs:
    """What the grid says of a tile, or of no tile."""
    if run.mask is None:
        raise run.refused("the stream asks for a mask that there is not")
    grid = run.mask.grid
    if which in OF_A_TILE:
        found = OF_A_TILE[which](grid, run.tile(tile))
        run.spend(len(found.first))
    else:
        known = run.of_all.get(which)
        if known is None:
            known = run.of_all[which] = OF_ALL[which](grid)  # the same however often it is asked, and slow to make
        run.spend(len(grid.by_col.first) + len(grid.by_row.first))
        found = known
    return found


def loop(run: Replay, record: Record) -> None:
    """A loop over the tiles of an axis, or inside a tile, which has not begun."""
    seen = seen_by(run, record[A]) if record[A] else None
    if record[B] and record[ROWS]:
        raise run.refused("the stream says both an axis and a tile to be cut")
    run.loops[record[OUT]] = (
        run.tile(record[B]).tiles(record[COLS], seen=seen) if record[B] else run.m.tiles(record[ROWS], record[COLS], seen=seen)
    )
    if len(run.loops) > run.most_loops:
        run.most_loops = len(run.loops)
        if run.most_loops > run.caps.loops:
            raise run.refused(f"it has {run.most_loops} loops that have not ended; at most {run.caps.loops} are kept here")


def seen_by(run: Replay, handle: int) -> Runs:
    """The runs that the grid was asked for before."""
    seen = run.runs.get(handle)
    if seen is None:
        maker = run.maker(handle)
        if maker["op"] != r.SEEN:
            raise run.refused(f"the stream names handle {handle} as runs of tiles")
        seen = asked(run, maker["flags"], maker["a"])
    run.spend(len(seen.first))
    return seen


def begin(run: Replay, record: Record) -> None:
    """The for statement at a loop."""
    tiles = run.loops.get(record[A])
    if tiles is None:
        if run.maker(record[A])["op"] != r.LOOP:
            raise run.refused(f"the stream names handle {record[A]} as a loop")
        tiles = Tiles.__new__(Tiles)
        tiles.started = True
    iter(tiles)


def step(run: Replay, record: Record) -> None:
    """A loop moves on: its tile is closed, with all that was made in it, and the next one is opened, if there is one."""
    handle = record[A]
    tiles = run.loops.get(handle)
    if tiles is None:
        raise run.refused(f"the stream moves on loop {handle}, which there is not")
    epoch, left = run.m.epoch, tiles.tile is not None
    tile = next(tiles, None)
    if run.m.epoch != epoch:
        run.values.clear()
        run.loose = 0
    if left:
        close(run, handle)
    found = (0, 0, 0) if tile is None else (record[OUT], tile.size, tile.code)
    if (record[OUT], record[ROWS], record[FLAGS]) != found or (tile is not None and not record[OUT]):
        raise run.refused("the stream says another tile than the loop has")
    if tile is None:
        del run.loops[handle]
    else:
        run.tiles[record[OUT]] = tile
        run.opened[handle] = record[OUT], len(run.blocks), run.named


def close(run: Replay, loop: int) -> None:
    """Forget the tile of a loop and all the blocks that were made in it."""
    tile, blocks, named = run.opened.pop(loop)
    del run.tiles[tile]
    run.runs.clear()
    while len(run.blocks) > blocks:
        run.blocks.popitem()
    run.named = named


def end(run: Replay, record: Record) -> None:
    """Nothing is left to do."""


def overwrite(x: OnChip, y: OnChip) -> None:
    """``x[...] = y``, which a value refuses."""
    x[...] = y  # type: ignore[index]  # a value has no room, and says so


def meaning(name: str) -> Any:
    """What an operation of records is called in Python, or in :mod:`iosim.machine`."""
    return getattr(operator, name, None) or getattr(machine, name)


def swapped(fn: Callable[[float, OnChip], Value]) -> Callable[[OnChip, float], Value]:
    """A function of a number and a value, called with these in turn."""
    return lambda x, number: fn(number, x)


VALUES: dict[int, Handler] = {
    **{op: binary(meaning(name)) for name, op in r.TWO.items()},
    **{op: with_number(meaning(name)) for name, op in r.MIXED.items()},
    **{op: with_number(swapped(meaning(name))) for name, op in r.REFLECTED.items()},
    **{op: unary(meaning(name)) for name, op in r.ONE.items()},
    **{op: reduction(operator.methodcaller(name)) for name, op in r.ROWS.items()},
    r.TURN: unary(operator.attrgetter("T")), r.TWO["matmul"]: product, r.WHERE: choose, r.PAIRS: pairs,
}  # fmt: skip
UPDATES: dict[int, Handler] = {
    **{op: update(meaning(f"i{name}")) for name, op in r.INTO.items()},
    **{op: update_by_number(meaning(f"i{name}")) for name, op in r.MIXED_INTO.items()}, r.SET: update(overwrite),
}  # fmt: skip
OTHERS: dict[int, Handler] = {
    r.LOOP: loop, r.ITER: begin, r.NEXT: step, r.SEEN: ask, r.SLOT: slot, r.LOAD: load, r.STORE: store, r.FULL: full, r.LET: let,
    r.END: end,
}  # fmt: skip
MAKERS = frozenset(VALUES)
HANDLERS = VALUES | UPDATES | OTHERS
