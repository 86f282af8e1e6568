"""From counted bytes and FLOPs to times: one bandwidth and one rate, fitted on ten published cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosim.calibration import UNFUSED, fit_bandwidth, fit_rate
from iosim.devices import DEVICES, device
from iosim.errors import BadInput
from iosim.paper.counting import CREATED, IDEAL, Asked, OfTables, Options, Work, asked_of, count
from iosim.paper.data import Data
from iosim.published import Cell, Measured, Setup

FLASH = "FlashAttention"
KERNELS: dict[str, tuple[str, Options]] = {
    "PyTorch Attention": ("pytorch", IDEAL),
    "Megatron": ("megatron", IDEAL),
    FLASH: ("flash", CREATED),
    "Apex FMHA": ("fmha", ()),
}
FITTED_ON = 18


@dataclass(frozen=True, slots=True)
class Times:
    """How fast the A100 of the tables was: ``bandwidth`` in bytes/s, ``rate`` in flop/s of a grid that fills every wave.

    ``on_grid`` is the rate as fitted, on a grid whose last wave is not full.
    """

    bandwidth: float
    rate: float
    on_grid: float

    def rate_for(self, setup: Setup) -> float:
        """What is left of the rate where one thread block a head does not fill the last wave."""
        return self.rate * filled(setup)

    def memory(self, work: Work) -> float:
        """Milliseconds that the bytes take."""
        return work.bytes / self.bandwidth * 1e3

    def compute(self, work: Work, setup: Setup) -> float:
        """Milliseconds that the matrix products of a fused kernel take."""
        return work.flops / self.rate_for(setup) * 1e3

    def fused(self, work: Work, setup: Setup) -> float:
        """Milliseconds of a fused kernel: of its bytes or of its products, whichever take longer."""
        return max(self.memory(work), self.compute(work, setup))
