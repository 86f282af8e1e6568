"""Block rules: how tall the tiles should be for an SRAM of a given size."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from iosim.errors import BadInput
from iosim.specs import Attention, Blocks, Options
from iosim.theory.best import best
from iosim.theory.case import Case, case
from iosim.theory.dense import whole_numbers
from iosim.theory.remedy import nothing_fits
from iosim.theory.room import Room, room
from iosim.theory.sizes import Ints
from iosim.units import Capacity

Rule = Literal["paper", "fit", "best"]
_DEFAULTS = Options()


def choose_blocks(kernel: str, problem: Attention, capacity: Capacity, rule: Rule = "fit", options: Options = _DEFAULTS) -> Blocks:
    """The blocks that ``rule`` gives ``kernel`` for ``problem``. The block of the outer loop is the large one.

    * ``paper``: B_out = ceil(M / 2(d + d_v)), which is ceil(M / 4d), and B_in = min(B_out, d), M in words of Q's dtype
      (FlashAttention, Algorithm 1, line 1; its transpose for queries outside). Whether they fit is not asked.
    * ``fit``: the largest B_out, with B_in = min(B_out, d), that fits whatever tiles a mask leaves. (Where it leaves none as large
      as the blocks, some larger ones fit too; they are for ``best`` to find.)
    * ``best``: the fewest words among all blocks that fit; among equals the fewest tiles, then the fewest residents.

    Blocks are clipped to N_q and N_k; a block mask brings its own. With ``reuse="ideal"`` Bc = N_k, and Br = 1 where nothing fits.
    Raises :class:`iosim.errors.BadInput`, naming what would do, where no blocks fit (``paper``: where M < 4d).

    >>> choose_blocks("flash2", Attention(n=4096, d=64), Capacity(49152), "fit")
    Blocks(rows=208, cols=64)
    """
    if rule not in ("paper", "fit", "best"):
        raise BadInput(f"unknown block rule {rule!r}; known: paper, fit, best, or give the blocks as (Br, Bc)")
    asked = case(kernel, problem, options)
    if asked.fixed is not None:
        return asked.fixed if rule == "paper" else _fixed(asked, asked.fixed, capacity)
    if asked.whole_keys:
        return Blocks(_paper(problem, capacity)[0] if rule == "paper" else max(1, _fit(asked, capacity)), problem.nk)
    ...


def fit_dense(
    kernel: str, sram: ArrayLike, *, n: ArrayLike, d: ArrayLike,
    nk: ArrayLike | None = None, dv: ArrayLike | None = None, options: Options = _DEFAULTS,
) -> tuple[Ints, Ints]:  # fmt: skip
    ...
