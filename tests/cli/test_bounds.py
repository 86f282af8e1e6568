"""``iosim bounds``: the map over M in every form, each crossing told, and as a figure."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from iosim import Attention, BadInput, regime_map
from iosim.cli import main
from iosim.cli.pages import bounds_counted
from iosim.core.hardware import DEVICES
from iosim.predict import bounds as exact
from iosim.predict.over_m import FAR
from iosim.predict.regimes import floors
from iosim.show.plots import bounds
from iosim.show.plots.figures import INK, style
from iosim.study.regimes import BlockRule
from iosim.study.regimes.map_over_m import RegimeMap, Row
from iosim.study.regimes.rivals import known

RULES: tuple[BlockRule, ...] = ("best", "paper")
SMALL = "bounds --n 256 --d 16"
TIE = "\N{NO-BREAK SPACE}"


def numbers(data: ArrayLike) -> list[float]:
    return [float(number) for number in np.asarray(data)]


def test_without_options_the_page_says_all_of_it(answer: Callable[[str], str]) -> None:
    text = answer("bounds")
    lines = " ".join(text.split())
    assert text.startswith("bounds: n=4096 d=64 float32, forward, the best blocks of all that fit; words of one head\n")
    for regime in (
        "small cache: M < d² = 4,096 words (16 KiB); Θ(N²d/√M), which square-tiles reaches",
        "middle: d² ≤ M < Nd = 262,144 words (1 MiB); Θ(N²d²/M), which flash reaches",
        "everything fits: M ≥ Nd = 262,144 words (1 MiB); Θ(Nd), which flash2 reaches",
    ):
        assert f"\n{regime}\n" in text
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line[:9].strip().replace(",", "").isdigit()}
    assert rows["4,096"][1:5] == ["1.00", "flash2", "29x1", "75.0"]
    assert rows["4,096"][-2:] == ["=", "d²"]
    assert rows["1,024"][2:4] == ["square-tiles", "(one)"]
    assert [name for name, row in rows.items() if row[-1] == "crossover"] == ["3,054", "3,146", "3,187"]
    assert "Least M for any blocks: square-tiles 5, square-tiles (one) 5, standard 129, flash2 261, flash 265." in lines
    assert (
        "The fewest words at 36 sizes of SRAM were counted by running the listings on the machine, and equal their closed forms." in lines
    )
    assert TIE not in text


@pytest.mark.parametrize(
    ("d", "told"),
    [
        (64, [
            "square-tiles in its best blocks moves fewer words than standard up to",
            "fewer words than flash up to M = 2,844 (0.69 d²), more to 2,875, fewer to 2,973, more from 2,974 (0.73 d²) on",
            "fewer words than flash2 up to M = 1,590 (0.39 d²), more from 1,591 (0.39 d²) on",
            "fewer words than flash up to M = 5,811 (1.42 d²), more to 5,825, fewer to 5,940, more from 5,941 (1.45 d²) on",
            "fewer words than flash up to M = 6,144 (1.50 d²), more to 6,399, fewer to 6,400, more from 6,401 (1.56 d²) on",
        ]),
        (128, [
            "fewer words than flash up to M = 10,800 (0.66 d²), more to 10,912, fewer to 11,057, more from 11,058 (0.67 d²) on",
            "fewer words than flash2 up to M = 5,475 (0.33 d²), more to 5,511, fewer to 5,736, more from 5,737 (0.35 d²) on",
            "fewer words than flash up to M = 25,088 (1.53 d²), more from 25,089 (1.53 d²) on",
            "48 KiB 12,288 0.75 small cache flash2 block without opting in of any of them",
        ]),
    ],
)  # fmt: skip
def test_every_change_of_sign_is_told(answer: Callable[[str], str], d: int, told: list[str]) -> None:
    text = " ".join(answer(f"bounds --d {d}").split())
    assert [sentence for sentence in told if sentence not in text] == []


@pytest.mark.parametrize("line", ["bounds", "bounds --backward", f"{SMALL} --nk 40 --blocks paper"])
@pytest.mark.parametrize("columns", [80, 100])
def test_the_text_keeps_to_the_width_of_the_terminal(
    answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, columns: int, line: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert max(map(len, answer(line).splitlines())) <= columns


def test_a_capacity_below_every_minimum_is_a_row_and_no_hole(answer: Callable[[str], str]) -> None:
    line = f"{SMALL} --kernels flash,flash2 --sram 4,40,69,73"
    text = answer(line)
    assert text.count("does not fit, needs 69 (flash2)") == 2
    rows = json.loads(answer(f"{line} --blocks best --json"))["rows"]
    assert [(row["sram"], row["kernel"], row["total"] is None) for row in rows] == [
        (4, None, True), (40, None, True), (69, "flash2", False), (73, "flash2", False),
    ]  # fmt: skip
    assert rows[0]["needs"] == {"name": "flash2", "sram": 69}
    assert rows[0]["lower_bound"] > 0
    assert rows[0]["block_rows"] is rows[0]["ratio"] is rows[0]["overflow"] is None


def test_the_document_holds_what_the_library_says(answer: Callable[[str], str]) -> None:
    found = json.loads(answer(f"{SMALL} --json"))
    problem = Attention(256, 16)
    assert list(found) == ["n", "nk", "d", "dv", "dtype", "pass", "regimes", "least_sram", "rows", "crossovers", "devices"]
    assert [(one["name"], one["start"], one["stop"]) for one in found["regimes"]] == [
        ("small cache", 1, 256), ("middle", 256, 4096), ("everything fits", 4096, None),
    ]  # fmt: skip
    for rule in RULES:
        made = regime_map(problem, blocks=rule)
        rows = [row for row in found["rows"] if row["blocks"] == rule]
        assert [(r["sram"], r["total"], r["lower_bound"], r["bound"]) for r in rows] == [
            (row.sram, row.words, row.bound.words, row.bound.name) for row in made.rows
        ]
        for crossing in (one for one in found["crossovers"] if one["blocks"] == rule):
            wins = made.versus(crossing["first"], crossing["second"])
            assert [(win["sram"], win["fewest"]) for win in (crossing["begin"], *crossing["crossovers"])] == [tuple(win) for win in wins]
        assert found["least_sram"][rule] == made.least
    assert {name for place in found["devices"] for name in place["devices"]} == set(DEVICES)
    assert {"part", "bytes", "sram", "regime", "kernel", "total"} <= set(found["devices"][0])


def test_rows_as_csv(answer: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer(f"{SMALL} --sram 64..4096 --blocks best --csv"))))
    document = json.loads(answer(f"{SMALL} --sram 64..4096 --blocks best --json"))
    assert [int(row["sram"]) for row in rows] == [64, 128, 256, 512, 1024, 2048, 4096]
    assert [int(row["total"]) for row in rows] == [row["total"] for row in document["rows"]]
    assert {"n", "d", "regime", "kernel", "options_depth", "block_rows", "lower_bound", "bound", "ratio", "needs_sram"} <= set(rows[0])


def test_bytes_hold_elements_of_the_inputs(answer: Callable[[str], str]) -> None:
    rows = json.loads(answer(f"{SMALL} --dtype float16 --sram 1KiB --blocks best --json"))["rows"]
    assert [(row["sram"], row["sram_unit"]) for row in rows] == [(512, "words")]


def test_the_backward_pass_has_its_kernels_its_bounds_and_a_theta_without_a_constant(answer: Callable[[str], str]) -> None:
    text = answer(f"{SMALL} --backward")
    lines = " ".join(text.split())
    assert "Θ((N²d + Nd²)/√M), which square-tiles-backward reaches" in text
    assert "Θ has no constant and is no number of words" in lines
    assert "d x d matrix of weights" in lines
    found = json.loads(answer(f"{SMALL} --backward --json"))
    assert found["pass"] == "backward"
    assert {row["kernel"] for row in found["rows"]} <= set(known(backward=True))
    assert found["rows"][-1]["lower_bound"] == 7 * 256 * 16
    assert {(one["first"], one["second"]) for one in found["crossovers"]} >= {
        ("square-tiles-backward", "flash-backward"), ("square-tiles-backward", "flash2-backward"),
    }  # fmt: skip


def test_one_device(answer: Callable[[str], str]) -> None:
    found = json.loads(answer("bounds --device h100 --json"))
    assert found["dtype"] == "float16"
    assert [(place["part"], place["bytes"], place["sram"]) for place in found["devices"]] == [
        ("block without opting in", 49152, 24576), ("block", 232448, 116224), ("SM", 233472, 116736),
    ]  # fmt: skip
    assert len([row for row in found["rows"] if row["blocks"] == "best"]) > 10  # the whole map, at the element type of the device
    text = answer("bounds --device h100")
    assert "a100" not in text
    assert "A computed value is taken to need 2 bytes too" in text


def test_without_square_tiles_everyone_is_compared_with_everyone(answer: Callable[[str], str]) -> None:
    found = json.loads(answer(f"{SMALL} --kernels standard,flash,flash2 --blocks best --json"))
    pairs = [(one["first"], one["second"]) for one in found["crossovers"]]
    assert pairs == [("standard", "flash"), ("standard", "flash2"), ("flash", "flash2")]
    alone = answer(f"{SMALL} --kernels flash2")
    assert "Crossovers" not in alone


def test_a_count_that_differs_is_a_failure(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    right = RegimeMap.row

    def wrong(self: RegimeMap, sram: int) -> Row:
        row = right(self, sram)
        return replace(row, words=(row.words or 0) + 1)

    monkeypatch.setattr(RegimeMap, "row", wrong)
    assert main(f"{SMALL} --sram 512 --blocks best".split()) == 1
    out, err = capsys.readouterr()
    assert err == "iosim: 1 of 1 counts differ from their closed forms\n"
    assert "DIFFER" in out


def test_no_more_is_counted_than_takes_a_second(answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    made = [regime_map(Attention(256, 16), blocks=rule) for rule in RULES]
    tiles = sorted(row.tiles for one in made for row in one.rows if row.plan is not None)
    asked: list[int] = []

    def counting(self: Row) -> bool:
        asked.append(self.tiles)
        return True

    monkeypatch.setattr(Row, "counted", property(counting))
    monkeypatch.setattr(bounds_counted, "MOST_TILES", sum(tiles[:5]))
    text = " ".join(answer(SMALL).split())
    assert asked == tiles[:5]
    assert f"words at 5 of {len(tiles)} sizes of SRAM were counted" in text
    assert f"the others were not: blocks so small cut Q and K into too many tiles to count in about a second ({sum(tiles[:5]):,}" in text
    monkeypatch.setattr(bounds_counted, "MOST_TILES", tiles[0] - 1)
    text = " ".join(answer(SMALL).split())
    assert f"words at {len(tiles)} sizes of SRAM are those of the closed forms, not counted: blocks so small" in text
    assert len(asked) == 5


def test_a_long_sequence_is_mapped_without_counting(answer: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    def never(self: Row) -> bool:
        raise AssertionError(self.tiles)

    monkeypatch.setattr(Row, "counted", property(never))
    assert "not counted" in " ".join(answer("bounds --n 1048576 --kernels flash2 --blocks best --sram 4096,8192").split())


def test_one_word_is_one_word(answer: Callable[[str], str]) -> None:
    assert "large cache: M ≥ Nd = 1 word (4 bytes)" in answer("bounds --n 1 --d 1")


# the figure


def line_of(axes: Axes, colour: str, dashed: bool) -> tuple[list[float], list[float]]:
    """x and y of the one curve of a colour, with dashes or without."""
    drawn = [line for line in axes.lines if to_hex(line.get_color()) == colour.lower() and line.get_linestyle() != "None"]
    (one,) = [line for line in drawn if (line.get_linestyle() == "--") == dashed and len(numbers(line.get_xdata())) > 2]
    return numbers(one.get_xdata()), numbers(one.get_ydata())


def test_what_is_drawn_is_what_is_counted_and_the_largest_bound() -> None:
    found = regime_map(Attention(256, 16))
    top, bottom = bounds(found).axes
    assert "words" in top.get_ylabel()
    assert "M (words" in bottom.get_xlabel()
    assert {axes.get_xscale() for axes in (top, bottom)} == {axes.get_yscale() for axes in (top, bottom)} == {"log"}
    places, largest = line_of(top, INK, False)
    assert largest == [max(bound.words for bound in floors(found.problem, int(m))) for m in places]
    for one, who in zip(found.curves, found.rivals, strict=True):
        dashed = who.options.get("depth") == "square"
        x, y = line_of(top, style(who.kernel).colour, dashed)
        assert y == one.words_at(np.array(x, dtype=int)).tolist()
        for corner in (one.sram, one.sram - 1):
            assert set(corner[(corner >= x[0]) & (corner <= x[-1])]) <= set(x)
        times = line_of(bottom, style(who.kernel).colour, dashed)
        assert times[0] == x
        assert min(times[1]) >= 0.999  # between two of its points the bound is drawn as a line
    names = {text.get_text() for text in top.texts}
    assert {who.kernel for who in found.rivals} | {"largest bound"} <= {name.split(" (")[0] for name in names}
    assert {"square-tiles (dashed)", "square-tiles (one)"} <= names
    assert {"compulsory", "no schedule moves fewer words"} <= names
    assert any(name.startswith("middle\nd² ≤ M < Nd") for name in names)


@pytest.mark.parametrize(("depth", "turns"), [("one", [3054, 3146, 3187]), ("square", [1591])])
def test_dots_stand_where_another_kernel_takes_the_lead(depth: str, turns: list[int]) -> None:
    found = regime_map(Attention(4096, 64), ["flash2", "square-tiles"], depth=depth)
    top = bounds(found).axes[0]
    dots = [line for line in top.lines if len(numbers(line.get_xdata())) == 1]
    assert [numbers(dot.get_xdata())[0] for dot in dots] == turns
    assert [numbers(dot.get_ydata())[0] for dot in dots] == [found.row(m).words for m in turns]
    assert f"flash2 moves the fewest\nfrom M = {turns[-1]:,} words on" in {text.get_text() for text in top.texts}


LARGE = Attention(4096, 64)
NAMED = {bound.name for find in (exact.bounds, exact.backward_bounds) for bound in find(LARGE, 4096)} | {"Θ alone, no bound"}


@pytest.mark.parametrize(
    ("problem", "backward", "names"),
    [
        (Attention(4096, 64), False, {"compulsory", "Saha-Ye", "small cache", "two products"}),
        (Attention(64, 16, nk=4096, dv=200), False, {"compulsory", "small cache", "two products"}),
        (Attention(1, 1), False, {"compulsory"}),
        (Attention(256, 16), False, {"compulsory", "small cache", "two products"}),
        (Attention(4096, 64), True, {"compulsory", "three products", "Θ alone, no bound"}),
    ],
)
def test_the_name_of_a_bound_stands_beside_its_line_and_on_no_other(problem: Attention, backward: bool, names: set[str]) -> None:
    figure = bounds(regime_map(problem, backward=backward))
    figure.draw_without_rendering()
    top = figure.axes[0]
    drawn = [line for line in top.lines if line.get_linestyle() != "None"]
    texts = [text for text in top.texts if text.get_text() in NAMED]
    assert names <= {text.get_text() for text in texts}
    for text in texts:
        box = text.get_window_extent()
        assert top.bbox.x0 < box.x0 < box.x1 < top.bbox.x1
        assert top.bbox.y0 < box.y0
        assert not any(box.overlaps(other.get_window_extent()) for other in top.texts if other is not text)
        away = {line: crossing(line, box) for line in drawn}
        assert min(away.values()) > 0
        (own,) = (line for line in drawn if line.get_label() == text.get_text())
        assert away[own] < 0.06 * top.bbox.height


def crossing(line: Line2D, box: Bbox) -> float:
    """How near a line comes to a box, in pixels, between points as dense as pixels; 0 where it enters."""
    x, y = line.get_transform().transform(np.column_stack([np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)])).T
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    share = np.linspace(0, 1, 400)[:, None]
    dense_x, dense_y = (column[:-1] + share * np.diff(column) for column in (x, y))
    across = np.maximum(0, np.maximum(box.x0 - dense_x, dense_x - box.x1))
    return float(np.hypot(across, np.maximum(0, np.maximum(box.y0 - dense_y, dense_y - box.y1))).min(initial=np.inf))


def test_backward_kernels_are_called_by_their_names() -> None:
    for axes in bounds(regime_map(Attention(64, 8), backward=True)).axes:
        names = {text.get_text() for text in axes.texts}
        called = {name.split(" (")[0] for name in names}
        assert called & set(known(backward=True))
        assert not called & set(known(backward=False))


@pytest.mark.parametrize(
    ("problem", "asked"),
    [
        (Attention(100, 16), {"backward": True}),
        (Attention(30, 64, nk=200), {"backward": True, "blocks": "paper"}),
        (Attention(30, 64), {"kernels": ["flash2"], "sram": [2, 40, 4000]}),
    ],
)
def test_every_map_can_be_drawn(problem: Attention, asked: dict[str, Any]) -> None:
    bounds(regime_map(problem, **asked)).draw_without_rendering()


def test_nothing_to_draw_is_said() -> None:
    for sizes in ([2, 3], [4096]):
        with pytest.raises(BadInput, match="nothing to draw"):
            bounds(regime_map(Attention(256, 16), ["flash2"], sram=sizes))
    assert regime_map(Attention(256, 16), ["flash2"], sram=[2]).curves[0].words_at(2) == FAR


def test_the_figure_is_written_whole_or_not_at_all(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(f"{SMALL} --json --plot {tmp_path / 'bounds.svg'}".split()) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"]
    assert err == f"iosim: wrote {tmp_path / 'bounds.svg'}\n"
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    assert [b"</svg>" in content for content in before.values()] == [True]

    def full(*paths: str) -> None:
        raise OSError(28, "No space left on device", paths[0])

    monkeypatch.setattr(os, "replace", full)
    assert main(f"{SMALL} --d 8 --plot {tmp_path / 'bounds.svg'}".split()) == 2
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--kernels block-sparse", "block-sparse is not among the exact forward algorithms"),
        ("--kernels flash --backward", "exact backward algorithms"),
        ("--kernels flsh", "did you mean flash"),
        ("--kernels foo", "known here: standard, flash, flash2, square-tiles, and backward standard-backward, flash-backward, flash2-ba"),
        ("--kernels flash,flash2 --depth one", "--depth is an option of none of flash, flash2; known here for them: --first-pass\n"),
        ("--dq-pass own", "--dq-pass"),
        ("--blocks fit", "'fit' is not one of 'best', 'paper', 'both'"),
        ("--sram 1KiB..4096", "mixes words and bytes"),
        ("--sram 0", "'0'"),
        ("--sram 2B", "no element of 4 bytes"),
        ("--sram 1KiB --device h100", "both say what M is"),
        ("--n 16777216 --d 1073741824", "64 bits"),
        ("--n 0", "--n must be a whole number"),
        ("--causal", "--causal"),
        ("--sram 4096 --plot bounds.png", "one M only"),
        ("--plot bounds.jpg", ".png, .svg, .pdf"),
        ("--json --csv", "two forms of one answer"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bounds", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []
