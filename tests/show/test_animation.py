"""The recording behind the moving picture: the same events as the trace, on the right lines, with the run's own numbers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from html import escape, unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, Attention, BadInput, animate, simulate, trace
from iosim.attention.plan import make_plan
from iosim.cli import main
from iosim.core.events import Event
from iosim.show.animation import from_trace, limits
from iosim.show.animation.pool import Pool, Sample
from iosim.show.animation.recording import Recording, record
from iosim.show.animation.steps import KINDS

SMALL = Attention(n=10, nk=14, d=3, dv=2, causal=True)
SRAM, BLOCKS = 400, (4, 3)
MOVES = ("load", "store", "init")


def recorded(kernel: str, problem: Attention = SMALL, **options: str) -> Recording:
    return record(make_plan(kernel, problem, SRAM, BLOCKS, None, options))


def rows(made: Recording) -> list[tuple[str, str, tuple[str, int, int, int, int, int], int, int]]:
    """The steps with kinds, lines and things in place of their indices; a computed block's thing is its place on chip."""
    things, lines = list(made.steps.things), [*made.lines, ""]
    return [
        (KINDS[kind], lines[place], things[thing] if KINDS[kind] != "compute" else ("", thing, 0, 0, 0, 0), sram, at)
        for kind, place, thing, sram, at in made.steps.rows
    ]


@pytest.mark.parametrize("kernel", KERNELS)
def test_its_steps_are_the_events_of_the_run(kernel: str) -> None:
    made = recorded(kernel)
    steps = [(kind, thing, sram) for kind, _, thing, sram, _ in rows(made) if kind != "compute"]
    events = [event for event in trace(kernel, SMALL, sram=SRAM, blocks=BLOCKS) if event.kind not in ("input", "output", "scratch", "use")]
    assert [(kind, sram) for kind, _, sram in steps] == [(event.kind, event.sram) for event in events]
    for (kind, (name, top, bottom, left, right, words), _), event in zip(steps, events, strict=True):
        if kind in MOVES:
            assert (name, ((top, bottom), (left, right)), words) == (event.name, event.box, event.words)
        elif kind == "alloc":
            assert (name, bottom - top, right - left, words) == (event.name, event.box[0][1], event.box[1][1], event.words)


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_it_moves_is_what_the_report_counts(kernel: str) -> None:
    report = simulate(kernel, SMALL, sram=SRAM, blocks=BLOCKS)
    steps = rows(recorded(kernel))
    for name, array in report.arrays.items():
        moved = {way: sum(thing[5] for kind, _, thing, *_ in steps if kind == way and thing[0] == name) for way in MOVES}
        assert (moved["load"], moved["store"] + moved["init"], moved["init"]) == (array.reads, array.writes, array.init_writes)
    assert max(sram for *_, sram, _ in steps) == report.peak_sram


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_step_stands_on_the_line_that_does_it(kernel: str) -> None:
    signs = {"load": "m.load(", "store": "m.store(", "init": "m.store(", "begin": "for ", "end": "for ", "compute": "="}
    for kind, text, *_ in rows(recorded(kernel)):
        if kind == "alloc":
            assert "m.let(" in text or "m.full(" in text
        else:
            assert signs[kind] in text
    assert any(text for text in recorded(kernel).lines)


@pytest.mark.parametrize(("kernel", "functions"), [("flash2", ["flash2", "scores"]), ("standard", ["scores_tiled", "softmax_rows"])])
def test_the_listing_is_what_the_run_enters_without_docstrings(kernel: str, functions: list[str]) -> None:
    lines = recorded(kernel).lines
    assert all(any(text.startswith(f"def {name}(") for text in lines) for name in functions)
    assert not any('"""' in text or "fmt:" in text for text in lines)
    assert not any(text.startswith("def softmax_streamed") for text in lines)


def played(made: Recording) -> list[tuple[str, dict[str, np.ndarray]]]:
    """The kind of each step, and what the blocks on chip hold after it."""
    numbers = np.frombuffer(made.pool.bytes(), "<f4")
    chip: list[tuple[str, tuple[int, int], np.ndarray]] = []
    marks: list[int] = []
    states = []
    for kind, _, (name, top, bottom, left, right, _), _, at in rows(made):
        if kind == "begin":
            marks.append(len(chip))
        elif kind == "end":
            del chip[marks.pop() :]
        elif kind in ("load", "alloc"):
            shape = bottom - top, right - left
            chip.append((name, shape, numbers[at : at + shape[0] * shape[1]].reshape(shape)))
        elif kind == "compute":
            label, shape, _ = chip[top]
            chip[top] = label, shape, numbers[at : at + shape[0] * shape[1]].reshape(shape)
        states.append((kind, {label: data for label, _, data in chip}))
    return states


def test_m_l_and_o_are_those_of_an_online_softmax() -> None:
    problem = Attention(n=8, nk=9, d=3)
    made = recorded("flash2", problem)
    inputs = {name: np.frombuffer(made.pool.bytes(), "<f4")[at:] for name, at in made.held.items()}
    q, k, v = (inputs[name][: rows * 3].reshape(rows, 3).astype(np.float64) for name, rows in (("Q", 8), ("K", 9), ("V", 9)))
    scores = q @ k.T / np.sqrt(3)
    after_tiles = [chip for (kind, chip), (after, _) in pairwise(played(made)) if (kind, after) == ("compute", "end")]
    assert len(after_tiles) == 2 * 3
    for place, chip in enumerate(after_tiles):
        (i, j), seen = divmod(place, 3), slice(0, 3 * (place % 3 + 1))
        part = scores[4 * i : 4 * i + 4, seen]
        m = part.max(axis=1, keepdims=True)
        p = np.exp(part - m)
        assert j == place % 3
        np.testing.assert_allclose(chip["m_i"], m, rtol=1e-5)
        np.testing.assert_allclose(chip["l_i"], p.sum(axis=1, keepdims=True), rtol=1e-5)
        np.testing.assert_allclose(chip["O_i"], p @ v[seen], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernel", ["standard", "flash", "flash2", "released", "square-tiles"])
def test_what_it_stores_last_is_the_output(kernel: str) -> None:
    made, report = recorded(kernel), simulate(kernel, SMALL, sram=SRAM, blocks=BLOCKS)
    assert report.output is not None
    numbers, found = np.frombuffer(made.pool.bytes(), "<f4"), np.full(report.output.shape, np.nan, np.float32)
    for kind, _, (name, top, bottom, left, right, words), _, at in rows(made):
        if kind in ("store", "init") and name == "O":
            found[top:bottom, left:right] = numbers[at : at + words].reshape(bottom - top, right - left)
    assert np.array_equal(found, report.output)


@given(st.integers(0, 40), st.integers(1, 20), st.integers(0, 5), st.integers(1, 6), st.sampled_from([1, 2, 4, 8]), st.integers(1, 8))
def test_a_sample_keeps_rows_by_their_index_in_the_array(top: int, height: int, left: int, width: int, stride: int, cols: int) -> None:
    whole = np.arange((top + height) * (left + width), dtype=np.float32).reshape(top + height, left + width)
    pool = Pool(np.dtype(np.float32), Sample(stride, cols))
    pool.put(np.full((1, 1), -1, np.float32), 0)
    at = pool.put(whole[top:, left:], top, left)
    kept = [whole[row, left : min(cols, left + width)] for row in range(top, top + height) if row % stride == 0]
    expected = np.concatenate([*kept, np.empty(0, np.float32)])
    assert np.array_equal(np.frombuffer(pool.bytes(), "<f4")[at : at + expected.size], expected)
    assert pool.put(whole[top:, left:], top, left) == at


def test_a_trace_function_that_was_there_is_there_again() -> None:
    before = sys.gettrace()

    def mine(*_: object) -> None: ...

    sys.settrace(mine)
    try:
        animate("flash2")
        with_a_picture = sys.gettrace()
        with pytest.raises(MemoryError):
            record(make_plan("flash2", SMALL, 20, BLOCKS, None, {}))
        with_an_error = sys.gettrace()
    finally:
        sys.settrace(before)
    assert with_a_picture is with_an_error is mine


ADDRESS = re.compile(r"(?:https?:)?//[a-z0-9]|\bsrc=|@import|url\(", re.IGNORECASE)  # outside the data, whose base64 has slashes


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_page_stands_alone_and_is_small(kernel: str) -> None:
    page = animate(kernel, beside="flash" if kernel == "flash2" else "flash2").html
    assert len(page.encode()) < 2_000_000
    assert ADDRESS.search(re.sub(r'(?<=id="data">)[^<]*', "", page)) is None


def test_no_text_can_leave_the_data(tmp_path: Path, sealed: Callable[[Sequence[Event]], str]) -> None:
    path = tmp_path / "<!--<script>&{{data}}.jsonl"
    path.write_text(sealed(trace("flash2", SMALL, sram=SRAM, blocks=BLOCKS)), encoding="utf-8")
    page = from_trace(str(path)).html
    assert path.name not in page
    assert f"<title>{escape(path.name)} · iosim</title>" in page
    data = re.search(r'<script type="application/json" id="data">([^<>&]*)</script>', page)
    assert data is not None
    assert json.loads(data[1])[0]["name"] == path.name


def test_a_notebook_gets_the_page_in_a_frame() -> None:
    picture = animate("flash2")
    frame = re.fullmatch(r'<iframe title="flash2" sandbox="allow-scripts" style="[^"]*" srcdoc="([^"]*)"></iframe>', picture._repr_html_())
    assert frame is not None
    assert unescape(frame[1]) == picture.html


def test_the_smallest_power_of_two_has_room_for_both() -> None:
    both = animate("flash2", beside="flash-backward").runs
    peak = max(sram for run in both for _, _, _, sram, _ in run.steps.rows)
    assert both[0].capacity == both[1].capacity == 256
    assert 128 < peak <= 256


def test_a_sample_is_taken_where_not_all_numbers_have_room() -> None:
    made = record(make_plan("flash2", Attention(n=512, d=64), 10**5, (64, 64), None, {}))
    assert made.pool.sample.cols == 8
    assert 0 < made.pool.size < 400_000


@pytest.mark.parametrize("kernel", ["square-tiles", "flash", "flash2"])
def test_a_sampled_run_keeps_the_right_elements_of_ragged_tiles(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    problem = Attention(n=17, nk=14, d=11, dv=13)
    monkeypatch.setattr(limits, "MOST_NUMBERS", 1500)
    made = record(make_plan(kernel, problem, 2000, (3, 5), None, {}))
    output, (stride, cols) = simulate(kernel, problem, sram=2000, blocks=(3, 5)).output, (made.pool.sample.stride, 8)
    assert output is not None
    assert stride > 1
    numbers, found = np.frombuffer(made.pool.bytes(), "<f4"), np.full(output.shape, np.nan, np.float32)
    for kind, _, (name, top, bottom, left, right, _), _, at in rows(made):
        if kind in ("store", "init") and name == "O":
            kept, width = range(-(-top // stride) * stride, bottom, stride), max(0, min(right, cols) - left)
            found[kept, left : left + width] = numbers[at : at + len(kept) * width].reshape(len(kept), width)
    assert np.array_equal(found[::stride, :cols], output[::stride, :cols])


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_content_is_recorded(kernel: str) -> None:
    asked = [recorded(kernel), *([recorded(kernel, first_pass="create")] if "first_pass" in KERNELS[kernel].has else [])]
    assert all((at >= 0) == (kind not in ("begin", "end")) for made in asked for kind, *_, at in rows(made))


WRONG = {
    "trace": "needs a kernel",
    "trace --html x.html": "needs a kernel",
    "trace flash2 --beside flash": "--html",
    "trace --from t.jsonl": "--html",
    "trace flash2 --html x.html --json": "leave out --json, or",
    "trace flash2 --html x.html --csv": "leave out --csv, or",
    "trace flash2 --html x.html --json --csv": "--json and --csv are two forms",
    "trace flash2 --html x.html --json --out y": "leave out --json and --out, or",
    "trace flash2 --json --csv": "two forms",
    "trace flash2 --json page": "page",
    "trace flash2 --html": "requires an argument",
    "trace t.jsonl": "is no kernel but a file; show a trace in it with: iosim trace --from t.jsonl --html FILE",
    "trace t.jsonl --html x.html": "is no kernel but a file",
    "trace flash2 --html x.html --beside dense": "--causal",
    "trace flash2 --html x.html --beside causal --causal": "--causal",
    "trace flash2 --html x.html --beside flush": "did you mean flash",
    "trace flash2 --html x.html --beside flash2": "the same run twice; name another kernel, or dense or causal",
    "trace flash2 --html x.html --from t.jsonl": "leave out KERNEL",
    "trace --html x.html --from t.jsonl --beside flash": "leave out --beside",
    "trace --html x.html --from t.jsonl --n 64 --causal --block-mask dense": "leave out --n and --causal and --block-mask",
    "trace --html t.jsonl --from t.jsonl": "would take the place of the trace",
    "trace --html x.html --from nowhere.jsonl": "there is no file nowhere.jsonl; write one with",
    "trace --html x.html --from .": ". is a folder, not a trace",
    "trace --html x.html --from": "requires an argument",
    "trace flash2 --html nowhere/x.html": "folder",
    "trace flash2 --html .": "--html '.' is no file name; give one such as ./flash2.html",
    "trace --html . flash --beside flash2": "give one such as ./flash.html",
    "trace --html . --from some/t.jsonl": "give one such as ./t.html",
    "trace flash2 --html x.html --sram 60 --blocks 4x4": "would fit",
    "trace flash2 --html x.html --reuse ideal": "--reuse",
}


@pytest.mark.parametrize("command", WRONG)
def test_a_wrong_command_gets_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text("a trace", encoding="utf-8")
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert WRONG[command] in err
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]
    assert Path("t.jsonl").read_text(encoding="utf-8") == "a trace"


@pytest.mark.parametrize(("path", "better"), [("", "flash2.html"), ("folder", "folder/flash2.html"), ("folder/", "folder/flash2.html")])
def test_the_file_that_is_advised_in_place_of_none_is_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str, better: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert main(["trace", "flash2", "--html", path]) == 2
    err = capsys.readouterr().err
    assert err == f"iosim: --html {path!r} is no file name; give one such as {better}\n"
    assert main(["trace", "flash2", "--html", better]) == 0
    assert main(["trace", "flash2", "--html", "of-any-name"]) == 0
    assert Path("of-any-name").read_bytes() == Path(better).read_bytes()


def test_the_help_says_which_m_a_page_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    found = re.search(
        r"M is the least power of two, in words, that holds what the run needs, .*: (\d+) for flash2, not the (\S+) of --sram", told
    )
    assert found is not None
    assert re.search(r"--sram SIZE Capacity M: words, or bytes with a suffix. \[default: (\S+)\]", told)[1] == found[2]  # type: ignore[index]
    path = tmp_path / "page.html"
    for line, capacity in [
        ("flash2", (int(found[1]), "words")),
        ("flash2 --blocks fit", (102_400, "bytes")),
        ("flash --d 16", (512, "words")),
    ]:
        assert main(["trace", *line.split(), "--html", str(path)]) == 0
        assert [(run["capacity"], run["unit"]) for run in data_of(path)] == [capacity]


def data_of(path: Path) -> list[dict[str, object]]:
    found = re.search(r'id="data">([^<]*)</script>', path.read_text(encoding="utf-8"))
    assert found is not None
    runs = json.loads(found[1])
    assert isinstance(runs, list)
    return runs


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("flash2", ["n=16 d=4 float32, blocks 4x4"]),
        ("flash2 --blocks paper", ["n=16 d=4 float32, blocks"]),
        ("flash2 --beside flash --n 20", ["n=20 d=4 float32, blocks 4x4"] * 2),
        ("flash2 --causal --beside dense", ["n=16 d=4 float32 causal, blocks 4x4", "n=16 d=4 float32, blocks 4x4"]),
        ("flash2 --beside causal", ["n=16 d=4 float32, blocks 4x4", "n=16 d=4 float32 causal, blocks 4x4"]),
        ("flash2 --sram 300 --n 12", ["n=12 d=4 float32, blocks"]),
        ("standard --sram 1KiB --dtype float16", ["n=16 d=4 float16, blocks"]),
    ],
)
def test_the_command_writes_the_runs_it_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, told: list[str]
) -> None:
    path = tmp_path / "page.html"
    assert main(["trace", *line.split(), "--html", str(path)]) == 0
    assert capsys.readouterr() == ("", "")
    runs = data_of(path)
    assert [str(run["told"])[: len(text)] for run, text in zip(runs, told, strict=True)] == told
    if "--sram" not in line and "--blocks" not in line:
        assert {(run["capacity"], run["unit"]) for run in runs} == {(128, "words")}


def test_an_option_applies_to_the_kernels_that_have_it() -> None:
    made = animate("flash", beside="flash2", first_pass="create")
    assert not any(KINDS[kind] == "init" for run in made.runs for kind, *_ in run.steps.rows)
    with pytest.raises(BadInput, match="first_pass"):
        animate("flash2", first_pass="create")


def test_a_page_of_many_heads_says_that_it_shows_one_group() -> None:
    many = animate("flash2", Attention(n=16, d=4, batch=2, heads=4, kv_heads=2)).html
    assert "1 of 4 KV heads and its group is shown" in many
    assert "is shown, the others" not in animate("flash2").html
