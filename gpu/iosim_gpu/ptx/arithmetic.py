"""Arithmetic of PTX that NumPy lacks, on arrays of lanes. Every function here is exact unless its docstring says otherwise.

Overflow, NaN and division by zero in lanes that do not count are silent: callers hold `np.errstate(all="ignore")`.
The rules are those of the PTX ISA, chapters on integer, floating-point, comparison and conversion instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iosim_gpu.ptx.dtypes import Lanes

_TINY = np.float32(2.0**-126)  # the smallest normal float32


def flush(x: Lanes) -> Lanes:
    """`.ftz`: a subnormal float32 becomes zero of its sign."""
    return np.where(np.abs(x) < _TINY, np.copysign(np.float32(0), x), x)


def flushing(compute: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """The `.ftz` form of an operation on float32: subnormal operands, and a subnormal result after rounding, count as zero."""

    def flushed(*operands: Lanes) -> Lanes:
        result = compute(*(flush(x) if x.dtype == np.float32 else x for x in operands))
        return flush(result) if result.dtype == np.float32 else result

    return flushed


def quotient(a: Lanes, b: Lanes) -> Lanes:
    """`div` of integers, cut towards zero; `b` is nowhere zero. The most negative number over -1 wraps to itself.

    >>> quotient(np.array([-7, 7]), np.array([2, -2])).tolist()
    [-3, -3]
    """
    truncated: Lanes = (a - np.fmod(a, b)) // b
    return truncated


def high_half(a: Lanes, b: Lanes) -> Lanes:
    """`mul.hi`: the upper half of the full product, for operands of 16, 32 or 64 bits.

    >>> int(high_half(np.array(-1), np.array(1)))
    -1
    """
    if a.dtype.itemsize == 8:
        return _high_64(a, b)
    width = a.dtype.itemsize
    wide = a.astype(f"{a.dtype.kind}{2 * width}") * b.astype(f"{a.dtype.kind}{2 * width}")
    high: Lanes = (wide >> (8 * width)).astype(a.dtype)
    return high


def _high_64(a: Lanes, b: Lanes) -> Lanes:
    """Four products of 32-bit halves; a negative factor then counts as itself plus 2^64, which is put right."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + (x0 * y0 >> half)
    top: Lanes = x1 * y1 + (middle >> half) + ((x0 * y1 + (middle & low)) >> half)
    negative = np.where(a < 0, b, 0) + np.where(b < 0, a, 0)
    return top if a.dtype.kind == "u" else top.view(np.int64) - negative


def wide_product(a: Lanes, b: Lanes) -> Lanes:
    """`mul.wide`: the whole product, in twice the width."""
    wide = f"{a.dtype.kind}{2 * a.dtype.itemsize}"
    product: Lanes = a.astype(wide) * b.astype(wide)
    return product


def shift_left(a: Lanes, amount: Lanes) -> Lanes:
    """`shl`: an amount (unsigned, 32 bits) of the width or more gives zero."""
    shifted: Lanes = np.left_shift(a, amount)
    return shifted.astype(a.dtype, copy=False)


def shift_right(a: Lanes, amount: Lanes) -> Lanes:
    """`shr`: sign bits come in for signed operands, zeros for unsigned ones; amounts beyond the width shift all out."""
    shifted: Lanes = np.right_shift(a, amount)
    return shifted.astype(a.dtype, copy=False)


def smaller(a: Lanes, b: Lanes) -> Lanes:
    """`min` of floats: the other operand where one is NaN, and -0 below +0."""
    return np.where(a == b, _merge_bits(np.bitwise_or, a, b), np.fmin(a, b))


def larger(a: Lanes, b: Lanes) -> Lanes:
    """`max` of floats: the other operand where one is NaN, and +0 above -0."""
    return np.where(a == b, _merge_bits(np.bitwise_and, a, b), np.fmax(a, b))


def _merge_bits(merge: np.ufunc, a: Lanes, b: Lanes) -> Lanes:
    """Equal floats differ in the sign of zero at most: or keeps a minus, and drops it."""
    whole = f"i{a.dtype.itemsize}"
    merged: Lanes = merge(a.view(whole), b.view(whole))
    return merged.view(a.dtype)


def _exact_sum_odd(product: Lanes, c: Lanes) -> Lanes:
    """The float64 sum rounded to odd: then a second rounding, to float32, is as good as a single one.

    The product of two float32 is exact in float64, and the error of the sum is exact too (Knuth's two-sum). Where there is one,
    the last bit of the truncated sum is set (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    number = np.ascontiguousarray(total).view(np.int64)
    off = np.isfinite(total) & (error != 0) & ((number & 1) == 0)
    towards = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(off, number + towards, number).view(np.float64).reshape(np.shape(total))


def fused(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """`fma.rn.f32`: a * b + c rounded once, to nearest, ties to even.

    A float64 sum rounded again differs from that only where it lies halfway between two float32, so that its 28 lowest bits
    are zero. Those are rare, and only they are worth the exact sum.

    >>> float(fused(np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-60))) == 1 + 2**-11 + 2**-23
    True
    """
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    low = total.view(np.int64) & 0x0FFFFFFF
    if np.count_nonzero(low) < low.size:
        total = _exact_sum_odd(product, addend)
    return total.astype(np.float32)


def fused_down(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
    """`fma.rm.f32`: a * b + c rounded once, towards minus infinity; an exact zero of opposite signs is -0."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    exact = _exact_sum_odd(product, addend)
    nearest = exact.astype(np.float32)
    down = np.where(nearest.astype(np.float64) > exact, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    return np.where((exact == 0) & (np.signbit(product) | np.signbit(addend)), np.float32(-0.0), down)


def saturate(x: Lanes) -> Lanes:
    """`cvt.sat`: clamped to [0, 1]; NaN and -0 give +0."""
    return np.where(x > 0, np.minimum(x, np.float32(1)), np.float32(0))


def through_double(function: Callable[[Lanes], Any]) -> Callable[[Lanes], Lanes]:
    """An approximate float32 function (`ex2.approx`, `lg2.approx`, ...) as its float64 value rounded to float32.

    Not what hardware gives to the last bit: the PTX ISA allows it an error of a few units in the last place, and says how many.
    """
    return lambda x: np.asarray(function(x.astype(np.float64))).astype(np.float32)


def reciprocal(x: Lanes) -> Lanes:
    """`rcp`, correctly rounded."""
    one: Lanes = x.dtype.type(1)
    return one / x


def reciprocal_root(x: Lanes) -> Lanes:
    """1 / sqrt(x); sqrt(-0) is -0, so its reciprocal is minus infinity."""
    return 1 / np.sqrt(x)


def to_integer(rounding: Callable[[Lanes], Lanes], source: np.dtype[Any], target: np.dtype[Any]) -> Callable[[Lanes], Lanes]:
    """`cvt` from float to integer: rounded, then clamped to the target's range.

    NaN gives zero from float32 to 32 bits, and otherwise the top bit alone.
    """
    limits = np.iinfo(target)
    beyond = float(limits.max)  # of 64 bits one more, which is as good: no float64 lies between
    of_nan = 0 if source.itemsize < 8 and target.itemsize < 8 else 1 << (8 * target.itemsize - 1)
    nan = np.array(of_nan, f"u{target.itemsize}").view(target)

    def rounded(x: Lanes) -> Lanes:
        whole = rounding(x.astype(np.float64))
        inside = (whole >= float(limits.min)) & (whole < beyond)
        clamped = np.where(whole >= beyond, limits.max, limits.min).astype(target)
        kept = np.where(inside, np.where(inside, whole, 0.0).astype(target), clamped)
        return np.where(np.isnan(whole), nan, kept)

    return rounded


def unordered(compare: Callable[[Lanes, Lanes], Lanes]) -> Callable[[Lanes, Lanes], Lanes]:
    """`setp.ltu` and its like: also true where an operand is NaN."""
    return lambda a, b: compare(a, b) | np.isnan(a) | np.isnan(b)


def differ(a: Lanes, b: Lanes) -> Lanes:
    """`setp.ne` of floats: less or greater, so false where an operand is NaN."""
    return (a < b) | (a > b)


def both_numbers(a: Lanes, b: Lanes) -> Lanes:
    """`setp.num`: neither operand is NaN."""
    return ~(np.isnan(a) | np.isnan(b))


def either_nan(a: Lanes, b: Lanes) -> Lanes:
    """`setp.nan`: an operand is NaN."""
    return np.isnan(a) | np.isnan(b)
