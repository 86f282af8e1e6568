"""The kernels that have closed forms, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from iosim.errors import BadInput
from iosim.specs import Options
from iosim.theory import flash, flash2, standard
from iosim.theory.room import Room
from iosim.theory.sizes import Int, Shape
from iosim.theory.term import Term
from iosim.theory.tiles import Kinds
from iosim.theory.visits import Visits

Outside = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True)
class Formula:
    """What is known of a kernel: the words it moves, what stands on chip, its options, its outer loop and how its words grow."""

    terms: Callable[[Shape, Visits, Options], Iterator[Term]]
    peaks: Callable[[Shape, Kinds, Room, Options], Iterator[Int]]
    options: tuple[str, ...]
    outside: Outside
    theta: str

    def relevant(self, options: Options) -> Options:
        """``options`` with those that the kernel does not have left at their defaults."""
        return Options(
            first_pass=options.first_pass if "first_pass" in self.options else "load",
            reuse=options.reuse if "reuse" in self.options else "tiled",
            softmax=options.softmax if "softmax" in self.options else "rows",
            skip=options.skip,
            skip_empty=options.skip_empty and "skip_empty" in self.options,
        )


FORMULAS = {
    "standard": Formula(standard.terms, standard.peaks, ("reuse", "softmax"), "queries", "Θ(Nd + N²)"),
    "flash": Formula(flash.terms, flash.peaks, ("first_pass",), "keys", "Θ(N²d²/M)"),
    "flash2": Formula(flash2.terms, flash2.peaks, (), "queries", "Θ(N²d²/M)"),
    "block-sparse": Formula(flash.terms, flash.peaks, ("first_pass", "skip_empty"), "keys", "Θ(Nd + N²d²s/M)"),
}
KERNELS = tuple(FORMULAS)


def formula(kernel: str) -> Formula:
    """The closed forms of ``kernel``; raises :class:`iosim.errors.BadInput` naming those that exist."""
    if kernel not in FORMULAS:
        raise BadInput(f"no closed form for {kernel!r}; known: {', '.join(KERNELS)}")
    return FORMULAS[kernel]


def outside(kernel: str) -> Outside:
    """The axis of the outer loop, whose block is kept on chip while the blocks of the other axis stream past it.

    >>> outside("flash"), outside("flash2")
    ('keys', 'queries')
    """
    return formula(kernel).outside


def theta(kernel: str) -> str:
    """How the words of ``kernel`` grow (FlashAttention paper, Theorem 2 and Proposition 4); s is the kept fraction of the tiles.

    >>> theta("flash")
    'Θ(N²d²/M)'
    """
    return formula(kernel).theta
