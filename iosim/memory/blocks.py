"""On-chip values: blocks that have a name and room, and values that have neither and live for one expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from iosim.errors import BadInput, DeadValue
from iosim.memory.events import Box

if TYPE_CHECKING:
    from iosim.memory.machine import Machine

Array = NDArray[np.generic]
Shape = tuple[int, int]
SPENT = -1
VALUE = "an unnamed value"
Origin = tuple[str, Box, int, int]


class OnChip:
    """A two-dimensional value on chip, opaque, with arithmetic; ``data`` is None when the machine computes no numbers.

    ``owned`` says that nobody else can see its buffer, so that it may be overwritten.
    """

    __slots__ = ("data", "machine", "owned", "shape")
    __array_ufunc__ = None
    label = VALUE

    machine: Machine
    shape: Shape
    data: Array | None
    owned: bool

    @property
    def words(self) -> int:
        return self.shape[0] * self.shape[1]

    def take(self) -> Array | None:
        """The numbers, for one operation; raises :class:`DeadValue` where they are gone."""
        raise NotImplementedError

    def take_on(self, m: Machine) -> Array | None:
        """The numbers, for one operation on machine ``m``."""
        if self.machine is not m:
            raise BadInput(f"{self.label}{self.shape} belongs to another machine; two machines never meet")
        return self.take()

    def __add__(self, other: Operand) -> Value:
        return elementwise(np.add, self, other)

    def __sub__(self, other: Operand) -> Value:
        return elementwise(np.subtract, self, other)

    def __mul__(self, other: Operand) -> Value:
        return elementwise(np.multiply, self, other)

    def __truediv__(self, other: Operand) -> Value:
        return elementwise(np.divide, self, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Value:
        return elementwise(np.multiply, self, -1.0)

    def __matmul__(self, other: OnChip) -> Value:
        m = self.machine
        if not isinstance(other, OnChip):
            raise _no_operand(other)
        (rows, inner), (inner_too, cols) = self.shape, other.shape
        if inner != inner_too:
            raise BadInput(f"{self.label}{self.shape} @ {other.label}{other.shape}: the inner sizes {inner} and {inner_too} differ")
        x, y = self.take(), other.take_on(m)
        m.count_matmul(rows, inner, cols)
        return Value(m, (rows, cols), None if x is None or y is None else np.matmul(x, y))

    @property
    def T(self) -> Value:
        """The transpose: an access pattern, which costs nothing, used once like any unnamed value."""
        x = self.take()
        mine, held = (self.owned, self.held) if isinstance(self, Value) else (False, 0)
        self.owned = False
        return Value(self.machine, (self.shape[1], self.shape[0]), None if x is None else x.T, owned=mine, held=held)

    def rowmax(self) -> Value:
        """The largest element of each row, (rows, 1)."""
        return _reduce(np.maximum, self)

    def rowsum(self) -> Value:
        """The sum of each row, (rows, 1)."""
        return _reduce(np.add, self)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise BadInput(f"{self.label}{self.shape} is on chip; its numbers leave only through m.store")

    def __bool__(self) -> NoReturn:
        raise BadInput(f"{self.label}{self.shape} has no truth value; a listing may not branch on data")

    def __getitem__(self, _: object) -> NoReturn:
        raise BadInput(f"{self.label}{self.shape} cannot be indexed; load the tiles that are needed one by one")

    def __repr__(self) -> str:
        return f"{self.label}{self.shape}"


Operand = OnChip | float


class Value(OnChip):
    """An intermediate of one expression: no name, no room. It is used exactly once, before the next tile begins or ends."""

    __slots__ = ("epoch", "held")

    def __init__(self, machine: Machine, shape: Shape, data: Array | None, owned: bool = True, held: int = -1) -> None:
        self.machine, self.shape, self.data = machine, shape, data
        self.owned, self.epoch = owned, machine.epoch
        self.held = held = shape[0] * shape[1] if held < 0 else held
        live = machine.live = machine.live + held
        if live > machine.peak_unnamed or held > machine.largest_unnamed:
            machine.most_unnamed(self)

    def take(self) -> Array | None:
        m = self.machine
        if self.epoch != m.epoch:
            raise DeadValue(self._obituary())
        self.epoch = SPENT
        m.live -= self.held
        return self.data

    def _obituary(self) -> str:
        if self.epoch == SPENT:
            return f"{VALUE}{self.shape} was used twice: give it room with m.let(value, name)"
        return f"{VALUE}{self.shape} was used after a tile began or ended: give it room with m.let(value, name)"

    def _assign(self, *_: object) -> NoReturn:
        raise DeadValue(f"{VALUE}{self.shape} was assigned to, but it has no room: give it room with m.let(value, name)")

    __setitem__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = _assign


class Block(OnChip):
    """A value with a name and room in SRAM, until the tile in which it was made ends; it can be overwritten in place."""

    __slots__ = ("label", "origin", "tile")

    def __init__(self, machine: Machine, shape: Shape, data: Array | None, label: str, owned: bool, origin: Origin | None) -> None:
        self.machine, self.shape, self.data = machine, shape, data
        self.owned, self.origin = owned, origin
        self.label, self.tile = label, machine.tile

    def take(self) -> Array | None:
        if not self.tile.open:
            raise DeadValue(
                f"{self.label}{self.shape} was released when its tile ended; load it again, or carry its value in a block made outside the loop"
            )
        if self.origin is not None and self.machine.observers:
            self.machine.emit("use", *self.origin)
        return self.data

    def __setitem__(self, index: object, new: OnChip) -> None:
        """``o[...] = value`` overwrites this block: no new room."""
        if index is not Ellipsis:
            raise BadInput(f"{self.label}{self.shape} can only be overwritten whole: {self.label}[...] = value")
        if not isinstance(new, OnChip):
            raise _no_operand(new)
        if new.shape != self.shape:
            raise BadInput(f"cannot write {new.label}{new.shape} into {self.label}{self.shape}")
        x = new.take_on(self.machine)
        self.origin = None
        self.take()
        self.data = x if x is None or (new.__class__ is Value and new.owned) else x.copy()
        self.owned = True

    def _update(self, fn: np.ufunc, other: Operand) -> Self:
        m = self.machine
        x = self.take()
        if isinstance(other, OnChip):
            y: Array | float | None = other.take_on(m)
            if other.shape != self.shape and broadcast(self, other) != self.shape:
                raise BadInput(f"cannot update {self.label}{self.shape} in place with {other.label}{other.shape}")
        else:
            y = number(other)
        m.count_elementwise(self.shape[0] * self.shape[1])
        if x is not None:
            self.data = fn(x, y, out=x if self.owned else None)
        self.owned, self.origin = True, None
        return self

    def __iadd__(self, other: Operand) -> Self:
        return self._update(np.add, other)

    def __isub__(self, other: Operand) -> Self:
        return self._update(np.subtract, other)

    def __imul__(self, other: Operand) -> Self:
        return self._update(np.multiply, other)

    def __itruediv__(self, other: Operand) -> Self:
        return self._update(np.divide, other)


def elementwise(fn: np.ufunc, x: OnChip, y: Operand) -> Value:
    """``fn`` of two operands that broadcast; a single-use operand of the result's shape lends its buffer."""
    m = x.machine
    shape = x.shape
    a = x.take()
    out = a if x.owned and x.__class__ is Value else None
    if isinstance(y, OnChip):
        b: Array | float | None = y.take_on(m)
        if y.shape != shape:
            shape = broadcast(x, y)
            out = out if shape == x.shape else None
        if out is None and y.__class__ is Value and y.owned and y.shape == shape:
            out = y.data
    else:
        b = number(y)
    m.count_elementwise(shape[0] * shape[1])
    return Value(m, shape, None if a is None else fn(a, b, out=out))


def broadcast(x: OnChip, y: OnChip) -> Shape:
    """The common shape of two blocks, an axis of 1 stretching; raises :class:`BadInput` naming both."""
    (rows, cols), (rows_too, cols_too) = x.shape, y.shape
    if (rows == rows_too or 1 in (rows, rows_too)) and (cols == cols_too or 1 in (cols, cols_too)):
        return max(rows, rows_too), max(cols, cols_too)
    raise BadInput(f"{x.label}{x.shape} and {y.label}{y.shape} do not broadcast")


def _reduce(fn: np.ufunc, x: OnChip) -> Value:
    m = x.machine
    a = x.take()
    m.count_elementwise(x.shape[0] * x.shape[1])
    return Value(m, (x.shape[0], 1), None if a is None else fn.reduce(a, axis=1, keepdims=True))


def number(x: object) -> float:
    if isinstance(x, int | float) and not isinstance(x, bool):
        return float(x)
    raise _no_operand(x)


def _no_operand(x: object) -> BadInput:
    return BadInput(f"{type(x).__name__} is not an operand of on-chip arithmetic; use blocks, values and Python numbers, and m.load for arrays")
