"""Functions of on-chip values, beside the operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.opaque import expect, number
from iosim.core.storage import Array
from iosim.machine.blocks import OnChip, Operand, Value, elementwise


def exponential(x: OnChip, fn: Callable[..., Array]) -> Value:
    """``fn`` of every element of ``x``, counted as ``exp``."""
    m, a = expect(OnChip, x).machine, x._take()
    m.exp += x.shape[0] * x.shape[1] * m.times
    if m.check:
        m.tile.deeds.append(("exp", *x.shape))
    return Value(m, x.shape, None if a is None else fn(a, out=a if type(x) is Value else None))


def exp(x: OnChip) -> Value:
    """e to the x, element by element; counted as ``exp``."""
    return exponential(x, np.exp)


def log(x: OnChip) -> Value:
    """The natural logarithm, log 0 = -inf without a warning; counted as ``exp``."""
    with np.errstate(divide="ignore"):
        return exponential(x, np.log)


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of two operands, element by element."""
    return larger(x, y) if isinstance(x, OnChip) else larger(expect(OnChip, y), x)


def finite(x: OnChip) -> Value:
    """``x`` with -inf raised to the lowest finite number, so that -inf - finite(-inf) is -inf and its exp 0, not NaN.

    A running maximum still starts at -inf: this only guards the subtraction for rows that have seen no key.
    """
    m, a = expect(OnChip, x).machine, x._take()
    m.elementwise += x.shape[0] * x.shape[1] * m.times
    if m.check:
        m.tile.deeds.append(("elementwise", *x.shape))
    return Value(m, x.shape, None if a is None else np.maximum(a, m.lowest))


def nonzero(x: OnChip) -> Value:
    """``x`` with 0 replaced by 1: the normaliser of a row that attends to nothing, whose sum 0 then stays 0."""
    return zeros_replaced(expect(OnChip, x), 1.0)


larger = elementwise(np.maximum)
zeros_replaced = elementwise(lambda a, b, out: np.asarray(np.where(np.equal(a, 0), b, a)))


def where(keep: OnChip, x: OnChip, otherwise: float) -> Value:
    """``x`` where ``keep`` holds, else the number ``otherwise``; both of one shape."""
    if expect(OnChip, keep).shape != expect(OnChip, x).shape:
        raise BadInput(f"where: the condition has shape {keep.shape} but {x.label} has {x.shape}")
    fill = number(otherwise)
    return elementwise(lambda a, c, out: np.asarray(np.where(c, a, fill)))(x, keep)
