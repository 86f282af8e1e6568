"""The ideal frontier: attention as a mapping tool counts it, the best of every schedule in fused tiles and of two products by themselves.

By themselves S = QK^T stores P, each word made from a word of S as it leaves, and O = PV loads it: each product in tiles of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.predict.blocks.fused_tiles import SCHEDULES, Schedule, most_words
from iosim.predict.blocks.product_tiles import Steps, in_turn, product_steps
from iosim.predict.blocks.staircase import check_countable, lowest, smallest_blocks, step_at
from iosim.predict.sizes import Ints

APART = "P through HBM"


@dataclass(frozen=True, slots=True, eq=False)
class IdealFrontier:
    """The fewest words at every SRAM, as :class:`iosim.predict.Frontier` has them; ``schedules[i]`` says how ``words[i]`` move."""

    sram: Ints
    words: Ints
    schedules: tuple[str, ...]

    def at(self, sram: ArrayLike) -> Ints:
        """The step that holds at each SRAM, as an index into the arrays; -1 where nothing fits."""
        return step_at(self.sram, np.asarray(sram))


def ideal_frontier(problem: Attention) -> IdealFrontier:
    """The fewest words of one KV head and its group, without a mask, in the ideal accounting: Q K V O and S or P in tiles, nothing else.

    Raises :class:`iosim.core.errors.BadInput` for a problem with a mask.

    >>> found = ideal_frontier(Attention(n=256, d=32))
    >>> found.words[found.at([430, 1056, 8448, 16450])] // (256 * 32)
    array([57, 34,  6,  4])
    """
    if problem.masked:
        raise BadInput("the ideal accounting knows no masks; leave causal, window and masks out")
    check_countable(most_words(problem))
    found = [(str(schedule), _fused(problem, schedule)) for schedule in SCHEDULES] + [(APART, _apart(problem))]
    sram, words = (np.concatenate(parts) for parts in zip(*(steps for _, steps in found), strict=True))
    who = np.repeat(np.arange(len(found)), [len(steps.sram) for _, steps in found])
    keep = lowest(sram, words)
    return IdealFrontier(sram[keep], words[keep] * problem.group, tuple(found[place][0] for place in who[keep]))


def _apart(p: Attention) -> Steps:
    return in_turn(product_steps(p.n, p.d, p.nk), product_steps(p.n, p.nk, p.dv))


def _fused(p: Attention, schedule: Schedule) -> Steps:
    rows, cols = smallest_blocks(p.n)[:, None], smallest_blocks(p.nk)
    sram, words = schedule.room(p, rows, cols).ravel(), schedule.words(p, rows, cols).ravel()
    keep = lowest(sram, words)
    return Steps(sram[keep], words[keep])
