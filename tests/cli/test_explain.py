"""``iosim explain`` and ``iosim tiles``: sums that equal the counts, and who takes the room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iosim import FORWARD, Attention, simulate

VARIANTS = {
    "standard": ["", "--reuse ideal", "--softmax streamed --causal", "--window 40,9"],
    "flash": ["", "--first-pass create", "--causal --no-skip", "--causal --first-pass create"],
    "flash2": ["", "--causal", "--window 40,0", "--nk 130 --dv 5"],
    "block-sparse": ["", "--skip-empty", "--block-mask local:1+global:1", "--first-pass create --causal"],
    "standard-backward": ["", "--reuse ideal --overflow record", "--softmax streamed --window 40,9"],
    "flash-backward": ["", "--first-pass create --causal", "--first-pass create --accumulator float32", "--dropout 0.1"],
    "flash2-backward": ["", "--dq-pass own --causal", "--accumulator float32"],
    "square-tiles": ["", "--depth one --causal", "--nk 130 --dv 5"],
    "square-tiles-backward": ["", "--depth one --causal", "--dropout 0.1"],
    "pytorch": ["", "--causal --dropout 0.1"],
    "pytorch-backward": ["", "--causal --dropout 0.1"],
    "megatron": ["--dropout 0.1"],
    "megatron-backward": ["--dropout 0.1"],
    "fmha": ["--sram 20000 --overflow record --blocks 16x16"],
    "fmha-backward": ["--sram 30000 --overflow record --blocks 16x16"],
    "released": ["", "--causal"],
    "released-backward": ["", "--causal"],
}


@pytest.mark.parametrize(("kernel", "options"), [(kernel, options) for kernel, variants in VARIANTS.items() for options in variants])
def test_the_terms_add_up_to_the_count(answer: Callable[[str], str], document: Callable[[str], Any], kernel: str, options: str) -> None:
    line = f"explain {kernel} --n 300 --d 16 --heads 3 --sram 6000 {options}"
    found = document(line)
    for term in found["terms"]:
        assert term["times"] * term["words"] == term["total"]
    total = sum(term["total"] for term in found["terms"])
    assert 3 * total == found["total"] == found["predicted_total"]
    assert sum(resident["room"] for resident in found["residents"]) == found["peak_sram"]
    text = answer(line)
    counted = next(text_line for text_line in text.splitlines() if text_line.startswith("counted "))
    assert f"{total:,}" in counted
    assert "equal" in text
    assert f"= {3 * total:,} words" in text


def test_a_term_stands_on_one_line_in_symbols_numbers_and_words(answer: Callable[[str], str]) -> None:
    lines = answer("explain flash2 --sram 49152 --blocks 64x64").splitlines()
    assert "flash2: n=1024 d=64 float32, SRAM 49152 words, blocks 64x64 (Br x Bc)" in lines
    assert any(line.startswith("K        read   Tr Nk d   16 x 65,536  1,048,576  every query tile loads the K") for line in lines)
    assert "grows as    Θ(N²d²/M), M in words" in lines


@pytest.mark.parametrize("columns", [80, 100])
def test_the_text_keeps_to_the_width_of_the_terminal(answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = answer("explain block-sparse --first-pass create").splitlines()
    assert max(map(len, lines)) <= columns
    below = [line.strip() for line in lines if line.startswith(" " * 9)]
    assert ("every visit but the first loads the O of the visit before" in below) == (columns == 80)


def test_tiles_shows_what_each_rule_gives(document: Callable[[str], Any]) -> None:
    found = document("tiles --n 512 --d 32 --sram 8192 --blocks 48x40")
    assert [(record["kernel"], record["rule"]) for record in found] == [(k, r) for k in FORWARD for r in ("paper", "fit", "best", "given")]
    by_rule = {(record["kernel"], record["rule"]): record for record in found}
    for kernel in FORWARD:
        paper, fit, best, given = (by_rule[kernel, rule] for rule in ("paper", "fit", "best", "given"))
        assert (given["block_rows"], given["block_cols"]) == (48, 40)
        assert paper["fits"] == (paper["peak_sram"] <= 8192) == (paper["overflow"] == 0)
        assert fit["fits"] is best["fits"] is True
        if kernel != "block-sparse":  # whose butterfly depends on the blocks
            assert best["total"] <= fit["total"]
        report = simulate(kernel, Attention(n=512, d=32), sram=8192, blocks=(48, 40), overflow="record", execute=False)
        assert (given["total"], given["peak_sram"]) == (report.total, report.peak_sram)


def test_tiles_says_what_does_not_fit_and_who_takes_the_room(answer: Callable[[str], str]) -> None:
    text = answer("tiles --kernels flash2 --sram 16384 --n 1024")
    assert any("over" in line and " paper " in line for line in text.splitlines())
    fit = simulate("flash2", Attention(n=1024, d=64), sram=16384, execute=False)
    assert any(f"{fit.peak_sram:,}" in line and f"{fit.total:,}" in line and " yes " in line for line in text.splitlines())
    last = " ".join(text.split("blocks fit:\n")[1].split())
    assert last.startswith("flash2 ")
    rooms = [int(part.strip().split()[0].replace(",", "")) for part in last.removeprefix("flash2 ").split(" + ")]
    assert sum(rooms) == fit.peak_sram
    assert rooms == sorted(rooms, reverse=True)


def test_tiles_explains_rules_that_find_nothing(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    text = answer("tiles --kernels standard,flash2 --sram 200 --n 64")
    assert text.count("the paper's blocks need M >= 4d = 256 words but the SRAM holds 200") == 1
    assert "no blocks of flash2 fit in 200 words" in text
    found = {(r["kernel"], r["rule"]): r["error"] for r in document("tiles --kernels standard,flash2 --sram 200 --n 64")}
    assert found["standard", "fit"] is None
    assert found["flash2", "fit"] is not None
