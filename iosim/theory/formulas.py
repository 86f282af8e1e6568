"""The closed forms by kernel: words moved as terms, for one problem exactly or for whole arrays of sizes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from iosim.errors import BadInput
from iosim.specs import Attention, Blocks, Options
from iosim.theory import flash, flash2, standard
from iosim.theory.patterns import Everywhere, Pattern, pattern
from iosim.theory.room import Room
from iosim.theory.sizes import Int, Shape, shape
from iosim.theory.terms import Moved, Term, moved
from iosim.theory.tiles import Axis, Census, Kinds, axis
from iosim.theory.visits import Visits, counted, everywhere
from iosim.units import whole

Outside = Literal["queries", "keys"]


@dataclass(frozen=True, slots=True)
class Formula:
    """What is known of a kernel: its words, its peaks, its options, the axis of its outer loop, and its growth."""

    terms: Callable[[Shape, Visits, Options], Iterator[Term]]
    peaks: Callable[[Shape, Kinds, Room, Options], Iterator[Int]]
    options: tuple[str, ...]
    outside: Outside
    theta: str

    def relevant(self, options: Options) -> Options:
        """``options`` without those that the kernel does not have."""
        return replace(Options(), **{name: getattr(options, name) for name in ("skip", *self.options)})
