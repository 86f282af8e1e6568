"""Grading a folder: one row for every submission in it, whatever it is and in whatever order, here or on any executor."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import signal
import stat
from collections.abc import Generator, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath

from iosim.core.errors import BadInput
from iosim.course.catalogue import exercise as exercise_named
from iosim.course.named import exercise_by_name, student_of
from iosim.course.rows import Row, Submission, dismiss, graded_row, refused
from iosim.course.submission import read_submission, shown

PASSED_OVER = ("__pycache__", "__MACOSX")
"""What no student wrote; names that begin with a dot are passed over too."""

# A process that is forked from one with threads, such as that of a progress bar, may hang.
_CONTEXT = "spawn"

Rows = Generator[Row, None, None]


def graded_rows(
    found: list[Submission], *, seed: int | None = None, jobs: int = 1, executor: Executor | None = None, unprotected: bool = False
) -> Iterator[Row]:
    """One row for each submission, in their order; where one cannot be graded, its row says why.

    Raises :class:`BadInput` where a protection is missing, unless ``unprotected``.

    Args:
        found: What :func:`submissions` read.
        seed: Of the run: it gives the same verdicts again, whatever the order, ``jobs`` or ``executor``.
        jobs: How many processes; from a script, guard the call by ``__name__ == "__main__"``.
        executor: Any of ``concurrent.futures``, or a Dask client's, in place of processes.
        unprotected: Grade even where a protection is missing.
    """
    run_seed = secrets.randbits(32) if seed is None else seed
    grade = partial(graded_row, run_seed=run_seed, unprotected=unprotected)
    if executor is not None:
        yield from on_executor(executor, grade, found, run_seed)
    elif jobs > 1:
        yield from on_processes(jobs, grade, found, run_seed)
    else:
        try:
            yield from map(grade, found)
        finally:
            dismiss()


def submissions(
    folder: str | os.PathLike[str], exercise: str | None = None, without: str | os.PathLike[str] | None = None
) -> list[Submission]:
    """The submissions of a folder, read, at any depth, in the order of their names; raises :class:`BadInput` where there is none.

    ``exercise``: by name, of all files; None goes by the names of files and folders (:func:`exercise_by_name`). ``without``: a file that
    is none of them, since it holds the grades.
    """
    asked = None if exercise is None else exercise_named(exercise).name
    top = Path(folder)
    if not os.path.isdir(top):
        raise BadInput(f"{shown(top)} is {'no folder' if os.path.lexists(top) else 'missing'}; give the folder that holds the submissions")
    grades = None if without is None else os.path.abspath(without)
    found = [submission_at(top, path, asked) for path in entries(top) if os.path.abspath(top / path) != grades]
    if not found:
        raise BadInput(f"{shown(top)} is empty; give the folder that holds the submissions, such as alice/e01_softmax.py")
    return found


def entries(folder: Path) -> list[PurePath]:
    """Every file below ``folder``, and every folder that holds none or cannot be read; links are not followed, but told of."""
    found: list[PurePath] = []
    left = [PurePath()]
    while left:
        inside = left.pop()
        files, folders = listed(folder / inside)
        found += [inside / name for name in files]
        left += [inside / name for name in folders]
        if not files and not folders and inside.parts:
            found.append(inside)
    return sorted(found)


def left_out(folder: str | os.PathLike[str]) -> int:
    """How many files and folders are passed over since their names begin with a dot; what is inside such a folder is not counted."""
    return sum(name.startswith(".") for _, folders, files in os.walk(folder) for name in (*files, *_pruned(folders)))


def _pruned(folders: list[str]) -> list[str]:
    """The names of these folders; those that are passed over leave the list, so that nobody walks into them."""
    every = [*folders]
    folders[:] = [name for name in every if not name.startswith(".") and name not in PASSED_OVER]
    return every


def listed(folder: Path) -> tuple[list[str], list[str]]:
    """The names of a folder that is none of those passed over: what is no folder, and folders; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as inside:
            every = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in inside]
    except OSError:
        return [], []
    wanted = [(name, is_folder) for name, is_folder in every if not name.startswith(".") and name not in PASSED_OVER]
    return [name for name, is_folder in wanted if not is_folder], [name for name, is_folder in wanted if is_folder]


def submission_at(top: Path, path: PurePath, exercise: str | None) -> Submission:
    """A submission, read, or why it cannot be graded."""
    name, source, reasons = exercise, b"", []
    try:
        source = source_at(top, path)
    except BadInput as error:
        reasons.append(str(error).removeprefix(f"{shown(top / path)}: "))
    except OSError as error:
        reasons.append(f"cannot be read: {(error.strerror or type(error).__name__).lower()}")
    try:
        name = exercise or exercise_by_name(path).name
    except BadInput as error:
        reasons.append(str(error))
    student = student_of(path, os.path.basename(os.path.abspath(top)))
    return Submission(shown(path), shown(student), name, source, next(iter(reasons), ""), is_answer(top / path))


def is_answer(path: Path) -> bool:
    """Whether it is a .py file, whatever is in it; a link, a pipe or a folder is none. Where nobody can look, its name decides."""
    try:
        return path.suffix == ".py" and stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return path.suffix == ".py"


def source_at(top: Path, path: PurePath) -> bytes:
    """The bytes of a submission; raises :class:`BadInput` for what is none."""
    whole = top / path
    if whole.is_dir() and not whole.is_symlink():
        raise BadInput("a folder without a file" if os.access(whole, os.R_OK | os.X_OK) else "a folder that cannot be read")
    source = read_submission(whole)
    if path.suffix == ".ipynb":
        raise BadInput("a notebook; iosim exercise collect takes the answers out of notebooks")
    if path.suffix != ".py":
        raise BadInput("not a .py file")
    return source


def on_executor(executor: Executor, grade: partial[Row], found: list[Submission], run_seed: int) -> Rows:
    """The rows, in order, from an executor; where a task is lost, its row says so."""
    futures = [executor.submit(grade, submission) for submission in found]
    try:
        for submission, future in zip(found, futures, strict=True):
            yield outcome(future, submission, run_seed)
    finally:
        for future in futures:
            future.cancel()


def outcome(future: Future[Row], submission: Submission, run_seed: int) -> Row:
    """The row of a task; raises only what no single submission can cause."""
    try:
        return future.result()
    except (BadInput, BrokenExecutor):
        raise
    except Exception as error:  # a cluster may lose a task with the process that had it
        return refused(submission, f"its grading was lost: {type(error).__name__}: {error}", run_seed)


def on_processes(jobs: int, grade: partial[Row], found: list[Submission], run_seed: int) -> Rows:
    """The rows, in order, from processes of our own; where one is killed, all are, and what nobody has seen yet begins again."""
    done = 0
    while done < len(found):
        try:
            with processes(jobs) as pool:
                for row in on_executor(pool, grade, found[done:], run_seed):
                    yield row
                    done += 1
        except BrokenExecutor:
            yield alone(grade, found[done], run_seed)  # so that every round gets on, whoever it was
            done += 1


def alone(grade: partial[Row], submission: Submission, run_seed: int) -> Row:
    """The row from a process that does nothing else."""
    try:
        with processes(1) as pool:
            return outcome(pool.submit(grade, submission), submission, run_seed)
    except BrokenExecutor:
        return refused(submission, "the process that graded it was killed, twice; is there memory enough?", run_seed)


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """So many processes, which have ended, with what they were about to do left out, when the block is left."""
    pool = ProcessPoolExecutor(
        jobs, mp_context=multiprocessing.get_context(_CONTEXT), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )  # a Ctrl-C is for the process that started them, which then ends them
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
