"""The sizes as symbols, and the symbols that a machine can compute with."""

from __future__ import annotations

import math
from typing import cast

import sympy

from iosim.theory.term import Term

N_q, N_k, d, d_v, Br, Bc = SIZES = sympy.symbols("N_q N_k d d_v Br Bc", integer=True, positive=True)
N, T_r, T_c = sympy.symbols("N T_r T_c", integer=True, positive=True)
TILES = {sympy.ceiling(N_q / Br): T_r, sympy.ceiling(N_k / Bc): T_c}
BY_HAND = {"Nq": N_q, "Nk": N_k, "d": d, "dv": d_v, "Tr": sympy.ceiling(N_q / Br), "Tc": sympy.ceiling(N_k / Bc)}


class Extent(sympy.Symbol):  # type: ignore[misc]  # sympy ships no types
    """A number of rows or columns, of which a machine may ask whether it is larger than another.

    It is larger than any other number but infinity, so that a shape stretches from 1 to it, and tiles of another axis do not fit.
    """

    __slots__ = ()

    def __gt__(self, other: object) -> bool:
        return other not in (self, math.inf)

    def __lt__(self, other: object) -> bool:
        return False


def extent(name: str) -> int:
    """A size that is still open, where a listing expects a number."""
    return cast(int, Extent(name, integer=True, positive=True))


def closed(words: sympy.Expr) -> sympy.Expr:
    """The same words over plain symbols."""
    return words.xreplace({extent(size.name): size for size in SIZES})


def of_term(term: Term) -> sympy.Expr:
    """A term of :mod:`iosim.theory` as it is written, such as ``(Tc - 1) Nq dv``, with Tr and Tc spelled out."""
    words = sympy.Integer(1)
    for factor in term.symbol.replace("(", "").replace(" - ", "-").replace(")", "").split():
        name, *less = factor.split("-")
        words *= BY_HAND.get(name) or sympy.Integer(int(name))
        if less:
            words = words / BY_HAND[name] * (BY_HAND[name] - int(less[0]))
    return words
