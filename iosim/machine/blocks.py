"""On-chip values: blocks that have a name and room, and values that have neither and live for one expression."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import numpy as np

from iosim.core import opaque
from iosim.core.errors import BadInput, DeadValue
from iosim.core.events import Box
from iosim.core.opaque import Shape, broadcast, number
from iosim.core.storage import Array, rounded
from iosim.machine.hbm import Hbm
from iosim.machine.ledger import Ledger

SPENT = -1
vector_product = np.errstate(invalid="ignore")(np.dot)  # some BLAS kernels raise the flag from padding that they read beside a vector


def operands(x: OnChip, y: Operand) -> tuple[Shape, Array | None, Array | float | None]:
    """The shape that two operands broadcast to, and their numbers; counts one operation an element."""
    m, shape, a = x.machine, x.shape, x._take()
    if isinstance(y, OnChip):
        if y.machine is not m:
            m.foreign(y, OnChip)
        b: Array | float | None = y._take()
        if y.shape != shape and y.shape != (shape[0], 1):
            shape = broadcast(x, y)
    else:
        b = y if type(y) is float else number(y)
    m.elementwise += shape[0] * shape[1] * m.times
    if m.check:
        m.tile.deeds.append(("elementwise", *shape))
    return shape, a, b


def elementwise(fn: Callable[..., Array]) -> Callable[[OnChip, Operand], Value]:
    """The operator that applies ``fn``; a single-use operand of the result's shape lends its buffer."""

    def operator(x: OnChip, y: Operand) -> Value:
        shape, a, b = operands(x, y)
        if a is None:
            return Value(x.machine, shape, None)
        if type(x) is Value and x.shape is shape:
            return Value(x.machine, shape, fn(a, b, out=a))
        return Value(x.machine, shape, fn(a, b, out=b if type(y) is Value and y.shape == shape else None))

    return operator


def in_place(fn: np.ufunc) -> Callable[[Block, Operand], Block]:
    """The operator that updates a block with ``fn``, in its own buffer unless somebody else can see that."""

    def operator(x: Block, y: Operand) -> Block:
        shape, a, b = operands(x, y)
        if shape != x.shape:
            raise BadInput(f"cannot update {x!r} in place with {y!r}; the result has another shape")
        data = None if a is None else fn(a, b, out=a if x.owned else None)
        if x.origin is not None:
            return x._overwrite(data)
        x._data, x.owned = data, True
        x.version += 1
        return x

    return operator


def reduction(fn: np.ufunc) -> Callable[[OnChip], Value]:
    """The operator that reduces each row with ``fn``: (rows, cols) to (rows, 1)."""

    def operator(x: OnChip) -> Value:
        m, (rows, cols), a = x.machine, x.shape, x._take()
        m.elementwise += rows * cols * m.times
        if m.check:
            m.tile.deeds.append(("reduction", rows, cols))
        return Value(m, (rows, 1), None if a is None else fn.reduce(a, 1, keepdims=True))

    return operator


class OnChip(opaque.OnChip):
    """A two-dimensional value on chip, opaque, with arithmetic; ``_data`` is None when the machine computes no numbers."""

    __slots__ = ("_data", "machine", "shape")
    machine: Ledger
    shape: Shape
    _data: Array | None

    def _take(self) -> Array | None:
        """The numbers, for one operation; raises :class:`DeadValue` where they are gone."""
        raise NotImplementedError

    @property
    def T(self) -> Value:
        """The transpose: an access pattern, which costs nothing, used once like any unnamed value."""
        if isinstance(self, Block):
            return Transposed(self)
        x = self._take()
        return Value(self.machine, self.shape[::-1], x if x is None else x.T if type(self) is Value else x.T.copy())

    __add__ = __radd__ = elementwise(np.add)
    __mul__ = __rmul__ = elementwise(np.multiply)
    __sub__ = elementwise(np.subtract)
    __truediv__ = elementwise(np.divide)
    __rsub__ = elementwise(lambda a, b, out: np.subtract(b, a, out=out))
    __rtruediv__ = elementwise(lambda a, b, out: np.divide(b, a, out=out))
    rowmax = reduction(np.maximum)
    rowsum = reduction(np.add)

    def __matmul__(self, other: OnChip) -> Value:
        m = self.machine
        if not isinstance(other, OnChip) or other.machine is not m:
            m.foreign(other, OnChip)
        (rows, inner), (inner_too, cols) = self.shape, other.shape
        if inner != inner_too:
            raise BadInput(f"{self!r} @ {other!r}: the inner sizes {inner} and {inner_too} differ")
        x, y = self._take(), other._take()
        m.matmul += 2 * rows * inner * cols * m.times
        if m.check:
            m.tile.deeds.append(("matmul", rows, inner, cols))
        product = np.dot if rows > 1 and cols > 1 else vector_product
        return Value(m, (rows, cols), None if x is None or y is None else product(x, y))


Operand = OnChip | float


class Value(OnChip):
    """An intermediate of one expression: no name, no room. It is used exactly once, before the next tile begins or ends.

    Nobody else sees its buffer, so the operation that uses it may reuse that.
    """

    __slots__ = ("epoch", "held")
    label = "an unnamed value"

    def __init__(self, machine: Ledger, shape: Shape, data: Array | None) -> None:
        self.machine, self.shape, self._data = machine, shape, data
        self.epoch = machine.epoch
        self.held = words = shape[0] * shape[1]
        live = machine.live = machine.live + words
        if live > machine.largest_unnamed:  # else neither record falls: words <= live, and the largest <= the peak
            machine.most_unnamed(words, shape)

    def _take(self) -> Array | None:
        """The numbers, once, before the next tile begins or ends."""
        m = self.machine
        if self.epoch != m.epoch:
            late = "twice" if self.epoch == SPENT else "after a tile began or ended"
            raise DeadValue(f"{self!r} was used {late}: give it room with m.let(value, name)")
        self.epoch = SPENT
        m.live -= self.held
        return self._data

    def _assign(self, *_: object) -> NoReturn:
        raise DeadValue(f"{self!r} was assigned to, but it has no room: give it room with m.let(value, name)")

    __setitem__ = __iadd__ = __isub__ = __imul__ = __itruediv__ = _assign


class Block(OnChip):
    """A value with a name and room in SRAM, until the tile in which it was made ends; it can be overwritten in place.

    ``owned`` says that nobody else sees its buffer, so that it may be overwritten; ``origin`` where it was loaded from.
    """

    __slots__ = ("label", "origin", "owned", "tile", "version")

    def __init__(
        self, m: Ledger, shape: Shape, data: Array | None, label: str, cost: int, owned: bool = True, origin: tuple[Hbm, Box] | None = None
    ) -> None:  # fmt: skip
        self.machine, self.shape, self._data = m, shape, data
        self.label, self.owned, self.origin = label, owned, origin
        self.tile, self.version = m.tile, 0
        used = m.used + cost
        if used > m.limit:
            m.refuse(self, cost)
        m.residents.append(self)
        m.used = used
        if used > m.peak:  # noqa: PLR1730  # calling max takes longer than all of this
            m.peak = used
        if m.watched and origin is None:
            m.tell("alloc", label, ((0, shape[0]), (0, shape[1])), self.words, m.dtype.itemsize)

    def _take(self) -> Array | None:
        """The numbers, while the tile is open; observers hear of the region that they were loaded from."""
        if not self.tile.open:
            raise self._dead()
        if self.origin is not None and self.machine.observers and self.version == 0:
            array, box = self.origin
            self.machine.emit("use", array.name, box, self.words, array.itemsize)
        return self._data

    def _overwrite(self, data: Array | None) -> Block:
        """Hold other numbers from now on, in a loaded block rounded to its array's type: it has paid for no more."""
        if self.origin is not None and data is not None and (narrow := self.origin[0].narrow) is not None:
            data = rounded(self.label, data, narrow).astype(self.machine.dtype)
        self._data, self.owned = data, True
        self.version += 1
        return self

    def __setitem__(self, index: object, new: OnChip) -> None:
        if index is not Ellipsis:
            raise BadInput(f"{self!r} can only be overwritten whole: {self.label}[...] = value")
        if not isinstance(new, OnChip) or new.machine is not self.machine:
            self.machine.foreign(new, OnChip)
        if new.shape != self.shape:
            raise BadInput(f"cannot write {new!r} into {self!r}")
        x = new._take()
        if not self.tile.open:
            raise self._dead()
        self._overwrite(x if x is None or type(new) is Value else x.copy())

    __iadd__ = in_place(np.add)
    __isub__ = in_place(np.subtract)
    __imul__ = in_place(np.multiply)
    __itruediv__ = in_place(np.divide)

    def _dead(self) -> DeadValue:
        return DeadValue(f"{self!r} was released when its tile ended; load it again, or carry its value in a block made outside the loop")


class Transposed(Value):
    """The transpose of a block: it holds no numbers of its own, and so is used before the block is overwritten."""

    __slots__ = ("block", "version")

    def __init__(self, block: Block) -> None:
        if not block.tile.open:
            raise block._dead()
        x = block._data
        self.machine, self.shape, self._data = block.machine, block.shape[::-1], None if x is None else x.T
        self.epoch, self.held = block.machine.epoch, 0
        self.block, self.version = block, block.version

    def _take(self) -> Array | None:
        """The numbers of the block, if they are still there."""
        if self.version != self.block.version:
            raise DeadValue(f"{self.block!r} was overwritten since it was transposed: give the transpose room with m.let(x.T, name)")
        x = Value._take(self)
        self.block._take()  # the operation reads the block, and observers hear of it then, not when it was transposed
        return x
