"""The devices: every number as its source has it, exact in base units, and files of users refused in one line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from fractions import Fraction
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.hardware import DEVICES, KINDS, Device, Quantity, device
from iosim.core.hardware.files import DATA
from iosim.core.units import Capacity, capacity

# SMs, KiB of shared memory per SM and per block, MiB of L2, GB, GB/s, TFLOP/s of float16 on tensor cores and of float32.
PRINTED: dict[str, tuple[str, tuple[int | float, ...]]] = {
    "t4": ("7.5", (40, 64, 64, 4, 16, 320, 65.1, 8.1)),
    "v100": ("7.0", (80, 96, 96, 6, 16, 900, 125, 15.7)),
    "a100-40gb": ("8.0", (108, 164, 163, 40, 40, 1555, 312, 19.5)),
    "a100-80gb": ("8.0", (108, 164, 163, 40, 80, 2039, 312, 19.5)),
    "rtx3090": ("8.6", (82, 100, 99, 6, 24, 936, 71, 35.6)),
    "rtx4090": ("8.9", (128, 100, 99, 72, 24, 1008, 165.2, 82.6)),
    "h100": ("9.0", (132, 228, 227, 50, 80, 3350, 989, 67)),
    "h200": ("9.0", (132, 228, 227, 50, 141, 4800, 990, 67)),
    "b200": ("10.0", (148, 228, 227, 126, 180, 7700, 2250, 75)),
}
UNITS = ("SMs", "KiB", "KiB", "MiB", "GB", "GB/s", "TFLOP/s", "TFLOP/s")
RECALLED = {
    ("rtx3090", "fp16_tensor_rate"), ("rtx4090", "fp16_tensor_rate"), ("h200", "sms"), ("h200", "l2"), ("h200", "fp32_rate"),
    ("b200", "l2"), ("b200", "fp32_rate"),
}  # fmt: skip


@pytest.mark.parametrize("name", DEVICES)
def test_a_preset_has_the_numbers_of_the_tables(name: str) -> None:
    found = device(name)
    capability, printed = PRINTED[name]
    assert (found.key, found.compute_capability) == (name, capability)
    assert tuple((number.field, number.value, number.unit) for number in found.quantities) == tuple(zip(KINDS, printed, UNITS, strict=True))


@pytest.mark.parametrize("name", DEVICES)
def test_every_number_has_a_source_and_says_whether_it_was_read(name: str) -> None:
    for number in device(name).quantities:
        assert len(number.source) > 10
        assert (number.confidence == "recalled") == ((name, number.field) in RECALLED)
        assert ("memory" in number.source) == (number.confidence == "recalled")


def test_the_attributes_are_in_base_units() -> None:
    t4 = device("t4")
    assert t4 == Device(
        key="t4",
        name="NVIDIA T4",
        compute_capability="7.5",
        sms=40,
        shared_memory_per_sm=65_536,
        shared_memory_per_block=65_536,
        l2=4_194_304,
        memory=16_000_000_000,
        bandwidth=320_000_000_000,
        fp16_tensor_rate=65_100_000_000_000,
        fp32_rate=8_100_000_000_000,
        quantities=t4.quantities,
    )
    assert all(isinstance(getattr(device(name), field), int) for name in DEVICES for field in KINDS)
    assert {device(name) for name in DEVICES} == {device(name) for name in DEVICES}


def test_the_presets_are_the_files() -> None:
    assert sorted(DEVICES) == sorted(path.stem for path in DATA.iterdir())
    assert set(DEVICES) == set(PRINTED)
    assert len({device(name).name for name in DEVICES}) == len(DEVICES)


def test_sram_is_the_shared_memory_of_one_sm_in_bytes_of_1024() -> None:
    assert device("a100-40gb").sram == Capacity(167_936, "bytes") == capacity("164KiB")
    words = {name: (device(name).sram.words(2), device(name).sram.words(4)) for name in ("t4", "v100", "a100-80gb", "h100")}
    assert words == {"t4": (32_768, 16_384), "v100": (49_152, 24_576), "a100-80gb": (83_968, 41_984), "h100": (116_736, 58_368)}
    block = Capacity(device("a100-40gb").shared_memory_per_block, "bytes")
    assert (block.words(2), block.words(4)) == (83_456, 41_728)


def test_a_kb_of_shared_memory_is_a_kib() -> None:
    """192 KB an SM, the A100's L1 and shared memory together, are 98304 words of float16 and 49152 of float32."""
    unified = Quantity("shared_memory_per_sm", 192, "KiB", "FlashAttention paper, Section 2.1", "read")
    assert unified.base == 196_608
    assert [Capacity(unified.base, "bytes").words(size) for size in (2, 4)] == [98_304, 49_152]


@given(st.sampled_from(list(KINDS)), st.data(), st.integers(1, 10**9), st.integers(0, 3))
def test_units_make_the_round_trip(field: str, data: st.DataObject, digits: int, decimals: int) -> None:
    unit = data.draw(st.sampled_from(list(KINDS[field].units)))
    value = digits / 10**decimals if decimals else digits
    factor = KINDS[field].units[unit]
    if digits * factor % 10**decimals:
        with pytest.raises(BadInput, match="whole number of"):
            Quantity(field, value, unit, "somewhere", "read")
    else:
        number = Quantity(field, value, unit, "somewhere", "read")
        assert number.base * 10**decimals == digits * factor
        assert float(Fraction(number.base, factor)) == value


def write(path: Path, changed: str = "", lines: str = "", top: str = "") -> str:
    """A device file whose table ``changed`` holds ``lines``; without lines it is left out. ``top`` stands for the two names."""
    source = (DATA / "a100-40gb.toml").read_text(encoding="utf-8")
    names, *tables = source.split("\n\n")
    kept = [f"[{changed}]\n{lines}" if table.startswith(f"[{changed}]") else table for table in tables]
    kept = [table for table in kept if lines or not table.startswith(f"[{changed}]")]
    path.write_text("\n\n".join([top or names, *kept]), encoding="utf-8")
    return str(path)


def test_a_file_of_the_same_form_is_a_device(tmp_path: Path) -> None:
    path = write(tmp_path / "mine.toml", "bandwidth", 'value = 1.5\nunit = "TB/s"\nsource = "measured"\nconfidence = "read"')
    mine, preset = device(path), device("a100-40gb")
    assert (mine.key, mine.bandwidth, mine.sram) == (path, 1_500_000_000_000, preset.sram)
    assert mine.quantity("bandwidth").source == "measured"
    assert device(Path(path)) == mine
    assert [number for number in mine.quantities if number.field != "bandwidth"] == [
        number for number in preset.quantities if number.field != "bandwidth"
    ]


def test_a_file_is_found_by_its_path_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t4.toml")
    assert device("t4.toml").sms == device("./t4.toml").sms == 108
    assert device("t4").sms == 40


SOUND = 'unit = "GB/s"\nsource = "a page"\nconfidence = "read"'
REFUSED = {
    "value = 0": "value of bandwidth must be a number, finite and above 0, not 0",
    "value = -1555": "not -1555",
    "value = -0.0": "not -0.0",
    "value = nan": "not nan",
    "value = inf": "not inf",
    "value = 1e300": r"not 1e\+300",
    f"value = {'9' * 50}": "not a value of type int",
    f"value = 0x{'f' * 9000}": "not a value of type int",
    "value = true": "not True",
    'value = "1555"': "not '1555'",
    "value = [1555]": "not a value of type list",
    "value = 1.23456789012345": "whole number of bytes/s",
}


@pytest.mark.parametrize("value", REFUSED)
def test_a_number_that_is_none_is_refused(tmp_path: Path, value: str) -> None:
    refused(write(tmp_path / "mine.toml", "bandwidth", f"{value}\n{SOUND}"), REFUSED[value])


TABLES = {
    'unit = "GB/s"\nsource = "a"\nconfidence = "read"': r"\[bandwidth\] has no value; it needs value, unit, source, confidence",
    'value = 1\nsource = "a"\nconfidence = "read"': r"\[bandwidth\] has no unit",
    'value = 1\nunit = "GB/s"\nconfidence = "read"': r"\[bandwidth\] has no source",
    'value = 1\nunit = "GB/s"\nsource = "a"': r"\[bandwidth\] has no confidence",
    'value = 1\nunit = "GB"\nsource = "a"\nconfidence = "read"': "unit of bandwidth must be one of MB/s GB/s TB/s, not 'GB'",
    'value = 1\nunit = "gb/s"\nsource = "a"\nconfidence = "read"': "not 'gb/s'",
    'value = 1\nunit = ["GB/s"]\nsource = "a"\nconfidence = "read"': "not a value of type list",
    'value = 1\nunit = "GB/s"\nsource = " "\nconfidence = "read"': "source of bandwidth must say where the number was found, not ' '",
    'value = 1\nunit = "GB/s"\nsource = 7\nconfidence = "read"': "not 7",
    'value = 1\nunit = "GB/s"\nsource = "a"\nconfidence = "guessed"': "confidence of bandwidth must be read or recalled, not 'guessed'",
    'value = 1\nunit = "GB/s"\nsource = "a"\nconfidence = ["read"]': "not a value of type list",
    f"value = 1\n{SOUND}\npage = 3": r"\[bandwidth\] has the unknown entry 'page'",
    f"value = 1\n{SOUND}\n{'x' * 300} = 3": "unknown entry 'x+[.][.][.]; it needs",
}


@pytest.mark.parametrize("lines", TABLES)
def test_a_table_that_is_not_of_the_form_is_refused(tmp_path: Path, lines: str) -> None:
    refused(write(tmp_path / "mine.toml", "bandwidth", lines), TABLES[lines])


@pytest.mark.parametrize("field", KINDS)
def test_a_missing_number_is_refused(tmp_path: Path, field: str) -> None:
    refused(write(tmp_path / "mine.toml", field), f"it has no {field}; it needs name, compute_capability, sms,")


TOPS = {
    'compute_capability = "8.0"': "it has no name",
    'name = "mine"': "it has no compute_capability",
    'name = ""\ncompute_capability = "8.0"': "name must be what the device is called, not ''",
    'name = 3\ncompute_capability = "8.0"': "not 3",
    'name = "mine"\ncompute_capability = 8.0': 'compute_capability must be a text such as "8.0", not 8.0',
    'name = "mine"\ncompute_capability = "sm_80"': "not 'sm_80'",
    'name = "mine"\ncompute_capability = "8.0"\nlink = "NVLink"': "unknown entry 'link'",
    'name = "mine"\ncompute_capability = "8.0"\n"a\\nb" = 1': r"unknown entry 'a\\nb'",
}


@pytest.mark.parametrize("top", TOPS)
def test_the_names_of_a_file_are_checked(tmp_path: Path, top: str) -> None:
    refused(write(tmp_path / "mine.toml", top=top), TOPS[top])


def test_a_number_without_a_table_is_refused(tmp_path: Path) -> None:
    top = 'name = "mine"\ncompute_capability = "8.0"\nbandwidth = 1555'
    path = write(tmp_path / "mine.toml", "bandwidth", top=top)
    refused(path, "bandwidth must be a table with value, unit, source, confidence, not 1555")


def test_a_block_cannot_have_more_than_its_sm(tmp_path: Path) -> None:
    lines = 'value = 165\nunit = "KiB"\nsource = "a"\nconfidence = "read"'
    path = write(tmp_path / "mine.toml", "shared_memory_per_block", lines)
    refused(path, "shared_memory_per_block, 165 KiB, is more than shared_memory_per_sm, 164 KiB")


FILES = {
    b"": "it has no name",
    b"name = ": r"not TOML that can be read: Invalid value \(at end of document\)",
    b"\xff\xfe": "not TOML that can be read",
    b"name = 'a'\nname = 'b'": "not TOML that can be read",
    b"a = " + b"9" * 5000: "not TOML that can be read",
    b"a = " + b"[" * 10_000: "not TOML that can be read",
    b"#" * 2**20 + b"#": "takes 1048577 bytes and at most 1048576",
}


@pytest.mark.parametrize("number", range(len(FILES)))
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, number: int) -> None:
    content, told = list(FILES.items())[number]
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    refused(str(path), told)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "mine.toml")

    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(Path, "read_text", denied)
    refused(path, "cannot be read: Permission denied")


UNKNOWN = {
    "a100": "unknown device 'a100'; known: t4, v100, a100-40gb, a100-80gb, rtx3090, rtx4090, h100, h200, b200, or the path of a .toml file",
    "A100-40GB": "unknown device 'A100-40GB'; known: t4,",
    "": "unknown device ''; known: t4,",
    "../data/t4": "'../data/t4' is not a file that can be found",
    "missing.toml": "the device file 'missing.toml' is not a file that can be found; give the path of a .toml file, or one of t4,",
    "nul\0.toml": "not a file that can be found",
    "two\nlines.toml": r"'two\\nlines.toml' is not a file",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_an_unknown_device_is_refused_with_those_that_are_known(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    refused(name, UNKNOWN[name])


def test_a_device_is_asked_for_by_name() -> None:
    with pytest.raises(BadInput, match=r"must be a name or the path of a \.toml file, not 3"):
        device(3)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(BadInput, match="unknown number 'sm'; known: sms, shared_memory_per_sm"):
        Quantity("sm", 3, "SMs", "a page", "read")


def refused(name: str, told: str) -> None:
    """``device`` refuses ``name`` in one line that says what is wrong, and, for a file, in which."""
    with pytest.raises(BadInput, match=told) as error:
        device(name)
    assert "\n" not in str(error.value)
    assert repr(name) in str(error.value)


def test_the_wheel_holds_the_presets(source_tree: Path, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=source_tree, check=True, capture_output=True)
    wheel = ZipFile(next(tmp_path.glob("*.whl")))
    packed = {name for name in wheel.namelist() if name.startswith("iosim/core/hardware/devices/")}
    assert packed == {f"iosim/core/hardware/devices/{name}.toml" for name in DEVICES}
    for name in DEVICES:
        assert tomllib.loads(wheel.read(f"iosim/core/hardware/devices/{name}.toml").decode())["name"] == device(name).name
