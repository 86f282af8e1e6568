"""``iosim paper``: what a reader sees, exact records, a figure, status 1 where a claim fails, and one line where data makes no sense."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from matplotlib.axes import Axes

from iosim.attention.run import report
from iosim.cli import main
from iosim.cli.commands import run
from iosim.cli.commands.paper import PAGES as NAMES
from iosim.cli.group import iosim as group
from iosim.show.plots.paper import BYTES, TIME, figure
from iosim.study import paper
from iosim.study.published.datasets import DATA

PAGES = [*NAMES, *(f"runtimes --table {number}" for number in (7, 11, 18))]


@pytest.fixture(autouse=True)
def hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def answer(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(["paper", *shlex.split(line)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def records(capsys: pytest.CaptureFixture[str], line: str = "") -> Any:
    return json.loads(answer(capsys, f"{line} --json"))["numbers"]


def refused(capsys: pytest.CaptureFixture[str], line: str) -> str:
    assert main(["paper", *shlex.split(line)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("iosim: ")
    assert err.count("\n") == 1
    return err


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """A data file with something changed, and the CSV file beside it, if it names one."""
    for path in DATA.glob(f"{name}.*"):
        text = path.read_text(encoding="utf-8")
        (folder / path.name).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder / f"{name}.toml"


# What a reader sees


def test_the_summary_has_a_line_for_each_published_thing(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for line in (
        "GB, Standard 40.3 40.27 0.999 agrees",
        "GB, FlashAttention 4.4 4.429 1.01 agrees",
        "GFLOP, Standard 66.6 824.6 12.4 no fit",
        "ms, FlashAttention 7.3 9.175 1.26 no fit",
        "GB 0.939..6.578 0.9395..6.577 1.00 agrees",
        "PyTorch, Megatron 30 numbers 0.800..1.14 agrees",
        "FlashAttention 15 numbers 0.972..1.00 agrees",
        "PyTorch, mask, backward 12 numbers 0.389..0.647 no fit",
        "safe 4 4 1.00 agrees",
    ):
        assert line in lines
    words = " ".join(lines)
    assert "within 21 %, 28 of 30 within 15 %" in words
    assert "Of 77 it is claimed that ours agree: all do." in words
    assert "one bandwidth, 0.972 TB/s, and one rate, 65.5 TFLOP/s" in words
    assert [name for name in filter(None, NAMES) if f": iosim paper {name}" not in text] == []


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("line", PAGES)
def test_the_text_keeps_to_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, line: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert [each for each in answer(capsys, line).splitlines() if len(each) > columns] == []


def test_figure_2_says_what_the_two_numbers_consist_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = " ".join(answer(capsys, "fig2").split())
    assert "Standard moves N x N: S 4, P 3, Pd 3, R 1, dP 2, dS 3, dPd 2; together 18; N x d: " in words
    assert "FlashAttention moves N x d: Q 8, K 2, V 2, O 8, dO 4, dQ 7, dK 1, dV 1; together 33." in words
    assert "dropout 0.1, mask: key padding (assumed: dtype, dropout, mask)" in words
    assert "agrees: published times lie on 1.86 ms a percent + 6.43 ms, r^2 = 0.9993." in words
    assert "agrees: counted bytes lie on 0.703 GB a percent + 5.4 GB, r^2 = 1.0000." in words
    for line in ("64 GB 6.578 6.577 1.00 agrees within 0.1 %", "512 GB 0.939 0.9395 1.00 agrees within 0.1 %"):
        assert line in words
    for number in ("137.4 GFLOP", "132 TFLOP/s", "4 x 2.81 = 11.2 ms", "188.4 / 16 = 11.8 ms"):
        assert number in words


def test_memory_says_what_the_machine_does_not_track(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "memory")
    assert re.search(r"PyTorch Attention +4,096 +17,024 +17,024= +16,896 +12,736\n", text)
    words = " ".join(text.split())
    assert "N = 128 to 4,096: listed, not declared: unnamed 1, unnamed 2; declared, not listed: nothing." in words
    assert "N = 512 to 65,536: listed, not declared: Q_unpadded, K_unpadded, V_unpadded, O_tmp or dQ_tmp;" in words


def test_runtimes_show_a_ratio_for_every_cell_that_the_model_speaks_of(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "runtimes")
    assert re.search(r"\n +19 +bwd +Megatron +0\.800 +0\.904\n", text)
    assert re.search(r"\n +20 +fwd\+bwd +0\.976 +0\.991 +0\.998 +1\.00 +1\.00\n", text)
    assert re.search(r"\n +13 +bwd +mask +0\.389 +0\.394 +0\.394\n", text)
    words = " ".join(text.split())
    assert "Megatron, Table 9: no fit. Forward, from N = 1024 on: takes longer than Tables 10 and 11 leave for it" in words


def test_one_table_in_milliseconds(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "runtimes --table 18")
    assert re.search(r"\nfwd +4,096 +16\.47 +17\.96 +1\.09\* +8\.42 +8\.389 +0\.996\*\n", text)
    assert re.search(r"\nReformer +1\.77 +2\.82", text)
    assert re.search(r"\nbwd +1,024 +2\.44 +2\.072 +0\.849=", answer(capsys, "runtimes --table 19"))
    assert "Known: The backward pass of the mask costs far more" in answer(capsys, "runtimes --table 13")
    (table,) = {record["table"] for record in records(capsys, "runtimes --table 13")}
    assert table == 13


def test_ascii_terminals_show_the_numbers() -> None:
    env = {"PYTHONIOENCODING": "ascii", "PATH": "", "COLUMNS": "100"}
    done = subprocess.run([sys.executable, "-m", "iosim", "paper"], capture_output=True, text=True, check=True, env=env)
    assert "40.27" in done.stdout
    assert done.stderr == ""


def test_a_closed_pipe_is_no_error() -> None:
    with subprocess.Popen([sys.executable, "-m", "iosim", "paper", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == b""


# Records


def test_json_has_exact_numbers_their_source_and_what_made_ours(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(answer(capsys, "--json"))
    assert list(document) == ["fits", "findings", "numbers"]
    assert round(document["fits"]["bandwidth_bytes_per_s"] / 1e12, 4) == 0.9717
    assert sum(one["numbers"] for one in document["findings"]) == len(document["numbers"])
    first = document["numbers"][0]
    assert {name: first[name] for name in ("published", "unit", "ours", "counted_bytes", "kernels", "agrees", "at_most_off")} == {
        "published": 40.3, "unit": "GB", "ours": 40.2653184, "counted_bytes": 40_265_318_400, "kernels": "pytorch + pytorch-backward",
        "agrees": True, "at_most_off": 0.05,
    }  # fmt: skip
    assert first["options"] == "reuse=ideal, dropout 0.1, a mask that moves no words, blocks 16x256"
    assert first["ratio"] == first["ours"] / first["published"]
    assert "arXiv 2205.14135" in first["source"]
    cell = next(one for one in document["numbers"] if one.get("table") == 21 and one["method"] == "PyTorch Attention" and one["n"] == 4096)
    assert (cell["listed_bytes"], cell["declared_bytes"], cell["listed_only"]) == (17024 * 2**20, 16896 * 2**20, "unnamed 1, unnamed 2")


def test_every_page_gives_its_part_of_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    every = records(capsys)
    for page in ("fig2", "runtimes", "memory", "softmax"):
        assert records(capsys, page) == [one for one in every if one["thing"] == page]


def test_csv_is_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer(capsys, "memory --csv"))))
    assert [(row["method"], row["n"], float(row["published"]), row["command"]) for row in rows] == [
        (one["method"], str(one["n"]), one["published"], one["command"] or "") for one in records(capsys, "memory")
    ]


def test_the_command_beside_a_number_counts_the_same(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One command for each kernel and set of options; without the recount of its trace, which takes minutes."""
    monkeypatch.setattr(run, "report_of", lambda plan, _: report(plan, execute=False, replay=False))
    commands = {(one["kernels"], one["options"]): one for one in records(capsys) if one["kernels"]}
    assert len(commands) > 25
    for one in commands.values():
        program, *rest = shlex.split(one["command"])
        assert program == "iosim"
        assert main([*rest, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["total_bytes"], found["flops"]["matmul"]) == (one["counted_bytes"], one["counted_flops"])


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell to paste into")
def test_a_command_that_takes_two_lines_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    shown = answer(capsys, "fig2").partition("counted by\n")[2].partition("\n\n")[0]
    assert " \\\n" in shown
    pasted = subprocess.run(["sh"], input=f'iosim() {{ echo "iosim $*"; }}\n{shown}\n', capture_output=True, text=True, check=True)
    assert pasted.stderr == ""
    assert len(pasted.stdout.splitlines()) == 5
    assert set(pasted.stdout.splitlines()) == {one["command"] for one in records(capsys, "fig2") if "Figure 2, left" in one["section"]}


def test_the_commands_of_softmax_run(capsys: pytest.CaptureFixture[str]) -> None:
    for one in records(capsys, "softmax"):
        program, *rest = shlex.split(one["command"])
        assert program == "python"
        done = subprocess.run([sys.executable, *rest], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str((one["published_loads"] * 4096, one["published_stores"] * 4096))


# Claims that fail


@pytest.mark.parametrize(
    ("name", "old", "new", "line", "told"),
    [
        ("figure_2_left", "40.3", "41.3", "fig2", "1 claim does not hold: Figure 2, left, HBM of Standard: 41.3 GB published, 40.2653"),
        ("figure_2_middle", "3.356", "3.36", "fig2", "Figure 2, middle, HBM at Bc = 128: 3.36 GB published, 3.35544 ours"),
        ("figure_2_right", "60.3", "90.3", "fig2", "Figure 2, right, ms: published times lie on"),
        ("tables_9_21", "209,418", "210,418", "memory", "Table 21, FlashAttention, fwd+bwd, N = 1024: 210 MiB published, 209 ours"),
        ("tables_9_21", "0.80,2.59", "0.80,2.99", "runtimes", "Table 19, Megatron, bwd, N = 1024: 2.99 ms published, 2.07"),
        ("tables_9_21", "5.45,21.57", "5.45,19.57", "runtimes", "Table 19, FlashAttention, bwd, N = 4096: 19.57 ms published, 20.97"),
        ("online_softmax", "loads = 3", "loads = 2", "softmax", "accesses of safe softmax: 3 an element published, 4 ours"),
    ],
)  # fmt: skip
def test_a_claim_that_fails_exits_with_1_and_says_which(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, old: str, new: str, line: str, told: str
) -> None:
    path = changed(tmp_path, name, old, new)
    for page in (line, ""):
        assert main(["paper", *page.split(), "--data", str(path)]) == 1
        out, err = capsys.readouterr()
        assert told in err
        assert err.count("\n") == 1
        assert "DIFFERS" in out


def test_so_many_failures_are_counted(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = changed(
        tmp_path, "tables_9_21", "18,fwd,0,0,PyTorch Attention,ms,0.21,0.22,0.43,1.27", "18,fwd,0,0,PyTorch Attention,ms,0.21,0.22,0.43,9"
    )
    assert main(["paper", "--data", str(path)]) == 1
    out, err = capsys.readouterr()
    (many,) = re.findall(r"^iosim: (\d+) claims do not hold: ", err)
    assert f"; and {int(many) - 3} more" in err
    assert f"{many} of the claims do NOT hold" in " ".join(out.split())
    assert " of 30 within 15 %" in out


def test_a_digit_that_is_not_claimed_changes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = changed(tmp_path, "figure_2_left", "75.2", "175.2")
    assert "175.2" in answer(capsys, f"fig2 --data {path}")


# What makes no sense


WRONG = {
    "fig3": "there is no page 'fig3'; ask for fig2, runtimes, memory, softmax",
    "memory --table 18": "ask for iosim paper runtimes --table NUMBER",
    "runtimes --table 21": "Table 21 holds no times; those that do are 7, 9, 10",
    "runtimes --table eighteen": "--table must be a whole number",
    "--plot figure.png": "only Figure 2 is drawn; ask for iosim paper fig2 --plot FILE",
    "fig2 --plot figure.jpg": ".png, .svg, .pdf",
    "--json --csv": "ask for one of them",
    "--data missing.toml": "missing.toml cannot be read",
    "fig2 memory": "iosim paper --help",
}


@pytest.mark.parametrize("line", WRONG)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], line: str) -> None:
    assert WRONG[line] in refused(capsys, line)
    assert not os.path.exists("figure.png")


@pytest.mark.parametrize("line", ["", "fig2", "runtimes", "memory", "softmax"])
def test_data_that_does_not_parse_is_refused_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str) -> None:
    path = changed(tmp_path, "figure_2_left", "gigabytes = 40.3", "gigabytes = much")
    assert f"{path}, line " in refused(capsys, f"{line} --data {path}")
    path.write_text(path.read_text(encoding="utf-8").replace("= much", '= "much"'), encoding="utf-8")
    assert "gigabytes must be a number, not 'much'" in refused(capsys, f"{line} --data {path}")


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = answer(capsys, "--help")
    assert "--data FILE.toml" in text
    assert "--table NUMBER" in text
    assert "paper" in group.known
    assert isinstance(run.command, click.Command)


# The figure


def test_figure_2_is_drawn_to_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name, magic in {"figure.png": b"\x89PNG", "figure.svg": b"<?xml"}.items():
        target = tmp_path / name
        assert main(["paper", "fig2", "--json", "--plot", str(target)]) == 0
        assert capsys.readouterr().err == f"iosim: wrote {target}\n"
        assert target.read_bytes().startswith(magic)


def drawn(axes: Axes, colour: str, marker: str) -> list[list[float]]:
    """The heights of what is drawn in a colour and with a marker."""
    return [np.asarray(one.get_ydata(), float).tolist() for one in axes.lines if (one.get_color(), one.get_marker()) == (colour, marker)]


def test_published_is_hollow_and_ours_a_line_in_three_panels() -> None:
    made = paper.figure2(paper.load())
    left, middle, right, time, traffic = figure(made).axes
    assert drawn(middle, BYTES, "o") == [[6.578, 3.356, 1.744, 0.939]]
    assert drawn(middle, BYTES, ".") == [[point.traffic.ours for point in made.middle]]
    assert drawn(time, TIME, "s") == [[8.6, 4.7, 3.3, 3.2]]
    assert drawn(time, TIME, ".") == [[point.time.ours for point in made.middle]]
    assert drawn(right, TIME, "s") == [[point.published.milliseconds for point in made.right.sparse]]
    assert drawn(right, TIME, ".") == [[point.time.ours for point in made.right.points]]
    assert drawn(traffic, BYTES, ".") == [[point.gigabytes for point in made.right.points]]
    assert [188.4, 188.4] in drawn(right, TIME, "None")
    hollow = {one.get_markerfacecolor() for axes in (middle, right, time) for one in axes.lines if one.get_marker() in ("o", "s")}
    assert hollow == {"white"}
    written = [text.get_text() for text in left.texts]
    assert [text for text in ("40.3", "40.27", "4.4", "4.429", "66.6", "824.6", "7.3") if text not in written] == []
    assert all(axes.get_ylim()[0] == 0 for axes in (middle, right, time, traffic))


def test_a_figure_of_ones_own_data_with_a_method_that_nobody_knows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = changed(tmp_path, "figure_2_left", '"Standard"', '"Slow"')
    assert main(["paper", "fig2", "--data", str(path), "--plot", str(tmp_path / "mine.svg")]) == 0
    assert "no kernel" in capsys.readouterr().out
