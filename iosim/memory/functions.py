"""Functions of on-chip values, beside the operators."""

from __future__ import annotations

import numpy as np

from iosim.errors import BadInput
from iosim.memory.blocks import OnChip, Operand, Value, elementwise, number, on_chip


def exp(x: OnChip) -> Value:
    """e to the x, element by element; counted as ``exp``."""
    m, a = on_chip(x).machine, x.take()
    words = m.count_exp(x.shape)
    return Value(m, x.shape, None if a is None else np.exp(a, out=a if x.__class__ is Value else None), words)


def log(x: OnChip) -> Value:
    """The natural logarithm, log 0 = -inf without a warning; counted as ``exp``."""
    m, a = on_chip(x).machine, x.take()
    words = m.count_exp(x.shape)
    with np.errstate(divide="ignore"):
        return Value(m, x.shape, None if a is None else np.log(a), words)


def maximum(x: Operand, y: Operand) -> Value:
    """The larger of two operands, element by element."""
    return larger(x, y) if isinstance(x, OnChip) else larger(on_chip(y), x)


larger = elementwise(np.maximum)


def where(keep: OnChip, x: OnChip, otherwise: float) -> Value:
    """``x`` where ``keep`` holds, else the number ``otherwise``; both of one shape."""
    if on_chip(keep).shape != on_chip(x).shape:
        raise BadInput(f"where: the condition has shape {keep.shape} but {x.label} has {x.shape}")
    m, fill = x.machine, number(otherwise)
    x.meet(keep)
    c, a = keep.take(), x.take()
    words = m.count_elementwise(x.shape)
    return Value(m, x.shape, None if a is None or c is None else np.where(c, a, fill), words)


def finite(x: OnChip) -> Value:
    """``x`` with -inf raised to the lowest finite number, so that -inf - finite(-inf) is -inf and its exp 0, not NaN.

    A running maximum still starts at -inf: this only guards the subtraction for rows that have seen no key.
    """
    m, a = on_chip(x).machine, x.take()
    words = m.count_elementwise(x.shape)
    return Value(m, x.shape, None if a is None else np.maximum(a, m.lowest), words)


def nonzero(x: OnChip) -> Value:
    """``x`` with 0 replaced by 1: the normaliser of a row that attends to nothing, whose sum 0 then stays 0."""
    m, a = on_chip(x).machine, x.take()
    words = m.count_elementwise(x.shape)
    return Value(m, x.shape, None if a is None else np.where(np.equal(a, 0), 1, a), words)
