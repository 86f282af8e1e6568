"""Judge your file: values, memory rules, words moved."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Unpack

import click

from iosim.cli.exercise_notes import exercise_option, following, note, remember, seed_option
from iosim.cli.exercise_watch import watch
from iosim.cli.options import Command, Given, takes
from iosim.cli.output import CheckFailed, as_json, width
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES
from iosim.course.graded import Graded, graded
from iosim.course.grading.worker import Worker
from iosim.course.here import check
from iosim.course.named import exercise_by_name
from iosim.course.progress import recall
from iosim.course.shown import told
from iosim.course.spec import Exercise
from iosim.course.submission import read_submission, shown
from iosim.course.text import built
from iosim.course.verdict import Verdict

Judge = Callable[[Exercise, bytes, int | None], Graded]


@click.command("check", cls=Command)
@click.argument("file", metavar="FILE")
@exercise_option
@click.option("--watch", "watching", is_flag=True, help="Judge again at every save; once it passes, go on to the next exercise.")
@seed_option("Draw the inputs of an earlier verdict again; fresh ones if not given.")
@takes("json")
def command(file: str, exercise: Exercise | None, watching: bool, again: int | None, **given: Unpack[Given]) -> None:
    """Judge FILE on freshly drawn inputs, and say what is right, what is wrong and where.

    Which exercise it is for is told by its name, such as e08_flash2.py, or by --exercise. It runs in a process of its own with little
    time, memory and rights.

    \b
    iosim exercise check e01_softmax.py
    iosim exercise check --watch e01_softmax.py
    """
    path = Path(file)
    asked = exercise or exercise_of(path)
    if watching and given["json"]:
        raise BadInput("--watch prints a verdict at every save, and --json is one document; ask for one of them")
    if watching:
        read_submission(path)  # a file that is not there yet, or a mistyped name, would be waited for in silence
    with judging() as judge:
        if watching:
            watch(path, asked, lambda path, asked: looked_at(judge, path, asked, again))
        else:
            found = checked(judge, path, asked, again)
            click.echo(as_json(document(found)) if given["json"] else text_of(found))
            if not found.verdict.passed:
                raise CheckFailed(f"not passed yet; for a hint: iosim exercise hint {asked.name}")


def exercise_of(path: Path) -> Exercise:
    """The exercise that the file's name speaks of, or that of the folder in which it lies."""
    try:
        return exercise_by_name(Path(*Path(os.path.abspath(path)).parts[-2:]))
    except BadInput as error:
        read_submission(path)  # where there is no such file, that is the news
        raise BadInput(f"{shown(path)}: {error}; exercises: {', '.join(EXERCISES)}") from None


@contextmanager
def judging() -> Iterator[Judge]:
    """Something that judges sources, under all the protection there is; one line says what is missing."""
    if not hasattr(os, "fork"):
        note("warning: this system cannot run your file apart, so it runs in this process, without limits")
        yield judge_here
        return
    with opened() as worker:
        yield lambda exercise, source, seed: graded(exercise, source, worker, seed)


@contextmanager
def opened() -> Iterator[Worker]:
    """A worker; where one refuses for want of protection, one that does without, and a warning."""
    with ExitStack() as stack:
        try:
            worker = stack.enter_context(Worker())
        except BadInput as error:
            worker = stack.enter_context(Worker(unprotected=True))
            note(f"warning: your file runs with less protection than is needed for those of others: {str(error).partition(':')[0]}")
        yield worker


def judge_here(exercise: Exercise, source: bytes, seed: int | None) -> Graded:
    """Judge one's own file in this process."""
    try:
        function = built(source.decode("utf-8-sig"), exercise.function)
    except KeyError:
        raise BadInput(f"no function named {exercise.function}; exercise {exercise.name} asks for one") from None
    except Exception as error:
        raise BadInput(f"the file cannot be run: {type(error).__name__}: {error}") from None
    return Graded(check(function, exercise, seed=seed).verdict)


def checked(judge: Judge, path: Path, exercise: Exercise, seed: int | None) -> Graded:
    """Judge a file and remember if it passed; raises :class:`BadInput` where it has no such function, or two."""
    found = judge(exercise, read_submission(path), seed)
    if re.fullmatch(r"NameError: (no function named \w+|\d+ functions are named \w+: keep one)", found.verdict.reason):
        raise BadInput(f"{shown(path)}: {found.verdict.reason.removeprefix('NameError: ')}; exercise {exercise.name} asks for one")
    if found.verdict.passed:
        remember(recall().passing(exercise.name))
    return found


def looked_at(judge: Judge, path: Path, exercise: Exercise, seed: int | None) -> bool:
    """Judge a file that is being watched and print what is found; True once it passes."""
    try:
        found = checked(judge, path, exercise, seed)
    except BadInput as error:
        click.echo(f"{error}")
        return False
    click.echo(text_of(found))
    return found.verdict.passed


def text_of(found: Graded) -> str:
    """The verdict, what was printed, how it was protected in a word each, and what to do next."""
    verdict = found.verdict
    printed = ["It printed:", *(f"  {line}" for line in found.printed.splitlines())] if found.printed else []
    layers = f"protected: {', '.join(verdict.protections)}" if verdict.protections else "Run without protection."
    return "\n".join([told(verdict, width()), *printed, click.style(wrapped(layers, width()), dim=True), *after(verdict)])


def after(verdict: Verdict) -> list[str]:
    """What to do next, once it has passed."""
    if not verdict.passed:
        return []
    then = following(EXERCISES[verdict.exercise], recall().passing(verdict.exercise))
    return ["Passed. That was the last one of the course." if then is None else f"Passed. Next: iosim exercise start {then.name}"]


def document(found: Graded) -> dict[str, object]:
    """The verdict as a record."""
    verdict = found.verdict
    parts = {part.name: {"passed": part.passed, "says": part.says} for part in verdict.parts}
    names = ("exercise", "score", "out_of", "passed", "seed", "reason", "line", "mistake", "advice", "picture", "protections")
    return {name: getattr(verdict, name) for name in names} | {"parts": parts, "printed": found.printed}
