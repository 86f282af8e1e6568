"""Numbers of formulas: exact fractions, and enclosures of what is irrational between two of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from iosim.core.errors import BadInput

MOST_BITS = 4096
MOST_POWER = 64
PRECISION = 256  # bits behind the point of what encloses an irrational number
_GRAIN = 1 << PRECISION


@dataclass(frozen=True, slots=True)
class Number:
    """A real number from ``low`` to ``high``; exact where they are equal, which they are unless a square root was irrational."""

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

    def __str__(self) -> str:
        if self.low.denominator > 1 and abs(self.low) < 10**12:
            return f"{float(self.low):,.6g}" if abs(self.low) < 1000 else f"{float(self.low):,.2f}"
        digits = str(abs(int(self.low)))
        sign = "-" if self.low < 0 else ""
        return f"{int(self.low):,}" if len(digits) <= 18 else f"about {sign}{digits[0]}.{digits[1:3]}e{len(digits) - 1}"


def exactly(value: Fraction | int) -> Number:
    """A fraction as a number; raises :class:`BadInput` where it takes more than 4096 bits."""
    whole = Fraction(value)
    return _between(whole, whole)


def _between(low: Fraction, high: Fraction) -> Number:
    if low != high:
        low, high = Fraction(math.floor(low * _GRAIN), _GRAIN), Fraction(math.ceil(high * _GRAIN), _GRAIN)
    if any(max(end.numerator.bit_length(), end.denominator.bit_length()) > MOST_BITS for end in (low, high)):
        raise BadInput(f"a number of more than {MOST_BITS:,} bits")
    return Number(low, high)


def add(x: Number, y: Number) -> Number:
    """x + y."""
    return _between(x.low + y.low, x.high + y.high)


def negative(x: Number) -> Number:
    """-x."""
    return Number(-x.high, -x.low)


def subtract(x: Number, y: Number) -> Number:
    """x - y."""
    return add(x, negative(y))


def multiply(x: Number, y: Number) -> Number:
    """x * y."""
    ends = [a * b for a in (x.low, x.high) for b in (y.low, y.high)]
    return _between(min(ends), max(ends))


def divide(x: Number, y: Number) -> Number:
    """x / y; raises :class:`BadInput` where y is 0, or may be."""
    if y.low <= 0 <= y.high:
        raise BadInput("division by zero" if y.exact else "square roots leave it open whether this divides by zero")
    return multiply(x, Number(1 / y.high, 1 / y.low))


def floor(x: Number) -> Number:
    """The largest whole number up to x."""
    return _whole(math.floor(x.low), math.floor(x.high))


def ceil(x: Number) -> Number:
    """The smallest whole number from x on."""
    return _whole(math.ceil(x.low), math.ceil(x.high))


def _whole(low: int, high: int) -> Number:
    if low != high:
        raise BadInput(f"square roots leave it open whether this rounds to {low:,} or {high:,}; write the formula so that they cancel")
    return exactly(low)


def floor_divide(x: Number, y: Number) -> Number:
    """floor(x / y)."""
    return floor(divide(x, y))


def remainder(x: Number, y: Number) -> Number:
    """x - y floor(x / y), which has the sign of y."""
    return subtract(x, multiply(y, floor_divide(x, y)))


def power(x: Number, y: Number) -> Number:
    """x to a whole power from -64 to 64."""
    if y.low.denominator > 1 or not y.exact:
        raise BadInput("a power that is no whole number; roots are written sqrt(...)")
    if abs(y.low) > MOST_POWER:
        raise BadInput(f"a power above {MOST_POWER}" if y.low > 0 else f"a power below -{MOST_POWER}")
    result = exactly(1)
    for _ in range(abs(int(y.low))):
        result = multiply(result, x)
    return result if y.low >= 0 else divide(exactly(1), result)


def least(*numbers: Number) -> Number:
    """The smallest of them."""
    return Number(min(x.low for x in numbers), min(x.high for x in numbers))


def largest(*numbers: Number) -> Number:
    """The largest of them."""
    return Number(max(x.low for x in numbers), max(x.high for x in numbers))


def root(x: Number) -> Number:
    """The square root: exact for the square of a fraction, else enclosed to 256 bits behind the point."""
    if x.low < 0:
        raise BadInput("the square root of a negative number")
    (low, _), (_, high) = _root(x.low), _root(x.high)
    return _between(low, high)


def _root(x: Fraction) -> tuple[Fraction, Fraction]:
    up, down = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if up * up == x.numerator and down * down == x.denominator:
        return Fraction(up, down), Fraction(up, down)
    scaled = math.isqrt(math.floor(x * _GRAIN * _GRAIN))
    return Fraction(scaled, _GRAIN), Fraction(scaled + 1, _GRAIN)


OPERATORS: Mapping[str, Callable[[Number, Number], Number]] = {
    "+": add, "-": subtract, "*": multiply, "/": divide, "//": floor_divide, "%": remainder, "**": power,
}  # fmt: skip
FUNCTIONS: Mapping[str, tuple[Callable[..., Number], int]] = {
    "ceil": (ceil, 1), "floor": (floor, 1), "min": (least, 2), "max": (largest, 2), "sqrt": (root, 1),
}  # fmt: skip
"""The functions of formulas by name, each with the fewest arguments it takes; those of one argument take no more."""
