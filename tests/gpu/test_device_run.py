"""The one script for a GPU machine, tried without one: its parts, their processes, its verdicts; stand-ins for what needs a GPU."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iosim.core.errors import BadInput
from iosim_gpu import device_run
from iosim_gpu.bench import Timing
from iosim_gpu.calls import prepared
from iosim_gpu.case import Case
from iosim_gpu.device_run import Outcome, Part
from iosim_gpu.meters import nsight
from iosim_gpu.moved import Measured, Moved

CASE = Case("flash2", 13, 4, 8, 8, 6, nk=9)


def part(name: str, do: Callable[[], Outcome], *, exact: bool = True, seconds: int = 60) -> Part:
    return Part(name, f"what {name} is", seconds, exact, do)


def good() -> Outcome:
    return Outcome(True, "all is well", {"rows": [1, 2]})


def wrong() -> Outcome:
    return Outcome(False, "K is read 3 times")


def broken() -> Outcome:
    raise RuntimeError("cudaErrorIllegalAddress:\n an illegal memory access")


def run(tmp_path: Path, *parts: Part, absent: str = "") -> tuple[int, Any]:
    """The program with these parts, all in this process; its status, and its file, None where it wrote none."""
    out = tmp_path / "report.json"
    status = device_run.main(["--out", str(out)], parts=parts, absent=lambda: absent, attempt=device_run.done)
    assert os.listdir(tmp_path) == (["report.json"] if out.exists() else [])
    return status, json.loads(out.read_text()) if out.exists() else None


def test_every_part_is_in_the_file_with_its_verdict_line_findings_and_time(tmp_path: Path) -> None:
    status, found = run(tmp_path, part("one", good), part("two", lambda: Outcome(None, "3 ms"), exact=False))
    assert (status, found["exact"], found["format"], list(found["parts"])) == (0, True, 1, ["one", "two"])
    seconds = found["parts"]["one"].pop("seconds")
    assert seconds >= 0
    assert found["parts"]["one"] == {"exact": True, "line": "all is well", "found": {"rows": [1, 2]}}


def test_a_part_that_fails_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    status, found = run(tmp_path, part("one", broken), part("two", good))
    assert (status, found["exact"]) == (1, False)
    assert found["parts"]["one"]["line"] == "failed: RuntimeError: cudaErrorIllegalAddress: an illegal memory access"
    assert found["parts"]["two"]["exact"] is True


@pytest.mark.parametrize(
    ("do", "exact", "status"),
    [(good, True, 0), (wrong, True, 1), (wrong, False, 1), (broken, True, 1), (broken, False, 0)],
)
def test_the_status_tells_whether_what_claims_exactness_holds(do: Callable[[], Outcome], exact: bool, status: int, tmp_path: Path) -> None:
    """Exactness that is wrong fails wherever it was claimed; a part that could not be done, only where it is there to claim it."""
    assert run(tmp_path, part("one", do, exact=exact))[0] == status


def test_without_a_gpu_it_says_one_line_writes_nothing_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, part("one", lambda: pytest.fail("ran")), absent="no CUDA driver: libcuda not found") == (2, None)
    assert capsys.readouterr().err == "iosim_gpu.device_run: no CUDA driver: libcuda not found\n"


def test_what_is_not_a_number_is_written_as_text(tmp_path: Path) -> None:
    _, found = run(tmp_path, part("one", lambda: Outcome(False, "NaN", [{"max_error": float("inf")}, (float("nan"), 1.5)])))
    assert found["parts"]["one"]["found"] == [{"max_error": "inf"}, ["nan", 1.5]]


def no_space(*paths: object) -> None:
    raise OSError("no space")


def test_a_file_that_was_there_stays_whole_when_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "report.json"
    out.write_text("before")
    with pytest.raises(TypeError):
        run(tmp_path, part("one", lambda: Outcome(True, "", object())))
    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="no space"):
        run(tmp_path, part("one", good))
    assert (os.listdir(tmp_path), out.read_text()) == (["report.json"], "before")


@pytest.mark.parametrize("arguments", [[], ["--part", "one"], ["--out", "no/such/folder/x.json"], ["--out", "."]])
def test_a_file_that_cannot_be_written_is_refused_before_anything_runs(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        device_run.main(arguments, parts=[part("one", lambda: pytest.fail("ran"))], absent=lambda: "")
    assert left.value.code == 2
    assert "--out" in capsys.readouterr().err


def test_one_part_can_be_asked_for(tmp_path: Path) -> None:
    out = tmp_path / "x.json"
    parts = [part("one", lambda: pytest.fail("ran")), part("two", good)]
    assert device_run.main(["--part", "two", "--out", str(out)], parts=parts, absent=lambda: "no GPU") == 0
    assert json.loads(out.read_text())["line"] == "all is well"


def test_a_plan_is_shown_and_nothing_is_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert device_run.main(["--plan"], absent=lambda: pytest.fail("asked")) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said[:-1]] == ["versions", "tests", "counters", "timings", "nsight"]
    assert said[-1] == "together at most 180 s"


def child(code: str) -> list[str]:
    """A process that does ``code``, in which ``out`` is where its part is to be written."""
    return [sys.executable, "-c", f"import os, sys, time, json; out = sys.argv[1]\n{code}"]


def test_a_part_in_a_process_of_its_own_tells_what_it_found() -> None:
    code = 'open(out, "w").write(json.dumps({"exact": False, "line": "K", "found": 3})); sys.exit(1)'
    assert device_run.apart(part("one", good), child(code)) == {"exact": False, "line": "K", "found": 3}


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("os.kill(os.getpid(), 11)", f"failed: ended by signal {signal.SIGSEGV.value}"),
        ("print('libcuda: boom', file=sys.stderr); sys.exit(3)", "failed: libcuda: boom (ended with status 3)"),
        ("open(out, 'w').write('{\"exact\": tr')", "failed: ended with status 0"),
    ],
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_process_that_dies_is_a_part_that_failed(code: str, line: str, exact: bool) -> None:
    found = device_run.apart(part("one", good, exact=exact), child(code))
    assert found == {"exact": False if exact else None, "line": line, "found": None}


def test_a_part_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """As a kernel would in which one thread does not reach a barrier."""
    pid = tmp_path / "pid"
    inner = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(100)"
    code = f"import subprocess; subprocess.run([sys.executable, '-c', {inner!r}])"
    begun = time.monotonic()
    found = device_run.apart(part("one", good, seconds=4), child(code))
    assert time.monotonic() - begun < 60
    assert found["line"] == "failed: ended after 4 s without an answer"
    assert found["exact"] is False
    assert gone(int(pid.read_text()))


def gone(process: int) -> bool:
    """Whether a process has ended, given a moment; one that nobody has waited for yet has."""
    for _ in range(100):
        status = Path(f"/proc/{process}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.02)
    return False


def test_parts_find_themselves_in_their_own_process() -> None:
    """Which this machine can show: versions are told with a GPU and without."""
    found = device_run.apart(next(one for one in device_run.PARTS if one.name == "versions"))
    assert found["exact"] is None
    assert found["found"]["python"].startswith("3.")
    assert found["found"]["numba"].keys() >= {"found", "detail"}


def measured(case: Case, **off: int) -> Measured:
    """What a sound device would count, a few elements more in some arrays."""
    arrays = {name: Moved(loads=words.reads + off.get(name, 0), stores=words.writes) for name, words in case.predicted().items()}
    return Measured("counters on the device", arrays)


def test_counters_are_exact_when_every_case_is() -> None:
    outcome = device_run.counters([CASE], measured)
    assert (outcome.exact, len(outcome.found["rows"]), outcome.found["failures"]) == (True, 5, [])


def test_counters_name_the_first_array_that_is_not_the_models() -> None:
    outcome = device_run.counters([CASE], lambda case: measured(case, K=1))
    assert outcome.exact is False
    assert outcome.line.startswith(f"flash2 {CASE.name}: K is read ")


def test_values_that_are_wrong_are_no_success_either() -> None:
    outcome = device_run.counters([CASE], lambda case: replace(measured(case), outputs=dict(prepared(case))))
    assert outcome.exact is False
    assert "float64 oracle" in outcome.line


def test_a_case_that_fails_is_told_and_the_others_are_measured() -> None:
    other = replace(CASE, n=5)

    def device(case: Case) -> Measured:
        if case is CASE:
            raise BadInput("too many registers")
        return measured(case)

    outcome = device_run.counters([CASE, other], device)
    assert outcome.exact is False
    assert outcome.line == f"flash2 {CASE.name}: too many registers"
    assert {row["case"] for row in outcome.found["rows"]} == {other.name}


@pytest.fixture
def _no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_run, "_emulated", lambda case: None)


def launched(case: Case, off: int = 0) -> list[nsight.Launch]:
    """What Nsight Compute would report of a sound device, ``off`` bytes more or less."""
    words = case.predicted().values()
    read, written = 4 * sum(one.reads for one in words) + off, 4 * sum(one.writes for one in words)
    counted = {nsight.REQUESTED.format("ld"): read, nsight.REQUESTED.format("st"): written}
    return [nsight.Launch("flash2", dict.fromkeys(nsight.METRICS, 0) | counted)]


@pytest.mark.usefixtures("_no_emulator")
def test_profiles_are_exact_where_the_requested_bytes_are() -> None:
    outcome = device_run.profiles([CASE], launched)
    assert (outcome.exact, outcome.line) == (True, "2 of 7 quantities are claimed to be exact, and are")
    assert device_run.profiles([CASE], lambda case: launched(case, off=4)).exact is False


@pytest.mark.usefixtures("_no_emulator")
def test_profiles_that_may_not_be_made_claim_nothing() -> None:
    def refused(case: Case) -> list[nsight.Launch]:
        raise BadInput("ncu may not read the GPU's counters")

    outcome = device_run.profiles([CASE], refused)
    assert (outcome.exact, outcome.line) == (None, f"flash2 {CASE.name}: ncu may not read the GPU's counters")


@pytest.mark.parametrize(("error", "exact"), [(1e-7, None), (1e-5, False), (float("nan"), False)])
def test_times_claim_nothing_but_what_is_timed_must_be_right(error: float, exact: bool | None) -> None:
    timing = Timing("iosim", "flash2", CASE.name, 2e-3, 1e-3, 20, 4096, max_error=error, bound=1e-6)
    outcome = device_run.timings(lambda: [timing])
    assert outcome.exact is exact
    assert outcome.record()["found"][0]["bytes_per_second"] == 4096 / 2e-3
    assert outcome.line.startswith(f"iosim flash2 {CASE.name}")


def test_tests_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(device_run, "TESTS", tmp_path / "none")
    outcome = device_run.tests()
    assert outcome.exact is None
    assert outcome.line.startswith("no ")


def pytest_without_a_gpu(**variables: str) -> tuple[int, str]:
    """Some of the tests that need a GPU, in a process that sees none."""
    place = str(Path(__file__).with_name("test_on_device.py"))
    asked = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-m", "needs_device", place]
    environment = {name: value for name, value in os.environ.items() if name != "IOSIM_REQUIRE_GPU"}
    hidden = {**environment, "CUDA_VISIBLE_DEVICES": "", **variables}
    done = subprocess.run([*asked, "-k", "grid"], capture_output=True, text=True, check=False, env=hidden)
    return done.returncode, done.stdout


def test_tests_that_need_a_gpu_are_skipped_and_say_why() -> None:
    status, said = pytest_without_a_gpu()
    assert status == 0
    assert re.search(r"SKIPPED \[\d+\] .*(a GPU|numba)", said)


def test_where_a_gpu_must_be_they_fail_and_say_why() -> None:
    status, said = pytest_without_a_gpu(IOSIM_REQUIRE_GPU="1")
    assert status == 1
    assert re.search(r"IOSIM_REQUIRE_GPU is set, but .*(a GPU|numba)", said)
    assert "SKIPPED" not in said
