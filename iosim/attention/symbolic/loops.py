"""Loops over tiles whose number is a symbol: one turn stands for all, and its words are summed over them afterwards."""

from __future__ import annotations

import sympy

from iosim.attention.symbolic.sizes import closed, extent
from iosim.core.errors import BadInput


class Loop:
    """A loop over an axis of ``n`` rows in tiles of ``b``, the last one short.

    What a turn moves is a polynomial in its tile's ``size``, times a symbol that says for which tiles the turn stands: ``every`` one, or
    the ``first``, the ``last``, the ``only`` one (which is both), or one ``between``. Over all tiles the sizes add up to n whatever b is,
    a constant to ceil(n / b) times itself, and the numbers of tiles of c rows inside each tile to ceil(n / c) where c divides b.
    """

    def __init__(self, number: int, n: int, b: int) -> None:
        self.rows, self.height, self.tiles = sympy.sympify(n), b, sympy.ceiling(sympy.sympify(n) / b)
        self.size = extent(f"rows{number}")
        self.every, self.first, self.last, self.only, self.between = sympy.symbols("every first last only between", cls=sympy.Dummy)
        alone = sympy.Integer(1) if self.tiles == 1 else sympy.Dummy("alone")
        ends = sympy.symbols("top tail", cls=sympy.Dummy)
        self.unknown = {alone, *ends} - {1}
        self._visits = self._ends(alone, *ends)
        self.symbols = {self.size, *self._visits}

    def _ends(self, alone: sympy.Expr, top: sympy.Expr, tail: sympy.Expr) -> dict[sympy.Symbol, tuple[sympy.Expr, sympy.Expr]]:
        """How many tiles each symbol stands for, and their rows; ``alone`` is 1 where there is one tile, else 0."""
        others = 1 - alone
        return {
            self.every: (self.tiles, self.rows),
            self.only: (alone, alone * self.rows),
            self.first: (others, others * top),
            self.last: (others, others * tail),
            self.between: (self.tiles - 2 + alone, others * (self.rows - top - tail)),
        }

    def summed(self, words: sympy.Expr) -> sympy.Expr:
        """``words`` over all tiles of this loop; raises :class:`BadInput` where they are not linear in a tile's size."""
        words = total = sympy.expand(words)
        for visit, (count, rows) in self._visits.items():
            part = words.coeff(visit)
            inside = {tiles: sympy.Dummy() for tiles in part.atoms(sympy.ceiling) if self.size in tiles.free_symbols}
            sums = {self.size: rows, **{inside[tiles]: self._inside(tiles, visit) for tiles in inside}}
            plain = part.xreplace(inside)
            each = {name: plain.coeff(name) for name in sums}
            fixed = plain.xreplace(dict.fromkeys(sums, sympy.Integer(0)))
            rest = sympy.expand(plain - fixed - sum(name * times for name, times in each.items()))
            if rest != 0 or None in sums.values():
                raise BadInput(f"{part} is not linear in the rows of a tile, so that its sum over ragged tiles has no closed form")
            total += fixed * count + sum(times * sums[name] for name, times in each.items()) - visit * part
        return sympy.expand(total)

    def _inside(self, tiles: sympy.Expr, visit: sympy.Symbol) -> sympy.Expr | None:
        """The ``tiles`` inside a tile, ceil(size / c), over all tiles; None where they have no simple sum."""
        height = self.size / tiles.args[0]
        return sympy.ceiling(self.rows / height) if visit == self.every and (self.height / height).is_integer else None


def summed(words: object, loops: list[Loop]) -> sympy.Expr:
    """``words`` over all tiles of all loops, the innermost first.

    Raises :class:`BadInput` where the sum depends on how large the first or the last tile is, or on whether these are one.
    """
    total = sympy.sympify(words)
    for loop in reversed(loops):
        if loop.symbols & total.free_symbols:
            total = loop.summed(total)
    if total.free_symbols & set().union(*(loop.unknown for loop in loops)):
        raise BadInput(f"{total} depends on what the first and the last visit do where they are one: no closed form for this listing")
    return closed(total)
