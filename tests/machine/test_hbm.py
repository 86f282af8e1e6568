"""HBM: arrays of a type, read and written by tiles only; inputs are finite and never stored to, outputs are written whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from iosim.core import dtypes
from iosim.core.errors import BadInput, LoopMisuse, NotWritten
from iosim.core.masks.runs import Runs
from iosim.memory import Hbm, Machine, Mode, exp

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)
in_every_dtype = pytest.mark.parametrize("dtype", dtypes.NAMES)


def wide(dtype: str) -> Machine:
    return Machine(accumulator=dtypes.accumulator(dtype))


def data(array: Hbm) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    assert array._data is not None
    return array._data.astype(np.float64)


# types


@in_every_dtype
def test_storing_rounds_and_loading_widens(dtype: str) -> None:
    m = wide(dtype)
    X, Y, Z = m.input("X", (1, 2), [[1 / 3, -2.5]], dtype=dtype), m.output("Y", (1, 2), dtype=dtype), m.output("Z", (1, 2))
    narrow = np.array([[1 / 3, -2.5]]).astype(dtypes.storage(dtype))
    x = m.load(X[:])
    m.store(Z[:], 3.0 * x)  # computed in the accumulator's type
    m.store(Y[:], 3.0 * x)
    assert np.array_equal(data(Z), 3 * narrow.astype(dtypes.accumulator(dtype)))
    assert np.array_equal(data(Y), (3 * narrow.astype(dtypes.accumulator(dtype))).astype(dtypes.storage(dtype)).astype(float))


@in_every_dtype
def test_what_is_stored_reads_back_the_same(dtype: str) -> None:
    m = wide(dtype)
    Y, Z = m.output("Y", (2, 2), dtype=dtype), m.output("Z", (2, 2), dtype=dtype)
    m.store(Y[:], m.full(0.1, 2, 2, name="y"))
    m.store(Z[:], m.load(Y[:]))
    assert np.array_equal(data(Y), data(Z))


@pytest.mark.parametrize(("dtype", "large"), [("float16", 1e5), ("float8_e4m3fn", 1e3), ("float8_e5m2", 1e6), ("float32", 1e39)])
def test_a_number_out_of_range_is_refused(dtype: str, large: float) -> None:
    m = Machine(accumulator="float64")
    Y = m.output("Y", (1, 2), dtype=dtype)
    with pytest.raises(BadInput, match=rf"Y holds -1.*, which {dtype} cannot hold; choose a wider dtype"):
        m.store(Y[:], m.full(-large, 1, 2, name="y"))


@in_every_dtype
def test_minus_infinity_is_a_number_where_the_type_has_one(dtype: str) -> None:
    m = wide(dtype)
    Y = m.output("Y", (1, 1), dtype=dtype)
    if dtype == "float8_e4m3fn":
        with pytest.raises(BadInput, match="which float8_e4m3fn cannot hold"):
            m.store(Y[:], m.full(-np.inf, 1, 1, name="m"))
    else:
        m.store(Y[:], m.full(-np.inf, 1, 1, name="m"))
        assert data(Y) == -np.inf


@in_every_mode
def test_an_array_wider_than_the_accumulator_is_refused(mode: Mode) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match="computes in float32; build it with accumulator='float64'"):
        m.input("X", (1, 1), [[1.0]], dtype="float64")
    with pytest.raises(BadInput, match="computes in float32; build it with accumulator='float64'"):
        m.output("Y", (1, 1), dtype="float64")


@in_every_mode
@pytest.mark.parametrize("dtype", ["int8", "float", "f4", np.float16, ["float32"], 32, b"float32"])
def test_an_unknown_dtype_is_refused(mode: Mode, dtype: str) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match=r"unknown dtype .*; known: float16, float32"):
        m.input("X", (1, 1), [[1.0]], dtype=dtype)
    with pytest.raises(BadInput, match=r"unknown dtype .*; known: float16, float32"):
        m.output("Y", (1, 1), dtype=dtype)


@in_every_mode
def test_a_boolean_takes_a_byte_and_is_stored_as_such_or_refused(mode: Mode) -> None:
    m = Machine(mode=mode)
    mask, kept = m.input("mask", (1, 2), [[True, False]], dtype="bool"), m.output("R", (1, 2), dtype="bool")
    m.store(kept[:], m.load(mask[:]))
    assert {array.itemsize for array in m.finish().arrays.values()} == {1}
    if mode == "execute":
        assert kept.data.tolist() == [[True, False]]
        m = Machine()
        with pytest.raises(BadInput, match="which bool cannot hold"):
            m.store(m.output("R", (1, 2), dtype="bool")[:], m.full(0.5, 1, 2, name="half"))
    with pytest.raises(BadInput, match="unknown dtype 'bit'"):
        Machine(mode=mode).output("Y", (1, 2), dtype="bit")


@in_every_mode
def test_an_array_that_only_waits_need_not_be_written_whole_but_is_not_read_before_it_is_written(mode: Mode) -> None:
    m = Machine(mode=mode)
    waiting = m.output("O_acc", (4, 2), whole=False)
    for i in m.tiles(4, 2):
        if mode != "count" and i.start == 0:
            with pytest.raises(NotWritten, match="O_acc"):
                m.load(waiting[i])
        if i.start == 0:
            m.store(waiting[i], m.full(1.0, 2, 2, name="x"))
    assert m.finish().arrays["O_acc"].writes in (4, 8)


def test_statistics_may_hold_minus_infinity_and_nothing_else_that_is_not_finite() -> None:
    m = Machine()
    logs = m.load(m.input("LSE", (2, 1), [[0.0], [-np.inf]], infinite=True)[:])
    Y = m.output("Y", (2, 1))
    m.store(Y[:], exp(logs))
    m.finish()
    assert Y.data.tolist() == [[1.0], [0.0]]
    for bad in (np.inf, np.nan):
        with pytest.raises(BadInput, match=r"LSE\[1, 0\] is .* must be finite"):
            Machine().input("LSE", (2, 1), [[0.0], [bad]], infinite=True)
    with pytest.raises(BadInput, match=r"Q\[1, 0\] is -inf"):
        Machine().input("Q", (2, 1), [[0.0], [-np.inf]])


def test_booleans_on_chip_are_numbers_like_all_others() -> None:
    m = Machine()
    mask = m.load(m.input("mask", (2, 2), [[1, 0], [1, 1]], dtype="bool")[:])
    results = {"sum": mask + mask, "none": mask - mask, "exp": exp(mask), "product": mask @ mask, "scaled": 2 * (mask * mask)}
    found = {}
    for name, value in results.items():
        found[name] = m.output(name, (2, 2))
        m.store(found[name][:], value)
    ones = np.array([[1, 0], [1, 1]], np.float32)
    expected = {"sum": 2 * ones, "none": 0 * ones, "exp": np.exp(ones), "product": ones @ ones, "scaled": 2 * ones}
    assert all(np.array_equal(data(found[name]), expected[name]) for name in expected)


# inputs


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_element_that_is_not_finite_is_named(bad: float) -> None:
    values = np.ones((3, 4))
    values[1, 2] = values[2, 0] = bad
    with pytest.raises(BadInput, match=rf"X\[1, 2\] is {bad}; every element of X must be finite in float32"):
        Machine().input("X", (3, 4), values)


@pytest.mark.parametrize(("dtype", "large"), [("float16", 7e4), ("float32", 1e39), ("float8_e4m3fn", 500.0), ("float8_e5m2", 7e4)])
def test_an_element_out_of_the_range_of_its_type_is_named(dtype: str, large: float) -> None:
    with pytest.raises(BadInput, match=rf"X\[0, 1\] is (inf|nan); every element of X must be finite in {dtype}"):
        Machine().input("X", (1, 2), [[1.0, large]], dtype=dtype)


NO_NUMBERS: list[object] = [
    [["a"]], [[1], [2, 3]], [[1j]], np.array([[1j]]), {}, [[10**400]], [[{}]], NotImplemented, [[None, 1]], "ab", [["1", "x"]],
]  # fmt: skip


@pytest.mark.parametrize("values", NO_NUMBERS, ids=repr)
def test_data_that_are_no_numbers_are_refused(values: ArrayLike) -> None:
    with pytest.raises(BadInput, match=r"^X"):
        Machine().input("X", (1, 1), values)


@pytest.mark.parametrize("values", [[[0.5]], [["no"]], [[2]], [[-1]], [[float("nan")]], [[1], [0, 1]], [[None]]], ids=repr)
def test_a_mask_holds_booleans(values: ArrayLike) -> None:
    with pytest.raises(BadInput, match="X"):
        Machine().input("X", (1, 1), values, dtype="bool")


@in_every_mode
@pytest.mark.parametrize("shape", [(3,), 3, None, "ab", (1, 2, 3), (0, 2), (2, 0), (-1, 2), (2.0, 2), (True, 1), [2, 2], ()], ids=repr)
def test_a_shape_is_two_whole_numbers(mode: Mode, shape: tuple[int, int]) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match="X"):
        m.input("X", shape, np.ones((2, 2)))
    with pytest.raises(BadInput, match="X"):
        m.output("X", shape)
    assert m.arrays == {}


@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (2,), (), (2, 2, 1), (0, 0)])
def test_data_have_the_shape_that_was_declared(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=r"X has shape .* but \(2, 2\) was declared"):
        Machine().input("X", (2, 2), np.ones(shape))


def test_execution_needs_data() -> None:
    with pytest.raises(BadInput, match="no data was given; execute mode computes with real numbers"):
        Machine().input("X", (2, 2))


@in_every_mode
def test_a_name_is_given_once(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (2, 2), np.ones((2, 2)))
    with pytest.raises(BadInput, match="a name of its own, not 'X'; taken: X"):
        m.input("X", (2, 2), np.ones((2, 2)))
    with pytest.raises(BadInput, match="a name of its own, not 'X'; taken: X"):
        m.output("X", (3, 3))
    assert m.arrays == {"X": X}
    for name in (None, 3, ["X"], ("X",)):
        with pytest.raises(BadInput, match="a name of its own"):
            m.output(name, (3, 3))  # type: ignore[arg-type]


@in_every_mode
def test_arrays_are_declared_before_the_loops(mode: Mode) -> None:
    m = Machine(mode=mode)
    for _ in m.tiles(4, 2):
        with pytest.raises(LoopMisuse, match="Y was declared inside a loop; declare HBM arrays before the loops"):
            m.output("Y", (2, 2))


@in_every_mode
def test_an_input_is_never_stored_to(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (2, 2), np.ones((2, 2)))
    with pytest.raises(BadInput, match=r"X is an input and is never stored to; declare an output with m.output\(name, shape\)"):
        m.store(X[:], m.full(0.0, 2, 2, name="x"))


# outputs


@in_every_mode
def test_an_output_that_was_never_touched(mode: Mode) -> None:
    m = Machine(mode=mode)
    m.output("Y", (4, 2))
    with pytest.raises(NotWritten, match=r"Y\(4, 2\) is an output but (element \(0, 0\)|row 0) was never written; store every tile of it"):
        m.finish()


@in_every_mode
def test_a_last_tile_that_was_left_out(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (7, 2))
    for i in m.tiles(7, 3):
        if i.size == 3:
            m.store(Y[i], m.full(0.0, 3, 2, name="y"))
    with pytest.raises(NotWritten, match=r"(element \(6, 0\)|row 6) was never written; store every tile of it"):
        m.finish()


@in_every_mode
def test_only_the_last_tile_was_written(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (7, 2))
    for i in m.tiles(7, 3):
        if i.size == 1:
            m.store(Y[i], m.full(0.0, 1, 2, name="y"))
    with pytest.raises(NotWritten, match=r"(element \(0, 0\)|row 0) was never written"):
        m.finish()


@in_every_mode
def test_the_short_last_rows_were_left_out(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (7, 2))
    for i in m.tiles(7, 3):
        if i.size == 3:
            m.store(Y[i], m.full(0.0, 3, 2, name="y"))
            m.store(Y[i], m.full(0.0, 3, 2, name="y"))  # twice as many words do not help
    with pytest.raises(NotWritten, match=r"(element \(6, 0\)|row 6) was never written"):
        m.finish()


@in_every_mode
def test_the_short_last_columns_were_left_out(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (4, 5))
    for j in m.tiles(5, 4):
        for _ in m.tiles(3, 1):
            if j.size == 4:
                m.store(Y[:, j], m.full(0.0, 4, j.size, name="y"))
    with pytest.raises(NotWritten, match=r"(element \(0, 4\)|column 4) was never written"):
        m.finish()


@in_every_mode
def test_one_tile_of_a_grid_was_left_out(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (5, 5))
    for i in m.tiles(5, 2):
        for j in m.tiles(5, 2):
            if i.size == 2 or j.size == 2:
                m.store(Y[i, j], m.full(0.0, i.size, j.size, name="y"))
    with pytest.raises(NotWritten, match=r"(element \(4, 4\)|some element) was never written"):
        m.finish()


@in_every_mode
@given(n=st.integers(1, 30), d=st.integers(1, 30), b=st.integers(1, 35), c=st.integers(1, 35))
def test_an_output_written_tile_by_tile_is_written(mode: Mode, n: int, d: int, b: int, c: int) -> None:
    m = Machine(mode=mode)
    Y, Z = m.output("Y", (n, d)), m.output("Z", (n, d))
    for i in m.tiles(n, b):
        for j in m.tiles(d, c):
            m.store(Y[i, j], m.full(0.0, i.size, j.size, name="y"))
    for j in m.tiles(d, c):
        m.store(Z[:, j], m.full(0.0, n, j.size, name="z"))
    assert m.finish().arrays["Y"].writes == n * d


@pytest.mark.parametrize("mode", ["execute", "trace"])  # counting knows no order: there it is the missing store that raises, at the end
def test_an_output_is_read_after_it_was_written(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (4, 2))
    for i in m.tiles(4, 2):
        with pytest.raises(NotWritten, match=r"Y\[\d:\d, 0:2\] was read before it was written; store it first"):
            m.load(Y[i])
        m.store(Y[i], m.full(0.0, 2, 2, name="y"))
        m.load(Y[i])
    m.load(Y[:])


@in_every_mode
def test_an_output_that_was_only_read_was_never_written(mode: Mode) -> None:
    def listing(m: Machine) -> None:
        m.load(m.output("Y", (4, 2))[:])
        m.finish()

    with pytest.raises(NotWritten):
        listing(Machine(mode=mode))


def test_room_that_was_never_written_is_poison() -> None:
    m = Machine()
    Y = m.output("Y", (2, 2))
    assert np.isnan(data(Y)).all()
    m.store(Y[:], 0.0 * m.empty(2, 2, name="y") + 1.0)
    assert np.isnan(data(Y)).all()


@in_every_mode
def test_what_is_stored_has_the_shape_of_its_place(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y = m.output("Y", (4, 2))
    for i in m.tiles(4, 3):
        for shape in ((4, 2), (i.size, 1), (2, 2), (2, i.size)):
            with pytest.raises(
                BadInput, match=rf"cannot store y\({shape[0]}, {shape[1]}\) into Y\({i.size}, 2\); the shapes must be equal"
            ):
                m.store(Y[i], m.full(0.0, *shape, name="y"))


# addresses


INDICES: list[object] = [
    0, -1, None, ..., "i", 1.5, True, np.arange(2), np.int64(0), [0], slice(0, 2), slice(None, None, 2),
    slice(np.arange(3)), (0, 0), NotImplemented,
]  # fmt: skip


@in_every_mode
@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_an_index_is_a_tile_or_a_whole_axis(mode: Mode, index: object) -> None:
    m = Machine(mode=mode)
    X, Y = m.input("X", (4, 4), np.ones((4, 4))), m.output("Y", (4, 4))
    for array in (X, Y):
        with pytest.raises(LoopMisuse, match=r"index HBM arrays with a tile of m.tiles\(...\), or with : for a whole axis"):
            m.load(array[index])  # type: ignore[index]
        with pytest.raises(LoopMisuse, match="for a whole axis"):
            m.store(array[:, index], m.full(0.0, 4, 4, name="y"))  # type: ignore[index]
    with pytest.raises(LoopMisuse):
        m.load(X[m.full(0.0, 1, 1, name="i")])  # type: ignore[index]


@in_every_mode
@pytest.mark.parametrize("index", [(), (slice(None),) * 3])
def test_an_array_has_two_axes(mode: Mode, index: tuple[slice, ...]) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match=r"X\(4, 4\) has 2 axes but was indexed with [03] tiles"):
        m.load(m.input("X", (4, 4), np.ones((4, 4)))[index])


@in_every_mode
@pytest.mark.parametrize("thing", [None, 3, "X", np.ones((4, 4)), slice(None)], ids=repr)
def test_only_regions_are_loaded_from_and_stored_to(mode: Mode, thing: object) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (4, 4), np.ones((4, 4)))
    for place in (thing, X, m.load(X[:])):
        with pytest.raises(BadInput, match=r"not a region of HBM; index an array with tiles, as in m.load\(Q\[i\]\)"):
            m.load(place)  # type: ignore[arg-type]
        with pytest.raises(BadInput, match="not a region of HBM"):
            m.store(place, m.full(0.0, 4, 4, name="y"))  # type: ignore[arg-type]


REFUSED: dict[str, Callable[[Any], object]] = {
    "iteration": lambda X: [*X],
    "in": lambda X: 1.0 in X,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "asarray": np.asarray,
    "ufunc": np.exp,
    "sum": np.sum,
    "T": lambda X: X.T,
    "T of a region": lambda X: X[:].T,
    "iteration over a region": lambda X: [*X[:]],
    "ufunc of a region": lambda X: np.exp(X[:]),
    "+": lambda X: X + 1.0,
    "right of -": lambda X: 1 - X[:],
    "*": lambda X: 2.0 * X,
    "/ array": lambda X: X[:] / np.ones((4, 4)),
    "@": lambda X: X[:] @ X[:].T,
}


@in_every_mode
@pytest.mark.parametrize("look", REFUSED.values(), ids=REFUSED.keys())
def test_what_lies_in_hbm_is_no_value(mode: Mode, look: Callable[[Any], object]) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (4, 4), np.ones((4, 4)))
    with pytest.raises(BadInput, match=r"X\(4, 4\) lies in HBM: no arithmetic, no iteration, no copies; load it tile by tile"):
        look(X)


@in_every_mode
def test_a_copy_of_an_array_would_be_read_uncounted(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (4, 4), np.ones((4, 4)))
    with pytest.raises(BadInput, match="no copies"):
        m.load(copy.copy(X)[:])
    with pytest.raises(BadInput, match="neither copied nor pickled"):
        copy.copy(m)


def test_a_row_left_out_shows_though_another_is_stored_twice() -> None:
    m = Machine(mode="count")
    Y = m.output("Y", (5, 1))
    runs = Runs(np.array([0, 0, 3]), np.array([1, 2, 5]), np.array([1, 1, 1]))  # row 0 twice, row 2 never
    for i in m.tiles(5, 1, seen=runs):
        m.store(Y[i], m.full(0.0, i.size, 1, name="y"))
    with pytest.raises(NotWritten, match="row 2"):
        m.finish()
