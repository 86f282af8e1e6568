"""On-chip values of the stand-in machine: handles with a shape, and one record for every operation. Standard library only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from iosim.course.grading import records as r
from iosim.course.grading.standin_errors import BadInput, DeadValue

if TYPE_CHECKING:
    from iosim.course.grading.standin import Machine

Shape = tuple[int, int]
NEITHER = (0, 0)  # the shape that is claimed where operands do not fit


def operator(op: int, with_number: int) -> Callable[[OnChip, Operand], Value]:
    """The operator that writes ``op``, or ``with_number`` where its right operand is a Python number."""

    def operate(x: OnChip, y: Operand) -> Value:
        m, shape = x.machine, x.shape
        if not isinstance(y, OnChip):
            return Value(m, m.make(with_number, shape, x.handle, 0, number(y)), shape)
        if y.shape != shape:
            shape = common(x, y)
        handle = m.make(op, shape, x.handle, y.handle)
        if shape is NEITHER:
            raise BadInput(f"{x!r} and {y!r} do not broadcast")
        return Value(m, handle, shape)

    return operate


def reflected(op: int) -> Callable[[OnChip, float], Value]:
    """The operator of a Python number on the left."""
    return lambda x, y: Value(x.machine, x.machine.make(op, x.shape, x.handle, 0, number(y)), x.shape)


def in_place(op: int, with_number: int) -> Callable[[Block, Operand], Block]:
    """The operator that updates a block."""

    def operate(x: Block, y: Operand) -> Block:
        if not isinstance(y, OnChip):
            x.machine.put(with_number, a=x.handle, scalar=number(y))
            return x
        x.machine.put(op, a=x.handle, b=y.handle)
        if y.shape != x.shape and common(x, y) != x.shape:
            raise BadInput(f"cannot update {x!r} in place with {y!r}; the result has another shape")
        return x

    return operate


def unary(op: int) -> Callable[[OnChip], Value]:
    """The function that writes ``op``: one value in, one of its shape out."""
    return lambda x: Value(on_chip(x).machine, x.machine.make(op, x.shape, x.handle), x.shape)


def reduction(op: int) -> Callable[[OnChip], Value]:
    """The function that writes ``op``: (rows, cols) to (rows, 1)."""
    return lambda x: Value(x.machine, x.machine.make(op, (x.shape[0], 1), x.handle), (x.shape[0], 1))


class OnChip:
    """A two-dimensional value on chip: a number that names it and its shape. There are no elements here."""

    __slots__ = ("handle", "machine", "shape")
    __array_priority__ = 1000  # NumPy scalars and arrays on the left leave the operation to this class
    wanted = "on chip; give a block or a value, such as m.load(Q[i])"
    label = "an unnamed value"

    def __init__(self, machine: Machine, handle: int, shape: Shape) -> None:
        self.machine, self.handle, self.shape = machine, handle, shape

    @property
    def words(self) -> int:
        """Its elements."""
        return self.shape[0] * self.shape[1]

    @property
    def T(self) -> Value:
        """The transpose."""
        return Value(self.machine, self.machine.make(r.TURN, self.shape[::-1], self.handle), self.shape[::-1])

    __add__ = __radd__ = operator(r.ADD, r.ADDS)
    __mul__ = __rmul__ = operator(r.MUL, r.MULS)
    __sub__ = operator(r.SUB, r.SUBS)
    __truediv__ = operator(r.DIV, r.DIVS)
    __rsub__ = reflected(r.RSUBS)
    __rtruediv__ = reflected(r.RDIVS)
    rowmax = reduction(r.ROWMAX)
    rowsum = reduction(r.ROWSUM)

    def __matmul__(self, other: OnChip) -> Value:
        m, x, y = self.machine, self.shape, on_chip(other).shape
        shape = (x[0], y[1]) if x[1] == y[0] else NEITHER
        handle = m.make(r.PRODUCT, shape, self.handle, other.handle)
        if shape is NEITHER:
            raise BadInput(f"{self!r} @ {other!r}: the inner sizes {x[1]} and {y[0]} differ")
        return Value(m, handle, shape)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise BadInput(
            f"{self!r} is on chip: a listing may not look at it, branch on it, index it or copy it, but compute with "
            "+ - * / @ and the functions of iosim.memory; m.let copies, and its numbers leave only through m.store"
        )

    __array__ = __bool__ = __len__ = __float__ = __int__ = __getitem__ = __reduce_ex__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __neg__ = __abs__ = __pow__ = __rmatmul__ = _refuse

    def __repr__(self) -> str:
        return f"{self.label}{self.shape}"


Operand = OnChip | float


class Value(OnChip):
    """An intermediate of one expression: no name, no room; assigned to, it is written down so that the machine refuses it."""

    __slots__ = ()

    def _assign(self, *_: object) -> NoReturn:
        self.machine.put(r.IADDS, a=self.handle)
        raise DeadValue(f"{self!r} was assigned to, but it has no room: give it room with m.let(value, name)")

    __setitem__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = _assign


class Block(OnChip):
    """A value with a name and room; it can be overwritten in place."""

    __slots__ = ("label",)

    def __init__(self, machine: Machine, handle: int, shape: Shape, label: str) -> None:
        self.machine, self.handle, self.shape, self.label = machine, handle, shape, label

    def __setitem__(self, index: object, new: OnChip) -> None:
        if index is not Ellipsis:
            raise BadInput(f"{self!r} can only be overwritten whole: {self.label}[...] = value")
        self.machine.put(r.SET, a=self.handle, b=on_chip(new).handle)
        if new.shape != self.shape:
            raise BadInput(f"cannot write {new!r} into {self!r}")

    __iadd__ = in_place(r.IADD, r.IADDS)
    __isub__ = in_place(r.ISUB, r.ISUBS)
    __imul__ = in_place(r.IMUL, r.IMULS)
    __itruediv__ = in_place(r.IDIV, r.IDIVS)


def common(x: OnChip, y: OnChip) -> Shape:
    """The common shape of two values, an axis of 1 stretching, or NEITHER."""
    (rows, cols), (rows_too, cols_too) = x.shape, y.shape
    if (rows == rows_too or 1 in (rows, rows_too)) and (cols == cols_too or 1 in (cols, cols_too)):
        return max(rows, rows_too), max(cols, cols_too)
    return NEITHER


def number(x: object) -> float:
    """A Python number; raises :class:`BadInput` for anything else, NumPy arrays among them."""
    if isinstance(x, float) or (type(x) is int and abs(x) < 1 << 1023):
        return float(x)
    raise BadInput(
        f"{type(x).__name__} is not an operand of on-chip arithmetic; use blocks, values and Python numbers, and m.load for arrays"
    )


def on_chip(x: object) -> OnChip:
    """``x`` if it is on chip; raises :class:`BadInput` otherwise."""
    if isinstance(x, OnChip):
        return x
    raise BadInput(f"{type(x).__name__} is not {OnChip.wanted}")


exp, log, finite, nonzero = unary(r.EXP), unary(r.LOG), unary(r.FINITE), unary(r.NONZERO)
larger = operator(r.MAX, r.MAXS)


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of two operands, element by element."""
    return larger(x, y) if isinstance(x, OnChip) else larger(on_chip(y), x)


def where(keep: OnChip, x: OnChip, otherwise: float) -> Value:
    """``x`` where ``keep`` holds, else the number ``otherwise``; both of one shape."""
    m, shape = on_chip(keep).machine, on_chip(x).shape
    if keep.shape != shape:
        raise BadInput(f"where: the condition has shape {keep.shape} but {x.label} has {x.shape}")
    return Value(m, m.make(r.WHERE, shape, keep.handle, x.handle, number(otherwise)), shape)
