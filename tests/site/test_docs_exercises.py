"""What the pages for students and teachers say is so: their commands run, their numbers are those of the course."""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.export import IN_KERNEL, nbgrader
from iosim.course.export.notebook import PARTS
from iosim.course.grading.sandbox import LAYERS
from iosim.course.grading.worker import Limits
from iosim.course.submission import MOST
from iosim.course.text import built, file_name, lines, mistaken, solution_source, starter
from iosim.exercises import check

PAGES = ("exercises", "teachers")
linux = pytest.mark.skipif(sys.platform != "linux", reason="submissions are graded under Linux's protections")


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, source_tree: Path) -> str:
    return text(source_tree, request.param)


def text(source_tree: Path, name: str) -> str:
    return (source_tree / "docs" / f"{name}.md").read_text(encoding="utf-8")


def commands(page: str) -> list[list[str]]:
    """The words of every command of the page's console blocks, in order."""
    shown = [line for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]
    assert all(line.startswith("$ iosim ") for line in shown)
    return [shlex.split(line.removeprefix("$ ")) for line in shown]


def work(folder: Path) -> None:
    """What a class would have handed in: files of two students, one of them not begun, and notebooks."""
    softmax, flash2 = exercise("softmax"), exercise("flash2")
    for student, source in (("alice", solution_source(flash2)), ("bob [2]", starter(flash2))):
        (folder / "submissions" / student).mkdir(parents=True)
        (folder / "submissions" / student / file_name(flash2)).write_text(source)
    (folder / "submitted" / "alice" / "ps1").mkdir(parents=True)
    [(name, content)] = nbgrader.files([softmax]).items()
    (folder / "submitted" / "alice" / "ps1" / name).write_bytes(content)


@linux
def test_every_command_runs(page: str, tmp_path: Path) -> None:
    """In order, in one folder; whatever a student starts has been solved when it is checked."""
    work(tmp_path)
    shown = commands(page)
    assert len(shown) >= 5
    for words in shown:
        if words[:3] == ["iosim", "exercise", "check"]:
            assert "NotImplementedError" in (tmp_path / words[3]).read_text()
            (tmp_path / words[3]).write_text(solution_source(exercise("softmax")))
        state = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, env=state, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), words


def test_every_other_command_is_one(page: str) -> None:
    """In the running text too: the names of commands and of exercises."""
    from iosim.cli.commands.exercise import command

    named = re.findall(r"`iosim exercise (\w+)", page)
    assert named
    assert set(named) <= set(command.known)
    assert {name for line in re.findall(r"`iosim exercise \w+ [^`]*`", page) for name in re.findall(r"e\d\d_(\w+)\.py", line)} <= set(
        EXERCISES
    )


def test_the_verdict_is_what_the_mistake_gets(source_tree: Path) -> None:
    [shown] = re.findall(r"```text\n(.*?)\n```", text(source_tree, "exercises"), re.DOTALL)
    flash2 = exercise("flash2")
    wrong = built(mistaken(flash2, flash2.mistakes[0]), flash2.function)
    assert shown == str(check(wrong, flash2, seed=1))


def test_python_examples(source_tree: Path) -> None:
    [block] = re.findall(r"```python\n(.*?)```", text(source_tree, "exercises"), re.DOTALL)
    test = doctest.DocTestParser().get_doctest(block, {}, "exercises", "exercises.md", 0)
    found = doctest.DocTestRunner().run(test)
    assert (found.failed, found.attempted) == (0, 4)


def test_the_term_has_every_exercise_once_with_its_lines(source_tree: Path) -> None:
    rows = [line.strip("|").split("|") for line in text(source_tree, "teachers").splitlines() if re.match(r"\| \d+ \|", line)]
    planned = [[tuple(one.split()) for one in row[1].split(",")] for row in rows]
    assert sorted(one for week in planned for one in week) == sorted((str(one.number), one.name) for one in EXERCISES.values())
    for week, row in zip(planned, rows, strict=True):
        assert sum(lines(exercise(name)) for _, name in week) == int(row[2])


def test_counts_and_limits_are_those_in_force(source_tree: Path) -> None:
    teachers, students = text(source_tree, "teachers"), text(source_tree, "exercises")
    kinds = [one.kind for one in EXERCISES.values()]
    points = sum(len(PARTS[kind]) for kind in kinds)
    assert f"{kinds.count('function')}\nfunctions and {kinds.count('kernel')} kernels, {points} points" in teachers
    assert teachers.count(f"{len(kinds)} exercises") == students.count(f"{len(kinds)} exercises") == 1
    limits = Limits()
    assert (limits.cpu, limits.memory, limits.wall) == (2, 1 << 30, 5.0)
    assert "more than 2 s of computing, 1 GiB" in teachers
    assert "a clock ends sleepers after 5 s" in teachers
    assert f"may have {MOST >> 10} KiB, run for two seconds, and use one GiB" in students


def test_every_layer_and_what_exports_cannot_stop_is_told(source_tree: Path) -> None:
    teachers = text(source_tree, "teachers")
    assert all(layer in teachers for layer in LAYERS)
    assert IN_KERNEL in " ".join(teachers.split())


def test_links_lead_somewhere(page: str, source_tree: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", page)
    assert [target for target in targets if not (source_tree / "docs" / target).exists()] == []
    assert max(map(len, page.splitlines())) < 220
