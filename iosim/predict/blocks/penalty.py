"""Penalties: how many more words move where the sides of the blocks may not be any number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iosim.core.options import Options
from iosim.core.problem import Attention
from iosim.predict.blocks.frontier_search import Sides
from iosim.predict.blocks.frontiers import frontier

_DEFAULTS = Options()


@dataclass(frozen=True, slots=True)
class Penalty:
    """In an SRAM of ``sram`` words blocks with such ``sides`` move ``words`` at least, and the best of all blocks ``least``."""

    sides: Sides
    sram: int
    words: int
    least: int

    @property
    def ratio(self) -> float:
        """At least 1."""
        return self.words / self.least


def worst_penalty(kernel: str, problem: Attention, sides: Sides, options: Options = _DEFAULTS, *, upto: int | None = None) -> Penalty:
    """The largest penalty over every SRAM (up to ``upto`` words), and the first SRAM that has it.

    It stands where the best blocks improve: between two such steps the others can but draw nearer.
    Raises :class:`iosim.core.errors.BadInput` as :func:`iosim.predict.frontier` does.

    >>> found = worst_penalty("flash2", Attention(n=1021, d=64), "divisors", upto=65344)  # a prime has few
    >>> found.sram, round(found.ratio)
    (45481, 255)
    """
    every, some = (frontier(kernel, problem, options, upto=upto, sides=which) for which in ("all", sides))
    words = some.words[some.at(every.sram)]
    place = int(np.argmax(words / every.words))
    return Penalty(sides, int(every.sram[place]), int(words[place]), int(every.words[place]))
