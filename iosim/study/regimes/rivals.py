"""The kernels that are compared over M."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import get_args

from iosim.attention.catalogue import KERNELS, kernel
from iosim.attention.compare import check_some_have
from iosim.core.errors import BadInput
from iosim.core.options import Option, Options, Value
from iosim.predict.rivals import BlockRule, Rival


def known(backward: bool) -> tuple[str, ...]:
    """The algorithms of papers that are exact without a mask, forward or backward."""
    return tuple(name for name, found in KERNELS.items() if found.rival and (found.forward is not None) == backward)


def rivals(kernels: Sequence[str] | None, backward: bool, rule: BlockRule, options: Mapping[str, str | None]) -> tuple[Rival, ...]:
    """The rivals of some ``kernels``, or of all :func:`known` ones for None; each takes those of ``options`` that it has.

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
