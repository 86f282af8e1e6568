"""A closed form that was derived, beside the one that was written by hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import sympy

from iosim.attention.symbolic.moves import Moves, Operations
from iosim.attention.symbolic.sizes import SIZES, N, N_k, N_q, X, X_v, d, d_v
from iosim.attention.symbolic.spelled import FORMULA, LATEX, PLAIN, in_tiles
from iosim.core.options import Options, Value
from iosim.core.tables import Cell, table
from iosim.predict import Moved, Term


class Line(NamedTuple):
    """One array and one kind of move: the words derived, the terms by hand as they are written, and whether these are equal."""

    array: str
    move: str
    derived: sympy.Expr
    by_hand: str
    equal: bool

    def of(self, moved: Moved) -> int:
        """The words of this kind among those of the array."""
        return {"read": moved.reads, "write": moved.writes - moved.init_writes}.get(self.move, moved.init_writes)


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """What one head without a mask moves, for all sizes at once: as the run of the listing gave it, and as :mod:`iosim.predict` has it.

    A listing of a user has no form by hand: its ``terms`` and ``by_hand`` are empty.

    ``derived[array]`` and ``by_hand[array]`` hold :class:`Moves`, sympy expressions over :data:`iosim.attention.symbolic.SIZES` (N_q, N_k,
    d, d_v, Br, Bc) with ceilings for the numbers of tiles; ``terms`` are those that ``by_hand`` sums up; ``operations`` came from the run,
    too.
    """

    kernel: str
    options: Options
    dropout: float
    derived: dict[str, Moves]
    by_hand: dict[str, Moves]
    terms: tuple[Term, ...]
    operations: Operations

    @property
    def name(self) -> str:
        """The kernel, and how it was asked for where that is not the default."""
        own = [f"{name} {value}" for name, value in self.asked().items()]
        return ", ".join([self.kernel, *own, *([f"dropout {self.dropout:g}"] if self.dropout else [])])

    def asked(self) -> dict[str, Value]:
        """The options that are not at their defaults."""
        return dict(self.options)

    @property
    def total(self) -> sympy.Expr:
        """All words, reads and writes."""
        return sympy.expand(sum(moves.reads + moves.writes for moves in self.derived.values()))

    @property
    def square(self) -> sympy.Expr:
        """All words where N_q = N_k = N and d_v = d, with symbols for the numbers of tiles."""
        return sympy.expand(in_tiles(self.total).xreplace({N_q: N, N_k: N, d_v: d, X_v: X}))

    @property
    def agrees(self) -> bool:
        """Whether both roads give the same expression for every array and kind of move."""
        return not self.terms or self.derived == self.by_hand

    @property
    def formula(self) -> str:
        """All words as :func:`iosim.study.formula.check.check_formula` reads them."""
        return FORMULA.spell(self.total)

    @property
    def latex(self) -> str:
        """All words in LaTeX."""
        return LATEX.spell(self.total)

    def at(self, *, n: int, d: int, Br: int, Bc: int, nk: int | None = None, dv: int | None = None) -> dict[str, Moved]:
        """The words of each array at some sizes, as exact integers; blocks are clipped to their axes."""
        keys = n if nk is None else nk
        return self.beyond(n, keys, d, d if dv is None else dv, min(Br, n), min(Bc, keys))

    def beyond(self, *values: int) -> dict[str, Moved]:
        """The words of each array at values of all :data:`SIZES`, which hold for blocks up to their axis."""
        sizes = {size: sympy.Integer(value) for size, value in zip(SIZES, values, strict=True)}
        return {array: Moved(*(int(words.xreplace(sizes)) for words in moves)) for array, moves in self.derived.items()}

    def lines(self) -> Iterator[Line]:
        """Every array and kind of move of which either road has any words."""
        for array in dict.fromkeys((*self.derived, *self.by_hand)):
            derived, by_hand = (road.get(array, Moves()).apart for road in (self.derived, self.by_hand))
            for move, words in derived.items():
                if words != 0 or by_hand[move] != 0:
                    yield Line(array, move, words, self._written(array, move), sympy.expand(words - by_hand[move]) == 0)

    def _written(self, array: str, move: str) -> str:
        own = [term for term in self.terms if term.array == array and ("initial " * term.init + term.direction) == move]
        return " + ".join(term.symbol for term in own) or "0"

    def spelled(self) -> dict[str, str]:
        """The sum of the words, the same for square problems, and the operations, as ``iosim explain`` writes terms."""
        sums = {"words": self.total, "square": self.square, **self.operations._asdict()}
        return {name: "no closed form" if sum_ is None else PLAIN.spell(sum_) for name, sum_ in sums.items()}

    def rows(self) -> list[dict[str, object]]:
        """The lines as plain data; what was derived is text as ``--check`` reads it."""
        return [{**line._asdict(), "derived": FORMULA.spell(line.derived), "latex": LATEX.spell(line.derived)} for line in self.lines()]

    def record(self) -> dict[str, object]:
        """The form as plain data, with the sum of the words and the operations as ``--check`` reads formulas."""
        return {
            "kernel": self.kernel, "options": self.asked(), "dropout": self.dropout, "agrees": self.agrees, "moves": self.rows(),
            "words": self.formula, "latex": self.latex,
            "operations": {name: count if count is None else FORMULA.spell(count) for name, count in self.operations._asdict().items()},
        }  # fmt: skip

    def table(self) -> str:
        """A line for each array and kind of move."""
        if not self.terms:
            derived = [[line.array, line.move, PLAIN.spell(line.derived)] for line in self.lines()]
            return table(["array", "move", "derived by the run"], derived)
        rows: list[list[Cell]] = [
            [line.array, line.move, PLAIN.spell(line.derived), line.by_hand, "equal" if line.equal else "DIFFERENT"]
            for line in self.lines()
        ]
        return table(["array", "move", "derived by the run", "by hand", ""], rows)

    def __str__(self) -> str:
        if not self.terms:
            return f"{self.name}: {PLAIN.spell(self.total)} words"
        verdict = "equal to the closed form by hand" if self.agrees else "DIFFERENT from the closed form by hand"
        return f"{self.name}: {PLAIN.spell(self.total)} words, {verdict}"

    def _repr_latex_(self) -> str:
        return f"${self.latex}$"
