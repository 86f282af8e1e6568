"""Traces from files: a whole one moves as its run did; what is cut, changed, contradictory or no trace gets one line that says where."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, Attention, BadInput, Capacity, trace
from iosim.attention.plan import make_plan
from iosim.attention.trace import Seal, line
from iosim.cli import main
from iosim.core.events import Event
from iosim.core.masks.patterns import random
from iosim.show.animation import from_trace, limits
from iosim.show.animation.recording import Recording, record
from iosim.show.animation.steps import KINDS
from iosim.show.animation.trace_file import AGAIN, SMALLER, Reader, read_trace
from iosim_reference import read_jsonl, replay

SMALL = Attention(n=10, nk=14, d=3, dv=2, causal=True)
SRAM, BLOCKS = 400, (4, 3)
RUNS = {
    "flash": ("flash", Attention(n=8, d=3)),
    "causal": ("flash2", Attention(n=10, nk=7, d=3, dv=2, causal=True)),
    "standard": ("standard", Attention(n=8, d=3, mask=random(8, 8, 1, 1, 0.5, seed=1).dense())),
    "sparse": ("block-sparse", Attention(n=16, d=2, block_mask=random(16, 16, 4, 4, 0.5, seed=3))),
    "backward": ("flash2-backward", Attention(n=8, d=2, dtype="float16")),
    "heads": ("flash", Attention(n=4, nk=6, d=2, heads=3, kv_heads=1)),
}


def written(events: list[Event]) -> list[bytes]:
    seal = Seal()
    lines = [*(seal.line(event) for event in events[:-1]), seal.line(events[-1], last=True)]
    return [f"{line}\n".encode() for line in lines]


@cache
def whole(run: str) -> list[bytes]:
    """The lines of a trace."""
    kernel, problem = RUNS[run]
    blocks = (4, 4) if problem.block_mask else BLOCKS
    return written(trace(kernel, problem, sram="2KiB", blocks=blocks))


def refused(path: Path, lines: bytes | list[bytes]) -> str:
    """What the command says, in one line, of a file with these lines; its library raises the same."""
    path.write_bytes(lines if isinstance(lines, bytes) else b"".join(lines))
    told = asked(f"--from {path}")
    with pytest.raises(BadInput) as error:
        from_trace(str(path))
    assert told == f"iosim: {error.value}"
    assert str(path) in told
    return told


def asked(options: str) -> str:
    """The one line on standard error of a command that exits with 2 and writes no page."""
    page = Path(gettempdir()) / f"iosim-{os.getpid()}.html"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main(["trace", *options.split(" "), "--html", str(page)])
    assert (status, out.getvalue(), err.getvalue().count("\n"), page.exists()) == (2, "", 1, False), err.getvalue()
    assert "bug" not in err.getvalue()
    return err.getvalue().rstrip("\n")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces") / "t.jsonl"


def rows(made: Recording) -> list[tuple[str, int, int]]:
    things = list(made.steps.things)
    return [(KINDS[kind], things[thing][5], sram) for kind, _, thing, sram, _ in made.steps.rows if KINDS[kind] != "compute"]


# what is accepted


@pytest.mark.parametrize("sram", [Capacity(SRAM), Capacity(4 * SRAM, "bytes")], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_trace_from_a_file_moves_the_same(path: Path, kernel: str, sram: Capacity) -> None:
    path.write_bytes(b"".join(written(trace(kernel, SMALL, sram=sram, blocks=BLOCKS))))
    made, run = from_trace(str(path)).runs[0], record(make_plan(kernel, SMALL, sram, BLOCKS, None, {}))
    assert rows(made) == rows(run)
    assert (made.capacity, made.unit) == (max(sram for *_, sram in rows(run)), sram.unit)
    assert from_trace(str(path), replace(sram, amount=999)).runs[0].capacity == 999


@pytest.mark.parametrize("run", RUNS)
def test_the_replayer_reads_the_same_file(path: Path, run: str) -> None:
    path.write_bytes(b"".join(whole(run)))
    recount = replay(read_jsonl(path))
    moved = [(kind, words) for kind, words, _ in rows(from_trace(str(path)).runs[0])]
    assert recount.reads == sum(words for kind, words in moved if kind == "load")
    assert recount.writes == sum(words for kind, words in moved if kind in ("store", "init"))
    assert recount.peak_bytes == from_trace(str(path)).runs[0].capacity


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b":", b" : "),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: text.replace(b'"sram":0', b'"sram":-0').replace(b'"load"', b'"\\u006coad"'),
        lambda text: b"".join(json.dumps(json.loads(one), sort_keys=True).encode() + b"\n" for one in text.splitlines()),
    ],
    ids=["spaces", "line ends", "no last line end", "other letters", "other order"],
)
def test_what_says_the_same_is_accepted(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(b"".join(whole("causal")))
    before = from_trace(str(path)).runs[0].steps
    path.write_bytes(change(path.read_bytes()))
    assert from_trace(str(path)).runs[0].steps == before


def test_m_is_given_in_the_unit_of_the_trace(path: Path) -> None:
    path.write_bytes(b"".join(written(trace("flash2", SMALL, sram=SRAM, blocks=BLOCKS))))
    told = asked(f"--from {path} --sram 1KiB")
    assert told == f"iosim: {path} counts SRAM in words; give M in words, not 1 KiB, or leave it out"
    assert "counts SRAM in words" in asked(f"--from {path} --device a100-40gb")


def test_a_name_of_any_bytes_makes_a_page(path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(path.parent) + b"/\xff.jsonl"))
    odd.write_bytes(b"".join(whole("causal")))
    assert "�.jsonl" in from_trace(str(odd)).html.encode().decode()


# what is not whole


@pytest.mark.parametrize("run", RUNS)
def test_a_trace_that_is_cut_short_anywhere_says_so(path: Path, run: str) -> None:
    lines = whole(run)
    heads = [number for number, text in enumerate(lines) if b'"input","name":"Q' in text]  # each head begins by declaring its Q
    for kept in {*range(1, len(lines), 9), *heads, *(number - 1 for number in heads), len(lines) - 1} - {0, -1}:
        told = refused(path, lines[:kept])
        assert f"is cut short after line {kept}" in told, told
    inside = refused(path, [*lines[:7], lines[7][:30]])
    assert "is cut short in the middle of line 8" in inside
    assert inside.endswith("; write it again with: iosim trace KERNEL --out FILE")


def test_where_it_is_cut_it_says_how_many_tiles_are_open(path: Path) -> None:
    lines = whole("causal")
    begins = [number for number, text in enumerate(lines, start=1) if b'"begin"' in text]
    assert f"after line {begins[0]}, where 1 tile is still open; " in refused(path, lines[: begins[0]])
    assert f"after line {begins[1]}, where 2 tiles are still open; " in refused(path, lines[: begins[1]])
    assert f"after line {begins[0] - 1}; " in refused(path, lines[: begins[0] - 1])


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("change", ["drop", "repeat", "swap"])
def test_a_line_that_is_not_where_it_was_is_named(path: Path, run: str, change: str) -> None:
    lines = whole(run)
    for at in range(0, len(lines) - 1, 1 + len(lines) // 25):
        if change == "drop":
            changed, number = lines[:at] + lines[at + 1 :], at + 1
        elif change == "repeat":
            changed, number = lines[: at + 1] + lines[at:], at + 2
        else:
            changed, number = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]], at + 1
        assert re.search(rf"\bline {number}\b", refused(path, changed)), (at, lines[at])
        assert change != "repeat" or f"line {number}, repeats line {number - 1}; " in refused(path, changed)


NUMBER = re.compile(rb"-?[0-9]+")
OTHER = st.one_of(st.integers(-3, 40), st.sampled_from([1.5, 4.0, float("nan"), float("inf"), True, None, "4", [4], {}, 10**400])).map(
    json.dumps
)


@pytest.mark.parametrize("run", RUNS)
@given(data=st.data())
def test_whatever_happens_to_one_line_is_found_there_or_changes_nothing(path: Path, run: str, data: st.DataObject) -> None:
    lines = whole(run)
    at = data.draw(st.integers(0, len(lines) - 1), "line")
    kind = data.draw(st.sampled_from(["drop", "repeat", "swap", "number", "cut", "byte"]), "change")
    text, named = lines[at], at + 1
    if kind == "drop":
        changed = lines[:at] + lines[at + 1 :]
    elif kind == "repeat":
        changed, named = lines[: at + 1] + lines[at:], at + 2
    elif kind == "swap":
        other = data.draw(st.integers(0, len(lines) - 1), "with line")
        changed, named = list(lines), min(at, other) + 1
        changed[at], changed[other] = changed[other], changed[at]
    elif kind == "number":
        found = data.draw(st.sampled_from(list(NUMBER.finditer(text))), "number")
        changed = [*lines[:at], text[: found.start()] + data.draw(OTHER, "becomes").encode() + text[found.end() :], *lines[at + 1 :]]
    elif kind == "cut":
        changed = [*lines[:at], text[: data.draw(st.integers(0, len(text) - 1), "bytes kept")]]
    else:
        place = data.draw(st.integers(0, len(text) - 1), "byte")
        changed = [*lines[:at], text[:place] + data.draw(st.binary(max_size=1), "becomes") + text[place + 1 :], *lines[at + 1 :]]
    path.write_bytes(b"".join(changed))
    if same(path.read_bytes(), b"".join(lines)):
        read_trace(str(path))
        return
    told = refused(path, changed)
    short = not path.stat().st_size or ("cut short after line" in told and kind in ("drop", "cut"))
    assert re.search(rf"\bline {named}\b", told) or short or "of version" in told, told


def same(one: bytes, other: bytes) -> bool:
    """Whether two files hold, line by line, the same JSON; Python takes 1, 1.0 and true for equal, their texts are not."""
    try:
        first, second = (
            [json.dumps(json.loads(text), sort_keys=True) for text in file.rstrip(b" \t\r\n").split(b"\n")] for file in (one, other)
        )
    except ValueError:
        return False
    return first == second


# what contradicts itself, though every check is right


def forged(run: str, change: Callable[[list[Event]], list[Event]]) -> list[bytes]:
    kernel, problem = RUNS[run]
    return written(change(trace(kernel, problem, sram=SRAM, blocks=BLOCKS)))


def first(events: list[Event], kind: str) -> int:
    return next(number for number, event in enumerate(events) if event.kind == kind)


def with_field(kind: str, /, **fields: object) -> Callable[[list[Event]], list[Event]]:
    """The first event of a kind with other fields."""

    def change(events: list[Event]) -> list[Event]:
        at = first(events, kind)
        return [*events[:at], replace(events[at], **fields), *events[at + 1 :]]  # type: ignore[arg-type]  # wrong on purpose

    return change


def without(kind: str) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [event for number, event in enumerate(events) if number != first(events, kind)]


def late_use(events: list[Event]) -> list[Event]:
    """The first key tile is used once more after its tile has ended."""
    used, end = next(event for event in events if (event.kind, event.name) == ("use", "K")), first(events, "end")
    return [*events[: end + 1], replace(used, sram=events[end].sram), *events[end + 1 :]]


def with_more(at: int, *more: Event) -> Callable[[list[Event]], list[Event]]:
    return lambda events: [*events[: at % (len(events) + 1)], *more, *events[at % (len(events) + 1) :]]


BOX = ((0, 4), (0, 3))
END, QUERIES = Event("end", "tile", (), 0, 0, 1, 0), Event("input", "Q", ((0, 10), (0, 3)), 30, 4, 1, 0)
CONTRADICTIONS: dict[str, tuple[Callable[[list[Event]], list[Event]], str]] = {
    "more SRAM": (with_field("load", sram=13), "line 7, says that SRAM holds 13, but it holds 12 words or 48 bytes"),
    "less SRAM": (with_field("alloc", sram=12), "line 8, says that SRAM holds 12, but it holds 20 words"),
    "a negative count": (with_field("load", words=-12), "line 7, is no event of a trace: its words is -12, not a whole number"),
    "half a word": (with_field("load", words=11.5), "its words is 11.5, not a whole number"),
    "not a number": (with_field("load", sram=float("nan")), "its sram is nan, not a whole number"),
    "a truth value": (with_field("begin", times=True), "its times is True, not a whole number"),
    "a text": (with_field("load", itemsize="4"), "its itemsize is '4', not a whole number"),
    "other words": (with_field("load", words=13), "its words are 13, but its box holds 12"),
    "many visits": (with_field("load", times=2), "it stands for 2 visits, but a trace has one line for each"),
    "an unknown kind": (with_field("load", kind="fetch"), "its kind is 'fetch', not one of input output scratch begin end load"),
    "a name of no text": (with_field("load", name=7), "its name is 7, not a text of 1 to 100 printable characters"),
    "a name of two lines": (with_field("alloc", name="a\nb"), "its name is 'a\\nb', not a text"),
    "a box backwards": (with_field("load", box=((4, 0), (0, 3))), "its box is [[4, 0], [0, 3]], not 2 of [start, stop]"),
    "a box of one axis": (with_field("load", box=((0, 12),)), "not 2 of [start, stop] with 0 <= start < stop"),
    "a tile with words": (with_field("begin", words=4), "to begin a tile has the name 'tile' and no words"),
    "a value with a place": (with_field("alloc", box=((4, 8), (0, 2))), "its box does not begin at 0"),
    "a wide type": (with_field("alloc", itemsize=3), "its itemsize is 3, not 1, 2, 4 or 8 bytes"),
    "an unknown array": (
        with_field("load", name="X"),
        "line 7, loads X[0:4, 0:3], which no line declares; declared: Q, K, V, O, LSE; write",
    ),
    "an address that is nowhere": (
        with_field("load", box=((8, 12), (0, 3))),
        "loads Q[8:12, 0:3], which lies outside of Q[0:10, 0:3]",
    ),
    "another type": (with_field("load", itemsize=8), "claims 8 bytes an element of Q, which was declared with 4"),
    "an output that is empty": (
        with_field("load", name="O", box=((0, 4), (0, 2)), words=8),
        "loads O[0:4, 0:2], of which elements were never written",
    ),
    "a store to an input": (
        with_field("store", name="Q", box=BOX, words=12),
        "stores Q[0:4, 0:3], but Q is an input",
    ),
    "a use of what is not there": (with_field("use", name="K"), "uses K[0:4, 0:3], which is not on chip"),
    "an array twice": (
        with_more(1, Event("input", "Q", ((0, 10), (0, 3)), 30, 4, 1, 0)),
        "line 2, declares Q, which was declared before",
    ),
    "a use that is late": (late_use, "uses K[0:3, 0:3], which is not on chip"),
    "no store": (without("store"), "is the last, but 8 of 20 elements of O were never written"),
    "an end too many": (with_more(-1, END), "ends a tile, but no tile is open"),
    "no end": (lambda events: events[:-1], "is the last, but 1 tile is still open"),
    "a load left out": (without("load"), "line 7, says that SRAM holds 20, but it holds 8 words or 32 bytes"),
    "nothing at all": (lambda events: events[:1], "moves nothing"),
    "too much HBM": (lambda _: [Event("input", "Q", ((0, 10**9), (0, 64)), 64 * 10**9, 4, 1, 0)], "more than 4,000,000 words of HBM"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_trace_that_could_not_have_happened_says_where(path: Path, name: str) -> None:
    change, told = CONTRADICTIONS[name]
    found = refused(path, forged("causal", change))
    assert told in found, found
    assert found.endswith(("with: iosim trace KERNEL --out FILE", f"trace a smaller problem, as with {SMALLER}")), found


# what is no trace


HEAD, FLASH, LENGTH = whole("flash")[0], b"".join(whole("flash")), len(whole("flash"))
NOT_OURS = {
    "nothing": (b"", "is empty; write one with: iosim trace KERNEL --out FILE"),
    "an empty line": (b"\n", "line 1, is no JSON, but empty; write one with"),
    "text": (b"hello\n", "line 1, is no JSON, but hello; "),
    "a page": (b"<!doctype html>\n<html>", "line 1, is no JSON, but <!doctype html>; "),
    "random bytes": (bytes(range(128, 256)) * 30, "line 1, is no event of a trace: it has more than 1,000 characters; "),
    "few bytes": (b"\x00\x01\xfe\n", "line 1, is no JSON, but \ufffd\ufffd\ufffd; "),
    "one long line": (b"9" * 10**6, "more than 1,000 characters"),
    "deep brackets": (b"{" + b'"a":{' * 150, "line 1, is no JSON"),
    "gzip": (gzip.compress(FLASH), "is compressed by gzip; unpack it first, with: gunzip FILE.gz"),
    "bzip2": (bz2.compress(b"abc"), "is compressed by bzip2; "),
    "UTF-16": ("{}".encode("utf-16"), "is UTF-16 text"),
    "a document": (b"[\n{}\n]\n", f"is one JSON document, not JSON lines; {AGAIN}, without --json"),
    "a table": (b"kind,name,box,words,itemsize,times,sram\n", f"is a table, not JSON lines; {AGAIN}, without --csv"),
    "no event": (b"{}\n", "line 1, is JSON, but no event of a trace; "),
    "a number": (b"1\n", "line 1, is no event of a trace, but 1; "),
    "another program's": (b'{"kind": 1}\n', "line 1, is JSON, but no event of a trace; "),
    "of version 1": (line(QUERIES).encode() + b"\n", f"is a trace of version 1, and this iosim reads version 2; {AGAIN}"),
    "of version 3": (HEAD.replace(b'"version":2', b'"version":3'), "is a trace of version 3, and this iosim reads version 2"),
    "of version 2.0": (HEAD.replace(b'"version":2', b'"version":2.0'), "is a trace of version 2.0, and"),
    "other fields": (HEAD.replace(b'"sram"', b'"chip"'), "its fields are kind name box words itemsize times chip, not kind"),
    "two traces": (FLASH * 2, f"line {LENGTH + 1}, comes after the end of the trace, in line {LENGTH}; give every trace a file of its own"),
    "an empty line more": (FLASH + b"\n", "comes after the end of the trace"),
    "without its head": (b"".join(whole("flash")[1:]), "line 1, is not the first line of a trace: lines before it are missing; "),
    "a byte order mark": (b"\xef\xbb\xbf" + FLASH, "begins with a byte order mark, which some editors add; save it as UTF-8 without one"),
    "UTF-16, the other way": ("{}".encode("utf-16-be").join([b"\xfe\xff", b""]), "is UTF-16 text"),
    "a kind twice": (HEAD.replace(b'"kind"', b'"kind":"output","kind"', 1), "line 1, is no event of a trace: it has the field kind twice"),
    "a field twice, of another program": (b'{"a":1,"a":2}\n', "line 1, is no event of a trace: it has the field a twice; write one with"),
    "a bell": (HEAD.replace(b'"sram"', b'"\\u0007\\u202e"'), "its fields are kind name box words itemsize times \ufffd\ufffd, not kind"),
    "without its seal": (HEAD[: HEAD.index(b',"check"')] + b"}\n", "line 1, does not end in the check of its text: a line was changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_OURS)
def test_what_is_no_trace_says_what_it_is(path: Path, name: str) -> None:
    text, told = NOT_OURS[name]
    assert told in refused(path, text)


@pytest.mark.parametrize("depth", [10, 160, 300, 495])
def test_deep_json_is_no_trace_either(path: Path, depth: int) -> None:
    assert "line 1, is no" in refused(path, b" " + b"[" * depth + b"]" * depth + b"\n")


def test_what_cannot_be_read_says_so(path: Path) -> None:
    assert asked(f"--from {path.parent}") == (
        f"iosim: {path.parent} is a folder, not a trace; name a file in it, or write one with: iosim trace KERNEL --out FILE"
    )
    assert asked("--from nowhere.jsonl") == "iosim: there is no file nowhere.jsonl; write one with: iosim trace KERNEL --out FILE"


@pytest.mark.parametrize("field", ["check", "sram", "last"])
def test_no_field_is_there_twice(path: Path, field: str) -> None:
    lines = whole("causal")
    for at in (3, len(lines) - 1):
        again = json.dumps({field: json.loads(lines[at]).get(field)})[1:-1].encode()
        changed = lines[at].replace(b"}", b"," + again + b"," + again + b"}")
        told = refused(path, [*lines[:at], changed, *lines[at + 1 :]])
        assert f"line {at + 1}, is no event of a trace: it has the field {field} twice; " in told


# what is too large


def test_the_limit_of_a_trace_is_that_of_a_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = whole("causal")
    shown = [number for number, text in enumerate(lines, start=1) if b'"use"' not in text]
    path.write_bytes(b"".join(lines))
    monkeypatch.setattr(limits, "MOST_EVENTS", len(shown))
    assert len(read_trace(str(path)).events) == len(shown)
    for limit in (len(shown) - 1, len(shown) // 2):
        monkeypatch.setattr(limits, "MOST_EVENTS", limit)
        told = f"{path}, line {shown[limit]}, is one too many: more than {limit:,} events are too large to animate; trace a smaller problem"
        assert told in refused(path, lines)


def test_lines_that_nobody_sees_have_a_limit_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = whole("causal")
    monkeypatch.setattr(limits, "MOST_LINES", len(lines))
    path.write_bytes(b"".join(lines))
    assert read_trace(str(path))
    monkeypatch.setattr(limits, "MOST_LINES", 20)
    assert "line 21, is one too many: more than 20 lines are too large to animate; trace a smaller problem" in refused(path, lines)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_trace_of_as_many_events_as_have_room_has_fewer_lines_than_the_limit(kernel: str) -> None:
    options: list[dict[str, str | bool]] = [{"dq_pass": "own"}, {"reuse": "ideal"}, {"depth": "one"}, {"pack": True}]
    for more in [{}, *(one for one in options if set(one) <= set(KERNELS[kernel].has))]:
        for blocks in ((1, 1), (4, 4), (16, 8)):
            events = trace(kernel, Attention(n=16, nk=24, d=4, dropout=0.5, heads=2, kv_heads=1), sram=2**20, blocks=blocks, **more)
            shown = sum(event.kind != "use" for event in events)
            assert len(events) * limits.MOST_EVENTS < shown * limits.MOST_LINES * 3 // 4


def test_arrays_have_the_limit_of_a_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, problem = RUNS["heads"]
    plan, lines = make_plan(kernel, problem, "2KiB", BLOCKS, None, {}), whole("heads")
    arrays = limits.extent(plan).arrays
    assert arrays == sum(re.search(rb'"(input|output|scratch)"', text) is not None for text in lines)
    path.write_bytes(b"".join(lines))
    monkeypatch.setattr(limits, "MOST_ARRAYS", arrays)
    assert read_trace(str(path))
    assert limits.measure(plan).arrays == arrays
    monkeypatch.setattr(limits, "MOST_ARRAYS", arrays - 1)
    assert f"is one too many: more than {arrays - 1} arrays are too large to animate" in refused(path, lines)
    with pytest.raises(limits.TooLarge, match=rf"with {arrays} arrays is too large to animate, the limit is {arrays - 1}; Attention\("):
        limits.measure(plan)


def declared(count: int) -> list[bytes]:
    return written([Event("input", f"A{number}", ((0, 1), (0, 1)), 1, 4, 1, 0) for number in range(count)])


def test_a_trace_of_nothing_but_arrays_is_refused(path: Path) -> None:
    assert "moves nothing" in refused(path, declared(limits.MOST_ARRAYS))
    assert f"line {limits.MOST_ARRAYS + 1}, is one too many" in refused(path, declared(limits.MOST_ARRAYS + 1))


@pytest.mark.parametrize("limit", ["MOST_EVENTS", "MOST_LINES", "MOST_ARRAYS"])
def test_what_is_too_large_is_read_no_further(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    lines = whole("causal")
    monkeypatch.setattr(limits, limit, 3)
    file = io.BytesIO(b"".join(lines))
    with pytest.raises(BadInput, match="line 4, is one too many"):
        list(Reader("t.jsonl", file).events())  # type: ignore[arg-type]  # as good as a file
    assert file.tell() == len(b"".join(lines[:4]))


# what cannot be asked


class Broken(io.BytesIO):
    """A file that cannot be read."""

    def readline(self, size: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_an_error_of_the_disk_names_the_file() -> None:
    with pytest.raises(OSError, match=r"'t\.jsonl'$") as error:
        list(Reader("t.jsonl", Broken()).events())  # type: ignore[arg-type]  # as good as a file
    assert (error.value.errno, error.value.filename) == (5, "t.jsonl")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux shows the memory of a process as a file")
def test_a_file_that_cannot_be_read_is_named() -> None:
    assert asked("--from /proc/self/mem") == "iosim: /proc/self/mem: Input/output error"


@pytest.mark.parametrize("wrong", [3, None, b"t.jsonl", np.array(["t.jsonl"]), 0, True, ["t.jsonl"]], ids=repr)
def test_a_trace_is_a_path(wrong: object) -> None:
    with pytest.raises(BadInput, match=r"^the path of a trace must be [^\n]*$"):
        from_trace(wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("path", ["a\nb", "a\0b", "", "\u202e", "nowhere"])
def test_a_path_that_is_none_gets_one_line(path: str) -> None:
    with pytest.raises(BadInput) as error:
        from_trace(path)
    assert str(error.value).isprintable()


def test_m_is_given_as_anywhere(path: Path) -> None:
    path.write_bytes(b"".join(whole("causal")))
    assert [from_trace(path, sram).runs[0].capacity for sram in ("4KiB", Capacity(99, "bytes"))] == [4096, 99]
    for wrong, told in ((64, "counts SRAM in bytes; .* not 64 words"), ("64 hectares", "cannot read"), (1.5, "whole number")):
        with pytest.raises(BadInput, match=told):
            from_trace(path, wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_smaller_problem_has_room(kernel: str, path: Path) -> None:
    options = [""]
    options += [
        f" --{name.replace('_', '-')} {value}" for name, value in [("depth", "one"), ("reuse", "ideal")] if name in KERNELS[kernel].has
    ]
    for option in options:
        command = f"trace {kernel} {SMALLER}{option} --out {path}"
        assert main(command.split()) == 0
        assert sum(b'"use"' not in text for text in path.read_bytes().splitlines()) <= limits.MOST_EVENTS // 4


def test_a_seal_depends_on_every_line_before() -> None:
    one, other = Seal(), Seal()
    events = [Event("begin", "tile", ((0, 4),), 0, 0, 1, 0), END]
    both = [one.line(event) for event in events]
    assert both[0] == other.line(events[0])
    assert one.check != other.check
    assert json.loads(other.line(events[1], last=True)).items() > {"last": True, "check": other.check}.items()
    assert [json.loads(text).get("version") for text in written(events)] == [2, None]
    assert [json.loads(text).get("last") for text in written(events)] == [None, True]
