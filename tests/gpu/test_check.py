"""The verdict on a measurement: equal to the element, or a line that names the array; and the processes that measure."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim_gpu import children, defaults, judge, worker
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.check import JUDGED, Row, compare, error_of, only_updated
from iosim_gpu.children import Child, WorkerDied, batches, measure
from iosim_gpu.meters import simulator
from iosim_gpu.moved import Array, Measured, Moved
from iosim_gpu.wire import Job, job_from_json, job_to_json, measured_from_json, measured_to_json
from tests.gpu.edits import edited, swapped

CASE = Case("flash2", 9, 4, 4, 3, 8, nk=7, heads=2, causal=True)
BACKWARD = Case("flash2-backward", 9, 4, 4, 3, 8)
FLASH = Case("flash", 9, 4, 4, 3, 8, nk=7, causal=True)
CASES = defaults.cases()


def right(case: Case) -> Measured:
    """What a meter without fault measures of a kernel without fault."""
    arrays = {name: moved_as(case, name) for name in case.predicted()}
    outputs: dict[str, Any] = {name: value.astype(np.float32) for name, value in judge.truth(case, judge.inputs(case))[0].items()}
    if "l" in arrays:
        lse = outputs.pop("LSE")
        outputs |= {"m": np.where(np.isneginf(lse), 0, lse), "l": np.where(np.isneginf(lse), 0, 1).astype(np.float32)}
    return Measured("counters", arrays, outputs)


def moved_as(case: Case, name: str) -> Moved:
    """What is predicted of an array, by loads and stores or, where it is updated, by atomics."""
    words = case.predicted()[name]
    if name in only_updated(case):
        return Moved(stores=words.writes - words.reads, atomics=words.reads)
    return Moved(words.reads, words.writes)


def failures(case: Case, measured: Measured) -> list[str]:
    return [row.failure for row in compare(case, measured) if row.failure is not None]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel} {case.name}")
def test_what_is_right_is_equal_and_judged(case: Case) -> None:
    rows = compare(case, right(case))
    assert [row.failure for row in rows if not row.sound] == []
    assert {row.array for row in rows} == case.predicted().keys()
    judged = {row.array for row in rows if row.max_error is not None}
    assert judged == {name for name, words in case.predicted().items() if words.writes and name in JUDGED}
    assert judged >= ({"dQ", "dK", "dV"} if "dO" in case.declared.reads else {"O"})
    assert all(row.max_error is not None and row.bound is not None and row.max_error < row.bound for row in rows if row.array in judged)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kernel} {case.name}")
def test_bounds_leave_no_room_for_a_wrong_kernel(case: Case) -> None:
    """Outputs are of order one, and a key more or fewer changes them by tenths; float32 keeps four digits of them."""
    right, bounds = judge.truth(case, judge.inputs(case))
    assert bounds.keys() == right.keys()
    assert all(0 < bound < 1e-3 for bound in bounds.values())
    assert all(np.abs(values[np.isfinite(values)]).max() > 0.5 for values in right.values())


@pytest.mark.parametrize("case", [CASE, BACKWARD, replace(BACKWARD, heads=2, batch=2)], ids=lambda case: f"{case.kernel} {case.name}")
def test_inputs_tell_arrays_heads_and_rows_apart(case: Case) -> None:
    """A kernel that reads another row of the same array, of another head or of another array moves as many words: values tell."""
    drawn = judge.inputs(case)
    rows = np.concatenate([array.reshape(-1, case.d) for name, array in drawn.items() if name != "LSE"])
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert all(np.array_equal(array, judge.inputs(case)[name]) for name, array in drawn.items())
    assert not np.array_equal(drawn["Q"], judge.inputs(replace(case, seed=1))["Q"])


@given(st.sampled_from(CASES), st.data())
def test_one_element_more_or_less_is_seen(case: Case, data: st.DataObject) -> None:
    found = right(case)
    name = data.draw(st.sampled_from(sorted(found.arrays)))
    kind, by = data.draw(st.sampled_from(["loads", "stores", "atomics"])), data.draw(st.sampled_from([-1, 1]))
    was = found.arrays[name]
    wrong = replace(found, arrays={**found.arrays, name: replace(was, **{kind: getattr(was, kind) + by})})
    (line,) = failures(case, wrong)
    assert line.startswith(f"{case.kernel} {case.name}: {name} is ")
    assert "by the counters" in line


def test_an_array_that_one_side_does_not_see_is_an_inequality() -> None:
    found = right(CASE)
    without = {name: moved for name, moved in found.arrays.items() if name != "K"}
    (line,) = failures(CASE, replace(found, arrays=without))
    assert line == "flash2 1x2 9x7 d4 4x3 T8 causal: K is read 0 times by the counters, and 128 times are predicted"
    (line,) = failures(CASE, replace(found, arrays={**found.arrays, "mask": Moved(loads=3)}))
    assert "mask is read 3 times by the counters, and 0 times are predicted" in line
    assert failures(CASE, replace(found, arrays={**found.arrays, "mask": Moved()})) == []


def test_an_atomic_update_reads_and_writes() -> None:
    found = right(BACKWARD)
    words = BACKWARD.predicted()["dQ"]
    atomic = Moved(stores=words.writes - words.reads, atomics=words.reads)
    assert failures(BACKWARD, replace(found, arrays={**found.arrays, "dQ": atomic})) == []


def test_an_update_that_should_be_atomic_and_is_none_is_seen_by_its_loads() -> None:
    """Reads and writes are those predicted; only the kind of access tells."""
    found = right(BACKWARD)
    words = BACKWARD.predicted()["dQ"]
    plain = replace(found, arrays={**found.arrays, "dQ": Moved(words.reads, words.writes)})
    (line,) = failures(BACKWARD, plain)
    where = f"flash2-backward {BACKWARD.name}: dQ is read by plain loads"
    assert line == f"{where} {words.reads:,} times by the counters, where atomic updates are declared"
    (row,) = [row for row in compare(BACKWARD, plain) if row.array == "dQ"]
    assert (row.equal, row.plain_loads, row.measured_reads) == (False, words.reads, row.predicted_reads)
    assert {row.plain_loads for row in compare(BACKWARD, found)} == {0}


PLAIN_DQ = "cuda.atomic.add(dQ, (head, i0 + r, x), scale * acc)", "dQ[head, i0 + r, x] = dQ[head, i0 + r, x] + scale * acc"


@pytest.mark.needs_simulator
def test_a_kernel_that_adds_without_atomics_is_refused() -> None:
    steps = BACKWARD.steps
    mutant = swapped(steps, edited(steps[2], PLAIN_DQ))
    lines = failures(BACKWARD, simulator.measure(BACKWARD, mutant))
    assert any("dQ is read by plain loads 108 times by the simulator" in line for line in lines)
    assert failures(BACKWARD, simulator.measure(BACKWARD)) == []


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 0.5])
@pytest.mark.parametrize("name", ["dQ", "dK", "dV"])
def test_one_wrong_value_is_seen(name: str, wrong: float) -> None:
    found = right(BACKWARD)
    values = np.array(found.outputs[name])
    values[0, -1, -1] += wrong
    (line,) = failures(BACKWARD, replace(found, outputs={**found.outputs, name: values}))
    assert f"{name} is " in line
    assert "above the bound" in line


def test_l_and_m_are_judged_as_their_log_sum_exp() -> None:
    found = right(FLASH)
    for name in ("l", "m"):
        values = np.asarray(found.outputs[name], np.float32) + np.float32(0.01)
        assert len(failures(FLASH, replace(found, outputs={**found.outputs, name: values}))) == 2
    m, l = (np.asarray(found.outputs[name], np.float32) for name in "ml")
    shifted: dict[str, Array] = {"m": m + 1, "l": l / np.float32(np.e)}
    assert failures(FLASH, replace(found, outputs={**found.outputs, **shifted})) == []


def test_an_output_that_is_missing_is_wrong_unless_none_is_given() -> None:
    found = right(FLASH)
    assert "l is inf from" in failures(FLASH, replace(found, outputs={"O": found.outputs["O"], "m": found.outputs["m"]}))[0]
    assert "O is inf from" in failures(FLASH, replace(found, outputs={"l": found.outputs["l"], "m": found.outputs["m"]}))[0]
    assert {row.within for row in compare(FLASH, replace(found, outputs={}))} == {None}


def test_errors_are_the_largest_and_never_swallow_what_is_no_number() -> None:
    one = np.array([1.0, -np.inf])
    assert error_of(one, one) == 0.0
    assert error_of(np.array([1.5, -np.inf]), one) == 0.5
    assert error_of(np.array([1.0, np.inf]), one) == math.inf
    assert error_of(np.array([1.0, 0.0]), one) == math.inf
    assert error_of(np.array([1.0]), np.array([1.0, 1.0])) == math.inf
    assert error_of(None, one) == math.inf
    assert error_of(np.zeros(0), np.zeros(0)) == 0.0


def test_nan_is_not_within_a_bound() -> None:
    row = Row("flash2", "case", "simulator", "O", 1, 1, 1, 1, math.nan, 1.0)
    assert row.within is False
    assert row.failure is not None


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: f"{case.kernel} {case.name}")
def test_jobs_and_measurements_survive_the_wire(case: Case) -> None:
    job = job_from_json(json.loads(json.dumps(job_to_json(Job("emulator", case, "sm_80")))))
    assert (job.meter, job.arch, job.case.name, job.case.kernel, job.case.mask) == ("emulator", "sm_80", case.name, case.kernel, case.mask)
    assert job.case.predicted() == case.predicted()
    for name, drawn in judge.inputs(job.case).items():
        np.testing.assert_array_equal(drawn, judge.inputs(case)[name])
    found = right(case)
    found.arrays["O"] = Moved(1, 2, 3, 4, 5)
    again = measured_from_json(json.loads(json.dumps(measured_to_json(found, found.outputs))))
    assert (again.meter, again.arrays) == (found.meter, found.arrays)
    assert again.outputs.keys() == found.outputs.keys()
    for name, values in found.outputs.items():
        np.testing.assert_array_equal(again.outputs[name], values)


def test_the_default_cases_cover_what_they_say() -> None:
    assert {case.kernel for case in CASES} == set(KERNELS)
    for kernel in KERNELS:
        mine = [case for case in CASES if case.kernel == kernel]
        assert {case.causal for case in mine} == {True, False}
        assert any(case.n > case.nk and case.causal for case in mine)
        assert any(case.n < case.nk and case.causal for case in mine)
        assert any(case.instances > 1 for case in mine)
        assert any(case.n % case.rows and case.nk % case.cols for case in mine)
        assert any(case.threads % case.d and case.d % case.threads for case in mine)
        assert any((case.n, case.d, case.threads) == (64, defaults.D, defaults.THREADS) for case in mine)
        assert any((case.rows, case.cols) == KERNELS[kernel].tiles for case in mine)
        assert {tuple(case.options.values()) for case in mine} == {tuple(one.values()) for one in KERNELS[kernel].variants}
    masks = [case.mask.dense() for case in CASES if case.mask is not None and case.rows == defaults.SMALL["rows"]]
    assert len(masks) == len(defaults.SHAPES)
    assert all(keep.any() and not keep.any(axis=1).all() and not keep.any(axis=0).all() for keep in masks)


JOBS = [Job(meter, case) for case in (CASE, FLASH, BACKWARD) for meter in worker.DEFAULT]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 5, 20])
def test_every_job_is_in_one_batch_of_its_kind(processes: int) -> None:
    found = batches(JOBS, processes)
    assert sorted(JOBS.index(job) for child in found for job in child.jobs) == list(range(len(JOBS)))
    assert all((job.meter in children.SIMULATED) == child.simulated for child in found for job in child.jobs)
    assert len(found) <= 2 * processes
    assert all(child.jobs for child in found)


def acting(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let children run ``script``, which has ``jobs``, instead of the worker."""
    head = "import json, sys, os\njobs = json.load(sys.stdin)\n"

    def start(simulated: bool, said: IO[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", head + script]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)

    monkeypatch.setattr(children, "start", start)


MEASURE = (
    "print(json.dumps({'measured': {'meter': jobs[0]['meter'], 'arrays': {'Q': [1, 0, 0, None, None]}, 'outputs': {}}}), flush=True)\n"
)
DEATHS: dict[str, str] = {
    MEASURE + "sys.exit('first\\nlast words')": "simulator ended with status 1: last words",
    MEASURE + "os.kill(os.getpid(), 9)": "simulator was ended by signal 9: it said nothing",
    MEASURE: "simulator ended with status 0: it said nothing",
    "raise ValueError('boom')": "simulator ended with status 1: ValueError: boom",
}


@pytest.mark.parametrize("script", DEATHS, ids=range(len(DEATHS)))
def test_a_child_that_dies_is_told_in_one_line(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    acting(script, monkeypatch)
    jobs = [Job("simulator", CASE), Job("simulator", FLASH)]
    with pytest.raises(WorkerDied) as found:
        list(measure(jobs))
    left = jobs[0] if script.startswith("raise") else jobs[1]
    assert str(found.value) == f"the process that measured {left.name.removesuffix('simulator')}{DEATHS[script]}"


def test_what_a_child_refuses_is_told_with_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    acting("print(json.dumps({'error': 'too large', 'missing': False}))", monkeypatch)
    with pytest.raises(BadInput, match=r"^flash2 1x2 9x7 d4 4x3 T8 causal, emulator: too large$"):
        list(measure([Job("emulator", CASE)]))
    acting("print(json.dumps({'error': 'no numba', 'missing': True}))", monkeypatch)
    with pytest.raises(BadInput, match=r"^no numba$"):
        list(measure([Job("emulator", CASE)]))


def test_the_others_are_ended_with_the_first_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    acting("import time\nif jobs[0]['meter'] == 'simulator': time.sleep(60)\nsys.exit('gone')", monkeypatch)
    with pytest.raises(WorkerDied, match="gone"):
        list(measure([Job("simulator", CASE), Job("emulator", CASE)]))


def test_children_are_ended_when_nobody_listens_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Child] = []
    real = children.batches

    def remembered(*asked: Any) -> list[Child]:
        started.extend(real(*asked))
        return started

    monkeypatch.setattr(children, "batches", remembered)
    acting(MEASURE + "import time\ntime.sleep(60)", monkeypatch)
    found = measure([Job("simulator", CASE), Job("simulator", FLASH)])
    next(found)
    found.close()  # type: ignore[attr-defined]
    assert started[0].process is not None
    assert started[0].process.returncode == -9


@pytest.mark.parametrize("simulated", [True, False])
def test_the_variable_is_set_or_removed_before_python_starts(simulated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def popen(command: list[str], **options: Any) -> None:
        asked.update(options, command=command)

    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0" if simulated else "1")
    monkeypatch.setattr(subprocess, "Popen", popen)
    children.start(simulated, io.StringIO())
    assert asked["env"].get("NUMBA_ENABLE_CUDASIM") == ("1" if simulated else None)
    assert asked["command"][1:] == ["-P", "-m", "iosim_gpu.worker"]


def working(jobs: list[Job], meters: dict[str, Callable[[Job], Measured]], monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[Any]]:
    """The worker's exit status and answers, with these meters and everything installed."""
    monkeypatch.setattr(worker, "METERS", meters)
    monkeypatch.setattr(worker, "needs", lambda _: None)
    told = io.StringIO()
    status = worker.work(io.StringIO(json.dumps([job_to_json(job) for job in jobs])), told)
    return status, [json.loads(line) for line in told.getvalue().splitlines()]


def test_the_worker_answers_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [Job("counters", CASE), Job("counters", FLASH)]
    status, told = working(jobs, {"counters": lambda job: right(job.case)}, monkeypatch)
    assert (status, len(told)) == (0, 2)
    assert measured_from_json(told[1]["measured"]).arrays == right(FLASH).arrays
    assert set(told[1]["measured"]["outputs"]) == {"O", "l", "m"}


def test_the_worker_ends_with_what_it_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(job: Job) -> Measured:
        raise BadInput("too large")

    status, told = working([Job("counters", CASE)] * 2, {"counters": refuse}, monkeypatch)
    assert (status, told) == (2, [{"error": "too large", "missing": False}])


def test_the_worker_says_first_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(what: str) -> None:
        raise BadInput(f"to {what} needs numba")

    monkeypatch.setattr(worker, "needs", lacking)
    assert list(worker.answers([Job("emulator", CASE)] * 2)) == [{"error": "to compile needs numba", "missing": True}]
