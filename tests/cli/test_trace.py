"""``iosim trace``: the events of the machine, as lines, as one document and as rows."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path

import pytest

from iosim import KERNELS, Attention, simulate, trace
from iosim.cli import main
from iosim.core.events import Event

PROBLEM = "--n 50 --nk 60 --d 4 --sram 400 --causal"


def answer(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def bare(record: dict[str, object]) -> dict[str, object]:
    """The event in a line, without what makes it a line of a trace."""
    return {name: value for name, value in record.items() if name not in ("version", "last", "check")}


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_lines_are_the_events(capsys: pytest.CaptureFixture[str], sealed: Callable[[Sequence[Event]], str], kernel: str) -> None:
    sram = 2000 if kernel.startswith("fmha") else 400  # which keeps all keys on chip
    found = [json.loads(line) for line in answer(capsys, f"trace {kernel} {PROBLEM.replace('400', str(sram))}").splitlines()]
    problem = Attention(n=50, nk=60, d=4, causal=True)
    assert found == [json.loads(line) for line in sealed(trace(kernel, problem, sram=sram)).splitlines()]
    assert [bare(event) for event in found] == json.loads(json.dumps([asdict(event) for event in trace(kernel, problem, sram=sram)]))
    report = simulate(kernel, problem, sram=sram)
    assert sum(event["words"] for event in found if event["kind"] == "load") == report.reads
    assert sum(event["words"] for event in found if event["kind"] in ("store", "init")) == report.writes
    assert max(event["sram"] for event in found) == report.peak_sram


def test_one_document_and_rows_hold_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [bare(json.loads(line)) for line in answer(capsys, f"trace flash2 {PROBLEM}").splitlines()]
    assert json.loads(answer(capsys, f"trace flash2 {PROBLEM} --json")) == lines
    rows = list(csv.DictReader(io.StringIO(answer(capsys, f"trace flash2 {PROBLEM} --csv"))))
    assert [(row["kind"], row["name"], int(row["words"])) for row in rows] == [(e["kind"], e["name"], e["words"]) for e in lines]
    assert rows[0]["box"] == "0:50 0:4"


def test_a_file_holds_what_would_be_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    printed = answer(capsys, f"trace flash {PROBLEM}")
    assert answer(capsys, f"trace flash {PROBLEM} --out {tmp_path / 'events.jsonl'}") == ""
    assert (tmp_path / "events.jsonl").read_text(encoding="utf-8") == printed
    assert len(list(tmp_path.iterdir())) == 1


REFUSED = re.compile(
    r"iosim: a trace of ([0-9,]+) tiles would take about ([0-9.]+ .B); ask for at most 1,000,000 tiles, about ([0-9.]+ .B), "
)


def in_bytes(told: str) -> float:
    """What a size such as 1.2 GB stands for."""
    amount, unit = told.split()
    return float(amount) * {"kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}[unit]


@pytest.mark.parametrize(("form", "bytes_"), [("", 1.2e9), ("--json", 970e6), ("--csv", 320e6)])
def test_too_many_tiles_are_refused_with_the_size_of_their_file(capsys: pytest.CaptureFixture[str], form: str, bytes_: float) -> None:
    assert main(f"trace flash2 --n 100000 --blocks 4x4 {form}".split()) == 2
    found = REFUSED.match(capsys.readouterr().err)
    assert found is not None
    assert found[1] == "625,000,000"
    assert in_bytes(found[2]) == pytest.approx(625 * in_bytes(found[3]), rel=0.1)  # both to two digits
    assert in_bytes(found[3]) == pytest.approx(bytes_, rel=0.05)


@pytest.mark.parametrize("form", ["", "--json", "--csv"])
@pytest.mark.parametrize("kernel", ["flash2", "standard", "square-tiles-backward"])
def test_the_size_is_about_that_of_the_file(tmp_path: Path, kernel: str, form: str) -> None:
    path = tmp_path / "trace"
    line = f"trace {kernel} --n 200 --nk 300 --d 16 --blocks 16x8 {form}"
    told = io.StringIO()
    told.isatty = lambda: True  # type: ignore[method-assign]
    with redirect_stderr(told):
        assert main([*line.split(), "--out", str(path)]) == 0
    found = re.search(r"tracing (\S+): ([0-9,]+) tiles, a file of about ([0-9.]+ .B)", told.getvalue())
    assert found is not None
    assert found[1] == kernel
    assert in_bytes(found[3]) == pytest.approx(path.stat().st_size, rel=0.1)  # two digits, and typical rows


def test_the_help_says_what_a_check_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert 'the last line says "last":true, and each line ends in a check: a checksum of it and of all lines before it.' in told
    first, *_, last = answer(capsys, "trace flash2 --n 8 --d 4 --sram 128").splitlines()
    assert ("version" in json.loads(first), '"last":true' in last) == (True, True)


def test_a_trace_that_is_told_to_end_leaves_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "iosim", "trace", "flash2", "--n", "900", "--blocks", "1x1", "--out", str(tmp_path / "long.jsonl")]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and not any(path.stat().st_size for path in tmp_path.iterdir()):
        time.sleep(0.02)
    running.terminate()
    _, told = running.communicate(timeout=60)
    assert (running.returncode, told) == (130, "iosim: interrupted\n")
    assert list(tmp_path.iterdir()) == []
