"""Terms: a closed form taken apart, one line for every array, direction and reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from iosim.predict.sizes import Int, Passes, Size


@dataclass(frozen=True, slots=True)
class Term:
    """``times * words`` words of ``array`` move in one ``direction``, and why.

    ``symbol`` is the term as a formula, such as ``Tc Nq d``; ``init`` marks what only fills HBM before the algorithm begins.
    """

    array: str
    direction: Literal["read", "write"]
    times: Int
    words: Int
    symbol: str
    why: str
    init: bool = False

    @property
    def total(self) -> Int:
        """Words in all."""
        return self.times * self.words


@dataclass(frozen=True, slots=True)
class Moved:
    """Words of one array that one head moves; ``writes`` include ``init_writes``."""

    reads: int = 0
    writes: int = 0
    init_writes: int = 0

    def __add__(self, other: Moved) -> Moved:
        return Moved(self.reads + other.reads, self.writes + other.writes, self.init_writes + other.init_writes)


def read(array: str, passes: Passes, width: Size, why: str) -> Term:
    """``passes`` over rows of ``array``, ``width`` words each, into SRAM."""
    words = passes.rows * width
    return Term(array, "read", passes.times.value, words.value, (passes.times * words).symbol, why)


def write(array: str, passes: Passes, width: Size, why: str, *, init: bool = False) -> Term:
    """``passes`` over rows of ``array``, ``width`` words each, into HBM."""
    words = passes.rows * width
    return Term(array, "write", passes.times.value, words.value, (passes.times * words).symbol, why, init)


def moved(terms: Iterable[Term]) -> dict[str, Moved]:
    """The words of each array, summed over its terms, which hold plain integers."""
    sums: dict[str, Moved] = {}
    for term in terms:
        words = int(term.total)
        new = Moved(reads=words) if term.direction == "read" else Moved(writes=words, init_writes=words if term.init else 0)
        sums[term.array] = sums.get(term.array, Moved()) + new
    return sums
