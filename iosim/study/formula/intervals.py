"""Numbers of formulas: exact fractions, and enclosures of what is irrational between two of them."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial, reduce
from itertools import product, repeat

from iosim.core.errors import BadInput

MOST_BITS = 4096
MOST_POWER = 64
PRECISION = 256  # bits behind the point of what encloses an irrational number
_GRAIN = 1 << PRECISION


@dataclass(frozen=True, slots=True)
class Number:
    """A real number from ``low`` to ``high``; exact where they are equal, which they are unless a square root was irrational.

    Arithmetic encloses every possible result. It raises :class:`BadInput` for what is undefined, for what an enclosure leaves open,
    for powers that are not whole or beyond 64, and for numbers of more than 4096 bits.
    """

    low: Fraction
    high: Fraction

    @property
    def exact(self) -> bool:
        """Whether it is known as a fraction."""
        return self.low == self.high

    def equals(self, count: int) -> bool:
        """Whether it is ``count``; raises :class:`BadInput` where an enclosure cannot tell."""
        if not self.exact and self.low <= count <= self.high:
            raise BadInput(f"square roots leave it open whether this is {count:,}; write the formula so that they cancel")
        return self.low == count

    def __add__(self, other: Number) -> Number:
        return _enclosing(self.low + other.low, self.high + other.high)

    def __pos__(self) -> Number:
        return self

    def __neg__(self) -> Number:
        return Number(-self.high, -self.low)

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __mul__(self, other: Number) -> Number:
        return _enclosing(*(a * b for a, b in product((self.low, self.high), (other.low, other.high))))

    def __truediv__(self, other: Number) -> Number:
        if other.low <= 0 <= other.high:
            raise BadInput("division by zero" if other.exact else "square roots leave it open whether this divides by zero")
        return self * Number(1 / other.high, 1 / other.low)

    def __floordiv__(self, other: Number) -> Number:
        return _rounded(math.floor, self / other)

    def __mod__(self, other: Number) -> Number:
        return self - other * (self // other)

    def __pow__(self, other: Number) -> Number:
        if not other.exact or other.low.denominator > 1:
            raise BadInput("a power that is no whole number; roots are written sqrt(...)")
        if abs(other.low) > MOST_POWER:
            raise BadInput(f"a power above {MOST_POWER}" if other.low > 0 else f"a power below -{MOST_POWER}")
        result = reduce(operator.mul, repeat(self, abs(int(other.low))), exactly(1))
        return result if other.low >= 0 else exactly(1) / result

    def __str__(self) -> str:
        if self.low.denominator > 1 and abs(self.low) < 10**12:
            return f"{float(self.low):,.6g}" if abs(self.low) < 1000 else f"{float(self.low):,.2f}"
        digits = str(abs(int(self.low)))
        sign = "-" if self.low < 0 else ""
        return f"{int(self.low):,}" if len(digits) <= 18 else f"about {sign}{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def exactly(value: Fraction | int) -> Number:
    """A fraction as a number; raises :class:`BadInput` where it takes more than 4096 bits."""
    return _enclosing(Fraction(value))


def _enclosing(*values: Fraction) -> Number:
    """The shortest enclosure of some values, rounded outward to 256 bits behind the point."""
    low, high = min(values), max(values)
    if low != high:
        low, high = Fraction(math.floor(low * _GRAIN), _GRAIN), Fraction(math.ceil(high * _GRAIN), _GRAIN)
    if any(max(end.numerator.bit_length(), end.denominator.bit_length()) > MOST_BITS for end in (low, high)):
        raise BadInput(f"a number of more than {MOST_BITS:,} bits")
    return Number(low, high)


def _rounded(rule: Callable[[Fraction], int], x: Number) -> Number:
    low, high = rule(x.low), rule(x.high)
    if low != high:
        raise BadInput(f"square roots leave it open whether this rounds to {low:,} or {high:,}; write the formula so that they cancel")
    return exactly(low)


def _extreme(rule: Callable[[Iterable[Fraction]], Fraction], *numbers: Number) -> Number:
    return Number(rule(x.low for x in numbers), rule(x.high for x in numbers))


def root(x: Number) -> Number:
    """The square root: exact for the square of a fraction, else enclosed to 256 bits behind the point."""
    if x.low < 0:
        raise BadInput("the square root of a negative number")
    return _enclosing(*_root(x.low), *_root(x.high))


def _root(x: Fraction) -> tuple[Fraction, ...]:
    up, down = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if up * up == x.numerator and down * down == x.denominator:
        return (Fraction(up, down),)
    scaled = math.isqrt(math.floor(x * _GRAIN * _GRAIN))
    return Fraction(scaled, _GRAIN), Fraction(scaled + 1, _GRAIN)


OPERATORS: Mapping[type[ast.AST], Callable[..., Number]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip
FUNCTIONS: Mapping[str, tuple[Callable[..., Number], int]] = {
    "ceil": (partial(_rounded, math.ceil), 1), "floor": (partial(_rounded, math.floor), 1),
    "min": (partial(_extreme, min), 2), "max": (partial(_extreme, max), 2), "sqrt": (root, 1),
}  # fmt: skip
"""The functions of formulas by name, each with the fewest arguments it takes; those of one argument take no more."""
