"""Copy semantics: whatever buffers the machine reuses, a listing computes what plain NumPy computes with copies everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim.memory import Block, Hbm, Machine, exp, finite, log, maximum, nonzero, where

SIDE = 3
Floats = NDArray[np.float64]
Expression = tuple[Any, ...]
MACHINE: dict[str, Callable[..., Any]] = {
    "maximum": maximum,
    "where": lambda x, y: where(x, y, 2.0) if x.shape == y.shape else x * y,
    "nonzero": nonzero,
    "finite": finite,
    "rowmax": lambda x: x.rowmax(),
    "rowsum": lambda x: x.rowsum(),
}
NUMPY: dict[str, Callable[..., Any]] = {
    "maximum": np.maximum,
    "where": lambda x, y: np.where(x != 0, y, 2.0) if x.shape == y.shape else x * y,
    "nonzero": lambda x: np.where(x == 0, 1.0, x),
    "finite": lambda x: x,
    "rowmax": lambda x: x.max(axis=1, keepdims=True),
    "rowsum": lambda x: x.sum(axis=1, keepdims=True),
}
COMMON: dict[str, Callable[..., Any]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "@": lambda x, y: x @ y if x.shape[1] == y.shape[0] else x + y,
    "T": lambda x: x.T if x.shape[0] == x.shape[1] else x,
    "1 -": lambda x: 1 - x,
    "2 *": lambda x: 2.0 * x,
    "itself": lambda x: x,
}
PAIRS, SINGLES = ("+", "-", "*", "@", "maximum", "where"), ("T", "1 -", "2 *", "nonzero", "finite", "rowmax", "rowsum")

leaves = st.tuples(st.just("leaf"), st.integers(0, 9))
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(st.tuples(st.sampled_from(PAIRS), inner, inner), st.tuples(st.sampled_from(SINGLES), inner)),
    max_leaves=4,
)
statements = st.tuples(st.sampled_from(["let", "write", "+=", "-=", "*=", "store", "load", "reload"]), st.integers(0, 9), expressions)


def evaluate(expression: Expression, blocks: list[Any], functions: dict[str, Callable[..., Any]]) -> Any:
    """The value of a nested expression, on the machine or in NumPy."""
    name, *parts = expression
    if name == "leaf":
        return blocks[parts[0] % len(blocks)]
    return functions[name](*(evaluate(part, blocks, functions) for part in parts))


def on_machine(program: list[Expression], start: Floats) -> list[Floats]:
    """What every block holds at the end, and the output array."""
    m = Machine(accumulator="float64")
    X, Y = m.input("X", start.shape, start), m.output("Y", start.shape)
    m.store(Y[:], m.full(0.0, SIDE, SIDE, name="zero"))
    blocks: list[Any] = [m.load(X[:]), m.full(1.0, SIDE, 1, name="column")]
    for verb, target, expression in program:
        step_on_machine(m, X, Y, blocks, verb, blocks[target % len(blocks)], expression)
    return [*(numbers(m, block, f"out{n}") for n, block in enumerate(blocks)), data(Y), numbers(m, m.load(X[:]), "end")]


def step_on_machine(m: Machine, X: Hbm, Y: Hbm, blocks: list[Any], verb: str, target: Block, expression: Expression) -> None:
    if verb == "load":
        blocks.append(m.load(X[:]))
        return
    if verb == "reload":
        blocks.append(m.load(Y[:]))
        return
    value = evaluate(expression, blocks, MACHINE | COMMON)
    if verb == "let":
        blocks.append(m.let(value, "block"))
    elif verb == "store":
        m.store(Y[:], value + m.full(0.0, SIDE, SIDE, name="zero"))
    elif verb == "write":
        target[...] = value if value.shape == target.shape else target
    elif value.shape in (target.shape, (target.shape[0], 1)):
        {"+=": target.__iadd__, "-=": target.__isub__, "*=": target.__imul__}[verb](value)


def in_numpy(program: list[Expression], start: Floats) -> list[Floats]:
    """The same with plain arrays, copied at every turn."""
    output = np.zeros_like(start)
    blocks = [start.copy(), np.ones((SIDE, 1))]
    for verb, target, expression in program:
        if verb in ("load", "reload"):
            blocks.append(start.copy() if verb == "load" else output.copy())
            continue
        value = np.array(evaluate(expression, [block.copy() for block in blocks], NUMPY | COMMON))
        old = blocks[target % len(blocks)]
        if verb == "let":
            blocks.append(value)
        elif verb == "store":
            output = value + np.zeros_like(start)
        elif verb == "write":
            old[...] = value if value.shape == old.shape else old
        elif value.shape in (old.shape, (old.shape[0], 1)):
            old[...] = {"+=": old + value, "-=": old - value, "*=": old * value}[verb]
    return [*blocks, output, start]


def numbers(m: Machine, block: Block, name: str) -> Floats:
    """What a block holds, read through a store."""
    out = m.output(name, block.shape)
    m.store(out[:], block)
    return data(out)


def data(array: Hbm) -> Floats:
    assert array._data is not None
    return np.array(array._data, np.float64)


@given(program=st.lists(statements, max_size=12), seed=st.integers(0, 2**32 - 1))
def test_a_random_listing_computes_what_numpy_computes(program: list[Expression], seed: int) -> None:
    start = np.random.default_rng(seed).integers(-3, 4, (SIDE, SIDE)).astype(np.float64)
    expected = in_numpy(program, start)
    assume(all(np.abs(array).max() < 2**50 for array in expected))  # integers, so that equality is exact
    found = on_machine(program, start)
    assert len(found) == len(expected)
    assert all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_input_is_never_written_through_a_block_that_was_loaded(dtype: str) -> None:
    start = np.arange(9.0).reshape(3, 3).astype(dtype)
    start.flags.writeable = False  # such an array is not even copied
    m = Machine(accumulator=dtype)
    X, Y = m.input("X", (3, 3), start, dtype=dtype), m.output("Y", (3, 3), dtype=dtype)
    x = m.load(X[:])
    y = m.let(x, "y")
    x += 1.0
    x *= x
    y -= 5.0
    m.let(x.T, "z").__iadd__(1.0)
    x[...] = exp(y)
    m.store(Y[:], m.load(X[:]))
    assert np.array_equal(start, np.arange(9.0).reshape(3, 3))
    assert np.array_equal(data(Y), start)


def test_an_input_is_copied_from_an_array_that_may_change() -> None:
    start = np.ones((2, 2), np.float32)
    m = Machine()
    X, Y = m.input("X", (2, 2), start), m.output("Y", (2, 2))
    start[:] = 7
    m.store(Y[:], m.load(X[:]))
    assert np.array_equal(data(Y), np.ones((2, 2)))


def test_a_block_read_from_an_output_does_not_follow_it() -> None:
    m = Machine()
    Y = m.output("Y", (2, 2))
    m.store(Y[:], m.full(1.0, 2, 2, name="one"))
    old = m.load(Y[:])
    m.store(Y[:], m.full(2.0, 2, 2, name="two"))
    assert np.array_equal(numbers(m, old, "old"), np.ones((2, 2)))
    old += 5.0
    assert np.array_equal(data(Y), np.full((2, 2), 2.0))


def test_a_transpose_updates_its_own_block_without_reading_half_of_the_result() -> None:
    start = np.random.default_rng(0).random((70, 70))
    m = Machine(accumulator="float64")
    x = m.load(m.input("X", (70, 70), start)[:])
    x += 0.0  # from here on the block owns its buffer
    x += x.T
    assert np.array_equal(numbers(m, x, "sum"), start + start.T)
    x[...] = x.T
    x -= x.T
    assert not numbers(m, x, "difference").any()


def test_an_exponential_in_place_of_its_operand_is_the_same_exponential() -> None:
    start = np.random.default_rng(0).standard_normal((5, 5))
    m = Machine(accumulator="float64")
    x = m.load(m.input("X", (5, 5), start)[:])
    assert np.allclose(numbers(m, m.let(exp((x + 1.0).T), "y"), "Y"), np.exp(start.T + 1), rtol=1e-14)
    assert np.allclose(numbers(m, m.let(exp(x), "y"), "Z"), np.exp(start), rtol=1e-14)
    assert np.allclose(numbers(m, m.let(log(exp(x)), "y"), "W"), start, atol=1e-14)
    assert np.array_equal(numbers(m, x, "V"), start)


def test_rows_that_saw_nothing_are_guarded_without_a_warning() -> None:
    m = Machine()
    top, total = m.full(-np.inf, 2, 1, name="m"), m.full(0.0, 2, 1, name="l")
    assert not numbers(m, m.let(exp(top - finite(top)), "p"), "P").any()
    assert not numbers(m, m.let(total / nonzero(total), "o"), "O").any()
    assert np.array_equal(numbers(m, m.let(top + log(total), "lse"), "LSE"), np.full((2, 1), -np.inf))


def test_a_transpose_of_a_transpose_is_no_way_into_the_block() -> None:
    start = np.arange(9.0).reshape(3, 3)
    m = Machine(accumulator="float64")
    x = m.let(m.load(m.input("X", (3, 3), start)[:]), "x")
    assert np.array_equal(numbers(m, m.let(x.T.T + 1.0, "y"), "Y"), start + 1)
    assert np.array_equal(numbers(m, m.let(exp(x.T.T), "z"), "Z"), np.exp(start))
    assert np.array_equal(numbers(m, x, "end"), start)
