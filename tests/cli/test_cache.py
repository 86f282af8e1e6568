"""``iosim cache``: two caches beside the scratchpad, in every form, and as a figure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.transforms import Bbox

from iosim import Attention
from iosim.cli import main
from iosim.show.plots.cliff import HELD, STYLES, cliff
from iosim.study.cache import ORDERS, replay_cache

LINE = "cache flash --n 64 --d 8 --sram 2048 --blocks 8x8"


def numbers(data: object) -> list[int]:
    return [int(number) for number in np.asarray(data, dtype=float)]


def test_the_document_holds_what_the_library_says(answer: Callable[[str], str]) -> None:
    found = json.loads(answer(f"{LINE} --sizes 256,320 --json"))
    replays = {order: replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8), order=order) for order in ORDERS}
    assert [(row["order"], row["size"]) for row in found["caches"]] == [(order, size) for order in ORDERS for size in (256, 320)]
    for row in found["caches"]:
        replay = replays[row["order"]]
        for name, moved in (("lru", replay.lru(row["size"])), ("set_associative", replay.set_associative(row["size"]))):
            assert row[name] == {"reads": moved.reads, "writes": moved.writes}
    first = replays["listing"]
    assert found["scratchpad"] == {"reads": first.scratchpad.reads, "writes": first.scratchpad.writes}
    assert found["held"] == first.held == 4 * 8 * 8 + 16
    assert found["enough"] == {order: replay.enough for order, replay in replays.items()}


def test_the_text_sets_both_caches_beside_the_scratchpad(answer: Callable[[str], str]) -> None:
    text = answer(LINE)
    replay = replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8))
    assert f"reads {replay.scratchpad.reads:,}, writes {replay.scratchpad.writes:,}; holds at most 272 words" in text
    assert f"as few words as the scratchpad from {replay.enough:,} words on" in text
    rows = [line.split() for line in text.splitlines() if line.strip().startswith("340 ")]
    reads = replay.lru(340).reads
    found, pad = replay.lru(340), replay.scratchpad
    ratios = f"{reads / pad.reads:.2f}", f"{found.words / pad.words:.2f}"
    assert ratios[0] != ratios[1]
    assert rows[0][:6] == ["340", "1.25", f"{reads:,}", ratios[0], f"{found.writes:,}", ratios[1]]
    assert "x           words read, over the scratchpad's reads; all x: reads and writes, over both of its" in text
    assert len(rows) == 2
    assert max(map(len, text.splitlines())) <= 100


def test_rows_and_one_order(answer: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer(f"{LINE} --order first-use --ways 4 --sizes 256..512:128 --csv"))))
    assert [(row["order"], row["size"], row["ways"]) for row in rows] == [("first-use", str(size), "4") for size in (256, 384, 512)]


def test_sizes_in_bytes_hold_elements_of_the_inputs(answer: Callable[[str], str]) -> None:
    found = json.loads(answer(f"{LINE} --dtype float16 --sizes 1KiB --order listing --json"))
    assert [row["size"] for row in found["caches"]] == [512]


def test_a_file_holds_what_would_be_printed(answer: Callable[[str], str], tmp_path: Path) -> None:
    printed = answer(f"{LINE} --json")
    assert answer(f"{LINE} --json --out {tmp_path / 'caches.json'}") == ""
    assert (tmp_path / "caches.json").read_text(encoding="utf-8") == printed


def test_the_figure_shows_both_orders(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(f"{LINE} --plot {tmp_path / 'cliff.svg'}".split()) == 0
    assert capsys.readouterr().err == f"iosim: wrote {tmp_path / 'cliff.svg'}\n"
    assert b"</svg>" in (tmp_path / "cliff.svg").read_bytes()
    replays = [replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8), order=order) for order in ORDERS]
    axes = cliff(replays, [200, 300, 400, 500]).axes[0]
    for replay in replays:
        line, marks = (drawn for drawn in axes.lines if drawn.get_color() == STYLES[replay.order].colour)
        assert numbers(marks.get_ydata()) == [replay.set_associative(size).reads for size in (200, 300, 400, 500)]
        places = numbers(line.get_xdata())
        assert (places[0], places[-1]) == (200, 500)
        assert numbers(line.get_ydata()) == [replay.lru(size).reads for size in places]
        assert replay.enough in places
    assert "words" in axes.get_xlabel()
    assert "words" in axes.get_ylabel()


def test_all_caches_together_are_estimated_before_one_is_replayed(
    answer: Callable[[str], str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    replays = [replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8), order=order) for order in ORDERS]
    lookups = sum(replay.touches.lookups(size) for replay in replays for size in (136, 272))
    monkeypatch.setattr("iosim.study.cache.MOST_LOOKUPS", lookups)
    answer(f"{LINE} --sizes 136,272")
    monkeypatch.setattr("iosim.study.cache.MOST_LOOKUPS", lookups - 1)
    assert main(f"{LINE} --sizes 136,272".split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert f"{lookups:,} lookups" in err
    assert f"at most {lookups - 1:,}, in larger blocks" in err


def test_caches_of_a_tiny_run_have_a_set_each(answer: Callable[[str], str]) -> None:
    for ways, sizes in ((8, [8, 9, 12]), (16, [16]), (1, [3, 4, 6, 7, 8, 9, 12])):
        found = json.loads(answer(f"cache flash --n 1 --d 1 --order listing --ways {ways} --json"))
        assert [row["size"] for row in found["caches"]] == sizes


FIGURES = [
    ("flash", 64, 8, None, range(2000, 4001, 500)),
    ("flash", 100, 8, (4, 4), (20000, 40000)),
    ("flash", 1, 1, None, (8, 9, 12)),
    ("flash", 64, 8, (8, 8), (136, 272, 340, 544)),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("kernel", "n", "d", "blocks", "sizes"), FIGURES)
def test_texts_of_the_figure_are_in_it_and_clear_of_each_other(
    kernel: str, n: int, d: int, blocks: tuple[int, int] | None, sizes: Sequence[int]
) -> None:
    problem = Attention(n=n, d=d, causal=blocks is None)
    replays = [replay_cache(kernel, problem, blocks=blocks or "fit", order=order) for order in ORDERS]
    figure = cliff(replays, sizes, "some run")
    figure.draw_without_rendering()
    axes = figure.axes[0]
    boxes = [text.get_window_extent() for text in [*axes.texts, axes._left_title] if text.get_text()]  # type: ignore[attr-defined]
    frame = Bbox.from_bounds(-1, -1, figure.bbox.width + 2, figure.bbox.height + 2)
    assert all(frame.containsx(end[0]) and frame.containsy(end[1]) for box in boxes for end in box.get_points())
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    assert not any(box.overlaps(axes.bbox) for box in boxes)
    names = [axes.yaxis.get_major_formatter()(at, 0) for at in axes.yaxis.get_major_locator()()]
    assert len(set(names)) == len(names)
    low, high = axes.get_ylim()
    drawn = [float(y) for line in axes.lines if line.get_gid() != HELD for y in np.asarray(line.get_ydata(), dtype=float)]
    assert drawn[-2:] == [replays[0].scratchpad.reads] * 2
    assert low <= min(drawn) <= max(drawn) <= high <= 1.1 * max(drawn)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cache", "cache needs a kernel"),
        (f"{LINE} --sizes 4", "a cache of 4 words has no set of 8 ways; ask for at least 8 words"),
        (f"{LINE} --ways 0", "--ways must be a whole number from 1"),
        (f"{LINE} --order random", "'random' is not one of 'listing', 'first-use'"),
        (f"{LINE} --plot f.png --sizes 300", "give a replay and two sizes or more"),
        ("cache flash2 --n 8192 --blocks 16x16", "262,144 tiles takes minutes"),
        (f"{LINE} --json --csv", "two forms of one answer"),
    ],
)
def test_what_makes_no_sense_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert list(tmp_path.iterdir()) == []
