"""Room: what one element takes on chip, in words or in bytes."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.core import dtypes
from iosim.core.problem import Attention
from iosim.core.units import Unit


@dataclass(frozen=True, slots=True)
class Room:
    """The room of one element: ``given`` in a tile of Q, K, V or O, ``made`` in a value computed on chip, ``scores`` in a tile
    of S or P that was in HBM, ``mask`` in a tile of the element mask (0 when there is none).
    """  # fmt: skip

    given: int = 1
    made: int = 1
    scores: int = 1
    mask: int = 0


def room(problem: Attention, unit: Unit) -> Room:
    """In words every element takes 1; in bytes a loaded one its array's itemsize and a computed one the accumulator's.

    >>> room(Attention(n=8, d=4, dtype="float16"), "bytes")
    Room(given=2, made=4, scores=2, mask=0)
    """
    mask = int(problem.mask is not None)
    if unit == "words":
        return Room(mask=mask)
    made, scores = dtypes.accumulator(problem.dtype), dtypes.intermediate(problem.dtype)
    return Room(problem.itemsize, dtypes.itemsize(made), dtypes.itemsize(scores), mask)
