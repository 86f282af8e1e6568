"""Judging: from raw results to a verdict; kernels are run, or replayed, on machines of our own."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature

import numpy as np

from iosim.course.advised import advised, imports, returned
from iosim.course.misconceptions import recognised_function, recognised_kernel
from iosim.course.parts import NOT_JUDGED, blocks, many, rules, values, words, wrong_output
from iosim.course.picture import picture
from iosim.course.runs import Attempt, Ran, Stop, Tried, attempted, compared_run
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, KernelCheck, Mistake, Trial, Wrong
from iosim.course.verdict import Part, Verdict

Results = Sequence[tuple[Array, ...] | None]


def drawn_calls(exercise: Exercise, seed: int) -> Sequence[Given]:
    """The calls of a function exercise; the same for the same seed."""
    assert isinstance(exercise.check, FunctionCheck)
    return exercise.check.draw(np.random.default_rng(seed))


def drawn_trials(exercise: Exercise, seed: int) -> Sequence[Trial]:
    """The problems of a kernel exercise; the same for the same seed."""
    assert isinstance(exercise.check, KernelCheck)
    return exercise.check.trials(np.random.default_rng(seed))


def judge_function(exercise: Exercise, seed: int, results: Results, stop: Stop | None = None, protections: Sequence[str] = ()) -> Verdict:
    """The verdict on what a function returned for the calls of ``seed``, None where it returned nothing, and what stopped it."""
    calls = drawn_calls(exercise, seed)
    pairs = list(zip(calls, results, strict=False))
    found = next(((call, wrong) for call, result in pairs if result is not None and (wrong := wrong_result(exercise, call, result))), None)
    missing = found is None and (stop is not None or len(results) < len(calls) or None in results)
    mistake = recognised_function(exercise, calls, results, stop) if found or stop else None
    if found is not None:
        part = Part("values", False, f"{found[1].says} ({found[0].label}: {given_to(exercise, found[0])})")
    elif missing:
        part = Part("values", None, NOT_JUDGED)
    else:
        part = Part("values", True, f"as they should be in {len(calls)} calls: {', '.join(call.label for call in calls)}")
    return _verdict(exercise, seed, (part,), mistake, stop if missing else None, protections)


def given_to(exercise: Exercise, call: Given) -> str:
    """The arguments of a call in one line: the shapes of arrays, and numbers."""
    told = (f"{arg.shape}" if isinstance(arg, np.ndarray) else f"{arg:.6g}" for arg in call.args)
    return ", ".join(f"{name} {arg}" for name, arg in zip(signature(exercise.solution).parameters, told, strict=False))


def wrong_result(exercise: Exercise, given: Given, result: tuple[Array, ...]) -> Wrong | None:
    """What is wrong with one result: how many arrays, their types, or what the exercise says of their numbers."""
    check = exercise.check
    assert isinstance(check, FunctionCheck)
    if len(result) != check.arrays:
        return Wrong(f"it returned {many(len(result), 'array')} but should return {check.arrays}")
    for place, array in enumerate(result):
        if str(array.dtype) not in check.dtypes:
            which = "the result" if check.arrays == 1 else f"result {place + 1} of {check.arrays}"
            return Wrong(f"{which} {_of_another_type(array, check.dtypes)}")
    return check.judge(given, result)


def _of_another_type(array: Array, wanted: Sequence[str]) -> str:
    """What a result holds, and what it should hold."""
    if array.ndim == 0 and array.dtype.kind == "f" and set(wanted) == {"int64"}:
        return f"is a float ({array.item()}) where an int is wanted: use // and not /"
    return f"holds {array.dtype} but should hold {' or '.join(dict.fromkeys(wanted))}"


def judge_kernel(
    exercise: Exercise, seed: int, attempts: Sequence[Attempt], *, trials: Sequence[Trial] | None = None, protections: Sequence[str] = ()
) -> Verdict:
    """The verdict on a kernel: ``attempts[t]`` is run on every data set of trial t of ``seed``.

    ``trials``: those of the seed, where they have been drawn already.
    """
    asked = drawn_trials(exercise, seed) if trials is None else trials
    tried = [attempted(*pair) for pair in zip(asked, attempts, strict=True)]
    sound = all(one.stop is None for one in tried)
    compared = [compared_run(*pair) for pair in zip(asked, attempts, strict=True)] if sound else []
    return judge_tried(exercise, seed, tried, attempts, compared, protections)


def judge_tried(
    exercise: Exercise, seed: int, tried: Sequence[Tried], attempts: Sequence[Attempt], counted: Sequence[Ran] = (),
    protections: Sequence[str] = (),
) -> Verdict:  # fmt: skip
    """The verdict on attempts that have been run; ``counted``: how each behaves when it is only counted, where that may differ."""
    parts = values(tried), rules(tried, counted), words(exercise, tried)
    stop = next((one.stop for one in tried if one.stop is not None), None)
    failed = next((part.name for part in parts if part.passed is False), None if stop is None else "rules")
    mistake = None if failed is None else recognised_kernel(exercise, failed, tried, attempts)
    return _verdict(exercise, seed, parts, mistake, stop, protections, tried)


def pictured(tried: Sequence[Tried]) -> Tried:
    """The first problem on which something was wrong, or else the first one."""
    return next(filter(_wrong, tried), tried[0])


def _wrong(one: Tried) -> bool:
    """Whether a run was stopped, moved too much or computed something else."""
    if one.stop is not None or one.runs[0].words > one.asked.budget:
        return True
    return any(wrong_output(one.asked, place, run.found) for place, run in enumerate(one.runs))


def _verdict(
    exercise: Exercise, seed: int, parts: tuple[Part, ...], mistake: Mistake | None, stop: Stop | None, protections: Sequence[str],
    tried: Sequence[Tried] = (),
) -> Verdict:  # fmt: skip
    """The points: one a part, and none unless the values match."""
    score = sum(part.passed is True for part in parts) if parts[0].passed else 0
    reason = "" if stop is None or stop.rule else _reason(exercise, stop, tried)
    return Verdict(
        exercise.name, parts, score, len(parts), seed, reason=reason,
        mistake=None if mistake is None else mistake.name, advice="" if mistake is None else mistake.says,
        line=None if stop is None else stop.line, picture=_picture(tried), protections=tuple(protections),
    )  # fmt: skip


def _reason(exercise: Exercise, stop: Stop, tried: Sequence[Tried]) -> str:
    """Why nothing could be judged, and what would work."""
    check = exercise.check
    told = imports(stop.told, exercise.kind == "kernel")
    if isinstance(check, FunctionCheck):
        return advised(returned(told, check.arrays))
    return advised(told, next((blocks(one.asked) for one in tried if one.stop is not None), ()))


def _picture(tried: Sequence[Tried]) -> str:
    """The tiles that moved; empty where none did, as with a starter."""
    shown = pictured(tried) if tried else None
    return picture(shown.asked, shown.runs[0].moves) if shown is not None and shown.runs[0].moves else ""
