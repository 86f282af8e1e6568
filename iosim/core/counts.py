"""What a finished machine reports: exact integers."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.core.units import Unit


@dataclass(frozen=True, slots=True)
class Traffic:
    """Words moved to and from one HBM array; ``writes`` includes the ``init_writes``."""

    reads: int = 0
    writes: int = 0
    init_writes: int = 0
    itemsize: int = 4

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(self.reads + other.reads, self.writes + other.writes, self.init_writes + other.init_writes, self.itemsize)

    def __mul__(self, times: int) -> Traffic:
        return Traffic(self.reads * times, self.writes * times, self.init_writes * times, self.itemsize)


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations: 2 r k c for a product, one an element otherwise, exponentials and logarithms apart."""

    matmul: int = 0
    elementwise: int = 0
    exp: int = 0

    def __mul__(self, times: int) -> Flops:
        return Flops(self.matmul * times, self.elementwise * times, self.exp * times)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one run of one listing.

    ``peak_sram`` and ``overflow`` (how far the peak lay above M, 0 if it fitted) are in ``unit``; ``largest_unnamed`` and
    ``peak_unnamed`` (one value, and all that live at once) and ``peak_hbm`` in words; ``peak_hbm_bytes`` in bytes.
    """

    arrays: dict[str, Traffic]
    flops: Flops
    peak_sram: int
    overflow: int
    unit: Unit
    largest_unnamed: int
    peak_unnamed: int
    peak_hbm: int
    peak_hbm_bytes: int
