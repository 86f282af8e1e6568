"""Residents: how much SRAM a kernel needs for given blocks, and the least with which it can run at all."""

from __future__ import annotations

from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Unit
from iosim.predict.case import case
from iosim.predict.room import room

_DEFAULTS = Options()


def residents(kernel: str, problem: Attention, blocks: Blocks, options: Options = _DEFAULTS, unit: Unit = "words") -> int:
    """The peak SRAM of ``kernel``, over the tiles that occur with their true sizes, in words or in bytes.

    Full tiles, d = d_v, words: 2 (Br + Bc) d + Br Bc + 8 Br for flash, + 4 Br for flash2; 4 (Br + Bc) d + 2 Br Bc + 3 Br for
    flash-backward, (3 Br + 4 Bc) d + Br Bc + 2 Br for flash2-backward; a partial tile holds its part of an element mask too. In bytes
    a loaded element takes its array's itemsize and a computed one the accumulator's.
    Raises :class:`iosim.core.errors.BadInput` as :func:`iosim.predict.terms` does.

    >>> residents("flash2", Attention(n=4096, d=64), Blocks(208, 64))
    48960
    """
    return case(kernel, problem, options).residents(blocks, room(problem, unit))


def smallest_sram(kernel: str, problem: Attention, options: Options = _DEFAULTS, unit: Unit = "words") -> int:
    """The least SRAM in which some blocks fit: what 1x1 blocks need, or the only blocks that a block mask allows.

    >>> smallest_sram("flash2", Attention(n=4096, d=64))
    261
    """
    return case(kernel, problem, options).smallest(room(problem, unit))
