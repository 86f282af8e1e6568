"""Who may attend to whom: block masks and their patterns, and the grid of tiles that a loop nest visits."""

from iosim.core.masks import patterns
from iosim.core.masks.block import BlockMask
from iosim.core.masks.npy import load_elements

__all__ = ["BlockMask", "load_elements", "patterns"]
