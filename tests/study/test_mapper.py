"""The mapper's frontier: its points are those of the ideal search, and what the honest frontier has beyond them is accounted for."""

from __future__ import annotations

import re
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.predict.blocks.fused_tiles import Schedule
from iosim.predict.formulas import FORMULAS
from iosim.study import mapper, published
from iosim.study.published.datasets import DATA

POINTS = published.mapper_frontier()
PROBLEM = Attention(POINTS.n, POINTS.d)

FUSED = {name: Schedule(form.fused[0], frozenset(form.fused[1])) for name, form in FORMULAS.items() if form.fused is not None}


def test_the_data_say_what_they_are() -> None:
    assert "AccelForge 1.0.467" in POINTS.source
    assert "imperfect temporal loops" in POINTS.read
    assert (POINTS.n, POINTS.d, POINTS.unit, len(POINTS)) == (256, 32, "words", 29)
    assert [(point.sram, point.words) for point in POINTS][::14] == [(430, 466944), (1188, 262144), (16450, 32768)]


def test_the_ideal_search_finds_every_point_of_the_mapper_and_no_others() -> None:
    found = predict.ideal_frontier(PROBLEM)
    steps = zip(found.sram.tolist(), found.words.tolist(), strict=True)
    assert [step for step in steps if step[0] >= 430] == [(point.sram, point.words) for point in POINTS]


def test_which_schedules_these_are() -> None:
    found = predict.ideal_frontier(PROBLEM)
    named = {sram: found.schedules[int(found.at(sram))] for sram in (430, 1055, 1056, 16449, 16450)}
    assert list(named.values()) == [
        "P through HBM",
        "P through HBM",
        "fused, queries outside, Q O waits",
        "fused, queries outside, Q O waits",
        "fused, queries outside, Q K V O waits",
    ]


@pytest.mark.parametrize("row", mapper.rows(), ids=lambda row: f"M={row.sram}")
def test_each_row_holds_what_its_parts_are_asked_for(row: mapper.Row) -> None:
    kernel, options = mapper.KERNELS[row.kernel]
    assert row.mapper == row.ideal
    assert row.honest == sum(moved.reads + moved.writes for moved in predict.predict(kernel, PROBLEM, row.blocks, options).values())
    assert predict.residents(kernel, PROBLEM, row.blocks, options) <= row.sram
    assert sum(gap.words for gap in row.gaps) == row.honest - row.ideal
    assert row.reason == "; ".join(f"{gap.words:+,} {gap.why}" for gap in row.gaps)


@pytest.mark.parametrize("row", mapper.rows(), ids=lambda row: f"M={row.sram}")
def test_no_forward_kernel_of_the_papers_does_better(row: mapper.Row) -> None:
    options = Options(), Options(first_pass="create"), Options(softmax="streamed"), Options(depth="one")
    for kernel, own in product(("standard", "flash", "flash2", "square-tiles"), options):
        found = predict.frontier(kernel, PROBLEM, own, upto=row.sram)
        assert (found.words >= row.honest).all()


def test_statistics_and_whole_tiles_are_what_flash2_has_beyond_the_ideal() -> None:
    [row] = [row for row in mapper.rows() if row.sram == 1056]
    narrow = {"K and V": 64, "statistics": 4}
    rows_of = [1056 // 66, (1056 - narrow["K and V"]) // 65, (1056 - narrow["K and V"]) // (65 + narrow["statistics"])]
    assert rows_of == [16, 15, 14]
    tiles = [-(-256 // high) for high in rows_of]
    gaps = [(tiles[1] - tiles[0]) * 2 * 256 * 32, (tiles[2] - tiles[1]) * 2 * 256 * 32, 256]
    assert [gap.words for gap in row.gaps] == gaps
    assert [gap.why for gap in row.gaps] == ["whole tiles of K and V", "l, m, m_new and alpha of every row", "LSE is stored"]
    assert (row.kernel, row.blocks) == ("flash2", Blocks(14, 1))


@pytest.mark.parametrize("kernel", FUSED)
def test_without_statistics_a_kernel_moves_what_its_schedule_does(kernel: str) -> None:
    problem = Attention(11, 3, nk=7, dv=2)
    rows, cols = np.arange(1, 12)[:, None], np.arange(1, 8)
    options = Options(first_pass="create")
    terms = predict.dense_terms(kernel, n=11, nk=7, d=3, dv=2, Br=rows, Bc=cols, options=options)
    moved = sum(term.total for term in terms if term.array not in mapper.STATISTICS)
    assert np.array_equal(np.broadcast_to(moved, (11, 7)), FUSED[kernel].words(problem, rows, cols))


def test_two_shared_loops_over_the_keys_would_do_better_than_the_mapper() -> None:
    words = FUSED["flash"].words(PROBLEM, np.array([1]), np.array([128]))
    assert words.tolist() == [57344]
    assert [point.words for point in POINTS if point.sram <= 128 * 64 + 64 + 2][-1] == 65536


def test_the_table_on_the_page(source_tree: Path) -> None:
    page = (source_tree / "docs" / "frontier.md").read_text(encoding="utf-8")
    lines = [
        f"| {row.sram:,} | {row.mapper:,} | {row.ideal:,} | {row.honest:,} | {row.kernel}, {row.blocks} | {row.reason} |"
        for row in mapper.rows()
    ]
    assert "\n".join(lines) in page


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("sram = 433", "sram = 430", "sram 430 is given twice"),
        ("sram = 433", "sram = 429", "must take more SRAM and move fewer words than the one before; sort them"),
        ("words = 458752", "words = 466944", "must take more SRAM and move fewer words than the one before; sort them"),
        ("words = 458752", "words = 0", "words must be a whole number >= 1, not 0"),
        ('unit = "words"', 'unit = "bytes"', "unit must be words, not 'bytes'"),
        ("n = 256", "nk = 256", "'nk' is unknown here; known are n, d"),
        ('read = "run', 'ran = "run', "'ran' is unknown here; known are name, source, read, unit, problem, row"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(before: str, after: str, message: str, tmp_path: Path) -> None:
    copy = Path(shutil.copy(DATA / "mapper_frontier.toml", tmp_path))
    text = copy.read_text(encoding="utf-8")
    copy.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=rf"line \d+: .*{re.escape(message)}"):
        published.mapper_frontier(copy)


def test_a_copy_of_the_file_loads_from_its_path(tmp_path: Path) -> None:
    assert published.mapper_frontier(shutil.copy(DATA / "mapper_frontier.toml", tmp_path)) == POINTS
