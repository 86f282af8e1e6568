"""``iosim explain KERNEL --check FORMULA``: the verdict in every form, and what does not go with it."""

from __future__ import annotations

import csv
import io
import json

import pytest

from iosim.cli import main

RIGHT = "N*(2*d+1)+2*N*d*ceil(N/Br)"
WRONG = "2*N*d*(1+ceil(N/Br))"


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["explain", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_right_formula_holds(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, "flash2", "--check", RIGHT)
    assert (status, err) == (0, "")
    assert out.splitlines()[0] == f"flash2, words: {RIGHT}"
    assert out.splitlines()[1].startswith("holds: equal to the count at all 72 points tried, N from 16 to 100, d from 4 to 7,")


def test_a_wrong_formula_fails_with_the_first_counterexample(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = ran(capsys, "flash2", "--check", WRONG)
    there = "at N=16, d=4, Br=8, Bc=8 it gives 384, but 400 words are counted"
    assert status == 1
    assert err == f"iosim: flash2 does not move {WRONG}: {there}\n"
    assert f"does not hold: {there}" in out
    assert "likely reason: everywhere too few by exactly the words of LSE (the statistics)" in out
    assert out.endswith("the terms: iosim explain flash2\n")


def test_the_verdict_is_one_document_or_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "flash2", "--check", WRONG, "--json")
    found = json.loads(out)
    assert status == 1
    assert found["counterexample"] == {"N": 16, "d": 4, "Br": 8, "Bc": 8, "counted": 400, "value": 384}
    status, out, _ = ran(capsys, "flash2", "--check", RIGHT, "--csv")
    (row,) = csv.DictReader(io.StringIO(out))
    assert (status, row["formula"], row["holds"], row["equal"]) == (0, RIGHT, "true", "72")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("flash2", "--check", "N*d*ceil(N/Br)", "--of", "K"), 0),
        (("flash2", "--check", "N*(d+1)", "--of", "writes"), 0),
        (("flash2", "--check", "N*(2.*d+2)*.5", "--of", "writes"), 0),
        (("flash2", "--check", RIGHT, "--of", "reads"), 1),
        (("flash", "--check", "2*N*d+ceil(N/ceil(M/(4*d)))*(3*N*d+4*N)+N*d+2*N", "--blocks", "paper"), 0),
        (("flash2", "--check", RIGHT, "--causal"), 1),
        (("flash2", "--check", RIGHT, "--causal", "--no-skip"), 0),
        (("flash", "--check", "N*d + N^2/M"), 1),
    ],
)
def test_options_say_what_is_counted(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int) -> None:
    assert ran(capsys, *words)[0] == status


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("flash2", "--check", "Nd"), "a product is written N*d"),
        (("flash2", "--check", "__import__('os').system('true')"), "a formula cannot hold"),
        (("flash2", "--check", "9**9**9"), "a power above 64, in '9**9**9'"),
        (("flash2", "--check", "N+" * 2000 + "N"), "the formula has 4,001 characters; at most 500 are read"),
        (("flash2", "--check", "N/(Br-8)"), "division by zero, in 'N/(Br-8)' at N=16, Br=8"),
        (("flash2", "--check", "N", "--n", "64"), "--check tries one head at many sizes of its own; leave out --n"),
        (("flash2", "--check", "N", "--kv-heads", "1"), "leave out --kv-heads"),
        (("flash2", "--check", "N", "--device", "a100-40gb"), "leave out --device"),
        (("flash2", "--check", "N", "--blocks", "paper"), "where the formula does not name M; leave out --blocks"),
        (("flash2", "--check", "N*M", "--blocks", "8x8"), "a rule chooses the blocks: fit, paper or best, not 8x8"),
        (("flash2", "--check", "N", "--of", "S"), "an array of this kernel: Q, K, V, O, LSE; not 'S'"),
        (("flash2", "--check", "N", "--softmax", "rows"), "flash2 has no option --softmax"),
        (("block-sparse", "--check", "N"), "check a kernel without one, such as flash"),
        (("flash2", "--of", "reads"), "give --check too"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    status, out, err = ran(capsys, *words)
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
