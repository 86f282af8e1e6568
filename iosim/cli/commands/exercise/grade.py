"""Grade a folder of submissions, one row each."""

from __future__ import annotations

import os
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from typing import TYPE_CHECKING, Unpack

import click

from iosim.cli import reading
from iosim.cli.commands.trace import writer
from iosim.cli.exercise_notes import exercise_option, note, seed_option
from iosim.cli.options import Command, Given, takes, valued
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.progress import steps
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput, MissingExtra
from iosim.core.tables import Cell, table
from iosim.course.catalogue import EXERCISES
from iosim.course.folder import graded_rows, left_out, submissions
from iosim.course.parts import many
from iosim.course.rows import Row
from iosim.course.shown import MARKS
from iosim.course.spec import Exercise

if TYPE_CHECKING:
    from concurrent.futures import Executor

WORTH_A_PROCESS = 8  # submissions; a process takes as long to start
LONGEST = 40  # signs of a file's name that are shown
FORMULA = re.compile(r"(^ *|[;\t][ \"']*)(?=[=+\-@\t\r\uff1d\uff0b\uff0d\uff20])")
"""Where a spreadsheet may take what follows for a formula: at the beginning of a cell, or where it cuts one at a separator of its own."""
LEGEND = "V values, R memory rules, W words moved: ✔ passed, ✘ not, – not judged or not counted"
FREE = ("file", "student", "reason")  # the columns that a student has a hand in


@click.command("grade", cls=Command)
@click.argument("folder", metavar="DIR")
@exercise_option
@seed_option("Grade as in an earlier run; fresh inputs if not given.")
@valued("--jobs", "COUNT", reading.whole, "Processes that grade at the same time; one a CPU if not given.")
@click.option("--dask", metavar="ADDRESS", help="Grade on the Dask cluster whose scheduler is at ADDRESS, such as tcp://10.0.0.1:8786.")
@click.option("--unprotected", is_flag=True, help="Grade even where submissions cannot be kept from files or, as root, get another user.")
@takes("json", "csv", "out")
def command(
    folder: str, exercise: Exercise | None, again: int | None, jobs: int | None, dask: str | None, unprotected: bool, **given: Unpack[Given]
) -> None:  # fmt: skip
    """Grade every submission in DIR and the folders in it: one row each, whatever it is.

    Which exercise a file is for is told by its name or by that of its folder (e08_flash2.py, flash2_alice.py, alice/flash2.py), or by
    --exercise, for all of them. Submissions run apart, protected by several layers, each of which was tried; nothing that they write is
    believed. In CSV and JSON every row has the seed of its inputs: iosim exercise check FILE --seed SEED shows its verdict again.

    \b
    iosim exercise grade submissions
    iosim exercise grade submissions --csv --out grades.csv
    iosim exercise grade submissions --exercise flash2 --jobs 8
    """
    if dask is not None and jobs is not None:
        raise BadInput("--jobs grades on this machine and --dask on a cluster; ask for one of them")
    run_seed = secrets.randbits(32) if again is None else again
    found = submissions(folder, None if exercise is None else exercise.name, without=given["out"])
    with nullcontext() if dask is None else cluster(dask) as executor:
        graded = graded_rows(found, seed=run_seed, jobs=jobs or jobs_for(len(found)), executor=executor, unprotected=unprotected)
        rows = list(steps(graded, len(found), "grading"))
    if hidden := left_out(folder):
        note(f"{hidden} name{' that begins with a dot was' if hidden == 1 else 's that begin with a dot were'} left out")
    with writer(given["out"]) as out, redirect_stdout(out):
        deliver(given, Answer(text_of(rows, cut=given["out"] is None), document(rows), [safe(row.record()) for row in rows]))


def jobs_for(count: int) -> int:
    """As many processes as there are CPUs for this one, but none for too few submissions."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cpus, count // WORTH_A_PROCESS))


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """A Dask cluster as an executor."""
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("--dask needs dask.distributed: pip install 'iosim[cluster]'") from None
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise BadInput(f"--dask {address}: no Dask scheduler answers there: {error or type(error).__name__}") from None
    with client:
        yield client.get_executor()


def document(rows: Sequence[Row]) -> dict[str, object]:
    """All rows with the verdicts as the students see them, and what holds for the run."""
    return {"seed": rows[0].run_seed, "rows": [{**row.record(), "verdict": row.told or row.reason} for row in rows]}


def safe(row: Record) -> Record:
    """A row that no spreadsheet takes for a formula, whatever a student has called a file or an exception."""
    return {name: FORMULA.sub(r"\1'", value) if name in FREE and isinstance(value, str) else value for name, value in row.items()}


def text_of(rows: Sequence[Row], cut: bool = True) -> str:
    """A line a submission, a line an exercise, a line a student, and how to do it again; ``cut``: to the width of the terminal."""
    shown = submissions_table([line_of(row, LONGEST if cut else None) for row in rows], width() if cut else None)
    tables = [table(["exercise", "submissions", "full marks", "mean", "most often"], summaries(rows), width=width())]
    if any(line[1] != 1 for line in totals(rows)):
        tables.append(table(["student", "exercises", "points", "of"], totals(rows), width=width()))
    summary = "\n".join(part for one in tables for part in (one, ""))
    return "\n".join([shown, LEGEND, "", summary, *(wrapped(line, width()) for line in said(rows))])


def submissions_table(lines: Sequence[list[Cell]], most: int | None) -> str:
    """A line a submission, its last column cut where there is not so much room."""
    head = ["file", "exercise", "score", "V", "R", "W", "why"]
    if most is None:
        return table(head, lines)
    before = len(table(head[:-1], [line[:-1] for line in lines]).splitlines()[1]) + 2
    return table(head, [[*line[:-1], clipped(str(line[-1]), most - before)] for line in lines])


def line_of(row: Row, longest: int | None = LONGEST) -> list[Cell]:
    """One submission in the table; a part that gives no point, since the values are wrong, has no tick."""
    parts = row.values, *(None if part and not row.values else part for part in (row.rules, row.words))
    marks = [MARKS[passed] if row.told else "" for passed in parts]
    score = "–" if row.out_of is None else f"{row.score}/{row.out_of}"
    if row.out_of == 1:
        marks[1:] = ["", ""]
    return [row.file if longest is None else clipped(row.file, longest), row.exercise, score, *marks, row.mistake or row.reason]


def summaries(rows: Sequence[Row]) -> list[list[Cell]]:
    """One line an exercise: how many, how many with full marks, the mean, and the mistake that was made most often."""
    lines: list[list[Cell]] = []
    for name in EXERCISES:
        mine = [row for row in rows if row.exercise == name and row.out_of is not None]
        if not mine:
            continue
        often = Counter(row.mistake for row in mine if row.mistake).most_common(1)
        mean = sum(row.score for row in mine) / len(mine)
        told = f"{often[0][0]} ({often[0][1]})" if often else "–"
        lines.append([name, len(mine), sum(row.passed for row in mine), f"{mean:.2f} of {mine[0].out_of}", told])
    return lines


def totals(rows: Sequence[Row]) -> list[list[Cell]]:
    """One line a student: how many exercises, the points for them, the best file of each, and what these are out of."""
    best: dict[str, dict[str | None, Row]] = {}
    for row in rows:
        if row.out_of is not None:
            mine = best.setdefault(row.student, {})
            mine[row.exercise] = max(mine.get(row.exercise, row), row, key=lambda one: one.score)
    return [
        [clipped(who, LONGEST), len(mine), sum(row.score for row in mine.values()), sum(row.out_of or 0 for row in mine.values())]
        for who, mine in sorted(best.items())
    ]


def said(rows: Sequence[Row]) -> list[str]:
    """How many there were, the seed, and the protections."""
    counted = [row for row in rows if row.out_of is not None]
    layers = dict.fromkeys(", ".join(row.protections) or "nothing" for row in rows if row.told)
    full, others = sum(row.passed for row in counted), len(rows) - len(counted)
    lines = [f"{many(len(counted), 'submission')}, {full} with full marks. The same inputs again: --seed {rows[0].run_seed}"]
    are = "is no .py file or is" if others == 1 else "are no .py files or are"
    lines += [f"Besides, {others} that {are} for no exercise that is known, in the first table only."] if others else []
    return [*lines, *(f"Run apart, under {names}." for names in layers)]


def clipped(text: str, most: int) -> str:
    """So many signs of a text at most."""
    return text if len(text) <= most else text[: most - 1] + "…"
