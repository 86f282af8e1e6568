"""``iosim devices`` and ``--device``: M and the element type of a device, exact in every form, and refused in one line."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click import Context

from iosim import Attention, simulate
from iosim.cli.commands.devices import LABELS
from iosim.cli.group import iosim as group
from iosim.core.hardware import DEVICES, KINDS, device

CLI = [sys.executable, "-m", "iosim"]


def takers() -> Iterator[str]:
    """Every command that takes a device and an SRAM, for one kernel."""
    for name in group.known:
        command = group.get_command(Context(group), name)
        assert command is not None
        takes = {parameter.name for parameter in command.params}
        if {"device", "sram"} <= takes and {"kernel", "kernels"} & takes:
            yield f"{name} flash2" if "kernel" in takes else f"{name} --kernels flash2"


COMMANDS = tuple(takers())


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    """The record without its roofline time."""
    return {name: value for name, value in record.items() if name not in ("seconds", "bound")}


def test_the_table_names_every_device_and_marks_what_was_not_read(answer: Callable[[str], str]) -> None:
    lines = answer("devices").splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines[2:] if line.split()[:1] and line.split()[0] in DEVICES}
    assert lines[0].split() == ["device", "SMs", "KiB/SM", "M", "float16", "M", "float32", "L2", "MiB", "DRAM", "GB", "GB/s", "TFLOP/s"]
    assert list(rows) == list(DEVICES)
    assert rows["a100-40gb"] == ["108", "164", "83,968", "41,984", "40", "40", "1,555", "312"]
    assert rows["h200"] == ["132?", "228", "116,736", "58,368", "50?", "141", "4,800", "990"]
    assert {name for name, row in rows.items() if any("?" in cell for cell in row)} == {
        name for name in DEVICES if "recalled" in {number.confidence for number in device(name).quantities}
    }
    assert "? recalled, not read in a source." in lines[-1]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("name", ["", *DEVICES])
def test_the_text_keeps_to_the_width_of_the_terminal(
    answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, columns: int, name: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, answer(f"devices {name}").splitlines())) <= columns


@pytest.mark.parametrize("name", DEVICES)
def test_one_device_is_shown_with_unit_source_and_confidence(answer: Callable[[str], str], name: str) -> None:
    text, chip = answer(f"devices {name}"), device(name)
    assert text.startswith(f"{name}: {chip.name}, compute capability {chip.compute_capability}\n")
    for number in chip.quantities:
        start = f"{LABELS[number.field]} "
        line = next(line for line in text.splitlines() if line.startswith(start)).removeprefix(start)
        unit = [] if number.field == "sms" else [number.unit]
        assert line.split()[: 2 + len(unit)] == [f"{number.value:,}", *unit, number.confidence]
        assert number.source.split()[0] in line
    words = " ".join(text.split())
    assert [number.source for number in chip.quantities if number.source.partition(",")[0] not in words] == []
    assert f"{chip.sram.amount:,} bytes = {chip.sram.words(2):,} words of float16 = {chip.sram.words(4):,} words of float32" in words


def test_every_number_has_a_label() -> None:
    assert list(LABELS) == list(KINDS)


def test_json_is_exact_in_base_units(document: Callable[[str], Any]) -> None:
    found = document("devices t4")
    assert found["numbers"]["fp16_tensor_rate"] == {
        "value": 65.1,
        "unit": "TFLOP/s",
        "base_value": 65_100_000_000_000,
        "base_unit": "flop/s",
        "source": device("t4").quantity("fp16_tensor_rate").source,
        "confidence": "read",
    }
    assert (found["sram"], found["sram_unit"], found["sram_words_float16"], found["sram_words_float32"]) == (65536, "bytes", 32768, 16384)
    assert document("devices") == [document(f"devices {name}") for name in DEVICES]
    for one in document("devices"):
        chip = device(one["device"])
        assert {field: number["base_value"] for field, number in one["numbers"].items()} == {field: getattr(chip, field) for field in KINDS}
        assert all(type(number["base_value"]) is int for number in one["numbers"].values())


def test_csv_has_one_row_a_device_or_a_number(answer: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer("devices --csv"))))
    assert [row["device"] for row in rows] == list(DEVICES)
    assert rows[2]["bandwidth (bytes/s)"] == "1555000000000"
    rows = list(csv.DictReader(io.StringIO(answer("devices h200 --csv"))))
    assert [row["number"] for row in rows] == list(KINDS)
    assert (rows[0]["value"], rows[0]["confidence"], rows[1]["unit"]) == ("132", "recalled", "KiB")


def test_a_device_says_m_and_the_element_type(document: Callable[[str], Any]) -> None:
    found = document("run flash2 --n 512 --device a100-40gb")
    assert (found["device"], found["sram"], found["sram_unit"], found["dtype"]) == ("a100-40gb", 167_936, "bytes", "float16")
    plain = simulate("flash2", Attention(n=512, d=64, dtype="float16"), sram="164KiB").record()
    assert untimed(found) == {**plain, "device": "a100-40gb"}


def test_an_explicit_element_type_wins(document: Callable[[str], Any]) -> None:
    for dtype in ("float32", "float16", "float64"):
        found = document(f"run flash2 --n 256 --device t4 --dtype {dtype}")
        assert (found["dtype"], found["sram"], found["device"]) == (dtype, 65536, "t4")
        assert found["total"] == simulate("flash2", Attention(n=256, d=64, dtype=dtype), sram="64KiB").total


def test_without_a_device_nothing_changes(document: Callable[[str], Any]) -> None:
    found = document("run flash2 --n 256")
    assert "device" not in found
    assert (found["dtype"], found["sram"]) == ("float32", 102_400)


@pytest.mark.parametrize("command", ["compare --kernels standard,flash2", "compare --kernels flash2 --batch 3 --heads 2"])
def test_compare_records_the_device_and_all_heads_once(answer: Callable[[str], str], document: Callable[[str], Any], command: str) -> None:
    with_device = document(f"{command} --n 256 --device rtx3090")
    with_size = document(f"{command} --n 256 --sram 100KiB --dtype float16")
    assert [untimed(record) for record in with_device] == [{**record, "device": "rtx3090"} for record in with_size]
    title = answer(f"{command} --n 256 --device rtx3090").splitlines()[0]
    assert "float16" in title
    assert "SRAM 100 KiB" in title


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_with_an_sram_takes_a_device(document: Callable[[str], Any], command: str) -> None:
    shared = f"{command} --n {'128,256' if command.startswith('curve') else '256'}"
    for on_device, sized in (("", " --dtype float16"), (" --dtype float32", "")):
        found = document(f"{shared} --device v100{on_device}")
        for record in found if isinstance(found, list) else [found]:
            assert record.pop("device", "v100") == "v100"
        found = [untimed(record) for record in found] if isinstance(found, list) else untimed(found)
        assert found == document(f"{shared} --sram 96KiB{sized}")


def test_a_curve_over_n_and_one_over_m_stay_two(document: Callable[[str], Any]) -> None:
    found = document("curve --device h100 --kernels flash2")
    assert {(record["over"], record["dtype"]) for record in found} == {("n", "float16"), ("sram", "float16")}
    assert {record["sram"] for record in found if record["over"] == "n"} == {233_472}
    assert len({record["sram"] for record in found if record["over"] == "sram"}) > 10


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_and_a_size_are_refused(refused: Callable[[str], str], command: str) -> None:
    told = "iosim: --sram and --device t4 both say what M is; ask for one of them\n"
    assert refused(f"{command} --sram 100KiB --device t4") == told
    assert refused(f"{command} --device t4 --sram 64KiB") == told


def test_a_device_from_a_file(
    answer: Callable[[str], str], document: Callable[[str], Any], refused: Callable[[str], str], tmp_path: Path
) -> None:
    lines = "\n".join(
        f'[{field}]\nvalue = {48 if field.startswith("shared") else 2}\nunit = "{next(iter(kind.units)) if field == "sms" else unit}"\n'
        'source = "measured"\nconfidence = "read"'
        for (field, kind), unit in zip(KINDS.items(), ["SMs", "KiB", "KiB", "MiB", "GB", "GB/s", "TFLOP/s", "TFLOP/s"], strict=True)
    )
    path = tmp_path / "mine.toml"
    path.write_text(f'name = "My own"\ncompute_capability = "8.0"\n{lines}', encoding="utf-8")
    found = document(f"run flash2 --n 64 --device {path}")
    assert (found["device"], found["sram"], found["dtype"]) == (str(path), 49_152, "float16")
    assert "My own" in answer(f"devices {path}")
    path.write_text(path.read_text(encoding="utf-8").replace('"KiB"', '"KB/s"'), encoding="utf-8")
    for line in (f"devices {path}", f"run flash2 --device {path}"):
        assert "the unit of shared_memory_per_sm must be one of B KB MB GB KiB MiB GiB, not 'KB/s'" in refused(line)


@pytest.mark.parametrize("line", ["devices", *(f"{command} --device" for command in COMMANDS)])
def test_an_unknown_device_gets_one_line_with_those_that_are_known(refused: Callable[[str], str], line: str) -> None:
    assert refused(f"{line} a101").startswith("iosim: unknown device 'a101'; known: t4, v100, a100-40gb, a100-80gb,")
    assert "'missing.toml' is not a file" in refused(f"{line} missing.toml")


WRONG = {
    "devices --json --csv": "ask for one of them",
    "devices t4 h100": "iosim devices --help",
    "devices --device t4": "--device",
    "run flash2 --device": "--device",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_makes_no_sense_is_refused(refused: Callable[[str], str], line: str) -> None:
    assert WRONG[line] in refused(line)


def test_help_tells_of_devices(answer: Callable[[str], str]) -> None:
    assert "\n  devices " in answer("--help")
    assert "--device" in answer("devices --help")
    for command in COMMANDS:
        text = answer(f"{command.split()[0]} --help")
        assert "--device NAME" in text
        assert "-h, --help" in text


def test_a_closed_pipe_is_no_error() -> None:
    """The reader is gone before the first line is written."""
    with subprocess.Popen([*CLI, "devices", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


def test_ascii_terminals_show_the_numbers() -> None:
    done = subprocess.run(
        [*CLI, "devices", "t4"], capture_output=True, text=True, check=True, env={"PYTHONIOENCODING": "ascii", "PATH": "", "COLUMNS": "100"}
    )
    assert "shared per SM" in done.stdout
    assert done.stderr == ""
