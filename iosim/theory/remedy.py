"""Remedies: what would fit where the blocks that were asked for do not."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from iosim.specs import Attention, Blocks, Options
from iosim.theory.case import Case, case
from iosim.theory.room import room
from iosim.units import Capacity

_DEFAULTS = Options()


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """The largest block up to ``limit`` that fits, where all smaller ones fit too; 0 when none does."""
    return bisect_left(range(1, limit + 1), True, key=lambda block: not fits(block))


def nothing_fits(asked: Case, capacity: Capacity) -> str:
    """What to ask for where no blocks fit: the least SRAM, and the option that needs less."""
    space = room(asked.problem, capacity.unit)
    least = asked.smallest(space)
    if asked.fixed is not None:
        return f"the block mask was made for blocks {asked.fixed}, which need {least} {capacity.unit}"
    message = f"the smallest SRAM for any blocks is {least} {capacity.unit}"
    streamed = replace(asked, options=replace(asked.options, softmax="streamed")).smallest(space)
    return f'{message} ({streamed} with softmax="streamed")' if streamed < least and "softmax" in asked.formula.options else message
