"""Grading: a submission's bytes run apart on fresh inputs, once for each shape of them, and are judged here by what came out."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from iosim.attention.kernels.masking import Mask
from iosim.course.grading import records, results
from iosim.course.grading.caps import Caps
from iosim.course.grading.job import Job, function_job, kernel_job, tables_of
from iosim.course.grading.recording import record
from iosim.course.grading.replay import caps_of, replay
from iosim.course.grading.results import printable
from iosim.course.grading.worker import Limits, Outcome, Worker
from iosim.course.judging import drawn_calls, drawn_trials, judge_function, judge_kernel
from iosim.course.runs import Attempt, Stop, Stopped
from iosim.course.spec import Array, Exercise, FunctionCheck, Trial
from iosim.course.trials import declared, mask_of
from iosim.course.verdict import Verdict
from iosim.machine import Hbm, Machine

LIMITS = Limits(stream=8 << 20)
LINES = 20  # of what a submission printed
MOST_WALL = 10.0  # seconds by the clock for all runs of a submission; an honest one needs milliseconds
LEAST_WALL = 0.5  # seconds: with less of them left, none is begun
MOST_REPLAY = 10.0  # seconds of the grader's own work for it; by the clock it would depend on what else the machine does


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict on a submission, and what it printed, of which nothing is to be believed."""

    verdict: Verdict
    printed: str = ""


def grade_source(exercise: Exercise, source: bytes, worker: Worker, seed: int | None = None) -> Verdict:
    """The verdict on a submission; ``seed`` draws the inputs of an earlier one again, None fresh ones, from the system's randomness."""
    return graded(exercise, source, worker, seed).verdict


def graded(exercise: Exercise, source: bytes, worker: Worker, seed: int | None = None) -> Graded:
    """The same, with what the submission printed."""
    drawn = secrets.randbits(32) if seed is None else seed
    with np.errstate(all="ignore"):  # wrong answers overflow, and that is theirs to say
        return (graded_function if exercise.kind == "function" else graded_kernel)(exercise, source, worker, drawn)


def graded_function(exercise: Exercise, source: bytes, worker: Worker, seed: int) -> Graded:
    """All calls of the seed in one run."""
    assert isinstance(exercise.check, FunctionCheck)
    calls = drawn_calls(exercise, seed)
    outcome = worker.run(function_job(exercise.function, [call.args for call in calls]), source, LIMITS)
    found = results.parse(outcome.stream, len(calls), exercise.check.arrays, tuple(results.CODES.values()))
    stop = ended(outcome, LIMITS) or _broken_off(found)
    got: list[tuple[Array, ...] | None] = [*found.calls, *([] if stop is None else [None])]
    return Graded(judge_function(exercise, seed, got, stop, worker.protections), told_by(outcome))


def _broken_off(found: results.Results) -> Stop | None:
    """Why there are not results enough, if there are not."""
    if found.error is not None:
        return Stop(found.error.type, found.error.message, found.error.lines[-1] if found.error.lines else None, rule=False)
    return Stop("", found.broken, None, rule=False) if found.broken else None


def graded_kernel(exercise: Exercise, source: bytes, worker: Worker, seed: int) -> Graded:
    """One run for each problem of the seed, whose stream is replayed on every data set of it; after one that was ended, no other."""
    trials, clock, replays = drawn_trials(exercise, seed), Clock(), Allowance()
    attempts: list[Attempt] = []
    printed: list[str] = []
    for asked in trials:
        job = job_of(exercise, asked)
        caps = solution_caps(exercise, asked, job)
        limits = limits_of(caps, clock.left)
        outcome = clock.run(worker, job, source, limits)
        printed.append(told_by(outcome))
        stop = ended(outcome, limits)
        if stop is not None:
            attempts += [raising(stop)] * (len(trials) - len(attempts))
            break
        attempts.append(replaying(outcome.stream, caps, replays))
    verdict = judge_kernel(exercise, seed, attempts, trials=trials, protections=worker.protections)
    return Graded(verdict, next(filter(None, printed), ""))


def job_of(exercise: Exercise, asked: Trial) -> Job:
    """What a child is asked to run: shapes, parameters and the mask's tables; neither numbers nor what they should become."""
    mask = mask_of(asked)
    arrays = {**asked.inputs, **asked.outputs, **asked.scratch}
    return kernel_job(exercise.function, arrays, asked.params, None if mask is None else tables_of(mask))


def solution_caps(exercise: Exercise, asked: Trial, job: Job) -> Caps:
    """What a replay may cost: a multiple of what that of the solution does."""
    machine = Machine(mode="trace")
    return caps_of(record(exercise.solution, job), machine, declared(machine, asked), mask_of(asked))


def limits_of(caps: Caps, left: float = MOST_WALL) -> Limits:
    """What a run may take whose records are at most so many; ``left``: the seconds by the clock that its submission still has."""
    return replace(LIMITS, stream=caps.records * (records.RECORD.size + records.LENGTH.size), wall=min(LIMITS.wall, left))


@dataclass(slots=True)
class Clock:
    """The seconds by the clock that the runs of one submission still have."""

    left: float = MOST_WALL

    def run(self, worker: Worker, job: Job, source: bytes, limits: Limits) -> Outcome:
        """Run it; where what is left is no time to begin in, it counts as ended without."""
        if self.left < LEAST_WALL:
            return Outcome(b"", stopped="time")
        began = time.monotonic()
        outcome = worker.run(job, source, limits)
        self.left -= time.monotonic() - began
        return outcome


@dataclass(slots=True)
class Allowance:
    """What the replays of one submission may take together, of which there are many: trials, data sets, known mistakes to compare with."""

    seconds: float = MOST_REPLAY

    @contextmanager
    def charged(self) -> Iterator[None]:
        """Do some of it; raises :class:`Stopped` where nothing is left."""
        if self.seconds <= 0:
            raise Stopped(f"its operations take more than {MOST_REPLAY:g} s to replay; an answer needs far fewer")
        began = time.process_time()
        try:
            yield
        finally:
            self.seconds -= time.process_time() - began


def replaying(stream: bytes, caps: Caps, allowance: Allowance | None = None) -> Attempt:
    """An attempt that is the replay of a stream, charged to ``allowance``."""
    charged = nullcontext if allowance is None else allowance.charged

    def attempt(m: Machine, arrays: Sequence[Hbm], mask: Mask | None) -> None:
        with charged():
            replay(stream, m, arrays, mask, caps)

    return attempt


def raising(stop: Stop) -> Attempt:
    """An attempt that was ended before it came to an end."""

    def attempt(*_: object) -> None:
        raise Stopped(stop.says, stop.line)

    return attempt


def ended(outcome: Outcome, limits: Limits) -> Stop | None:
    """Why a run was ended, in words; None where it ended by itself."""
    if not outcome.stopped:
        return None
    late = limits.wall < LIMITS.wall and outcome.cpu < limits.cpu
    most = f"{MOST_WALL:g} s by the clock, all problems together" if late else f"{limits.cpu} s of work or {LIMITS.wall:g} s by the clock"
    known = {
        "time": f"ended after {most}; is there a loop that never ends?",
        "too much output": f"ended after printing {limits.said >> 20} MiB",
        "too many results": "ended, since it does far more than an answer needs; is there a loop that never ends?",
        "too long a source": f"its source is longer than {limits.source >> 10} KiB",
        "not started": "it was not run, since its process could not be protected",
        "lost": "its process and the one that started it were lost",
    }
    return Stop("", known.get(outcome.stopped, outcome.stopped), None, rule=False)


def told_by(outcome: Outcome) -> str:
    """What a submission printed: its first lines, made harmless."""
    lines = outcome.said[: LINES << 10].splitlines()
    more = ["..."] if len(lines) > LINES or len(outcome.said) > LINES << 10 else []
    return "\n".join([*(printable(line.expandtabs()) for line in lines[:LINES]), *more])
