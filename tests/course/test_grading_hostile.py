"""Submissions that attack the grader: each ends with the verdict it deserves, and leaves no process, file or slowdown behind."""

from __future__ import annotations

import os
import platform
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import iosim
from iosim.core.errors import IosimError
from iosim.course.grading import results
from iosim.course.grading.caps import Caps
from iosim.course.grading.job import function_job, kernel_job
from iosim.course.grading.replay import replay
from iosim.course.grading.sandbox import LAYERS
from iosim.course.grading.worker import Limits, Outcome, Worker
from iosim.memory import Machine

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

X = np.arange(12.0).reshape(3, 4)
JOB = function_job("f", [(X,), (X + 1,)])
RIGHT = "def f(x): return 2 * x\n"
QUICK = Limits(wall=1.0, cpu=1, memory=1 << 29, stream=1 << 22)  # for what would never end
PATIENT = replace(QUICK, wall=20.0)  # for what ends by itself: on a busy machine a second by the clock is nothing
CAPS = Caps(records=20_000, words=64, live=256, elements=4096, flops=4096, loops=8)
BLOCK = re.compile(r"^### (.*) => (.*)\n((?:(?!^# |^### ).*\n)*)", re.MULTILINE)
SOURCES = {
    "a mark and foreign line ends": ("right", ("\ufeff" + RIGHT.replace("\n", "\r\n")).encode()),
    "another encoding": ("right", b"# coding: latin-1\n" + RIGHT.encode()),
    "an empty file": ("NameError: no function named f", b""),
    "a binary file": ("(SyntaxError|ValueError): ", bytes(range(256)) * 100),
    "zeros": ("(SyntaxError|ValueError): ", bytes(100_000)),
    "nested brackets": ("(SyntaxError|MemoryError)", b"(" * 50_000 + b")" * 50_000),
    "nested signs": ("(MemoryError|RecursionError|broken: it ended)", b"-" * 100_000 + b"1"),
    "nested attributes": ("(MemoryError|RecursionError|broken: it ended)", b"a" + b".a" * 100_000),
    "nested blocks": ("IndentationError: too many levels", "".join(" " * n + "if 1:\n" for n in range(200)).encode()),
    "a number of many digits": ("SyntaxError: Exceeds the limit", b"9" * 200_000),
    "50 MB": ("stopped: too long a source", b"x = 1\n" * (50_000_000 // 6)),
}


def blocks(name: str) -> dict[str, tuple[str, bytes]]:
    """The submissions of a file: verdict and source by name."""
    text = Path(__file__).with_name("hostile").joinpath(name).read_text("utf-8")
    return {found[1]: (found[2], found[3].encode()) for found in BLOCK.finditer(text)}


CASES = blocks("functions.txt") | SOURCES
SLOW = {"a memory hog"}  # half a GiB has to be filled first, which a busy machine may not do in a second by the clock
KERNELS = blocks("kernels.txt")


def judged(outcome: Outcome) -> str:
    """What a judge would say, in a few words."""
    got = results.parse(outcome.stream, 2, 1, ("float64",))
    if outcome.stopped:
        return f"stopped: {outcome.stopped}"
    if got.error is not None:
        return f"{got.error.type}: {got.error.message}"
    if got.broken:
        return f"broken: {got.broken}"
    right = all(np.array_equal(array, wanted) for (array,), wanted in zip(got.calls, (2 * X, 2 * (X + 1)), strict=True))
    return "right" if right else "wrong"


def filled(source: bytes, watched: Path) -> bytes:
    """The source with the names that it needs to know."""
    places = {
        "WATCHED": str(watched),
        "PACKAGE": str(Path(iosim.__file__).parent),
        "PATH": repr(sys.path),
        "PID": str(os.getpid()),
        "FORK": {"x86_64": "56"}.get(platform.machine(), "220"),
    }
    for name, place in places.items():
        source = source.replace(f"@{name}@".encode(), place.encode())
    return source


def running(parent: int) -> list[str]:
    """The processes below ``parent`` that still run; zombies are no processes any more."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
    fields = [stat.rpartition(")")[2].split() for stat in stats]
    return [stat for stat, (state, above, *_) in zip(stats, fields, strict=True) if int(above) == parent and state != "Z"]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    with Worker() as one:
        yield one


@pytest.fixture
def watched() -> Iterator[Path]:
    """A folder that everyone may write; pytest's own would be closed to a submission's user by the folders above it."""
    with tempfile.TemporaryDirectory(prefix="iosim-watched-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield remade(folder)


def remade(folder: Path) -> Path:
    """The folder with nothing but a file that everyone may write, and a link to it."""
    for path in folder.iterdir():
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (folder / "theirs").write_text("theirs")
    (folder / "theirs").chmod(0o666)
    (folder / "link").symlink_to("theirs")
    return folder


def test_there_are_many_kinds() -> None:
    assert len(CASES) > 130
    assert len(KERNELS) > 25


def test_who_is_deaf_to_signals_has_no_more_time(worker: Worker) -> None:
    outcome = worker.run(JOB, CASES["a loop that is deaf to signals"][1], Limits(wall=60, cpu=1))
    assert (outcome.stopped, outcome.status) == ("time", -signal.SIGKILL)
    assert 1 <= outcome.cpu < 3


def test_a_source_of_50_MB_that_a_child_does_read(worker: Worker) -> None:
    limits = replace(QUICK, source=1 << 26)
    assert re.match("(MemoryError|stopped: time)", judged(worker.run(JOB, SOURCES["50 MB"][1], limits)))


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_submission(name: str, worker: Worker, watched: Path) -> None:
    verdict, source = CASES[name]
    limits = QUICK if "time" in verdict and name not in SLOW else PATIENT
    assert worker._server is not None
    server = worker._server.process.pid
    before = len(os.listdir("/proc/self/fd"))
    outcome = worker.run(JOB, filled(source, watched), limits)
    assert re.match(verdict, judged(outcome)), (judged(outcome), outcome.status, outcome.said)
    assert running(server) == []
    assert sorted(path.name for path in watched.iterdir()) == ["link", "theirs"]
    assert (watched / "theirs").read_text() == "theirs"
    assert len(os.listdir("/proc/self/fd")) == before
    honest = worker.run(JOB, RIGHT.encode(), PATIENT)
    assert judged(honest) == "right"
    assert honest.cpu < 0.1
    assert worker._server.process.pid == server


STOPPED_BY_A_LAYER = """
a file; a folder; a FIFO; a link of its own; another mode; another time; a removal; a truncation; a link to a file; the grader's source;
the reference by its path; the packaged solutions by their path; another package by its path; the password file; its own memory;
a pair of sockets; a shell; memory with a name; a signal by descriptor; the grader's command line; becoming a program
"""


def test_without_the_layers_the_same_attacks_succeed(watched: Path) -> None:
    with Worker(unprotected=True, without=LAYERS) as unprotected:
        for name in STOPPED_BY_A_LAYER.replace("\n", " ").split(";"):
            verdict, source = CASES[name.strip()]
            found = judged(unprotected.run(JOB, filled(source, watched), PATIENT))
            assert not re.match(verdict, found), (name, found)
            remade(watched)


def replayed(outcome: Outcome) -> str:
    """What the stream does on a machine of 64 words that has the numbers, in a few words."""
    if outcome.stopped:
        return f"stopped: {outcome.stopped}"
    machine = Machine(64)
    A = np.arange(80, dtype=np.float32).reshape(20, 4)
    arrays = machine.input("A", (20, 4), A), machine.output("B", (20, 4))
    try:
        replay(outcome.stream, machine, arrays, None, CAPS)
        machine.finish()
    except IosimError as error:
        return f"{type(error).__name__}: {error}"
    return "right" if np.array_equal(arrays[1].data, 2 * A) else "wrong"


@pytest.mark.parametrize("name", KERNELS)
def test_a_hostile_listing(name: str, worker: Worker, watched: Path) -> None:
    verdict, source = KERNELS[name]
    job = kernel_job("f", {"A": (20, 4), "B": (20, 4)}, {"Br": 8})
    outcome = worker.run(job, filled(source, watched), QUICK if "time" in verdict else PATIENT)
    assert re.match(verdict, replayed(outcome)), replayed(outcome)
