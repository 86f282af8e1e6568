"""Streams that no listing leaves: each is refused in one line, in bounded memory and time, before or while it is replayed."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.attention.kernels.masking import Mask
from iosim.core.errors import IosimError
from iosim.core.masks.grid import Grid, grid, index_rule
from iosim.core.masks.runs import Runs
from iosim.core.problem import Attention, Blocks
from iosim.course.grading import records as r
from iosim.course.grading.caps import LEAST, UNBOUNDED, Caps
from iosim.course.grading.job import kernel_job, tables_of
from iosim.course.grading.recording import record
from iosim.course.grading.replay import OF_ALL, Failed, Refused, caps_of, line_of, replay
from iosim.course.grading.stream import HANDLES, LAYOUT, USES
from iosim.memory import Hbm, Machine, Mode, Tile

N, D, B = 5, 2, 2
ADD, MUL, PRODUCT = (r.TWO[name] for name in ("add", "mul", "matmul"))
ADDS, IADD, IMULS, EXP = r.MIXED["add"], r.INTO["add"], r.MIXED_INTO["mul"], r.ONE["exp"]
ROWMAX, ROWSUM = r.ROWS["rowmax"], r.ROWS["rowsum"]
MASKED = Attention(N, D, causal=True)
SOURCE = """
def listing(m, X, Y, *, mask):
    for i in m.tiles(5, 2):
        x = m.load(X[i])
        y = m.full(0.0, i.size, 2, name="y")
        for j in m.tiles(5, 2, seen=mask.grid.row(i)):
            s = m.let(2.0 * (x @ m.load(X[j]).T), "s")
            mask.hide(m, s, i, j)
            y += s.rowmax()
        y[...] = y / (1.0 + y)
        for k in i.tiles(1):
            m.load(X[k])
        m.store(Y[i], y)
"""


def mask_of(problem: Attention, br: int, bc: int) -> Mask:
    """The visited tiles of a problem in Br x Bc, and the rule inside them."""
    return Mask(grid(problem, Blocks(br, bc)), index_rule(problem))


def job_and_stream() -> bytes:
    return record(SOURCE, kernel_job("listing", {"X": (N, D), "Y": (N, D)}, {}, tables_of(mask_of(MASKED, B, B))))


STREAM = job_and_stream()


def machine(mode: Mode = "execute", sram: int | None = 100) -> tuple[Machine, list[Hbm]]:
    m = Machine(sram, mode=mode)
    return m, [m.input("X", (N, D), np.ones((N, D))), m.output("Y", (N, D))]


def run(stream: bytes, caps: Caps = UNBOUNDED, *, masked: bool = True, sram: int | None = 100) -> Machine:
    m, arrays = machine(sram=sram)
    replay(stream, m, arrays, mask_of(MASKED, B, B) if masked else None, caps)
    return m


def framed(*records: bytes, end: bool = True) -> bytes:
    """One frame for every 1,260 records, END behind the last."""
    data = b"".join((*records, *([rec(r.END)] if end else [])))
    return b"".join(r.LENGTH.pack(len(part)) + part for part in (data[at : at + r.FRAME] for at in range(0, len(data), r.FRAME)))


def rec(
    op: int, *, flags: int = 0, line: int = 7, out: int = 0, a: int = 0, b: int = 0, c: int = 0, rows: int = 0, cols: int = 0,
    scalar: float = 0.0, name: bytes = b"",
) -> bytes:  # fmt: skip
    return r.RECORD.pack(op, flags, line, out, a, b, c, rows, cols, scalar, name)


def fill(out: int, rows: int = 1, cols: int = 1, scalar: float = 1.0, name: bytes = b"f") -> bytes:
    return rec(r.FULL, out=out, rows=rows, cols=cols, scalar=scalar, name=name)


LOAD = rec(r.LOAD, out=1, rows=N, cols=D)
LOOP = rec(r.LOOP, out=1, rows=N, cols=B)
INTO = rec(r.NEXT, out=2, a=1, rows=B, flags=1)
INSIDE = rec(r.LOOP, out=3, b=2, cols=1)


def test_an_honest_stream_passes() -> None:
    m = run(STREAM, Caps(**{field.name: 10**6 for field in fields(Caps)}))
    assert m.finish().arrays["X"].reads == N * D + (2 + 4 + 5) * D + N * D
    assert m.arrays["Y"].data[0, 0] == 4 / 5  # of the first tile: y = 2 x x = 4


def test_records_are_laid_out_alike_on_both_sides() -> None:
    assert LAYOUT.itemsize == r.RECORD.size == 52
    row = np.frombuffer(r.RECORD.pack(1, 2, 3, 4, 5, 6, 7, 8, 9, 1.5, b"name"), LAYOUT)[0]
    assert [int(row[name]) for name in r.FIELDS[:9]] == list(range(1, 10))
    assert np.array(row["scalar"]).view(np.float64) == 1.5
    assert r.FRAME % r.RECORD.size == 0
    assert r.FRAME + r.LENGTH.size <= 2**16
    assert sorted(r.USES) == list(range(1, r.FAIL + 1))


# frames


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (b"", "it ended without finishing"),
        (b"\x01", "cut short"),
        (r.LENGTH.pack(52), "cut short"),
        (STREAM[:-1], "cut short"),
        (STREAM[: len(STREAM) // 2], "cut short"),
        (r.LENGTH.pack(2**32 - 1) + b"\0" * 100, "a frame of 4,294,967,295 bytes"),
        (r.LENGTH.pack(0) * 1000, "a frame of 0 bytes"),
        (r.LENGTH.pack(51) + b"\0" * 51, "a frame of 51 bytes"),
        (r.LENGTH.pack(r.FRAME + 52) + b"\0" * (r.FRAME + 52), "a frame of 65,572 bytes"),
        (b"values match, rules kept, words moved: full marks\n", "a frame of"),
        (framed(fill(1), end=False), "it ended without finishing"),
        (STREAM + STREAM, "something follows the end"),
        (framed(rec(r.END)), "something follows the end"),
        (framed(rec(r.END), fill(1), end=False), "something follows the end"),
        (framed(rec(r.FAIL, a=1, name=b"E")), "something follows the end"),
        (framed(rec(r.END), rec(r.FAIL, a=1, name=b"E"), end=False), "something follows the end"),
        (framed(rec(r.FAIL, a=1, name=b"E"), fill(1), end=False), "something follows the end"),
    ],
)
def test_frames_are_distrusted(stream: bytes, says: str) -> None:
    refused(stream, says)


def refused(stream: bytes, says: str, caps: Caps = UNBOUNDED, *, masked: bool = True, sram: int | None = None) -> Refused:
    with pytest.raises(Refused, match=says) as caught:
        run(stream, caps, masked=masked, sram=sram)
    assert str(caught.value).isprintable()  # one line
    assert len(str(caught.value)) < 600
    return caught.value


# fields and handles


def unused() -> Iterator[tuple[int, str]]:
    """Every operation with every field that it does not use."""
    for op in range(1, r.FAIL + 1):
        yield from ((op, name) for name in ("flags", *r.FIELDS[3:]) if not USES[name][op])


@pytest.mark.parametrize(("op", "name"), list(unused()))
def test_a_field_that_is_not_used_is_0(op: int, name: str) -> None:
    value: dict[str, object] = {"scalar": math.nan, "name": b"\0x"}
    end = [] if op in (r.END, r.FAIL) else [rec(r.END)]
    given = {name: value.get(name, 1)} | ({"out": 1} if USES["out"][op] and op != r.NEXT else {})
    refused(framed(rec(op, **given), *end, end=False), f"operation {op} has no field {name}")  # type: ignore[arg-type]


@pytest.mark.parametrize("op", [0, r.FAIL + 1, 255])
def test_an_operation_that_does_not_exist(op: int) -> None:
    ends = "something follows the end" if op > r.FAIL else f"operation {op} does not exist"
    refused(framed(rec(op)), ends)


@pytest.mark.parametrize(
    ("op", "flags"), [(r.NEXT, 8), (r.STORE, 2), (r.SEEN, r.UNVISITED_ROWS + 1), (r.PAIRS, 2), (r.FAIL, r.WHERE_IT_WAS + 1)]
)
def test_flags_that_do_not_exist(op: int, flags: int) -> None:
    out = 1 if op in (r.SEEN, r.PAIRS) else 0
    refused(framed(rec(op, flags=flags, out=out), end=op != r.FAIL), f"operation {op} has no such flags")


@pytest.mark.parametrize("scalar", [math.nan, math.inf, -math.inf, -0.0, 5e-324])
def test_numbers_where_none_belong_are_refused_and_others_are_the_machines_own(scalar: float) -> None:
    error = refused(framed(LOAD, rec(EXP, out=2, a=1, rows=N, cols=D, scalar=scalar)), f"operation {EXP} has no field scalar")
    assert error.line == 7
    stored = rec(r.STORE, a=1, rows=1)
    m = run(framed(fill(1, N, D, scalar), stored))
    m.finish()
    assert np.array_equal(m.arrays["Y"].data, np.full((N, D), scalar, np.float32), equal_nan=True)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([fill(0)], "not in a row"),
        ([fill(2)], "not in a row"),
        ([fill(1), fill(1)], "not in a row"),
        ([fill(1), fill(3)], "not in a row"),
        ([fill(2**32 - 1)], "not in a row"),
        ([LOOP, rec(r.ITER, a=1), rec(r.NEXT, out=1, a=1, rows=B, flags=1)], "not in a row"),
        ([fill(1), rec(EXP, out=2, a=2, rows=1, cols=1)], "named before it was made"),
        ([fill(1), rec(EXP, out=2, a=3, rows=1, cols=1), fill(3)], "named before it was made"),
        ([fill(1), rec(r.STORE, a=1, rows=9)], "named before it was made"),
        ([fill(1), rec(r.STORE, a=1, b=4, rows=1)], "named before it was made"),
        ([rec(r.LOAD, out=1, a=0, c=1, rows=5, cols=2)], "named before it was made"),
        ([rec(EXP, out=1, a=0, rows=1, cols=1)], "names handle 0"),
        ([fill(1), rec(r.SET, a=1, b=0)], "names handle 0"),
        ([rec(r.ITER)], "names handle 0"),
        ([rec(r.SEEN, out=1)], "names handle 0"),
        ([LOOP, rec(EXP, out=2, a=1, rows=1, cols=1)], "names handle 1 as a value"),
        ([LOOP, rec(r.ITER, a=1), INTO, rec(r.LET, out=3, a=2, rows=1, cols=1, name=b"t")], "names handle 2 as a value"),
        ([fill(1), rec(r.ITER, a=1)], "names handle 1 as a loop"),
        ([fill(1), rec(r.NEXT, a=1)], "loop 1, which there is not"),
        ([fill(1), rec(r.LOOP, out=2, a=1, rows=N, cols=B)], "names handle 1 as runs of tiles"),
        ([fill(1), rec(r.LOAD, out=2, b=1, rows=1, cols=2)], "names handle 1 as a tile"),
        ([LOOP, rec(r.PAIRS, out=2, a=1, b=1, rows=1, cols=1)], "names handle 1 as a tile"),
        ([fill(1), rec(r.SEEN, out=2, a=1)], "names handle 1 as a tile"),
        ([fill(1), rec(r.LOOP, out=2, b=1, cols=1)], "names handle 1 as a tile"),
        ([LOOP, rec(r.LOOP, out=2, b=1, cols=1)], "names handle 1 as a tile"),
    ],
)
def test_handles_are_distrusted(records: list[bytes], says: str) -> None:
    assert refused(framed(*records), says).line == 7


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([rec(r.LOAD, out=1, a=2, rows=1, cols=1)], "array 2 of 2"),
        ([fill(1), rec(r.STORE, a=2**32 - 1, rows=1)], "array 4294967295 of 2"),
        ([rec(r.LOAD, out=1, rows=N, cols=D + 1)], r"makes \(5, 3\), but it makes X\(5, 2\)"),
        ([fill(1, 2, 3), rec(r.TURN, out=2, a=1, rows=2, cols=3)], r"but it makes an unnamed value\(3, 2\)"),
        ([fill(1, 2, 3), fill(2, 2, 3), rec(ADD, out=3, a=1, b=2)], r"makes \(0, 0\), but"),
        ([fill(1, 2, 3), fill(2, 3, 1), rec(PRODUCT, out=3, a=1, b=2)], r"makes \(0, 0\), but"),
        ([LOOP, rec(r.ITER, a=1), rec(r.NEXT, a=1)], "another tile than the loop has"),
        ([LOOP, rec(r.ITER, a=1), rec(r.NEXT, out=2, a=1, rows=N, flags=1)], "another tile than the loop has"),
        ([LOOP, rec(r.ITER, a=1), rec(r.NEXT, out=2, a=1, rows=B, flags=3)], "another tile than the loop has"),
        ([rec(r.LOOP, out=1, rows=2, cols=2), rec(r.NEXT, out=2, a=1, rows=2, flags=1), rec(r.NEXT, out=3, a=1)], "another tile"),
        ([LOOP, INTO, rec(r.LOOP, out=3, b=2, rows=B, cols=1)], "both an axis and a tile to be cut"),
        ([LOOP, INTO, INSIDE, rec(r.NEXT, out=4, a=3, rows=B, flags=1)], "another tile than the loop has"),
        ([LOOP, INTO, INSIDE, rec(r.NEXT, a=3)], "another tile than the loop has"),
        ([rec(r.LOOP, out=1, rows=2, cols=2), INTO, rec(r.NEXT, a=1), rec(r.NEXT, a=1)], "loop 1, which there is not"),
    ],
)
def test_shapes_arrays_and_steps_are_distrusted(records: list[bytes], says: str) -> None:
    refused(framed(*records), says)


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([rec(r.LOOP, out=1, rows=B, cols=B), rec(r.NEXT, out=2, a=1, rows=B, flags=1), INSIDE, rec(r.NEXT, out=4, a=3, rows=1, flags=1),
          rec(r.LOAD, out=5, b=4, rows=1, cols=D)], "axis 0 has 5 rows but the tile comes from a loop over 2"),
        ([LOOP, INTO, INSIDE, rec(r.NEXT, out=4, a=3, rows=1, flags=1), rec(r.SEEN, out=5, a=4)], "was asked for a tile of 1 out of 5"),
        ([LOOP, INTO, rec(r.LOOP, out=3, b=2, cols=2), rec(r.NEXT, out=4, a=3, rows=2, flags=1), rec(r.SEEN, out=5, a=4)],
         "no tile inside a tile"),
        ([LOOP, INTO, rec(r.SEEN, out=3, flags=r.COLUMNS), rec(r.LOOP, out=4, a=3, b=2, cols=1)], "visits all rows of i"),
        ([LOOP, INTO, rec(r.LOOP, out=3, b=2)], "the tile height must be a whole number"),
    ],
)  # fmt: skip
def test_tiles_inside_tiles_are_the_machines_own(records: list[bytes], says: str) -> None:
    with pytest.raises(IosimError, match=says) as caught:
        run(framed(*records))
    assert not isinstance(caught.value, Refused)


def test_regions_are_tiles_and_cannot_lie_outside() -> None:
    far = [rec(r.LOOP, out=1, rows=10**6, cols=10**6), rec(r.NEXT, out=2, a=1, rows=10**6, flags=1)]
    for records in ([rec(r.LOAD, out=3, b=2, rows=10**6, cols=2)], [fill(3), rec(r.STORE, a=1, c=2, rows=3)]):
        with pytest.raises(IosimError, match="comes from a loop over 1000000"):
            run(framed(*far, *records))


def test_there_may_be_no_mask() -> None:
    refused(framed(rec(r.SEEN, out=1, flags=r.COLUMNS)), "asks for a mask that there is not", masked=False)
    two = [LOOP, INTO, rec(r.PAIRS, out=3, a=2, b=2, rows=B, cols=B)]
    refused(framed(*two), "a rule of the mask that there is not", masked=False)
    refused(framed(*two[:2], rec(r.PAIRS, out=3, a=2, b=2, rows=B, cols=B, flags=r.KEPT)), "a rule of the mask that there is not")


# what the listing says of itself


def fail(kind: bytes, says: bytes, lines: list[int]) -> list[bytes]:
    parts = [(which, text[at : at + 16]) for which, text in ((r.KIND, kind), (r.SAYS, says)) for at in range(0, len(text), 16)]
    told = [rec(r.FAIL, flags=which, a=len(text), name=text) for which, text in parts]
    return told + [rec(r.FAIL, flags=r.WHERE_IT_WAS, line=line) for line in lines]


def test_an_exception_is_told_and_decides_nothing() -> None:
    with pytest.raises(Failed) as caught:
        run(framed(*fail(b"ValueError", b"no\nway \x1b[31m\xff" + "\u202e\u4e2d".encode(), [3, 9]), end=False))
    error = caught.value
    assert (error.kind, error.message, error.lines, error.line) == ("ValueError", "no\\nway \\x1b[31m\\xff\\u202e\u4e2d", (3, 9), 9)
    with pytest.raises(Failed, match=r"^an exception without a name$"):
        run(framed(rec(r.FAIL), end=False))
    with pytest.raises(IosimError, match="was read before it was written"):  # what came first is judged first
        run(framed(rec(r.LOAD, out=1, a=1, rows=N, cols=D), *fail(b"E", b"", []), end=False))


@pytest.mark.parametrize(
    "records",
    [fail(b"E" * 65, b"", []), fail(b"E", b"x" * 513, []), fail(b"E", b"", [1] * 21), fail(b"[" * 10**6, b'{"a":' * 10**6, [])],
)
def test_a_flood_of_text_is_refused(records: list[bytes]) -> None:
    refused(framed(*records, end=False), "at too great length")


def test_a_piece_of_text_is_no_longer_than_its_field() -> None:
    refused(framed(rec(r.FAIL, a=17, name=b"x" * 16), end=False), "too long pieces")


def test_labels_are_printable() -> None:
    with pytest.raises(IosimError, match=r"\\x1b\[2J\\u202e\(9, 9\) needs 81 words") as caught:
        run(framed(fill(1, 9, 9, name=b"\x1b[2J" + "\u202e".encode())), sram=80)
    assert str(caught.value).isprintable()
    assert line_of(caught.value) == 7


# floods: each of records that are sound


def flood(many: int, make: Callable[[int], list[bytes]], *before: bytes) -> bytes:
    return framed(*before, *(part for k in range(many) for part in make(k)))


def growing(many: int) -> bytes:
    """A row and a column make a matrix, which is made again and again."""
    return flood(many, lambda k: [rec(ADD, out=3 + k, a=1, b=2, rows=1000, cols=1000)], fill(1, 1000, 1), fill(2, 1, 1000))


CAPS = Caps(records=10**5, words=10**4, live=3 * 10**4, elements=10**6, flops=10**6, loops=8)
FEW = replace(CAPS, elements=10**4)
FLOODS: dict[str, tuple[bytes, Caps, str]] = {
    "operations": (flood(5000, lambda k: [fill(1 + k)]), replace(CAPS, records=4000), "more than 4,000 operations"),
    "small frames": (
        b"".join(r.LENGTH.pack(52) + fill(1 + k) for k in range(5000)), replace(CAPS, records=4000), "more than 4,000 operations",
    ),
    "a large block": (framed(fill(1, 2**32 - 1, 2**32 - 1)), CAPS, "a value of 18,446,744,065,119,617,025 words"),
    "a large sum": (growing(1), CAPS, "a value of 1,000,000 words"),
    "a large product": (
        framed(fill(1, 1000, 1), fill(2, 1, 1000), rec(PRODUCT, out=3, a=1, b=2, rows=1000, cols=1000)), CAPS, "of 1,000,000 words",
    ),
    "a large sum that is said to be none": (
        framed(fill(1, 1000, 1), fill(2, 1, 1000), rec(ADD, out=3, a=1, b=2)), CAPS, "1,000,000 words",
    ),
    "all pairs of large tiles": (
        framed(rec(r.LOOP, out=1, rows=10**6, cols=10**6), rec(r.NEXT, out=2, a=1, rows=10**6, flags=1),
               rec(r.PAIRS, out=3, a=2, b=2, rows=10**6, cols=10**6)),
        CAPS, "a value of 1,000,000,000,000 words",
    ),
    "values that are kept": (
        flood(2000, lambda k: [rec(ADDS, out=2 + k, a=1, rows=90, cols=100)], fill(1, 90, 100)), CAPS, "keeps 36,000 words at once",
    ),
    "blocks that are kept": (flood(2000, lambda k: [fill(1 + k, 90, 100)]), CAPS, "keeps 36,000 words at once"),
    "transposes of what is overwritten": (
        flood(2000, lambda k: [rec(r.TURN, out=2 + 2 * k, a=1, rows=100, cols=90), rec(ADDS, out=3 + 2 * k, a=1, rows=90, cols=100),
                               rec(r.SET, a=1, b=3 + 2 * k)], fill(1, 90, 100)),
        CAPS, "keeps 36,000 words at once",
    ),
    "work on values": (
        flood(9000, lambda k: [rec(EXP, out=2 + k, a=1, rows=90, cols=100), rec(r.SET, a=1, b=2 + k)], fill(1, 90, 100)),
        CAPS, "more than 1,000,000 elements",
    ),
    "work in place": (flood(9000, lambda k: [rec(IMULS, a=1, scalar=1.0)], fill(1, 90, 100)), CAPS, "more than 1,000,000 elements"),
    "sums of rows": (
        flood(9000, lambda k: [rec(ROWSUM, out=2 + k, a=1, rows=1, cols=1)], fill(1, 1, 9000)), CAPS, "more than 1,000,000 elements",
    ),
    "stores": (flood(9000, lambda k: [rec(r.STORE, a=1, rows=1)], fill(1, N, D)), FEW, "more than 10,000 elements"),
    "products": (
        flood(9000, lambda k: [rec(PRODUCT, out=2 + k, a=1, b=1, rows=90, cols=90), rec(r.SET, a=1, b=2 + k)], fill(1, 90, 90)),
        CAPS, "products take more than 1,000,000 operations",
    ),
    "loops": (flood(9000, lambda k: [rec(r.LOOP, out=1 + k, rows=1, cols=1)]), CAPS, "9 loops that have not ended"),
    "nested loops": (
        flood(9000, lambda k: [rec(r.LOOP, out=1 + 2 * k, rows=1, cols=1), rec(r.NEXT, out=2 + 2 * k, a=1 + 2 * k, rows=1, flags=1)]),
        CAPS, "9 loops that have not ended",
    ),
    "loops inside tiles": (
        flood(9000, lambda k: [rec(r.LOOP, out=3 + 2 * k, b=2 + 2 * k, cols=1), rec(r.NEXT, out=4 + 2 * k, a=3 + 2 * k, rows=1, flags=1)],
              rec(r.LOOP, out=1, rows=1, cols=1), rec(r.NEXT, out=2, a=1, rows=1, flags=1)),
        CAPS, "9 loops that have not ended",
    ),
    "questions": (flood(9000, lambda k: [rec(r.SEEN, out=1 + k, flags=r.COLUMNS)]), FEW, "more than 10,000 elements"),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_is_refused_in_bounded_memory_and_time(name: str) -> None:
    stream, caps, says = FLOODS[name]
    tracemalloc.start()
    start = process_time()
    try:
        refused(stream, says, caps)
        seconds, (_, peak) = process_time() - start, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(stream) + 2**21
    assert seconds < 5  # tracing allocations takes ten times as long as a replay


def looped(k: int) -> list[bytes]:
    """A block and a value of 900 words, in a tile of their own."""
    tile, block = 2 + 3 * k, 3 + 3 * k
    into = rec(r.NEXT, out=tile, a=1, rows=1, flags=1)
    return [into, fill(block, 30, 30, name=b"%d" % k), rec(EXP, out=block + 1, a=block, rows=30, cols=30)]


def used_up(k: int) -> list[bytes]:
    """A value of 900 words that is added to the block 1."""
    return [rec(EXP, out=2 + k, a=1, rows=30, cols=30), rec(IADD, a=1, b=2 + k)]


TURNS = 3000
SHORT_LIVED = {
    "a tile each": framed(rec(r.LOOP, out=1, rows=TURNS, cols=1), *(part for k in range(TURNS) for part in looped(k)), rec(r.NEXT, a=1)),
    "in one tile": flood(TURNS, used_up, fill(1, 30, 30)),
}


@pytest.mark.parametrize("name", SHORT_LIVED)
def test_a_long_stream_of_short_lived_things_needs_little_memory(name: str) -> None:
    """Handles of what is gone cost a few bytes each, whatever they named."""
    tracemalloc.start()
    try:
        run(SHORT_LIVED[name], sram=2000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * len(SHORT_LIVED[name]) + 2**19  # the values alone would take 10 MB, and the blocks


def test_a_whole_capacity_of_overflow_is_left_to_the_machine() -> None:
    with pytest.raises(IosimError, match=r"f\(4294967295, 4294967295\) needs 18446744065119617025 words but 100 of 100 are free"):
        run(framed(fill(1, 2**32 - 1, 2**32 - 1)), CAPS)


# dead things, in the machine's own words


DEAD: dict[str, tuple[list[bytes], str]] = {
    "used twice": ([fill(1), *(rec(EXP, out=2 + k, a=1 + (k > 0), rows=1, cols=1) for k in range(3))], "was used twice"),
    "twice at once": ([fill(1), rec(EXP, out=2, a=1, rows=1, cols=1), rec(MUL, out=3, a=2, b=2, rows=1, cols=1)], "was used twice"),
    "too late": ([fill(1), rec(EXP, out=2, a=1, rows=1, cols=1), rec(r.LOOP, out=3, rows=1, cols=1),
                  rec(r.NEXT, out=4, a=3, rows=1, flags=1), rec(r.STORE, a=1, rows=2)], r"cannot store an unnamed value\(1, 1\)"),
    "after its tile": ([LOOP, INTO, fill(3, N, D, name=b"kept"), rec(r.NEXT, out=4, a=1, rows=B, flags=1), rec(r.STORE, a=1, rows=3)],
                       r"kept\(5, 2\) was released when its tile ended"),
    "a load after its tile": ([LOOP, INTO, rec(r.LOAD, out=3, b=2, rows=B, cols=D), rec(r.NEXT, out=4, a=1, rows=B, flags=1),
                               rec(ROWMAX, out=5, a=3, rows=B, cols=1)], r"X\(2, 2\) was released when its tile ended"),
    "a tile": ([LOOP, INTO, rec(r.NEXT, out=3, a=1, rows=B, flags=1), rec(r.LOAD, out=4, b=2, rows=B, cols=D)],
               "a tile of 2 rows was used after its loop had moved on"),
    "a tile that was cut": ([LOOP, INTO, rec(r.NEXT, out=3, a=1, rows=B, flags=1), rec(r.LOOP, out=4, b=2, cols=1)],
                            "a tile of 2 rows was used after its loop had moved on"),
    "a tile inside it": ([LOOP, INTO, INSIDE, rec(r.NEXT, out=4, a=3, rows=1, flags=1), rec(r.NEXT, out=5, a=3, rows=1, flags=1),
                          rec(r.LOAD, out=6, b=4, rows=1, cols=D)], "a tile of 1 rows was used after its loop had moved on"),
    "a question of it": ([LOOP, INTO, rec(r.LOOP, out=3, b=2, cols=2), rec(r.NEXT, out=4, a=3, rows=2, flags=1), rec(r.NEXT, a=3),
                          rec(r.SEEN, out=5, a=4)], "a tile of 2 rows was used after its loop had moved on"),
    "a question": ([LOOP, INTO, rec(r.NEXT, out=3, a=1, rows=B, flags=1), rec(r.SEEN, out=4, a=2)], "used after its loop had moved on"),
    "an answer": ([LOOP, INTO, rec(r.SEEN, out=3, a=2), rec(r.NEXT, out=4, a=1, rows=B, flags=1),
                   rec(r.LOOP, out=5, a=3, rows=N, cols=B)], "used after its loop had moved on"),
    "a loop": ([rec(r.LOOP, out=1, rows=2, cols=2), rec(r.ITER, a=1), INTO, rec(r.NEXT, a=1), rec(r.ITER, a=1)],
               "a loop over tiles runs once"),
    "an assignment": ([fill(1), rec(EXP, out=2, a=1, rows=1, cols=1), rec(r.SET, a=2, b=1)], "was assigned to, but it has no room"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEAD)
def test_what_is_dead_stays_dead(name: str) -> None:
    records, says = DEAD[name]
    with pytest.raises(IosimError, match=says) as caught:
        run(framed(*records))
    assert not isinstance(caught.value, Refused)
    assert line_of(caught.value) == 7


def test_runs_that_were_forgotten_are_asked_for_again() -> None:
    """Only so many answers are remembered; an old one is as good as a new one."""
    many = 1000
    asked = [rec(r.SEEN, out=3 + k, a=2) for k in range(many)]
    run(framed(LOOP, INTO, *asked, rec(r.LOOP, out=3 + many, a=3, rows=N, cols=B), rec(r.NEXT, out=4 + many, a=3 + many, rows=2)))


def test_what_is_asked_of_all_tiles_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def noted(which: int, ask: Callable[[Grid], Runs], grid: Grid) -> Runs:
        asked.append(which)
        return ask(grid)

    for which, ask in OF_ALL.items():
        monkeypatch.setitem(OF_ALL, which, partial(noted, which, ask))
    questions = (r.COLUMNS, r.VISITED_COLUMNS, r.UNVISITED_ROWS)
    run(framed(*(rec(r.SEEN, out=1 + k, flags=questions[k % 3]) for k in range(999))))
    assert sorted(asked) == sorted(questions)


def test_a_long_run_keeps_no_more_than_a_short_one() -> None:
    """Unnamed values die when their loop moves on, and nothing counts them from then on."""
    records = [rec(r.LOOP, out=1, rows=500, cols=1), rec(r.ITER, a=1)]
    for k in range(500):
        tile = 2 + 3 * k
        records += [rec(r.NEXT, out=tile, a=1, rows=1, flags=1), rec(r.FULL, out=tile + 1, rows=1, cols=1, name=b"x"),
                    rec(EXP, out=tile + 2, a=tile + 1, rows=1, cols=1)]  # fmt: skip
    run(framed(*records, rec(r.NEXT, a=1)), replace(UNBOUNDED, live=2))


# anything at all


def stranger(data: st.DataObject) -> bytes:
    """The honest stream with some fields of some records changed."""
    table = np.frombuffer(framed(*parts(STREAM), end=False)[4:], LAYOUT).copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row, name = data.draw(st.integers(0, len(table) - 1)), data.draw(st.sampled_from(r.FIELDS[:9]))
        most = {"op": r.FAIL, "flags": 7, "line": 99}.get(name, 60)
        table[name][row] = data.draw(st.integers(0, most))
    keep = data.draw(st.lists(st.booleans(), min_size=len(table), max_size=len(table))) if data.draw(st.booleans()) else [True] * len(table)
    return r.LENGTH.pack(52 * sum(keep)) + table[np.array(keep)].tobytes() if any(keep) else b""


def parts(stream: bytes) -> list[bytes]:
    return [stream[at : at + 52] for at in range(4, len(stream), 52)]


def ends(stream: bytes) -> str:
    """What refuses a stream says; nothing where it is another listing."""
    try:
        run(stream, CAPS).finish()
    except IosimError as error:
        return str(error)
    return ""


@given(data=st.data())
def test_any_change_is_refused_or_is_another_listing(data: st.DataObject) -> None:
    assert ends(stranger(data)).isprintable()


@given(data=st.binary(max_size=400), at=st.integers(0, len(STREAM)))
def test_any_bytes_are_refused(data: bytes, at: int) -> None:
    assert ends(STREAM[:at] + data + STREAM[at + len(data) :]).isprintable()


def test_every_operand_that_is_a_handle_is_checked() -> None:
    """Of every operation: a handle that is still to be made is refused, wherever it stands."""
    for name, ops in HANDLES.items():
        for op in np.flatnonzero(ops).tolist():
            out = 1 if USES["out"][op] and op != r.NEXT else 0
            refused(framed(rec(op, out=out, **{name: 1 + out})), "named before it was made")  # type: ignore[arg-type]


# caps


def test_caps_are_multiples_of_what_the_solution_costs() -> None:
    m, arrays = machine()
    mask = mask_of(MASKED, B, B)
    caps = caps_of(STREAM, m, arrays, mask, factor=10**6)
    assert caps.records == len(STREAM[4:]) // 52 * 10**6
    # no value is larger than a tile of 2 x 2; x, y, X_j and s at once, and while s is hidden the pairs and what is chosen; two loops
    assert (caps.words, caps.live, caps.loops) == (4 * 10**6, 20 * 10**6, 2 * 10**6)
    assert caps.flops == m.matmul * 10**6
    assert caps_of(STREAM, *machine(), mask, factor=1) == LEAST
    assert caps.stream == caps.records * 56  # one record in every frame


@pytest.mark.parametrize("name", ["words", "live", "elements", "flops", "loops", "records"])
def test_the_solution_fits_its_costs_exactly(name: str) -> None:
    mask = mask_of(MASKED, B, B)
    cost = caps_of(STREAM, *machine(), mask, factor=10**6)
    exact = Caps(**{field.name: getattr(cost, field.name) // 10**6 for field in fields(Caps)})
    run(STREAM, exact)
    refused(STREAM, "at most|more than", replace(exact, **{name: getattr(exact, name) - 1}), sram=100)


def test_the_line_is_that_of_the_submission() -> None:
    m, arrays = machine(sram=9)
    with pytest.raises(IosimError, match="needs 4 words but 1 of 9 are free") as caught:
        replay(STREAM, m, arrays, mask_of(MASKED, B, B), UNBOUNDED)
    assert line_of(caught.value) == 7
    assert line_of(IosimError("elsewhere")) is None
    assert isinstance(m.tile, Tile)
