"""Watching a file: judged at every save, and once it passes, the next exercise begins beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import click

from iosim.cli.commands.exercise.start import begun
from iosim.cli.exercise_notes import following
from iosim.cli.output import width
from iosim.cli.wrapping import wrapped
from iosim.course.progress import recall
from iosim.course.spec import Exercise
from iosim.course.submission import shown
from iosim.course.text import file_name

PAUSE = 0.1  # seconds between two looks; short enough to feel like none
Wait = Callable[[float], object]
State = tuple[int, int, int] | None


def watch(path: Path, exercise: Exercise, judge: Callable[[Path, Exercise], bool], wait: Wait = time.sleep) -> None:
    """Judge ``path`` now and at every save until it passes, then the file of the next exercise; ends once all have passed."""
    seen: State = None
    while True:
        until_passed(path, exercise, judge, wait, seen)
        then = following(exercise, recall().passing(exercise.name))
        if then is None:
            return
        path, exercise = path.with_name(file_name(then)), then
        seen = None if os.path.lexists(path) else state(begun(exercise, path.parent))
        waiting = "" if seen is None else " It says what to write; save it to have it judged."
        click.echo("\n" + wrapped(f"Now {shown(path)}: {exercise.title}.{waiting}", width()))


def until_passed(path: Path, exercise: Exercise, judge: Callable[[Path, Exercise], bool], wait: Wait, seen: State) -> None:
    """Judge at every save until it passes; ``seen`` is what need not be judged."""
    for at in saves(path, wait, seen):
        click.echo(f"\n{f'── {shown(path)} at {at:%H:%M:%S} ':─<{width()}}")
        if judge(path, exercise):
            return
        click.echo("Waiting for the next save; Ctrl-C ends this.")


def saves(path: Path, wait: Wait, seen: State = None) -> Iterator[datetime]:
    """The time, as often as the file is another than before, the first of them at once; a file that is missing meanwhile is waited for."""
    while True:
        now = state(path)
        if now is not None and now != seen:
            seen = now
            yield datetime.now()
        else:
            wait(PAUSE)


def state(path: Path) -> State:
    """What changes when a file is saved; None where there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
