"""Expressions as text: as the terms of ``iosim explain`` are written, as ``--check`` reads them, and for LaTeX."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import sympy

from iosim.attention.symbolic.sizes import NAMES, TILES, N, N_k, N_q, T_c, T_r, X, X_v, d, d_v

LENGTHS = (T_r, T_c, N, N_q, N_k)
WIDTHS = (X, X_v, d, d_v)
ORDER = (*LENGTHS, *WIDTHS)
CALLS = {"T_r": "ceil(N_q/Br)", "T_c": "ceil(N_k/Bc)", "X": "ceil(d/Bc)", "X_v": "ceil(d_v/Bc)"}
CEILINGS = {name: rf"\lceil {over} / {block} \rceil" for name, over, block in (
    ("T_r", "N_q", "B_r"), ("T_c", "N_k", "B_c"), ("X", "d", "B_c"), ("X_v", "d_v", "B_c"),
)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Style:
    """How the symbols are called where not by their own names, and what stands between factors."""

    names: dict[str, str]
    times: str

    def spell(self, words: sympy.Expr) -> str:
        """A sum of products.

        >>> PLAIN.spell(N_q * d + N_q + N_k * d * sympy.ceiling(N_q / sympy.Symbol("Br", integer=True, positive=True)))
        'Nq (d + 1) + Tr Nk d'
        """
        return self._sum(products(in_tiles(words)))

    def _sum(self, parts: Iterable[sympy.Expr]) -> str:
        return " + ".join(map(self._product, parts)).replace("+ -", "- ") or "0"

    def _product(self, words: sympy.Expr) -> str:
        number, factors = sympy.factor_list(words)
        lead = [] if abs(number) == 1 and factors else [str(abs(number))]
        spelled = [self._factor(factor) + (f"^{power}" if power > 1 else "") for factor, power in sorted(factors, key=_rank)]
        return ("-" if _negative(number) else "") + self.times.join(lead + spelled)

    def _factor(self, factor: sympy.Expr) -> str:
        if factor.is_Symbol:
            return self.names.get(factor.name, str(factor.name))
        return f"({self._sum(sorted(sympy.Add.make_args(factor), key=_place))})"


PLAIN, FORMULA, LATEX = Style(NAMES, " "), Style(CALLS, "*"), Style(CEILINGS, " ")


def in_tiles(words: sympy.Expr) -> sympy.Expr:
    """The same words over symbols for the numbers of tiles; those that no table names are called as they are computed."""
    texts = {part: str(part).replace("ceiling", "ceil").replace(" ", "") for part in words.atoms(sympy.ceiling, sympy.floor)}
    return sympy.expand(words.xreplace({part: sympy.Symbol(text, integer=True) for part, text in texts.items()} | TILES))


def products(words: sympy.Expr) -> list[sympy.Expr]:
    """A polynomial as products to be added: itself if it is one, else one for each product of lengths and numbers of tiles in it.

    >>> products(T_c * N_q * d - N_q * d), products(N_q * d + N_q + T_r * N_k * d)
    ([N_q*d*(T_c - 1)], [N_q*(d + 1), N_k*T_r*d])
    """
    if words == 0 or _is_product(words):
        return [sympy.factor(words)] if words != 0 else []
    groups: defaultdict[sympy.Expr, sympy.Expr] = defaultdict(lambda: sympy.Integer(0))
    for part in sympy.Add.make_args(words):
        inner, outer = part.as_independent(*LENGTHS)
        groups[outer] += inner
    return [outer * groups[outer] for outer in sorted(groups, key=lambda outer: (_negative(groups[outer]), *_place(outer)))]


def _is_product(words: sympy.Expr) -> bool:
    """Whether it is made of symbols and one sum, of numbers of tiles or of widths."""
    sums = [factor for factor, _ in sympy.factor_list(words)[1] if not factor.is_Symbol]
    return len(sums) == 0 or (len(sums) == 1 and any(sums[0].free_symbols <= set(kind) for kind in (LENGTHS[:2], WIDTHS)))


def _negative(words: sympy.Expr) -> bool:
    return bool(sympy.factor_list(words)[0] < 0)


def _place(part: sympy.Expr) -> tuple[object, ...]:
    """Where a part of a sum stands: fewer numbers of tiles and more lengths first, then by symbols, a bare number last."""
    degrees = [sympy.degree(part, symbol) if symbol in part.free_symbols else 0 for symbol in ORDER]
    return part.is_number, sum(degrees[:2]), [-degree for degree in degrees[2:]], degrees[:2]


def _rank(factor: tuple[sympy.Expr, int]) -> int:
    """Where a factor stands: sums of numbers of tiles, symbols in their order, sums of widths."""
    if factor[0].is_Symbol:
        return ORDER.index(factor[0]) if factor[0] in ORDER else 0
    return -1 if factor[0].free_symbols & set(LENGTHS) else len(ORDER)
