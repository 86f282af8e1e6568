"""Grouped heads: what a group moves where its heads run one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from iosim.predict.sizes import Passes, Shape, Size, once
from iosim.predict.term import Term, read, write


def of_group(terms: Iterable[Term], s: Shape, group: int) -> tuple[Term, ...]:
    """The ``terms`` of one head for every head of a ``group``, and the sum of what they owe dK and dV."""
    heads = Size("g", group)
    each = [replace(term, times=term.times * group, symbol=f"g {term.symbol}", why=f"for each head: {term.why}") for term in terms]
    summed = [(name, width) for name, width in (("dK", s.d), ("dV", s.dv)) if any(term.array == name for term in each)]
    loads = [read(name, Passes(heads, s.Nk), width, f"the sum over the heads loads what each owes {name}") for name, width in summed]
    return *each, *loads, *(write(name, once(s.Nk), width, f"and stores {name} once") for name, width in summed)
