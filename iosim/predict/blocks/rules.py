"""Block rules: how tall the tiles should be for an SRAM of a given size."""

from __future__ import annotations

from math import isqrt
from typing import Literal, get_args

import numpy as np

from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.predict.blocks.fitting import nothing_fits, shaped_blocks, tallest
from iosim.predict.case import Case, case
from iosim.predict.room import room

Rule = Literal["paper", "fit", "best"]
_DEFAULTS = Options()
MOST_PAIRS = 2**22  # of Br and Bc that are tried one by one


def choose_blocks(kernel: str, problem: Attention, capacity: Capacity, rule: Rule = "fit", options: Options = _DEFAULTS) -> Blocks:
    """The blocks that ``rule`` gives ``kernel`` for ``problem``. The block of the outer loop is the large one, but for ``best``.

    * ``paper``: B_out = ceil(M / 2(d + d_v)), which is ceil(M / 4d), and B_in = min(B_out, d), M in words of Q's dtype
      (FlashAttention, Algorithm 1, line 1; its transpose for queries outside); for square-tiles B = floor(sqrt(M / 4)) both ways
      (Saha and Ye, Algorithm 1). Whether they fit is not asked.
    * ``fit``: the largest B_out, with B_in = min(B_out, d), or the largest square, that fits whatever tiles a mask leaves. Where it
      leaves none as large as the blocks, larger ones of that shape may fit too; ``best`` knows.
    * ``best``: the fewest words among all blocks that fit; among equals the fewest tiles, then the fewest residents.

    Blocks are clipped to N_q and N_k; a block mask brings its own. With ``reuse="ideal"`` Bc = N_k, and Br = 1 where nothing fits.
    Raises :class:`iosim.core.errors.BadInput`, naming what would do, where no blocks fit (``paper``: where M < 4d, or M < 4).

    >>> choose_blocks("flash2", Attention(n=4096, d=64), Capacity(49152), "fit")
    Blocks(rows=208, cols=64)
    """
    if rule not in get_args(Rule):
        raise BadInput(f"unknown block rule {rule!r}; known: {', '.join(get_args(Rule))}, or give the blocks as (Br, Bc)")
    asked = case(kernel, problem, options)
    if rule == "paper":
        return asked.fixed or _paper(asked, capacity)
    if asked.fixed is not None:
        found = asked.fixed if asked.residents(asked.fixed, room(problem, capacity.unit)) <= capacity.amount else None
    elif rule == "fit" or asked.options.reuse == "ideal":
        found = _fit(asked, capacity)
    elif not asked.formula.falls:
        found = _of_all(kernel, problem, capacity, options)
    else:
        from iosim.predict.blocks.best import best  # the search, which few runs ask for

        found = best(asked, capacity)
    if found is None:
        raise BadInput(f"no blocks of {kernel} fit in {capacity}; {nothing_fits(asked, capacity)}")
    return found


def _of_all(kernel: str, problem: Attention, capacity: Capacity, options: Options) -> Blocks | None:
    """The best of all blocks, tried one by one: for a kernel whose words may rise as a block grows."""
    from iosim.predict.blocks.planes import plane

    if problem.n * problem.nk > MOST_PAIRS:
        raise BadInput(f"larger blocks of {kernel} may move more words, so that all would be tried; give (Br, Bc), or a smaller problem")
    rows, cols = (np.arange(1, length + 1) for length in (problem.n, problem.nk))
    return plane(kernel, problem, rows, cols, options, capacity.unit).least(capacity.amount)


def _paper(asked: Case, capacity: Capacity) -> Blocks:
    d, dv, words = asked.problem.d, asked.problem.dv, capacity.words(asked.problem.itemsize)
    if asked.formula.square:
        return _square(asked, words)
    least = 2 * (d + dv)
    if words < least:
        name = "4d" if d == dv else "2(d + dv)"
        raise BadInput(f"the paper's blocks need M >= {name} = {least} words but the SRAM holds {words}")
    return shaped_blocks(asked, -(-words // least))


def _square(asked: Case, words: int) -> Blocks:
    if words < 4:
        raise BadInput(f"the paper's blocks need M >= 4 words but the SRAM holds {words}")
    return shaped_blocks(asked, isqrt(words // 4))


def _fit(asked: Case, capacity: Capacity) -> Blocks | None:
    space = room(asked.problem, capacity.unit)
    outer = int(tallest(asked, np.array([capacity.amount]), space)[0])
    if outer == 0 and asked.options.reuse == "ideal":
        return shaped_blocks(asked, 1)
    if outer == 0 and asked.smallest(space) <= capacity.amount:
        return Blocks(1, 1)  # these can do with less than the bound: 1x1 tiles are never partial, unless all are
    return shaped_blocks(asked, outer) if outer else None
