"""Checking an answer in this process: for notebooks, and for one's own work."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iosim.core.errors import BadInput
from iosim.course.catalogue import exercise as exercise_named
from iosim.course.catalogue import exercise_of
from iosim.course.judging import drawn_calls, drawn_trials, judge_function, judge_tried, pictured
from iosim.course.misconceptions import arrays_of, copies
from iosim.course.picture import picture_html
from iosim.course.runs import Stopped, attempted, counted_run, listing_attempt, stop_of, stopped
from iosim.course.shown import told, told_html
from iosim.course.spec import Array, Exercise, Given
from iosim.course.verdict import Verdict

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, repr=False)
class Shown:
    """A verdict that shows itself: as text in a terminal, as a table in a notebook, where ``drawn`` is its picture."""

    verdict: Verdict
    drawn: str = ""

    @property
    def passed(self) -> bool:
        """Whether every point was given."""
        return self.verdict.passed

    def __str__(self) -> str:
        return told(self.verdict)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return told_html(self.verdict, self.drawn)


def check(fn: Function, exercise: Exercise | str | int | None = None, *, seed: int | None = None) -> Shown:
    """Check an answer on freshly drawn inputs, and say what is right and what is wrong with it.

    ``exercise``: None finds the one that asks for a function of this name. ``seed``: draw the inputs of an earlier check again. The answer
    runs in this process, so this is for one's own work; ``iosim exercise grade`` is for that of others.
    Raises :class:`BadInput` for what is no function, and where no exercise asks for one of this name.

    >>> from iosim.course.exercises.e01_softmax.source import softmax
    >>> check(softmax).passed
    True
    """
    if not callable(fn):
        raise BadInput(f"check takes the function that you wrote, not {type(fn).__name__}; give it as check(softmax)")
    asked = exercise_asked(fn, exercise)
    drawn = secrets.randbits(32) if seed is None else seed
    with np.errstate(all="ignore"):
        return Shown(checked_function(asked, fn, drawn)) if asked.kind == "function" else checked_kernel(asked, fn, drawn)


def exercise_asked(fn: Function, exercise: Exercise | str | int | None) -> Exercise:
    """The exercise that is named, or else the one that asks for a function of this name."""
    if exercise is None:
        return exercise_of(getattr(fn, "__name__", type(fn).__name__))
    return exercise if isinstance(exercise, Exercise) else exercise_named(exercise)


def checked_kernel(exercise: Exercise, fn: Function, seed: int) -> Shown:
    """Run a kernel on every problem of the seed, and count it too."""
    trials = drawn_trials(exercise, seed)
    attempts = [listing_attempt(fn, asked) for asked in trials]
    tried = [attempted(*pair) for pair in zip(trials, attempts, strict=True)]
    counted = [counted_run(*pair) for pair in zip(trials, attempts, strict=True)] if all(one.complete for one in tried) else []
    shown = pictured(tried)
    moves = shown.runs[0].moves
    return Shown(judge_tried(exercise, seed, tried, attempts, counted), picture_html(shown.asked, moves) if moves else "")


def checked_function(exercise: Exercise, fn: Function, seed: int) -> Verdict:
    """Call a function with copies of every input of the seed, up to the first call that it does not survive."""
    results: list[tuple[Array, ...] | None] = []
    for call in drawn_calls(exercise, seed):
        found = called(fn, call)
        if isinstance(found, Stopped):
            return judge_function(exercise, seed, [*results, None], stop_of(found))
        results.append(found)
    return judge_function(exercise, seed, results)


def called(fn: Function, call: Given) -> tuple[Array, ...] | Stopped:
    """What a function returns, or how it ended."""
    try:
        returned = fn(*copies(call.args))
    except (Exception, SystemExit) as error:
        return stopped(error, fn)
    arrays = arrays_of(returned)
    if arrays is None:
        return Stopped(f"it returned {described(returned)}; arrays and numbers can be judged")
    return tuple(map(widened, arrays))


def widened(array: Array) -> Array:
    """A whole number of any NumPy type as an int64, as a Python number would come; anything else as it is."""
    whole = array.ndim == 0 and array.dtype.kind in "iu" and np.can_cast(array.dtype, np.int64)
    return array.astype(np.int64) if whole else array


def described(returned: object) -> str:
    """What was returned, in words."""
    return "nothing" if returned is None else f"a value of type {type(returned).__name__}"
