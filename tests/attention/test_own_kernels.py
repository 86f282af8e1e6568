"""Kernels of users, from files and from notebooks: all roads agree, and what is wrong with one is told with its file and line."""

from __future__ import annotations

import linecache
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iosim import Attention, BadInput, Blocks, IosimError, SramOverflow, compare, simulate, sweep, trace
from iosim.attention.catalogue import kernel
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.attention.symbolic import closed_form
from iosim.core.errors import DeadValue, LoopMisuse, NotWritten
from iosim.core.hardware import DEVICES, device
from iosim.testing import RULES, build_case

HEAD = """import functools
import numpy as np
import iosim
from iosim import Array, Option, fills, keeps, reads
from iosim.attention.kernels.masking import dropped, scores
from iosim.memory import exp, finite, log, maximum, nonzero

"""
ONLINE = '''
def online(m, Q, K, V, O, LSE, *, Br, Bc, scale):
    """Queries outside, keys inside, as flash2."""
    for i in m.tiles(Q.shape[0], Br):
        q = m.load(Q[i])
        o, l = m.full(0.0, i.size, V.shape[1], name="o"), m.full(0.0, i.size, 1, name="l")
        top = m.full(-np.inf, i.size, 1, name="top")
        for j in m.tiles(K.shape[0], Bc):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "s")
            new = m.let(maximum(top, s.rowmax()), "new")
            s[...] = exp(s - new)
            a = m.let(exp(top - new), "a")
            l *= a
            l += s.rowsum()
            o *= a
            o += s @ v
            top[...] = new
        m.store(O[i], o / l)
        m.store(LSE[i], top + log(l))
'''
PASSES = """
@iosim.kernel(
    reads("Q", "K", "V"), fills("O"), keeps(Array("X", "n", "nk", "scores"), Array("tops", "n", "1", "accumulator")),
    options=(Option("wide", 4, "columns of X at a time", (1, 3, 8)), Option("again", False, "load Q for every key tile")),
)
def passes(m, Q, K, V, O, X, tops, *, Br, scale, wide, again):
    "Scores and their tops, and a second pass over both."
    for i in m.tiles(Q.shape[0], Br):
        q, top = m.load(Q[i]), m.full(-np.inf, i.size, 1, name="top")
        for j in m.tiles(K.shape[0], wide):
            q = m.load(Q[i]) if again else q
            x = m.let(scale * (q @ m.load(K[j]).T), "x")
            top[...] = maximum(top, x.rowmax())
            m.store(X[i, j], x)
        m.store(tops[i], top)
    for i in m.tiles(Q.shape[0], Br):
        top, total, o = m.load(tops[i]), m.full(0.0, i.size, 1, name="total"), m.full(0.0, i.size, V.shape[1], name="o")
        for j in m.tiles(K.shape[0], wide):
            p = m.let(exp(m.load(X[i, j]) - top), "p")
            total += p.rowsum()
            o += p @ m.load(V[j])
        m.store(O[i], o / total)
"""
MASKED = """
def masked(m, Q, K, V, O, *, Br, Bc, scale, mask, skip=True):
    for i in m.tiles(Q.shape[0], Br):
        q, o, l = m.load(Q[i]), m.full(0.0, i.size, V.shape[1], name="o"), m.full(0.0, i.size, 1, name="l")
        top = m.full(-np.inf, i.size, 1, name="top")
        for j in m.tiles(K.shape[0], Bc, seen=mask.grid.row(i)):
            s = scores(m, q, m.load(K[j]), i, j, scale, mask)
            new = m.let(finite(maximum(top, s.rowmax())), "new")
            s[...] = exp(s - new)
            a = m.let(exp(top - new), "a")
            l[...] = a * l + s.rowsum()
            o[...] = a * o + dropped(m, s, i, j, mask) @ m.load(V[j])
            top[...] = new
        m.store(O[i], o / nonzero(l))
"""


@pytest.fixture(scope="session")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("own") / "mine.py"
    file.write_text(HEAD + ONLINE + PASSES + MASKED, encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def function(path: Path) -> Callable[[str], Callable[..., None]]:
    return lambda name: kernel(f"{path}:{name}").listing


Writes = Callable[..., str]


@pytest.fixture
def written(tmp_path: Path) -> Writes:
    """Write a file, and tell where it is."""

    def write(source: str | bytes, name: str = "mine.py") -> str:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(source.encode() if isinstance(source, str) else source)
        return str(file)

    return write


def typed(source: str, name: str, cell: str = "<ipython-input-7-0123456789ab>") -> Callable[..., None]:
    """A function that was typed into a notebook: its source is in no file."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(HEAD + source, cell, "exec", dont_inherit=True), namespace)
    found: Callable[..., None] = namespace[name]
    return found


# All roads

ROADS = {"executed": True, "derived": True, "replayed": True}
lengths, widths, heights = st.integers(1, 40), st.integers(1, 9), st.integers(1, 50)


@given(n=lengths, nk=lengths, d=widths, dv=widths, rows=heights, cols=heights, dtype=st.sampled_from(["float32", "float64", "bfloat16"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_queries_outside_move_what_flash2_moves(
    path: Path, n: int, nk: int, d: int, dv: int, rows: int, cols: int, dtype: str
) -> None:  # fmt: skip
    problem = Attention(n, d, nk=nk, dv=dv, dtype=dtype)
    made, ours = (simulate(one, problem, sram=10**6, blocks=(rows, cols)) for one in (f"{path}:online", "flash2"))
    assert made.agreed == ROADS
    assert made.sound
    assert (made.arrays, made.peak_sram, made.predicted) == (ours.arrays, ours.peak_sram, ours.predicted)


@given(n=lengths, nk=lengths, d=widths, dv=widths, rows=heights, wide=heights, again=st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_passes_over_arrays_of_ones_own(path: Path, n: int, nk: int, d: int, dv: int, rows: int, wide: int, again: bool) -> None:
    problem, tall, parts = Attention(n, d, nk=nk, dv=dv), -(-n // rows), -(-nk // wide)
    made = simulate(f"{path}:passes", problem, sram=10**6, blocks=(rows, 1), wide=wide, again=again)
    assert made.agreed == ROADS
    assert made.sound
    words = {"Q": n * d * (1 + parts * again), "K": tall * nk * d, "V": tall * nk * dv, "O": n * dv, "X": 2 * n * nk, "tops": 2 * n}
    assert {name: moved.reads + moved.writes for name, moved in made.arrays.items()} == words
    assert [note for note in made.notes if "again" in note] != [] or not again


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_who_may_attend_is_asked_of_the_mask(path: Path, data: st.DataObject, seed: int) -> None:
    rng, own = np.random.default_rng(seed), f"{path}:masked"
    sizes = (data.draw(lengths), data.draw(lengths), data.draw(widths), data.draw(widths))
    blocks = Blocks(data.draw(heights), data.draw(heights))
    case = build_case(rng, own, sizes, blocks, data.draw(st.sampled_from(RULES)), "float32")
    options: dict[str, Any] = case.options
    made, ours = (simulate(one, case.problem, sram=10**6, blocks=case.blocks, **options) for one in (own, "flash2"))
    assert made.sound
    assert made.agreed == (ROADS if not case.problem.masked else {"executed": True, "replayed": True})
    assert made.total == ours.total - ours.arrays["LSE"].writes


def test_the_closed_form_is_a_formula(function: Callable[[str], Callable[..., None]]) -> None:
    assert closed_form(function("online")).formula == closed_form("flash2").formula
    assert closed_form(function("online")).agrees
    assert closed_form(function("passes"), wide=3).derived["K"] == closed_form("flash2").derived["K"]


def test_a_listing_that_asks_how_large_its_tiles_are_has_no_closed_form() -> None:
    """A symbol is compared as if it were large, which is wrong for short tiles; that is found, and no fault of the listing."""
    short = ONLINE.replace("        q = m.load(Q[i])", "        q = m.load(Q[i])\n        if i.size < Br: m.load(K[:])")
    for n in (8, 9):
        made = simulate(typed(short, "online"), Attention(n, 4, nk=14), sram=10**4, blocks=(4, 4))
        assert made.agreed == {"executed": True, "replayed": True}
        assert (made.sound, made.predicted) == (True, {})
        assert any("how large its sizes are" in note for note in made.notes)
    with pytest.raises(BadInput, match="how large its sizes are"):
        closed_form(typed(short, "online"))


def test_a_listing_that_asks_where_its_tile_lies_is_found_out_on_every_road() -> None:
    placed = ONLINE.replace("        q = m.load(Q[i])", "        q = m.load(Q[i])\n        if i.start > 4: m.load(K[:])")
    made = simulate(typed(placed, "online"), Attention(18, 4, nk=14), sram=10**4, blocks=(4, 4))
    assert made.agreed == {"executed": False, "derived": False, "replayed": False}


@pytest.mark.parametrize("blocks", [(4, 4), (40, 4), (4, 40), (40, 40)])
def test_arrays_as_tall_as_blocks_have_a_closed_form_up_to_their_axis(blocks: tuple[int, int]) -> None:
    whole = """
@iosim.kernel(reads("Q", "K", "V"), keeps(Array("X", "Br", "Bc")), computes=None)
def own(m, Q, K, V, X):
    m.store(X[:], m.full(0.0, *X.shape, name="x"))
"""
    made = simulate(typed(whole, "own"), Attention(9, 4, nk=14), sram=10**4, blocks=blocks)
    assert made.arrays["X"].writes == blocks[0] * blocks[1]
    assert made.agreed == {"executed": True, "replayed": True} | ({"derived": True} if blocks == (4, 4) else {})


# Every function of the library takes one


def test_a_function_its_kernel_and_its_file_are_one(path: Path, function: Callable[[str], Callable[..., None]]) -> None:
    problem, own = Attention(20, 4, nk=33), f"{path}:online"
    records = [simulate(one, problem, sram=900).record() for one in (own, function("online"), kernel(own))]
    assert records[0] == records[1] == records[2]
    assert {*records[0]} == {*simulate("flash2", problem, sram=900).record()}
    assert records[0]["kernel"] == "online"


def test_sweep_compare_and_trace_take_functions(function: Callable[[str], Callable[..., None]]) -> None:
    problem, own = Attention(20, 4, nk=33), function("online")
    found = sweep(problem, [own, "flash2"], n=[8, 20], sram=[400, 900])
    assert [record["kernel"] for record in found] == ["online", "flash2"] * 4
    assert all(record["agreed"] == {"derived": True} for record in found[::2])
    assert [report.kernel for report in compare(problem, [own, "flash2"])] == ["online", "flash2"]
    events = [[(event.kind, event.box, event.sram) for event in trace(one, problem, sram=400, blocks=(2, 3))] for one in (own, "flash2")]
    assert events[0] == events[1]


@pytest.mark.parametrize("rule", ["fit", "paper", (3, 5)])
def test_blocks_are_chosen_for_it(function: Callable[[str], Callable[..., None]], rule: Any) -> None:
    for sram in ("1KiB", 500, 10**5):
        made = simulate(function("online"), Attention(50, 8, nk=70), sram=sram, blocks=rule)
        assert made.blocks == simulate("flash2", Attention(50, 8, nk=70), sram=sram, blocks=rule).blocks
        assert made.agreed == ROADS


@pytest.mark.parametrize("name", DEVICES)
def test_it_takes_time_on_a_device(function: Callable[[str], Callable[..., None]], name: str) -> None:
    chip, problem = device(name), Attention(64, 8, dtype="float16")
    made, ours = (
        report(make_plan(one, problem, chip.sram, "fit", None, {}), execute=False, device=chip) for one in (function("online"), "flash2")
    )
    assert made.time is not None
    assert ours.time is not None
    assert (made.grid, made.time.moved, made.time.matmul_flops) == (None, ours.time.moved, ours.time.matmul_flops)
    assert 0 < made.time.seconds <= ours.time.seconds  # whose few thread blocks leave most of the chip idle


def test_another_process_finds_it(path: Path) -> None:
    problem, kernels = Attention(16, 4), (f"{path}:online", kernel(f"{path}:passes"), "flash2")
    here = sweep(problem, kernels, sram=[400, 900], wide=3)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert sweep(problem, kernels, sram=[400, 900], wide=3, executor=pool) == here
    with ThreadPoolExecutor(2) as threads:
        assert sweep(problem, kernels, sram=[400, 900], wide=3, executor=threads) == here
    again = pickle.loads(pickle.dumps(kernel(f"{path}:passes")))
    assert again is kernel(f"{path}:passes")


# What is wrong is told with file and line

BEGUN = "def own(m, Q, K, V, O, *, Br, Bc, scale):\n    (n, _), (nk, dv) = Q.shape, V.shape\n    for i in m.tiles(n, Br):\n"
WRONG: dict[str, tuple[str, type[Exception], str]] = {
    "forgets a store": ("        q = m.load(Q[i])", NotWritten, "O"),
    "caches in an unnamed value": (
        "        q = scale * m.load(Q[i])\n        for j in m.tiles(nk, Bc):\n            m.let(q @ m.load(K[j]).T, 's')  # here",
        DeadValue, "m.let",
    ),
    "keeps a block beyond its tile": (
        "        for j in m.tiles(nk, Bc):\n            k = m.load(K[j])\n        m.let(k + 1.0, 'kept')  # here", DeadValue, "K"
    ),
    "breaks out of an inner loop": ("        for j in m.tiles(nk, Bc):\n            break\n    m.tiles(n, Br)", LoopMisuse, "break"),
    "returns from a loop": ("        m.store(O[i], m.full(0.0, i.size, dv, name='o'))\n        return", LoopMisuse, "return"),
    "multiplies what does not fit": ("        s = m.load(Q[i]) @ m.load(K[:])  # here", BadInput, "inner sizes"),
    "stores another shape": ("        m.store(O[i], m.load(Q[i]).rowsum())  # here", BadInput, "shapes"),
    "stores to an input": ("        m.store(Q[i], m.load(Q[i]))  # here", BadInput, "input"),
    "cuts an axis by another's tile": ("        m.load(K[i])  # here", BadInput, "axis"),
    "reads what was never written": (
        "        m.load(O[i])  # here\n        m.store(O[i], m.full(0.0, i.size, dv, name='o'))", NotWritten, "before"
    ),
    "misspells a verb": ("        m.lode(Q[i])  # here", BadInput, "AttributeError: "),
    "misspells an array": ("        m.load(q[i])  # here", BadInput, "NameError: name 'q'"),
    "raises": ("        raise RuntimeError('one\\ntwo')  # here", BadInput, "RuntimeError: one two"),
    "raises without a word": ("        assert not Br  # here", BadInput, "AssertionError"),
    "raises what is no exception": ("        raise type('Odd', (BaseException,), {})('so')  # here", BadInput, "Odd: so"),
    "raises what cannot be spelled": (
        "        raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})  # here", BadInput, "Odd: <exception str() failed>"
    ),
    "exits": ("        raise SystemExit(0)  # here", BadInput, "SystemExit: 0"),
    "calls itself": ("        own(m, Q, K, V, O, Br=Br, Bc=Bc, scale=scale)", BadInput, "RecursionError"),
    "reads a file that is not there": ("        open('/nowhere/to/be/found')  # here", BadInput, "FileNotFoundError"),
    "overflows": ("        m.full(0.0, 1000, 1000, name='large')  # here", SramOverflow, "large(1000, 1000) needs"),
    "looks at numbers": ("        if m.load(Q[i]) > 0: pass  # here", BadInput, ""),
    "is wrong in a helper": ("        helper(m, O, i)\ndef helper(m, O, i):\n    m.store(O, i)  # here", BadInput, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_told_in_one_line(name: str, written: Writes) -> None:
    body, kind, told = WRONG[name]
    source = HEAD + BEGUN + body + "\n"
    marked = [number for number, line in enumerate(source.splitlines(), 1) if "# here" in line]
    file = written(source)
    for execute in (True, False):
        with pytest.raises(kind) as caught:
            simulate(f"{file}:own", Attention(9, 4, nk=14), sram=10**5, blocks=(3, 4), execute=execute)
        assert isinstance(caught.value, IosimError)
        message = str(caught.value)
        assert message.startswith("mine.py, line "), message
        assert told in message
        assert "\n" not in message
        if marked:
            assert message.startswith(f"mine.py, line {marked[0]}: "), message
    with pytest.raises(kind, match=f"^own, line {marked[0]}: " if marked else "^own, line "):
        simulate(typed(BEGUN + body, "own"), Attention(9, 4, nk=14), sram=10**5, blocks=(3, 4))


def test_an_overflow_says_what_would_fit(path: Path) -> None:
    with pytest.raises(SramOverflow, match=r"^mine.py, line [0-9]+: .* free of 300|; blocks [0-9]+x[0-9]+ would fit$") as caught:
        simulate(f"{path}:online", Attention(64, 8), sram=300, blocks=(32, 32))
    blocks = tuple(int(side) for side in str(caught.value).rpartition("blocks ")[2].split(" ")[0].split("x"))
    assert simulate(f"{path}:online", Attention(64, 8), sram=300, blocks=blocks).sound  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="1x1 blocks need"):
        simulate(f"{path}:online", Attention(64, 8), sram=20)
    with pytest.raises(BadInput, match="no closed form in which to search"):
        simulate(f"{path}:online", Attention(64, 8), blocks="best")


def test_what_is_loaded_again_is_noted_with_its_line(written: Writes) -> None:
    body = "        q, o = m.load(Q[i]), m.full(0.0, i.size, dv, name='o')\n        p = m.load(Q[i])  # here\n"
    source = HEAD + BEGUN + body + "        for j in m.tiles(nk, Bc):\n            m.load(Q[i])  # too\n        m.store(O[i], o)\n"
    lines = [number for number, line in enumerate(source.splitlines(), 1) if "# here" in line or "# too" in line]
    for n in (9, 2**20):
        notes = simulate(f"{written(source)}:own", Attention(n, 4), blocks=(3, 2**10), execute=False).notes
        assert [note.partition(":")[0] for note in notes if "again" in note] == [f"mine.py, line {line}" for line in lines]


STORED = """
def own(m, Q, K, V, O, O_acc, *, Br):
    for i in m.tiles(Q.shape[0], Br):
        m.store(O_acc[i], m.full(0.0, i.size, V.shape[1], name="o"))
        for _ in range(3):
            m.store(O_acc[i], m.load(O_acc[i]) + 1.0)
        m.store(O[i], m.load(O_acc[i]))
"""


def test_what_was_stored_in_between_is_loaded_anew(path: Path) -> None:
    for own in (*(kernel(f"{path}:{name}").listing for name in ("online", "masked", "passes")), typed(STORED, "own")):
        assert [note for note in simulate(own, Attention(9, 4), execute=False).notes if "again" in note] == []


def test_an_error_of_who_looks_on_stays_what_it_is(path: Path) -> None:
    plan = make_plan(f"{path}:online", Attention(4, 2), 1000, "fit", None, {})

    def closed(_: object) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        plan.run(plan.machine("trace", [closed]))


# Notebooks


def test_a_function_of_a_notebook_is_taken_with_or_without_its_source() -> None:
    cell = "<ipython-input-8-0123456789ab>"
    for known in (False, True):
        own = typed(ONLINE, "online", cell)
        if known:
            linecache.cache[cell] = (len(HEAD + ONLINE), None, (HEAD + ONLINE).splitlines(True), cell)
        assert simulate(own, Attention(9, 4)).agreed == ROADS
    linecache.cache.pop(cell)


def listing_of(times: str) -> str:
    """A listing that computes nothing, and loads Q so many ``times``."""
    loads = f"def own(m, Q, K, V, O):\n    for _ in range({times}):\n        m.load(Q[:])\n"
    return loads + "    m.store(O[:], m.full(0.0, *O.shape, name='o'))\n"


def test_a_function_that_is_defined_again_is_another_kernel() -> None:
    for times in (1, 2):
        own = typed(listing_of(str(times)), "own")
        assert simulate(own, Attention(4, 2), execute=False).arrays["Q"].reads == 8 * times


@pytest.mark.parametrize("asked", [3, None, [], object(), type, print, np.exp, Attention, str.join], ids=lambda asked: type(asked).__name__)
def test_what_is_no_function_is_refused(asked: Any) -> None:
    with pytest.raises(BadInput, match=r"a kernel must be a name, .*of type"):
        simulate(asked, Attention(4, 2))
