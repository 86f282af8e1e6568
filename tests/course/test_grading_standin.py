"""The stand-in machine and a replay of what it wrote are, together, the machine in process: the same counts, bits, errors and lines."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from iosim import KERNELS
from iosim.attention.arrays import Launch
from iosim.attention.catalogue import kernel
from iosim.attention.inputs import random_inputs
from iosim.attention.judge import with_forward
from iosim.attention.kernels.masking import Mask
from iosim.attention.kernels.software import unfused
from iosim.attention.plan import Plan, make_plan
from iosim.core.errors import BadInput, IosimError
from iosim.core.masks.grid import grid, index_rule
from iosim.core.problem import Attention, Blocks
from iosim.course.grading import fork_server, kernel_child
from iosim.course.grading import records as r
from iosim.course.grading.caps import UNBOUNDED
from iosim.course.grading.job import Job, function_job, kernel_job, tables_of
from iosim.course.grading.recording import record
from iosim.course.grading.replay import Failed, line_of, replay
from iosim.course.grading.stream import parse
from iosim.memory import Event, Hbm, Machine, exp
from iosim.testing import Case, cases


def mask_of(problem: Attention, br: int, bc: int) -> Mask:
    """The visited tiles of a problem in Br x Bc, and the rule inside them."""
    return Mask(grid(problem, Blocks(br, bc)), index_rule(problem))


# listings of the catalogue


class Asked(NamedTuple):
    """What a listing gets."""

    args: tuple[Hbm | None, ...]
    params: dict[str, Any]
    mask: Mask


def asked_for(plan: Plan, values: Mapping[str, Any], m: Machine) -> Asked:
    """Declare the arrays of a plan on ``m`` and return what its listing would get, without running it."""
    got: list[Asked] = []

    @wraps(kernel(plan.kernel).listing)
    def listing(_: Machine, *args: Hbm | None, mask: Mask, **params: Any) -> None:
        got.append(Asked(args, params, mask))

    Launch(m, replace(kernel(plan.kernel), listing=listing), plan.problem, plan.blocks, plan.options).run(values, 0)
    return got[0]


def job_of(asked: Asked, m: Machine) -> Job:
    arrays = list(m.arrays.values())
    places = tuple(None if a is None else next(at for at, b in enumerate(arrays) if a is b) for a in asked.args)
    return Job("kernel", "listing", tuple((a.name, *a.shape) for a in arrays), asked.params, tables_of(asked.mask, arrays), places)


@pytest.mark.parametrize("name", [name for name in KERNELS if kernel(name).listing.__module__ != unfused.__name__])
@given(data=st.data())
def test_a_listing_of_the_catalogue(name: str, data: st.DataObject) -> None:
    """All but those that make masks of their own, which no submission can."""
    case: Case = data.draw(cases(name, most=14, widest=5))
    options = case.options | ({"depth": "square"} if "depth" in case.options else {})  # "one" makes runs of its own
    sram = data.draw(st.sampled_from(["64", "200 B"]))
    plan = make_plan(name, case.problem, sram, (case.blocks.rows, case.blocks.cols), "record", options)
    values = with_forward(plan, random_inputs(plan.problem, gradient=kernel(name).forward is not None), 0)
    events: tuple[list[Event], list[Event]] = ([], [])
    m, other = (plan.machine("execute", observers=[seen.append]) for seen in events)
    asked = asked_for(plan, values, m)
    kernel(name).listing(m, *asked.args, **asked.params, mask=asked.mask)
    asked = asked_for(plan, values, other)
    stream = record(kernel(name).listing, job_of(asked, other))
    replay(stream, other, list(other.arrays.values()), asked.mask, UNBOUNDED)
    assert other.finish() == m.finish()
    assert events[0] == events[1]
    for array in m.arrays:
        assert m.arrays[array].data.tobytes() == other.arrays[array].data.tobytes()


# little programs of all operations, right ones and wrong ones

PROGRAM = '''
from iosim.memory import Block, exp, finite, log, maximum, nonzero, where


def operators():
    return {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "max": maximum,
        "iadd": lambda x, y: x.__iadd__(y), "isub": lambda x, y: x.__isub__(y), "imul": lambda x, y: x.__imul__(y),
        "idiv": lambda x, y: x.__itruediv__(y), "where": lambda x, y: where(x, y, -1.5),
    }


def operators_with_numbers():
    return {
        "add": lambda x, y: y + x, "sub": lambda x, y: x - y, "mul": lambda x, y: y * x, "div": lambda x, y: x / y,
        "max": lambda x, y: maximum(y, x), "rsub": lambda x, y: y - x, "rdiv": lambda x, y: y / x,
        "iadd": lambda x, y: x.__iadd__(y), "isub": lambda x, y: x.__isub__(y), "imul": lambda x, y: x.__imul__(y),
        "idiv": lambda x, y: x.__itruediv__(y), "maxs": lambda x, y: maximum(x, y),
    }


def functions():
    return {
        "exp": exp, "log": log, "finite": finite, "nonzero": nonzero, "T": lambda x: x.T, "rowmax": lambda x: x.rowmax(),
        "rowsum": lambda x: x.rowsum(),
    }


def pick(pool, k, wild, fits=lambda x: True):
    """One of the pool that fits, or any if wild; a value leaves the pool, unless wild."""
    found = [x for x in pool if wild or fits(x)]
    if not found:
        return None
    x = found[k % len(found)]
    if not isinstance(x, Block) and not wild:
        pool[:] = [y for y in pool if y is not x]
    return x


def region(array, tiles, k, l, wild):
    """A piece of an array: tiles of its axes, or all of an axis."""
    index = []
    for axis, which in ((0, k), (1, l)):
        found = [t for t, size in tiles if wild or size[0] == array.shape[axis]]
        index.append(found[which % len(found)] if found and which % 3 else slice(None))
    return array[index[0]] if k % 2 and index[1] == slice(None) else array[index[0], index[1]]


def body(m, arrays, mask, program, pool, tiles, kept):
    for op, wild, k, l, number, inner in program:
        if op == "load":
            pool.append(m.load(region(arrays[k % 2 if l % 4 else k % 4], tiles, k, l, wild)))
        elif op == "store":
            array = arrays[k % len(arrays)] if wild else arrays[2 + k % 2]
            place = region(array, tiles, k, l, wild)
            index = place.index + (slice(None),) * (2 - len(place.index))
            shape = tuple(n if t == slice(None) else t.size for t, n in zip(index, array.shape))
            x = pick(pool, l, wild, lambda x: x.shape == shape)
            x = m.full(number, *shape, name="filled") if x is None else x
            m.store(place, x, init=k % 3 == 0)
        elif op == "full":
            pool.append(m.full(number, 1 + k % 4, 1 + l % 4, name="f%d" % k))
        elif op == "empty":
            pool.append(m.empty(1 + k % 3, 1 + l % 3, name="e"))
        elif op == "let":
            x = pick(pool, k, wild)
            if x is not None:
                pool.append(m.let(x, "named"))
        elif op == "set":
            x = pick(pool, k, wild, lambda x: isinstance(x, Block))
            y = None if x is None else pick(pool, l, wild, lambda y: y.shape == x.shape)
            if y is not None:
                x[...] = y
        elif op == "matmul":
            x = pick(pool, k, wild)
            y = None if x is None else pick(pool, l, wild, lambda y: y.shape[0] == x.shape[1])
            if y is not None:
                pool.append(x @ y)
        elif op in functions():
            x = pick(pool, k, wild)
            if x is not None:
                pool.append(functions()[op](x))
        elif op in operators_with_numbers() and l % 2:
            x = pick(pool, k, wild, lambda x: op[0] != "i" or isinstance(x, Block))
            if x is not None:
                x = operators_with_numbers()[op](x, number)
                pool.extend([] if isinstance(x, Block) else [x])
        elif op in operators():
            x = pick(pool, k, wild, lambda x: op[0] != "i" or isinstance(x, Block))
            fits = (lambda y: y.shape == x.shape) if op == "where" else (lambda y: y.shape in (x.shape, (x.shape[0], 1)))
            y = None if x is None else pick(pool, l, wild, fits)
            if y is not None:
                x = operators()[op](x, y)
                pool.extend([] if isinstance(x, Block) else [x])
        elif op == "hide":
            found = [(s, i, j) for s in pool for i, n in tiles for j, o in tiles if isinstance(s, Block) and s.shape == (i.size, j.size)]
            if found:
                mask.hide(m, *found[k % len(found)])
        elif op == "pairs":
            if mask.rule is not None and tiles:
                pool.append(m.pairs(mask.rule, tiles[k % len(tiles)][0], tiles[l % len(tiles)][0]))
        elif op == "loop":
            n, b = (arrays[k % len(arrays)].shape[l % 2], 1 + l % 3) if k % 2 else mask.grid_sizes[l % 2]
            seen = which(mask, tiles, k, l, wild, (n, b))
            loop = kept[k % len(kept)] if wild and kept and l % 3 == 0 else m.tiles(n, b, seen=seen)
            kept.append(loop)
            turns(m, arrays, mask, inner, pool, tiles, kept, loop, (n, b), wild, k)
        elif op == "inside":
            if tiles:
                tile, (axis, _) = tiles[k % len(tiles)]
                kept.append(tile.tiles(1 + l % 3, seen=mask.grid.columns() if wild and l % 5 == 0 else None))
                turns(m, arrays, mask, inner, pool, tiles, kept, kept[-1], (axis, 0), wild, k)
        if wild and k % 2 and tiles:
            tiles = tiles + KEPT
            KEPT.append(tiles[l % len(tiles)])


def which(mask, tiles, k, l, wild, size):
    """Runs for a loop, or None for all tiles."""
    rows, cols = mask.grid_sizes
    if k % 4 == 0:
        return {0: None, 1: mask.grid.columns(), 2: mask.grid.columns(skip_empty=True), 3: mask.grid.unvisited_rows()}[
            l % 4 if wild else (l % 4 if size == (rows if l % 4 == 3 else cols) else 0)
        ]
    for tile, cut in tiles:
        if wild or (k % 4 == 2 and cut == rows and size == cols):
            return (mask.grid.row if l % 2 else mask.grid.unseen)(tile)
        if k % 4 == 2 and cut == cols and size == rows:
            return mask.grid.col(tile)
    return None


def turns(m, arrays, mask, inner, pool, tiles, kept, loop, size, wild, k):
    """Run a loop; if wild, it may be left early, or what is made in it is taken along."""
    for tile in loop:
        inside = [x for x in pool if wild or isinstance(x, Block)]
        body(m, arrays, mask, inner, inside, tiles + [(tile, size)], kept)
        if wild and k % 3 == 0:
            pool.extend(inside)
        if wild and k % 3 == 1:
            break
        if wild and k % 7 == 5:
            return


class Known:
    """A mask that also knows how it was cut."""

    def __init__(self, mask, sizes):
        self.grid, self.rule, self.hide, self.grid_sizes = mask.grid, mask.rule, mask.hide, sizes


KEPT = []


def listing(m, X, Y, S, O, *, n, nk, Br, Bc, mask):
    KEPT.clear()
    body(m, (X, Y, S, O), Known(mask, ((n, Br), (nk, Bc))), STEPS, [], [], [])
'''
NAMES = (
    "load", "load", "load", "store", "store", "full", "empty", "let", "let", "set", "matmul", "matmul", "exp", "log", "finite", "nonzero",
    "T", "rowmax", "rowsum", "add", "sub", "mul", "div", "max", "rsub", "rdiv", "iadd", "isub", "imul", "idiv", "where", "maxs", "hide",
    "pairs",
)  # fmt: skip
Step = tuple[str, bool, int, int, float, Any]
NUMBERS = (0.0, 1.0, -2.5, 0.3, float("inf"), float("-inf"))


def steps(rng: np.random.Generator, wild: float, depth: int = 0) -> list[Step]:
    """A random program; so often a step is wild, and does not look whether its operands fit or still live."""

    def step(name: str) -> Step:
        inner = steps(rng, wild, depth + 1) if name in ("loop", "inside") else None
        return name, bool(rng.random() < wild), int(rng.integers(31)), int(rng.integers(31)), NUMBERS[rng.integers(len(NUMBERS))], inner

    names = [*NAMES, *["loop"] * (8 if depth < 3 else 0), *["inside"] * (4 if 0 < depth < 4 else 0)]
    return [step(names[rng.integers(len(names))]) for _ in range(rng.integers(1, 14))]


class Setting(NamedTuple):
    """A machine and a problem for a little program."""

    n: int
    nk: int
    d: int
    blocks: tuple[int, int]
    window: tuple[int, int] | None
    whole: bool
    sram: int | None
    overflow: Literal["error", "record"]
    registers: int | None

    def problem(self) -> Attention:
        return Attention(self.n, self.d, nk=self.nk, window=self.window)

    def machine(self) -> tuple[Machine, list[Hbm]]:
        m, rng = Machine(self.sram, overflow=self.overflow, registers=self.registers), np.random.default_rng(0)
        inputs = [m.input(name, (rows, self.d), rng.standard_normal((rows, self.d))) for name, rows in (("X", self.n), ("Y", self.nk))]
        return m, [*inputs, m.output("S", (self.n, self.nk), whole=self.whole), m.output("O", (self.n, self.d), whole=False)]

    def params(self) -> dict[str, int]:
        return {"n": self.n, "nk": self.nk, "Br": self.blocks[0], "Bc": self.blocks[1]}


def setting_of(rng: np.random.Generator) -> Setting:
    n, nk = (int(size) for size in rng.integers(1, 7, 2))
    d, rows, cols = (int(size) for size in rng.integers(1, 4, 3))
    window = ((-1, 0), (1, 1), (0, 0), None)[rng.integers(4)]
    overflow: Literal["error", "record"] = "error" if rng.random() < 0.5 else "record"
    sram, registers = 25 if rng.random() < 0.5 else None, 12 if rng.random() < 0.2 else None
    return Setting(n, nk, d, (rows, cols), window, bool(rng.random() < 0.05), sram, overflow, registers)


class Outcome(NamedTuple):
    """How a run ended: the error's type, message (empty where the stand-in raised it) and line, and what the machine had counted."""

    kind: str
    says: str
    line: int | None
    counted: object
    data: tuple[bytes, ...]


def outcome(m: Machine, run: Callable[[], object], line: Callable[[Any], int | None]) -> Outcome:
    kind = says = ""
    at = None
    try:
        with np.errstate(all="ignore"):
            run()
    except Failed as error:
        kind, at = error.kind, error.line
    except (IosimError, AttributeError, TypeError) as error:
        kind, says, at = type(error).__name__, str(error), line(error)
    traffic = [(a.reads, a.writes, a.init_writes) for a in m.arrays.values()]
    counted = (traffic, m.matmul, m.elementwise, m.exp, m.peak, m.used, m.largest_unnamed, m.peak_unnamed, m.tile is m.root)
    return Outcome(kind, says, at, counted, tuple(np.asarray(a._data).tobytes() for a in m.arrays.values()))


def line_in(file: str) -> Callable[[Exception], int | None]:
    """The last line of ``file`` that an exception passed through."""

    def line(error: Exception) -> int | None:
        found, step = None, error.__traceback__
        while step is not None:
            found = step.tb_lineno if step.tb_frame.f_code.co_filename == file else found
            step = step.tb_next
        return found

    return line


def both_ways(listing: Callable[..., Any], setting: Setting) -> tuple[Outcome, Outcome]:
    """A listing run in process, and recorded and replayed."""
    (m, arrays), (n, nk) = setting.machine(), (setting.n, setting.nk)
    mask = mask_of(setting.problem(), *setting.blocks)

    def here() -> None:
        listing(m, *arrays, **setting.params(), mask=mask)
        m.finish()

    shapes = {"X": (n, setting.d), "Y": (nk, setting.d), "S": (n, nk), "O": (n, setting.d)}
    stream = record(listing, kernel_job("listing", shapes, setting.params(), tables_of(mask)))
    other, others = setting.machine()

    def there() -> None:
        replay(stream, other, others, mask, UNBOUNDED)
        other.finish()

    return outcome(m, here, line_in(listing.__code__.co_filename)), outcome(other, there, line_of)


WORLD: dict[str, Any] = {"__name__": "programs"}
exec(compile(PROGRAM, "<programs>", "exec"), WORLD)


def in_common(here: Outcome, there: Outcome) -> tuple[Outcome, Outcome]:
    """Both without the message where it may differ: where the stand-in raised, and of a transpose that is dead for two reasons."""
    stale = "since it was transposed" in here.says and there.kind == "DeadValue"
    alone = there.kind != "" and there.says == ""
    return (here._replace(says=""), there._replace(says="")) if stale or alone else (here, there)


@pytest.mark.parametrize("wild", [0.0, 0.05], ids=["right", "wrong"])
@given(seed=st.integers(0, 2**32 - 1))
def test_little_programs(wild: float, seed: int) -> None:
    for k in range(3):
        rng = np.random.default_rng([seed, k])
        WORLD["STEPS"], setting = steps(rng, wild), setting_of(rng)
        here, there = in_common(*both_ways(WORLD["listing"], setting))
        event(here.kind or "ran")
        assert here == there


def test_little_programs_end_in_every_way() -> None:
    ends = set()
    for seed in range(80):
        rng = np.random.default_rng(seed)
        WORLD["STEPS"], setting = steps(rng, 0.05), setting_of(rng)
        ends.add(both_ways(WORLD["listing"], setting)[1].kind)
    assert ends >= {"", "BadInput", "DeadValue", "LoopMisuse", "NotWritten", "RegisterOverflow", "SramOverflow"}


# what little programs seldom do

SELDOM = {
    "k = m.tiles(n, 2); [m.load(X[j]) for j in k]; [m.load(X[j]) for j in k]": "LoopMisuse",
    "k = m.tiles(n, 2); next(k); next(iter(m.tiles(n, 2))); next(k)": "LoopMisuse",
    "x = exp(m.load(X[:])); x += 1.0": "DeadValue",
    "x = exp(m.load(X[:])); x[...] = m.load(X[:])": "DeadValue",
    "x = m.load(X[:]); x += m.load(Y[:])": "BadInput",
    "x = m.load(X[:]); x[...] = m.load(Y[:])": "BadInput",
    "m.store(O[:], m.load(Y[:]))": "BadInput",
    "m.load(X[:]) + m.load(Y[:])": "BadInput",
    "m.load(X[:]) @ m.load(Y[:])": "BadInput",
    "m.store(X[:], m.load(X[:]))": "BadInput",
    "m.load(O[:])": "NotWritten",
    "m.full(1.0, 10**9, 10**9, name='x')": "SramOverflow",
    "m.store(O[:], np.float64(2.0) * m.load(X[:]))": "",
    "m.store(O[:], np.float64(2.0) / m.load(X[:]) - 10**20)": "",
    "m.store(O[:], m.load(X[:]).T.T * (1.0 + m.load(X[:]).rowsum()))": "",
    "[m.load(X[i, j]) for i in m.tiles(np.int64(n), np.int64(2)) for j in m.tiles(2, 1)]": "",
    "m.tiles(10**40, 10**39)": "",
}
IN_OTHER_WORDS = {  # the stand-in says it, or a size that no record holds was cut
    "m.full(1.0, 10**30, 1, name='x')": "SramOverflow",
    "np.float32(2.0) * m.load(X[:])": "BadInput",
    "np.ones(2) * m.load(X[:])": "BadInput",
    "m.load(X[:]) * True": "BadInput",
    "m.load(X[:]) * 10**400": "BadInput",
    "m.load(X[:]) @ 2.0": "BadInput",
    "m.load(X[:])[0] = 1.0": "BadInput",
    "m.full('1', 2, 2, name='x')": "BadInput",
    "m.full(1.0, 0, 2, name='x')": "BadInput",
    "m.full(1.0, True, 2, name='x')": "BadInput",
    "m.let(2.0, 'x')": "BadInput",
    "m.store(O[:], 2.0)": "BadInput",
    "m.store(O, m.load(X[:]))": "BadInput",
    "m.load(X)": "BadInput",
    "m.load(X[0])": "LoopMisuse",
    "m.load(X[1:])": "LoopMisuse",
    "m.load(X[:, :, :])": "BadInput",
    "m.tiles(0, 1)": "BadInput",
    "m.tiles(n, 1.0)": "BadInput",
    "m.tiles(n, 1, seen=[(0, 1, 1)])": "BadInput",
    "m.pairs(mask.rule, 0, 1)": "BadInput",
    "where(m.load(X[:]), m.load(Y[:]), 0.0)": "BadInput",
    "where(1.0, m.load(Y[:]), 0.0)": "BadInput",
    "exp(2.0)": "BadInput",
    "maximum(2.0, 3.0)": "BadInput",
    "m.load(X[:]) == m.load(X[:])": "BadInput",
    "{m.load(X[:]): 1}": "BadInput",
    "-m.load(X[:])": "BadInput",
    "list(X)": "BadInput",
    "X @ Y": "BadInput",
    "X[:] + 1": "BadInput",
    "X.T": "BadInput",
    "m.load(X[:]) // 2": "TypeError",
    "m.load(X[:]).sum()": "AttributeError",
}


@pytest.mark.parametrize("body", SELDOM | IN_OTHER_WORDS)
def test_a_line_ends_alike(body: str) -> None:
    world: dict[str, Any] = {"__name__": "programs"}
    exec(
        "import numpy as np\nfrom iosim.memory import exp, maximum, where\n"
        f"def listing(m, X, Y, S, O, *, n, nk, Br, Bc, mask):\n    {body}\n",
        world,
    )
    here, there = both_ways(world["listing"], Setting(5, 3, 2, (2, 2), (-1, 0), False, 60, "error", None))
    assert here.kind == there.kind == (SELDOM | IN_OTHER_WORDS)[body]
    assert here.data == there.data
    if body in SELDOM:
        assert (here.says, here.counted) == (there.says, there.counted)


@pytest.mark.parametrize("body", [body for body, kind in SELDOM.items() if kind == "BadInput" and "X[:], m.load" not in body])
def test_the_stand_in_stops_where_nothing_can_follow(body: str) -> None:
    source = f"def listing(m, X, Y, O):\n    {body}\n    m.tiles(9, 9)\n"
    records = parse(record(source, kernel_job("listing", {"X": (5, 2), "Y": (3, 2), "O": (5, 2)}, {})), 100)
    assert records.failed is not None
    assert (records.failed.kind, records.failed.line) == ("BadInput", 2)
    assert r.LOOP not in records.table["op"]


# tricks: listings that cheat


def tricks() -> dict[Callable[..., Any], tuple[type[IosimError], str]]:
    """Those that the machine's own tests know."""
    spec = importlib.util.spec_from_file_location("tricks", Path(__file__).parents[1] / "machine" / "test_tricks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: dict[Callable[..., Any], tuple[type[IosimError], str]] = module.TRICKS
    return found


OTHERWISE = {"keep_blocks": "AttributeError", "borrow_tiles": "AttributeError"}  # a tile has no start, and the machine no mode
TRICKS = tricks()


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_a_trick_ends_as_in_process(trick: Callable[..., Any]) -> None:
    wanted = TRICKS[trick][0].__name__
    m = Machine(30 if wanted == "SramOverflow" else None, registers=None if wanted == "SramOverflow" else 50)
    arrays = [m.input(name, (10, 2), np.ones((10, 2))) for name in "QKV"] + [m.output("O", (10, 2))]
    stream = record(trick, kernel_job("trick", dict.fromkeys("QKVO", (10, 2)), {}))

    def run() -> None:
        replay(stream, m, arrays, None, UNBOUNDED)
        m.finish()

    assert outcome(m, run, line_of).kind == OTHERWISE.get(trick.__name__, wanted)


HOARD = """
def listing(m, K, O):
    cache = []
    for i in m.tiles(12, 4):
        o = m.full(0.0, i.size, 1, name="O_i")
        for j in m.tiles(12, 4):
            if len(cache) < 3:
                cache.append({kept})
            o += cache[len(cache) - 1].rowsum()
        m.store(O[i], o)
"""


@pytest.mark.parametrize(
    ("kept", "error", "line"),
    [
        ("m.load(K[j])", "DeadValue", 9),
        ("1.0 * m.load(K[j])", "DeadValue", 9),
        ("m.let(m.load(K[j]), 'kept')", "DeadValue", 9),
        ("m.load(K[:])", "SramOverflow", 8),
        ("1.0 * m.load(K[:])", "SramOverflow", 8),
    ],
)
def test_keeping_tiles_in_a_list_breaks_a_rule(kept: str, error: str, line: int) -> None:
    stream = record(HOARD.format(kept=kept), kernel_job("listing", {"K": (12, 2), "O": (12, 1)}, {}))
    m = Machine(20)
    arrays = [m.input("K", (12, 2), np.ones((12, 2))), m.output("O", (12, 1))]
    with pytest.raises(IosimError) as caught:
        replay(stream, m, arrays, None, UNBOUNDED)
    assert (type(caught.value).__name__, line_of(caught.value)) == (error, line)


# the child


@pytest.fixture
def one_job() -> dict[str, Any]:
    job: dict[str, Any] = json.loads(kernel_job("listing", {"X": (5, 2), "Y": (5, 2)}, {"b": 2}).to_json())
    return job


def said(job: dict[str, Any], source: bytes, calls: list[str]) -> bytes:
    """What a child writes to its descriptor, run here."""
    out, into = os.pipe()
    try:
        kernel_child.main(into, job, source, lambda: calls.append("protected"))
    finally:
        os.close(into)
    with open(out, "rb") as pipe:
        return pipe.read()


def outcome_of(stream: bytes) -> str:
    m = Machine()
    X, Y = m.input("X", (5, 2), np.ones((5, 2))), m.output("Y", (5, 2))
    try:
        replay(stream, m, [X, Y], None, UNBOUNDED)
        m.finish()
    except IosimError as error:
        return f"{error} (line {line_of(error)})"
    return "ran"


COPY = b"""from iosim.memory import Hbm, Machine, exp

def listing(m: Machine, X, Y, *, b):
    for i in m.tiles(5, b):
        m.store(Y[i], m.load(X[i]))
"""
BODIES = {
    "yield": "Y(5, 2) is an output but element (0, 0) was never written; store every tile of it (line None)",
    "1 / 0": "ZeroDivisionError: division by zero (line 2)",
    "listing(m, X, Y, b=b)": "RecursionError",
    "m.output('Z', (1, 1))": "BadInput: a listing gets its arrays and its machine",
    "m.mode": "AttributeError: a listing's machine has load, store, full, empty, let, pairs, tiles, and no mode (line 2)",
    "X.data": "BadInput: X(5, 2) lies in HBM",
    "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})": "E: (it cannot be said) (line 2)",
    "raise ValueError('x' * 10**6)": "ValueError: " + "x" * 512 + " (line 2)",
    "raise ValueError('\\x1b[2J\\n' + '[' * 400)": "ValueError: \\x1b[2J\\n[[[[",
    "\n    m.load(X)": "BadInput: Hbm is not a region of HBM",
    "\n    m.store(X[:], m.load(Y[:]))": "Y[0:5, 0:2] was read before it was written; store it first (line 3)",
}
SOURCES = {
    COPY: "ran",
    b"\xef\xbb\xbf" + COPY.replace(b"\n", b"\r\n"): "ran",
    b"def listing(:\n": "SyntaxError",
    b"\x00\x01\xff": "SyntaxError",
    b"": "NameError: no function named listing (line None)",
    b"import sys\nsys.exit(0)": "SystemExit: 0 (line 2)",
    b"import iosim.course.grading.replay": "ModuleNotFoundError",
    b"import iosim.exercises": "ModuleNotFoundError",
    b"from iosim import simulate": "ImportError",
    **{f"def listing(m, X, Y, *, b):\n    {body}\n".encode(): ends for body, ends in BODIES.items()},
}


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_a_child_says_how_it_ended(one_job: dict[str, Any], source: bytes) -> None:
    calls: list[str] = []
    assert outcome_of(said(one_job, source, calls)).startswith(SOURCES[source])
    assert calls == ["protected"]


def test_limits_come_before_the_source_is_compiled(one_job: dict[str, Any]) -> None:
    def protect() -> None:
        raise PermissionError("no such layer")

    with pytest.raises(PermissionError):
        kernel_child.main(-1, one_job, b"\x00", protect)


def test_what_is_ours_is_there_again_afterwards(one_job: dict[str, Any]) -> None:
    said(one_job, COPY, [])
    assert sys.modules["iosim.course.grading.kernel_child"] is kernel_child
    assert sys.modules["iosim"].__name__ == "iosim"
    assert sys.modules["iosim.memory"].exp is exp


ALONE = """
import importlib.util, json, sys
spec = importlib.util.spec_from_file_location("server", {server!r})
server = importlib.util.module_from_spec(spec)
spec.loader.exec_module(server)
server.OWN = ("kernel_child",)
child = server.import_own(server.Path({server!r}).parent)["kernel_child"]
loaded = sorted({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names - {{"__main__"}})
child.main(1, json.loads({job!r}), {source!r}, lambda: None)
sys.stderr.write(" ".join(loaded))
"""


def test_the_child_needs_the_standard_library_alone(one_job: dict[str, Any]) -> None:
    code = ALONE.format(server=fork_server.__file__, job=json.dumps(one_job), source=COPY)
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, check=True)
    assert done.stderr.decode() == ""
    assert outcome_of(done.stdout) == "ran"
    assert done.stdout == said(one_job, COPY, [])


# the job


def test_a_job_survives_its_journey() -> None:
    problem = Attention(6, 2, nk=7, causal=True)
    job = kernel_job("f", {"Q": (6, 2)}, {"scale": float("inf"), "b": 3}, tables_of(mask_of(problem, 2, 3)))
    back = json.loads(job.to_json())
    assert back.items() >= {"kind": "kernel", "function": "f", "arrays": [["Q", 6, 2]], "args": [0], "params": job.params}.items()
    assert back["mask"] == json.loads(json.dumps(job.mask))


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_arguments_are_sent_as_bytes(dtype: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)[:, ::2]
    [(sent, number)] = json.loads(function_job("f", [(array, 0.1)]).to_json())["calls"]
    assert number == 0.1
    assert np.array_equal(np.frombuffer(bytes.fromhex(sent["data"]), sent["dtype"]).reshape(sent["shape"]), array)


def test_an_argument_of_objects_is_refused() -> None:
    with pytest.raises(BadInput, match="dtype object cannot be sent"):
        function_job("f", [(np.array([None]),)])


def test_a_mask_of_elements_has_to_be_an_array_of_the_job() -> None:
    m = Machine()
    elements = m.input("mask", (4, 4), np.ones((4, 4), bool), dtype="bool")
    mask = replace(mask_of(Attention(4, 2), 2, 2), elements=elements)
    assert tables_of(mask, [elements])["elements"] == 0
    with pytest.raises(BadInput, match="not among the arrays"):
        tables_of(mask)


def test_only_listings_are_recorded() -> None:
    with pytest.raises(TypeError, match="no plain function"):
        record(print, kernel_job("print", {}, {}))
