"""The sizes as symbols, and the symbols that a machine can compute with."""

from __future__ import annotations

import math
import re
from typing import cast

import sympy

from iosim.predict.term import Term

N_q, N_k, d, d_v, Br, Bc = SIZES = sympy.symbols("N_q N_k d d_v Br Bc", integer=True, positive=True)
N, T_r, T_c, X, X_v = sympy.symbols("N T_r T_c X X_v", integer=True, positive=True)
TILES = {sympy.ceiling(N_q / Br): T_r, sympy.ceiling(N_k / Bc): T_c, sympy.ceiling(d / Bc): X, sympy.ceiling(d_v / Bc): X_v}
NAMES = {"T_r": "Tr", "T_c": "Tc", "N_q": "Nq", "N_k": "Nk", "d_v": "dv", "X": "⌈d/Bc⌉", "X_v": "⌈dv/Bc⌉"}
NUMBERS = {tiles: number for number, tiles in TILES.items()}
BY_NAME = {NAMES.get(size.name, size.name): NUMBERS.get(size, size) for size in (*SIZES, *NUMBERS)}


class Extent(sympy.Symbol):  # type: ignore[misc]  # sympy ships no types
    """A number of rows or columns, of which listings and machines may ask whether it is larger than another.

    It is larger than any other number but infinity: a shape stretches from 1 to it. It is less than none, so that min(Bc, N_k) is Bc:
    blocks are no larger than their axis.
    """

    __slots__ = ()

    def __gt__(self, other: object) -> bool:
        return other not in (self, math.inf)

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return not self > other


def extent(name: str) -> int:
    """A size that is still open, where a listing expects a number."""
    return cast(int, Extent(name, integer=True, positive=True))


def opened(size: int) -> int:
    """A number as it is, and symbols as such that can be compared."""
    return size.xreplace({part: extent(part.name) for part in size.free_symbols}) if isinstance(size, sympy.Basic) else size


def closed(words: sympy.Expr) -> sympy.Expr:
    """The same words over plain symbols, and what Python rounds up as -(-a // b) as a ceiling."""
    found = (size for size in words.free_symbols if isinstance(size, Extent))
    plain = words.xreplace({size: sympy.Symbol(size.name, integer=True, positive=True) for size in found})
    return plain.replace(lambda part: isinstance(part, sympy.floor) and part.args[0].could_extract_minus_sign(), _rounded_up)


def _rounded_up(part: sympy.floor) -> sympy.Expr:
    return -sympy.ceiling(-part.args[0])


def of_term(term: Term) -> sympy.Expr:
    """A term of :mod:`iosim.predict` as it is written, such as ``(Tc - 1) Nq dv``, with the numbers of tiles as ceilings."""
    return sympy.prod(map(_factor, re.findall(r"\([^)]*\)|\S+", term.symbol)))


def _factor(text: str) -> sympy.Expr:
    name, *less = text.strip("()").split(" - ")
    return (sympy.Integer(name) if name.isdigit() else BY_NAME[name]) - sum(map(int, less))
