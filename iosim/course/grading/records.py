"""The records of which a kernel's stream is made: one fixed size, one meaning a field. Standard library only; both sides know it.

A stream is a row of frames, each a length in bytes (four bytes, little-endian) and as many whole records. It ends with END, or with FAIL
records that say which exception ended the listing. What is made gets the next handle, from 1: values, blocks, tiles, loops and runs
share one row of numbers. 0 is no handle.
"""

from __future__ import annotations

from struct import Struct

FIELDS = ("op", "flags", "line", "out", "a", "b", "c", "rows", "cols", "scalar", "name")
RECORD = Struct("<BBHIIIIIId16s")
"""op, flags, line of the submission, new handle, three operands, two sizes, a number, a label."""
LENGTH = Struct("<I")
FRAME = 1260 * RECORD.size  # bytes of a frame at most; a little less than the 64 KiB that a pipe holds
MOST = 2**32 - 1  # what a size or a handle may be
MOST_LINES = 2**16 - 1
LABEL = 16  # bytes of a label

LOOP, ITER, NEXT, SEEN, LOAD, STORE, FULL, LET, PAIRS, SET = range(1, 11)
ADD, SUB, MUL, DIV, MAX = range(11, 16)
ADDS, SUBS, MULS, DIVS, MAXS, RSUBS, RDIVS = range(16, 23)
IADD, ISUB, IMUL, IDIV = range(23, 27)
IADDS, ISUBS, IMULS, IDIVS = range(27, 31)
PRODUCT, TURN, ROWMAX, ROWSUM, EXP, LOG, FINITE, NONZERO, WHERE = range(31, 40)
END, FAIL = 40, 41

ROW, COL, UNSEEN, COLUMNS, VISITED_COLUMNS, UNVISITED_ROWS = range(6)  # flags of SEEN: what the grid was asked
RULE, KEPT = 0, 1  # flags of PAIRS: which of the mask's rules
KIND, SAYS, WHERE_IT_WAS = 0, 1, 2  # flags of FAIL: the exception's type, its message, a line that it passed through
MOST_KIND, MOST_SAYS, MOST_TRACE = 4, 32, 20  # FAIL records of each

_UNARY, _BINARY, _NUMBER = "out a rows cols", "out a b rows cols", "out a rows cols scalar"
USES: dict[int, str] = {
    LOOP: "out a rows cols",  # m.tiles: seen (runs, or 0), the axis, the tile height
    ITER: "a",  # the loop
    NEXT: "flags out a rows",  # the tile's code, the tile (0: it is over), the loop, the tile's size
    SEEN: "flags out a",  # which runs of the grid, and of which tile (0: of no tile)
    LOAD: "out a b c rows cols",  # the array's place among the arguments, a tile for each axis (0: the whole of it)
    STORE: "flags a b c rows",  # flags: init; the array, its tiles; rows: the value
    FULL: "out rows cols scalar name",
    LET: "out a rows cols name",
    PAIRS: "flags out a b rows cols",  # two tiles
    SET: "a b",
    **dict.fromkeys((ADD, SUB, MUL, DIV, MAX, PRODUCT), _BINARY),
    **dict.fromkeys((ADDS, SUBS, MULS, DIVS, MAXS, RSUBS, RDIVS), _NUMBER),
    **dict.fromkeys((IADD, ISUB, IMUL, IDIV), "a b"),
    **dict.fromkeys((IADDS, ISUBS, IMULS, IDIVS), "a scalar"),
    **dict.fromkeys((TURN, ROWMAX, ROWSUM, EXP, LOG, FINITE, NONZERO), _UNARY),
    WHERE: "out a b rows cols scalar",  # the condition, the value, what stands elsewhere
    END: "",
    FAIL: "flags a name",  # flags: KIND, SAYS or WHERE_IT_WAS; a: how many bytes of the text are used
}
"""The fields that an operation uses beside op and line; the others are 0. ``rows`` and ``cols`` are the shape of what is made, or 0 x 0
where the operands do not fit: then the machine refuses the operation itself."""
