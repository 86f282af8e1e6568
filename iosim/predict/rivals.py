"""A kernel over M: what it moves in its best blocks, or in those that its paper prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from iosim.core.options import Options
from iosim.core.problem import Attention
from iosim.predict.blocks.fitting import shaped
from iosim.predict.blocks.frontiers import frontier
from iosim.predict.case import Case, case
from iosim.predict.dense import dense_words
from iosim.predict.over_m import FAR, Steps, lowest
from iosim.predict.peaks import smallest_sram
from iosim.predict.sizes import Ints

BlockRule = Literal["best", "paper"]


@dataclass(frozen=True, slots=True)
class Rival:
    """A kernel with some options fixed, called ``name``; of those left open the ``variants`` are tried at every M, the best taken."""

    name: str
    kernel: str
    options: Mapping[str, str]
    variants: tuple[Mapping[str, str], ...]

    def asked(self, variant: int) -> dict[str, str]:
        """The options of one of the variants, as the library takes them."""
        return {**self.options, **self.variants[variant]}


def curve(rival: Rival, problem: Attention, rule: BlockRule) -> Steps:
    """What a rival moves on one head without a mask over M in words, in its best blocks or in those that its paper prints.

    The latter need not fit.
    """
    made = _best if rule == "best" else _paper
    return lowest(rival.name, [made(rival, problem, place) for place in range(len(rival.variants))])


def _best(rival: Rival, problem: Attention, variant: int) -> Steps:
    found = frontier(rival.kernel, problem, Options(**rival.asked(variant)))
    return Steps(rival.name, found.sram, found.words, found.rows, found.cols, np.zeros_like(found.sram))


def _paper(rival: Rival, problem: Attention, variant: int) -> Steps:
    options = Options(**rival.asked(variant))
    asked, outer = case(rival.kernel, problem, options), _outers(problem)
    rows, cols = (np.broadcast_to(np.asarray(size), outer.shape) for size in shaped(asked, outer))
    words = dense_words(rival.kernel, n=problem.n, nk=problem.nk, d=problem.d, dv=problem.dv, Br=rows, Bc=cols, options=options)
    sram = _starts(asked, outer)
    if rival.variants[variant].get("softmax") == "rows":  # the printed blocks may not fit, but this variant is taken where a row does
        sram = np.maximum(sram, smallest_sram(rival.kernel, problem, options))
    last = np.flatnonzero(np.diff(sram, append=FAR) > 0)
    return Steps(rival.name, sram[last], np.asarray(words)[last], rows[last], cols[last], np.zeros_like(last))


def _outers(problem: Attention) -> Ints:
    """The outer blocks that cut rows or columns into fewer tiles than smaller ones do."""
    lengths = {problem.n, problem.nk, problem.d, problem.dv}
    every = np.arange(1, max(problem.n, problem.nk) + 1)
    return np.unique(np.concatenate([-(-length // -(-length // every)) for length in lengths]))


def _starts(asked: Case, outer: Ints) -> Ints:
    """From which M in words on the paper's rule gives each outer block."""
    if asked.formula.square:
        return 4 * outer**2
    width = 2 * (asked.problem.d + asked.problem.dv)
    return np.where(outer == 1, width, width * (outer - 1) + 1)
