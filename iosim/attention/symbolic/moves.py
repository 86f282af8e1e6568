"""What moves and what is computed, as expressions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import sympy

from iosim.attention.symbolic.sizes import of_term
from iosim.core.counts import Counts, Flops
from iosim.predict import Term

ZERO = sympy.Integer(0)


class Moves(NamedTuple):
    """Words of one array that one head moves, as sympy expressions; ``writes`` include ``init_writes``."""

    reads: sympy.Expr = ZERO
    writes: sympy.Expr = ZERO
    init_writes: sympy.Expr = ZERO

    @property
    def apart(self) -> dict[str, sympy.Expr]:
        """The kinds of moves by name; initial writes are no writes here."""
        return {"read": self.reads, "write": self.writes - self.init_writes, "initial write": self.init_writes}


class Operations(NamedTuple):
    """Floating-point operations of one head, as sympy expressions; None where there is none. See :class:`iosim.core.counts.Flops`."""

    matmul: sympy.Expr | None
    elementwise: sympy.Expr | None
    exp: sympy.Expr | None


def of_counts(counts: Counts) -> dict[str, Moves]:
    """The words that a symbolic machine counted."""
    return {name: Moves(array.reads, array.writes, array.init_writes) for name, array in counts.arrays.items()}


def of_flops(flops: Flops) -> Operations:
    """The operations that a symbolic machine counted."""
    return Operations(flops.matmul, flops.elementwise, flops.exp)


def of_terms(terms: Iterable[Term]) -> dict[str, Moves]:
    """What the terms of a closed form add up to as they are written, array by array."""
    sums: dict[str, Moves] = {}
    for term in terms:
        words = of_term(term)
        new = Moves(reads=words) if term.direction == "read" else Moves(ZERO, words, words if term.init else ZERO)
        sums[term.array] = Moves(*(sympy.expand(a + b) for a, b in zip(sums.get(term.array, Moves()), new, strict=True)))
    return sums
