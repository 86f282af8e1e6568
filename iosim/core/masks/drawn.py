"""Tiles of the pair grid as a picture for a notebook: solid where every pair may attend, hatched where some may, empty where none."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iosim.core.masks.arrays import Bool, Index

MOST = 48  # squares along a side; in a larger grid a square stands for several tiles
SIDE = 8  # pixels of a square
HATCH = (
    '<pattern id="iosim-some" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="4" fill="currentColor"/></pattern>'
)


def html(title: str, rows: Index, first: Index, stop: Index, full: Bool, grid: tuple[int, int]) -> str:
    """The picture of a grid ``(Tr, Tc)`` under its title: tiles ``first .. stop - 1`` of a row are kept, ``full`` or not, for every run.

    Where a square stands for several tiles, it is as dark as the share of them that is kept.
    """
    step = -(-max(grid) // MOST)
    width, height = -(-grid[1] // step) * SIDE, -(-grid[0] // step) * SIDE
    frame = f'<rect width="{width}" height="{height}" fill="none" stroke="currentColor"/>'
    told = f"{title}. Solid: all pairs may attend; hatched: some; empty: none." + (
        f" A square is {step} x {step} tiles." if step > 1 else ""
    )
    squares = "".join(_squares(rows, first, stop, full, grid, step))
    picture = f'<svg width="{width}" height="{height}" role="img" aria-label="{told}"><defs>{HATCH}</defs>{squares}{frame}</svg>'
    return f"<div>{picture}<p>{told}</p></div>"


def _squares(rows: Index, first: Index, stop: Index, full: Bool, grid: tuple[int, int], step: int) -> Iterator[str]:
    down = -(-grid[0] // step)
    for col, left in enumerate(range(0, grid[1], step)):
        inside = np.clip(np.minimum(stop, left + step) - np.maximum(first, left), 0, None)
        kept, whole = (np.bincount(rows // step, inside * part, minlength=down) for part in (np.ones(len(rows)), full))
        for row in np.flatnonzero(kept).tolist():
            tiles = min(step, grid[0] - row * step) * min(step, grid[1] - left)
            fill = "currentColor" if kept[row] == whole[row] else "url(#iosim-some)"
            place = f'x="{col * SIDE}" y="{row * SIDE}" width="{SIDE - 0.5}" height="{SIDE - 0.5}"'
            yield f'<rect {place} fill="{fill}" opacity="{kept[row] / tiles:.3g}"/>'
