"""On-chip values of the stand-in machine: handles with a shape, and one record for every operation. Standard library only.

It offers the operations that :mod:`iosim.course.grading.records` declares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from iosim.core import opaque
from iosim.core.errors import BadInput, DeadValue
from iosim.core.opaque import Shape, broadcast, expect, number
from iosim.course.grading import records as r
from iosim.course.grading.standin_log import Log

NEITHER = (0, 0)  # the shape that is claimed where operands do not fit


class OnChip(opaque.OnChip):
    """A two-dimensional value on chip: a number that names it and its shape. There are no elements here."""

    __slots__ = ("_handle", "_log", "shape")
    _log: Log
    _handle: int

    @property
    def T(self) -> Value:
        """The transpose."""
        return Value(self._log, r.TURN, self.shape[::-1], self._handle)

    def __matmul__(self, other: OnChip) -> Value:
        (rows, inner), (inner_too, cols) = self.shape, expect(OnChip, other).shape
        fits = inner == inner_too
        found = Value(self._log, r.TWO["matmul"], (rows, cols) if fits else NEITHER, self._handle, other._handle)
        if not fits:
            raise BadInput(f"{self!r} @ {other!r}: the inner sizes {inner} and {inner_too} differ")
        return found


Operand = OnChip | float


class Value(OnChip):
    """An intermediate of one expression: no name, no room; assigned to, it is written down so that the machine refuses it."""

    __slots__ = ()
    label = "an unnamed value"

    def __init__(self, log: Log, op: int, shape: Shape, a: int, b: int = 0, scalar: float = 0.0, flags: int = 0) -> None:
        self._log, self._handle, self.shape = log, log._make(op, shape, a, b, scalar, flags=flags), shape

    def _assign(self, *_: object) -> NoReturn:
        self._log._put(r.MIXED_INTO["add"], a=self._handle)
        raise DeadValue(f"{self!r} was assigned to, but it has no room: give it room with m.let(value, name)")

    __setitem__ = _assign


class Block(OnChip):
    """A value with a name and room; it can be overwritten in place."""

    __slots__ = ("label",)

    def __init__(self, log: Log, handle: int, shape: Shape, label: str) -> None:
        self._log, self._handle, self.shape, self.label = log, handle, shape, label

    def __setitem__(self, index: object, new: OnChip) -> None:
        if index is not Ellipsis:
            raise BadInput(f"{self!r} can only be overwritten whole: {self.label}[...] = value")
        self._log._put(r.SET, a=self._handle, b=expect(OnChip, new)._handle)
        if new.shape != self.shape:
            raise BadInput(f"cannot write {new!r} into {self!r}")


def operator(name: str) -> Callable[[OnChip, Operand], Value]:
    """The operator of two values, or of a value and a Python number."""
    op, mixed = r.TWO[name], r.MIXED[name]

    def operate(x: OnChip, y: Operand) -> Value:
        log, shape = x._log, x.shape
        if not isinstance(y, OnChip):
            return Value(log, mixed, shape, x._handle, 0, number(y))
        if y.shape != shape:
            try:
                shape = broadcast(x, y)
            except BadInput:
                Value(log, op, NEITHER, x._handle, y._handle)
                raise
        return Value(log, op, shape, x._handle, y._handle)

    return operate


def reflected(name: str) -> Callable[[OnChip, float], Value]:
    """The operator of a Python number on the left."""
    op = r.REFLECTED[name]
    return lambda x, y: Value(x._log, op, x.shape, x._handle, 0, number(y))


def in_place(name: str) -> Callable[[Block, Operand], Block]:
    """The operator that updates a block."""

    def operate(x: Block, y: Operand) -> Block:
        if not isinstance(y, OnChip):
            x._log._put(r.MIXED_INTO[name], a=x._handle, scalar=number(y))
            return x
        x._log._put(r.INTO[name], a=x._handle, b=y._handle)
        if y.shape != x.shape and broadcast(x, y) != x.shape:
            raise BadInput(f"cannot update {x!r} in place with {y!r}; the result has another shape")
        return x

    return operate


def unary(op: int) -> Callable[[OnChip], Value]:
    """The function that writes ``op``: one value in, one of its shape out."""
    return lambda x: Value(expect(OnChip, x)._log, op, x.shape, x._handle)


def reduction(op: int) -> Callable[[OnChip], Value]:
    """The method that writes ``op``: (rows, cols) to (rows, 1)."""
    return lambda x: Value(x._log, op, (x.shape[0], 1), x._handle)


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of two operands, element by element."""
    return larger(x, y) if isinstance(x, OnChip) else larger(expect(OnChip, y), x)


def where(keep: OnChip, x: OnChip, otherwise: float) -> Value:
    """``x`` where ``keep`` holds, else the number ``otherwise``; both of one shape."""
    if expect(OnChip, keep).shape != expect(OnChip, x).shape:
        raise BadInput(f"where: the condition has shape {keep.shape} but {x.label} has {x.shape}")
    return Value(x._log, r.WHERE, x.shape, keep._handle, x._handle, number(otherwise))


larger = operator("maximum")
FUNCTIONS: dict[str, Callable[..., Value]] = {"maximum": maximum, "where": where, **{name: unary(op) for name, op in r.ONE.items()}}
for _name in r.OPERATORS:
    setattr(OnChip, f"__{_name}__", operator(_name))
    setattr(OnChip, f"__r{_name}__", reflected(_name))
    setattr(Block, f"__i{_name}__", in_place(_name))
    setattr(Value, f"__i{_name}__", Value._assign)
for _name, _op in r.ROWS.items():
    setattr(OnChip, _name, reduction(_op))
