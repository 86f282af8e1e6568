"""The assignment notebook for nbgrader, from which ``nbgrader generate_assignment`` makes the students' notebook."""

from __future__ import annotations

from collections.abc import Sequence

from iosim.course.export.notebook import PARTS, Cell, assertion, begun, body, key, name_of, told, written
from iosim.course.spec import Exercise, PartName
from iosim.course.verdict import TITLES

SCHEMA = 3  # of nbgrader's cell metadata, in versions 0.6 to 0.9


def files(exercises: Sequence[Exercise]) -> dict[str, bytes]:
    """The notebook, by its name; see nbgrader's manual, "Creating and grading assignments"."""
    cells = [cell for exercise in exercises for cell in problem(exercise)]
    return {f"{name_of(exercises)}.ipynb": written(cells)}


def problem(exercise: Exercise) -> list[Cell]:
    """One exercise: read-only text, the cell of the answer, and a locked test worth a point for each part of the verdict."""
    name = key(exercise)
    return [
        Cell("markdown", told(exercise), marked(f"{name}_text", "markdown", locked=True)),
        Cell("code", answer(exercise), {**marked(name, "code", solution=True), "iosim": {"exercise": exercise.name}}),
        *(Cell("code", test(exercise, part), marked(f"{name}_{part}", "code", locked=True, points=1)) for part in PARTS[exercise.kind]),
    ]


def marked(grade_id: str, kind: str, *, locked: bool = False, solution: bool = False, points: int | None = None) -> dict[str, object]:
    """What nbgrader is to know of a cell; with ``points`` it is a test."""
    known = {"grade_id": grade_id, "cell_type": kind, "schema_version": SCHEMA, "task": False, "locked": locked, "solution": solution}
    return {"nbgrader": {**known, "grade": points is not None, **({} if points is None else {"points": points})}}


def answer(exercise: Exercise) -> str:
    """The solution, marked so that students get nbgrader's own line in its place."""
    return "\n".join([begun(exercise), "    ### BEGIN SOLUTION", body(exercise), "    ### END SOLUTION"])


def test(exercise: Exercise, part: PartName) -> str:
    """One test; what passed is displayed, and not the value of the cell, which nbgrader would take for partial credit."""
    return "\n".join([f"# 1 point: {TITLES[part]}", assertion(exercise, part), "display(shown)"])
