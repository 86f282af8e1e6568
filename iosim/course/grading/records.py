"""The records of which a kernel's stream is made: one fixed size, one meaning a field. Standard library only; both sides know it.

A stream is a row of frames, each a length in bytes (four bytes, little-endian) and as many whole records. It ends with END, or with FAIL
records that say which exception ended the listing. What is made gets the next handle, from 1: values, blocks, tiles, slots, loops and runs
share one row of numbers. 0 is no handle.

What can be done with values on chip is declared here, by the names that Python and :mod:`iosim.machine` have for it: the stand-in offers
it, and the replay does it, because it stands here.
"""

from __future__ import annotations

from itertools import count
from struct import Struct

FIELDS = ("op", "flags", "line", "out", "a", "b", "c", "rows", "cols", "scalar", "name")
RECORD = Struct("<BBHIIIIIId16s")
"""op, flags, line of the submission, new handle, three operands, two sizes, a number, a label."""
LENGTH = Struct("<I")
FRAME = 1260 * RECORD.size  # bytes of a frame at most; a little less than the 64 KiB that a pipe holds
MOST = 2**32 - 1  # what a size or a handle may be
MOST_LINES = 2**16 - 1
LABEL = 16  # bytes of a label

LOOP, ITER, NEXT, SEEN, LOAD, STORE, FULL, LET, PAIRS, SET, WHERE = range(1, 12)
OPERATORS = ("add", "sub", "mul", "truediv")
_number = count(12)


def _ops(*names: str) -> dict[str, int]:
    return {name: next(_number) for name in names}


TWO = _ops(*OPERATORS, "maximum", "matmul")  # of two values
MIXED = _ops(*OPERATORS, "maximum")  # of a value and a number
REFLECTED = _ops(*OPERATORS)  # of a number and a value
INTO = _ops(*OPERATORS)  # of a block, which is updated, and a value
MIXED_INTO = _ops(*OPERATORS)  # of a block, which is updated, and a number
ONE = _ops("exp", "log", "finite", "nonzero")  # functions of one value
ROWS = _ops("rowmax", "rowsum")  # methods that reduce rows
TURN, SLOT = next(_number), next(_number)
END, FAIL = next(_number), next(_number)

ROW, COL, UNSEEN, COLUMNS, VISITED_COLUMNS, UNVISITED_ROWS = range(6)  # flags of SEEN: what the grid was asked
RULE, KEPT = 0, 1  # flags of PAIRS: which of the mask's rules
KIND, SAYS, WHERE_IT_WAS = 0, 1, 2  # flags of FAIL: the exception's type, its message, a line that it passed through
MOST_KIND, MOST_SAYS, MOST_TRACE = 4, 32, 20  # FAIL records of each

USES: dict[int, str] = {
    LOOP: "out a b rows cols",  # seen (runs, or 0), the tile that it cuts (0: an axis), the axis (0: of that tile), the tile height
    ITER: "a",  # the loop
    NEXT: "flags out a rows",  # the tile's code, the tile (0: it is over), the loop, the tile's size
    SLOT: "out a rows",  # the tile, and the rows that each of them has
    SEEN: "flags out a",  # which runs of the grid, and of which tile (0: of no tile)
    LOAD: "out a b c rows cols",  # the array's place among the arguments, a tile for each axis (0: the whole of it)
    STORE: "flags a b c rows",  # flags: init; the array, its tiles; rows: the value
    FULL: "out rows cols scalar name",
    LET: "out a rows cols name",
    PAIRS: "flags out a b rows cols",  # two tiles
    SET: "a b",
    WHERE: "out a b rows cols scalar",  # the condition, the value, what stands elsewhere
    **dict.fromkeys(TWO.values(), "out a b rows cols"),
    **dict.fromkeys((*MIXED.values(), *REFLECTED.values()), "out a rows cols scalar"),
    **dict.fromkeys(INTO.values(), "a b"),
    **dict.fromkeys(MIXED_INTO.values(), "a scalar"),
    **dict.fromkeys((*ONE.values(), *ROWS.values(), TURN), "out a rows cols"),
    END: "",
    FAIL: "flags a name",  # flags: KIND, SAYS or WHERE_IT_WAS; a: how many bytes of the text are used
}
"""The fields that an operation uses beside op and line; the others are 0. ``rows`` and ``cols`` are the shape of what is made, or 0 x 0
where the operands do not fit: then the machine refuses the operation itself."""
