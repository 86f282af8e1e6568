"""Rows: what is to be known of one submission of many, whatever became of it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

import numpy as np

from iosim.course.catalogue import exercise as exercise_named
from iosim.course.graded import grade_source
from iosim.course.grading.worker import Worker
from iosim.course.parts import NOT_JUDGED
from iosim.course.shown import told
from iosim.course.spec import PartName
from iosim.course.verdict import Verdict

POINTS = {"function": 1, "kernel": 3}


@dataclass(frozen=True, slots=True)
class Submission:
    """A file that is to be graded: where it lies, whose it is, the exercise by name, its bytes, and ``reason``, why it cannot be.

    ``counts``: it is a .py file; anything else in the folder has a row too, but no points to gain or to lose.
    """

    file: str
    student: str
    exercise: str | None = None
    source: bytes = b""
    reason: str = ""
    counts: bool = True


@dataclass(frozen=True, slots=True)
class Row:
    """One submission and its verdict, flat. ``values``, ``rules``, ``words``: True, False, or None where that was not judged.

    ``out_of``: None where that is not known, and for what is no .py file. ``reason``: why points are missing, in one line. ``seed``: its
    inputs are drawn again with it; ``run_seed``: those of every submission. ``seconds``: how long it took. ``told``: the verdict as the
    student sees it.
    """

    file: str
    exercise: str | None
    student: str
    score: int
    out_of: int | None
    values: bool | None = None
    rules: bool | None = None
    words: bool | None = None
    mistake: str | None = None
    reason: str = ""
    line: int | None = None
    seed: int | None = None
    run_seed: int | None = None
    seconds: float = 0.0
    protections: tuple[str, ...] = ()
    told: str = ""

    @property
    def passed(self) -> bool:
        """Whether every point was given."""
        return self.score == self.out_of

    def record(self) -> dict[str, object]:
        """All but the text, by name; the protections joined, the seconds rounded."""
        row = {name: getattr(self, name) for name in FIELDS}
        return {**row, "seconds": round(self.seconds, 3), "protections": ", ".join(self.protections)}


FIELDS = tuple(field.name for field in fields(Row) if field.name != "told")


def seed_of(submission: Submission, run_seed: int) -> int:
    """The seed of one submission: it follows from that of the run, the exercise and the bytes, and from no order, name or machine."""
    told_apart = hashlib.sha256(f"{submission.exercise}\0".encode() + submission.source).digest()
    return int(np.random.SeedSequence([run_seed, *np.frombuffer(told_apart, "<u4").tolist()]).generate_state(1)[0])


def graded_row(submission: Submission, run_seed: int, unprotected: bool = False) -> Row:
    """The row of a submission; whatever happens to it is told there.

    Raises :class:`BadInput` where nothing can be graded in this process, since a protection is missing.
    """
    if submission.reason or submission.exercise is None:
        return refused(submission, submission.reason, run_seed)
    with borrowed(unprotected) as worker:
        started = time.monotonic()
        try:
            verdict = grade_source(exercise_named(submission.exercise), submission.source, worker, seed_of(submission, run_seed))
        except Exception as error:  # one submission must not cost the others their rows
            return refused(submission, f"a bug of the grader, not of the submission: {type(error).__name__}: {error}", run_seed)
        return row_of(submission, verdict, run_seed, time.monotonic() - started)


def refused(submission: Submission, reason: str, run_seed: int) -> Row:
    """The row of a submission that was not graded."""
    asked = None if submission.exercise is None else exercise_named(submission.exercise)
    out_of = POINTS[asked.kind] if asked is not None and submission.counts else None
    return Row(
        submission.file, submission.exercise, submission.student, 0, out_of,
        reason=" ".join(reason.split()), run_seed=run_seed,
    )  # fmt: skip


def row_of(submission: Submission, verdict: Verdict, run_seed: int, seconds: float) -> Row:
    """The row of a submission that was graded."""
    passed: dict[PartName, bool | None] = {part.name: part.passed for part in verdict.parts}
    return Row(
        submission.file, submission.exercise, submission.student, verdict.score, verdict.out_of,
        values=passed["values"], rules=passed.get("rules"), words=passed.get("words"), mistake=verdict.mistake, reason=why(verdict),
        line=verdict.line, seed=verdict.seed, run_seed=run_seed, seconds=seconds, protections=verdict.protections, told=told(verdict),
    )  # fmt: skip


def why(verdict: Verdict) -> str:
    """Why points are missing: what stopped it, or what is said of the first part that was not passed; empty where none is."""
    missing = (part.says for part in verdict.parts if part.passed is False and part.says != NOT_JUDGED)
    return verdict.reason or next(missing, "")


_idle: list[tuple[tuple[int, bool], Worker]] = []
_lock = threading.Lock()


@contextmanager
def borrowed(unprotected: bool) -> Iterator[Worker]:
    """A worker that nobody else uses meanwhile; it is kept for the next submission, since one takes half a second to start.

    Its fork server ends with this process, for then nobody holds the other end of its socket.
    """
    kind = os.getpid(), unprotected  # a process that was forked leaves its parent's workers alone
    with _lock:
        found = next((pair for pair in _idle if pair[0] == kind), None)
        if found is not None:
            _idle.remove(found)
    worker = Worker(unprotected).__enter__() if found is None else found[1]
    try:
        yield worker
    finally:
        with _lock:
            _idle.append((kind, worker))


def dismiss() -> None:
    """End the workers that are kept in this process and not in use."""
    with _lock:
        kept, _idle[:] = [*_idle], []
    for (process, _), worker in kept:
        if process == os.getpid():
            worker.close()
