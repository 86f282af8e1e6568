"""Grading a folder: one row for every submission, whatever it is, and the same verdicts in whatever order and wherever."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim.course import folder, rows
from iosim.course import graded as graded_module
from iosim.course.catalogue import EXERCISES, exercise
from iosim.course.folder import graded_rows, submissions
from iosim.course.graded import grade_source, graded
from iosim.course.grading.caps import Caps
from iosim.course.grading.records import LENGTH, RECORD
from iosim.course.grading.worker import Worker
from iosim.course.here import check
from iosim.course.judging import drawn_trials
from iosim.course.named import exercise_by_name, student_of
from iosim.course.rows import Row, Submission, seed_of
from iosim.course.spec import Exercise
from iosim.course.submission import MOST, read_submission
from iosim.course.text import built, file_name, mistaken, solution_source, starter
from iosim.course.verdict import Verdict

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

every = pytest.mark.parametrize("asked", EXERCISES.values(), ids=lambda one: one.name)

FULL = {
    "endless.py": b"while True: pass\n",
    "sleeping.py": b"import time\ntime.sleep(3600)\n",
    "deaf.py": b"import signal\nfor one in range(1, 65):\n    try: signal.signal(one, signal.SIG_IGN)\n    except Exception: pass\n"
    b"while True: pass\n",
    "forking.py": b"import os\nwhile True: os.fork()\n",
    "talking.py": b"import os\nfor _ in range(100): os.write(1, bytes(10**6))\n",
    "hoarding.py": b"kept = []\nwhile True: kept.append(bytearray(1 << 26))\n",
    "leaving.py": b"import os\nos._exit(0)\n",
    "forging.py": b"import os\nfor one in range(3, 9):\n    try: os.write(one, bytes(10**6))\n    except OSError: pass\n",
    "flooding.py": b"def flash2(m, *given, **more):\n    while True: m.tiles(1, 1)\n",
    "long.py": b"x = 1\n" * (50_000_000 // 6),
}
"""Ten that attack; each is for exercise flash2."""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


@pytest.fixture(autouse=True, scope="module")
def _dismissed() -> Iterator[None]:
    yield
    rows.dismiss()


def grade_folder(place: Path, exercise: str | None = None, **how: Any) -> Iterator[Row]:
    return graded_rows(submissions(place, exercise), **how)


def parts(verdict: Verdict) -> tuple[object, ...]:
    """What a verdict says, but for its wording."""
    return verdict.score, verdict.out_of, verdict.mistake, verdict.line, [(part.name, part.passed) for part in verdict.parts]


def facts(graded: Sequence[Row]) -> list[dict[str, object]]:
    """Rows without what no two runs have in common, in the order of the files."""
    return [{**row.record(), "seconds": 0} for row in sorted(graded, key=lambda row: row.file)]


# One submission


@every
def test_a_solution_gets_full_marks_and_a_starter_none(asked: Exercise, worker: Worker) -> None:
    right = grade_source(asked, solution_source(asked).encode(), worker)
    assert right.passed, right
    assert right.protections == worker.protections != ()
    begun = grade_source(asked, starter(asked).encode(), worker)
    assert (begun.score, begun.mistake) == (0, None)
    assert begun.reason.startswith(f"NotImplementedError: {asked.number} {asked.name}")
    assert begun.line == starter(asked).count("\n")


def same_as_in_process(asked: Exercise, number: int, worker: Worker, seed: int) -> None:
    source = mistaken(asked, asked.mistakes[number])
    apart = grade_source(asked, source.encode(), worker, seed)
    here = check(built(source, asked.function), asked, seed=seed).verdict
    assert parts(apart) == parts(here)
    assert apart.mistake == asked.mistakes[number].name


@every
def test_a_mistake_gets_the_verdict_that_it_gets_in_process(asked: Exercise, worker: Worker) -> None:
    same_as_in_process(asked, asked.number % len(asked.mistakes), worker, seed=3)


@pytest.mark.slow
@every
def test_every_mistake_gets_the_verdict_that_it_gets_in_process(asked: Exercise, worker: Worker) -> None:
    for number in range(len(asked.mistakes)):
        same_as_in_process(asked, number, worker, seed=4)


def test_what_goes_by_the_place_of_a_tile_breaks_a_rule_apart_and_in_process(worker: Worker) -> None:
    source = solution_source(exercise("flash2"))
    for old, new in (("    for i in m.tiles(N_q, Br):", "    for place, i in enumerate(m.tiles(N_q, Br)):"),
                     ("alpha * o + s @ v", "(1.0 * (alpha * o + s @ v) if place == 1 else alpha * o + s @ v)")):  # fmt: skip
        assert source.count(old) == 1
        source = source.replace(old, new)
    verdict = grade_source(exercise("flash2"), source.encode(), worker, 5)
    assert parts(verdict) == parts(check(built(source, "flash2"), exercise("flash2"), seed=5).verdict)
    assert [part.passed for part in verdict.parts] == [True, False, True]
    assert "two tiles of one kind" in verdict.parts[1].says


def test_the_time_of_all_replays_together_is_limited(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graded_module, "Allowance", partial(graded_module.Allowance, 0.001))
    verdict = grade_source(exercise("flash2"), solution_source(exercise("flash2")).encode(), worker)
    assert (verdict.score, "to replay; an answer needs far fewer" in verdict.reason) == (0, True)


def test_the_time_of_all_runs_together_is_limited(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graded_module, "Clock", partial(graded_module.Clock, 0.8))
    assert len(drawn_trials(exercise("flash2"), 0)) > 1
    rows = "    for i in m.tiles(N_q, Br):\n"
    sleeping = "import time\n" + solution_source(exercise("flash2")).replace(rows, f"    time.sleep(0.4)\n{rows}")
    verdict = grade_source(exercise("flash2"), sleeping.encode(), worker)
    assert (verdict.score, "ended after 10 s by the clock, all problems together" in verdict.reason) == (0, True)


def test_a_stream_may_be_as_long_as_its_caps_say() -> None:
    caps = Caps(100, 1, 1, 1, 1, 1)
    assert graded_module.limits_of(caps).stream == caps.stream == 100 * (RECORD.size + LENGTH.size) < graded_module.LIMITS.stream
    assert graded_module.limits_of(caps, 2.0).wall == 2.0 < graded_module.limits_of(caps).wall == graded_module.LIMITS.wall


@pytest.mark.parametrize("name", ["softmax", "flash2"])
def test_a_coroutine_is_a_definition_too(name: str, worker: Worker) -> None:
    twice = f"async def {name}(*args): pass\n{solution_source(exercise(name))}".encode()
    assert f"2 functions are named {name}: keep one" in grade_source(exercise(name), twice, worker).reason


def test_the_seed_decides_the_verdict(worker: Worker) -> None:
    wrong = mistaken(exercise("flash2"), exercise("flash2").mistakes[0]).encode()
    one, same, other = (grade_source(exercise("flash2"), wrong, worker, seed) for seed in (1, 1, 2))
    assert one == same
    assert one.parts != other.parts
    fresh = {grade_source(exercise("softmax"), b"", worker).seed for _ in range(3)}
    assert len(fresh) == 3


WRONG = {
    "x[:1], x[:, 0]": "P has shape",
    "np.zeros((0, 3, 1)), x": "P has shape",
    "np.full(x.shape, np.nan), x[:, 0]": "P[0, 0] is nan",
    "np.full(x.shape, np.inf), x[:, 0]": "P[0, 0] is inf",
    "x.astype('float32'), x": "result 1 of 2 holds float32 but should hold float64",
    "1, 2": "holds int64 but should hold float64 (",
}


@pytest.mark.parametrize("result", WRONG)
def test_what_is_wrong_with_a_result_is_said(result: str, worker: Worker) -> None:
    verdict = grade_source(exercise("softmax"), f"import numpy as np\ndef softmax(x): return {result}".encode(), worker)
    assert verdict.parts[0].passed is False
    assert WRONG[result] in verdict.parts[0].says


STOPPED = {
    ("softmax", "def softmax(x): return x"): "returned one array, not 2 arrays",
    ("softmax", "def softmax(x): return [x]"): "TypeError: the function returned a list; 2 results are wanted, a tuple: return a, b",
    ("softmax", "def softmax(x): return x\nraise ValueError('no\\x1b[31m')"): "ValueError: no\\x1b[31m",
    ("softmax", "class softmax: pass"): "TypeError",
    ("softmax", "import os\ndef softmax(x): os._exit(0)"): "without a word",
    ("softmax", "def softmax(x): raise SystemExit(0)"): "SystemExit: 0",
    ("softmax", "def softmax(x): return"): "TypeError: the function returned a NoneType",
    ("flash2", "def flash2(*args): pass"): "TypeError",
    ("flash2", "import os\ndef flash2(*args, **more): os._exit(0)"): "ended without finishing",
    ("flash2", "def flash2(*args, **more): print(1 / 0)"): "ZeroDivisionError: division by zero",
    ("flash2", "import numpy.linalg, iosim.exercises"): "only numpy and iosim.memory can be imported here",
    ("softmax", "import torch"): "No module named 'torch'; only numpy and Python's own modules can be imported here",
    ("flash2", "def flash2(m, *args, **more):\n    while True: m.tiles(1, 1)"): "far more than an answer needs",
    ("flash2", "x = 1\n" * MOST): "longer than 256 KiB",
    ("flash2", "while True: print('x' * 10**5)"): "ended after printing 1 MiB",
    ("flash2", "\ufeffdef flash2():\r\n    (\r\n"): "SyntaxError: '(' was never closed",
}


@pytest.mark.parametrize(("name", "source"), STOPPED)
def test_what_stopped_a_submission_is_said(name: str, source: str, worker: Worker) -> None:
    verdict = grade_source(exercise(name), source.encode(), worker)
    assert (verdict.score, verdict.parts[0].passed) == (0, None)
    assert STOPPED[name, source] in verdict.reason
    assert verdict.reason.isprintable()


@pytest.mark.parametrize("asked", [one for one in EXERCISES.values() if one.kind == "function"], ids=lambda one: one.name)
def test_no_result_whatever_makes_a_judge_fail(asked: Exercise, worker: Worker) -> None:
    results = ["0", "0.5", "np.zeros(())", "np.zeros((0, 0))", "np.zeros((1, 2, 3, 4))", "np.full((2, 2), np.nan)", "np.zeros(3, bool)",
               "np.array([[2**62]])", "-2**63", "np.zeros((2, 2), 'float32')"]  # fmt: skip
    for result in results:
        for count in (1, 2, 3):
            returned = ", ".join([result] * count)
            source = f"import numpy as np\ndef {asked.function}(*args): return {returned}"
            assert grade_source(asked, source.encode(), worker, 0).score == 0


def test_after_a_run_that_was_ended_there_is_no_other(worker: Worker) -> None:
    started = time.monotonic()
    verdict = grade_source(exercise("flash2"), FULL["endless.py"], worker)
    assert "ended after 2 s of work" in verdict.reason
    assert time.monotonic() - started < 15  # twice 5 s and more by the clock if it were run for each of three problems


def test_what_is_printed_is_shown_and_harmless(worker: Worker) -> None:
    source = "print('a\\tb \\x1b[31m')\nprint('\\n' * 50)\ndef softmax(x): return x"
    printed = graded(exercise("softmax"), source.encode(), worker).printed.splitlines()
    assert printed[0] == "a       b \\x1b[31m"
    assert (len(printed), printed[-1]) == (21, "...")


# Files


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a file [1].py").write_bytes(b"\0" * MOST)
    assert read_submission(tmp_path / "a file [1].py") == b"\0" * MOST


@pytest.mark.parametrize(
    ("name", "says"),
    {
        "missing.py": "no such file", "folder.py": "a folder", "pipe.py": "a pipe", "link.py": "a link", "loop.py": "a link",
        "nowhere.py": "a link", "long.py": "longer than 256 KiB", "grown.py": "longer than 256 KiB", "device.py": "a link",
        "longest.py" * 100: "file name too long", "socket.py": "a socket", "file.py/inside.py": "not a directory", "nul\0.py": "null",
    }.items(),
)  # fmt: skip
def test_what_is_no_submission_is_said_in_one_line(tmp_path: Path, name: str, says: str) -> None:
    filled(tmp_path)
    with pytest.raises(BadInput, match=says) as raised:
        read_submission(tmp_path / name)
    assert str(raised.value).isprintable()


def filled(top: Path) -> None:
    """A folder in which every kind of thing lies."""
    import socket

    (top / "file.py").write_text("x = 1\n")
    (top / "folder.py").mkdir()
    os.mkfifo(top / "pipe.py")
    (top / "link.py").symlink_to("file.py")
    (top / "loop.py").symlink_to("loop.py")
    (top / "nowhere.py").symlink_to("nothing")
    (top / "device.py").symlink_to(os.devnull)
    (top / "long.py").write_bytes(bytes(50_000_000))
    (top / "grown.py").write_bytes(bytes(MOST + 1))
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(top / "socket.py"))


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs a device")
def test_a_device_is_no_submission() -> None:
    with pytest.raises(BadInput, match="a device"):
        read_submission("/dev/null")


def test_an_unreadable_file_is_no_submission(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("root reads every file")
    with pytest.raises(BadInput, match="permission denied"):
        read_submission(path)


NAMES = {
    "e08_flash2.py": ("flash2", "e08_flash2"),
    "flash2.py": ("flash2", "flash2"),
    "flash2_alice.py": ("flash2", "alice"),
    "Alice_Li-123-E08_Flash2 (1).py": ("flash2", "Alice_Li-123-(1)"),
    "alice/e08_flash2.py": ("flash2", "alice"),
    "alice/week 2/flash2.py": ("flash2", "alice/week 2"),
    "e01_softmax/bob.py": ("softmax", "bob"),
    "online softmax.py": ("online-softmax", "online softmax"),
    "best_blocks_zoé.py": ("blocks", "zoé"),
    "e8.py": ("flash2", "e8"),
    "ex08_mine.py": ("flash2", "mine"),
    "e08_flash2_merge.py": ("flash2", "e08_flash2_merge"),
    "merge/e01_softmax.py": ("softmax", "e01_softmax"),
}


@pytest.mark.parametrize("path", NAMES)
def test_a_name_tells_the_exercise_and_the_student(path: str) -> None:
    assert (exercise_by_name(PurePath(path)).name, student_of(PurePath(path))) == NAMES[path]


@every
def test_a_starter_file_names_its_exercise(asked: Exercise) -> None:
    for name in (file_name(asked), f"alice/{asked.name}.py", f"alice_{asked.function}.py", f"{file_name(asked)[:-3]}/alice.py"):
        assert exercise_by_name(PurePath(name)) is asked


@pytest.mark.parametrize("path", ["random.py", "e99.py", "e07_flash2.py", "softmax_merge.py", "alice/numpy.py", "flash22.py", ""])
def test_a_name_that_does_not_tell_is_refused(path: str) -> None:
    with pytest.raises(BadInput, match="--exercise"):
        exercise_by_name(PurePath(path))


# Folders


@pytest.fixture
def things(tmp_path: Path) -> Path:
    """Submissions among other things."""
    filled(tmp_path)
    for name in ("empty", "alice", ".git", "__pycache__", "bob [2]"):
        (tmp_path / name).mkdir()
    right, wrong = exercise("softmax"), exercise("merge")
    (tmp_path / "alice" / "e01_softmax.py").write_text(solution_source(right))
    (tmp_path / "alice" / "e03_merge.py").write_bytes(b"\xef\xbb\xbf" + mistaken(wrong, wrong.mistakes[0]).replace("\n", "\r\n").encode())
    (tmp_path / "bob [2]" / "e08 flash2.py").write_text(solution_source(exercise("flash2")))
    (tmp_path / "bob [2]" / "numpy.py").write_text("raise SystemExit\n")
    (tmp_path / "softmax_binary.py").write_bytes(bytes(range(256)))
    (tmp_path / "softmax_notes.txt").write_text("how I did it")
    (tmp_path / "softmax_notes.ipynb").write_text("{}")
    (tmp_path / "softmax_\n\x1b[31m.py").write_text("")
    (tmp_path / os.fsdecode(b"softmax_\xff.py")).write_text("")
    (tmp_path / "merge_link").symlink_to(tmp_path / "alice")
    for name in (".git/config", "__pycache__/e01_softmax.pyc", ".e01_softmax.py"):
        (tmp_path / name).write_text("x")
    return tmp_path


GRADED = {
    "alice/e01_softmax.py": ("softmax", 1, ""),
    "alice/e03_merge.py": ("merge", 0, "should be"),
    "bob [2]/e08 flash2.py": ("flash2", 3, ""),
    "bob [2]/numpy.py": (None, 0, "does not say which exercise"),
    "device.py": (None, 0, "a link"),
    "empty": (None, 0, "a folder without a file"),
    "file.py": (None, 0, "does not say which exercise"),
    "folder.py": (None, 0, "a folder without a file"),
    "grown.py": (None, 0, "longer than 256 KiB"),
    "link.py": (None, 0, "a link"),
    "long.py": (None, 0, "longer than 256 KiB"),
    "loop.py": (None, 0, "a link"),
    "merge_link": ("merge", 0, "a link"),
    "nowhere.py": (None, 0, "a link"),
    "pipe.py": (None, 0, "a pipe"),
    "socket.py": (None, 0, "a socket"),
    "softmax_\\n\\x1b[31m.py": ("softmax", 0, "NameError: no function named softmax"),
    "softmax_\\xff.py": ("softmax", 0, "NameError: no function named softmax"),
    "softmax_binary.py": ("softmax", 0, "SyntaxError"),
    "softmax_notes.ipynb": ("softmax", 0, "iosim exercise collect takes the answers out of notebooks"),
    "softmax_notes.txt": ("softmax", 0, "not a .py file"),
}


def test_a_folder_too_deep_to_be_read_costs_one_row(tmp_path: Path) -> None:
    (tmp_path / "e01_softmax.py").write_text(starter(exercise("softmax")))
    at, name = os.open(tmp_path, os.O_RDONLY), "deep" * 50
    for _ in range(25):
        os.mkdir(name, dir_fd=at)
        inside = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inside
    os.close(at)
    rows_too = {row.file[:11]: row.reason for row in grade_folder(tmp_path)}
    assert sorted(rows_too) == ["deepdeepdee", "e01_softmax"]
    assert rows_too["deepdeepdee"] == "cannot be read: file name too long"
    assert "NotImplementedError" in rows_too["e01_softmax"]


def test_a_folder_that_may_not_be_entered_costs_its_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its names can be listed, and no more."""
    (tmp_path / "closed").mkdir()
    for path in (tmp_path / "closed/e01_softmax.py", tmp_path / "e03_merge.py"):
        path.write_text("")

    def closed(path: Path) -> os.stat_result:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied")
        return os.lstat(path)

    def source(top: Path, path: PurePath) -> bytes:
        closed(top / path)
        return b""

    monkeypatch.setattr(Path, "lstat", closed)
    monkeypatch.setattr(folder, "source_at", source)
    found = {one.file: (one.reason, one.counts) for one in submissions(tmp_path)}
    assert found == {"closed/e01_softmax.py": ("cannot be read: permission denied", True), "e03_merge.py": ("", True)}


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc")
def test_a_file_that_cannot_be_read_through_is_told() -> None:
    with pytest.raises(BadInput, match="/proc/self/mem: cannot be read: "):
        read_submission("/proc/self/mem")


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_the_size_that_a_file_says_is_not_believed() -> None:
    assert os.stat("/proc/self/status").st_size == 0
    assert read_submission("/proc/self/status").startswith(b"Name:")


def test_names_with_a_dot_are_counted(tmp_path: Path) -> None:
    for name in (".git/a.py", "ann/.cache/b.py", "ann/e01_softmax.py", "__pycache__/.c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "ann/.hidden.py").write_text("")
    assert folder.left_out(tmp_path) == 3
    assert folder.left_out(tmp_path / "ann/.cache") == 0


def test_everything_in_a_folder_has_one_row(things: Path) -> None:
    found = {row.file: row for row in grade_folder(things)}
    assert set(found) == set(GRADED)
    for file, (name, score, says) in GRADED.items():
        row = found[file]
        assert (row.exercise, row.score) == (name, score), row
        assert says in row.reason
        assert bool(row.reason) is not row.passed
        assert "\n" not in row.reason
    assert found["alice/e03_merge.py"].mistake == exercise("merge").mistakes[0].name
    assert (found["softmax_notes.txt"].out_of, found["file.py"].out_of, found["file.py"].seed) == (None, None, None)
    assert found["bob [2]/e08 flash2.py"].record() | {"seconds": 0, "seed": 0, "run_seed": 0} == {
        "file": "bob [2]/e08 flash2.py", "exercise": "flash2", "student": "bob [2]", "score": 3, "out_of": 3, "values": True, "rules": True,
        "words": True, "mistake": None, "reason": "", "line": None, "seed": 0, "run_seed": 0, "seconds": 0,
        "protections": ", ".join(found["alice/e01_softmax.py"].protections),
    }  # fmt: skip


def test_what_is_no_python_file_has_a_row_and_no_score(things: Path) -> None:
    none = {row.file for row in grade_folder(things, "softmax") if row.out_of is None}
    regular = {file for file in GRADED if file.endswith(".py")} - {
        "device.py", "folder.py", "link.py", "loop.py", "nowhere.py", "pipe.py", "socket.py"
    }  # fmt: skip
    assert none == set(GRADED) - regular


def test_the_folder_of_one_student_is_named_after_them(things: Path) -> None:
    assert {found.student for found in submissions(things / "alice")} == {"alice"}
    assert [found.student for found in submissions(things / "bob [2]")] == ["bob [2]", "numpy"]


def test_the_file_of_the_grades_is_no_submission(things: Path) -> None:
    out = things / "alice" / "grades.csv"
    out.write_text("")
    assert "grades.csv" in {found.file for found in submissions(things / "alice")}
    assert "grades.csv" not in {found.file for found in submissions(things / "alice", without=out)}


def test_an_exercise_that_is_named_is_that_of_all_files(things: Path) -> None:
    found = {row.file: row for row in grade_folder(things, "flash2")}
    assert set(found) == set(GRADED)
    assert {row.exercise for row in found.values()} == {"flash2"}
    assert [row.file for row in found.values() if row.passed] == ["bob [2]/e08 flash2.py"]
    assert "SystemExit" in found["bob [2]/numpy.py"].reason


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "file").parent.joinpath("within").mkdir()
    for path, says in ((tmp_path / "nowhere", "missing"), (tmp_path / ".hidden", "no folder"), (tmp_path / "within", "empty")):
        with pytest.raises(BadInput, match=says):
            list(grade_folder(path))
    with pytest.raises(BadInput, match="there is no exercise 'flash3'"):
        list(grade_folder(tmp_path, "flash3"))


def test_a_bug_of_the_grader_costs_one_row(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(asked: Exercise, *given: Any) -> Verdict:
        if asked.name == "merge":
            raise RuntimeError("two\nlines")
        return grade_source(asked, *given)

    monkeypatch.setattr(rows, "grade_source", broken)
    found = {row.file: row for row in grade_folder(things / "alice")}
    assert found["e01_softmax.py"].passed
    assert found["e03_merge.py"].reason == "a bug of the grader, not of the submission: RuntimeError: two lines"


def test_where_a_protection_is_missing_nothing_is_graded_unless_asked(things: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "Worker", partial(Worker, without=("Landlock", "namespaces", "own uid")))
    rows.dismiss()
    with pytest.raises(BadInput, match="--unprotected"):
        list(grade_folder(things))
    found = list(grade_folder(things / "alice", unprotected=True))
    assert [row.score for row in found] == [1, 0]
    assert {"Landlock", "own uid"}.isdisjoint(found[0].protections)


# Seeds, order, processes

SOME = ("softmax", "merge", "count-standard", "flash2", "block-sparse")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Right and wrong answers to some exercises."""
    top = tmp_path_factory.mktemp("many")
    for asked in map(exercise, SOME):
        for who, source in (("ann", solution_source(asked)), ("ben", mistaken(asked, asked.mistakes[0]))):
            (top / who).mkdir(exist_ok=True)
            (top / who / file_name(asked)).write_text(source)
    (top / "ann" / "e99.py").write_text("")
    return top


@pytest.fixture(scope="module")
def verdicts(many: Path) -> list[dict[str, object]]:
    """What they deserve, with seed 7."""
    return facts(list(grade_folder(many, seed=7)))


def test_every_row_is_as_it_should_be(verdicts: list[dict[str, object]]) -> None:
    assert len(verdicts) == 2 * len(SOME) + 1
    for row in verdicts:
        passed = row["student"] == "ann" and row["exercise"] is not None
        assert (row["score"] == row["out_of"]) is passed
        assert passed or row["exercise"] is None or row["mistake"] == exercise(str(row["exercise"])).mistakes[0].name
    seeds = [row["seed"] for row in verdicts if row["seed"] is not None]
    assert len(set(seeds)) == len(seeds) == 2 * len(SOME)


def test_the_number_of_processes_decides_nothing(many: Path, verdicts: list[dict[str, object]]) -> None:
    found = list(grade_folder(many, seed=7, jobs=2))
    assert [row.file for row in found] == [submission.file for submission in submissions(many)]
    assert facts(found) == verdicts


def test_the_order_and_threads_decide_nothing(many: Path, verdicts: list[dict[str, object]]) -> None:
    found = submissions(many)
    random.Random(1).shuffle(found)
    with ThreadPoolExecutor(2) as executor:
        assert facts(list(graded_rows(found, seed=7, executor=executor))) == verdicts


def test_a_dask_cluster_decides_nothing(many: Path, verdicts: list[dict[str, object]]) -> None:
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed: pip install 'iosim[cluster]'")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        executor: Executor = client.get_executor()
        assert facts(list(grade_folder(many, seed=7, executor=executor))) == verdicts


def test_another_seed_is_another_run(many: Path, verdicts: list[dict[str, object]]) -> None:
    one = [submission for submission in submissions(many) if submission.exercise == "merge"]
    again, fresh, other = (list(graded_rows(one, seed=seed)) for seed in (7, None, None))
    assert facts(again) == [row for row in verdicts if row["exercise"] == "merge"]
    assert len({row.run_seed for row in (again[0], fresh[0], other[0])}) == 3


def test_the_seed_of_a_submission_follows_from_its_bytes_its_exercise_and_the_run_alone() -> None:
    one = Submission("a.py", "ann", "merge", b"x")
    assert seed_of(one, 7) == seed_of(Submission("b.py", "ben", "merge", b"x"), 7)
    others = [(Submission("a.py", "ann", "merge", b"y"), 7), (Submission("a.py", "ann", "flash", b"x"), 7), (one, 8)]
    seeds = [seed_of(*asked) for asked in ((one, 7), *others)]
    assert len(set(seeds)) == 4
    assert all(isinstance(seed, int) and 0 <= seed < 2**32 for seed in seeds)
    assert np.random.default_rng(seeds[0]).random() == np.random.default_rng(seed_of(one, 7)).random()


class Deadly(Submission):
    """A submission that ends whatever process unpickles it."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return os._exit, (1,)


def test_a_process_that_is_killed_costs_one_row_alone() -> None:
    source = solution_source(exercise("merge")).encode()
    found = [Submission("a.py", "ann", "merge", source), Deadly("b.py", "ben", "merge"), Submission("c.py", "cem", "merge", source)]
    graded = list(folder.on_processes(1, partial(rows.graded_row, run_seed=1), found, 1))
    assert [(row.file, row.score) for row in graded] == [("a.py", 1), ("b.py", 0), ("c.py", 1)]
    assert "killed" in graded[1].reason


def test_who_looks_at_one_row_has_not_all_of_them_graded() -> None:
    begun: list[str] = []

    def grade(submission: Submission, **_: int) -> Row:
        begun.append(submission.file)
        time.sleep(0.01)
        return rows.refused(submission, "", 1)

    with ThreadPoolExecutor(1) as executor:
        found = folder.on_executor(executor, partial(grade), [Submission(str(place), "ann") for place in range(100)], 1)
        assert next(found).file == "0"
        found.close()
    assert len(begun) < 50


def test_what_is_left_undone_is_not_begun(many: Path) -> None:
    started = time.monotonic()
    graded = folder.on_processes(1, partial(rows.graded_row, run_seed=1), submissions(many) * 100, 1)
    next(graded)
    graded.close()
    assert time.monotonic() - started < 15


# Three hundred


def fill(top: Path) -> None:
    """300 submissions: solutions, starters and mistakes of every exercise, and ten that attack."""
    every = [
        (asked, source)
        for asked in EXERCISES.values()
        for source in (solution_source(asked), starter(asked), *(mistaken(asked, mistake) for mistake in asked.mistakes))
    ]
    for place in range(300 - len(FULL)):
        asked, source = every[place % len(every)]
        (top / f"student {place:03}").mkdir()
        (top / f"student {place:03}" / file_name(asked)).write_text(source)
    for name, attack in FULL.items():
        (top / name[:-3]).mkdir()
        (top / name[:-3] / "e08_flash2.py").write_bytes(attack)


@pytest.mark.slow
def test_three_hundred_with_ten_that_attack_take_less_than_five_minutes(tmp_path: Path) -> None:
    fill(tmp_path)
    started = time.monotonic()
    found = list(grade_folder(tmp_path, jobs=2))
    took = time.monotonic() - started
    print(f"300 submissions on two processes: {took:.1f} s")  # noqa: T201  # what it is run for
    attacks = [row for row in found if not row.file.startswith("student")]
    assert (len(found), len(attacks)) == (300, len(FULL))
    assert all(row.score == 0 and row.reason for row in attacks)
    assert {row.exercise for row in found if row.passed} == set(EXERCISES)
    assert took < 300
