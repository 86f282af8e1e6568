"""What a meter measures: elements that each array moves, and transactions where the meter sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Moved:
    """Elements of one array that a run loaded, stored and updated atomically; an atomic update reads and writes its element.

    ``sectors``: 32-byte sectors that its loads, stores and atomics touched, one request (a warp's instruction) at a time;
    ``requests``: how many such requests there were. None where the meter cannot see them.
    """

    loads: int = 0
    stores: int = 0
    atomics: int = 0
    sectors: int | None = None
    requests: int | None = None

    @property
    def reads(self) -> int:
        """Elements read, atomics among them."""
        return self.loads + self.atomics

    @property
    def writes(self) -> int:
        """Elements written, atomics among them."""
        return self.stores + self.atomics

    def __add__(self, other: Moved) -> Moved:
        return Moved(
            self.loads + other.loads, self.stores + other.stores, self.atomics + other.atomics,
            _both(self.sectors, other.sectors), _both(self.requests, other.requests),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One run of one case under one meter: what every array moved, and the arrays afterwards."""

    meter: str
    arrays: dict[str, Moved]
    outputs: dict[str, Array] = field(default_factory=dict)


def _both(x: int | None, y: int | None) -> int | None:
    return None if x is None or y is None else x + y
