"""The master notebook for otter-grader, from which ``otter assign`` makes the students' notebook and the autograder."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from iosim.course.export.notebook import PARTS, Cell, assertion, begun, body, key, left, name_of, told, written
from iosim.course.spec import Exercise, PartName
from iosim.course.verdict import TITLES

# Tests are functions, not doctests: when one fails, the student reads the verdict and not a traceback.
CONFIG = """# ASSIGNMENT CONFIG
name: {name}
init_cell: true
export_cell:
  pdf: false
tests:
  ok_format: false"""


def files(exercises: Sequence[Exercise]) -> dict[str, bytes]:
    """The master notebook, by its name; see otter-grader's manual, "Otter Assign Format"."""
    name = name_of(exercises)
    config = Cell("raw", CONFIG.format(name=name))
    return {f"{name}.ipynb": written([config, *(cell for exercise in exercises for cell in question(exercise))])}


def question(exercise: Exercise) -> list[Cell]:
    """One exercise as a question: a point for each part of the verdict."""
    points = len(PARTS[exercise.kind])
    return [
        Cell("raw", f"# BEGIN QUESTION\nname: {key(exercise)}\npoints: {points}"),
        Cell("markdown", told(exercise)),
        Cell("raw", "# BEGIN SOLUTION"),
        Cell("code", answer(exercise), {"iosim": {"exercise": exercise.name}}),
        Cell("raw", "# END SOLUTION"),
        Cell("raw", "# BEGIN TESTS"),
        *(Cell("code", test(exercise, part)) for part in PARTS[exercise.kind]),
        Cell("raw", "# END TESTS"),
        Cell("raw", "# END QUESTION"),
    ]


def answer(exercise: Exercise) -> str:
    """The solution, marked so that students get the line that stands for it."""
    marked = ["    # BEGIN SOLUTION NO PROMPT", body(exercise), "    # END SOLUTION"]
    return "\n".join([begun(exercise), *marked, '    """ # BEGIN PROMPT', left(exercise), '    """ # END PROMPT'])


def test(exercise: Exercise, part: PartName) -> str:
    """One test: otter hands it what the notebook defined under the name of its parameter, None where there is nothing."""
    config = ['""" # BEGIN TEST CONFIG', f"success_message: {TITLES[part]}", '""" # END TEST CONFIG']
    lines = textwrap.indent(assertion(exercise, part), "    ")
    return "\n".join([*config, f"def test_{part}({exercise.function}):", lines])
