"""Why a formula is wrong, where its differences from the counts give that away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Literal

from iosim.core.counts import Counts, Traffic
from iosim.study.formula.grid import Point

Move = Literal["reads", "writes", "initial writes"]
MOVES: tuple[Move, ...] = ("reads", "writes", "initial writes")
STATISTICS = ("l", "m", "LSE", "D")


@dataclass(frozen=True, slots=True)
class Tried:
    """One point, its counts, the number asked for, and what the formula gives there; None where that is irrational."""

    point: Point
    counts: Counts
    counted: int
    value: Fraction | None

    @property
    def agrees(self) -> bool:
        """Whether they are equal."""
        return self.value == self.counted


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the moves of some arrays, with the words that name them."""

    name: str
    moves: tuple[tuple[str, Move], ...]

    def words(self, counts: Counts) -> int:
        """How many words they are in one run."""
        return sum(moved(counts.arrays[array], move) for array, move in self.moves)


def moved(array: Traffic, move: Move) -> int:
    """The words of one kind of move; initial writes are no writes here."""
    return {"reads": array.reads, "writes": array.writes - array.init_writes, "initial writes": array.init_writes}[move]


def why(tried: Sequence[Tried], moves: Sequence[tuple[str, Move]]) -> str | None:
    """The likely reason for the differences, in one line; None where no usual reason explains all of them.

    ``tried`` has a difference. ``moves``: the moves that make up the count.
    """
    return in_bytes(tried, moves) or factor(tried) or ceil(tried) or shape(tried) or left_out(tried, moves)


def in_bytes(tried: Sequence[Tried], moves: Sequence[tuple[str, Move]]) -> str | None:
    """The bytes of the same moves everywhere."""

    def moved_bytes(counts: Counts) -> int:
        return sum(moved(counts.arrays[array], move) * counts.arrays[array].itemsize for array, move in moves)

    return "everywhere these are bytes, not words" if all(one.value == moved_bytes(one.counts) for one in tried) else None


def factor(tried: Sequence[Tried]) -> str | None:
    """The same multiple of the count everywhere."""
    ratios = {None if one.value is None or one.counted == 0 else one.value / one.counted for one in tried}
    ratio = ratios.pop()
    if ratios or not ratio:
        return None
    return f"everywhere exactly {ratio} times the count"


def ceil(tried: Sequence[Tried]) -> str | None:
    """Equal wherever tiles are whole."""

    def divides(size: str, block: str) -> Callable[[Tried], bool]:
        return lambda one: one.point.sizes[size] % one.point.sizes[block] == 0

    def in_whole_tiles(one: Tried) -> bool:
        return one.point.sizes["M"] % (2 * (one.point.sizes["d"] + one.point.sizes["d_v"])) == 0

    apart = any(one.point.sizes["N_q"] != one.point.sizes["N_k"] for one in tried)
    tests = {f"Br divides {'N_q' if apart else 'N'}": divides("N_q", "Br"), f"Bc divides {'N_k' if apart else 'N'}": divides("N_k", "Bc")}
    if "M" in tried[0].point.shown:
        tests[f"{'2(d + d_v)' if 'd_v' in tried[0].point.shown else '4d'} divides M"] = in_whole_tiles
    for some in (some for size in range(1, len(tests) + 1) for some in combinations(tests, size)):
        if equal := only_where(tried, lambda one, some=some: all(tests[name](one) for name in some)):  # type: ignore[misc]
            return f"equal at all {equal} points where {' and '.join(some)}, not elsewhere: a quotient is not rounded up"
    return None


def shape(tried: Sequence[Tried]) -> str | None:
    """Equal wherever two sizes are."""
    for one, other in (("N_q", "N_k"), ("d", "d_v")):
        if equal := only_where(tried, lambda point, a=one, b=other: point.point.sizes[a] == point.point.sizes[b]):  # type: ignore[misc]
            return f"equal at all {equal} points where {one} = {other}, not elsewhere: the two are mixed up"
    return None


def only_where(tried: Sequence[Tried], test: Callable[[Tried], bool]) -> int:
    """The number of points where the test holds; 0 where the formula fails at one of them."""
    inside = [one.agrees for one in tried if test(one)]
    return len(inside) if all(inside) else 0


def left_out(tried: Sequence[Tried], moves: Sequence[tuple[str, Move]]) -> str | None:
    """Too few or too many by what some arrays move."""
    if any(one.value is None for one in tried):
        return None
    missing = [one.counted - (one.value or 0) for one in tried]
    for part in parts(moves):
        for sign, name in ((1, "too few"), (-1, "too many")):
            if all(sign * part.words(one.counts) == words for one, words in zip(tried, missing, strict=True)):
                return f"everywhere {name} by exactly {part.name}"
    return None


def parts(moves: Sequence[tuple[str, Move]]) -> Iterator[Part]:
    """Parts that people forget: the statistics, the initial writes, whole arrays, single moves, and two of these together."""
    arrays = dict.fromkeys(array for array, _ in moves)
    statistics = [array for array in arrays if array in STATISTICS]
    initial = [array for array, move in moves if move == "initial writes"]
    singles = [
        Part(f"the words of {_listed(statistics)} (the statistics)", tuple(one for one in moves if one[0] in statistics)),
        Part(f"the initial writes of {_listed(initial)}", tuple(one for one in moves if one[1] == "initial writes")),
        *(Part(f"the words of {array}", tuple(one for one in moves if one[0] == array)) for array in arrays),
        *(Part(f"the {move} of {array}", ((array, move),)) for array, move in moves),
    ]
    singles = [part for part in singles if part.moves]
    yield from singles
    for one, other in combinations(singles, 2):
        if not set(one.moves) & set(other.moves):
            yield Part(f"{one.name} and {other.name}", one.moves + other.moves)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
