"""Every layer stops what it is there for, alone; without it that succeeds. And what a worker starts, it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim.course.grading import fork_server, layers, libc, probes, results, sandbox, seccomp
from iosim.course.grading.job import function_job
from iosim.course.grading.worker import Limits, Outcome, Worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")

ROOT = sys.platform == "linux" and os.getuid() == 0
JOB = function_job("f", [(np.float64(2.0).reshape(()),)])
LIMITS = Limits()
EVERY = frozenset(sandbox.LAYERS)
PTRACE = Path("/proc/sys/kernel/yama/ptrace_scope")
RESTRICTED = PTRACE.exists() and PTRACE.read_text().strip() != "0" and not ROOT
"""Whether the system itself already keeps a process from its sister's memory."""


@pytest.fixture(scope="module")
def bare() -> Iterator[Worker]:
    """A worker that applies no layer unless a probe asks for one."""
    with Worker(unprotected=True, without=EVERY) as worker:
        yield worker


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """A worker with every layer that can be had."""
    with Worker() as one:
        yield one


@pytest.fixture(scope="module")
def prober(bare: Worker) -> Iterator[layers.Prober]:
    with layers.target(Limits().memory) as target:
        yield layers.Prober(bare._ask, target)


def answer(outcome: Outcome) -> str:
    """What f(2.0) returned, or how that failed."""
    got = results.parse(outcome.stream, 1, 1, ("float64", "int64", "bool"))
    if outcome.stopped:
        return f"stopped: {outcome.stopped}"
    return str(got.calls[0][0].item()) if not got.broken and got.error is None else got.broken or str(got.error)


def ask(worker: Worker, *lines: str, limits: Limits = LIMITS) -> str:
    """Run a submission of these lines; its last line's value is the answer."""
    body = "\n    ".join((*lines[:-1], f"return {lines[-1]}"))
    return answer(worker.run(JOB, f"def f(x):\n    {body}\n".encode(), limits))


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def soon(true: Callable[[], bool]) -> bool:
    """Whether it becomes true within some seconds."""
    until = time.monotonic() + 10
    while not true() and time.monotonic() < until:
        time.sleep(0.01)
    return true()


# The layers, one by one.


@pytest.mark.parametrize("attempt", probes.ATTEMPTS)
def test_every_attempt_succeeds_where_no_layer_is(attempt: str, prober: layers.Prober) -> None:
    if RESTRICTED and attempt.endswith("_memory"):
        pytest.skip("this system keeps processes from one another's memory without any layer")
    assert prober.succeed((attempt,), (), os.getuid()) == (attempt,)


@pytest.mark.parametrize("layer", probes.ALONE)
def test_every_layer_stops_alone_what_it_is_there_for(layer: str, prober: layers.Prober) -> None:
    if layer == "own uid" and not ROOT:
        pytest.skip("only root can give a submission a user of its own")
    if prober.succeed((), (layer,), 65_534) is None:
        pytest.skip(f"this system has no {layer}")
    assert prober.succeed(probes.ALONE[layer], (layer,), 65_534) == ()


def test_a_layer_stops_only_what_it_is_there_for(prober: layers.Prober) -> None:
    assert prober.succeed(("read_open", "fork"), ("rlimits",), os.getuid()) == (("read_open", "fork") if ROOT else ("read_open",))
    assert prober.succeed(("read_open", "grow_file"), ("seccomp",), os.getuid()) == ("read_open", "grow_file")
    assert prober.succeed(("fork", "connect"), ("Landlock",), os.getuid()) == ("fork", "connect")


def test_a_layer_that_cannot_be_had_runs_nothing(bare: Worker, tmp_path: Path) -> None:
    assert bare._server is not None
    box = sandbox.Box(("own uid",), -5, 1, Limits().memory)
    outcome = bare._run("function", box, JOB.to_json(), f"open({str(tmp_path / 'ran')!r}, 'w')".encode(), Limits())
    assert (outcome.stopped, outcome.stream) == ("not started", b"")
    assert not (tmp_path / "ran").exists()


def test_the_layers_are_named(bare: Worker, worker: Worker) -> None:
    isolation = {"Landlock", "namespaces"} & set(worker.protections)
    assert len(isolation) == 1
    assert set(worker.protections) == {"rlimits", "seccomp", "subreaper"} | isolation | ({"own uid"} if ROOT else set())
    assert bare.protections == ()


WITHOUT = {
    "rlimits": (("import mmap", "mmap.mmap(-1, 1 << 31).close()", "x"), "2.0"),
    "seccomp": (("import os", "os.kill(os.getpid(), 0)", "x"), "2.0"),
    "own uid": (("import os", "os.getuid()"), "0"),
}


@pytest.mark.parametrize("layer", WITHOUT)
def test_without_a_layer_its_attack_succeeds(layer: str, worker: Worker) -> None:
    if layer == "own uid" and not ROOT:
        pytest.skip("only root can give a submission a user of its own")
    lines, succeeded = WITHOUT[layer]
    with Worker(unprotected=True, without={layer}) as open_worker:
        assert layer not in open_worker.protections
        assert ask(open_worker, *lines) == succeeded
    assert ask(worker, *lines) != succeeded


# Files.


def test_without_isolation_of_files_the_answer_is_read(bare: Worker, worker: Worker) -> None:
    stolen = ("import sys", f"sys.path[:0] = {sys.path!r}", "import iosim.course.grading.worker as w", "w.Limits().cpu")
    assert ask(bare, *stolen) == "2"
    assert "ModuleNotFoundError" in ask(worker, *stolen)


def test_grading_is_refused_where_files_are_not_apart() -> None:
    with pytest.raises(BadInput, match=r"neither Landlock .* nor a mount namespace") as refused, Worker(without={"Landlock", "namespaces"}):
        pytest.fail("it should not start")
    assert "\n" not in str(refused.value)
    assert "--unprotected" in str(refused.value)


@pytest.mark.skipif(not ROOT, reason="only root can give a submission a user of its own")
def test_grading_as_root_is_refused_where_the_uid_stays() -> None:
    with pytest.raises(BadInput, match="as root needs another uid") as refused, Worker(without={"own uid"}):
        pytest.fail("it should not start")
    assert "\n" not in str(refused.value)


def test_a_namespace_stands_in_for_landlock() -> None:
    with Worker(unprotected=True, without={"Landlock"}) as worker:
        if "namespaces" not in worker.protections:
            pytest.skip("this system gives no mount namespace to this user")
        assert ask(worker, "import os", "len(os.listdir('/') + os.listdir('/..') + os.listdir('.') + os.listdir('..'))") == "0"
        assert "OSError" in ask(worker, "import os", "os.mkdir('/mine')", "x")
        assert "PermissionError" in ask(worker, "import os", "os.chroot('/')", "x")
        assert ask(worker, "import statistics, heapq, numpy.linalg", "2 * x") == "4.0"


def test_what_is_installed_beside_the_standard_library_is_not_read(tmp_path: Path) -> None:
    for name in ("library/own.py", "library/folder/own.py", "library/site-packages/theirs.py", "package/p.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("read")
    (tmp_path / "library/link.py").symlink_to(tmp_path / "library/site-packages/theirs.py")
    code = (
        "import sys; from pathlib import Path; from iosim.course.grading import landlock\n"
        "root = Path(sys.argv[1]); found = sorted(root.rglob('*.py'))\n"
        "landlock.restrict(landlock.ruleset(str(root / 'library'), str(root / 'package')))\n"
        "for path in found:\n"
        "    try: print(path.relative_to(root), path.read_text())\n"
        "    except PermissionError: pass\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    if "landlock_create" in done.stderr or "OSError" in done.stderr:
        pytest.skip("this system has no Landlock")
    assert done.stdout.splitlines() == ["library/folder/own.py read", "library/own.py read", "package/p.py read"], done.stderr


# Nothing is remembered, nothing is left.


def memory(pid: int) -> bytes:
    """All memory of a process that can be read."""
    parts = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as file:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            start, stop = (int(end, 16) for end in line.split()[0].split("-"))
            if line.split()[1].startswith("rw"):
                file.seek(start)
                parts.append(file.read(stop - start))
    return b"".join(parts)


@pytest.mark.skipif(RESTRICTED, reason="this system keeps processes from one another's memory")
def test_the_server_never_sees_a_submission_or_its_arguments() -> None:
    with Worker() as worker:
        assert worker._server is not None
        job = function_job("f", [(np.frombuffer(b"an argument that is drawn", np.uint8),)])
        assert worker.run(job, b"def f(x): return len('written by a student')").stopped == ""
        held = memory(worker._server.process.pid)
    assert b"The grader's word; nothing where there is no grader any more." in held
    for text in (b"written by a student", b"an argument that is drawn", b"an argument that is drawn".hex().encode()):
        assert text not in held


def test_a_child_has_four_descriptors(worker: Worker) -> None:
    lines = (
        "import os",
        "def there(n):",
        "    try: return bool(os.fstat(n))",
        "    except OSError: return False",
        "sum(1 << n for n in range(300) if there(n))",
    )
    assert ask(worker, *lines) == str(0b1111)


ORPHANS = """
import os, time
def f(x):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        for _ in range(COUNT):
            if os.fork() == 0:
                os.setsid()
                os.write(writer, b"%d " % os.getpid())
                os.closerange(0, 100)
                time.sleep(20)
                os._exit(0)
        os._exit(0)
    told = b""
    while told.count(b" ") < COUNT: told += os.read(reader, 60_000)
    print(told.decode())
    return x
"""


def orphans(worker: Worker, count: int) -> list[int]:
    """Have a submission leave so many processes behind; their numbers."""
    source = ORPHANS.replace("COUNT", str(count)).encode()
    outcome = worker.run(JOB, source)
    assert answer(outcome) == "2.0", outcome
    return [int(pid) for pid in outcome.said.split()]


def test_every_orphan_is_ended() -> None:
    loose = {"seccomp", "rlimits"}
    with Worker(unprotected=True, without=loose) as worker:
        left = orphans(worker, 100)
        assert len(left) == 100
        assert not any(map(alive, left))


def test_without_the_subreaper_an_orphan_survives(bare: Worker) -> None:
    left = orphans(bare, 1)
    assert list(map(alive, left)) == [True]
    os.kill(left[0], signal.SIGKILL)


def test_what_kills_its_server_is_named_and_the_next_is_served(bare: Worker) -> None:
    assert ask(bare, "import os", "os.kill(os.getppid(), 9)", "x") == "stopped: lost"
    assert ask(bare, "2 * x") == "4.0"


def test_an_interrupted_run_leaves_nothing_and_the_next_is_served(bare: Worker) -> None:
    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    assert bare._server is not None
    server = bare._server.process.pid
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask(bare, "import time", "time.sleep(60)")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not alive(server)
    assert ask(bare, "2 * x") == "4.0"


GRADER = r"""
import os, sys
from iosim.course.grading.job import function_job
from iosim.course.grading.worker import Limits, Worker
with Worker() as worker:
    print(worker._server.process.pid, flush=True)
    worker.run(function_job("f", [(1.0,)]), b"import time\ndef f(x): time.sleep(60)", Limits(wall=60))
"""


@contextlib.contextmanager
def grader() -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    """A grader in the middle of a submission that sleeps: its process, its server, its child."""
    with subprocess.Popen([sys.executable, "-c", GRADER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            server = int(process.stdout.readline())
            assert soon(lambda: bool(children(server)))
            yield process, server, children(server)[0]
        finally:
            process.kill()


def test_a_grader_that_is_killed_leaves_nothing() -> None:
    with grader() as (process, server, child):
        assert alive(server)
        assert alive(child)
        process.kill()
        process.wait()
        assert soon(lambda: not alive(server) and not alive(child))


def test_a_server_that_is_killed_takes_its_child_with_it() -> None:
    with grader() as (process, server, child):
        assert alive(child)
        os.kill(server, signal.SIGKILL)
        assert process.wait(10) == 0
        assert soon(lambda: not alive(child))


def children(parent: int) -> list[int]:
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat") if path.exists()]
    return [int(stat.split()[0]) for stat in stats if int(stat.rpartition(")")[2].split()[1]) == parent]


def test_a_worker_that_is_left_has_no_process() -> None:
    with Worker() as worker:
        assert worker._server is not None
        process = worker._server.process
        assert alive(process.pid)
    assert process.poll() is not None
    assert not Path(f"/proc/{process.pid}").exists()


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fork_server, "__file__", str(tmp_path / "nothing here.py"))
    with pytest.raises(BadInput, match=r"fork server .* did not start .*nothing here\.py") as refused, Worker():
        pytest.fail("it should not start")
    assert "\n" not in str(refused.value)


# What a submission may.


def test_all_of_the_library_that_can_be_read_can_be_imported(worker: Worker) -> None:
    assert ask(worker, "import heapq, statistics, fractions, numpy.linalg, numpy.ma, dataclasses, typing", "x * 2") == "4.0"
    assert ask(worker, "import numpy as np", "float((np.ones((100, 100)) @ np.ones((100, 100))).sum())") == "1000000.0"
    assert ask(worker, "import numpy as np", "np.random.default_rng(1).integers(1, 2)") == "1"


def test_what_is_printed_comes_back(worker: Worker) -> None:
    outcome = worker.run(JOB, b"import sys\ndef f(x):\n print('out')\n print('err', file=sys.stderr)\n return x")
    assert sorted(outcome.said.split()) == [b"err", b"out"]


def test_two_workers_children_are_strangers(worker: Worker) -> None:
    with Worker() as other:
        uids = {ask(one, "import os", "os.getuid()") for one in (worker, other)}
    assert len(uids) == (2 if ROOT else 1)


def test_a_long_source_and_a_long_wait_are_limited(worker: Worker) -> None:
    assert worker.run(JOB, b"#" * 11, Limits(source=10)).stopped == "too long a source"
    start = time.monotonic()
    assert ask(worker, "import time", "time.sleep(60)", limits=Limits(wall=0.2)) == "stopped: time"
    assert time.monotonic() - start < 2


# The filter's table.


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_has_every_denied_call_once(machine: str) -> None:
    numbers = list(seccomp.denied(machine).values())
    assert len(set(numbers)) == len(numbers) > 100
    assert all(number < 463 for number in numbers)
    assert len(seccomp.program(machine)) // 8 == 2 * len(numbers) + 4 + 2 + 2 + 1 + 2 * 6 + 1


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_system_headers(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"needs {header}")
    defined = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())}
    ours = seccomp.denied(machine)
    assert {name: number for name, number in ours.items() if name in defined} == {name: defined[name] for name in ours if name in defined}
    assert len(ours.keys() & defined) > 100


def test_other_machines_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(OSError, match="no sandbox for Linux on riscv64"):
        libc.machine()
