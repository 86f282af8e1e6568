"""An unnamed value has no room: it is used once, at once, and never assigned to; what lasts is named."""

from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest

from iosim.core.errors import BadInput, DeadValue
from iosim.memory import Block, Machine, Mode, OnChip, Value, exp, finite, log, maximum, nonzero, where

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)
ROOM = r"give it room with m.let\(value, name\)"


def square(mode: Mode) -> tuple[Machine, Block]:
    """A machine and a block of 3 x 3 on it."""
    m = Machine(mode=mode)
    return m, m.load(m.input("X", (3, 3), np.arange(1.0, 10.0).reshape(3, 3))[:])


USES: dict[str, Callable[[Machine, Value], object]] = {
    "+": lambda m, v: v + 1.0,
    "right of -": lambda m, v: 1.0 - v,
    "@": lambda m, v: v @ m.full(1.0, 3, 3, name="y"),
    "right of @": lambda m, v: m.full(1.0, 3, 3, name="y") @ v,
    "right of a block": lambda m, v: m.full(1.0, 3, 3, name="y") * v,
    "T": lambda m, v: v.T,
    "rowmax": lambda m, v: v.rowmax(),
    "rowsum": lambda m, v: v.rowsum(),
    "exp": lambda m, v: exp(v),
    "log": lambda m, v: log(v),
    "finite": lambda m, v: finite(v),
    "nonzero": lambda m, v: nonzero(v),
    "maximum": lambda m, v: maximum(v, 0.0),
    "where": lambda m, v: where(v, m.full(1.0, 3, 3, name="y"), 0.0),
    "where else": lambda m, v: where(m.full(1.0, 3, 3, name="y"), v, 0.0),
    "let": lambda m, v: m.let(v, "w"),
    "store": lambda m, v: m.store(m.output("Y", (3, 3))[:], v),
    "write": lambda m, v: m.full(1.0, 3, 3, name="y").__setitem__(..., v),
    "update": lambda m, v: m.full(1.0, 3, 3, name="y").__iadd__(v),
}
in_every_use = pytest.mark.parametrize("use", USES.values(), ids=USES.keys())


@in_every_mode
@in_every_use
def test_a_value_is_used_once(mode: Mode, use: Callable[[Machine, Value], object]) -> None:
    m, x = square(mode)
    value = x + 1.0
    use(m, value)
    with pytest.raises(DeadValue, match=rf"used twice: {ROOM}"):
        value * 2.0


@in_every_mode
@in_every_use
def test_a_spent_value_is_refused_everywhere(mode: Mode, use: Callable[[Machine, Value], object]) -> None:
    m, x = square(mode)
    value = x + 1.0
    value * 2.0
    with pytest.raises(DeadValue, match=rf"used twice: {ROOM}"):
        use(m, value)


@in_every_mode
@pytest.mark.parametrize("twice", [operator.mul, operator.add, operator.sub, operator.truediv, operator.matmul, maximum])
def test_both_operands_cannot_be_one_value(mode: Mode, twice: Callable[[OnChip, OnChip], object]) -> None:
    _, x = square(mode)
    value = x + 1.0
    with pytest.raises(DeadValue, match=rf"used twice: {ROOM}"):
        twice(value, value)
    twice(x, x)  # a block may


@in_every_mode
def test_a_value_that_was_given_room_is_used_up(mode: Mode) -> None:
    m, x = square(mode)
    value = x + 1.0
    named = m.let(value, "v")
    named * named
    with pytest.raises(DeadValue, match="used twice"):
        m.let(value, "again")


@in_every_mode
def test_a_value_dies_where_a_tile_begins(mode: Mode) -> None:
    m, x = square(mode)
    value = x + 1.0
    for _ in m.tiles(4, 2):
        with pytest.raises(DeadValue, match=rf"used after a tile began or ended: {ROOM}"):
            value * 2.0


@in_every_mode
def test_a_value_dies_where_a_tile_ends(mode: Mode) -> None:
    m, x = square(mode)
    kept: list[Value] = []
    for _ in m.tiles(4, 2):
        for value in kept:
            with pytest.raises(DeadValue, match=rf"used after a tile began or ended: {ROOM}"):
                value * 2.0
        kept = [x + 1.0, x.T]
    for value in kept:
        with pytest.raises(DeadValue, match=rf"used after a tile began or ended: {ROOM}"):
            value * 2.0


@in_every_mode
def test_a_loop_in_between_kills_even_where_it_runs_to_its_end(mode: Mode) -> None:
    m, x = square(mode)
    value = x + 1.0
    for _ in m.tiles(1, 1):
        pass
    with pytest.raises(DeadValue, match="used after a tile began or ended"):
        value * 2.0


def _write(v: OnChip) -> None:
    v[...] = v  # type: ignore[index]


def _update(v: OnChip) -> None:
    v *= 2.0


@in_every_mode
@pytest.mark.parametrize(
    "assign", [_write, _update, operator.iadd, operator.isub, operator.imul, operator.itruediv], ids=lambda assign: assign.__name__
)
def test_a_value_is_never_assigned_to(mode: Mode, assign: Callable[..., object]) -> None:
    _, x = square(mode)
    for value in (x + 1.0, x.T, x.rowsum()):
        with pytest.raises(DeadValue, match=rf"was assigned to, but it has no room: {ROOM}"):
            assign(*((value,) if assign in (_write, _update) else (value, 1.0)))


@in_every_mode
def test_a_transpose_is_used_before_its_block_is_overwritten(mode: Mode) -> None:
    m, x = square(mode)
    for overwrite in (lambda: x.__iadd__(1.0), lambda: x.__setitem__(..., m.full(0.0, 3, 3, name="y"))):
        old = x.T
        overwrite()
        with pytest.raises(DeadValue, match=r"overwritten since it was transposed: give the transpose room with m.let\(x.T, name\)"):
            old + 1.0


@in_every_mode
def test_a_block_is_overwritten_whole_by_something_of_its_shape(mode: Mode) -> None:
    m, x = square(mode)
    row = m.full(0.0, 1, 3, name="row")
    with pytest.raises(BadInput, match=r"cannot write X\(3, 3\) into row\(1, 3\)"):
        row[...] = x
    with pytest.raises(BadInput, match=r"cannot write an unnamed value\(3, 1\) into X\(3, 3\)"):
        x[...] = x.rowsum()
    with pytest.raises(BadInput, match=r"cannot update row\(1, 3\) in place with X\(3, 3\); the result has another shape"):
        row += x
    for index in (0, slice(None), (0, 0), None, True, (Ellipsis, 0)):
        with pytest.raises(BadInput, match=r"only be overwritten whole: X\[...\] = value"):
            x[index] = x
    for thing in (1.0, np.ones((3, 3)), None, "x", [1.0]):
        with pytest.raises(BadInput, match="is not on chip; give a block or a value"):
            x[...] = thing  # type: ignore[assignment]


@in_every_mode
def test_shapes_must_broadcast(mode: Mode) -> None:
    m, x = square(mode)
    y = m.full(0.0, 2, 3, name="y")
    with pytest.raises(BadInput, match=r"X\(3, 3\) and y\(2, 3\) do not broadcast"):
        x + y
    with pytest.raises(BadInput, match=r"y\(2, 3\) @ y\(2, 3\): the inner sizes 3 and 2 differ"):
        y @ y
    with pytest.raises(BadInput, match=r"the condition has shape \(2, 3\) but X has \(3, 3\)"):
        where(y, x, 0.0)
    assert (x.rowsum() * m.full(0.0, 1, 3, name="row")).shape == (3, 3)


NO_OPERANDS = [None, True, "2", 1j, [1.0], (1.0,), {}, np.ones((3, 3)), np.float32(2), np.int64(2), np.bool_(True), 10**400, object()]


@in_every_mode
@pytest.mark.parametrize("thing", NO_OPERANDS, ids=lambda thing: type(thing).__name__)
@pytest.mark.parametrize(
    "operation",
    [operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul, operator.iadd, operator.imul, maximum],
    ids=lambda operation: operation.__name__,
)
def test_only_numbers_and_what_is_on_chip_are_operands(mode: Mode, operation: Callable[[object, object], object], thing: object) -> None:
    _, x = square(mode)
    for operands in ((x, thing), (thing, x)):
        with pytest.raises(BadInput, match=r"m\.load|m\.store"):
            operation(*operands)


@in_every_mode
def test_python_numbers_of_every_sort_are_operands(mode: Mode) -> None:
    _, x = square(mode)
    for number in (2, 2.0, -0.0, math.inf, np.float64(2)):
        assert (x + number).shape == (number - x).shape == (x * number).shape == maximum(number, x).shape == (3, 3)


REFUSED: dict[str, Callable[[OnChip], object]] = {
    "bool": bool,
    "len": len,
    "float": float,
    "int": int,
    "list": lambda x: [*x],  # type: ignore[misc]
    "hash": hash,
    "abs": abs,
    "neg": operator.neg,
    "math.exp": math.exp,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": pickle.dumps,
    "index": lambda x: x[0],
    "slice": lambda x: x[0:1],
    "in": lambda x: 1.0 in x,  # type: ignore[operator]
    "==": lambda x: x == 0.0,
    "!=": lambda x: x != x,  # noqa: PLR0124
    "<": lambda x: x < 1.0,
    ">=": lambda x: x >= 1.0,
    "if": lambda x: 1 if x else 0,
    "max": lambda x: max(x, 0.0),
    "power": lambda x: x**2,
    "np.asarray": np.asarray,
    "np.exp": np.exp,
    "np.maximum": lambda x: np.maximum(x, 0.0),
    "np.where": lambda x: np.where(x, 1.0, 0.0),
    "np.sum": np.sum,
    "np.full": lambda x: np.full((3, 3), x),
    "np.array of blocks": lambda x: np.array([x, x]),
    "float64 ufunc": lambda x: np.add(np.float64(1), x),
}


@in_every_mode
@pytest.mark.parametrize("look", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_on_chip_cannot_be_looked_at_or_copied_or_branched_on(mode: Mode, look: Callable[[OnChip], object]) -> None:
    _, x = square(mode)
    for thing in (x, x + 1.0, x.T):
        with pytest.raises(BadInput, match=r"is on chip: .* m.let copies, and its numbers leave only through m.store"):
            look(thing)


@in_every_mode
@pytest.mark.parametrize("function", [exp, log, finite, nonzero, lambda x: where(x, x, 0.0), lambda x: maximum(x, 1.0)])
@pytest.mark.parametrize("thing", [1.0, None, "x", np.ones(3), True])
def test_functions_take_what_is_on_chip(mode: Mode, function: Callable[[object], object], thing: object) -> None:
    square(mode)
    with pytest.raises(BadInput, match=r"is not on chip; give a block or a value, such as m.load\(Q\[i\]\)"):
        function(thing)


@in_every_mode
def test_functions_do_not_take_addresses(mode: Mode) -> None:
    m, x = square(mode)
    region = m.arrays["X"][:]
    with pytest.raises(BadInput, match="Region is not on chip"):
        exp(region)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="Region is not an operand"):
        x + region
    with pytest.raises(BadInput, match=r"Region is not on chip; give a block or a value, such as m\.load"):
        x @ region


@in_every_mode
@pytest.mark.parametrize("fill", [None, "x", True, np.ones((3, 3)), np.float32(1), [1.0], 1j])
def test_a_condition_falls_back_to_a_number_and_nothing_else(mode: Mode, fill: float) -> None:
    _, x = square(mode)
    with pytest.raises(BadInput, match="is not an operand"):
        where(x, x, fill)


@in_every_mode
@pytest.mark.parametrize("fill", [None, "x", True, np.ones((3, 3)), np.float32(1), [1.0], 1j])
def test_a_block_is_filled_with_a_number_and_nothing_else(mode: Mode, fill: float) -> None:
    m, x = square(mode)
    with pytest.raises(BadInput, match="is not an operand"):
        m.full(fill, 3, 3, name="y")
    with pytest.raises(BadInput):
        m.full(x, 3, 3, name="y")  # type: ignore[arg-type]


@in_every_mode
@pytest.mark.parametrize("thing", [1.0, None, "x", np.ones((3, 3))])
def test_only_what_is_on_chip_is_given_room_or_stored(mode: Mode, thing: object) -> None:
    m, _ = square(mode)
    Y = m.output("Y", (3, 3))
    with pytest.raises(BadInput, match="is not on chip"):
        m.let(thing, "y")  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="is not on chip; give a block or a value"):
        m.store(Y[:], thing)  # type: ignore[arg-type]


@in_every_mode
@pytest.mark.parametrize("rule", [lambda r, c: r * 1.0, lambda r, c: 3, lambda r, c: None, lambda r, c: np.ones((2, 2), bool)])
def test_a_rule_of_pairs_gives_booleans_and_so_brings_no_numbers_on_chip(mode: Mode, rule: Callable[..., object]) -> None:
    m, _ = square(mode)
    for i in m.tiles(3, 3):
        for j in m.tiles(4, 4):
            if mode == "execute":
                with pytest.raises(BadInput, match=r"must give booleans of shape \(3, 4\)"):
                    m.pairs(rule, i, j)  # type: ignore[arg-type]
            for pair in ((1, j), (i, None), ("i", "j")):
                with pytest.raises(BadInput, match="is not a tile of this machine"):
                    m.pairs(lambda r, c: r >= c, *pair)


@in_every_mode
@pytest.mark.parametrize("rule", [lambda r, c: r >= c, lambda r, c: r > 1, lambda r, c: c > 1, lambda r, c: np.bool_(True)])
def test_a_rule_of_pairs_may_ignore_an_index(mode: Mode, rule: Callable[..., object]) -> None:
    m, _ = square(mode)
    Y = m.output("Y", (3, 4))
    for i in m.tiles(3, 2):
        for j in m.tiles(4, 3):
            m.store(Y[i, j], 2.0 * m.pairs(rule, i, j))  # type: ignore[arg-type]
    m.finish()
    if mode == "execute":
        keep = np.broadcast_to(np.asarray(rule(np.arange(3)[:, None], np.arange(4)[None, :])), (3, 4))
        assert Y.data is not None
        assert np.array_equal(Y.data, 2.0 * keep)


def test_a_product_with_a_vector_heeds_no_flag_of_the_processor() -> None:
    # Some BLAS kernels raise "invalid" from what lies beside the vector. Here it is raised by inf - inf, and NaN is all there is to see.
    m = Machine()
    x = m.load(m.input("X", (1, 2), np.array([[1.0, -1.0]]))[:])
    y = m.load(m.input("Y", (2, 3), np.full((2, 3), -np.inf), infinite=True)[:])
    out = m.output("Z", (1, 3))
    m.store(out[:], x @ y)
    m.finish()
    assert np.isnan(out.data).all()
