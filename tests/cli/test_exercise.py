"""``iosim exercise``: a course from the first file to the last, and a folder graded."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from iosim.cli import exercise_watch, main, progress
from iosim.cli.commands.exercise import check as exercise_check
from iosim.cli.commands.exercise import command
from iosim.cli.commands.exercise.grade import jobs_for, safe, summaries, totals
from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.grading.worker import Worker
from iosim.course.progress import Progress, keep, place, recall
from iosim.course.rows import Row, dismiss
from iosim.course.spec import Exercise
from iosim.course.text import file_name, lines, mistaken, solution_source, starter

Call = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")
CLI = [sys.executable, "-m", "iosim", "exercise"]
FIRST, FLASH2 = exercise(1), exercise("flash2")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Run a command in a folder of its own, with no progress yet: exit status, output, error output."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*args: str) -> tuple[int, str, str]:
        status = main(["exercise", *args])
        out, err = capsys.readouterr()
        return status, out, err

    yield run
    dismiss()


def refused(call: Call, *args: str) -> str:
    """The one line of a command that exits with 2 and leaves nothing behind."""
    before = set(Path().rglob("*"))
    status, out, err = call(*args)
    assert (status, out) == (2, "")
    assert err.startswith("iosim: ")
    assert err.count("\n") == 1
    assert set(Path().rglob("*")) == before
    return err


# A course


def test_a_course_from_the_first_file_to_the_next(call: Call) -> None:
    status, out, err = call("list")
    assert (status, err) == (0, "")
    assert f"0 of {len(EXERCISES)} passed. Begin with: iosim exercise start softmax" in out

    assert call("start", "softmax")[0] == 0
    assert Path("e01_softmax.py").read_text() == starter(FIRST)
    status, out, err = call("check", "e01_softmax.py")
    assert (status, err) == (1, "iosim: not passed yet; for a hint: iosim exercise hint softmax\n")
    assert out.startswith("softmax: 0 of 1 point\n")
    assert "NotImplementedError: 1 softmax" in out
    assert refused(call, "solution", "softmax") == (
        "iosim: you have not passed softmax yet; a hint: iosim exercise hint softmax, and --reveal shows the solution anyhow\n"
    )

    Path("e01_softmax.py").write_text(solution_source(FIRST))
    status, out, err = call("check", "e01_softmax.py")
    assert (status, err) == (0, "")
    assert out.startswith("softmax: 1 of 1 point\n✔ values match")
    assert "\nprotected: rlimits, " in out
    assert out.endswith("Passed. Next: iosim exercise start online-softmax\n")
    assert call("solution", "softmax") == (0, solution_source(FIRST), "")
    out = call("list")[1]
    assert f"1 of {len(EXERCISES)} passed. Next: iosim exercise start online-softmax" in out
    assert [line for line in out.splitlines() if line.startswith("✔")] == [line for line in out.splitlines() if " softmax " in line]


def test_the_list_as_records(call: Call) -> None:
    keep(Progress(("merge",), {"merge": 2}))
    found = json.loads(call("list", "--json")[1])
    assert (found["passed"], found["progress"]) == (1, str(place()))
    assert [row["name"] for row in found["exercises"]] == list(EXERCISES)
    assert [(row["name"], row["hints"]) for row in found["exercises"] if row["passed"]] == [("merge", 2)]
    rows = list(csv.DictReader(io.StringIO(call("list", "--csv")[1])))
    assert [row["passed"] for row in rows] == ["true" if row["name"] == "merge" else "false" for row in rows]


def test_the_last_one_is_the_whole_course(call: Call) -> None:
    keep(Progress(tuple(name for name in EXERCISES if name != "softmax")))
    Path("e01_softmax.py").write_text(solution_source(FIRST))
    assert call("check", "e01_softmax.py")[1].endswith("Passed. That was the last one of the course.\n")
    assert "that is the whole course" in call("list")[1]


def test_starting_keeps_what_is_there(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("course").mkdir()
    assert "course/e08_flash2.py" in call("start", "8", "course")[1]
    Path("course/e08_flash2.py").write_text("mine")
    assert "exists and is kept" in refused(call, "start", "flash2", "course")
    assert Path("course/e08_flash2.py").read_text() == "mine"
    Path("e08_flash2.py").symlink_to("nowhere")
    assert "exists and is kept" in refused(call, "start", "flash2")

    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device", "disk")

    monkeypatch.setattr("iosim.cli.commands.exercise.start.starter", full)
    assert "No space left" in refused(call, "start", "merge")


def test_hints_come_one_by_one(call: Call) -> None:
    for level in (1, 2, 3, 3):
        status, out, err = call("hint", "flash2")
        assert (status, err) == (0, "")
        assert out.startswith(f"Hint {level} of 3 for exercise 8, flash2\n")
        assert FLASH2.hints[level - 1].split()[0] in out
    assert "--reveal" in out
    assert call("hint", "flash2", "--level", "1")[1].startswith("Hint 1 of 3")
    assert call("hint", "flash2")[1].startswith("Hint 3 of 3")
    assert call("hint", "merge")[1].startswith("Hint 1 of 3")
    assert call("solution", "flash2", "--reveal") == (0, solution_source(FLASH2), "")


def test_progress_that_is_broken_counts_as_none(call: Call) -> None:
    place().parent.mkdir(parents=True)
    for broken in (b"", b"{", b"\xff\xfe", b"[" * 100_000, b"[]", b'{"passed": "softmax", "hints": [1]}', b'{"hints": {"merge": "two"}}',
                   b'{"passed": [1, ["merge"]], "hints": {"merge": -1, "flash": true}}', b"null"):  # fmt: skip
        place().write_bytes(broken)
        assert recall() == Progress()
        assert call("list")[0] == 0
    assert call("hint", "merge")[1].startswith("Hint 1 of 3")
    assert recall() == Progress((), {"merge": 1})
    place().write_text('{"passed": ["merge", "merge", "gone", 1], "hints": {"merge": 9}}')
    assert recall() == Progress(("merge", "gone"), {"merge": 9})
    assert call("list")[0] == call("hint", "merge")[0] == 0


def test_progress_that_cannot_be_kept_is_told_and_no_failure(call: Call) -> None:
    place().parent.parent.mkdir()
    place().parent.write_text("a file where a folder should be")
    status, out, err = call("hint", "merge")
    assert (status, err.count("\n")) == (0, 1)
    assert out.startswith("Hint 1 of 3")
    assert "your progress is not kept" in err
    assert list(place().parent.parent.iterdir()) == [place().parent]


def test_progress_of_many_at_once_is_all_kept(tmp_path: Path) -> None:
    names, path = [f"e{number}" for number in range(40)], tmp_path / "exercises.json"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: keep(recall(path).passing(name).hinted(name, 2), path), names))
    assert sorted(recall(path).passed) == sorted(recall(path).hints) == sorted(names)


def test_what_was_kept_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "exercises.json"
    keep(Progress(("merge",), {"merge": 3}), path)
    keep(Progress(("softmax",), {"merge": 1, "flash": 2}), path)
    assert recall(path) == Progress(("merge", "softmax"), {"merge": 3, "flash": 2})


def test_progress_that_is_half_written_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, whole = tmp_path / "exercises.json", Path.write_text
    keep(Progress(("merge",)), path)

    def half(target: Path, text: str, **how: Any) -> int:
        whole(target, text[: len(text) // 2], **how)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match="No space"):
        keep(Progress(("softmax",)), path)
    assert recall(path) == Progress(("merge",))
    assert not list(tmp_path.glob("*.part"))


def test_a_pipe_in_the_place_of_progress_holds_nobody_up(call: Call) -> None:
    place().parent.mkdir(parents=True)
    os.mkfifo(place())
    assert recall() == Progress()
    assert call("hint", "merge")[0] == 0
    assert recall() == Progress((), {"merge": 1})


def test_progress_has_a_place_without_a_folder_for_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for wrong in ("", "relative"):
        monkeypatch.setenv("XDG_STATE_HOME", wrong)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert place() == tmp_path / ".local/state/iosim/exercises.json"


# Checking


def test_a_mistake_is_named(call: Call) -> None:
    path = Path("e08_flash2.py")
    path.write_text(mistaken(FLASH2, FLASH2.mistakes[0]))
    status, out, _ = call("check", str(path), "--seed", "3")
    assert status == 1
    assert "flash2: 0 of 3 points\n✘ values match       O[" in out
    assert "A known mistake, rescale of O missing" in out
    assert "Tiles that moved" in out
    assert "seed 3" in out
    assert max(map(len, out.splitlines())) <= 100
    assert call("check", str(path), "--seed", "3")[1] == out
    found = json.loads(call("check", str(path), "--seed", "3", "--json")[1])
    assert (found["score"], found["out_of"], found["seed"], found["mistake"]) == (0, 3, 3, "rescale of O missing")
    assert (found["parts"]["values"]["passed"], found["parts"]["rules"]["passed"]) == (False, True)


def test_what_it_prints_is_shown(call: Call) -> None:
    Path("softmax.py").write_text("print('\\x1b[31mred')\n" + solution_source(FIRST))
    out = call("check", "softmax.py")[1]
    assert "It printed:\n  \\x1b[31mred\n" in out


def worked() -> float:
    """Seconds of CPU of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.mark.parametrize("asked", EXERCISES.values(), ids=lambda one: one.name)
def test_a_verdict_takes_less_than_two_seconds(asked: Exercise) -> None:
    """The process is there: so it is at every save. Seconds of work, since others may use the machine."""
    with exercise_check.judging() as judge:
        for source in (solution_source(asked), mistaken(asked, asked.mistakes[-1])):
            started = worked()
            judge(asked, source.encode(), None)
            assert worked() - started < 2


@pytest.mark.slow
@pytest.mark.parametrize("asked", EXERCISES.values(), ids=lambda one: one.name)
def test_a_check_takes_less_than_two_seconds(asked: Exercise, tmp_path: Path) -> None:
    """The best of three: the command, the protection and the verdict."""
    path = tmp_path / file_name(asked)
    path.write_text(mistaken(asked, asked.mistakes[-1]))
    took = []
    for _ in range(3):
        started = time.monotonic()
        done = subprocess.run(
            [*CLI, "check", str(path)], env={**os.environ, "XDG_STATE_HOME": str(tmp_path)}, capture_output=True, check=False
        )
        took.append(time.monotonic() - started)
        assert done.returncode == 1
    assert min(took) < 2


def test_less_protection_is_told_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercise_check, "Worker", partial(Worker, without=("Landlock", "namespaces", "own uid")))
    Path("softmax.py").write_text(solution_source(FIRST))
    status, out, err = call("check", "softmax.py")
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith("iosim: warning: your file runs with less protection")
    assert "Landlock" in err
    assert "\nprotected: rlimits, seccomp, subreaper\n" in out


def test_where_nothing_can_be_forked_it_runs_here(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    Path("softmax.py").write_text("\ufeff" + solution_source(FIRST), encoding="utf-8")
    status, out, err = call("check", "softmax.py")
    assert (status, err.count("\n")) == (0, 1)
    assert "warning: this system cannot run your file apart" in err
    assert "Run without protection." in out
    for source, says in (
        ("x = 1", "no function named softmax"),
        ("1 / 0", "ZeroDivisionError"),
        ("(", "SyntaxError"),
        ("\ud800", "UnicodeDecode"),
    ):
        Path("softmax.py").write_bytes(source.encode("utf-8", "surrogatepass"))
        status, out, err = call("check", "softmax.py")
        assert (status, out) == (2, "")
        assert says in err


# Watching


class Student:
    """Saves one version after the other, whenever somebody waits; then presses Ctrl-C."""

    def __init__(self, *saves: tuple[str, str | None]) -> None:
        self.left, self.looks = [*saves], 0

    def __call__(self, seconds: float) -> None:
        """Do the next thing."""
        assert 0 < seconds < 1
        self.looks += 1
        if not self.left:
            raise KeyboardInterrupt
        name, text = self.left.pop(0)
        Path(name).unlink(missing_ok=True)
        if text is not None:
            Path(name).write_text(text)


def watched(monkeypatch: pytest.MonkeyPatch, *saves: tuple[str, str | None]) -> Student:
    """Let a student work while the command waits."""
    student = Student(*saves)
    monkeypatch.setattr(exercise_check, "watch", partial(exercise_watch.watch, wait=student))
    return student


def test_every_save_is_judged_and_success_goes_on_to_the_next(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = mistaken(FIRST, FIRST.mistakes[0])
    second = exercise(2)
    Path("e01_softmax.py").write_text(starter(FIRST))
    student = watched(
        monkeypatch, ("e01_softmax.py", "nonsense"), ("e01_softmax.py", None), ("e01_softmax.py", wrong), ("other.py", ""),
        ("e01_softmax.py", solution_source(FIRST)), ("e02_online_softmax.py", solution_source(second)),
    )  # fmt: skip
    status, out, err = call("check", "--watch", "e01_softmax.py")
    assert (status, err, student.left) == (130, "iosim: interrupted\n", [])
    heads = [line for line in out.splitlines() if line.startswith("──")]
    assert [head.split()[1] for head in heads] == ["e01_softmax.py"] * 4 + ["e02_online_softmax.py"]
    told = ["NotImplementedError", "NameError: name 'nonsense'", FIRST.mistakes[0].name, "softmax: 1 of 1", "Now e02_online_softmax.py",
            "online-softmax: 1 of 1", "Now e03_merge.py"]  # fmt: skip
    places = [out.index(part) for part in told]
    assert places == sorted(places)
    assert recall().passed == ("softmax", "online-softmax")
    assert Path("e03_merge.py").read_text() == starter(exercise(3))


def test_a_file_that_is_there_already_is_judged_as_it_is(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(Progress(tuple(name for name in EXERCISES if name not in ("softmax", "merge"))))
    for number in (1, 3):
        Path(file_name(exercise(number))).write_text(solution_source(exercise(number)))
    watched(monkeypatch)
    status, out, err = call("check", "--watch", "e01_softmax.py")
    assert (status, err) == (0, "")
    assert out.endswith("Passed. That was the last one of the course.\n")


def test_a_file_without_the_function_is_waited_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("e01_softmax.py").write_text("x = 1\n")
    watched(monkeypatch)
    status, out, err = call("check", "--watch", "e01_softmax.py")
    assert (status, err) == (130, "iosim: interrupted\n")
    assert "e01_softmax.py: no function named softmax" in out


def test_a_missing_file_is_not_waited_for(call: Call) -> None:
    status, out, err = call("check", "--watch", "e01_softmax.py")
    assert (status, out, err) == (2, "", "iosim: e01_softmax.py: no such file or directory\n")


def test_two_saves_in_one_second_are_two(tmp_path: Path) -> None:
    path = tmp_path / "e01_softmax.py"
    path.write_text("a")
    os.utime(path, ns=(0, 10**9))
    before = exercise_watch.state(path)
    path.write_text("b")
    os.utime(path, ns=(0, 10**9 + 10**6))
    assert exercise_watch.state(path) != before


def test_watching_sees_a_save_within_a_second(tmp_path: Path) -> None:
    path, env = tmp_path / "e01_softmax.py", {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    path.write_text(starter(FIRST))
    with subprocess.Popen([*CLI, "check", "--watch", str(path)], stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("Waiting" in line for line in lines)
        started = time.monotonic()
        path.write_text(solution_source(FIRST))
        assert any("1 of 1" in line for line in lines)
        assert time.monotonic() - started < 2
        process.terminate()
        assert process.wait(30) == 130


# Grading


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    """What two students handed in, and a file of another kind."""
    top = tmp_path / "all of it"
    for who, source in (("ann", solution_source), ("ben", starter)):
        (top / who).mkdir(parents=True)
        for asked in (FIRST, FLASH2):
            (top / who / file_name(asked)).write_text(source(asked))
    (top / "flash2_=1+1.py").write_text(mistaken(FLASH2, FLASH2.mistakes[0]))
    (top / "=cmd.txt").write_text("")
    return top


def test_a_folder_is_graded_in_one_table(call: Call, submitted: Path) -> None:
    status, out, err = call("grade", str(submitted), "--seed", "7")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[2].split() == ["=cmd.txt", "–", "–", "not", "a", ".py", "file"]
    assert lines[4].split() == ["ann/e08_flash2.py", "flash2", "3/3", "✔", "✔", "✔"]
    assert lines[7].split()[:6] == ["flash2_=1+1.py", "flash2", "0/3", "✘", "–", "–"]
    assert lines[7].endswith("rescale of O missing")
    assert "flash2              3           1  1.00 of 3  rescale of O missing (1)" in out
    assert "5 submissions, 2 with full marks. The same inputs again: --seed 7" in out
    assert "Besides, 1 that is no .py file or is for no exercise that is known" in out
    assert ["ann", "2", "4", "4"] in [line.split() for line in lines]
    assert "Run apart, under rlimits" in out


def test_a_table_in_a_file_is_not_cut_and_not_graded(call: Call, submitted: Path) -> None:
    out = str(submitted / "softmax_grades.txt")
    for _ in range(2):
        assert call("grade", str(submitted), "--out", out, "--seed", "7") == (0, "", "")
        table = Path(out).read_text(encoding="utf-8")
        assert "…" not in table
        assert f"1 softmax: replace this line with about {lines(FIRST)} lines\n" in table
        assert "softmax_grades.txt" not in table


def test_points_of_a_student_are_those_of_the_best_files() -> None:
    row = partial(Row, file="f", student="ann")
    found = [row(exercise="softmax", score=0, out_of=1), row(exercise="softmax", score=1, out_of=1),
             row(exercise="flash2", score=2, out_of=3), row(exercise="merge", score=0, out_of=None)]  # fmt: skip
    assert totals(found) == [["ann", 2, 3, 4]]
    assert summaries(found) == [["softmax", 2, 1, "0.50 of 1", "–"], ["flash2", 1, 0, "2.00 of 3", "–"]]


def test_notebooks_without_an_answer_are_told_in_one_line(call: Call) -> None:
    Path("in").mkdir()
    for name in ("a.ipynb", "b.ipynb"):
        Path("in", name).write_text("{}")
    assert refused(call, "collect", "in").startswith("iosim: nothing to collect in any of 2 notebooks, the first of them: a.ipynb: no cell")


def test_grades_as_records_say_the_same_and_a_spreadsheet_runs_none_of_it(call: Call, submitted: Path) -> None:
    found = json.loads(call("grade", str(submitted), "--seed", "7", "--json")[1])
    assert call("grade", str(submitted), "--seed", "7", "--csv", "--out", "grades.csv") == (0, "", "")
    with open("grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = "file exercise student score out_of values rules words mistake reason line seed run_seed seconds protections"
    assert list(rows[0]) == columns.split() == [name for name in found["rows"][0] if name != "verdict"]
    assert [row["file"] for row in found["rows"]] == sorted(row["file"] for row in found["rows"])
    assert [row["score"] for row in rows] == [str(row["score"]) for row in found["rows"]] == ["0", "1", "3", "0", "0", "0"]
    assert [row["seed"] for row in rows] == [str(row["seed"] or "") for row in found["rows"]]
    assert (rows[0]["file"], rows[5]["student"], found["rows"][5]["student"]) == ("'=cmd.txt", "'=1+1", "=1+1")
    assert found["seed"] == found["rows"][0]["run_seed"] == 7
    assert found["rows"][5]["verdict"].startswith("flash2: 0 of 3 points\n✘ values match")


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\t=1", "'\t'=1"), ("\r1", "'\r1"), (" =1", " '=1"),
        ("a;=1", "a;'=1"), ("a;b;@1", "a;b;'@1"), ("a\t+1", "a\t'+1"), ('a; "-1', 'a; "\'-1'),
        ("\uff1d1", "'\uff1d1"), ("\uff0b1", "'\uff0b1"), ("\uff0d1", "'\uff0d1"), ("\uff201", "'\uff201"),
        ("a=1", "a=1"), ("O is 2, -1 wanted; ask", "O is 2, -1 wanted; ask"), ("", ""),
    ],
)  # fmt: skip
def test_no_cell_is_a_formula_wherever_it_is_cut(cell: str, kept: str) -> None:
    for column in ("file", "student", "reason"):
        assert safe({column: cell, "score": -1}) == {column: kept, "score": -1}


def test_names_with_a_dot_are_told_of(call: Call, submitted: Path) -> None:
    (submitted / ".one").write_text("")
    assert call("grade", str(submitted))[2] == "iosim: 1 name that begins with a dot was left out\n"
    (submitted / "ann/.git").mkdir()
    (submitted / "ann/.git/.two").write_text("")
    assert call("grade", str(submitted))[2] == "iosim: 2 names that begin with a dot were left out\n"


def test_a_row_can_be_looked_at_again(call: Call, submitted: Path) -> None:
    row = json.loads(call("grade", str(submitted), "--json")[1])["rows"][5]
    again = json.loads(call("check", str(submitted / row["file"]), "--seed", str(row["seed"]), "--json")[1])
    assert again["parts"]["values"]["says"] == row["reason"]


def test_an_exercise_can_be_named(call: Call, submitted: Path) -> None:
    missing = "ModuleNotFoundError: No module named 'iosim'; only numpy and Python's own modules can be imported here"
    found = json.loads(call("grade", str(submitted / "ann"), "--exercise", "1", "--json", "--jobs", "1")[1])["rows"]
    assert [(row["exercise"], row["score"], row["reason"]) for row in found] == [
        ("softmax", 1, ""), ("softmax", 0, missing),
    ]  # fmt: skip


def test_progress_is_shown_where_somebody_looks(
    call: Call, submitted: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    status, out, _ = call("grade", str(submitted), "--json")
    assert status == 0
    assert len(json.loads(out)["rows"]) == 6


def test_a_grader_without_protection_refuses_unless_told(call: Call, submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iosim.course.rows.Worker", partial(Worker, without=("Landlock", "namespaces", "own uid")))
    assert "--unprotected" in refused(call, "grade", str(submitted))
    status, out, _ = call("grade", str(submitted), "--unprotected")
    assert status == 0
    assert "Run apart, under rlimits, seccomp, subreaper." in out


def test_there_are_no_more_processes_than_there_is_work() -> None:
    assert jobs_for(1) == jobs_for(9) == 1
    assert jobs_for(10**6) == len(os.sched_getaffinity(0))


def test_a_cluster_grades_alike(call: Call, submitted: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'iosim[cluster]'")

    def rows(*args: str) -> list[dict[str, Any]]:
        found = json.loads(call("grade", str(submitted), "--json", "--seed", "7", *args)[1])["rows"]
        return [{**row, "seconds": 0} for row in found]

    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as local:
        assert rows("--dask", local.scheduler_address) == rows()
    assert "no Dask scheduler answers" in refused(call, "grade", str(submitted), "--dask", "tcp://127.0.0.1:1")


# What is wrong


WRONG: dict[Sequence[str], Sequence[str]] = {
    ("nonsense",): ["'nonsense'", ", ".join(command.known)],
    ("start",): ["start needs an exercise", "1 softmax, 2 online-softmax"],
    ("start", "softmaks"): ["no exercise 'softmaks'", "1 softmax"],
    ("start", "softmax", "nowhere"): ["nowhere", "no folder"],
    ("check",): ["FILE"],
    ("check", "missing.py"): ["missing.py", "no such file"],
    ("check", "e01_missing.py"): ["e01_missing.py", "no such file"],
    ("check", "mine.py"): ["mine.py", "--exercise", "softmax, online-softmax"],
    ("check", "mine.py", "--exercise", "99"): ["no exercise '99'"],
    ("check", "mine.py", "--exercise", "merge"): ["mine.py", "no function named merge", "exercise merge"],
    ("check", "softmax_twice.py"): ["2 functions are named softmax"],
    ("check", "softmax_folder"): ["softmax_folder", "a folder"],
    ("check", "softmax_pipe.py"): ["softmax_pipe.py", "a pipe"],
    ("check", "softmax_link.py"): ["softmax_link.py", "a link"],
    ("check", "softmax_long.py"): ["softmax_long.py", "256 KiB"],
    ("check", "mine.py", "--seed", "-1"): ["--seed", "-1"],
    ("check", "softmax_twice.py", "--watch", "--json"): ["--watch", "--json"],
    ("hint",): ["hint needs an exercise"],
    ("hint", "softmax", "--level", "4"): ["--level", "4"],
    ("solution", "softmax"): ["not passed softmax", "--reveal"],
    ("grade",): ["DIR"],
    ("grade", "nowhere"): ["nowhere", "missing"],
    ("grade", "mine.py"): ["mine.py", "no folder"],
    ("grade", "softmax_folder"): ["softmax_folder", "empty"],
    ("grade", ".", "--json", "--csv"): ["--json", "--csv"],
    ("grade", ".", "--jobs", "0"): ["--jobs", "'0'"],
    ("grade", ".", "--jobs", "2", "--dask", "tcp://127.0.0.1:1"): ["--jobs", "--dask"],
    ("grade", ".", "--exercise", "flash3"): ["no exercise 'flash3'"],
    ("grade", ".", "--out", "nowhere/grades.csv"): ["nowhere", "folder"],
}


@pytest.mark.parametrize("args", WRONG)
def test_what_is_wrong_gets_one_line_that_says_what_would_work(call: Call, args: Sequence[str]) -> None:
    Path("mine.py").write_text("x = 1\n")
    Path("softmax_twice.py").write_text("def softmax(x): pass\n" * 2)
    Path("softmax_folder").mkdir()
    os.mkfifo("softmax_pipe.py")
    Path("softmax_link.py").symlink_to("mine.py")
    Path("softmax_long.py").write_bytes(bytes(2**20))
    message = refused(call, *args)
    assert [part for part in WRONG[args] if part not in message] == []


def test_without_dask_the_extra_is_named(call: Call, submitted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "pip install 'iosim[cluster]'" in refused(call, "grade", str(submitted), "--dask", "tcp://127.0.0.1:1")


def test_help_says_what_there_is(call: Call) -> None:
    status, out, err = call()
    assert (status, err) == (0, "")
    assert [name for name in command.known if f"\n  {name} " not in out] == []
    for name in command.known:
        status, out, err = call(name, "--help")
        assert (status, err) == (0, "")
        assert f"iosim exercise {name}" in out


def test_nothing_of_dask_is_loaded_unasked(tmp_path: Path) -> None:
    code = "import sys; from iosim.cli import main; main(['exercise', 'list']); print({'dask', 'distributed'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
