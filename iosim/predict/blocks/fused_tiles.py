"""Attention in fused tiles, as a mapping tool counts it: S = QK^T, P from S word by word, O = PV; room for tiles of Q K V S P O alone.

The three steps share a loop over query tiles of Br and one over key tiles of Bc, in either order; a tile of S, and then P beside it, is
all that they hand on. Q, K, V and O each have a tile on chip that waits above the inner loop, whole columns wide, or stream past
within a step: beside the tile of S or P one streamed matrix takes a word, two take a line along the tile's shorter side, and a word.
No row sums and no row maxima: P is taken to be a function of S alone. Each step has the room of the one before.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from iosim.core.problem import Attention
from iosim.predict.sizes import Int, Ints, ceil_div

Order = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The ``outside`` loop, and which of Q, K, V and O wait on chip above the inner loop."""

    outside: Order
    waits: frozenset[str]

    def __str__(self) -> str:
        kept = " ".join(name for name in "QKVO" if name in self.waits)
        return f"fused, {self.outside} outside, {kept or 'nothing'} waits"

    def words(self, p: Attention, rows: Ints, cols: Ints) -> Ints:
        """What moves in tiles of ``rows`` x ``cols``: what waits once, what streams once a tile of the other axis."""
        down, across = ceil_div(p.n, rows), ceil_div(p.nk, cols)
        times = {"Q": across, "K": down, "V": down, "O": 2 * across - 1}
        sizes = {"Q": p.n * p.d, "K": p.nk * p.d, "V": p.nk * p.dv, "O": p.n * p.dv}
        moved = sum(sizes[name] * (1 if name in self.waits else times[name]) for name in sizes)
        return np.asarray(np.broadcast_to(moved, np.broadcast_shapes(rows.shape, cols.shape)))

    def room(self, p: Attention, rows: Ints, cols: Ints) -> Ints:
        """What stands on chip at once: all that waits, and the largest of the three steps."""
        inner = self.outside == "keys"
        high, wide = (p.n, cols) if inner else (rows, p.nk)
        sizes: dict[str, Int] = {"Q": high * p.d, "K": wide * p.d, "V": wide * p.dv, "O": high * p.dv}
        waiting = sum(sizes[name] for name in self.waits)
        steps = (self._streams("QK", rows, cols), rows * cols, self._streams("VO", rows, cols))
        return np.asarray(waiting + rows * cols + np.maximum(np.maximum(steps[0], steps[2]), steps[1]))

    def _streams(self, pair: str, rows: Ints, cols: Ints) -> Int:
        """The room of those of two matrices that stream past a tile of S or P."""
        match sum(name not in self.waits for name in pair):
            case 0:
                return 0
            case 1:
                return 1
            case _:
                return np.minimum(rows, cols) + 1


def most_words(p: Attention) -> int:
    """No tiles of a group move more, fused or not: for each multiply-add three words and a sum's second, for two products."""
    return p.group * p.n * p.nk * 4 * (p.d + p.dv)


SCHEDULES = tuple(
    Schedule(outside, frozenset(name for name, waits in zip("QKVO", chosen, strict=True) if waits))
    for outside in ("queries", "keys")
    for chosen in product((False, True), repeat=4)
)
