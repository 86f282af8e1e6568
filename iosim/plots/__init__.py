"""Figures: HBM accesses over N and over M, words per array, rooflines, what SRAM holds. This is the one place that imports matplotlib."""

from iosim.errors import MissingExtra

try:
    from matplotlib.figure import Figure

    from iosim.plots.bars import bars
    from iosim.plots.bounds import bounds
    from iosim.plots.curves import curves
    from iosim.plots.figures import write
    from iosim.plots.occupied import timeline
    from iosim.plots.roof import roofline
    from iosim.plots.tiles import tile_map
except Exception as error:  # what is broken is as good as absent
    raise MissingExtra(f"figures need matplotlib, which does not load here ({error}); pip install matplotlib") from error

__all__ = ["Figure", "bars", "bounds", "curves", "roofline", "tile_map", "timeline", "write"]
