"""The kernels that have closed forms, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from iosim.core.errors import BadInput
from iosim.core.problem import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.forms import (
    flash,
    flash2,
    flash2_backward,
    flash_backward,
    fmha,
    released,
    square_tiles,
    square_tiles_backward,
    standard,
    standard_backward,
    unfused,
)
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Shape
from iosim.predict.term import Term

Outside = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True)
class Formula:
    """What is known of a kernel: the words it moves, what stands on chip, its options, its outer loop and how its words grow.

    ``both`` says under which options tiles of either axis are loaded once for each tile of the other, so that words fall as either
    block grows; else the block of the outer loop alone decides them. ``cut``: those of d and dv that are cut into tiles of Bc columns, so
    that words fall as these grow wider. ``square``: the blocks of the paper are squares, and not of the shape of FlashAttention's.
    """

    terms: Callable[[Shape, Visits, Options], Iterator[Term]]
    peaks: Callable[[Shape, Kinds, Room, Options], Iterator[Int]]
    options: tuple[str, ...]
    outside: Outside
    theta: str
    both: Callable[[Options], bool] = lambda options: False
    skips: bool = True
    wide: bool = False
    cut: tuple[Literal["d", "dv"], ...] = ()
    square: bool = False

    def relevant(self, options: Options) -> Options:
        """``options`` with those that the kernel does not have left at their defaults.

        Raises :class:`iosim.core.errors.BadInput` for an accumulator of its own where O or dQ is first loaded from HBM.
        """
        own = Options(skip=options.skip and self.skips, **{name: getattr(options, name) for name in self.options})
        if own.accumulator == "float32" and own.first_pass == "load" and "first_pass" in self.options:
            raise BadInput("accumulator='float32' makes accumulators on chip but first_pass is 'load'; ask for first_pass='create' too")
        return own


FORMULAS = {
    "standard": Formula(standard.terms, standard.peaks, ("reuse", "softmax"), "queries", "Θ(Nd + N²)"),
    "flash": Formula(flash.terms, flash.peaks, ("first_pass", "accumulator"), "keys", "Θ(N²d²/M)"),
    "flash2": Formula(flash2.terms, flash2.peaks, (), "queries", "Θ(N²d²/M)"),
    "block-sparse": Formula(flash.terms, flash.peaks, ("first_pass", "skip_empty", "accumulator"), "keys", "Θ(Nd + N²d²s/M)"),
    "standard-backward": Formula(
        standard_backward.terms, standard_backward.peaks, ("reuse", "softmax"), "queries", "Θ(Nd + N²)",
        both=lambda options: options.reuse == "tiled",
    ),
    "flash-backward": Formula(flash_backward.terms, flash_backward.peaks, ("first_pass", "accumulator"), "keys", "Θ(N²d²/M)"),
    "flash2-backward": Formula(
        flash2_backward.terms, flash2_backward.peaks, ("accumulator", "dq_pass"), "keys", "Θ(N²d²/M)",
        both=lambda options: options.dq_pass == "own",
    ),
    "square-tiles": Formula(
        square_tiles.terms, square_tiles.peaks, ("depth",), "queries", "Θ(N² + N²d/√M)", both=lambda options: True, cut=("dv",),
        square=True,
    ),
    "square-tiles-backward": Formula(
        square_tiles_backward.terms, square_tiles_backward.peaks, ("depth",), "queries", "Θ(N² + N²d/√M)", both=lambda options: True,
        cut=("d", "dv"), square=True,
    ),
    "pytorch": Formula(unfused.pytorch, unfused.pytorch_peaks, ("reuse",), "queries", "Θ(Nd + N²)", skips=False),
    "megatron": Formula(unfused.megatron, unfused.megatron_peaks, ("reuse",), "queries", "Θ(Nd + N²)", skips=False),
    **{
        f"{name}-backward": Formula(
            unfused.backward, unfused.backward_peaks, ("reuse",), "queries", "Θ(Nd + N²)",
            both=lambda options: options.reuse == "tiled", skips=False,
        )
        for name in ("pytorch", "megatron")
    },
    "fmha": Formula(fmha.terms, fmha.peaks, (), "queries", "Θ(Nd + N²)", skips=False, wide=True),
    "fmha-backward": Formula(fmha.backward, fmha.backward_peaks, (), "queries", "Θ(Nd + N²)", skips=False, wide=True),
    "released": Formula(released.terms, released.peaks, (), "keys", "Θ(N²d²/M)"),
    "released-backward": Formula(released.backward, released.backward_peaks, (), "keys", "Θ(N²d²/M)"),
}  # fmt: skip
KERNELS = tuple(FORMULAS)


def formula(kernel: str) -> Formula:
    """The closed forms of ``kernel``; raises :class:`iosim.core.errors.BadInput` naming those that exist."""
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
    """How the words of ``kernel`` grow (FlashAttention paper, Theorems 2 and 5, Proposition 4); s is the kept fraction of the tiles.

    >>> theta("flash")
    'Θ(N²d²/M)'
    """
    return formula(kernel).theta
