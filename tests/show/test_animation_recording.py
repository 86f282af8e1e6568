"""A recording is of the run that was asked for: its seed, type, blocks and heads, every block at its rows; and how it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from iosim import KERNELS, Attention, BadInput, Capacity, animate, simulate, trace
from iosim.attention.inputs import random_inputs
from iosim.attention.kernels.masking import Mask
from iosim.attention.plan import make_plan
from iosim.core.dtypes import accumulator
from iosim.core.events import Event
from iosim.core.masks.patterns import random
from iosim.memory import Hbm, Machine, exp
from iosim.show.animation import from_trace, listing, recording
from iosim.show.animation.moving import SMALL, MovingPicture
from iosim.show.animation.pool import Sample
from iosim.show.animation.recording import Recording, Watcher, record
from iosim.show.animation.steps import KINDS

PROBLEM = Attention(n=10, nk=14, d=3, dv=2, causal=True)
SRAM, BLOCKS = 2**20, (4, 3)
BACKWARD = [name for name in KERNELS if KERNELS[name].forward]


def recorded(kernel: str, problem: Attention = PROBLEM, seed: int = 0, blocks: tuple[int, int] = BLOCKS, **options: str) -> Recording:
    return record(make_plan(kernel, problem, SRAM, blocks, None, options), seed)


def numbers(made: Recording) -> np.ndarray:
    return np.frombuffer(made.pool.bytes(), "<f8" if made.document()["wide"] else "<f4")


def inputs(made: Recording) -> dict[str, np.ndarray]:
    """What the page shows of the inputs at the start."""
    shapes = {name: (rows, cols) for name, kind, rows, cols in made.steps.arrays if kind == "input"}
    assert shapes.keys() <= made.held.keys()
    return {name: numbers(made)[made.held[name] :][: rows * cols].reshape(rows, cols) for name, (rows, cols) in shapes.items()}


def stored(made: Recording, name: str) -> np.ndarray:
    """An output as its stores leave it, NaN where none of the kept elements is."""
    ((rows, cols),) = [(rows, cols) for array, _, rows, cols in made.steps.arrays if array == name]
    found, (stride, most), things = np.full((rows, cols), np.nan, numbers(made).dtype), sample(made), list(made.steps.things)
    for kind, _, place, _, at in made.steps.rows:
        if KINDS[kind] in ("store", "init") and things[place][0] == name:
            _, top, bottom, left, right, _ = things[place]
            kept, width = range(-(-top // stride) * stride, bottom, stride), max(0, min(right, most) - left)
            found[kept, left : left + width] = numbers(made)[at : at + len(kept) * width].reshape(len(kept), width)
    return found


def sample(made: Recording) -> tuple[int, int]:
    stride, cols = made.document()["stride"], made.document()["cols"]
    assert isinstance(stride, int)
    assert cols is None or isinstance(cols, int)
    return stride, 10**6 if cols is None else cols


# of the run that was asked for


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("kernel", ["standard", "flash2", *BACKWARD])
@pytest.mark.parametrize("seed", [0, 3])
def test_its_numbers_are_those_of_the_seed_in_the_type_of_the_accumulator(kernel: str, dtype: str, seed: int) -> None:
    problem = Attention(n=10, nk=14, d=3, dv=2, causal=True, dtype=dtype)
    made, report = recorded(kernel, problem, seed), simulate(kernel, problem, sram=SRAM, blocks=BLOCKS, seed=seed)
    assert made.pool.dtype == np.dtype(accumulator(dtype))
    assert made.document()["wide"] == (dtype == "float64")
    given = random_inputs(problem, seed, gradient=kernel in BACKWARD)
    for name, values in given.items():
        assert np.array_equal(inputs(made)[name], values.astype(made.pool.dtype)), name
    for name in report.values:
        if any(array[0] == name for array in made.steps.arrays):
            expected = np.asarray(report.values[name]).astype(made.pool.dtype)
            assert np.array_equal(stored(made, name).reshape(expected.shape), expected), name


def test_a_run_in_float64_keeps_every_bit() -> None:
    made = recorded("flash2", Attention(n=10, nk=14, d=3, dtype="float64"))
    assert any(value != np.float32(value) for value in numbers(made))


def test_another_seed_makes_another_picture() -> None:
    one, other, again = (animate("flash2", seed=seed).runs[0] for seed in (0, 1, 1))
    assert one.pool.bytes() != other.pool.bytes() == again.pool.bytes()
    assert (
        one.pool.bytes() == animate("flash2").runs[0].pool.bytes() == record(make_plan("flash2", SMALL, 128, (4, 4), None, {})).pool.bytes()
    )
    assert np.array_equal(inputs(other)["Q"], random_inputs(SMALL, 1)["Q"])


def test_it_says_which_blocks_and_which_heads_are_shown() -> None:
    assert recorded("flash2").blocks == recorded("flash2").document()["blocks"] == BLOCKS
    many = Attention(n=10, d=3, batch=2, heads=6, kv_heads=2)
    assert "; 1 of 4 KV heads and its group is shown, the others do the same, blocks " in recorded("flash2", many).told
    assert "is shown" not in recorded("flash2", Attention(n=10, d=3, heads=6, kv_heads=1)).told


# every block at its place


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_computed_block_stands_at_the_rows_of_its_tile(kernel: str) -> None:
    made, found = recorded(kernel), 0
    scopes: list[tuple[str, int, int]] = []
    for kind, _, place, *_ in made.steps.rows:
        what = KINDS[kind]
        if what == "begin":
            scopes.append(list(made.steps.things)[place][:3])
        elif what == "end":
            scopes.pop()
        elif what == "alloc":
            name, top, bottom = list(made.steps.things)[place][:3]
            role = "j" if "_j" in name else "i"
            tops = [start for variable, start, stop in scopes if (variable, stop - start) == (role, bottom - top)]
            assert top == (tops[-1] if tops else -1), name
            found += role == "j"
    assert found or not any("_j" in name for name, *_ in made.steps.things)


def test_key_tiles_of_the_backward_pass_stand_at_the_rows_of_the_keys() -> None:
    things = {thing[:3] for thing in recorded("flash2-backward").steps.things if thing[0] in ("dK_j", "dV_j")}
    assert things == {(name, top, min(14, top + 3)) for name in ("dK_j", "dV_j") for top in range(0, 14, 3)}


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_block_on_chip_has_the_numbers_that_the_machine_has_after_each_line(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, list[bytes]]] = []
    settle = Watcher.settle

    def settled(watcher: Watcher) -> None:
        settle(watcher)
        seen.append((len(watcher.steps.rows), [np.asarray(block._data, np.float32).tobytes() for block in watcher.machine.residents]))

    monkeypatch.setattr(Watcher, "settle", settled)
    made = recorded(kernel)
    states = played(made)
    assert len(seen) > 40
    for rows, held in seen:
        assert states[rows] == held


def played(made: Recording) -> list[list[bytes]]:
    """What the blocks on chip hold after each number of steps."""
    things, values = list(made.steps.things), numbers(made)
    chip: list[tuple[int, int]] = []
    marks: list[int] = []
    states: list[list[bytes]] = [[]]
    for kind, _, place, _, at in made.steps.rows:
        what = KINDS[kind]
        if what == "begin":
            marks.append(len(chip))
        elif what == "end":
            del chip[marks.pop() :]
        elif what in ("load", "alloc"):
            _, top, bottom, left, right, _ = things[place]
            chip.append((at, (bottom - top) * (right - left)))
        elif what == "compute":
            chip[place] = at, chip[place][1]
        states.append([values[at : at + size].tobytes() for at, size in chip])
    return states


def test_the_last_line_of_a_function_is_the_one_that_overwrites() -> None:
    mask = random(8, 8, 1, 1, 0.5, seed=1).dense()
    made = recorded("flash2", Attention(n=8, d=3, mask=mask))
    lines = [made.lines[line] for kind, line, *_ in made.steps.rows if KINDS[kind] == "compute"]
    assert sum("where(m.load(self.elements" in line for line in lines) == 6
    assert not any(".hide(" in line for line in lines)


@pytest.mark.parametrize(
    ("kernel", "blocks"), [("square-tiles", (6, 5)), ("square-tiles", (8, 3)), ("standard", (6, 5)), ("flash2", (6, 5))]
)
@pytest.mark.parametrize("stride", [1, 2])
def test_of_a_tile_that_is_cut_by_the_last_kept_column_the_kept_ones_are_right(
    kernel: str, blocks: tuple[int, int], stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "sample_of", lambda plan: Sample(stride, 8))
    problem = Attention(n=17, nk=14, d=11, dv=13)
    made, output = recorded(kernel, problem, 0, blocks), simulate(kernel, problem, sram=SRAM, blocks=blocks).output
    assert output is not None
    assert np.array_equal(stored(made, "O")[::stride, :8], output[::stride, :8])
    assert np.isnan(stored(made, "O")[:, 8:]).all()


# how it is shown and asked for


def frame(picture: MovingPicture) -> tuple[str, int]:
    """The title as a browser reads it, and the height."""
    found = re.match(r'<iframe title="([^"<>]*)" sandbox="allow-scripts" style="width:100%;height:([0-9]+)px;', picture._repr_html_())
    assert found is not None
    return unescape(found[1]), int(found[2])


def test_the_title_of_a_frame_is_the_name_whatever_is_in_it(tmp_path: Path, sealed: Callable[[Sequence[Event]], str]) -> None:
    path = tmp_path / 'a" onload="alert(1)<b>&amp;.jsonl'
    path.write_text(sealed(trace("flash2", PROBLEM, sram=400, blocks=BLOCKS)), encoding="utf-8")
    assert frame(from_trace(path))[0] == path.name
    assert frame(animate("flash2", beside="flash"))[0] == "flash2 beside flash"


def test_a_frame_is_as_high_as_its_runs_need() -> None:
    one, two = animate("flash2"), animate("flash2", beside="flash")
    backward = animate("flash2-backward", beside="flash-backward")
    heads = animate("flash2-backward", Attention(n=16, d=4, heads=8, kv_heads=1))
    assert [frame(made)[1] for made in (one, two, backward, heads)] == [860, 1500, 1900, 2400]
    assert frame(animate("flash2-backward"))[1] == 860 + 4 * 60


def test_overflow_is_recorded_where_that_is_asked() -> None:
    made = animate("flash2", sram=60, overflow="record")
    assert made.runs[0].capacity == 60 < max(sram for *_, sram, _ in made.runs[0].steps.rows)
    with pytest.raises(MemoryError):
        animate("flash2", sram=60)
    with pytest.raises(BadInput, match="overflow must be 'error' or 'record', not 'ignore'"):
        animate("flash2", overflow="ignore")  # type: ignore[arg-type]  # wrong on purpose


MASK = np.eye(16, dtype=bool)
REFUSED: dict[str, tuple[tuple[object, ...], dict[str, object], str]] = {
    "an array for a text": (
        ("standard",),
        {"softmax": np.array([1, 2])},
        r"softmax must be a text, a number, True or False, not array\(\[1, 2\]\)",
    ),
    "a long array": (("standard",), {"softmax": np.zeros((50, 50))}, "softmax must be a text"),
    "a list": (("flash",), {"first_pass": ["load"]}, "first_pass must be a text"),
    "a number": (("flash2",), {"skip": 1}, "skip must be"),
    "an option of no kernel": (("flash2",), {"beside": "flash", "depth": "one"}, "none of flash2, flash has an option 'depth'"),
    "itself": (("flash2",), {"beside": "flash2"}, "the same run of flash2 twice; name another kernel or give another problem"),
    "its problem": (("flash2", SMALL), {"beside": SMALL}, "the same run of flash2 twice"),
    "an equal problem": (("flash2",), {"beside": Attention(n=16, d=4)}, "the same run of flash2 twice"),
    "an equal mask": (("flash2", Attention(n=16, d=4, mask=MASK)), {"beside": Attention(n=16, d=4, mask=MASK.copy())}, "the same run of"),
    "beside of no kernel": (("flash2",), {"beside": "flush"}, "unknown kernel 'flush'"),
    "beside of no type": (("flash2",), {"beside": np.array([1, 2])}, "a kernel must be a name"),
    "no problem": (("flash2", 16), {}, "the problem must be an Attention, not int"),
    "no kernel": ((["flash2"],), {}, "a kernel must be a name"),
    "a seed": (("flash2",), {"seed": -1}, "seed must be a whole number >= 0"),
    "blocks": (("flash2",), {"blocks": (4.0, 4)}, "Br must be a whole number"),
    "an M": (("flash2",), {"sram": 1.5}, "sram must be a whole number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_argument_gets_one_line(name: str) -> None:
    given, options, told = REFUSED[name]
    with pytest.raises(BadInput, match=told) as error:
        animate(*given, **options)  # type: ignore[arg-type]  # wrong on purpose
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "beside", [Attention(n=16, d=4, causal=True), Attention(n=16, d=4, scale=0.0), Attention(n=16, d=4, mask=MASK), Attention(n=12, d=4)]
)
def test_two_runs_may_differ_in_one_thing(beside: Attention) -> None:
    assert len(animate("flash2", beside=beside, sram=Capacity(256)).runs) == 2


# tiles inside tiles


def halves(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """Attention without rescaling, two query rows at a time inside a tile; keys go through tiles inside tiles, too."""
    for i in m.tiles(Q.shape[0], Br):
        for j in i.tiles(2):
            q = m.load(Q[j])
            o, l_i = m.full(0.0, j.size, V.shape[1], name="O_i"), m.full(0.0, j.size, 1, name="l_i")
            for k in m.tiles(K.shape[0], Bc):
                for x in k.tiles(2):
                    p = m.let(exp(scale * (q @ m.load(K[x]).T)), "P_i")
                    o += p @ m.load(V[x])
                    l_i += p.rowsum()
            m.store(O[j], o / l_i)


def test_a_tile_inside_a_tile_is_told_by_both_and_is_no_key_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where j stands for rows of i, pairs of i and j are no pairs of queries and keys; and what is computed stands at the rows of j."""
    monkeypatch.setattr(listing, "FOLDER", __file__)
    made = record(make_plan(halves, Attention(n=10, nk=7, d=3), SRAM, (4, 3), None, {}))
    steps, things = made.steps, list(made.steps.things)
    begun = [things[place][:3] for kind, _, place, *_ in steps.rows if KINDS[kind] == "begin"]
    assert {variable for variable, *_ in begun} == {"i", "i.j", "k", "k.x"}
    assert [rows for variable, *rows in begun if variable == "i.j"] == [[0, 2], [2, 4], [4, 6], [6, 8], [8, 10]]
    assert [rows for variable, *rows in begun if variable == "k.x"][:4] == [[0, 2], [2, 3], [3, 5], [5, 6]]
    allocated = [things[place] for kind, _, place, *_ in steps.rows if KINDS[kind] == "alloc"]
    assert {(name, top, bottom) for name, top, bottom, *_ in allocated} == {
        (name, top, top + 2) for name in ("O_i", "l_i", "P_i") for top in range(0, 10, 2)
    }
    Q, K, V = (inputs(made)[name] for name in "QKV")
    P = np.exp(Q @ K.T / 3**0.5)
    assert np.allclose(stored(made, "O"), P @ V / P.sum(axis=1, keepdims=True), rtol=1e-5)


def test_a_trace_of_tiles_inside_tiles_moves(tmp_path: Path, sealed: Callable[[Sequence[Event]], str]) -> None:
    events = make_plan(halves, Attention(n=10, nk=7, d=3), SRAM, (4, 3), None, {}).trace()
    (tmp_path / "trace.jsonl").write_text(sealed(events), encoding="utf-8")
    [made] = from_trace(str(tmp_path / "trace.jsonl")).runs
    moved = [list(made.steps.things)[place][:3] for kind, _, place, *_ in made.steps.rows if KINDS[kind] == "store"]
    assert moved == [("O", top, top + 2) for top in range(0, 10, 2)]
