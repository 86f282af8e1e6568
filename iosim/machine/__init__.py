"""The memory model: a machine with an HBM and a bounded SRAM, and the values that live on chip."""

from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.events import Event, Observer
from iosim.machine.blocks import Block, OnChip, Value
from iosim.machine.functions import exp, finite, log, maximum, nonzero, where
from iosim.machine.hbm import Hbm, Region
from iosim.machine.ledger import Mode
from iosim.machine.machine import Machine
from iosim.machine.tiles import Tile

__all__ = [
    "Block", "Counts", "Event", "Flops", "Hbm", "Machine", "Mode", "Observer", "OnChip", "Region", "Tile", "Traffic", "Value",
    "exp", "finite", "log", "maximum", "nonzero", "where",
]  # fmt: skip
