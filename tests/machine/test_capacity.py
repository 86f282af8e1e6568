"""SRAM is bounded: what has room is charged, in words or in bytes, and the value that finds no room says who is there."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core import dtypes
from iosim.core.errors import BadInput, RegisterOverflow, SramOverflow
from iosim.memory import Block, Machine, Mode, exp

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)


def machine(mode: Mode, sram: int | str | None, **options: object) -> Machine:
    return Machine(sram, mode=mode, **options)  # type: ignore[arg-type]


def load(m: Machine, name: str, shape: tuple[int, int], dtype: str = "float32") -> Block:
    return m.load(m.input(name, shape, np.ones(shape, bool if dtype == "bool" else float), dtype=dtype)[:])


@in_every_mode
def test_the_value_that_finds_no_room_says_what_is_free_and_who_is_there(mode: Mode) -> None:
    m = machine(mode, 3000)
    for name, shape in {"Q": (32, 32), "O_i": (32, 32), "l_i": (32, 1), "m_i": (32, 1)}.items():
        load(m, name, shape)
    with pytest.raises(SramOverflow) as caught:
        load(m, "K", (32, 32))
    assert str(caught.value) == (
        "K(32, 32) needs 1024 words but 888 of 3000 are free; resident: Q(32, 32), O_i(32, 32), l_i(32, 1), m_i(32, 1)"
    )


@in_every_mode
def test_the_first_value_may_be_too_large_too(mode: Mode) -> None:
    with pytest.raises(SramOverflow, match=re.escape("S(4, 4) needs 64 bytes but 63 of 63 are free; resident: nothing")):
        machine(mode, "63B").full(0.0, 4, 4, name="S")


@in_every_mode
def test_a_huge_block_overflows_before_it_is_made(mode: Mode) -> None:
    with pytest.raises(SramOverflow, match="needs 1000000000000000000 words"):
        machine(mode, 100).full(0.0, 10**9, 10**9, name="S")


@in_every_mode
@given(rows=st.integers(1, 9), cols=st.integers(1, 9), free=st.integers(1, 100))
def test_what_fits_exactly_fits(mode: Mode, rows: int, cols: int, free: int) -> None:
    m = machine(mode, free)
    if rows * cols <= free:
        m.full(0.0, rows, cols, name="x")
        assert m.finish().peak_sram == rows * cols
    else:
        with pytest.raises(SramOverflow):
            m.full(0.0, rows, cols, name="x")


@in_every_mode
def test_everything_with_a_name_is_charged_and_nothing_else(mode: Mode) -> None:
    m = machine(mode, 1000)
    x = load(m, "X", (4, 4))  # 16
    y = m.let(x, "y")  # 16
    z = m.let(x @ y.T, "z")  # 16
    m.full(0.0, 4, 1, name="l")  # 4
    m.empty(1, 4, name="e")  # 4
    z += exp(x - 1.0) @ y
    z[...] = x * y
    m.store(m.output("Z", (4, 4))[:], z)
    assert m.finish().peak_sram == 56


@in_every_mode
def test_in_bytes_a_loaded_tile_costs_its_width_and_a_computed_value_the_accumulator_s(mode: Mode) -> None:
    for accumulator, wide in (("float32", 4), ("float64", 8)):
        for dtype, width in {"float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "float32": 4, "bool": 1}.items():
            m = machine(mode, "1KiB", accumulator=accumulator)
            x = load(m, "X", (3, 4), dtype)
            assert m.finish().peak_sram == 12 * width
            m.let(x, "x")
            assert m.finish().peak_sram == 12 * width + 12 * wide
            assert m.finish().unit == "bytes"


@in_every_mode
def test_in_words_every_element_costs_one(mode: Mode) -> None:
    m = machine(mode, 1000)
    for dtype in ("float16", "float8_e5m2", "bool", "float32"):
        load(m, dtype, (3, 4), dtype)
    assert (m.finish().peak_sram, m.finish().unit) == (48, "words")


@in_every_mode
def test_the_room_of_a_tile_is_free_again_when_it_ends(mode: Mode) -> None:
    m = machine(mode, 20)
    m.full(0.0, 1, 4, name="kept")
    for i in m.tiles(40, 4):
        m.full(0.0, i.size, 1, name="outer")
        for _ in m.tiles(9, 3):
            m.full(0.0, 1, 12, name="inner")
        for _ in m.tiles(9, 3):
            m.full(0.0, 6, 2, name="inner")
    m.full(0.0, 4, 4, name="after")
    assert m.finish().peak_sram == 20


@in_every_mode
def test_the_residents_that_are_named_are_those_of_the_open_tiles(mode: Mode) -> None:
    m = machine(mode, 20)
    m.full(0.0, 1, 4, name="kept")
    for _ in m.tiles(3, 3):
        m.full(0.0, 1, 16, name="gone")
    with pytest.raises(SramOverflow, match=r"x\(1, 17\) needs 17 words but 16 of 20 are free; resident: kept\(1, 4\)$"):
        m.full(0.0, 1, 17, name="x")


@in_every_mode
@given(n=st.integers(1, 40), b=st.integers(1, 50))
def test_the_peak_is_that_of_the_largest_kind_of_tile_that_occurs(mode: Mode, n: int, b: int) -> None:
    m = machine(mode, None)
    for i in m.tiles(n, b):
        m.full(0.0, i.size, 3, name="x")
        if i.size < b:
            m.full(0.0, i.size, 5, name="only in the last")
    assert m.finish().peak_sram == max(3 * b if n >= b else 0, 8 * (n % b))


@in_every_mode
def test_recorded_overflow_runs_on_and_reports_by_how_much(mode: Mode) -> None:
    m = machine(mode, 30, overflow="record")
    for i in m.tiles(8, 4):
        m.full(0.0, i.size, 9, name="x")
    m.full(0.0, 3, 3, name="y")
    counts = m.finish()
    assert (counts.peak_sram, counts.overflow) == (36, 6)


@in_every_mode
def test_what_fits_records_no_overflow(mode: Mode) -> None:
    for sram in (36, None):
        m = machine(mode, sram, overflow="record")
        m.full(0.0, 4, 9, name="x")
        assert m.finish().overflow == 0


@in_every_mode
def test_a_value_that_found_no_room_moved_nothing(mode: Mode) -> None:
    m = machine(mode, 10)
    with pytest.raises(SramOverflow):
        load(m, "X", (4, 4))
    assert (m.arrays["X"].reads, m.finish().peak_sram) == (0, 0)


@in_every_mode
def test_registers_cap_the_unnamed_words_that_live_at_once(mode: Mode) -> None:
    m = machine(mode, None, registers=20)
    x = m.full(1.0, 4, 4, name="x")
    exp(x + 1.0) * x  # one of 16 after the other
    with pytest.raises(
        RegisterOverflow,
        match=re.escape(
            "an unnamed value(4, 4) makes 32 unnamed words but registers hold 20; give some of them room with m.let(value, name)"
        ),
    ):
        (x + 1.0) * (x + 1.0)


@in_every_mode
def test_registers_are_free_again_at_the_next_tile(mode: Mode) -> None:
    m = machine(mode, None, registers=16)
    x = m.full(1.0, 4, 4, name="x")
    for _ in m.tiles(6, 2):
        x + 1.0  # never used: it dies with the tile
    x + 1.0
    assert m.finish().peak_unnamed == 16


@in_every_mode
def test_transposes_are_no_way_around_the_registers(mode: Mode) -> None:
    m = machine(mode, None, registers=0)
    x = m.full(1.0, 4, 4, name="x")
    m.let(x.T, "y")
    with pytest.raises(RegisterOverflow):
        _ = x.T.T
    with pytest.raises(RegisterOverflow):
        x.rowsum()


@in_every_mode
@pytest.mark.parametrize("width", ["float16", "bfloat16", "float8_e5m2"])
def test_narrow_room_holds_narrow_numbers(mode: Mode, width: str) -> None:
    m = machine(mode, "64B")
    x, Y = load(m, "X", (4, 4), width), m.output("Y", (4, 4))
    x += 0.1  # 4-byte numbers do not fit here: they are rounded to the array's type
    x[...] = x / 3
    m.store(Y[:], x)
    m.finish()
    if mode == "execute":
        narrow = np.dtype(dtypes.storage(width)).type
        assert np.array(Y.data)[0, 0] == narrow(np.float32(narrow(np.float32(1.1))) / 3)


@pytest.mark.parametrize("sram", [0, -1, 1.5, True, "", "3 parsecs", "0KiB", "-3", "1.5B", [100], 2.0])
def test_a_capacity_is_a_positive_number_of_words_or_bytes(sram: int) -> None:
    with pytest.raises(BadInput, match=r"sram|size"):
        Machine(sram)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("mode", "fast"), ("mode", None), ("overflow", "ignore"), ("registers", -1), ("registers", 2.5), ("registers", True),
        ("check", -1), ("check", "yes"), ("accumulator", "float16"), ("accumulator", "bfloat16"), ("accumulator", 4),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(option: str, value: object) -> None:
    with pytest.raises(BadInput, match=option if option != "check" else "whole number"):
        Machine(**{option: value})  # type: ignore[arg-type]


@in_every_mode
@pytest.mark.parametrize(("rows", "cols"), [(0, 1), (1, 0), (-1, 2), (2.0, 2), ("2", 2), (None, 1), (True, 1)])
def test_a_block_has_whole_sides(mode: Mode, rows: int, cols: int) -> None:
    with pytest.raises(BadInput, match="must be a whole number >= 1"):
        machine(mode, None).full(0.0, rows, cols, name="x")
