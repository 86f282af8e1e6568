"""Exported notebooks under the tools themselves: otter-grader, nbgrader and nbformat give honest work the marks of ``check``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.export import TARGETS, export
from iosim.course.text import mistaken

MISSING = [name for name in ("otter", "nbgrader", "ipykernel", "nbformat") if find_spec(name) is None]
pytestmark = [
    pytest.mark.exports,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}: pip install 'iosim[exports]'"),
]

ASKED = [exercise("softmax"), exercise("flash2")]
REREADING = mistaken(exercise("flash2"), next(one for one in exercise("flash2").mistakes if one.fails == "words"))
EXPECTED = {"honest": 4.0, "rereading": 3.0, "starter": 0.0}
"""Points of 1 + 3: the solutions; values and rules of flash2, but not its words; what students begin with."""


def tool(folder: Path, *command: str) -> str:
    """Run a tool in ``folder``, where it keeps what it has to keep; what it printed."""
    kept = {"HOME": str(folder), "IPYTHONDIR": str(folder / ".ipython"), "JUPYTER_DATA_DIR": str(folder / ".jupyter")}
    quiet = {"PYTHONWARNINGS": "ignore"}  # the tools' own are not ours
    found = {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}  # nbgrader looks for alembic there
    run = [sys.executable, "-m", *command]
    done = subprocess.run(run, cwd=folder, env={**os.environ, **kept, **quiet, **found}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def answered(notebook: Path, name: str, source: str) -> bytes:
    """A notebook with another answer to the exercise of that name."""
    document = json.loads(notebook.read_bytes())
    [cell] = [cell for cell in document["cells"] if cell["metadata"].get("iosim") == {"exercise": name}]
    cell["source"] = source
    return json.dumps(document).encode()


@pytest.mark.parametrize("target", ["otter", "nbgrader"])
def test_notebooks_are_valid(target: str) -> None:
    nbformat = pytest.importorskip("nbformat")
    [content] = TARGETS[target](list(EXERCISES.values())).values()
    notebook = nbformat.reads(content.decode(), as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook, relax_add_props=False)
    assert nbformat.writes(notebook) == content.decode().rstrip("\n")
    if target == "nbgrader":
        pytest.importorskip("nbgrader.nbgraderformat").MetadataValidator().validate_nb(notebook)


def test_otter(tmp_path: Path) -> None:
    [master] = export(ASKED, "otter", tmp_path / "master")
    tool(tmp_path, "otter", "assign", str(master), "dist")  # which runs the tests on the solutions
    [zipped] = (tmp_path / "dist" / "autograder").glob("*.zip")
    begun, solved = (tmp_path / "dist" / which / "exercises.ipynb" for which in ("student", "autograder"))
    assert "alpha" not in begun.read_text(encoding="utf-8")
    work = {"honest": solved.read_bytes(), "rereading": answered(solved, "flash2", REREADING), "starter": begun.read_bytes()}
    for name, content in work.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "exercises.ipynb").write_bytes(content)
        tool(tmp_path, "otter", "run", "-a", str(zipped), "-o", name, f"{name}/exercises.ipynb")
    assert {name: otter_score(tmp_path / name / "results.json") for name in work} == EXPECTED


def otter_score(results: Path) -> float:
    tests: list[dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))["tests"]
    return float(sum(test.get("score", 0) for test in tests))


def test_nbgrader(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    [source] = export(ASKED, "nbgrader", tmp_path / "source" / "ps1")
    tool(tmp_path, "nbgrader", "generate_assignment", "ps1")
    released = tmp_path / "release" / "ps1" / "exercises.ipynb"
    assert "alpha" not in released.read_text(encoding="utf-8")
    assert "VALIDATION FAILED ON 4 CELL(S)" in tool(tmp_path, "nbgrader", "validate", str(released))
    assert "Success! Your notebook passes all the tests." in tool(tmp_path, "nbgrader", "validate", str(source))
    work = {"honest": source.read_bytes(), "rereading": answered(source, "flash2", REREADING), "starter": released.read_bytes()}
    for name, content in work.items():
        (tmp_path / "submitted" / name / "ps1").mkdir(parents=True)
        (tmp_path / "submitted" / name / "ps1" / "exercises.ipynb").write_bytes(content)
    assert "partial credit" not in tool(tmp_path, "nbgrader", "autograde", "ps1", "--create")
    assert nbgrader_scores(tmp_path) == EXPECTED


def nbgrader_scores(course: Path) -> dict[str, float]:
    tool(course, "nbgrader", "export", "--to", "grades.csv")
    lines = [line.split(",") for line in (course / "grades.csv").read_text(encoding="utf-8").splitlines()]
    head, *rows = lines
    return {row[head.index("student_id")]: float(row[head.index("score")]) for row in rows}
