"""The memory model: a machine with an HBM and a bounded SRAM, and the values that live on chip."""

from iosim.counts import Counts, Flops, Traffic
from iosim.events import Event, Observer
from iosim.memory.blocks import Block, OnChip, Value
from iosim.memory.functions import exp, finite, log, maximum, nonzero, where
from iosim.memory.hbm import Hbm, Region
from iosim.memory.machine import Machine, Mode
from iosim.memory.tiles import Tile

__all__ = [
    "Block", "Counts", "Event", "Flops", "Hbm", "Machine", "Mode", "Observer", "OnChip", "Region", "Tile", "Traffic", "Value",
    "exp", "finite", "log", "maximum", "nonzero", "where",
]  # fmt: skip
