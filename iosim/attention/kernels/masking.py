"""The scores of one tile, and what a mask does to them (FlashAttention paper, Algorithm 2, lines 10 and 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.core.masks.grid import Grid, Rule
from iosim.machine import Block, Hbm, Machine, OnChip, Tile, where


@dataclass(frozen=True, slots=True)
class Mask:
    """What a listing asks about who may attend: which tiles (``grid``), and inside a tile by index or by element.

    ``rule`` is computed from indices and moves no words; ``elements`` is a boolean HBM array, read tile by tile.
    ``kept`` says which weights dropout keeps, from indices too, and ``kept_scale`` = 1 / (1 - p) what those are multiplied by.
    """

    grid: Grid
    rule: Rule | None = None
    elements: Hbm | None = None
    kept: Rule | None = None
    kept_scale: float = 1.0

    def hide(self, m: Machine, s: Block, i: Tile, j: Tile) -> None:
        """Set the scores of forbidden pairs to -inf."""
        if self.rule is not None:
            s[...] = where(m.pairs(self.rule, i, j), s, -np.inf)
        if self.elements is not None:
            s[...] = where(m.load(self.elements[i, j]), s, -np.inf)


def scores(m: Machine, q: Block, k: Block, i: Tile, j: Tile, scale: float, mask: Mask) -> Block:
    """S_ij = scale Q_i K_j^T, -inf where a pair may not attend; takes room for Br x Bc words."""
    s = m.let(scale * (q @ k.T), "S_ij")
    if not (i.full and j.full):
        mask.hide(m, s, i, j)
    return s


def dropped(m: Machine, p: OnChip, i: Tile, j: Tile, mask: Mask) -> OnChip:
    """P_ij, or a gradient of it, after dropout (Algorithm 2, line 14); the same for every tile size and pass, and no words move."""
    return p if mask.kept is None else p * (mask.kept_scale * m.pairs(mask.kept, i, j))
