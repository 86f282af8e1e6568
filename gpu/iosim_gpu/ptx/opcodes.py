"""Every arithmetic opcode that the emulator runs, with all its modifiers: a table from the whole opcode to what it computes.

An opcode that is not a key here, or in `transfers`, or one of the few that steer, is refused; no modifier is ever skipped.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iosim_gpu.ptx import arithmetic as ar
from iosim_gpu.ptx.dtypes import DTYPES, bits

Compute: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Op:
    """One opcode: the PTX types of its result and operands, and the operation on lanes.

    `resizes`: a register may be wider than the type (`cvt`). `divides`: the last operand must not be zero in a lane that counts.
    """

    result: str
    operands: tuple[str, ...]
    compute: Compute
    resizes: bool = False
    divides: bool = False


_Rows: TypeAlias = Iterator[tuple[str, Op]]

_SIGNED, _UNSIGNED = ("s16", "s32", "s64"), ("u16", "u32", "u64")
_INTEGERS = (*_SIGNED, *_UNSIGNED)
_BITS = ("b16", "b32", "b64")
_FLOATS = ("f32", "f64")
_NARROW = ("s8", "u8")
_WIDE = {"s16": "s32", "u16": "u32", "s32": "s64", "u32": "u64"}


def _same(kind: str, count: int, compute: Compute, *, divides: bool = False) -> Op:
    return Op(kind, (kind,) * count, compute, divides=divides)


def _integers() -> _Rows:
    for t in _INTEGERS:
        # Two's complement: sums and low halves of products have the same bits for both signs.
        for name, compute in {"add": np.add, "sub": np.subtract, "mul.lo": np.multiply}.items():
            yield f"{name}.{t}", _same(bits(t), 2, compute)
        yield f"mad.lo.{t}", _same(bits(t), 3, lambda a, b, c: a * b + c)
        yield f"mul.hi.{t}", _same(t, 2, ar.high_half)
        yield f"div.{t}", _same(t, 2, ar.quotient, divides=True)
        yield f"rem.{t}", _same(t, 2, np.fmod, divides=True)
        yield f"min.{t}", _same(t, 2, np.minimum)
        yield f"max.{t}", _same(t, 2, np.maximum)
    for t, wide in _WIDE.items():
        yield f"mul.wide.{t}", Op(wide, (t, t), ar.wide_product)
        yield f"mad.wide.{t}", Op(wide, (t, t, wide), lambda a, b, c: ar.wide_product(a, b) + c)
    for t in _SIGNED:
        yield f"neg.{t}", _same(t, 1, np.negative)
        yield f"abs.{t}", _same(t, 1, np.abs)


def _logic() -> _Rows:
    for name, function in {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}.items():
        for t in ("pred", *_BITS):
            yield f"{name}.{t}", _same(t, 2, function)
    for t in ("pred", *_BITS):
        yield f"not.{t}", _same(t, 1, np.invert)
    for t in _BITS:
        yield f"shl.{t}", Op(t, (t, "u32"), ar.shift_left)
        yield f"shr.{t}", Op("u" + t[1:], ("u" + t[1:], "u32"), ar.shift_right)
    for t in _INTEGERS:
        yield f"shr.{t}", Op(t, (t, "u32"), ar.shift_right)


def _flushes(name: str, kind: str, count: int, compute: Compute) -> _Rows:
    """A row, and for float32 its `.ftz` form."""
    yield f"{name}.{kind}", _same(kind, count, compute)
    if kind == "f32":
        yield f"{name}.ftz.f32", _same(kind, count, ar.flushing(compute))


def _floats() -> _Rows:
    for t in _FLOATS:
        for rounding in ("", ".rn"):
            for name, compute in {"add": np.add, "sub": np.subtract, "mul": np.multiply}.items():
                yield from _flushes(f"{name}{rounding}", t, 2, compute)
        yield from _flushes("div.rn", t, 2, np.divide)
        yield from _flushes("rcp.rn", t, 1, ar.reciprocal)
        yield from _flushes("sqrt.rn", t, 1, np.sqrt)
        yield from _flushes("min", t, 2, ar.smaller)
        yield from _flushes("max", t, 2, ar.larger)
        yield from _flushes("neg", t, 1, np.negative)
        yield from _flushes("abs", t, 1, np.abs)
        yield f"copysign.{t}", _same(t, 2, lambda sign, size: np.copysign(size, sign))
    yield from _flushes("fma.rn", "f32", 3, ar.fused)
    yield from _flushes("fma.rm", "f32", 3, ar.fused_down)


def _approximations() -> _Rows:
    """Rounded once from float64 instead (`arithmetic.through_double`); a quotient is the correctly rounded one."""
    functions: dict[str, Compute] = {"ex2": np.exp2, "lg2": np.log2, "sqrt": np.sqrt, "rsqrt": ar.reciprocal_root}
    for name, function in functions.items():
        yield from _flushes(f"{name}.approx", "f32", 1, ar.through_double(function))
    yield "tanh.approx.f32", _same("f32", 1, ar.through_double(np.tanh))
    yield from _flushes("rcp.approx", "f32", 1, ar.reciprocal)
    yield from _flushes("div.approx", "f32", 2, np.divide)
    yield from _flushes("div.full", "f32", 2, np.divide)


_ORDER: dict[str, Compute] = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}


def _comparisons() -> _Rows:
    for name, compare in _ORDER.items():
        for t in _INTEGERS:
            yield f"setp.{name}.{t}", Op("pred", (t, t), compare)
        yield from _float_comparison(name, ar.differ if name == "ne" else compare)
        yield from _float_comparison(name + "u", ar.unordered(compare))
    for name in ("eq", "ne"):
        for t in _BITS:
            yield f"setp.{name}.{t}", Op("pred", (t, t), _ORDER[name])
    yield from _float_comparison("num", ar.both_numbers)
    yield from _float_comparison("nan", ar.either_nan)


def _float_comparison(name: str, compare: Compute) -> _Rows:
    for t in _FLOATS:
        yield f"setp.{name}.{t}", Op("pred", (t, t), compare)
    yield f"setp.{name}.ftz.f32", Op("pred", ("f32", "f32"), ar.flushing(compare))


def _moves() -> _Rows:
    for t in (*_BITS, *_INTEGERS, *_FLOATS):
        kept = bits(t) if t in _INTEGERS else t
        yield f"selp.{t}", Op(kept, (kept, kept, "pred"), lambda a, b, p: np.where(p, a, b))
        yield f"mov.{t}", _same(kept, 1, lambda a: a)
    yield "mov.pred", _same("pred", 1, lambda a: a)
    # The arrays lie where generic and global addresses agree.
    yield "cvta.to.global.u64", _same("b64", 1, lambda a: a)
    yield "cvta.global.u64", _same("b64", 1, lambda a: a)


def _convert(result: str, source: str, compute: Compute) -> Op:
    return Op(result, (source,), compute, resizes=True)


def _cast(kind: str) -> Compute:
    dtype = DTYPES[kind]
    return lambda a: a.astype(dtype)


_ROUNDINGS: dict[str, Compute] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def _conversions() -> _Rows:
    integers = (*_NARROW, *_INTEGERS)
    for source in integers:
        for target in integers:
            yield f"cvt.{target}.{source}", _convert(target, source, _cast(target))
        for target in _FLOATS:
            yield f"cvt.rn.{target}.{source}", _convert(target, source, _cast(target))
    for name, rounding in _ROUNDINGS.items():
        yield from _roundings(name, rounding)
    yield "cvt.f32.f16", _convert("f32", "f16", _cast("f32"))
    yield "cvt.rn.f16.f32", _convert("f16", "f32", _cast("f16"))
    yield "cvt.f64.f32", _convert("f64", "f32", _cast("f64"))
    yield "cvt.ftz.f64.f32", _convert("f64", "f32", lambda a: ar.flush(a).astype(np.float64))
    yield "cvt.rn.f32.f64", _convert("f32", "f64", _cast("f32"))
    yield "cvt.rn.ftz.f32.f64", _convert("f32", "f64", lambda a: ar.flush(a.astype(np.float32)))
    yield "cvt.sat.f32.f32", _same("f32", 1, ar.saturate)
    yield "cvt.ftz.sat.f32.f32", _same("f32", 1, ar.flushing(ar.saturate))


def _roundings(name: str, rounding: Compute) -> _Rows:
    for source in _FLOATS:
        yield f"cvt.{name}.{source}.{source}", _same(source, 1, rounding)
        for target in ("s32", "u32", "s64", "u64"):
            compute = ar.to_integer(rounding, DTYPES[source], DTYPES[target])
            yield f"cvt.{name}.{target}.{source}", _convert(target, source, compute)
            if source == "f32":
                yield f"cvt.{name}.ftz.{target}.f32", _convert(target, "f32", ar.flushing(compute))
    yield f"cvt.{name}.ftz.f32.f32", _same("f32", 1, ar.flushing(rounding))


_GROUPS = (_integers, _logic, _floats, _approximations, _comparisons, _moves, _conversions)

OPS: dict[str, Op] = {name: op for rows in _GROUPS for name, op in rows()}
"""The whole table, such as `OPS["add.s64"]`."""
