"""Who may attend to whom: block masks and their patterns, and the grid of tiles that a loop nest visits."""

from iosim.masks import patterns
from iosim.masks.block import BlockMask
from iosim.masks.npy import load_elements

__all__ = ["BlockMask", "load_elements", "patterns"]
