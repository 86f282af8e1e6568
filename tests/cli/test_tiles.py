"""``iosim tiles --best`` and ``--plot``: the fewest words, what other choices of blocks cost, and the staircase over M."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iosim import FORWARD, Attention, Blocks, Capacity, predict
from iosim.cli import main
from iosim.cli.commands.tiles import ends
from iosim.cli.pages.tiles_best import percent
from iosim.cli.pages.tiles_frontier import MOST
from iosim.core.options import Options
from iosim.predict.blocks.rules import Rule
from iosim.study import published


def words(kernel: str, problem: Attention, rows: int, cols: int) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, Blocks(rows, cols)).values())


def powers(n: int) -> list[int]:
    return sorted({min(n, 2**power) for power in range(n.bit_length() + 1)})


def divisors(n: int) -> list[int]:
    return [side for side in range(1, n + 1) if n % side == 0]


# one M


def test_every_choice_of_blocks_stands_beside_the_best(document: Callable[[str], Any]) -> None:
    problem, amount = Attention(n=60, d=8), 600
    found = document("tiles --best --n 60 --d 8 --sram 600 --kernels standard,flash,flash2")
    assert [(r["kernel"], r["rule"]) for r in found] == [
        (kernel, rule) for kernel in ("standard", "flash", "flash2") for rule in ("best", "powers of two", "divisors", "fit", "paper")
    ]
    for kernel in ("standard", "flash", "flash2"):
        rows = {record["rule"]: record for record in found if record["kernel"] == kernel}
        sides = {"best": list(range(1, 61)), "powers of two": powers(60), "divisors": divisors(60)}
        for rule, every in sides.items():
            pairs = [(rows, cols) for rows in every for cols in every]
            fitting = [pair for pair in pairs if predict.residents(kernel, problem, Blocks(*pair)) <= amount]
            assert rows[rule]["total"] == min(words(kernel, problem, *pair) for pair in fitting)
        for record in rows.values():
            blocks = Blocks(record["block_rows"], record["block_cols"])
            assert (
                record["total"]
                == words(kernel, problem, blocks.rows, blocks.cols)
                == record["predicted_reads"] + record["predicted_writes"]
            )
            assert record["peak_sram"] == predict.residents(kernel, problem, blocks)
            assert record["fits"] == (record["peak_sram"] <= amount)
            assert record["penalty_percent"] == pytest.approx(100 * (record["total"] / rows["best"]["total"] - 1), abs=1e-9)
        rules: tuple[Rule, ...] = ("fit", "paper")
        for rule in rules:
            chosen = predict.choose_blocks(kernel, problem, Capacity(amount), rule)
            assert (rows[rule]["block_rows"], rows[rule]["block_cols"]) == (chosen.rows, chosen.cols)
    assert any(record["penalty_percent"] > 20 for record in found if record["rule"] == "powers of two")
    assert any(not record["fits"] for record in found if record["rule"] == "paper")


def test_the_page_says_what_the_records_do(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    line = "tiles --best --n 1024 --d 64 --sram 12288 --kernels flash2"
    lines = answer(line).splitlines()
    assert lines[0] == "tiles: n=1024 d=64 float32, SRAM 12288 words: the fewest words of all blocks that fit"
    for record, shown in zip(document(line), lines[4:], strict=True):
        parts = [f"{record['block_rows']}x{record['block_cols']}", f"{record['total']:,}", f"{record['peak_sram']:,}", record["rule"]]
        assert all(part in shown for part in parts)
        assert record["rule"] == "best" or str(percent(record["penalty_percent"])) in shown
        assert shown.endswith("yes" if record["fits"] else f"{record['overflow']:,} over")


def test_masks_bytes_heads_and_variants_are_searched_too(document: Callable[[str], Any]) -> None:
    line = "tiles --best --n 96 --d 8 --sram 3KiB --dtype float16 --causal --heads 6 --kv-heads 2 --kernels flash --first-pass create"
    best, two, *_ = document(line)
    problem = Attention(n=96, d=8, dtype="float16", causal=True, heads=6, kv_heads=2)
    create = Options(first_pass="create")
    chosen = predict.choose_blocks("flash", problem, Capacity(3 * 1024, "bytes"), "best", create)
    assert (best["block_rows"], best["block_cols"]) == (chosen.rows, chosen.cols)
    pairs = [Blocks(rows, cols) for rows in powers(96) for cols in powers(96)]
    fitting = [pair for pair in pairs if predict.residents("flash", problem, pair, create, "bytes") <= 3 * 1024]
    assert two["total"] == 2 * min(sum(m.reads + m.writes for m in predict.predict("flash", problem, b, create).values()) for b in fitting)
    assert two["sram_unit"] == "bytes"


def test_packed_queries_are_one_axis(document: Callable[[str], Any]) -> None:
    found = document("tiles --best --n 20 --d 8 --heads 3 --kv-heads 1 --pack --sram 5000 --kernels flash2")
    divided = next(record for record in found if record["rule"] == "divisors")
    assert divided["block_rows"] == 60  # rows of all three heads
    assert divided["penalty_percent"] == 0


def test_where_nothing_fits_the_row_says_what_would(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    text = answer("tiles --best --sram 200 --kernels flash2,standard")
    assert any(line.startswith("flash2 ") and line.endswith("does not fit, needs 261 words") for line in text.splitlines())
    assert "note: the paper's blocks need M >= 4d = 256 words but the SRAM holds 200" in text
    (row,) = document("tiles --best --sram 200 --kernels flash2")
    assert (row["needs"], row["fits"], row["block_rows"], row.get("total")) == (261, False, None, None)
    (enough, *_) = document("tiles --best --sram 261 --kernels flash2")
    assert (enough["fits"], enough["peak_sram"]) == (True, 261)
    assert "needs 7 bytes" in answer("tiles --best --n 1 --nk 1 --d 1 --dtype float8_e5m2 --sram 3B --kernels standard")


def test_words_under_masks_of_their_own_are_not_compared(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    found = document("tiles --best --n 256 --d 16 --sram 4096 --kernels block-sparse")
    assert [record["penalty_percent"] for record in found] == [None] * 5
    assert "block-sparse has another mask in other blocks" in answer("tiles --best --n 256 --d 16 --sram 4096")
    assert "flash2 has another mask" in answer("tiles --best --n 256 --d 16 --sram 4096 --kernels flash2 --block-mask local:1")


# the two accountings


def test_the_ideal_accounting_names_no_statistics(document: Callable[[str], Any]) -> None:
    line = "tiles --best --n 256 --d 64 --sram 8320 --kernels flash2"
    found = document(f"{line} --accounting both")
    best, ideal = found[0], found[-1]
    assert (best["accounting"], ideal["accounting"], ideal["rule"]) == ("honest", "ideal", "best, ideal")
    assert ideal["block_rows"] == 8320 // (2 * 65) == 64  # 2 Br (d + 1) words
    assert ideal["peak_sram"] == 8320
    assert ideal["total"] == 2 * 256 * 64 + 4 * 2 * 256 * 64  # and no LSE
    assert ideal["penalty_percent"] == pytest.approx(100 * (ideal["total"] / best["total"] - 1), abs=1e-9)
    alone = document(f"{line} --accounting ideal")
    assert [record["rule"] for record in alone] == ["best, ideal", "powers of two, ideal", "divisors, ideal"]
    assert {record["accounting"] for record in alone} == {"ideal"}
    honest = document(f"{line} --accounting honest")
    assert honest == found[:-1] == document(line)


def test_the_ideal_accounting_says_what_would_fit(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    assert "does not fit, needs 130 words" in answer("tiles --best --n 256 --sram 129 --kernels flash2 --accounting ideal")
    (row, *_) = document("tiles --best --n 256 --sram 520B --kernels flash2 --accounting ideal")
    assert (row["peak_sram"], row["sram_unit"], row["block_rows"]) == (520, "bytes", 1)


def test_the_points_of_the_mapper_stand_beside_its_own_problem_alone(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    points = published.mapper_frontier()
    line = "tiles --best --n 256 --d 32 --kernels flash2 --accounting ideal"
    whole = [record for record in document(f"{line} --sram 1..20000") if record["kernel"] == "mapper"]
    assert [(record["sram"], record["total"]) for record in whole] == [(point.sram, point.words) for point in points]
    assert all(record["total"] == record["ideal_total"] <= record["honest_total"] for record in whole)
    (one,) = [record for record in document(f"{line} --sram 2200") if record["kernel"] == "mapper"]
    assert one["sram"] == 2112
    some = [record["sram"] for record in document(f"{line} --sram 2200..3000") if record["kernel"] == "mapper"]
    assert some == [2112, 2442, 2838]
    text = answer(f"{line} --sram 2200..3000")
    assert points.source.split(" (")[0] in text
    assert "flash2 37x1" in text
    assert "LSE is stored" in text
    for other in ("--n 255 --d 32", "--n 256 --d 32 --heads 2", "--n 256 --d 32 --nk 128", "--n 256 --d 32 --dropout 0.1"):
        found = document(f"tiles --best {other} --kernels flash2 --accounting ideal --sram 2200")
        assert "mapper" not in {record["kernel"] for record in found}
    assert "mapper" not in {r["kernel"] for r in document("tiles --best --n 256 --d 32 --kernels flash2 --sram 2200")}


# over a range of M


def test_every_step_is_given_and_is_the_frontier(document: Callable[[str], Any]) -> None:
    problem = Attention(n=300, d=16, heads=2)
    found = document("tiles --best --n 300 --d 16 --heads 2 --sram 300..9000 --kernels flash2,square-tiles")
    for kernel in ("flash2", "square-tiles"):
        for sides in ("all", "powers", "divisors"):
            mine = [record for record in found if (record["kernel"], record["sides"]) == (kernel, sides)]
            known = predict.frontier(kernel, problem, upto=9000, sides=sides)
            first = int(known.at(300))
            assert [record["sram"] for record in mine] == known.sram[first:].tolist()
            assert [record["total"] for record in mine] == (2 * known.words[first:]).tolist()
            for record in (mine[0], mine[-1]):
                blocks = Blocks(record["block_rows"], record["block_cols"])
                assert predict.residents(kernel, problem, blocks) == record["sram"]
                assert 2 * words(kernel, problem, blocks.rows, blocks.cols) == record["total"]


def test_a_step_is_what_one_m_gives(document: Callable[[str], Any]) -> None:
    found = document("tiles --best --n 100 --d 8 --sram 60..2000 --kernels standard")
    least = {sides: [record for record in found if record["sides"] == sides] for sides in ("all", "powers", "divisors")}
    names = {"all": "best", "powers": "powers of two", "divisors": "divisors"}
    for amount in (60, 99, 100, 700, 2000):  # a row of S does not fit in the first two: the softmax is streamed
        rows = {record["rule"]: record["total"] for record in document(f"tiles --best --n 100 --d 8 --sram {amount} --kernels standard")}
        for sides, steps in least.items():
            assert rows[names[sides]] == [step["total"] for step in steps if step["sram"] <= amount][-1]


def test_the_table_is_short_and_counts_the_rest(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    line = "tiles --best --n 1021 --d 64 --sram 1..65536 --kernels flash2"
    steps = [record for record in document(line) if record["sides"] == "all"]
    text = answer(line)
    assert f"flash2, honest accounting: {len(steps)} steps, of which {MOST} are shown" in text
    shown = [row for row in text.splitlines() if "x1 " in row]
    assert len(shown) == MOST
    assert shown[0].split()[:3] == ["261", f"{steps[0]['total']:,}", "1x1"]
    assert shown[-1].split()[:3] == [f"{steps[-1]['sram']:,}", f"{steps[-1]['total']:,}", f"{steps[-1]['block_rows']}x1"]
    worst = predict.worst_penalty("flash2", Attention(n=1021, d=64), "powers", upto=65536)
    assert f"powers of two {percent(100 * (worst.ratio - 1))} at M = {worst.sram:,}" in text
    rows = list(csv.DictReader(io.StringIO(answer(f"{line} --csv"))))
    assert [int(row["total"]) for row in rows if row["sides"] == "all"] == [step["total"] for step in steps]
    few = answer("tiles --best --n 16 --d 4 --sram 1..2000 --kernels flash2")
    assert "are shown" not in few


@pytest.mark.parametrize("first", [60, 100, 131, 250, 333, 500])
def test_the_worst_is_that_of_every_m_of_the_range(answer: Callable[[str], str], first: int) -> None:
    text = " ".join(answer(f"tiles --best --n 100 --d 8 --sram {first}..640 --kernels flash2").split())
    srams = np.arange(first, 641)
    every, powers_, divided = (predict.frontier("flash2", Attention(100, 8), sides=sides) for sides in ("all", "powers", "divisors"))
    told = []
    for name, some in (("powers of two", powers_), ("divisors", divided)):
        ratios = some.words[some.at(srams)] / every.words[every.at(srams)]
        told.append(f"{name} {percent(100 * (ratios.max() - 1))} at M = {srams[ratios.argmax()]:,}")
    assert f"at worst: {', '.join(told)}" in text


@pytest.mark.parametrize("mask", ["--causal", "--window 4,0"])
def test_under_a_mask_both_accountings_are_the_honest_one_and_a_note(
    answer: Callable[[str], str], document: Callable[[str], Any], refused: Callable[[str], str], mask: str
) -> None:
    line = f"tiles --best --n 64 --d 8 --kernels flash {mask}"
    for sram in ("500", "500..600"):
        text = answer(f"{line} --sram {sram} --accounting both")
        note = "note: the ideal accounting is known for flash and flash2 without a mask, not for flash under a mask"
        assert text.rstrip("\n") == answer(f"{line} --sram {sram}").rstrip("\n") + f"\n{note}"
        assert document(f"{line} --sram {sram} --accounting both") == document(f"{line} --sram {sram}")
        assert "without a mask" in refused(f"{line} --sram {sram} --accounting ideal")


def test_a_block_mask_has_no_ideal_either(answer: Callable[[str], str], refused: Callable[[str], str]) -> None:
    line = "tiles --best --n 64 --d 8 --kernels flash --block-mask local:1 --sram 500 --accounting"
    assert "note: the ideal accounting is known without a mask, not for flash under --block-mask" in answer(f"{line} both")
    assert "not for flash under --block-mask" in refused(f"{line} ideal")


def test_a_range_too_small_says_what_would_fit(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    line = "tiles --best --sram 1..200 --kernels flash2,standard"
    assert "flash2, honest accounting: does not fit, needs 261 words" in answer(line)
    missing = next(record for record in document(line) if record["kernel"] == "flash2")
    assert missing["error"] == "does not fit, needs 261 words"
    assert "flash2, ideal accounting: does not fit, needs 130 words" in answer(
        "tiles --best --sram 1..100 --kernels flash2 --accounting ideal"
    )


def test_a_kernel_without_a_frontier_is_noted_beside_others(answer: Callable[[str], str]) -> None:
    text = answer("tiles --best --n 64 --d 8 --sram 100..2000")
    assert [name for name in FORWARD if f"{name}, honest accounting" not in text] == ["block-sparse"]
    assert "note: block-sparse has a frontier under a block mask only" in text


# what is refused, and the figure


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("tiles --sram 100..2000", ["add --best"]),
        ("tiles --accounting both", ["add --best"]),
        ("tiles --best --blocks 4x4", ["--blocks", "leave one out"]),
        ("tiles --best --sram 2000..100", ["backwards", "100..2000"]),
        ("tiles --best --sram 1KiB..2000", ["words and bytes"]),
        ("tiles --best --sram 1..2..3", ["LO..HI"]),
        ("tiles --best --sram 1..9:2", ["LO..HI"]),
        ("tiles --best --sram 1..many", ["'many'"]),
        ("tiles --best --sram 16KiB..64KiB", ["words", "--sram 4096..16384"]),
        ("tiles --best --sram 100..2000 --plot tiles.png", ["one M"]),
        ("tiles --best --sram 100..20000 --block-mask local:1", ["--block-mask"]),
        ("tiles --best --sram 100..20000 --kernels block-sparse", ["block mask"]),
        ("tiles --best --accounting ideal --kernels standard", ["flash and flash2", "standard"]),
        ("tiles --best --accounting ideal --kernels flash2 --causal", ["without a mask"]),
        ("tiles --best --accounting ideal --kernels flash2 --heads 8 --kv-heads 2 --pack", ["packed heads", "leave --pack out"]),
        ("tiles --best --accounting both --kernels flash2 --heads 8 --kv-heads 2 --pack --sram 1..9", ["leave --pack out"]),
        ("tiles --best --causal --kernels square-tiles --n 2048 --sram 100..50000", ["pairs of blocks at most", "ask for fewer rows"]),
        ("tiles --best --device h100 --sram 100..2000", ["--sram and --device"]),
        ("tiles --plot tiles.png --kernels block-sparse", ["nothing to draw"]),
        ("tiles --best --plot tiles.png --sram 10", ["nothing to draw"]),
        ("tiles --plot tiles.png --n 64 --kernels standard,flash,flash2,square-tiles,released", ["4 kernels", "--kernels"]),
    ],
)
def test_what_is_wrong_gets_one_line(
    refused: Callable[[str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, parts: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused(line)
    assert [part for part in parts if part not in message] == []
    assert list(tmp_path.iterdir()) == []


def test_a_range_is_two_ends() -> None:
    assert ends("--sram", "4096") == (Capacity(4096),)
    assert ends("--sram", "1..100") == (Capacity(1), Capacity(100))
    assert ends("--sram", "1KiB..2KiB") == (Capacity(1024, "bytes"), Capacity(2048, "bytes"))


def test_percents_are_short() -> None:
    found = [percent(value) for value in (None, 0.0, 0.0004, 5.131, -23.44, 99.96, 25400.4)]
    assert found == [None, "0 %", "+0.0004 %", "+5.13 %", "-23.4 %", "+100 %", "+25,400 %"]


@pytest.mark.parametrize(
    "line", ["tiles --n 64 --d 8 --sram 2000 --kernels flash2,block-sparse", "tiles --best --n 64 --d 8 --sram 2000 --kernels flash"]
)
def test_the_map_is_drawn_beside_either_page(
    answer: Callable[[str], str], capsys: pytest.CaptureFixture[str], tmp_path: Path, line: str
) -> None:
    plain = answer(line)
    target = tmp_path / "tiles.svg"
    assert main([*line.split(), "--plot", str(target)]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == (plain, f"iosim: wrote {target}\n")
    assert b"</svg>" in target.read_bytes()
    assert list(tmp_path.iterdir()) == [target]


def test_a_device_says_what_m_is(document: Callable[[str], Any]) -> None:
    found = document("tiles --best --device a100-40gb --n 256 --kernels flash2")
    assert {(record["sram_unit"], record["dtype"]) for record in found} == {("bytes", "float16")}
    assert np.unique([record["sram"] for record in found]).size == 1
