"""Nsight Compute's report, written by hand in its format: what is read from it, what is claimed, and what is refused in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim_gpu import defaults, profile_target
from iosim_gpu.calls import Call
from iosim_gpu.case import Case
from iosim_gpu.meters import nsight
from iosim_gpu.moved import Measured, Moved

CASE = Case("flash2", 29, 16, 8, 12, 24, nk=37, causal=True)
STANDARD = Case("standard", 29, 16, 8, 12, 24)
FIXED = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC")
READ = 4 * sum(words.reads for words in CASE.predicted().values())
WRITTEN = 4 * sum(words.writes for words in CASE.predicted().values())
EMULATED = Measured("emulator", {"Q": Moved(loads=464, sectors=58), "O": Moved(stores=464, sectors=60)})


def counted(**counters: int) -> dict[str, str]:
    """What ncu prints of one launch, by metric; the names are those of the counters' last part, all others are 0."""
    short = {
        "ld": nsight.REQUESTED.format("ld"), "st": nsight.REQUESTED.format("st"), "red": nsight.REQUESTED.format("red"),
        "l1_ld": nsight.L1.format("ld"), "l1_st": nsight.L1.format("st"), "l1_red": nsight.L1.format("red"),
        "l2": nsight.L2.format("read"), "dram": nsight.DRAM.format("read"),
    }  # fmt: skip
    return dict.fromkeys(nsight.METRICS, "0") | {short[name]: f"{value:,}" for name, value in counters.items()}


def report(*launched: Mapping[str, str], units: Mapping[str, str] | None = None, without: str = "") -> str:
    """The raw page as ncu prints it: its own lines, names, units, launches; among the metrics stand attributes that are no numbers."""
    metrics = [metric for metric in nsight.METRICS if metric != without]
    unit = {metric: "byte" if "bytes" in metric else "sector" for metric in metrics} | dict(units or {})
    lines = [[*FIXED, "device__attribute_mode", *metrics], [""] * len(FIXED) + ["", *(unit[metric] for metric in metrics)]]
    for number, counters in enumerate(launched):
        name = "iosim_gpu::kernels::flash2::make_flash2::<locals>::flash2(Array<float, 3, C>, float)"
        fixed = [str(number), "4711", "python3.12", "127.0.0.1", name, "1", "7", "(24, 1, 1)", "(4, 1, 1)", "0", "9.0", "No-CC"]
        lines.append([*fixed, *(counters[metric] for metric in metrics)])
    table = "\n".join(",".join(f'"{word}"' for word in line) for line in lines)
    return (
        "==PROF== Connected to process 4711 (/usr/bin/python3.12)\n"
        f'==PROF== Profiling "flash2": 0%....50%....100% - 4 passes\n{table}\n==PROF== Disconnected from process 4711\n\n'
    )


def found(text: str, case: Case = CASE, emulated: Measured | None = None) -> dict[str, nsight.Row]:
    return {row.quantity: row for row in nsight.rows(case, nsight.profile(case, lambda command: text), emulated)}


GOOD = counted(ld=READ, st=WRITTEN, l1_ld=58, l1_st=60, l2=55, dram=1024)


def test_requested_bytes_are_4_for_each_element_of_the_model() -> None:
    rows = found(report(GOOD))
    assert (rows["requested bytes read"].measured, rows["requested bytes read"].equal) == (READ, True)
    assert (rows["requested bytes written"].measured, rows["requested bytes written"].equal) == (WRITTEN, True)
    assert all(row.failure is None for row in rows.values())


@pytest.mark.parametrize("off", [-4, 4])
def test_one_element_more_or_less_is_told(off: int) -> None:
    row = found(report(counted(ld=READ + off, st=WRITTEN)))["requested bytes read"]
    assert row.equal is False
    assert row.failure == (
        f"flash2 {CASE.name}: requested bytes read are {READ + off:,} by Nsight Compute, and {READ:,} are expected"
    )  # fmt: skip


def test_sectors_of_L1_are_those_of_the_emulator() -> None:
    assert found(report(GOOD), emulated=EMULATED)["L1 sectors"].equal is True
    assert found(report(GOOD | {nsight.L1.format("st"): "61"}), emulated=EMULATED)["L1 sectors"].equal is False


def test_no_sectors_are_claimed_without_the_emulator_or_where_it_sees_none() -> None:
    blind = Measured("counters", {"Q": Moved(loads=464)})
    for emulated in (None, blind):
        row = found(report(GOOD), emulated=emulated)["L1 sectors"]
        assert (row.measured, row.expected, row.equal, row.failure) == (118, None, None, None)


def test_sectors_of_atomics_are_shown_apart_and_not_claimed() -> None:
    emulated = Measured("emulator", {"Q": Moved(loads=464, sectors=118), "dQ": Moved(atomics=464, sectors=999)})
    rows = found(report(GOOD | counted(l1_ld=118, l1_red=7, ld=READ, st=WRITTEN)), emulated=emulated)
    assert (rows["L1 sectors"].measured, rows["L1 sectors"].equal) == (118, True)
    assert (rows["L1 sectors of atomics"].measured, rows["L1 sectors of atomics"].equal) == (7, None)
    both = Measured("emulator", {"dQ": Moved(stores=464, atomics=464, sectors=999)})
    assert found(report(GOOD), emulated=both)["L1 sectors"].expected is None


def test_an_atomic_update_is_a_read_and_a_write() -> None:
    rows = found(report(counted(ld=READ - 40, st=WRITTEN - 40, red=40)))
    assert rows["requested bytes read"].equal is rows["requested bytes written"].equal is True


def test_L2_and_DRAM_are_shown_whatever_they_are() -> None:
    rows = found(report(GOOD | counted(ld=READ, st=WRITTEN, l2=10**12, dram=1)))
    assert (rows["L2 sectors"].measured, rows["L2 sectors"].equal) == (10**12, None)
    assert (rows["DRAM bytes read"].measured, rows["DRAM bytes read"].equal) == (1, None)
    inputs = 4 * 16 * (29 + 37 + 37)
    assert rows["DRAM bytes read"].beside == f"inputs are {inputs:,} bytes"


def test_several_launches_are_the_steps_of_one_kernel() -> None:
    reads = 4 * sum(words.reads for words in STANDARD.predicted().values())
    text = report(counted(ld=reads - 100), counted(ld=60), counted(ld=40))
    assert [launch.counters[nsight.REQUESTED.format("ld")] for launch in nsight.launches(text, STANDARD)] == [reads - 100, 60, 40]
    assert found(text, STANDARD)["requested bytes read"].equal is True


@pytest.mark.parametrize("launched", [1, 2, 4])
def test_another_number_of_launches_is_not_this_kernel(launched: int) -> None:
    with pytest.raises(BadInput, match=rf"^ncu saw {launched} launches, and standard is made of 3: scores, softmax, weighted$"):
        nsight.launches(report(*[counted()] * launched), STANDARD)


@given(st.integers(0, 10**15), st.booleans())
def test_numbers_are_read_with_or_without_commas(value: int, commas: bool) -> None:
    text = report(GOOD | {nsight.DRAM.format("read"): f"{value:,}" if commas else str(value)})
    assert found(text)["DRAM bytes read"].measured == value


@pytest.mark.parametrize("number", ["27.595.520", "1,23", "5.16", "n/a", "", "-4", "1e9", "12,3456", ",123", "0x3"])
def test_what_is_no_whole_number_is_refused(number: str) -> None:
    with pytest.raises(BadInput, match=r"^ncu gives dram__bytes_read.sum as '.*', which is no whole number"):
        found(report(GOOD | {nsight.DRAM.format("read"): number}))


@pytest.mark.parametrize("unit", ["Kbyte", "Mbyte", "MB", "%"])
def test_a_scaled_unit_is_rounded_and_refused(unit: str) -> None:
    with pytest.raises(BadInput, match=rf"^ncu reports dram__bytes_read.sum in '{unit}', which is rounded; --print-units base gives"):
        found(report(GOOD, units={nsight.DRAM.format("read"): unit}))


@pytest.mark.parametrize("metric", nsight.METRICS)
def test_a_counter_that_is_missing_is_named(metric: str) -> None:
    with pytest.raises(BadInput, match=rf"^ncu does not report {metric}; this version of it, or this GPU, has no such counter$"):
        found(report(GOOD, without=metric))


def test_a_line_that_breaks_off_is_refused() -> None:
    text = report(GOOD)
    cut = text[: text.rindex('","')] + '"\n'
    with pytest.raises(BadInput, match=r"^ncu gives dram__bytes_write.sum as ''"):
        found(cut)


REFUSALS = {
    "==PROF== Connected to process 7\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance "
    "Counters on the target device 0. For instructions see https\n==WARNING== No kernels were profiled.\n": "ncu may not read the GPU's "
    "counters (ERR_NVGPUCTRPERM); run it as root, or have the driver loaded with NVreg_RestrictProfilingToAdminUsers=0",
    "==PROF== Connected to process 7\n==PROF== Disconnected from process 7\n==WARNING== No kernels were profiled.\n": "ncu saw no kernel; "
    "the program that it watched launched none",
    "==PROF== Connected to process 7\n==ERROR== Failed to find metric regex:^dram__bites.sum$\n": "==ERROR== Failed to find metric "
    "regex:^dram__bites.sum$",
    "==ERROR== The application returned an error code (2).\n==WARNING== No kernels were profiled.\niosim_gpu.profile_target: to run on a "
    "GPU needs driver\n": "iosim_gpu.profile_target: to run on a GPU needs driver",
    "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n": "==ERROR== Failed to initialize the profiler: LibraryNotLoaded",
    "Segmentation fault\n": "ncu printed no table; the last line is 'Segmentation fault'",
    "": "ncu printed no table; it printed nothing",
}


@pytest.mark.parametrize("said", REFUSALS)
def test_why_there_is_no_report_is_one_line(said: str) -> None:
    with pytest.raises(BadInput) as refused:
        found(said)
    assert str(refused.value) == REFUSALS[said]


def test_names_without_a_launch_are_no_report() -> None:
    with pytest.raises(BadInput, match=r"^ncu printed no table"):
        found(report())


def test_without_ncu_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"^there is no ncu on the PATH; .*install Nsight Compute \(only for hardware counters on a GPU\)$"):
        nsight.profile(CASE)


def test_the_command_asks_for_every_counter_in_base_units_and_flushes_the_caches() -> None:
    command = nsight.command(CASE)
    assert command[0] == "ncu"
    assert command[command.index("--metrics") + 1].split(",") == list(nsight.METRICS)
    for option, value in (("--page", "raw"), ("--print-units", "base"), ("--cache-control", "all"), ("--clock-control", "none")):
        assert command[command.index(option) + 1] == value
    assert command[-4:-1] == [sys.executable, "-m", "iosim_gpu.profile_target"]


def test_a_program_called_ncu_is_run_with_its_output_read_whatever_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell script in ncu's place: half of what it says on each stream, and a status that is no success."""
    (tmp_path / "report").write_text(report(GOOD))
    script = tmp_path / "ncu"
    script.write_text(f'#!/bin/sh\n[ "$LC_ALL" = C ] && cat {tmp_path}/report\necho "==WARNING== told" >&2\nexit 9\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert [row.equal for row in nsight.rows(CASE, nsight.profile(CASE))][:2] == [True, True]


@pytest.mark.parametrize("case", defaults.cases(), ids=lambda case: f"{case.kernel} {case.name}")
def test_the_target_is_told_the_case_and_launches_its_steps(case: Case) -> None:
    launched: list[Call] = []
    assert profile_target.main([profile_target.spelled(case)], launched.append) == 0
    assert [call.step.name for call in launched] == [step.name for step in case.steps]
    for call in launched:
        assert call.case.predicted() == case.predicted()
        assert call.case.mask == case.mask
        assert not call.tiling.counting


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["{}"], ["["], ["3"], ['{"case": {"kernel": "flash3"}, "mask": null}']])
def test_the_target_refuses_what_is_no_case_in_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert profile_target.main(arguments, lambda call: pytest.fail("launched")) == 2
    said = capsys.readouterr().err
    assert said.startswith("iosim_gpu.profile_target: ")
    assert said.count("\n") == 1


def test_the_target_without_a_gpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    asked = [sys.executable, "-m", "iosim_gpu.profile_target", profile_target.spelled(CASE)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "GPU" in done.stderr


def test_a_record_is_json() -> None:
    rows = found(report(GOOD), emulated=EMULATED)
    assert json.loads(json.dumps(rows["L1 sectors"].record()))["equal"] is True
