"""The replayer: hand-written traces give the counts of the case and of the formula, and every lie is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim_reference import Replay, ReplayError, Traffic, read_jsonl, replay

Event = dict[str, object]
Side = tuple[int, int]


def event(kind: str, name: str, *box: Side, itemsize: int = 4, **claims: object) -> Event:
    words = 1
    for start, stop in box:
        words *= stop - start
    return {"kind": kind, "name": name, "box": box, "words": words, "itemsize": itemsize, "times": 1, "sram": 0} | claims


def turns(size: int, step: int) -> Iterator[Side]:
    return ((start, min(start + step, size)) for start in range(0, size, step))


def flash1(n: int, nk: int, d: int, br: int, bc: int, itemsize: int = 4) -> list[Event]:
    """FlashAttention's Algorithm 1 as events: keys outside; O, l and m make a round trip at every visit."""
    every, one = (0, d), (0, 1)
    state = {"O": every, "l": one, "m": one}
    trace = [event("input", name, (0, rows), every, itemsize=itemsize) for name, rows in (("Q", n), ("K", nk), ("V", nk))]
    trace += [event("output", name, (0, n), width) for name, width in state.items()]
    trace += [event("init", name, rows, width) for rows in turns(n, br) for name, width in state.items()]
    for keys in turns(nk, bc):
        trace += [event("begin", "j", keys)]
        trace += [event("load", name, keys, every, itemsize=itemsize) for name in "KV"]
        for rows in turns(n, br):
            trace += [event("begin", "i", rows), event("load", "Q", rows, every, itemsize=itemsize)]
            trace += [event("load", name, rows, width) for name, width in state.items()]
            trace += [event("use", "Q", rows, every, itemsize=itemsize), event("use", "K", keys, every, itemsize=itemsize)]
            trace += [event("alloc", "S_ij", (0, rows[1] - rows[0]), (0, keys[1] - keys[0]))]
            trace += [event("store", name, rows, width) for name, width in state.items()]
            trace += [event("end", "i", rows)]
        trace += [event("end", "j", keys)]
    return trace


def flash2(n: int, nk: int, d: int, br: int, bc: int) -> list[Event]:
    """FlashAttention-2's Algorithm 1 as events: queries outside; O stays on chip."""
    every, one = (0, d), (0, 1)
    trace = [event("input", name, (0, rows), every) for name, rows in (("Q", n), ("K", nk), ("V", nk))]
    trace += [event("output", "O", (0, n), every), event("output", "LSE", (0, n), one)]
    for rows in turns(n, br):
        trace += [event("begin", "i", rows), event("load", "Q", rows, every), event("alloc", "O_i", (0, rows[1] - rows[0]), every)]
        for keys in turns(nk, bc):
            trace += [event("begin", "j", keys), event("load", "K", keys, every), event("load", "V", keys, every)]
            trace += [event("use", "Q", rows, every), event("use", "V", keys, every), event("end", "j", keys)]
        trace += [event("store", "O", rows, every), event("store", "LSE", rows, one), event("end", "i", rows)]
    return trace


def case(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def reads_and_writes(recount: Replay) -> dict[str, dict[str, int]]:
    return {name: {"read": t.reads, "write": t.writes - t.init_writes} for name, t in recount.arrays.items()}


def test_h11_who_is_read_how_often() -> None:
    told = case("H11")
    tensors = ("Q", "K", "V", "O")
    one, two = replay(flash1(1024, 1024, 64, 64, 64)), replay(flash2(1024, 1024, 64, 64, 64))
    assert reads_and_writes(one) == {name: told["flash1"][name] for name in (*tensors, "l", "m")}
    assert sum(traffic.init_writes for traffic in one.arrays.values()) == told["flash1_init_writes"]
    assert reads_and_writes(two) == {name: told["flash2_same_tiles"][name] for name in (*tensors, "LSE")}


SIZES = st.integers(1, 12)


@given(n=SIZES, nk=SIZES, d=SIZES, br=SIZES, bc=SIZES)
def test_flash1_obeys_its_formula_with_ragged_tails(n: int, nk: int, d: int, br: int, bc: int) -> None:
    recount, tc = replay(flash1(n, nk, d, br, bc, itemsize=2)), -(-nk // bc)
    br, bc = min(br, n), min(bc, nk)
    assert recount.reads + recount.writes == 2 * nk * d + tc * (3 * n * d + 4 * n) + n * d + 2 * n
    assert recount.peak_words == 2 * (br + bc) * d + 2 * br + br * bc
    assert recount.peak_bytes == 2 * (br + 2 * bc) * d + 4 * (br * d + 2 * br + br * bc)
    assert (recount.hbm_words, recount.hbm_bytes) == (2 * (n + nk) * d + 2 * n, (2 * n + 4 * nk) * d + 4 * (n * d + 2 * n))


def test_the_machines_own_count_of_sram_is_not_believed() -> None:
    trace = flash2(5, 7, 3, 2, 3)
    assert replay([claims | {"sram": 10**9} for claims in trace]) == replay(trace)


def test_two_loads_of_one_region_are_two_blocks() -> None:
    trace = [event("input", "Q", (0, 4)), event("begin", "i", (0, 4)), *[event("load", "Q", (0, 4))] * 2]
    trace += [event("end", "i"), event("load", "Q", (1, 3)), event("use", "Q", (1, 3))]
    assert replay(trace) == Replay({"Q": Traffic(reads=10, writes=0, init_writes=0)}, 8, 32, 4, 16)


def test_a_block_leaves_with_its_tile_but_not_with_an_inner_one() -> None:
    trace = [event("input", "Q", (0, 4)), event("begin", "i", (0, 4)), event("load", "Q", (0, 4)), event("begin", "j", (0, 4))]
    trace += [event("load", "Q", (2, 4)), event("end", "j"), event("use", "Q", (0, 4)), event("end", "i")]
    assert replay(trace).peak_words == 6
    with pytest.raises(ReplayError, match=r"event 9 \(use Q\[2:4\]\): is not on chip"):
        replay([*trace, event("use", "Q", (2, 4))])


@pytest.mark.parametrize(
    ("unit", "least"), [("words", 2 * (2 + 3) * 3 + 2 * 2 + 2 * 3), ("bytes", 2 * (2 + 2 * 3) * 3 + 4 * (2 * 3 + 2 * 2 + 2 * 3))]
)
def test_the_smallest_sram_that_holds_it(unit: Any, least: int) -> None:
    trace = flash1(5, 7, 3, 2, 3, itemsize=2)
    assert replay(trace, sram=least, unit=unit) == replay(trace)
    with pytest.raises(ReplayError, match=rf"event 26 \(alloc S_ij\[0:2, 0:3\]\): needs .* of {least - 1} are free"):
        replay(trace, sram=least - 1, unit=unit)


WHOLE = [event("input", "Q", (0, 4), (0, 2)), event("output", "O", (0, 4), (0, 2)), event("load", "Q", (0, 4), (0, 2))]
STORED = event("store", "O", (0, 4), (0, 2))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (event("load", "Q", (0, 4), (0, 2), words=7), "claims 7 words, but its box holds 8"),
        (event("alloc", "S", (0, 4), (0, 2), words=9), "claims 9 words"),
        (event("use", "Q", (0, 4), (0, 2), times=3), "stands for 3 visits"),
        (event("load", "Q", (0, 4), (0, 2), itemsize=2), "claims 2 bytes an element, but .* 4"),
        (event("alloc", "S", (0, 4), itemsize=0), "itemsize"),
        (event("load", "Q", (1, 5), (0, 2)), r"outside the array, which has shape \(4, 2\)"),
        (event("load", "Q", (0, 4)), r"outside the array, which has shape \(4, 2\)"),
        (event("load", "K", (0, 4)), "never declared; declared: Q, O"),
        (event("load", "O", (0, 1), (0, 2)), "never written"),
        (event("use", "O", (0, 1), (0, 2)), "is not on chip"),
        (event("store", "Q", (0, 4), (0, 2)), "read only"),
        (event("init", "Q", (0, 4), (0, 2)), "read only"),
        (event("input", "Q", (0, 4), (0, 2)), "declared before"),
        (event("input", "K", (1, 4), (0, 2)), "declared whole"),
        (event("begin", "i", (0, 4), (0, 2)), "on one axis"),
        (event("end", "i"), "no tile is open"),
        (event("load", "Q", (2, 2), (0, 2)), "start < stop"),
        (event("load", "Q", box=[[0, 4, 1], [0, 2]]), "start < stop"),
        (event("load", "Q", box="everything"), "start < stop"),
        (event("prefetch", "Q", (0, 4), (0, 2)), "unknown kind 'prefetch'"),
        ({"kind": "load"}, "has no name, box, words, itemsize, times"),
    ],
)
def test_names_the_event_that_is_wrong(wrong: Event, message: str) -> None:
    replay([*WHOLE, STORED])
    with pytest.raises(ReplayError, match=f"^event 4.*{message}"):
        replay([*WHOLE, wrong, STORED])


def test_a_partly_written_output_may_be_read_where_it_was_written() -> None:
    trace = [*WHOLE, event("store", "O", (1, 3), (0, 2)), event("load", "O", (1, 3), (0, 1))]
    with pytest.raises(ReplayError, match="O: 4 of 8 elements were never written"):
        replay(trace)
    assert replay([*trace, STORED]).arrays["O"] == Traffic(reads=2, writes=12, init_writes=0)


def test_tiles_must_be_closed() -> None:
    with pytest.raises(ReplayError, match="1 tiles open"):
        replay([*WHOLE, STORED, event("begin", "i", (0, 4))])


def test_a_trace_is_read_line_by_line(tmp_path: Path) -> None:
    path, trace = tmp_path / "trace.jsonl", flash2(5, 7, 3, 2, 3)
    path.write_text("".join(json.dumps(claims) + "\n" for claims in trace), encoding="utf-8")
    assert replay(read_jsonl(path)) == replay(trace)


@pytest.mark.parametrize(("line", "message"), [("{", "line 2 is not JSON"), ("[1]", "line 2 must be a JSON object")])
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(WHOLE[0]) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(ReplayError, match=message):
        replay(read_jsonl(path))
