"""Several hundred command lines print the numbers that are stored beside this file; ``python unchanged.py --write`` there renews them."""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import iosim
from iosim.core.options import OPTIONS


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unchanged", Path(__file__).with_name("unchanged.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


unchanged = loaded()
LINES: list[str] = unchanged.lines()
STORED: dict[str, dict[str, Any]] = unchanged.stored()
CURVE = "curve --n 1024..16384 --causal --json"
RUN = "run flash2 --n 72 --d 16 --sram 20KiB --json"
NO_NUMBERS = {"--help", "--plot", "--out", "--html", "--beside", "--from", "--watch", "--dask"}  # files, pages, and what never ends


@pytest.fixture(scope="module", autouse=True)
def _workplace() -> Iterator[None]:
    with unchanged.workplace():
        yield


# The numbers


@pytest.mark.parametrize("line", LINES)
def test_a_command_line_prints_the_numbers_that_are_stored(line: str) -> None:
    if line.startswith("exercise") and sys.platform != "linux":
        pytest.skip("submissions run apart on Linux alone")
    assert unchanged.differences(STORED[line], unchanged.measured(line)) == []


def test_numbers_are_stored_of_every_command_line_and_of_no_other() -> None:
    assert len(LINES) == len(set(LINES)) >= 200
    assert list(STORED) == LINES
    assert {numbers["status"] for numbers in STORED.values()} == {0, 1}
    assert [line for line, numbers in STORED.items() if len(numbers) < 5] == []


def test_the_stored_numbers_are_few_enough_to_be_kept_with_the_tests() -> None:
    assert unchanged.NUMBERS.stat().st_size < 400_000


# Every kernel, command and option


def helped(words: str) -> str:
    """The help of a command."""
    status, text = unchanged.printed(f"{words} --help")
    assert status == 0
    found: str = text
    return found


def commands(above: str = "") -> Iterator[str]:
    """The commands that print JSON, but for those of CUDA, whose numbers are the machine's."""
    for name in re.findall(r"^  ([a-z]+)", helped(above).partition("\nCommands:")[2], re.MULTILINE):
        words = f"{above} {name}".strip()
        if words == "gpu":
            continue
        if "\nCommands:" in helped(words):
            yield from commands(words)
        elif "  --json" in helped(words):
            yield words


def options(words: str) -> set[str]:
    """The options of a command, but for those that change no number."""
    return set(re.findall(r"^  (--[a-z-]+)", helped(words), re.MULTILINE)) - NO_NUMBERS


def lines_of(words: str) -> list[list[str]]:
    """The lines of a command, word by word."""
    count = len(words.split())
    return [line.split() for line in LINES if line.split()[:count] == words.split()]


def test_every_command_that_prints_json_is_in_some_line_with_every_option() -> None:
    own = {option.flag for kernel in iosim.KERNELS.values() for option in kernel.options if option.name not in OPTIONS}
    missing = {words: options(words) - own - {word for line in lines_of(words) for word in line} for words in commands()}
    assert {"run", "curve", "exercise list"} <= missing.keys()
    assert {words: names for words, names in missing.items() if names} == {}


# What is noticed, and what is not


@pytest.fixture(scope="module")
def curve() -> list[dict[str, Any]]:
    """A long list of records."""
    records: list[dict[str, Any]] = json.loads(unchanged.printed(CURVE)[1])
    return records


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    """A run that was executed."""
    record: dict[str, Any] = json.loads(unchanged.printed(RUN)[1])
    return record


def told(line: str, document: object) -> list[str]:
    """What is said of a command line that prints this document."""
    found: list[str] = unchanged.differences(STORED[line], {"status": 0, **unchanged.numbers(json.dumps(document))})
    return found


def altered(document: Any, *path: str | int, to: object) -> Any:
    """A copy in which one value is another."""
    copy = json.loads(json.dumps(document))
    place = copy
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return copy


def test_a_number_that_changes_is_noticed(run: dict[str, Any]) -> None:
    assert told(RUN, run) == []
    reads = run["arrays"]["K"]["reads"]
    assert told(RUN, altered(run, "arrays", "K", "reads", to=reads + 1)) == [f"arrays.K.reads: was {reads}, is {reads + 1}"]
    assert told(RUN, altered(run, "arrays", "K", "reads", to=float(reads))) == [f"arrays.K.reads: was {reads}, is {float(reads)}"]
    assert told(RUN, altered(run, "agreed", "replayed", to=1)) == ["agreed.replayed: was True, is 1"]
    assert told(RUN, altered(run, "sram_unit", to="words")) == ["sram_unit: was 'bytes', is 'words'"]
    assert told(RUN, {name: value for name, value in run.items() if name != "total"}) == [f"total: was {run['total']}, is gone"]


def test_a_number_that_changes_amid_a_long_list_is_noticed(curve: list[dict[str, Any]]) -> None:
    assert len(curve) > 10
    assert told(CURVE, curve) == []
    (what,) = told(CURVE, altered(curve, 7, "arrays", "K", "reads", to=curve[7]["arrays"]["K"]["reads"] + 1))
    assert what.startswith("[].arrays.K.reads: was ")
    (what,) = told(CURVE, altered(curve, 7, "dtype", to="float16"))
    assert what.startswith("[].dtype: was 'float32', is ")
    assert f"[]: was {len(curve)}, is {len(curve) + 1}" in told(CURVE, [*curve, curve[-1]])
    swapped = [*curve[:4], curve[5], curve[4], *curve[6:]]
    assert len(told(CURVE, swapped)) > 10


def test_a_float_may_differ_in_its_last_digits_alone(run: dict[str, Any]) -> None:
    bound = run["error_bound"]
    assert told(RUN, altered(run, "error_bound", to=bound * (1 + 1e-13))) == []
    assert len(told(RUN, altered(run, "error_bound", to=bound * (1 + 1e-11)))) == 1
    floats = [0.5, 0.0, None, 0.0, 2.5]
    before = unchanged.numbers(json.dumps(floats))
    for place, change in ((0, 0.25), (1, 1e-9), (2, 0.0), (3, None), (4, 2.5 + 1e-9), (4, 2)):
        assert unchanged.differences(before, unchanged.numbers(json.dumps(altered(floats, place, to=change))))
    assert not unchanged.differences(before, unchanged.numbers(json.dumps(altered(floats, 4, to=2.5 + 1e-15))))


def test_a_key_that_is_new_is_no_change(run: dict[str, Any], curve: list[dict[str, Any]]) -> None:
    assert told(RUN, {**run, "new": {"a": [1, 2.5, None, "word"]}}) == []
    assert told(CURVE, [{"new": place, **record} for place, record in enumerate(curve)]) == []


def test_an_error_that_is_measured_and_a_sentence_may_be_others_but_not_vanish(run: dict[str, Any]) -> None:
    assert told(RUN, altered(run, "errors", "O", to=0.125)) == []
    assert told(RUN, altered(run, "max_error", to=None)) == ["max_error: was 'an error', is None"]
    before = unchanged.numbers('{"why": "because it is so"}')
    assert unchanged.differences(before, unchanged.numbers('{"why": "for another reason"}')) == []
    assert unchanged.differences(before, unchanged.numbers('{"why": null}')) == ["why: was 'a text', is None"]


def test_json_lines_and_csv_are_read_as_records() -> None:
    assert unchanged.numbers('{"a": 1}\n{"a": 1}\n') == {"[]": 2, "[0].a": 1, "[1].a": 1}
    assert unchanged.numbers("name,words,fits,max_error\nflash,64,true,1e-7\n") == {
        "[]": 1, "[0].name": "flash", "[0].words": 64, "[0].fits": True, "[0].max_error": "an error",
    }  # fmt: skip


def test_the_examples_hold() -> None:
    assert doctest.testmod(unchanged) == doctest.TestResults(0, attempted=3)


def test_the_stored_numbers_of_some_lines_can_be_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "numbers.json"
    path.write_bytes(unchanged.NUMBERS.read_bytes())
    monkeypatch.setattr(unchanged, "NUMBERS", path)
    wrong = {**STORED, RUN: {**STORED[RUN], "total": 0}, CURVE: {**STORED[CURVE], "[]": 0}}
    unchanged.store(wrong)
    assert unchanged.main(["--write", RUN]) == 0
    assert unchanged.stored() == {**wrong, RUN: STORED[RUN]}
