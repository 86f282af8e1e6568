"""The machine and what lives on chip, as listings import them."""

from iosim.attention.kernels.masking import Mask
from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.events import Event, Observer
from iosim.machine import Block, Hbm, Machine, Mode, OnChip, Region, Tile, Value, exp, finite, log, maximum, nonzero, where

__all__ = [
    "Block", "Counts", "Event", "Flops", "Hbm", "Machine", "Mask", "Mode", "Observer", "OnChip", "Region", "Tile", "Traffic", "Value",
    "exp", "finite", "log", "maximum", "nonzero", "where",
]  # fmt: skip
