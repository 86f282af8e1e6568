"""``iosim explain KERNEL --symbolic``: the derived form in every form of output, and what does not go with it."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import pytest

from iosim.cli import main
from iosim.predict.formulas import FORMULAS
from iosim.study.formula.check import check_formula


@pytest.fixture(autouse=True)
def hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def ran(capsys: pytest.CaptureFixture[str], line: str) -> tuple[int, str, str]:
    status = main(["explain", *line.split()])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_derived_form_stands_beside_that_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, "flash2 --symbolic")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "flash2: the listing, run once with symbols for its sizes"
    assert "K      read   Tr Nk d             Tr Nk d   equal" in lines
    assert "words        Nq (d + dv + 1) + Tr Nk (d + dv)" in lines
    assert "if square    N (2 d + 1) + 2 Tr N d, where Nq = Nk = N and dv = d" in lines
    assert "products     2 Nq Nk (d + dv) operations" in lines
    assert "for --check  N_q*(d + d_v + 1) + ceil(N_q/Br)*N_k*(d + d_v)" in lines


def test_initial_writes_stand_apart(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capsys, "flash --symbolic")
    moves = [line.split("  ") for line in out.splitlines() if line.startswith("O ")]
    assert [[cell.strip() for cell in cells if cell] for cells in moves] == [
        ["O", "read", "Tc Nq dv", "Tc Nq dv", "equal"],
        ["O", "write", "Tc Nq dv", "Tc Nq dv", "equal"],
        ["O", "initial write", "Nq dv", "Nq dv", "equal"],
    ]


def test_variants_and_dropout_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "flash --symbolic --first-pass create")
    assert status == 0
    assert "O      read   (Tc - 1) Nq dv      (Tc - 1) Nq dv  equal" in out
    status, out, _ = ran(capsys, "pytorch --symbolic --dropout 0.1")
    assert status == 0
    assert out.startswith("pytorch, dropout 0.1: ")
    assert "R      write  Nq Nk" in out


def test_it_is_one_document_or_rows(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = ran(capsys, "flash --symbolic --first-pass create --json")
    found = json.loads(out)
    assert (found["kernel"], found["options"], found["agrees"]) == ("flash", {"first_pass": "create"}, True)
    assert check_formula("flash", found["words"], first_pass="create").holds
    moves = {(move["array"], move["move"]): move["derived"] for move in found["moves"]}
    assert moves["l", "read"] == "(ceil(N_k/Bc) - 1)*N_q"
    assert found["operations"]["matmul"] == "2*N_q*N_k*(d + d_v)"
    _, out, _ = ran(capsys, "flash --symbolic --first-pass create --csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {(row["array"], row["move"]): row["derived"] for row in rows} == moves
    assert {row["equal"] for row in rows} == {"true"}


def test_a_difference_is_shown_and_fails(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    right = FORMULAS["flash2"]
    monkeypatch.setitem(FORMULAS, "flash2", replace(right, terms=lambda *asked: iter(list(right.terms(*asked))[:-1])))
    status, out, err = ran(capsys, "flash2 --symbolic")
    assert status == 1
    assert "LSE    write  Nq                  0         DIFFERENT" in out
    assert "by hand      DIFFERENT" in out
    assert err == "iosim: flash2: what the run gives differs from the closed form by hand for LSE (write)\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("flash2 --symbolic --n 64", "--n would fix what it leaves open"),
        ("flash2 --symbolic --causal", "--causal would fix what it leaves open"),
        ("flash2 --symbolic --blocks 8x8", "--blocks would fix what it leaves open"),
        ("flash2 --symbolic --check N", "--check is a way of its own"),
        ("flash2 --symbolic --of K", "--of is a way of its own"),
        ("flash2 --symbolic --json --csv", "two forms of one answer"),
        ("flash2 --symbolic --first-pass create", "flash2 has no option --first-pass"),
        ("block-sparse --symbolic", "block-sparse moves what its block mask says"),
    ],
)
def test_what_does_not_go_with_it_is_refused_in_a_line(capsys: pytest.CaptureFixture[str], line: str, said: str) -> None:
    status, out, err = ran(capsys, line)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("kernel", ["flash2-backward", "square-tiles-backward"])
def test_lines_keep_to_the_width_of_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = ran(capsys, f"{kernel} --symbolic")
    assert max(map(len, out.splitlines())) <= 80


def test_without_sympy_it_says_what_to_install(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sympy" or name.startswith("iosim.attention.symbolic")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sympy", None)
    status, out, err = ran(capsys, "flash2 --symbolic")
    assert (status, out) == (2, "")
    assert err.startswith("iosim: symbolic runs need sympy")
    assert err.endswith('pip install "iosim[symbolic]"\n')
