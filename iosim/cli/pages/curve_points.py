"""Kernels counted at the points of one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iosim.attention.declaration import Kernel
from iosim.attention.sweep import Record, least
from iosim.core.described import described
from iosim.core.problem import Attention
from iosim.core.units import Capacity

Axis = Literal["n", "sram"]


@dataclass(frozen=True, slots=True)
class Curve:
    """Several kernels counted at several points.

    ``points`` are the problems, without block masks, and the capacities; ``rows`` hold one record a kernel for each point. ``pattern`` is
    the block mask of kernels that bring one.
    """

    axis: Axis
    points: list[tuple[Attention, Capacity]]
    listings: dict[str, Kernel]
    rows: list[list[Record]]
    blocks: str
    pattern: str

    @property
    def kernels(self) -> list[str]:
        """The names of the kernels."""
        return list(self.listings)

    @property
    def exact(self) -> list[str]:
        """Those that compute attention on every pair."""
        return [name for name, kernel in self.listings.items() if kernel.computes == "exact"]

    @property
    def letters(self) -> dict[str, str]:
        """One letter for each kernel: its own, or the next digit or letter that is free where it has none or an earlier one has it."""
        own = {name: kernel.letter for name, kernel in self.listings.items()}
        first = {sign: name for name, sign in reversed(own.items())}
        free = iter([sign for sign in "0123456789abcdefghijklmnopqrstuvwxyz" if sign not in first])
        return {name: sign if sign and first[sign] == name else next(free) for name, sign in own.items()}

    @property
    def records(self) -> list[Record]:
        """All records, kernels innermost."""
        return [record for row in self.rows for record in row]

    @property
    def letter(self) -> str:
        """The name of the axis in the papers."""
        return "N" if self.axis == "n" else "M"

    @property
    def names(self) -> list[str]:
        """The points, as people write them."""
        if self.axis == "n":
            return [f"{problem.n:,}" for problem, _ in self.points]
        return [f"{size.amount:,}" if size.unit == "words" else str(size) for _, size in self.points]

    @property
    def fixed(self) -> str:
        """What stays as it is."""
        problem, size = self.points[0]
        if self.axis == "sram":
            return f"{described(problem)}, blocks {self.blocks}"
        return f"{described(problem).removeprefix(f'n={problem.n} ')}, SRAM {size}, blocks {self.blocks}"

    @property
    def bounds(self) -> list[int | None]:
        """The lower bound at each point, for whoever computes every pair; None where no kernel fits."""
        return [least(row) for row in self.rows]

    @property
    def differing(self) -> int:
        """How many counts differ from their closed form."""
        return sum(not all(agreed.values()) for record in self.records if isinstance(agreed := record["agreed"], dict))

    def moved(self, kernel: str) -> list[int | None]:
        """The words that a kernel moves at each point; None where it does not fit."""
        column = self.kernels.index(kernel)
        totals = [row[column]["total"] for row in self.rows]
        return [total if isinstance(total, int) else None for total in totals]

    def over(self, kernel: str) -> list[bool]:
        """Where overflow was recorded."""
        column = self.kernels.index(kernel)
        return [bool(row[column]["overflow"]) for row in self.rows]
