"""Grade one submission and write Gradescope's results.json. This file is copied into exports as grade.py; it needs no package.

It calls ``iosim exercise grade`` in a process of its own, which runs the submission in yet others, and believes nothing but what that says.
Where nothing could be graded, as where a protection is missing, it writes no results and says why: that is not the submission's fault.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def main(submission: str, results: str) -> None:
    """Grade the folder ``submission`` and write the file ``results``."""
    asked = json.loads(Path(__file__).with_name("asked.json").read_text(encoding="utf-8"))
    started = time.monotonic()
    rows = graded(submission, asked["unprotected"])
    document = document_of(asked["exercises"], rows, time.monotonic() - started)
    temporary = f"{results}.part"
    Path(temporary).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    os.replace(temporary, results)


def graded(submission: str, unprotected: bool) -> list[Row]:
    """One row for each file of the submission; none where nothing was handed in."""
    if not os.listdir(submission):
        return []
    command = [sys.executable, "-I", "-m", "iosim", "exercise", "grade", submission, "--json", "--jobs", "1"]
    done = subprocess.run([*command, *(["--unprotected"] if unprotected else [])], cwd="/", stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit("nothing could be graded; the line above says why")  # that line went to standard error
    rows: list[Row] = json.loads(done.stdout)["rows"]
    return rows


def document_of(exercises: Sequence[dict[str, Any]], rows: Sequence[Row], seconds: float) -> dict[str, object]:
    """What Gradescope reads."""
    tests = [test for exercise in exercises for test in tests_of(exercise, rows)]
    return {
        "score": sum(test["score"] for test in tests),
        "execution_time": round(seconds, 3),
        "output": "\n".join(passed_over(exercises, rows)),
        "stdout_visibility": "hidden",
        "tests": tests,
    }


def tests_of(exercise: dict[str, Any], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A test for each part of the verdict; rules and words count only where the values match."""
    row, told = found(exercise, rows)
    right = row is not None and row["values"] is True
    tests = []
    for place, test in enumerate(exercise["tests"]):
        earned = right and row is not None and row[test["part"]] is True
        tests.append({
            "name": test["name"],
            "score": int(earned),
            "max_score": 1,
            "status": "passed" if earned else "failed",
            "output": "" if place else told,  # the verdict is one, and long
            "visibility": "visible",
        })  # fmt: skip
    return tests


def found(exercise: dict[str, Any], rows: Sequence[Row]) -> tuple[Row | None, str]:
    """The row of the file that answers an exercise, or None, and what to tell of it."""
    mine = [row for row in rows if row["exercise"] == exercise["name"]]
    judged = [row for row in mine if row["seed"] is not None]
    if len(judged) > 1:
        return None, f"{len(judged)} files answer it: {', '.join(row['file'] for row in judged)}; hand in one"
    if judged:
        return judged[0], judged[0]["verdict"]
    return None, "\n".join(f"{row['file']}: {row['reason']}" for row in mine) or f"no file answers it; hand in {exercise['file']}"


def passed_over(exercises: Sequence[dict[str, Any]], rows: Sequence[Row]) -> list[str]:
    """What was handed in and counts for nothing here."""
    names = [exercise["name"] for exercise in exercises]
    return [f"{row['file']}: {row['reason'] or 'not asked for here'}" for row in rows if row["exercise"] not in names]


if __name__ == "__main__":
    main(*sys.argv[1:])
