"""``iosim gpu``: one line where CUDA is absent or broken, a verdict that can fail, and no CUDA package in any other command."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iosim import predict
from iosim.cli import main
from iosim.cli.commands.gpu import command
from iosim.cli.gpu_cases import model_differs
from iosim.cli.gpu_table import Checked
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim_gpu import children, defaults, environment, judge
from iosim_gpu.calls import Call as Launch
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS, OPTIONS
from iosim_gpu.check import Row, only_updated
from iosim_gpu.compiling import Usage
from iosim_gpu.moved import Measured, Moved
from iosim_gpu.tiling import Tiling
from iosim_gpu.wire import Job

Call = Callable[[str], tuple[int, str, str]]
Meter = Callable[[Job], Measured]

SMALL = "--n 9 --d 4 --blocks 4x3 --threads 8"
INSTALL = 'pip install "iosim[gpu]"'
needs_numba = pytest.mark.skipif(find_spec("numba_cuda") is None, reason=f"measures CUDA kernels: {INSTALL}")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> tuple[int, str, str]:
        status = main(line.split())
        out, err = capsys.readouterr()
        return status, out, err

    return run


def perfect(job: Job) -> Measured:
    """What a meter without fault measures of a kernel without fault; the emulator sees transactions, too."""
    case, seen = job.case, (7, 8) if job.meter == "emulator" else (None, None)
    atomics = {name: words.reads if name in only_updated(case) else 0 for name, words in case.predicted().items()}
    arrays = {
        name: Moved(words.reads - atomics[name], words.writes - atomics[name], atomics[name], *seen)
        for name, words in case.predicted().items()
    }
    outputs: dict[str, Any] = {name: value.astype(np.float32) for name, value in judge.truth(case, judge.inputs(case))[0].items()}
    if "l" in arrays:
        lse = outputs.pop("LSE")
        outputs |= {"m": np.where(np.isneginf(lse), 0, lse), "l": np.where(np.isneginf(lse), 0, 1)}
    return Measured(job.meter, arrays, outputs)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Meter], None]:
    """Let a function take the place of all meters, and of their processes."""

    def put(found: Meter) -> None:
        def measure(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Measured]]:
            yield from ((job, found(job)) for job in reversed(jobs))

        monkeypatch.setattr(environment, "installed", lambda: None)
        monkeypatch.setattr(children, "measure", measure)

    return put


def test_what_is_equal_is_told_and_passes(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    status, out, err = call("gpu check")
    assert (status, err) == (0, "")
    cases = defaults.cases()
    assert f"All {3 * len(cases)} runs ({len(cases)} cases x simulator, counters, emulator) equal the model to the element" in " ".join(
        out.split()
    )
    assert sum(" =          =         =         " in line for line in out.splitlines()) == len(cases)
    assert max(map(len, out.splitlines())) <= 100
    assert "DIFFERS" not in out


def test_a_case_of_ones_own_is_measured_with_every_kernel(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    status, out, _ = call(f"gpu check {SMALL} --nk 7 --batch 2 --heads 3 --causal --seed 5 --block-mask dense --json")
    assert status == 0
    found = json.loads(out)
    assert [case["kernel"] for case in found["cases"]] == [name for name, kernel in KERNELS.items() for _ in kernel.variants]
    for case in found["cases"]:
        asked = {"n": 9, "nk": 7, "d": 4, "batch": 2, "heads": 3, "causal": True, "block_rows": 4, "block_cols": 3, "threads": 8, "seed": 5}
        assert {name: case[name] for name in asked} == asked
    assert [case["dq_pass"] for case in found["cases"]] == [one.get("dq_pass") for kernel in KERNELS.values() for one in kernel.variants]


def test_json_has_exact_integers_and_csv_the_same_rows(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    found = json.loads(call(f"gpu check --kernel flash2 {SMALL} --json")[1])
    assert (found["arch"], found["meters"], found["equal"], found["failures"]) == ("sm_90", ["simulator", "counters", "emulator"], True, [])
    case = Case("flash2", 9, 4, 4, 3, 8)
    by_array = {row["array"]: row for row in found["rows"] if row["meter"] == "emulator"}
    assert {name: (row["predicted_reads"], row["measured_writes"]) for name, row in by_array.items()} == {
        name: (words.reads, words.writes) for name, words in case.predicted().items()
    }
    assert all(type(row[name]) is int for row in found["rows"] for name in ("measured_reads", "predicted_writes"))
    assert (by_array["Q"]["max_error"], by_array["Q"]["within"], by_array["Q"]["sectors"]) == (None, None, 7)
    assert (by_array["O"]["equal"], by_array["O"]["within"]) == (True, True)
    assert by_array["O"]["max_error"] < by_array["O"]["bound"]
    rows = list(csv.DictReader(io.StringIO(call(f"gpu check --kernel flash2 {SMALL} --csv")[1])))
    assert [row["array"] for row in rows] == [row["array"] for row in found["rows"]]
    assert list(dict.fromkeys(row["meter"] for row in rows)) == found["meters"]  # in their order, whichever is ready first
    assert rows[0].keys() == found["rows"][0].keys()


def spoilt(name: str, meter: str = "emulator", **change: int) -> Meter:
    """A meter that measures one array differently."""

    def measure(job: Job) -> Measured:
        found = perfect(job)
        if job.meter == meter and name in found.arrays:
            was = found.arrays[name]
            found.arrays[name] = replace(was, **{kind: getattr(was, kind) + by for kind, by in change.items()})
        return found

    return measure


@pytest.mark.parametrize("form", ["", "--json", "--csv", "--arrays"])
def test_one_element_too_many_exits_with_1_and_names_it(call: Call, meter: Callable[[Meter], None], form: str) -> None:
    meter(spoilt("V", loads=1))
    status, out, err = call(f"gpu check --kernel flash2 {SMALL} {form}")
    assert status == 1
    assert err == "iosim: flash2 9x9 d4 4x3 T8: V is read 109 times by the emulator, and 108 times are predicted\n"
    if form in ("", "--arrays"):
        assert "109 read, 0 written" in out
        assert "counts DIFFER in 1 of 1 case; all values within their error bounds." in " ".join(out.split())
    if form == "--json":
        assert json.loads(out)["equal"] is False
        assert json.loads(out)["failures"] == [err.removeprefix("iosim: ").rstrip()]


def test_the_first_of_many_failures_is_named_in_the_order_of_the_cases(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(spoilt("Q", "simulator", loads=-2))
    status, out, err = call(f"gpu check {SMALL}")
    assert status == 1
    assert err.startswith("iosim: standard 9x9 d4 4x3 T8: Q is read 34 times by the simulator, and 36 times are predicted")
    assert err.endswith(" predicted (and 5 more: in the tables above, and under failures in --json)\n")
    assert out.count("DIFFERS") == 6
    assert "counts DIFFER in 6 of 6 cases" in out
    assert call(f"gpu check {SMALL} --csv")[2].endswith(" (and 5 more: under failures in --json)\n")
    status, out, err = call(f"gpu check {SMALL} --json")
    assert err.endswith(" (and 5 more: under failures in the JSON)\n")
    assert len(json.loads(out)["failures"]) == 6


def test_an_error_beyond_its_bound_exits_with_1(call: Call, meter: Callable[[Meter], None]) -> None:
    def wrong(job: Job) -> Measured:
        found = perfect(job)
        found.outputs["O"] = np.asarray(found.outputs["O"], np.float32) + np.float32(1e-3)
        return found

    meter(wrong)
    status, out, err = call(f"gpu check --kernel flash2 --meter counters {SMALL}")
    assert status == 1
    assert err.startswith("iosim: flash2 9x9 d4 4x3 T8: O is 1.0e-03 from the float64 oracle's under the counters, above the bound")
    assert "ABOVE 1.0e-03" in out
    assert re.search(r" =         1\.0e-03  ABOVE \d+\.\d%\n", out)
    assert "1 of 1 case is outside its error bound; all counts equal." in " ".join(out.split())
    assert "DIFFER" not in out


def test_counts_and_values_are_judged_apart(call: Call, meter: Callable[[Meter], None]) -> None:
    def wrong(job: Job) -> Measured:
        found = spoilt("Q", loads=1)(job) if job.case.kernel == "flash" else perfect(job)
        if "dV" in found.outputs:
            found.outputs["dV"] = np.asarray(found.outputs["dV"], np.float32) + np.float32(1)
        return found

    meter(wrong)
    status, out, _ = call(f"gpu check {SMALL}")
    assert status == 1
    assert "2 of 6 cases are outside their error bounds; counts DIFFER in 1 of 6 cases." in " ".join(out.split())
    found = json.loads(call(f"gpu check {SMALL} --json")[1])
    assert [case["within"] for case in found["cases"]] == [True] * 4 + [False] * 2
    assert [case["equal"]["emulator"] for case in found["cases"]] == [True, False, True, True, True, True]


def test_additions_that_are_not_atomic_are_refused(call: Call, meter: Callable[[Meter], None]) -> None:
    def plain(job: Job) -> Measured:
        found = perfect(job)
        if job.meter != "counters" and "dQ" in found.arrays:
            was = found.arrays["dQ"]
            found.arrays["dQ"] = replace(was, loads=was.reads, stores=was.writes, atomics=0)
        return found

    meter(plain)
    status, out, err = call(f"gpu check --kernel flash2-backward {SMALL}")
    assert status == 1
    assert ": dQ is read by plain loads 108 times by the simulator, where atomic updates are declared (and 1 more" in err
    assert out.count("DIFFERS") == 2
    assert out.count("108 not atomically") == 2


def test_a_block_mask_is_shown_and_told(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    line = f"gpu check --kernel block-sparse {SMALL} --nk 12 --batch 2 --block-mask local:0"
    mask = patterns.parse("local:0", 9, 12, 4, 3)
    assert 0 < mask.nnz < 12
    assert f"\n  2x1x9x12 mask {mask.density:.0%}  " in call(line)[1]
    (case,) = json.loads(call(f"{line} --json")[1])["cases"]
    assert case["block_mask"] == {"tiles": 12, "kept": mask.nnz}
    (case,) = json.loads(call(f"gpu check --kernel flash2 {SMALL} --json")[1])["cases"]
    assert case["block_mask"] is None


@pytest.mark.parametrize("columns", [80, 100])
def test_the_default_list_fits_the_terminal(
    call: Call, meter: Callable[[Meter], None], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    meter(perfect)
    assert max(map(len, call(f"gpu check {SMALL} --arrays")[1].splitlines())) <= columns
    out = call("gpu check")[1]
    assert max(map(len, out.splitlines())) <= columns
    assert ("simulator  counters  emulator    error  of bound" in out) == (columns == 100)
    assert ("sim  count  emu  of bound" in out) == (columns == 80)


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_arrays_are_for_the_tables(call: Call, meter: Callable[[Meter], None], form: str) -> None:
    meter(perfect)
    status, out, err = call(f"gpu check --kernel flash2 {SMALL} --arrays {form}")
    assert (status, out) == (2, "")
    assert "--arrays is for the tables" in err


def test_seed_and_causal_apply_to_the_list_and_other_options_replace_it(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    listed = defaults.cases(["block-sparse"])
    found = json.loads(call("gpu check --kernel block-sparse --seed 3 --causal --json")[1])["cases"]
    assert [(case["n"], case["nk"], case["causal"], case["seed"]) for case in found] == [(case.n, case.nk, True, 3) for case in listed]
    found = json.loads(call("gpu check --kernel block-sparse --seed 3 --json")[1])["cases"]
    assert [case["causal"] for case in found] == [case.causal for case in listed]
    (case,) = json.loads(call("gpu check --kernel block-sparse --heads 2 --json")[1])["cases"]
    small, told = defaults.SMALL, " ".join(call("gpu check --help")[1].split())
    assert (case["n"], case["d"], case["block_rows"], case["block_cols"], case["threads"]) == (
        37,
        *(small[x] for x in ("d", "rows", "cols", "threads")),
    )
    assert f"N = {case['n']}, d = {case['d']}, tiles {case['block_rows']}x{case['block_cols']}, {case['threads']} threads" in told


def test_tiles_without_room_are_refused_before_anything_is_measured(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed", lambda: None)
    monkeypatch.setattr(environment, "needs", lambda _: None)
    for line in ("gpu check --kernel flash2 --blocks 64x64 --d 64 --threads 128", "gpu compile flash2 --blocks 64x64"):
        status, out, err = call(line)
        assert (status, out) == (2, "")
        assert err.endswith("needs 83,968 bytes of shared memory a block; at most 49,152 may be had: 40x40 would fit\n")
    assert call("gpu compile flash2 --blocks 1x1 --d 20000")[2].endswith("not even 1x1 tiles fit at d = 20000\n")


def test_architecture_and_processes_reach_those_who_measure(
    call: Call, meter: Callable[[Meter], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[set[str], int]] = []

    def measure(jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Measured]]:
        asked.append(({job.arch for job in jobs}, processes))
        yield from ((job, perfect(job)) for job in jobs)

    meter(perfect)
    monkeypatch.setattr(children, "measure", measure)
    out = call(f"gpu check --kernel flash2 --arch sm_80 --jobs 5 {SMALL}")[1]
    assert asked == [({"sm_80"}, 5)]
    assert "measured without a GPU; PTX for sm_80" in out


def test_what_is_measured_on_a_gpu_says_so(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    out = call(f"gpu check --kernel flash2 --meter device {SMALL}")[1]
    assert "measured on a GPU" in out
    assert "PTX for" not in out


def test_arrays_are_listed_where_they_are_asked_for(call: Call, meter: Callable[[Meter], None]) -> None:
    meter(perfect)
    shown = call(f"gpu check --kernel flash2-backward --dq-pass own --arrays {SMALL}")[1]
    lines = [line.split() for line in shown.partition("array ")[2].splitlines()]
    assert [line[0] for line in lines if len(line) > 6 and line[3:6] == ["=", "=", "="]] == list(
        Case("flash2-backward", 9, 4, 4, 3, 8, options={"dq_pass": "own"}).predicted()
    )
    assert "requests  sectors" in shown
    assert "sectors: the 32-byte pieces" in shown
    without = call(f"gpu check --kernel flash2 --meter counters --arrays {SMALL}")[1]
    assert "sectors" not in without
    assert "T threads a block" in without
    assert "T threads a block" not in call(f"gpu check --kernel flash2 {SMALL}")[1]


def test_the_models_own_count_is_asked_too(call: Call, meter: Callable[[Meter], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed form that is wrong in the same way as all meters is caught by counting the listing."""
    meter(perfect)
    right = predict.predict

    def one_word_more(*asked: Any) -> dict[str, predict.Moved]:
        return {name: moved + predict.Moved(reads=1) for name, moved in right(*asked).items()}

    monkeypatch.setattr(predict, "predict", one_word_more)
    status, out, err = call(f"gpu check --kernel flash2 {SMALL}")
    assert status == 1
    assert "iosim's count of the listing" in err
    assert "DIFFERS" in out


@pytest.mark.parametrize("case", defaults.cases(), ids=lambda case: f"{case.kernel} {case.name}")
def test_the_default_cases_are_predicted_as_the_listings_are_counted(case: Case) -> None:
    assert model_differs(case) is None


def test_the_worst_output_is_the_one_nearest_to_its_own_bound() -> None:
    rows = [
        Row("flash2", "", "emulator", name, 1, 1, 1, 1, error, bound) for name, error, bound in (("O", 2e-5, 1e-4), ("LSE", 1e-6, 2e-6))
    ]
    found = Checked(Case("flash2", 4, 2, 2, 2, 2), None, {"emulator": rows}).worst()
    assert found is rows[1]


REPORT = Usage(40, 0, 0, 0, shared_bytes=64, local_bytes=0, double=False)


def test_what_is_compiled_is_what_was_asked_for(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[Tiling, str]] = []

    def to_ptx(launch: Launch, arch: str) -> str:
        compiled.append((launch.tiling, arch))
        return f"// {launch.step.name}\n"

    monkeypatch.setattr(environment, "installed", lambda: None)
    monkeypatch.setattr(environment, "needs", lambda _: None)
    monkeypatch.setattr("iosim.cli.commands.gpu.compile.to_ptx", to_ptx)
    monkeypatch.setattr("iosim.cli.commands.gpu.compile.usage", lambda ptx, arch: REPORT)
    status, out, _ = call("gpu compile flash2-backward --blocks 4x3 --d 5 --threads 6 --causal --arch sm_80 --ptx k.ptx --json")
    assert status == 0
    assert set(compiled) == {(Tiling(4, 3, 5, 6, causal=True), "sm_80")}
    steps = ["delta", "fill", "keys-outside", "keys-outside-alone", "queries-outside"]
    assert [step["step"] for step in json.loads(out)["steps"]] == steps
    assert [step["registers"] for step in json.loads(out)["steps"]] == [40] * 5
    assert Path("k.ptx").read_text(encoding="utf-8").count("// keys-outside") == 2
    assert [step["dq_pass"] for step in json.loads(out)["steps"]] == ["both", "shared", "shared", "own", "own"]
    lines = [line.split()[0] for line in call("gpu compile flash2-backward --blocks 4x3 --d 5")[1].splitlines() if line.strip()]
    assert lines[3:11] == ["dq_pass=shared", *steps[:3], "dq_pass=own", steps[0], *steps[3:]]
    so_far = len(compiled)
    status, _, err = call("gpu compile flash2 --blocks 64x64")
    assert (status, len(compiled)) == (2, so_far)
    assert "83,968 bytes" in err
    assert "40x40 would fit" in err
    for dq_pass, part in (("shared", steps[:3]), ("own", [steps[0], *steps[3:]])):
        out = call(f"gpu compile flash2-backward --blocks 4x3 --d 5 --dq-pass {dq_pass} --json")[1]
        assert [step["step"] for step in json.loads(out)["steps"]] == part


WRONG = {
    "gpu nonsense": ["'nonsense'", ", ".join(command.known)],
    "gpu check --kernel flsh": ["--kernel 'flsh'", ", ".join(KERNELS)],
    "gpu check --meter clock": ["--meter 'clock'", "simulator, counters, emulator, device"],
    "gpu check --arch sm_12": ["sm_12", "sm_90"],
    "gpu check --n 0": ["--n", "whole number"],
    "gpu check --threads 2000": ["--threads", "1024"],
    "gpu check --blocks 8": ["--blocks", "BRxBC"],
    "gpu check --jobs 0": ["--jobs"],
    "gpu check --kernel flash2 --block-mask dense": ["flash2", "--block-mask"],
    "gpu check --kernel flash --dq-pass own": ["flash", "--dq-pass"],
    "gpu check --kernel block-sparse --block-mask locl:1": ["'locl:1'"],
    "gpu check --json --csv": ["--json", "--csv"],
    "gpu check --sram 100": ["--sram", "iosim gpu check --help"],
    "gpu compile": ["compile needs a kernel", "flash2-backward"],
    "gpu compile fash2": ["'fash2'", "flash2"],
    "gpu compile flash2 --ptx nowhere/x.ptx": ["nowhere", "folder"],
    "gpu compile flash2 --blocks": ["--blocks"],
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_gets_one_line_that_says_what_would_work(call: Call, meter: Callable[[Meter], None], line: str) -> None:
    meter(perfect)
    status, out, err = call(line)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert [part for part in WRONG[line] if part not in err] == []


def test_an_option_that_a_kernel_does_not_have_is_not_compiled(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "installed", lambda: None)
    monkeypatch.setattr(environment, "needs", lambda _: None)
    assert call("gpu compile flash --dq-pass own") == (2, "", "iosim: flash has no --dq-pass in CUDA\n")


def test_the_help_of_compile_states_the_defaults(call: Call) -> None:
    told = " ".join(call("gpu compile --help")[1].split())
    assert f"d = {defaults.D}, and a block has {defaults.THREADS} threads" in told


@pytest.mark.parametrize("page", ["check", "compile"])
def test_no_option_is_left_without_a_section(call: Call, page: str) -> None:
    told = call(f"gpu {page} --help")[1]
    assert told.partition("\nOther:\n")[2].split()[:2] == ["-h,", "--help"]
    assert all(option.help in " ".join(told.split()) for option in OPTIONS.values())


def test_help(call: Call) -> None:
    status, out, _ = call("gpu")
    assert status == 0
    for page in command.known:
        assert f"\n  {page} " in out
        status, told, err = call(f"gpu {page} --help")
        assert (status, err) == (0, "")
        assert f"iosim gpu {page}" in told


def test_info_says_what_can_be_done(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for lacking, able in {"NVVM": [True, False, True, False], "numba": [False, False, True, False], "": [True] * 4}.items():
        parts = tuple(environment.Part(name, name != lacking, "told") for name in environment.REMEDIES)
        monkeypatch.setattr("iosim.cli.commands.gpu.info.parts", lambda parts=parts: parts)
        monkeypatch.setattr("iosim.cli.commands.gpu.info.backend", lambda: environment.Backend("none", "why"))
        status, out, _ = call("gpu info --json")
        found = json.loads(out)
        assert status == 0
        assert [part["part"] for part in found["parts"] if not part["found"]] == ([lacking] if lacking else [])
        assert list(found["able"].values()) == able
        text = call("gpu info")[1]
        assert ("want of" in text) == bool(lacking)
        works = "Everything works, on a GPU too."
        assert text.startswith(f"Not everything that needs no GPU works here, for want of {lacking};" if lacking else works)
        assert (INSTALL in text) == bool(lacking)


def test_info_says_first_that_only_a_gpu_is_lacking(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = tuple(environment.Part(name, name not in ("driver", "device", "ncu"), "told") for name in environment.REMEDIES)
    monkeypatch.setattr("iosim.cli.commands.gpu.info.parts", lambda: parts)
    assert call("gpu info")[1].startswith("Everything that needs no GPU works; there is no GPU here that could be used.\n")


def python(code: str, folder: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """An interpreter of its own, started where nothing lies about to be imported."""
    command, env = [sys.executable, "-c", code, *args], {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


ABSENT = "import sys; sys.modules.update(dict.fromkeys(['numba', 'numba_cuda', 'cupy', 'cuda']));"
RUN = "from iosim.cli import main; sys.exit(main(sys.argv[1:]))"
ALL = """
import contextlib, io, sys
from iosim.cli import main
lines = ["run flash2 --n 64", "curve --n 64,128", "compare --n 64", "explain flash2 --n 64", "tiles --n 64", "devices",
    "trace flash2 --n 16", "paper fig2", "gpu"]
with contextlib.redirect_stdout(io.StringIO()):
    found = [line for line in lines if main(line.split())]
print(found, {"numba", "numba_cuda", "cupy", "cuda", "iosim_gpu"} & sys.modules.keys())
"""


def broken_numba(folder: Path) -> str:
    """A folder with a numba and a cupy that raise when they are imported."""
    for name in ("numba", "numba_cuda", "cupy"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise RuntimeError('half installed')\n", encoding="utf-8")
    return str(folder)


def test_no_other_command_needs_or_loads_cuda(tmp_path: Path) -> None:
    done = python("import sys\n" + ALL, tmp_path, PYTHONPATH=broken_numba(tmp_path))
    assert (done.returncode, done.stdout, done.stderr) == (0, "[] set()\n", "")


@pytest.mark.parametrize("line", ["gpu check", f"gpu check --meter emulator {SMALL}", "gpu compile flash2"])
def test_without_numba_one_line_says_what_to_install(tmp_path: Path, line: str) -> None:
    done = python(ABSENT + RUN, tmp_path, *line.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"iosim: the CUDA kernels need numba, which is not installed here: {INSTALL}\n"


@pytest.mark.parametrize("line", ["gpu check", "gpu compile flash2"])
def test_a_broken_numba_counts_as_none(tmp_path: Path, line: str) -> None:
    done = python("import sys;" + RUN, tmp_path, *line.split(), PYTHONPATH=broken_numba(tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "half installed" in done.stderr
    assert INSTALL in done.stderr


@pytest.mark.parametrize("broken", [True, False])
def test_info_works_without_numba(tmp_path: Path, broken: bool) -> None:
    variables = {"PYTHONPATH": broken_numba(tmp_path)} if broken else {}
    for form in ("--json", ""):
        done = python(("import sys;" if broken else ABSENT) + RUN, tmp_path, "gpu", "info", *form.split(), **variables)
        assert (done.returncode, done.stderr) == (0, "")
        if form:
            found = {part["part"]: part for part in json.loads(done.stdout)["parts"]}
            assert (found["numba"]["found"], found["numba"]["remedy"]) == (False, INSTALL)
            assert ("half installed" in found["numba"]["detail"]) == broken
            assert json.loads(done.stdout)["backend"] == "none"


def test_a_numba_that_is_found_only_here_is_told_by_the_processes(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Iterator[tuple[Job, Measured]]:
        raise BadInput(f"to simulate needs numba, which does not work here (no): {INSTALL}")

    monkeypatch.setattr(environment, "installed", lambda: None)
    monkeypatch.setattr(children, "measure", refuse)
    assert call("gpu check") == (2, "", f"iosim: to simulate needs numba, which does not work here (no): {INSTALL}\n")


@needs_numba
def test_the_real_kernels_are_measured_with_every_meter(call: Call) -> None:
    status, out, err = call("gpu check --kernel flash2 --n 9 --nk 7 --d 4 --blocks 4x3 --threads 8 --causal --json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert {row["meter"] for row in found["rows"]} == {"simulator", "counters", "emulator"}
    assert all(row["equal"] and row["within"] is not False for row in found["rows"])
    assert {row["array"] for row in found["rows"] if row["within"]} == {"O", "LSE"}


@needs_numba
def test_a_kernel_is_compiled(call: Call) -> None:
    try:
        environment.needs("compile")
        environment.needs("assemble")
    except BadInput as missing:
        pytest.skip(str(missing))
    status, out, err = call("gpu compile flash2 --blocks 8x8 --d 16 --threads 32 --arch sm_80 --ptx k.ptx --json")
    assert (status, err) == (0, "")
    (step,) = json.loads(out)["steps"]
    assert step["spill_stores"] == step["spill_loads"] == step["local_bytes"] == 0
    assert 16 <= step["registers"] <= 128
    text = Path("k.ptx").read_text(encoding="utf-8")
    assert ".target sm_80\n" in text
    assert text.count("\n") == step["ptx_lines"]
    status, _, err = call("gpu compile flash2 --blocks 64x64")
    assert status == 2
    assert "would fit" in err
