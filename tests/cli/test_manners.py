"""Command line manners: one line for whatever is wrong, exit status 2 or 1, no file half-written, a closed pipe is no error."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

from iosim import predict
from iosim.cli import main, progress
from iosim.cli.files import whole_file
from iosim.cli.group import iosim as group

CLI = [sys.executable, "-m", "iosim"]

Call = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)

    def run(line: str) -> tuple[int, str, str]:
        status = main(line.split())
        out, err = capsys.readouterr()
        return status, out, err

    return run


def refused(call: Call, line: str) -> str:
    """The one line on standard error of a command that exits with 2 and leaves nothing behind."""
    before = set(Path().iterdir())
    status, out, err = call(line)
    assert (status, out) == (2, "")
    assert err.startswith("iosim: ")
    assert err.count("\n") == 1
    assert set(Path().iterdir()) == before
    return err


WRONG = {
    "nonsense": ["'nonsense'", ", ".join(list(group.known)[:3])],
    "--nonsense": ["--nonsense", "iosim --help"],
    "run": ["kernel", "standard, flash, flash2, block-sparse"],
    "explain": ["kernel", "flash2"],
    "run flsh2": ["'flsh2'", "standard, flash, flash2, block-sparse", "did you mean flash2?"],
    "run flash2 --causl": ["--causl", "--causal"],
    "run flash2 --causal true": ["true", "iosim run --help"],
    "run flash2 --n": ["--n", "argument"],
    "run flash2 --n 0": ["--n", "whole number", "'0'"],
    "run flash2 --n 1.5": ["--n", "whole number", "'1.5'"],
    "run flash2 --n 1000000000000": ["--n", "16777216"],
    "run flash2 --d -1": ["--d", "'-1'"],
    "run flash2 --blocks 0x4": ["Br", "whole number", "'0'"],
    "run flash2 --blocks 4": ["fit, paper, best or BRxBC", "'4'"],
    "run flash2 --blocks 64x64 --sram 4096": ["4096 words", "resident: Q(64, 64)", "would fit"],
    "run flash2 --sram 10XB": ["'10XB'", "KiB"],
    "run flash2 --sram 0": ["'0'", ">= 1"],
    "run flash2 --sram 100": ["100 words", "smallest SRAM for any blocks is 261 words"],
    "run flash2 --sram 99999999GiB": ["99999999GiB", "at most"],
    "run flash2 --window 1": ["--window", "LEFT,RIGHT", "'1'"],
    "run flash2 --window=-2,0": ["--window LEFT", "-1"],
    "run flash2 --scale wide": ["--scale", "'wide'"],
    "run flash2 --scale nan": ["scale", "finite"],
    "run flash2 --dtype float12": ["float12", "float32"],
    "run flash2 --seed=-1": ["--seed", "-1"],
    "run flash2 --mask missing.npy": ["missing.npy", "not a file"],
    "run flash2 --mask objects.npy": ["objects.npy", "numpy.save"],
    "run flash2 --mask four.npy": ["(4, 4)", "(1024, 1024)"],
    "run flash2 --first-pass load": ["flash2", "--first-pass", "--no-skip"],
    "run flash --first-pass lod": ["lod", "load", "create"],
    "run block-sparse --blocks 64x64 --block-mask four.npy": ["(4, 4)", "(16, 16)"],
    "run block-sparse --block-mask locl:1": ["'locl:1'", "local:RADIUS"],
    "run flash2 --json --csv": ["--json", "--csv"],
    "run flash2 --plot curve.jpg": ["curve.jpg", ".png, .svg, .pdf"],
    "run flash2 --plot nowhere/curve.png": ["nowhere", "folder"],
    "compare --kernels flash,fash2": ["'fash2'", "did you mean"],
    "compare --kernels flash,flash2 --reuse ideal": ["flash, flash2", "--reuse"],
    "compare --block-mask local:1": ["--blocks 64x64"],
    "compare --sram 10": ["smallest SRAM", "129 words", "261 words"],
    "curve --n 100..50": ["backwards", "50..100"],
    "curve --n 1..20000:1": ["20000 points", "1000"],
    "curve --sram 1KiB..4096": ["words and bytes"],
    "curve --over n --sram 1024..4096": ["--over n", "one --sram"],
    "curve --over sram --n 256,512": ["--over sram", "one --n"],
    "curve --mask four.npy": ["--over sram"],
    "curve --block-mask local:1 --kernels flash": ["block-sparse"],
    "curve --block-mask locl:1": ["'locl:1'"],
    "curve --sram 10..100": ["smallest SRAM"],
    "tiles --sram 10": ["smallest SRAM", "4d = 256"],
    "tiles --blocks best": ["BRxBC"],
    "trace flash2 --sram 100": ["100 words", "261 words"],
    "trace flash2 --out nowhere/events.jsonl": ["nowhere", "folder"],
    "trace flash2 --d 8000000 --sram 1GiB": ["flag", "smaller problem"],
}


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_gets_one_line_that_says_what_would_work(call: Call, line: str) -> None:
    np.save("four.npy", np.ones((4, 4), dtype=bool))
    np.save("objects.npy", np.array([{}]), allow_pickle=True)
    message = refused(call, line)
    assert [part for part in WRONG[line] if part not in message] == []


def test_an_existing_file_is_kept_where_writing_fails(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("events.jsonl").write_text("old", encoding="utf-8")

    def full(*paths: str) -> None:
        raise OSError(28, "No space left on device", paths[0])

    monkeypatch.setattr(os, "replace", full)
    assert "No space left" in refused(call, "trace flash2 --n 16 --out events.jsonl")
    assert Path("events.jsonl").read_text(encoding="utf-8") == "old"


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with whole_file(str(target)) as file:
        file.write(b"all of it")
        assert not target.exists()
    assert target.read_bytes() == b"all of it"

    def half() -> None:
        with whole_file(str(target)) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert target.read_bytes() == b"all of it"
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_is_written_and_not_replaced() -> None:
    with whole_file(os.devnull) as file:
        file.write(b"nothing")
    assert not os.path.isfile(os.devnull)


@pytest.fixture
def wrong_theory(monkeypatch: pytest.MonkeyPatch) -> None:
    right = predict.predict

    def one_word_more(*asked: Any) -> dict[str, predict.Moved]:
        return {name: moved + predict.Moved(reads=1) for name, moved in right(*asked).items()}

    monkeypatch.setattr(predict, "predict", one_word_more)


@pytest.mark.usefixtures("wrong_theory")
def test_a_check_that_fails_exits_with_1_and_says_which(call: Call) -> None:
    for line in ("run flash2 --n 64", "explain flash2 --n 64", "compare --n 64", "tiles --n 64 --kernels flash2"):
        status, out, err = call(f"{line} --json")
        assert status == 1
        assert out.startswith(("{", "["))
        assert err.count("\n") == 1
        assert "predicted counts differ" in err


@pytest.mark.usefixtures("wrong_theory")
def test_a_curve_with_a_wrong_number_exits_with_1(call: Call) -> None:
    status, out, err = call("curve --n 64,128 --kernels flash2")
    assert (status, err) == (1, "iosim: 2 of 2 counts differ from their closed forms\n")
    assert "DIFFER" in out


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("something\nelse"), OverflowError("too large")])
def test_whatever_happens_is_told_in_one_line(call: Call, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(predict, "predict", broken)
    assert refused(call, "run flash2 --n 64")


def test_help_and_version(call: Call) -> None:
    status, out, err = call("")
    assert (status, err) == (0, "")
    assert [name for name in group.known if f"\n  {name} " not in out] == []
    assert call("--version") == (0, "iosim 0.1.0\n", "")
    for name in group.known:
        status, out, err = call(f"{name} --help")
        assert (status, err) == (0, "")
        assert "--sram" in out or name == "exercise"  # where the machine is the exercise's own
        assert f"iosim {name}" in out


def test_huge_problems_are_counted_and_not_executed(call: Call) -> None:
    for line, why in {
        "run flash2 --n 20000": "above 16384",
        "run flash2 --n 2048 --blocks 1x1 --sram 4096": "4,194,304 tiles",
        "run flash2 --n 1024 --d 1000000 --sram 1GiB": "GiB",
    }.items():
        status, out, _ = call(line)
        assert status == 0
        assert "note: counted, not executed" in out
        assert why in out
        assert "oracle" not in out


def test_huge_scales_warn_nobody_twice(call: Call) -> None:
    status, _, err = call("run flash2 --n 64 --scale 1e300")
    assert status == 1
    assert err.count("\n") == 1


@pytest.mark.parametrize("args", [["curve"], ["trace", "flash2", "--n", "2048"]])
def test_a_closed_pipe_is_no_error(args: list[str]) -> None:
    with subprocess.Popen([*CLI, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""


def test_a_standard_error_that_was_closed_costs_nothing_but_the_message() -> None:
    for line, status, told in [("run flash2 --n 64 --sram 4096", 0, "replayed equal"), ("run flash3", 2, "")]:
        closed = ["sh", "-c", f'"{sys.executable}" -m iosim {line} 2>&-']
        done = subprocess.run(closed, stdout=subprocess.PIPE, text=True, check=False)
        assert done.returncode == status
        assert told in done.stdout


def test_an_interrupt_leaves_no_file(tmp_path: Path) -> None:
    target = tmp_path / "events.jsonl"
    code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from iosim.cli import main; sys.exit(main())"
    args = [sys.executable, "-c", code, "trace", "standard", "--n", "4096", "--sram", "1000", "--out", str(target)]
    with subprocess.Popen(args, stderr=subprocess.PIPE, text=True) as process:
        while not any(file.stat().st_size for file in tmp_path.iterdir()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == "iosim: interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("line", ["trace flash2 --n 8 --d 2 --blocks 4x4 --out", "trace flash2 --html"])
def test_a_file_that_cannot_be_written_is_named(call: Call, line: str) -> None:
    assert refused(call, f"{line} /dev/full") == f"iosim: /dev/full: {os.strerror(errno.ENOSPC)}\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_one_line() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([*CLI, "explain", "flash2"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "iosim: standard output: No space left on device\n")


def test_without_matplotlib_a_plot_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None; from iosim.cli import main; sys.exit(main(sys.argv[1:]))"
    args = ["run", "flash2", "--n", "64", "--plot", "bars.png"]
    done = subprocess.run([sys.executable, "-c", code, *args], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "pip install matplotlib" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_help_and_a_curve_do_not_load_matplotlib() -> None:
    code = "import sys; from iosim.cli import main; main([]); main(['curve']); print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_alone_and_cleared_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with progress.working("thinking" * 10):
        assert list(progress.steps(range(5), 5, "counting")) == [0, 1, 2, 3, 4]
    out, err = capsys.readouterr()
    shown = [line for line in err.split("\r") if line.strip()]
    assert out == ""
    assert bool(err) == terminal
    assert [line[:8] for line in shown] == ["thinking", *["counting"] * 5] * terminal
    assert {len(line) for line in err.split("\r")} == ({0, 29} if terminal else {0})  # each covers the last one
    assert err.endswith("\r" + " " * 29 + "\r") == terminal


def test_every_command_is_one_module() -> None:
    for name in group.known:
        module = __import__(f"iosim.cli.commands.{name}", fromlist=["command"])
        assert isinstance(module.command, click.Command)
        assert module.command.name == name
