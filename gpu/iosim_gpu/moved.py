"""What a meter measures: elements that each array moves, and transactions where the meter sees them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Moved:
    """What a run moved of one array.

    Args:
        loads, stores: elements.
        atomics: elements updated atomically, each of which is read and written.
        sectors: 32-byte sectors that were touched, request by request; None where the meter cannot see them.
        requests: instructions of warps; None where the meter cannot see them.
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
