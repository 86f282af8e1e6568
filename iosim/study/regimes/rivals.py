"""The kernels that are compared over M, and what each moves there: in its best blocks, or in those that the papers print."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from iosim import predict
from iosim.attention.catalogue import KERNELS, kernel
from iosim.attention.compare import check_some_have
from iosim.core.errors import BadInput
from iosim.core.options import Option, Options, Value
from iosim.core.problem import Attention
from iosim.predict.blocks.fitting import shaped
from iosim.predict.case import Case, case
from iosim.predict.sizes import Ints
from iosim.study.regimes.steps import FAR, Steps, lowest

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


def known(backward: bool) -> tuple[str, ...]:
    """The algorithms of papers that are exact without a mask, forward or backward."""
    return tuple(name for name, found in KERNELS.items() if found.rival and (found.forward is not None) == backward)


def rivals(kernels: Sequence[str] | None, backward: bool, rule: BlockRule, options: Mapping[str, str | None]) -> tuple[Rival, ...]:
    """``kernels``, all :func:`known` ones where that is None, each with those of ``options`` that it has.

    Left open, the depth of square-tiles makes two rivals of it, of which one is printed, and the softmax of standard attention is chosen
    at every M. Raises :class:`BadInput` for other kernels and rules, for options that none has, and for values that they do not take.
    """
    if rule not in get_args(BlockRule):
        raise BadInput(f"over M blocks are 'best' or 'paper', not {rule!r}")
    names = known(backward) if kernels is None else tuple(dict.fromkeys(kernels))
    for name in names:
        if name not in known(backward):
            kernel(name)
            which = "backward" if backward else "forward"
            raise BadInput(f"{name} is not among the exact {which} algorithms that are compared over M: {', '.join(known(backward))}")
    given = {option: value for option, value in options.items() if value is not None}
    check_some_have(names, given)
    Options(**given)  # it checks the values
    own = [{option: value for option, value in given.items() if option in KERNELS[name].has} for name in names]
    return tuple(rival for name, some in zip(names, own, strict=True) for rival in _rivals(name, rule, some))


def curve(rival: Rival, problem: Attention, rule: BlockRule) -> Steps:
    """What a rival moves on one head without a mask over M in words, in its best blocks or in those that its paper prints.

    The latter need not fit.
    """
    made = _best if rule == "best" else _paper
    return lowest(rival.name, [made(rival, problem, place) for place in range(len(rival.variants))])


def _rivals(name: str, rule: BlockRule, options: Mapping[str, str]) -> list[Rival]:
    """The kernel, once for every value of the options that make rivals of it; the value that is printed goes without saying."""
    tried = [option for option in KERNELS[name].options if option.over_m == "best" and option.name not in options]
    variants = tuple({option.name: str(value) for option, value in zip(tried, values, strict=True)} for values in _values(tried))
    apart = [option for option in KERNELS[name].options if option.over_m == "each"]
    fixed = {option.name: options[option.name] for option in apart if option.name in options}
    if rule == "paper":
        fixed = {option.name: str(option.default) for option in apart} | fixed
    chosen = [dict(zip([option.name for option in apart], map(str, values), strict=True)) for values in _values(apart)]
    return [Rival(_named(name, apart, values), name, {**options, **values}, variants) for values in chosen if {**values, **fixed} == values]


def _values(options: Sequence[Option]) -> Iterable[tuple[Value, ...]]:
    """Every choice of values for some options."""
    return product(*(option.choices for option in options))


def _named(name: str, apart: Sequence[Option], values: Mapping[str, str]) -> str:
    unusual = [values[option.name] for option in apart if values[option.name] != option.default]
    return f"{name} ({', '.join(unusual)})" if unusual else name


def _best(rival: Rival, problem: Attention, variant: int) -> Steps:
    found = predict.frontier(rival.kernel, problem, Options(**rival.asked(variant)))
    return Steps(rival.name, found.sram, found.words, found.rows, found.cols, np.zeros_like(found.sram))


def _paper(rival: Rival, problem: Attention, variant: int) -> Steps:
    options = Options(**rival.asked(variant))
    asked, outer = case(rival.kernel, problem, options), _outers(problem)
    rows, cols = (np.broadcast_to(np.asarray(size), outer.shape) for size in shaped(asked, outer))
    words = predict.dense_words(rival.kernel, n=problem.n, nk=problem.nk, d=problem.d, dv=problem.dv, Br=rows, Bc=cols, options=options)
    sram = _starts(asked, outer)
    if rival.variants[variant].get("softmax") == "rows":  # the printed blocks may not fit, but this variant is taken where a row does
        sram = np.maximum(sram, predict.smallest_sram(rival.kernel, problem, options))
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
