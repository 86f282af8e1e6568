"""Events tell observers everything that crossed between HBM and SRAM; machines know nothing of each other."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iosim.memory
from iosim.core.errors import BadInput
from iosim.memory import Counts, Event, Machine, Mode, exp, maximum, where

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)


def listing(m: Machine, n: int, b: int, c: int) -> Counts:
    """Two nested loops in which everything happens that an observer may see."""
    X, Y = m.input("X", (n, 3), np.ones((n, 3))), m.output("Y", (n, 3))
    for i in m.tiles(n, b):
        m.store(Y[i], m.full(0.0, i.size, 3, name="zero"), init=True)
    for i in m.tiles(n, b):
        x, total = m.load(X[i]), m.full(0.0, i.size, 3, name="total")
        for j in m.tiles(n, c):
            total += exp(x @ m.load(X[j]).T) @ m.let(m.load(X[j]), "copy")
        m.store(Y[i], total)
    return m.finish()


def watched(mode: Mode, n: int, b: int, c: int, sram: str | int | None = None) -> tuple[list[Event], Counts]:
    events: list[Event] = []
    return events, listing(Machine(sram, mode=mode, observers=[events.append]), n, b, c)


def test_every_field_of_every_event() -> None:
    events: list[Event] = []
    m = Machine("1KB", mode="trace", observers=[events.append])
    X, Y = m.input("X", (5, 2), dtype="float16"), m.output("Y", (5, 2))
    for i in m.tiles(5, 3):
        if i.size == 2:
            y = m.let(m.load(X[i]) + 1.0, "y")
            y *= 2.0
            m.store(Y[i], y, init=True)
            m.store(Y[i, :], m.full(0.0, 2, 2, name="z"))
    assert events == [
        Event("input", "X", ((0, 5), (0, 2)), 10, 2, 1, 0),
        Event("output", "Y", ((0, 5), (0, 2)), 10, 4, 1, 0),
        Event("begin", "tile", ((0, 3),), 0, 0, 1, 0),
        Event("end", "tile", (), 0, 0, 1, 0),
        Event("begin", "tile", ((3, 5),), 0, 0, 1, 0),
        Event("load", "X", ((3, 5), (0, 2)), 4, 2, 1, 8),
        Event("use", "X", ((3, 5), (0, 2)), 4, 2, 1, 8),
        Event("alloc", "y", ((0, 2), (0, 2)), 4, 4, 1, 24),
        Event("init", "Y", ((3, 5), (0, 2)), 4, 4, 1, 24),
        Event("alloc", "z", ((0, 2), (0, 2)), 4, 4, 1, 40),
        Event("store", "Y", ((3, 5), (0, 2)), 4, 4, 1, 40),
        Event("end", "tile", (), 0, 0, 1, 0),
    ]


def test_an_event_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Event("begin", "tile", ((0, 3),), 0, 0, 1, 0).words = 3  # type: ignore[misc]


@in_every_mode
@given(n=st.integers(1, 12), b=st.integers(1, 14), c=st.integers(1, 14))
def test_the_stream_adds_up_to_the_counts(mode: Mode, n: int, b: int, c: int) -> None:
    events, counts = watched(mode, n, b, c)
    words: Counter[tuple[str, str]] = Counter()
    for event in events:
        assert event.words == np.prod([stop - start for start, stop in event.box]) or event.kind in ("begin", "end")
        words[event.kind, event.name] += event.words * event.times
    assert words["load", "X"] == counts.arrays["X"].reads == words["use", "X"] - 3 * n * (-(-n // c) - 1)
    assert words["init", "Y"] == counts.arrays["Y"].init_writes == 3 * n
    assert words["init", "Y"] + words["store", "Y"] == counts.arrays["Y"].writes
    assert max(event.sram for event in events) == counts.peak_sram


@in_every_mode
@given(n=st.integers(1, 12), b=st.integers(1, 14), c=st.integers(1, 14))
def test_every_tile_begins_and_ends_and_leaves_sram_as_it_was(mode: Mode, n: int, b: int, c: int) -> None:
    events, _ = watched(mode, n, b, c)
    open_tiles: list[int] = []
    for event in events:
        if event.kind == "begin":
            open_tiles.append(event.sram)
        elif event.kind == "end":
            assert event.sram == open_tiles.pop()
    assert open_tiles == []
    assert events[-1].sram == 0


@given(n=st.integers(1, 12), b=st.integers(1, 14), c=st.integers(1, 14))
def test_counting_tells_in_fewer_events_what_tracing_tells_one_by_one(n: int, b: int, c: int) -> None:
    def totals(mode: Mode) -> Counter[tuple[str, str]]:
        total: Counter[tuple[str, str]] = Counter()
        for event in watched(mode, n, b, c)[0]:
            assert event.times == 1 or mode == "count"
            total[event.kind, event.name] += event.times
        return total

    assert totals("count") == totals("trace") == totals("execute")


def test_counting_says_how_often() -> None:
    events, _ = watched("count", 100, 10, 5)
    loads = [(event.box[0], event.times) for event in events if event.kind == "load"]
    assert loads[:4] == [((0, 10), 9), ((0, 5), 9 * 19), ((0, 5), 9 * 19), ((95, 100), 9)]


@in_every_mode
def test_an_operation_on_what_was_loaded_is_a_use_until_it_is_overwritten(mode: Mode) -> None:
    events: list[Event] = []
    m = Machine(mode=mode, observers=[events.append])
    X = m.input("X", (2, 2), np.ones((2, 2)))
    x = m.load(X[:])

    def uses() -> int:
        return sum(event.kind == "use" and event.name == "X" for event in events)

    x @ x.T
    assert uses() == 2
    x.rowsum()
    exp(x)
    m.let(x, "y")
    m.store(m.output("Y", (2, 2))[:], x)
    assert uses() == 6
    x += 1.0  # reads it once more
    assert uses() == 7
    x += 1.0
    x.rowsum()
    assert uses() == 7
    z = m.load(X[:])
    z[...] = x  # never read
    z @ z.T
    assert uses() == 7


@in_every_mode
def test_every_observer_is_told_the_same(mode: Mode) -> None:
    first: list[Event] = []
    second: list[Event] = []
    listing(Machine(mode=mode, observers=(first.append, second.append)), 7, 3, 2)
    assert first == second != []


@in_every_mode
def test_being_watched_changes_nothing(mode: Mode) -> None:
    assert watched(mode, 7, 3, 2, "2KB")[1] == listing(Machine("2KB", mode=mode), 7, 3, 2)


# machines apart


@in_every_mode
def test_two_machines_never_meet(mode: Mode) -> None:
    one, other = Machine(mode=mode), Machine(mode=mode)
    X, x = one.input("X", (2, 2), np.ones((2, 2))), one.full(1.0, 2, 2, name="x")
    Y, y = other.output("Y", (2, 2)), other.full(1.0, 2, 2, name="y")
    refused: list[Callable[[], object]] = [
        lambda: x + y, lambda: x @ y, lambda: x.__iadd__(y), lambda: x.__setitem__(..., y), lambda: maximum(x, y),
        lambda: where(x, y, 0.0), lambda: other.load(X[:]), lambda: other.store(Y[:], x), lambda: one.store(Y[:], x),
        lambda: other.let(x, "x"), lambda: other.let(x + 1.0, "x"), lambda: (x + 1.0) * (y + 1.0),
    ]  # fmt: skip
    for meeting in refused:
        with pytest.raises(BadInput, match="two machines never meet"):
            meeting()


@in_every_mode
def test_two_machines_run_in_turns_without_noticing(mode: Mode) -> None:
    alone = listing(Machine(mode=mode), 7, 3, 2)
    one, other = Machine(mode=mode), Machine(mode=mode)
    X, Y = one.input("X", (4, 1), np.ones((4, 1))), one.output("Y", (4, 1))
    for i in one.tiles(4, 2):
        x = one.load(X[i])
        value = x + 1.0
        if i.times and "X" not in other.arrays:
            assert listing(other, 7, 3, 2) == alone  # a whole run inside a tile of another machine
        one.store(Y[i], value)
    assert one.finish().arrays["X"].reads == 4


def test_no_state_is_global() -> None:
    for name, module in inspect.getmembers(iosim.memory, inspect.ismodule):
        for variable, value in vars(module).items():
            assert variable.startswith("__") or not isinstance(value, list | dict | set | np.ndarray), (name, variable)
