"""A formula held against the count, at many small sizes."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.attention.catalogue import Named
from iosim.attention.catalogue import kernel as find
from iosim.attention.plan import BlockChoice
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.options import Value
from iosim.study.formula.grid import Grid, Point
from iosim.study.formula.intervals import Number
from iosim.study.formula.reasons import MOVES, Move, Tried, moved, why
from iosim.study.formula.typed import at, parse

TOTALS = ("words", "reads", "writes")


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Where a formula fails: the sizes, the words counted there, and what the formula gives."""

    sizes: dict[str, int]
    counted: int
    value: Number

    def __str__(self) -> str:
        return f"at {at(self.sizes)} it gives {self.value}, but {self.counted:,} words are counted"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether ``formula`` gives the words that ``kernel`` moves (``of``: all, reads, writes, or those of one array).

    It equals the count at ``equal`` of ``points`` points; ``tried`` says which sizes they have. ``counterexample``: the first point where
    it fails. ``reason``: the likely cause, or None.
    """

    kernel: str
    formula: str
    of: str
    points: int
    equal: int
    tried: str
    counterexample: Counterexample | None = None
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Whether it is equal at all points."""
        return self.counterexample is None

    def record(self) -> dict[str, object]:
        """The verdict as plain data; what the formula gives is text where it is no whole number."""
        return {
            "kernel": self.kernel, "formula": self.formula, "of": self.of, "holds": self.holds, "points": self.points,
            "equal": self.equal, "tried": self.tried, "counterexample": _record(self.counterexample), "reason": self.reason,
        }  # fmt: skip

    def __str__(self) -> str:
        lines = [f"{self.kernel}, {self.of}: {self.formula}"]
        if self.counterexample is None:
            return "\n".join([*lines, f"holds: equal to the count at all {self.points} points tried, {self.tried}"])
        lines += [f"does not hold: {self.counterexample}", f"equal at {self.equal} of {self.points} points tried, {self.tried}"]
        return "\n".join([*lines, *([f"likely reason: {self.reason}"] if self.reason else [])])


def _record(found: Counterexample | None) -> dict[str, object] | None:
    if found is None:
        return None
    value = int(found.value.low) if found.value.exact and found.value.low.denominator == 1 else str(found.value)
    return {**found.sizes, "counted": found.counted, "value": value}


def check_formula(
    kernel: Named, expression: str, *, of: str = "words", blocks: BlockChoice = "fit", dtype: str = "float32",
    causal: bool = False, window: tuple[int, int] | None = None, **options: Value | None,
) -> Verdict:  # fmt: skip
    """Compare a formula with the words of one head, which are counted by running the listing on a grid of small sizes.

    The grid has divisible and ragged lengths, and unequal Br and Bc. N_q and N_k differ where the formula names one of them and not N;
    d and d_v differ where it names d_v. Where it names M, the grid varies M, in words, and ``blocks`` chooses Br and Bc.
    Raises :class:`BadInput` for a formula that cannot be read, that is undefined at some point, or whose numbers are too large.

    Args:
        kernel: the kernel.
        expression: the formula; see :func:`iosim.study.formula.typed.parse`.
        of: "words" (reads and writes), "reads", "writes", or the name of an array.
        blocks: the rule for the blocks where the formula names M: "fit", "paper" or "best".
        dtype: the element type in HBM.
        causal: query i attends to keys up to i + nk - n.
        window: keys to the left and to the right of the diagonal; -1 = all.
        options: those of the kernel, as for :func:`iosim.simulate`.

    >>> print(check_formula("flash2", "N*(2*d+1) + 2*N*d*ceil(N/Br)").holds)
    True
    >>> print(check_formula("flash2", "2*N*d*(1 + ceil(N/Br))"))
    flash2, words: 2*N*d*(1 + ceil(N/Br))
    does not hold: at N=16, d=4, Br=8, Bc=8 it gives 384, but 400 words are counted
    equal at 0 of 72 points tried, N from 16 to 100, d from 4 to 7, Br from 4 to 16, Bc from 3 to 16
    likely reason: everywhere too few by exactly the words of LSE (the statistics)
    """
    formula = parse(expression)
    own = find(kernel)
    points = Grid(own, formula.names, blocks, dtype, causal, window, options).points()
    values = [formula.value(point.sizes) for point in points]  # what is undefined somewhere is refused before anything is counted
    tried, first = [], None
    for point, value in zip(points, values, strict=True):
        counts = point.counts()
        counted = words(counts, of)
        tried.append(Tried(point, counts, counted, value.low if value.exact else None))
        if not equals(value, counted, point) and first is None:
            first = Counterexample(dict(point.shown), counted, value)
    equal = sum(one.agrees for one in tried)
    reason = None if first is None else why(tried, moves(tried[0].counts, of))
    return Verdict(own.name, formula.text, of, len(tried), equal, spans(points), first, reason)


def equals(value: Number, counted: int, point: Point) -> bool:
    """Whether a formula gives the count; raises :class:`BadInput` with the point where square roots leave that open."""
    try:
        return value.equals(counted)
    except BadInput as error:
        raise BadInput(f"{error}, at {at(point.shown)}") from None


def words(counts: Counts, of: str) -> int:
    """The words asked for; raises :class:`BadInput` where ``of`` is no total and no array."""
    if of not in TOTALS and of not in counts.arrays:
        raise BadInput(f"of must be {', '.join(TOTALS)} or an array of this kernel: {', '.join(counts.arrays)}; not {of!r}")
    return sum(moved(counts.arrays[array], move) for array, move in moves(counts, of))


def moves(counts: Counts, of: str) -> list[tuple[str, Move]]:
    """The moves that make up a total, or all of one array."""
    arrays = [of] if of in counts.arrays else list(counts.arrays)
    asked = [move for move in MOVES if of not in ("reads", "writes") or (move == "reads") == (of == "reads")]
    return [(array, move) for array in arrays for move in asked if moved(counts.arrays[array], move)]


def spans(points: list[Point]) -> str:
    """Between which sizes the points lie."""
    spread = {name: sorted({point.shown[name] for point in points}) for name in points[0].shown}
    ends = {name: f" from {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f" = {sizes[0]}" for name, sizes in spread.items()}
    return ", ".join(f"{name}{between}" for name, between in ends.items())
