"""Misconceptions: known mistakes, recognised by computing, or moving, exactly what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from iosim.course.runs import Attempt, Ran, Stop, Tried, attempted, listing_attempt, ran
from iosim.course.spec import Argument, Array, Exercise, Given, Mistake, PartName, Trial
from iosim.course.text import built, mistaken

FUNCTION_NOISE = 1e-7  # two orders of the same sums in float64 agree far better, different formulas never that well
Outcome = tuple[Array, ...] | str | None


def recognised_function(
    exercise: Exercise, calls: Sequence[Given], results: Sequence[tuple[Array, ...] | None], stop: Stop | None = None
) -> Mistake | None:
    """The first known mistake that returns the same for every call, or is stopped by the same error."""
    found: list[Outcome] = [*results]
    if stop is not None and None in found:
        found[found.index(None)] = stop.told
    return next((mistake for mistake in exercise.mistakes if _same_outcomes(_variant(exercise, mistake), calls, found)), None)


def recognised_kernel(exercise: Exercise, failed: PartName, tried: Sequence[Tried], attempts: Sequence[Attempt]) -> Mistake | None:
    """The first known mistake that computes the same wrong values, is stopped by the same rule, or moves the same words."""
    same = {"values": _same_values, "rules": _same_stop, "words": _same_words}[failed]
    variants = {mistake: [listing_attempt(_variant(exercise, mistake), one.asked) for one in tried] for mistake in exercise.mistakes}
    found = (mistake for mistake, those in variants.items() if same(exercise, tried, attempts, those))
    if failed != "rules":
        return next(found, None)
    return min(found, key=lambda mistake: _room_apart(tried, variants[mistake]), default=None)


def copies(args: Sequence[Argument]) -> tuple[Argument, ...]:
    """Arguments that may be written into."""
    return tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)


def arrays_of(returned: object) -> tuple[Array, ...] | None:
    """What a function returned as arrays: one, or a tuple of them; numbers count as arrays of no dimension, anything else as None."""
    parts = returned if isinstance(returned, tuple) else (returned,)
    if all(isinstance(part, np.ndarray | np.generic | int | float) for part in parts):
        return tuple(np.asarray(part) for part in parts)
    return None


@cache
def _variant(exercise: Exercise, mistake: Mistake) -> Callable[..., Any]:
    """The solution with the mistake in it."""
    return built(mistaken(exercise, mistake), exercise.function)


def _same_outcomes(variant: Callable[..., Any], calls: Sequence[Given], found: Sequence[Outcome]) -> bool:
    pairs = [(call, outcome) for call, outcome in zip(calls, found, strict=False) if outcome is not None]
    return bool(pairs) and all(_same_outcome(outcome_of(variant, call), outcome) for call, outcome in pairs)


def outcome_of(function: Callable[..., Any], call: Given) -> Outcome:
    """What a function of this project returns for one call, or what it raises, as Python tells it."""
    try:
        with np.errstate(all="ignore"):
            return arrays_of(function(*copies(call.args)))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # a mistake may well end in one
        return f"{type(error).__name__}: {error}"


def _same_outcome(one: Outcome, other: Outcome) -> bool:
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return isinstance(one, str) and one == other
    return len(one) == len(other) and all(a.dtype == b.dtype and near(a, b, FUNCTION_NOISE) for a, b in zip(one, other, strict=True))


def near(one: Array, other: Array, noise: float) -> bool:
    """Whether two arrays agree but for noise, relative to the largest element; NaN and infinities must be in the same places."""
    if one.shape != other.shape:
        return False
    a, b = one.astype(np.float64), other.astype(np.float64)
    numbers = np.isfinite(b)
    if not np.array_equal(a[~numbers], b[~numbers], equal_nan=True):
        return False
    return bool((np.abs(a[numbers] - b[numbers]) <= noise * (1 + np.abs(b[numbers]).max(initial=0.0))).all())


def _same_values(_: Exercise, tried: Sequence[Tried], attempts: Sequence[Attempt], variants: Sequence[Attempt]) -> bool:
    """Where all that is wrong is NaN, many mistakes look alike: then both are asked again, with a maximum that begins at a number."""
    both = list(zip(tried, attempts, variants, strict=True))
    if not all(
        _same_run(one.asked, place, run, _again(one, variant, place)) for one, _, variant in both for place, run in enumerate(one.runs)
    ):
        return False
    if any(_telling(one.asked, place, run) for one in tried for place, run in enumerate(one.runs)):
        return True
    first, attempt, variant = both[0]
    return _same_run(first.asked, 0, _again(first, attempt, 0, begun=True), _again(first, variant, 0, begun=True))


def _again(one: Tried, attempt: Attempt, place: int, *, begun: bool = False) -> Ran:
    return ran(one.asked, attempt, one.asked.data[place], lax=True, begun=begun)


def _same_run(asked: Trial, place: int, one: Ran, other: Ran) -> bool:
    """Whether two runs ended alike, with the same outputs up to what rounding may do to both."""
    if one.complete != other.complete:
        return False
    bounds = {name: bound for name, (_, bound) in asked.expected(asked.data[place]).items()}
    return not one.complete or all(near(one.found[name], other.found[name], 2 * bound) for name, bound in bounds.items())


def _telling(asked: Trial, place: int, run: Ran) -> bool:
    """Whether some output holds numbers that are wrong, and not just NaN."""
    expected = asked.expected(asked.data[place])
    far = (np.abs(run.found[name].astype(np.float64) - wanted) > bound for name, (wanted, bound) in expected.items())
    return run.complete and any(bool(element.any()) for element in far)


def _same_stop(exercise: Exercise, tried: Sequence[Tried], _: Sequence[Attempt], variants: Sequence[Attempt]) -> bool:
    pairs = zip(tried, variants, strict=True)
    return any(one.stop is not None for one in tried) and all(
        _stopped_alike(exercise, one, attempted(one.asked, variant)) for one, variant in pairs
    )


def _stopped_alike(exercise: Exercise, one: Tried, other: Tried) -> bool:
    """By the same error; where room ran out, with the same words moved, and as the solution's would be, the same room needed."""
    if one.stop is None or other.stop is None or not (one.stop.room and other.stop.room):
        return (one.stop and one.stop.told) == (other.stop and other.stop.told)
    mine, theirs = one.runs[0], other.runs[0]
    right = ran(one.asked, listing_attempt(exercise.solution, one.asked), one.asked.data[0], lax=True)
    return mine.traffic == theirs.traffic and (mine.traffic != right.traffic or mine.peak == theirs.peak)


def _room_apart(tried: Sequence[Tried], variants: Sequence[Attempt]) -> int:
    """How much more or less room was taken before the same stop: where an error has many causes, what had room by then tells them apart."""
    return sum(abs(one.runs[0].peak - attempted(one.asked, variant).runs[0].peak) for one, variant in zip(tried, variants, strict=True))


def _same_words(_: Exercise, tried: Sequence[Tried], __: Sequence[Attempt], variants: Sequence[Attempt]) -> bool:
    return all(
        one.complete and (other := _again(one, variant, 0)).complete and one.runs[0].traffic == other.traffic
        for one, variant in zip(tried, variants, strict=True)
    )
