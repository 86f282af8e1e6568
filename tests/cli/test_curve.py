"""``iosim curve``: the counts of the machine, where each kernel wins, and what a terminal shows of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

import pytest

from iosim import FORWARD, KERNELS, Attention, capacity, sweep
from iosim.attention.sweep import Record, least
from iosim.cli.pages.curve_findings import sentences, where
from iosim.cli.pages.curve_points import Curve
from iosim.cli.pages.curve_text import shown
from iosim.cli.reading import lengths, sizes
from iosim.core.errors import BadInput


def made_up(bound: int = 1, **moved: list[int | None]) -> Curve:
    """A curve over N = 64, 128, ... with these words, and one lower bound."""
    kernels = tuple(name.replace("_", "-") for name in moved)
    agreed = {"predicted": True}
    rows: list[list[Record]] = [
        [
            {"total": total, "overflow": 0, "error": None if total else "it is too large", "agreed": agreed, "pass": "forward"}
            | {"lower_bound": total and bound}
            for total in column
        ]
        for column in zip(*moved.values(), strict=True)
    ]
    points = [(Attention(n=64 << power, d=4), capacity(4096)) for power in range(len(rows))]
    return Curve("n", points, {name: KERNELS[name] for name in kernels}, rows, "fit", "butterfly")


def test_without_options_both_curves_are_counted(document: Callable[[str], Any]) -> None:
    found = document("curve")
    for over, problem, asked in (
        ("n", Attention(n=1024, d=64), {"n": [2**power for power in range(8, 17)]}),
        ("sram", Attention(n=4096, d=64), {"sram": sorted({r["sram"] for r in found if r["over"] == "sram"})}),
    ):
        mine = [{name: value for name, value in record.items() if name != "over"} for record in found if record["over"] == over]
        assert mine == sweep(problem, **asked)  # type: ignore[arg-type]  # the options are checked at run time
    assert all(record["agreed"] == {"predicted": True} for record in found)
    assert all(record["total"] >= 4 * record["n"] * record["d"] for record in found)


def test_flash2_moves_fewer_words_than_flash_in_the_same_sram(document: Callable[[str], Any]) -> None:
    found = {(record["kernel"], record["sram"]): record["total"] for record in document("curve --over sram")}
    sizes_shown = {size for _, size in found}
    assert {49152, 98304, 262144} <= sizes_shown
    assert [size for size in sizes_shown if size >= 49152 and found["flash2", size] >= found["flash", size]] == []
    millions = {name: [round(found[name, size] / 1e6, 1) for size in (49152, 98304, 262144)] for name in ("flash2", "flash")}
    assert millions == {"flash2": [11.0, 5.2, 2.6], "flash": [16.9, 8.0, 4.0]}


def test_the_text_says_units_and_where_each_kernel_wins(answer: Callable[[str], str]) -> None:
    over_n, over_m = answer("curve").split("\n\n\n")
    assert over_n.startswith("HBM accesses over N, in words: d=64 float32, SRAM 100 KiB, blocks fit\n")
    assert over_m.startswith("HBM accesses over M, in words: n=4096 d=64 float32, blocks fit\n")
    assert "flash2 at every N shown" in over_n
    assert "standard at M = 4,096; flash2 from M = 6,144 on" in over_m
    assert "All 36 numbers were counted by running the listings on the machine, and equal their closed forms." in over_n


@pytest.mark.parametrize("columns", [80, 100])
def test_the_text_keeps_to_the_width_of_the_terminal(answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = answer("curve").splitlines()
    assert max(map(len, lines)) == columns
    assert next(line for line in lines if line.startswith("65,536 "))[57:].split()[:2] == ["b", "|"]  # the chart finds room


def test_a_kernel_that_does_not_fit_is_marked_and_explained_once(answer: Callable[[str], str]) -> None:
    text = answer("curve --sram 200,250,300,400 --n 256")
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line[:9].strip().isdigit()}
    assert rows["200"][3:5] == ["–", "–"]
    assert "–" not in rows["300"]
    reason = "– no blocks of flash2 fit in 200 words; the smallest SRAM for any blocks is 261 words (and at 1 more points)"
    assert " ".join(text.split()).count(reason) == 1


def test_recorded_overflow_is_marked_and_wins_nothing(answer: Callable[[str], str]) -> None:
    text = answer("curve --sram 2048..65536 --n 1024 --blocks 64x64 --overflow record --kernels standard,flash2")
    assert "!" in next(line for line in text.splitlines() if line.startswith("    2,048"))
    assert "! the blocks need more than M: overflow recorded" in text
    refused = answer("curve --sram 2048..65536 --n 1024 --blocks 64x64 --kernels standard,flash2")
    assert "–" in next(line for line in refused.splitlines() if line.startswith("    2,048"))
    for curve in (text, refused):
        assert "flash2 from M = 32,768 on" in curve


def test_options_reach_every_point(document: Callable[[str], Any]) -> None:
    line = "curve --n 100..300:100 --nk 200 --d 8 --dv 5 --heads 3 --causal --kernels flash,block-sparse --sram 8KiB --dtype float16"
    found = document(f"{line} --first-pass create --block-mask dense --blocks best")
    assert [(record["n"], record["kernel"]) for record in found] == [(n, k) for n in (100, 200, 300) for k in ("flash", "block-sparse")]
    for n in (100, 200, 300):
        problem = Attention(n=n, nk=200, d=8, dv=5, heads=3, causal=True, dtype="float16")
        one = sweep(problem, ["flash"], sram="8KiB", blocks="best", first_pass="create")
        assert [{**record, "over": "n"} for record in one] == [r for r in found if r["n"] == n and r["kernel"] == "flash"]


def test_the_pattern_is_that_of_block_sparse_alone(document: Callable[[str], Any]) -> None:
    line = "curve --sram 8192,16384 --n 512 --kernels flash,block-sparse"
    butterfly, full = document(line), document(f"{line} --block-mask dense")
    assert butterfly[::2] == full[::2]
    assert [sparse["total"] for sparse in full[1::2]] == [flash["total"] for flash in full[::2]]
    assert all(sparse["total"] < flash["total"] for flash, sparse in zip(butterfly[::2], butterfly[1::2], strict=True))


def test_csv_has_one_row_a_point_and_kernel(answer: Callable[[str], str], document: Callable[[str], Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer("curve --over n --n 256..1024 --csv"))))
    found = document("curve --over n --n 256..1024")
    assert [(row["kernel"], int(row["n"]), int(row["total"])) for row in rows] == [(r["kernel"], r["n"], r["total"]) for r in found]
    assert len(rows) == 3 * len(FORWARD)


@pytest.mark.parametrize(
    ("line", "axes"),
    [
        ("", {"n", "sram"}),
        ("--n 512", {"n", "sram"}),
        ("--n 256..512", {"n"}),
        ("--sram 8192..16384", {"sram"}),
        ("--n 256..512 --sram 8192..16384", {"n", "sram"}),
        ("--over n --n 512", {"n"}),
        ("--over sram --sram 16KiB", {"sram"}),
    ],
)
def test_a_range_says_which_curve_is_meant(document: Callable[[str], Any], line: str, axes: set[str]) -> None:
    assert {record["over"] for record in document(f"curve --kernels flash2 {line}")} == axes


def test_ranges_double_step_and_list() -> None:
    assert lengths("--n", "256..4096") == (256, 512, 1024, 2048, 4096)
    assert lengths("--n", "256..5000") == (256, 512, 1024, 2048, 4096)
    assert lengths("--n", "256..4096:1024") == (256, 1280, 2304, 3328)
    assert lengths("--n", "3,1,2,2") == (1, 2, 3)
    assert sizes("--sram", "16KiB..64KiB,24KiB") == tuple(map(capacity, ("16KiB", "24KiB", "32KiB", "64KiB")))
    assert sizes("--sram", "1000..4000:1500") == (capacity(1000), capacity(2500), capacity(4000))
    for wrong in ("", "4..", "..4", "4..8:", "4..8:0", "a..b", "1..2..4", "8..4"):
        with pytest.raises(BadInput):
            lengths("--n", wrong)


def test_winners_are_told_in_spans() -> None:
    curve = made_up(flash=[5, 4, 3, 4, 9], flash2=[4, 5, 4, 3, 8], standard=[9, 9, 9, 9, 1])
    assert sentences(curve)[0].replace("\N{NO-BREAK SPACE}", " ") == (
        "Fewest words among exact kernels: flash from N = 128 to N = 256; flash2 at N = 64 and at N = 512; standard at N = 1,024."
    )
    assert where(curve, [True] * 5) == "at every N shown"
    assert where(curve, [False] * 5) == "nowhere"
    assert where(curve, [True, True, False, True, True]).replace("\N{NO-BREAK SPACE}", " ") == "up to N = 128 and from N = 512 on"


def test_a_kernel_without_a_number_wins_nothing() -> None:
    curve = made_up(flash=[None, 4], flash2=[7, 5], block_sparse=[None, 4])
    text = " ".join(shown(curve, 100).replace("\N{NO-BREAK SPACE}", " ").split())
    assert "flash at N = 128; flash2 at N = 64." in text
    assert "it moves fewer than all others nowhere" in text  # a tie goes to the exact kernel
    assert "All 4 numbers were counted" in text


def test_the_chart_is_logarithmic() -> None:
    curve = made_up(bound=5000, flash=[10**4, 10**6, 10**8], flash2=[10**4, 10**5, 10**6])
    lines = [line for line in shown(curve, 100).splitlines() if line.startswith((" 64", "128", "256"))]
    assert [line.rindex("f") for line in lines[1:]][1] == 99
    first, second, third = (len(line) for line in lines)
    assert abs((third - second) - (second - first)) <= 1
    assert "*" in lines[0]  # two kernels, one place


def test_the_distance_from_the_lower_bound_is_that_of_whoever_moves_fewest() -> None:
    curve = made_up(bound=4, flash=[8, 10, 12], flash2=[9, 9, 9], block_sparse=[4, 4, 4])
    assert curve.bounds == [4, 4, 4]
    assert "The fewest words are 2.00 to 2.25 times the lower bound." in sentences(curve)
    assert "The fewest words are 2.00 times the lower bound." in sentences(made_up(bound=4, flash=[8, 8]))
    assert not any("lower bound" in line for line in sentences(made_up(bound=4, block_sparse=[8, 8])))


def test_the_bound_is_for_all_pairs_and_for_both_passes() -> None:
    problem = Attention(n=1024, d=16)
    dense, sparse, back = (sweep(problem, [name], sram=2048) for name in ("flash2", "block-sparse", "flash2-backward"))
    forward, fewer, backward = (record["lower_bound"] for record in (*dense, *sparse, *back))
    assert isinstance(forward, int)
    assert isinstance(fewer, int)
    assert isinstance(backward, int)
    assert fewer < forward < backward
    assert (least(dense + sparse), least(sparse), least(dense + back), least(back)) == (forward, fewer, forward, backward)
    assert least(sweep(problem, ["flash2"], sram=[20])) is None


def test_a_curve_over_m_shows_a_bound_that_falls_to_what_is_compulsory(
    answer: Callable[[str], str], document: Callable[[str], Any]
) -> None:
    found = document("curve --sram 2048..1048576 --n 4096 --kernels flash2")
    bounds = [record["lower_bound"] for record in found]
    assert bounds == sorted(bounds, reverse=True)
    assert [bound == record["compulsory"] == 4 * 4096 * 64 for bound, record in zip(bounds, found, strict=True)] == [False] * 7 + [True] * 3
    text = answer("curve --sram 2048..1048576 --n 4096 --kernels flash2")
    assert "| lower bound." in text
    assert "| lower bound for all pairs." in answer("curve --sram 8192,16384 --n 1024 --kernels flash2,block-sparse")


def test_no_two_kernels_share_a_letter_of_the_chart() -> None:
    letters = [kernel.letter for kernel in KERNELS.values() if kernel.letter]
    assert len({*letters, "|", "*"}) == len(letters) + 2


def test_backward_passes_share_a_chart(answer: Callable[[str], str]) -> None:
    text = answer("curve --kernels flash-backward,flash2-backward --over n --n 256..1024")
    assert "F flash-backward, B flash2-backward" in text
