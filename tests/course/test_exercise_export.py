"""Exports: notebooks that give the marks of ``check``, an autograder that grades out of process, and answers out of notebooks again.

What otter-grader, nbgrader and nbformat themselves say of them is in test_exercise_export_tools.py.
"""

from __future__ import annotations

import ast
import base64
import csv
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from iosim.cli import main
from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.export import IN_KERNEL, TARGETS, autograder, export, gradescope
from iosim.course.export.collect import collect
from iosim.course.export.notebook import PARTS, body, left
from iosim.course.spec import Exercise, Mistake
from iosim.course.text import built, file_name, mistaken, page, solution_source, starter
from iosim.exercises import check

Cells = list[dict[str, Any]]
every = pytest.mark.parametrize("asked", EXERCISES.values(), ids=lambda one: one.name)
notebooks = pytest.mark.parametrize("target", ["otter", "nbgrader"])
linux = pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded under Linux's protections")
REREADING = next(one for one in exercise("flash2").mistakes if one.fails == "words")
FORGETFUL = next(one for one in exercise("flash2").mistakes if one.fails == "values")
UNRULY = next(one for one in exercise("flash2").mistakes if one.name == "all keys in one tile")


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[int, str, str]]:
    """Run a command line in an empty folder: the status and what is printed."""
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> tuple[int, str, str]:
        status = main(shlex.split(line))
        return status, *capsys.readouterr()

    return run


def cells_of(target: str, *exercises: Exercise) -> Cells:
    [content] = TARGETS[target](exercises).values()
    cells: Cells = json.loads(content)["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def answer(cells: Cells) -> str:
    """The one cell in which students write."""
    [cell] = [cell for cell in cells if "iosim" in cell["metadata"]]
    assert cell["cell_type"] == "code"
    return str(cell["source"])


def unsolved(target: str, source: str) -> str:
    """What the tools make of an answer's cell for students."""
    kept = re.sub(
        r"    #+ BEGIN SOLUTION.*?END SOLUTION", "" if target == "otter" else "    raise NotImplementedError()", source, flags=re.DOTALL
    )
    return "\n".join(line for line in kept.split("\n") if not line.endswith(("# BEGIN PROMPT", "# END PROMPT")))


def marks(target: str, asked: Exercise, source: str) -> int:
    """How many tests pass when they run, in order, in the kernel in which the answer was run."""
    tests = [cell["source"] for cell in cells_of(target, asked) if cell["cell_type"] == "code" and "assert" in cell["source"]]
    names: dict[str, Any] = {"display": lambda shown: None}
    exec(compile(source, "<answer>", "exec"), names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iosim.exercises.check", cache(check))  # three tests ask the same, which takes time
        return sum(passes(test, names, asked) for test in tests)


def passes(test: str, names: dict[str, Any], asked: Exercise) -> bool:
    said = None
    try:
        exec(compile(test, "<test>", "exec"), names)
        for name in [name for name in names if name.startswith("test_")]:
            names.pop(name)(names[asked.function])
    except AssertionError as error:
        said = str(error)
    assert said is None or said.startswith(asked.name)  # the student is told the verdict
    return said is None


@pytest.mark.parametrize(("target", "asked"), [
    *(("nbgrader", one) for one in EXERCISES.values()), *(("otter", exercise(name)) for name in ("softmax", "flash2", "visited-tiles")),
])  # fmt: skip
def test_the_solution_gets_full_marks_and_the_starter_none(target: str, asked: Exercise) -> None:
    cells = cells_of(target, asked)
    assert marks(target, asked, answer(cells)) == len(PARTS[asked.kind])
    begun = unsolved(target, answer(cells))
    assert body(asked) not in begun
    assert "NotImplementedError" in begun
    assert marks(target, asked, begun) == 0


@notebooks
@pytest.mark.parametrize(("mistake", "points"), [(REREADING, 2), (UNRULY, 1), (FORGETFUL, 0)], ids=["words", "rules", "values"])
def test_part_of_the_marks_is_what_check_gives(target: str, mistake: Mistake, points: int) -> None:
    asked = exercise("flash2")
    source = mistaken(asked, mistake)
    assert check(built(source, asked.function), asked).verdict.score == points
    assert marks(target, asked, source) == points


@every
def test_otter_tests_what_nbgrader_tests(asked: Exercise) -> None:
    """In a function, with what the notebook calls by that name as its parameter."""
    tests = [[cell["source"] for cell in cells_of(target, asked) if "assert" in cell["source"]] for target in ("otter", "nbgrader")]
    for in_otter, in_nbgrader in zip(*tests, strict=True):
        assert f"({asked.function}):\n" in in_otter
        assert {line.strip() for line in in_nbgrader.splitlines()[1:-1]} <= {line.strip() for line in in_otter.splitlines()}


@every
@notebooks
def test_a_notebook_says_all_that_the_page_says(target: str, asked: Exercise) -> None:
    cells = cells_of(target, asked)
    [told] = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
    assert page(asked).strip() in told
    assert told.count("```") == 2
    assert body(asked) not in told


@every
def test_otter_students_begin_with_the_starter(asked: Exercise) -> None:
    begun = unsolved("otter", answer(cells_of("otter", asked)))
    without_comments = "\n".join(line for line in starter(asked).splitlines() if not line.startswith("#"))
    assert " ".join(begun.split()) == " ".join(without_comments.split())
    assert left(asked) in starter(asked)


@notebooks
def test_cells_are_those_of_format_4_5(target: str) -> None:
    [content] = TARGETS[target](list(EXERCISES.values())).values()
    document = json.loads(content)
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in ids)
    assert all(("outputs" in cell) == (cell["cell_type"] == "code") for cell in document["cells"])
    assert [content] == list(TARGETS[target](list(EXERCISES.values())).values())


def test_otter_blocks_open_and_close() -> None:
    raw = [cell["source"].splitlines()[0] for cell in cells_of("otter", *EXERCISES.values()) if cell["cell_type"] == "raw"]
    question = [f"# {edge} {block}" for edge, block in (
        ("BEGIN", "QUESTION"), ("BEGIN", "SOLUTION"), ("END", "SOLUTION"), ("BEGIN", "TESTS"), ("END", "TESTS"), ("END", "QUESTION"),
    )]  # fmt: skip
    assert raw == ["# ASSIGNMENT CONFIG", *(question * len(EXERCISES))]


def test_nbgrader_locks_everything_but_answers() -> None:
    known = [cell["metadata"]["nbgrader"] for cell in cells_of("nbgrader", *EXERCISES.values())]
    assert len({one["grade_id"] for one in known}) == len(known)
    assert all(one["locked"] != one["solution"] for one in known)
    assert sum(one["solution"] for one in known) == len(EXERCISES)
    assert sum(one.get("points", 0) for one in known) == sum(len(PARTS[one.kind]) for one in EXERCISES.values())
    assert all(one["grade"] == ("points" in one) for one in known)


@pytest.mark.parametrize(("line", "says"), [
    ("export nothing --to otter", "there is no exercise 'nothing'; there are 1 softmax, "),
    ("export --to otter", "needs exercises: all, or 1 softmax, "),
    ("export softmax --to moodle", "'moodle' is not one of 'otter', 'nbgrader', 'gradescope'"),
    ("export softmax", "missing option '--to'"),
    ("export softmax --to otter --out there", "there exists and is kept"),
    ("export softmax --to gradescope --out there/link.zip", "link.zip exists and is kept"),
    ("export softmax --to otter --out no/such", "there is no folder no"),
    ("export softmax --to otter --out one.zip", "only one to gradescope can be a .zip"),
    ("collect missing", "missing is no folder"),
    ("collect there", "there holds no notebook"),
    ("collect there --out there", "there exists and is kept"),
])  # fmt: skip
def test_what_is_wrong_gets_one_line(say: Callable[[str], tuple[int, str, str]], tmp_path: Path, line: str, says: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "link.zip").symlink_to("nowhere")
    status, out, err = say(f"exercise {line}")
    assert (status, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@notebooks
def test_whoever_exports_is_told_what_these_tools_cannot_stop(say: Callable[[str], tuple[int, str, str]], target: str) -> None:
    status, out, _ = say(f"exercise export 1 softmax merge --to {target}")
    assert status == 0
    assert IN_KERNEL in " ".join(out.split())
    assert Path(f"exercises-{target}/exercises.ipynb").is_file()
    text = say("exercise export --help")[1]
    assert "where marks count, grade again with iosim exercise grade" in " ".join(text.split())


def test_a_missing_tool_is_named_with_its_extra(say: Callable[[str], tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    for missing in (True, False):
        monkeypatch.setattr("iosim.cli.commands.exercise.export.find_spec", lambda name, missing=missing: None if missing else name)
        out = say(f"exercise export merge --to otter --out {missing}")[1]
        assert ("pip install 'iosim[exports]'" in out) is missing


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    for out in ("folder", "one.zip"):
        with pytest.raises(OSError, match="No space"):
            export([exercise("softmax")], "gradescope", tmp_path / out)
    assert list(tmp_path.iterdir()) == []


def test_no_target_of_that_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no export to 'moodle'; there are otter, nbgrader, gradescope"):
        export([exercise("softmax")], "moodle", tmp_path / "x")


# Gradescope


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder such as Gradescope makes, with the export of two exercises in it."""
    folder = tmp_path_factory.mktemp("autograder")
    export([exercise("softmax"), exercise("flash2")], "gradescope", folder / "source")
    return folder


def results_of(root: Path, files: dict[str, str]) -> dict[str, Any]:
    """Hand these files in, and read what the autograder writes."""
    for name in ("submission", "results"):
        subprocess.run(["rm", "-rf", root / name], check=True)
        (root / name).mkdir()
    for name, source in files.items():
        (root / "submission" / name).write_text(source, encoding="utf-8")
    run = [root / "source" / "run_autograder", root]
    subprocess.run(run, check=True, env={**os.environ, "IOSIM_PYTHON": sys.executable}, capture_output=True)
    assert [path.name for path in (root / "results").iterdir()] == ["results.json"]
    document: dict[str, Any] = json.loads((root / "results" / "results.json").read_text(encoding="utf-8"))
    valid(document)
    return document


def valid(document: dict[str, Any]) -> None:
    """Hold results.json against what Gradescope documents."""
    assert {name: type(value) for name, value in document.items()} == {
        "score": int, "execution_time": float, "output": str, "stdout_visibility": str, "tests": list,
    }  # fmt: skip
    for test in document["tests"]:
        assert {name: type(value) for name, value in test.items()} == {
            "name": str, "score": int, "max_score": int, "status": str, "output": str, "visibility": str,
        }  # fmt: skip
        assert 0 <= test["score"] <= test["max_score"]
        assert (test["status"], test["visibility"]) == ("passed" if test["score"] else "failed", "visible")
    assert document["score"] == sum(test["score"] for test in document["tests"])
    assert document["stdout_visibility"] == "hidden"


def scores(document: dict[str, Any]) -> dict[str, int]:
    return {test["name"]: test["score"] for test in document["tests"]}


FORGED = """
import json, os, sys
result = {"score": 4, "tests": [{"name": "8 flash2: values match", "score": 3, "max_score": 3, "status": "passed"}]}
row = {"exercise": "softmax", "values": True, "rules": True, "words": True, "score": 1, "seed": 1, "verdict": "", "file": "x"}
for path in ("RESULTS", "../results/results.json"):
    try:
        open(path, "w").write(json.dumps(result))
    except OSError:
        pass
print(json.dumps({"seed": 1, "rows": [row]}), flush=True)
"""


@linux
def test_right_work_gets_full_marks_from_the_autograder(root: Path) -> None:
    found = results_of(root, {file_name(one): solution_source(one) for one in (exercise("softmax"), exercise("flash2"))})
    assert scores(found) == {
        "1 softmax: values match": 1,
        "8 flash2: values match": 1,
        "8 flash2: memory rules kept": 1,
        "8 flash2: words moved": 1,
    }
    assert "flash2: 3 of 3 points" in found["tests"][1]["output"]


@linux
def test_wrong_and_missing_work_gets_what_it_deserves(root: Path) -> None:
    found = results_of(root, {"e08_flash2.py": mistaken(exercise("flash2"), REREADING), "notes.txt": "", "e03_merge.py": "x = 1"})
    assert list(scores(found).values()) == [0, 1, 1, 0]
    assert found["tests"][0]["output"] == "no file answers it; hand in e01_softmax.py"
    assert REREADING.name in found["tests"][1]["output"]
    assert [line.partition(":")[0] for line in found["output"].splitlines()] == ["e03_merge.py", "notes.txt"]


@linux
def test_hostile_work_gets_nothing_and_forges_nothing(root: Path) -> None:
    forged = FORGED.replace("RESULTS", str(root / "results" / "results.json"))
    found = results_of(
        root, {"e01_softmax.py": f"{forged}sys.exit(0)\n", "e08_flash2.py": f"{forged}os._exit(0)\n", "iosim.py": "raise SystemExit"}
    )
    assert list(scores(found).values()) == [0, 0, 0, 0]


def row(name: str | None, **more: object) -> dict[str, Any]:
    known = {"file": "x.py", "exercise": name, "values": True, "rules": None, "words": None, "seed": 1, "reason": "", "verdict": "told"}
    return {**known, **more}


ASKED: Sequence[dict[str, Any]] = gradescope.asked([exercise("softmax"), exercise("flash2")])["exercises"]  # type: ignore[assignment]


@pytest.mark.parametrize(("rows", "expected", "says"), [
    ([], [0, 0, 0, 0], "no file answers it"),
    ([row("softmax"), row("softmax", file="y.py")], [0, 0, 0, 0], "2 files answer it: x.py, y.py; hand in one"),
    ([row("softmax"), row("softmax", file="y.txt", seed=None, values=None, reason="not a .py file")], [1, 0, 0, 0], "told"),
    ([row("softmax", seed=None, values=None, reason="not a .py file")], [0, 0, 0, 0], "x.py: not a .py file"),
    ([row("softmax", values=False)], [0, 0, 0, 0], "told"),
    ([row("softmax", values=None)], [0, 0, 0, 0], "told"),
    ([row("flash2", values=False, rules=True, words=True)], [0, 0, 0, 0], "no file answers it"),
    ([row("flash2", rules=True, words=False)], [0, 1, 1, 0], "no file answers it"),
    ([row(None, values=None)], [0, 0, 0, 0], "no file answers it"),
])  # fmt: skip
def test_results_follow_from_rows(rows: list[dict[str, Any]], expected: list[int], says: str) -> None:
    found = autograder.document_of(ASKED, rows, 0.1234)
    valid(found)
    assert list(scores(found).values()) == expected
    assert says in found["tests"][0]["output"]  # type: ignore[index]


def test_where_nothing_can_be_graded_nothing_is_written(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing protection is the teacher's to mend, and no 0 of the student's."""
    (tmp_path / "e01_softmax.py").write_text("")
    monkeypatch.setattr(autograder, "__file__", str(root / "source" / "grade.py"))
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(SystemExit, match="nothing could be graded"):
        autograder.main(str(tmp_path), str(tmp_path / "results.json"))
    assert not (tmp_path / "results.json").exists()


def test_the_program_needs_the_standard_library_alone(root: Path) -> None:
    tree = ast.parse((root / "source" / "grade.py").read_text(encoding="utf-8"))
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    modules |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in modules} <= sys.stdlib_module_names


def test_the_folder_names_packages_and_no_addresses(root: Path) -> None:
    source = root / "source"
    texts = {path.name: path.read_text(encoding="utf-8") for path in source.iterdir() if path.suffix != ".whl"}
    assert set(texts) == {"setup.sh", "run_autograder", "grade.py", "asked.json", "requirements.txt"}
    assert not any("://" in text or "index-url" in text for text in texts.values())
    pins = dict(line.split("==") for line in texts["requirements.txt"].splitlines())
    assert {"numpy", "matplotlib", "click", "pillow"} <= set(pins)
    assert not {"iosim", "pytest", "sympy", "numba"} & set(pins)
    for script in ("setup.sh", "run_autograder"):
        assert os.access(source / script, os.X_OK)
        subprocess.run(["bash", "-n", source / script], check=True)


def test_the_wheel_is_whole_and_runs(root: Path, tmp_path: Path) -> None:
    [path] = (root / "source").glob("*.whl")
    packed = ZipFile(path)
    contents = {name: packed.read(name) for name in packed.namelist()}
    [record] = [name for name in contents if name.endswith("/RECORD")]
    for name, digest, size in csv.reader(io.StringIO(contents[record].decode())):
        if name != record:
            sha = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={sha}", str(len(contents[name])))
    assert len(contents) == len(contents[record].splitlines())
    packed.extractall(tmp_path)
    run = "import iosim.cli, iosim_reference as r; print(iosim.__file__, r.__file__); iosim.cli.main(['exercise', 'list'])"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {run}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert done.stdout.splitlines()[0].split() == [str(tmp_path / name / "__init__.py") for name in ("iosim", "iosim_reference")]
    assert all(name in done.stdout for name in EXERCISES)


def test_a_zip_holds_what_a_folder_holds(root: Path, tmp_path: Path) -> None:
    export([exercise("softmax"), exercise("flash2")], "gradescope", tmp_path / "autograder.zip")
    packed = ZipFile(tmp_path / "autograder.zip")
    assert {name: packed.read(name) for name in packed.namelist()} == {path.name: path.read_bytes() for path in (root / "source").iterdir()}
    runnable = {entry.filename for entry in packed.infolist() if entry.external_attr >> 16 & 0o111}
    assert runnable == {"setup.sh", "run_autograder"}


# Out of notebooks again


def test_answers_come_out_of_notebooks_as_they_went_in(tmp_path: Path) -> None:
    [(name, content)] = TARGETS["nbgrader"](list(EXERCISES.values())).items()
    for student in ("alice", "bob [2]"):
        (tmp_path / "in" / student / "ps1").mkdir(parents=True)
        (tmp_path / "in" / student / "ps1" / name).write_bytes(content)
    files, without = collect(tmp_path / "in", tmp_path / "out")
    assert without == []
    assert len(files) == 2 * len(EXERCISES)
    for one in EXERCISES.values():
        source = (tmp_path / "out" / "alice" / "ps1" / name / file_name(one)).read_text(encoding="utf-8")
        assert source.replace("    ### BEGIN SOLUTION\n", "").replace("\n    ### END SOLUTION", "").split() == solution_source(one).split()


def code(source: object, name: object = "softmax") -> dict[str, object]:
    return {"cell_type": "code", "metadata": {"iosim": {"exercise": name}}, "source": source}


NOT_ANSWERS = [code(3), code(["x", 3]), code("x", "nothing"), code("x", ["softmax"]), {**code("x"), "cell_type": "raw"}]


@pytest.mark.parametrize("content", [
    b"", b"\xff\x00", b"[" * 100_000, b'"text"', b"{}", b'{"cells": 3}', b'{"cells": [1, null, {}, {"metadata": 3}]}',
    json.dumps({"cells": NOT_ANSWERS}).encode(),
    b" " * (4 << 20) + b"{}",
])  # fmt: skip
def test_a_notebook_without_an_answer_is_told_of(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "alice.ipynb").write_bytes(content)
    (tmp_path / "in" / "bob.ipynb").write_text(
        json.dumps({"cells": [code("def softmax(x):\n    return '\ud800'"), code(["y = 1\n", "z = 2"])]})
    )
    files, [line] = collect(tmp_path / "in", tmp_path / "out")
    assert "alice.ipynb: " in line
    assert files == [tmp_path / "out" / "bob.ipynb" / "e01_softmax.py"]
    assert files[0].read_text() == "def softmax(x):\n    return '?'\n\n\ny = 1\nz = 2\n"


def test_links_and_pipes_are_not_read(tmp_path: Path, say: Callable[[str], tuple[int, str, str]]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.ipynb").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "in" / "pipe.ipynb")
    status, out, err = say("exercise collect in")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert "any of 2 notebooks, the first of them: in/link.ipynb: no file" in err
    assert not (tmp_path / "collected").exists()


def test_no_archive_is_committed(source_tree: Path) -> None:
    if not (source_tree / ".git").exists():
        pytest.skip("needs the history, to see what is committed")
    done = subprocess.run(["git", "ls-files"], cwd=source_tree, capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.splitlines() if name.endswith((".zip", ".whl", ".tar.gz"))] == []
