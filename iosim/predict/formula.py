"""A formula: what is known of a kernel before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Shape
from iosim.predict.term import Term

Outside = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True)
class Formula:
    """The closed forms of a kernel, and how its words fall as blocks grow.

    Args:
        terms: the words that it moves.
        peaks: what stands on chip in each kind of tile.
        options: the names of the options that change the words or the room.
        outside: the axis of the outer loop.
        theta: how the words grow.
        both: under which options tiles of either axis are loaded once for each tile of the other, so that words fall as either block
            grows; otherwise the block of the outer loop alone decides them.
        falls: it is proved that words never rise as a block grows, so that the search for the best blocks may skip most of them.
        skips: it leaves out tiles in which no pair attends.
        wide: K and V stand whole on chip.
        cut: those of d and dv that are cut into tiles of Bc columns, so that words fall as these grow wider.
        square: the blocks of the paper are squares, and not of the shape of FlashAttention's.
        shares: each query head of a group stores its dK and dV, which are summed in the end.
        masks: its words are those of a block mask, and it has none without one.
        fused: as a mapping tool sees it: the axis outside, and the matrices that wait on chip.
    """

    terms: Callable[[Shape, Visits, Options], Iterator[Term]]
    peaks: Callable[[Shape, Kinds, Room, Options], Iterator[Int]]
    options: tuple[str, ...]
    outside: Outside
    theta: str
    both: Callable[[Options], bool] = lambda options: False
    falls: bool = False
    skips: bool = True
    wide: bool = False
    cut: tuple[Literal["d", "dv"], ...] = ()
    square: bool = False
    shares: bool = False
    masks: bool = False
    fused: tuple[Outside, str] | None = None

    def relevant(self, options: Options) -> Options:
        """``options`` with those that the kernel does not have left at their defaults.

        Raises :class:`iosim.core.errors.BadInput` for an accumulator of its own where O or dQ is first loaded from HBM.
        """
        own = Options(skip=options.skip and self.skips, **{name: getattr(options, name) for name in self.options})
        if own.accumulator == "float32" and own.first_pass == "load" and "first_pass" in self.options:
            raise BadInput("accumulator='float32' makes accumulators on chip but first_pass is 'load'; ask for first_pass='create' too")
        return own
