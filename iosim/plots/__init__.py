"""Figures: HBM accesses over N and over M, and words per array. This is the one place that imports matplotlib."""

from iosim.plots.bars import bars
from iosim.plots.curves import curves
from iosim.plots.figures import Figure, write

__all__ = ["Figure", "bars", "curves", "write"]
