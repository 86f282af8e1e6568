"""Claims: how near to a published number ours must lie."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that ours differs by at most ``most`` from the published number; ``said`` puts it in words."""

    most: float
    said: str

    def holds(self, published: float, ours: float) -> bool:
        """Whether it is so."""
        return abs(ours - published) <= self.most


def printed(published: float) -> Claim:
    """Equal to the digits that were printed: half a unit of the last one.

    >>> printed(40.3).holds(40.3, 40.265), printed(4.4).holds(4.4, 4.46)
    (True, False)
    """
    last = Decimal(1).scaleb(int(Decimal(repr(published)).as_tuple().exponent))
    return Claim(float(last / 2), "to the digits printed")


def percent(published: float, most: float) -> Claim:
    """At most ``most`` percent of the published number.

    >>> percent(0.939, 0.1).holds(0.939, 0.9395)
    True
    """
    return Claim(abs(published) * most / 100, f"within {most:g} %")


EXACTLY = Claim(0.0, "exactly")
ROUNDED = Claim(0.5, "to the rounding of a whole number")
