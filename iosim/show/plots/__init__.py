"""Figures: HBM accesses over N and over M, words per array, rooflines, what SRAM holds. This is the one place that imports matplotlib."""

from iosim.core.errors import MissingExtra

try:
    from matplotlib.figure import Figure

    from iosim.show.plots.bars import bars
    from iosim.show.plots.bounds import bounds
    from iosim.show.plots.curves import curves
    from iosim.show.plots.figures import write
    from iosim.show.plots.roofline import roofline
    from iosim.show.plots.tile_map import tile_map
    from iosim.show.plots.timeline import timeline
except Exception as error:  # what is broken is as good as absent
    raise MissingExtra(f"figures need matplotlib, which does not load here ({error}); pip install matplotlib") from error

__all__ = ["Figure", "bars", "bounds", "curves", "roofline", "tile_map", "timeline", "write"]
