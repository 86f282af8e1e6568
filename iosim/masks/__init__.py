"""Who may attend to whom: block masks and their patterns, and the grid of tiles that a loop nest visits."""

from iosim.masks.block import BlockMask

__all__ = ["BlockMask"]
