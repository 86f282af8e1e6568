"""Frontiers: the fewest words at every SRAM, over all blocks at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention
from iosim.core.units import whole
from iosim.predict.blocks.frontier_search import FrontierSearch, Sides, Steps, ideal_steps
from iosim.predict.blocks.fused_tiles import Schedule
from iosim.predict.blocks.staircase import step_at
from iosim.predict.case import Case, case
from iosim.predict.formulas import FORMULAS, formula
from iosim.predict.room import room
from iosim.predict.sizes import Ints

Accounting = Literal["honest", "ideal"]
_DEFAULTS = Options()


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The fewest words that a kernel moves on one KV head and its group at every SRAM: a staircase.

    From ``sram[i]`` words on, ``words[i]`` move, in blocks ``rows[i]`` x ``cols[i]``, which need just ``sram[i]``; below ``sram[0]`` no
    blocks fit. ``sram`` rises strictly, ``words`` fall strictly.
    """

    kernel: str
    sram: Ints
    words: Ints
    rows: Ints
    cols: Ints

    def at(self, sram: ArrayLike) -> Ints:
        """The step that holds at each SRAM, as an index into the arrays; -1 where nothing fits."""
        return step_at(self.sram, np.asarray(sram))


def frontier(
    kernel: str, problem: Attention, options: Options = _DEFAULTS, *,
    upto: int | None = None, sides: Sides = "all", accounting: Accounting = "honest",
) -> Frontier:  # fmt: skip
    """The fewest words of ``kernel`` at every SRAM: what the blocks of the rule ``best`` move (:func:`iosim.predict.choose_blocks`).

    * ``upto``: no steps beyond so many words of SRAM; None: all, up to the SRAM from which on a larger one helps no more.
    * ``sides``: ``all`` blocks, or those whose two sides are ``powers`` of two, or ``divisors`` of their axis. A side as long as its
      axis counts as a power of two, because larger ones are clipped to it. A kernel that keeps K and V whole has Bc = N_k all the same.
    * ``accounting``: ``honest``, by :func:`iosim.predict.residents` and :func:`iosim.predict.predict`; or ``ideal``, for flash and flash2:
      room for tiles of Q, K, V and O that wait on chip, and of S and P, and no statistics (see :mod:`iosim.predict.blocks.fused_tiles`).

    A block mask brings its own blocks, which make one step. Raises :class:`iosim.core.errors.BadInput` for block-sparse without one; for an
    element mask, and for packed heads under any mask; where causal or a window leaves more than 2^20 pairs of blocks to ask, of which
    ``powers`` have fewer; and in the ideal accounting for any mask and for packed heads.

    >>> found = frontier("flash2", Attention(n=4096, d=64))
    >>> step = found.at(49152)
    >>> found.words[step], found.rows[step], found.cols[step]
    (np.int64(6819840), np.int64(342), np.int64(1))
    """
    for name, given, choices in (("sides", sides, get_args(Sides)), ("accounting", accounting, get_args(Accounting))):
        if given not in choices:
            raise BadInput(f"unknown {name} {given!r}; known: {', '.join(choices)}")
    if formula(kernel).masks and problem.block_mask is None:
        raise BadInput(f"{kernel} has a frontier under a block mask only, and the problem has none; give one, or ask for flash")
    asked = case(kernel, problem, options)
    if accounting == "ideal":
        found = _ideal(kernel, asked, sides, pack=options.pack)
    else:
        found = FrontierSearch(asked, room(problem, "words"), sides, heads=asked.problem.group).best()
    stop = len(found.sram) if upto is None else int(step_at(found.sram, np.array(whole("upto", upto)))) + 1
    return Frontier(kernel, *(column[:stop] for column in found))


def _ideal(kernel: str, asked: Case, sides: Sides, *, pack: bool) -> Steps:
    if pack:
        raise BadInput(f"the ideal accounting knows no packed heads; leave pack out, or ask {kernel} for the honest accounting")
    fused = asked.formula.fused
    if fused is None or asked.problem.masked:
        what = f"{kernel} under a mask" if asked.problem.masked else kernel
        known = [name for name, form in FORMULAS.items() if form.fused is not None]
        raise BadInput(f"the ideal accounting is known for {' and '.join(known)} without a mask, not for {what}")
    return ideal_steps(Schedule(fused[0], frozenset(fused[1])), asked.problem, sides)
