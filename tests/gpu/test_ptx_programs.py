"""Random kernels, run as PTX by the emulator and as a tree by plain scalar Python: values and counts are the same.

A kernel is a list of statements on four integers and two floats of each thread. Its threads diverge, loop a different number of
times, trade values through shared memory, and meet in atomic sums whose order does not matter.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iosim_gpu.ptx import Access, Run, emulate, execute
from iosim_gpu.ptx.text import kernel_text

INTEGERS, FLOATS, WORDS, CELLS = 4, 2, 64, 8


@dataclass
class Thread:
    """One thread of the scalar machine."""

    number: int  # in the grid
    tid: int
    warp: tuple[int, int]  # block and warp in it
    integers: list[int]
    floats: list[float]
    loops: tuple[int, ...] = ()  # how often each open loop went round: threads at one statement and round act together


@dataclass
class World:
    """What all threads share, and what is counted."""

    words: list[int]
    reals: list[float]
    cells: list[int]
    elements: Counter[tuple[str, str]] = field(default_factory=Counter)
    sectors: dict[tuple[str, str], set[object]] = field(default_factory=dict)
    requests: dict[tuple[str, str], set[object]] = field(default_factory=dict)
    instructions: int = 0

    def touch(self, array: str, kind: str, index: int, thread: Thread, site: object) -> None:
        request = (thread.warp, id(site), thread.loops)
        self.elements[array, kind] += 1
        self.requests.setdefault((array, kind), set()).add(request)
        self.sectors.setdefault((array, kind), set()).add((*request, index * 4 // 32))

    def access(self, array: str) -> Access:
        kinds = [(array, kind) for kind in ("load", "store", "atomic")]
        elements = [self.elements[each] for each in kinds]
        return Access(*elements, *(len(counts.get(each, ())) for counts in (self.sectors, self.requests) for each in kinds))


@dataclass
class Text:
    """PTX as it is written; every loop has a counter of its own."""

    lines: list[str] = field(default_factory=list)
    labels: int = 0
    depth: int = 0

    def add(self, *lines: str) -> None:
        self.lines += lines

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"


def _signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _single(value: float) -> float:
    try:
        rounded = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    assert isinstance(rounded, float)
    return rounded


INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "add.s32": lambda a, b: a + b,
    "sub.s32": lambda a, b: a - b,
    "mul.lo.s32": lambda a, b: a * b,
    "mul.hi.s32": lambda a, b: a * b >> 32,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "xor.b32": lambda a, b: a ^ b,
    "min.s32": min,
    "max.s32": max,
    "shl.b32": lambda a, b: a << min(b % (1 << 32), 32),
    "shr.s32": lambda a, b: a >> min(b % (1 << 32), 32),
}
FLOAT_OPS: dict[str, Callable[[float, float], float]] = {
    "add.f32": lambda a, b: a + b,
    "sub.f32": lambda a, b: a - b,
    "mul.f32": lambda a, b: a * b,
}
COMPARE: dict[str, Callable[[float, float], bool]] = {
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Statement:
    """Something a thread does: written as PTX, and run."""

    def write(self, text: Text) -> None:
        raise NotImplementedError

    def run(self, thread: Thread, world: World) -> None:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Compute(Statement):
    """to = op(a, a number or a variable)."""

    op: str
    to: int
    a: int
    b: int
    number: bool

    def write(self, text: Text) -> None:
        text.add(f"{self.op} %r{self.to}, %r{self.a}, {self.b if self.number else f'%r{self.b % INTEGERS}'};")

    def run(self, thread: Thread, world: World) -> None:
        b = self.b if self.number else thread.integers[self.b % INTEGERS]
        thread.integers[self.to] = _signed(INTEGER_OPS[self.op](thread.integers[self.a], b))
        world.instructions += 1


@dataclass(frozen=True, eq=False)
class Guarded(Statement):
    """A computation under a predicate."""

    compare: str
    a: int
    limit: int
    negated: bool
    work: Compute

    def write(self, text: Text) -> None:
        inner = Text()
        self.work.write(inner)
        text.add(f"setp.{self.compare}.s32 %p1, %r{self.a}, {self.limit};", f"@{'!' if self.negated else ''}%p1 {inner.lines[0]}")

    def run(self, thread: Thread, world: World) -> None:
        world.instructions += 1
        if COMPARE[self.compare](thread.integers[self.a], self.limit) != self.negated:
            self.work.run(thread, world)
        else:
            world.instructions += 1  # it came by


@dataclass(frozen=True, eq=False)
class ComputeFloat(Statement):
    op: str
    to: int
    a: int
    b: int

    def write(self, text: Text) -> None:
        text.add(f"{self.op} %f{self.to}, %f{self.a}, %f{self.b};")

    def run(self, thread: Thread, world: World) -> None:
        thread.floats[self.to] = _single(FLOAT_OPS[self.op](thread.floats[self.a], thread.floats[self.b]))
        world.instructions += 1


@dataclass(frozen=True, eq=False)
class Convert(Statement):
    to: int
    a: int

    def write(self, text: Text) -> None:
        text.add(f"cvt.rn.f32.s32 %f{self.to}, %r{self.a};")

    def run(self, thread: Thread, world: World) -> None:
        thread.floats[self.to] = _single(thread.integers[self.a])
        world.instructions += 1


def _write_address(text: Text, array: str, index: int, mask: int) -> None:
    text.add(f"and.b32 %r40, %r{index}, {mask};", "mul.wide.u32 %rd0, %r40, 4;", f"add.s64 %rd1, %{array}, %rd0;")


@dataclass(frozen=True, eq=False)
class Load(Statement):
    """A word or a real at a place that the thread works out."""

    real: bool
    to: int
    index: int

    def write(self, text: Text) -> None:
        _write_address(text, "F" if self.real else "W", self.index, WORDS - 1)
        text.add(f"ld.global.f32 %f{self.to % FLOATS}, [%rd1];" if self.real else f"ld.global.u32 %r{self.to}, [%rd1];")

    def run(self, thread: Thread, world: World) -> None:
        index = thread.integers[self.index] & (WORDS - 1)
        world.touch("F" if self.real else "W", "load", index, thread, self)
        if self.real:
            thread.floats[self.to % FLOATS] = world.reals[index]
        else:
            thread.integers[self.to] = world.words[index]
        world.instructions += 4


@dataclass(frozen=True, eq=False)
class AtomicAdd(Statement):
    index: int
    a: int

    def write(self, text: Text) -> None:
        _write_address(text, "C", self.index, CELLS - 1)
        text.add(f"atom.global.add.u32 %r41, [%rd1], %r{self.a};")

    def run(self, thread: Thread, world: World) -> None:
        index = thread.integers[self.index] & (CELLS - 1)
        world.touch("C", "atomic", index, thread, self)
        world.cells[index] = (world.cells[index] + thread.integers[self.a]) % (1 << 32)
        world.instructions += 4


@dataclass(frozen=True, eq=False)
class If(Statement):
    """A branch on integers or floats; the floats may be NaN, where every ordered comparison is false."""

    compare: str
    real: bool
    a: int
    b: int
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]

    def write(self, text: Text) -> None:
        other, end = text.label(), text.label()
        kind, name, count = ("f32", "f", FLOATS) if self.real else ("s32", "r", INTEGERS)
        text.add(f"setp.{self.compare}.{kind} %p0, %{name}{self.a % count}, %{name}{self.b % count};", f"@!%p0 bra {other};")
        for each in self.then:
            each.write(text)
        text.add(f"bra.uni {end};", f"{other}:")
        for each in self.otherwise:
            each.write(text)
        text.add(f"{end}:")

    def run(self, thread: Thread, world: World) -> None:
        world.instructions += 2
        if self._holds(thread):
            world.instructions += 1
            _run_all(self.then, thread, world)
        else:
            _run_all(self.otherwise, thread, world)

    def _holds(self, thread: Thread) -> bool:
        if self.real:
            a, b = thread.floats[self.a % FLOATS], thread.floats[self.b % FLOATS]
            return not (math.isnan(a) or math.isnan(b)) and COMPARE[self.compare](a, b)
        return COMPARE[self.compare](thread.integers[self.a], thread.integers[self.b])


@dataclass(frozen=True, eq=False)
class Loop(Statement):
    """Goes round as often as the lowest two bits of a variable say."""

    a: int
    body: tuple[Statement, ...]

    def write(self, text: Text) -> None:
        head, end = text.label(), text.label()
        count, limit = f"%r{50 + text.depth}", f"%r{55 + text.depth}"
        text.add(f"mov.u32 {count}, 0;", f"and.b32 {limit}, %r{self.a}, 3;", f"{head}:")
        text.add(f"setp.ge.s32 %p0, {count}, {limit};", f"@%p0 bra {end};")
        text.depth += 1
        for each in self.body:
            each.write(text)
        text.depth -= 1
        text.add(f"add.s32 {count}, {count}, 1;", f"bra.uni {head};", f"{end}:")

    def run(self, thread: Thread, world: World) -> None:
        world.instructions += 2
        outer = thread.loops
        for turn in range(thread.integers[self.a] & 3):
            thread.loops = (*outer, turn)
            world.instructions += 4
            _run_all(self.body, thread, world)
        thread.loops = outer
        world.instructions += 2


@dataclass(frozen=True, eq=False)
class Trade(Statement):
    """Every thread hands a variable on to another of its block, through shared memory, between two barriers. Never in a branch."""

    to: int
    a: int
    by: int

    def write(self, text: Text) -> None:
        text.add("mul.wide.u32 %rd2, %r30, 4;", "mov.u64 %rd3, S;", "add.s64 %rd4, %rd3, %rd2;", f"st.shared.u32 [%rd4], %r{self.a};")
        text.add("bar.sync 0;", f"add.s32 %r42, %r30, {self.by};", "rem.u32 %r42, %r42, %r31;", "mul.wide.u32 %rd2, %r42, 4;")
        text.add("add.s64 %rd4, %rd3, %rd2;", f"ld.shared.u32 %r{self.to}, [%rd4];", "bar.sync 0;")

    def run_block(self, threads: list[Thread], world: World) -> None:
        handed = [thread.integers[self.a] for thread in threads]
        for thread in threads:
            thread.integers[self.to] = handed[(thread.tid + self.by) % len(threads)]
            world.instructions += 11


def _run_all(statements: tuple[Statement, ...], thread: Thread, world: World) -> None:
    for statement in statements:
        statement.run(thread, world)


variables = st.integers(0, INTEGERS - 1)
reals = st.integers(0, FLOATS - 1)
numbers = st.integers(-5, 40) | st.integers(-(2**31), 2**31 - 1)
computes = st.builds(Compute, st.sampled_from(sorted(INTEGER_OPS)), variables, variables, numbers, st.booleans())
leaves = st.one_of(
    computes,
    st.builds(Guarded, st.sampled_from(sorted(COMPARE)), variables, st.integers(-3, 40), st.booleans(), computes),
    st.builds(ComputeFloat, st.sampled_from(sorted(FLOAT_OPS)), reals, reals, reals),
    st.builds(Convert, reals, variables),
    st.builds(Load, st.booleans(), variables, variables),
    st.builds(AtomicAdd, variables, variables),
)


def _nested(inner: st.SearchStrategy[Statement]) -> st.SearchStrategy[Statement]:
    body = st.lists(inner, max_size=3).map(tuple)
    branch = st.builds(If, st.sampled_from(sorted(COMPARE)), st.booleans(), variables, variables, body, body)
    return st.one_of(branch, st.builds(Loop, variables, body))


statements = st.recursive(leaves, _nested, max_leaves=8)
trades = st.builds(Trade, variables, variables, st.integers(0, 50))
programs = st.lists(st.one_of(statements, statements, trades), max_size=8).map(tuple)


def _depth(statement: Statement) -> int:
    inner = (*statement.then, *statement.otherwise) if isinstance(statement, If) else statement.body if isinstance(statement, Loop) else ()
    return isinstance(statement, Loop) + max(map(_depth, inner), default=0)


PROLOGUE = """
mov.u32 %r30, %tid.x; mov.u32 %r31, %ntid.x; mov.u32 %r32, %ctaid.x; mov.u32 %r33, %ctaid.y; mov.u32 %r34, %nctaid.x;
mad.lo.s32 %r35, %r33, %r34, %r32; mad.lo.s32 %r36, %r35, %r31, %r30;
mov.u32 %r0, %r30; mov.u32 %r1, %r36; mov.u32 %r2, %r35; mov.u32 %r3, %n; cvt.rn.f32.s32 %f0, %r30; mov.f32 %f1, 0f3F000000;
mul.wide.u32 %rd10, %r36, 16; add.s64 %rd11, %I, %rd10; mul.wide.u32 %rd12, %r36, 8; add.s64 %rd13, %R, %rd12;
"""
# Integers go out one by one, floats as a vector.
EPILOGUE = "".join(f"st.global.u32 [%rd11+{4 * i}], %r{i};" for i in range(INTEGERS)) + "st.global.v2.f32 [%rd13], {%f0, %f1};"
OUTSIDE = PROLOGUE.count(";") + EPILOGUE.count(";") + 2 * 5 + 1 + 1  # five arrays, one scalar, ret

WORD_VALUES = [_signed(0x9E3779B1 * i) if i % 3 else i for i in range(WORDS)]
REAL_VALUES = [math.nan if i == 13 else _single(1.7**i - 3 * i) for i in range(WORDS)]


def _emulated(program: tuple[Statement, ...], grid: tuple[int, int], threads: int, n: int) -> tuple[Run, list[list[int]]]:
    text = Text()
    for statement in program:
        statement.write(text)
    body = PROLOGUE + "\n".join(text.lines) + "\n" + EPILOGUE
    ptx = kernel_text(body, arrays=["W", "F", "C", "I", "R"], scalars={"n": "u32"}, shared={"S": 4 * threads})
    total = grid[0] * grid[1] * threads
    words, reals = np.array(WORD_VALUES, np.int32), np.array(REAL_VALUES, np.float32)
    cells, integers, floats = np.zeros(CELLS, np.uint32), np.zeros((total, INTEGERS), np.int32), np.zeros((total, FLOATS), np.float32)
    args = [("W", words), ("F", reals), ("C", cells), ("I", integers.reshape(-1)), ("R", floats.reshape(-1))]
    run = emulate(ptx, grid=grid, threads=threads, args=[*args, ("n", n)])
    return run, [cells.tolist(), integers.reshape(-1).tolist(), floats.view(np.uint32).reshape(-1).tolist()]


def _scalar(program: tuple[Statement, ...], grid: tuple[int, int], threads: int, n: int) -> tuple[World, list[list[int]]]:
    world = World(WORD_VALUES, REAL_VALUES, [0] * CELLS)
    integers: list[int] = []
    floats: list[float] = []
    for block in range(grid[0] * grid[1]):
        block_threads = [
            Thread(block * threads + tid, tid, (block, tid // 32), [tid, block * threads + tid, block, n], [float(tid), 0.5])
            for tid in range(threads)
        ]
        for statement in program:
            if isinstance(statement, Trade):
                statement.run_block(block_threads, world)
                continue
            for thread in block_threads:
                statement.run(thread, world)
        for thread in block_threads:
            world.instructions += OUTSIDE
            _leave(thread, world)
            integers += thread.integers
            floats += thread.floats
    patterns = [int.from_bytes(struct.pack("<f", x), "little") for x in floats]
    return world, [list(world.cells), integers, patterns]


STORES = tuple(range(INTEGERS))
VECTOR = object()


def _leave(thread: Thread, world: World) -> None:
    for i in STORES:
        world.touch("I", "store", INTEGERS * thread.number + i, thread, STORES[i])
    for i in range(FLOATS):
        world.touch("R", "store", FLOATS * thread.number + i, thread, VECTOR)


def _without_nan(patterns: list[int]) -> list[int]:
    """Any NaN is as good as another."""
    return [-1 if x & 0x7FFFFFFF > 0x7F800000 else x for x in patterns]


DIVERGENT = (
    Loop(
        0, (If("lt", False, 0, 3, (AtomicAdd(0, 1), Loop(1, (Load(True, 0, 1),))), (Load(False, 1, 0),)), Compute("add.s32", 2, 2, 3, True))
    ),
    Trade(3, 2, 5),
    If("ge", True, 0, 1, (Guarded("lt", 0, 20, True, Compute("xor.b32", 1, 1, 3, False)),), ()),
)


@given(
    program=programs.filter(lambda program: max(map(_depth, program), default=0) <= 5),
    grid=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    threads=st.sampled_from([1, 5, 32, 40]),
    n=st.integers(-(2**31), 2**31 - 1),
)
@example(program=DIVERGENT, grid=(2, 2), threads=40, n=17)
def test_a_kernel_and_its_tree_agree(program: tuple[Statement, ...], grid: tuple[int, int], threads: int, n: int) -> None:
    run, (cells, integers, patterns) = _emulated(program, grid, threads, n)
    world, (expected_cells, expected_integers, expected_patterns) = _scalar(program, grid, threads, n)
    assert cells == expected_cells
    assert integers == expected_integers
    assert _without_nan(patterns) == _without_nan(expected_patterns)
    assert run.arrays == {name: world.access(name) for name in "WFCIR"}
    assert run.instructions == world.instructions
    blocks, traded = grid[0] * grid[1], sum(isinstance(statement, Trade) for statement in program)
    assert run.barriers == 2 * traded * blocks
    assert run.shared_loads == run.shared_stores == traded * blocks * threads


@pytest.mark.parametrize("lanes", [1, 80, 100])
def test_how_many_blocks_run_side_by_side_changes_nothing(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together = _emulated(DIVERGENT, (3, 2), 40, 17)
    monkeypatch.setattr(execute, "_BATCH", lanes)
    assert _emulated(DIVERGENT, (3, 2), 40, 17) == together
