"""What the machine counts: words per array, operations by class, peaks; the same in every mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.memory import Counts, Flops, Machine, Mode, OnChip, Traffic, exp, finite, log, maximum, nonzero, where

MODES: tuple[Mode, ...] = get_args(Mode)


@pytest.mark.parametrize("mode", MODES)
@given(n=st.integers(1, 40), d=st.integers(1, 5), b=st.integers(1, 50))
def test_a_copy_moves_every_word_once(mode: Mode, n: int, d: int, b: int) -> None:
    m = Machine(mode=mode)
    X, Y = m.input("X", (n, d), np.ones((n, d))), m.output("Y", (n, d))
    for i in m.tiles(n, b):
        m.store(Y[i], m.load(X[i]))
    counts = m.finish()
    assert counts.arrays == {"X": Traffic(reads=n * d), "Y": Traffic(writes=n * d)}
    assert (counts.peak_hbm, counts.peak_hbm_bytes, counts.peak_sram) == (2 * n * d, 8 * n * d, min(n, b) * d)
    assert counts.flops == Flops()


@pytest.mark.parametrize("mode", MODES)
def test_rectangles_and_whole_axes_are_counted_by_area(mode: Mode) -> None:
    m = Machine(mode=mode)
    X, Y = m.input("X", (5, 7), np.ones((5, 7))), m.output("Y", (7, 3))
    m.store(Y[:], m.full(0.0, 7, 3, name="y"), init=True)
    for i in m.tiles(5, 2):
        m.load(X[i, :])
        for j in m.tiles(7, 4):
            m.load(X[i, j])
            m.store(Y[j, :], m.full(0.0, j.size, 3, name="y"))
    arrays = m.finish().arrays
    assert arrays["X"] == Traffic(reads=2 * 35)
    assert arrays["Y"] == Traffic(writes=21 + 3 * 21, init_writes=21)


@pytest.mark.parametrize("mode", MODES)
def test_a_read_back_counts_as_a_read_of_the_output(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (4, 2))
    for _ in range(3):
        for i in m.tiles(4, 3):
            m.store(Y[i], m.full(1.0, i.size, 2, name="y"))
        for i in m.tiles(4, 2):
            m.load(Y[i])
    assert m.finish().arrays["Y"] == Traffic(reads=24, writes=24)


OPERATIONS: list[tuple[str, Callable[[OnChip, OnChip], object], Flops]] = [
    ("add", lambda x, _: x + x, Flops(elementwise=12)),
    ("number on the left", lambda x, _: 1.0 - x, Flops(elementwise=12)),
    ("divided by a number", lambda x, _: x / 2, Flops(elementwise=12)),
    ("broadcast column", lambda x, c: c * x, Flops(elementwise=12)),
    ("column alone", lambda _, c: c - 1.0, Flops(elementwise=3)),
    ("rowsum", lambda x, c: x.rowsum() + c, Flops(elementwise=12 + 3)),
    ("maximum", maximum, Flops(elementwise=12)),
    ("number in maximum", lambda x, _: maximum(0.0, x), Flops(elementwise=12)),
    ("rowmax", lambda x, _: x.rowmax(), Flops(elementwise=12)),
    ("where", lambda x, _: where(x, x, 0.0), Flops(elementwise=12)),
    ("finite", lambda x, _: finite(x), Flops(elementwise=12)),
    ("nonzero", lambda x, _: nonzero(x), Flops(elementwise=12)),
    ("exp", lambda x, _: exp(x), Flops(exp=12)),
    ("log", lambda x, _: log(x), Flops(exp=12)),
    ("product", lambda x, _: x @ x.T, Flops(matmul=2 * 3 * 4 * 3)),
    ("transpose", lambda x, _: x.T, Flops()),
    ("chain", lambda x, c: exp(2.0 * x - c) @ x.T, Flops(matmul=72, elementwise=24, exp=12)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("operation", "flops"), [case[1:] for case in OPERATIONS], ids=[case[0] for case in OPERATIONS])
def test_operations_are_counted_by_class(mode: Mode, operation: Callable[[OnChip, OnChip], object], flops: Flops) -> None:
    m = Machine(mode=mode)
    operation(m.full(1.0, 3, 4, name="x"), m.full(1.0, 3, 1, name="c"))
    assert m.finish().flops == flops


@pytest.mark.parametrize("mode", MODES)
def test_an_update_in_place_counts_the_block_and_takes_no_room(mode: Mode) -> None:
    m = Machine(mode=mode)
    x, c = m.full(1.0, 3, 4, name="x"), m.full(1.0, 3, 1, name="c")
    x += c
    x -= 1.0
    x *= x
    x /= 2
    x[...] = c * x
    x[...] = m.full(0.0, 3, 4, name="y")
    counts = m.finish()
    assert (counts.flops, counts.peak_sram) == (Flops(elementwise=5 * 12), 12 + 3 + 12)


@pytest.mark.parametrize("mode", MODES)
def test_operations_inside_loops_are_multiplied(mode: Mode) -> None:
    m = Machine(mode=mode)
    for i in m.tiles(10, 4):
        for j in m.tiles(7, 3):
            exp(m.full(0.0, i.size, 2, name="x") @ m.full(0.0, 2, j.size, name="y"))
    assert m.finish().flops == Flops(matmul=2 * 10 * 2 * 7, exp=70)


@pytest.mark.parametrize("mode", MODES)
def test_unnamed_words_are_reported_one_by_one_and_together(mode: Mode) -> None:
    m = Machine(mode=mode)
    x = m.full(1.0, 4, 4, name="x")
    exp((x + 1.0) * (x - 1.0)) @ x.T  # two of 16 live together before their product does
    counts = m.finish()
    assert (counts.largest_unnamed, counts.peak_unnamed) == (16, 32)


@pytest.mark.parametrize("mode", MODES)
def test_the_transpose_of_a_block_is_no_unnamed_value_but_that_of_a_value_is(mode: Mode) -> None:
    m = Machine(mode=mode)
    x = m.full(1.0, 4, 2, name="x")
    m.let(x.T, "y")
    assert m.finish().peak_unnamed == 0
    m.let((x.T).T, "z")
    assert m.finish().peak_unnamed == 8


@pytest.mark.parametrize("mode", MODES)
def test_a_machine_that_did_nothing_reports_zeros(mode: Mode) -> None:
    assert Machine(mode=mode).finish() == Counts({}, Flops(), 0, 0, "words", 0, 0, 0, 0)


def test_counts_are_plain_integers_however_large() -> None:
    m = Machine(mode="count")
    n = 10**12
    X, Y = m.input("X", (n, 128)), m.output("Y", (n, n))
    for i in m.tiles(n, 64):
        m.load(X[i])
        for j in m.tiles(n, 64):
            m.store(Y[i, j], m.full(0.0, i.size, j.size, name="y"))
    counts = m.finish()
    assert counts.arrays["Y"].writes == n * n  # far beyond 64 bits
    assert type(counts.arrays["Y"].writes) is type(counts.arrays["X"].reads) is int
