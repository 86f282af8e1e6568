"""The published numbers of the FlashAttention paper beside those that are counted: which agree, how nearly, and what fits no count."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.problem import Blocks
from iosim.memory import Machine
from iosim.study import paper
from iosim.study.paper import Compared, Finding, memory, softmax
from iosim.study.paper.claims import percent, printed
from iosim.study.paper.compared import AGREES, DIFFERS, NO_FIT, NO_KERNEL, NO_TEST, SHOWN, Check
from iosim.study.paper.counting import IDEAL, LONGEST, Asked, count
from iosim.study.paper.runtimes import tight
from iosim.study.paper.times import fixes_bandwidth, fixes_rate
from iosim.study.published import Accesses, Cell, Setup, cells, figure2_left, figure2_middle, figure2_right, notes, softmax_accesses, tables
from iosim.study.published.datasets import DATA

HEADS, N, D = 1024, 1024, 64  # Figure 2, left and middle
TALL = HEADS * N * D * 2  # bytes of one pass over an N x d array of float16
SQUARE = HEADS * N * N * 2  # and over an N x N one
SHIPPED = paper.load()
FIGURE, RUNTIMES = paper.figure2(SHIPPED), paper.runtimes(SHIPPED)
EVERYTHING = paper.findings(SHIPPED)


def numbers(section: str, title: str | None = None) -> list[Compared]:
    """The numbers of the findings of a section, or of one of them."""
    return [row for one in EVERYTHING if one.section == section and title in (None, one.title) for row in one.rows]


def number(section: str, title: str) -> Compared:
    (row,) = numbers(section, title)
    return row


def finding(section: str, title: str) -> Finding:
    (one,) = [one for one in EVERYTHING if (one.section, one.title) == (section, title)]
    return one


def counted(row: Compared) -> int:
    """The bytes behind a number, without those of statistics."""
    assert row.work is not None
    return row.work.data_bytes


# All together


def test_whatever_is_claimed_holds() -> None:
    assert [failure for one in EVERYTHING for failure in one.failures] == []
    assert sum(row.claim is not None for one in EVERYTHING for row in one.rows) > 70
    assert all(row.agrees for one in EVERYTHING for row in one.rows if row.claim is not None)


def test_every_published_number_is_there_once() -> None:
    found = [row for one in EVERYTHING for row in one.rows if "convention" not in row.labels]
    printed_cells = [
        (row.labels["table"], row.labels["pass"], row.labels["method"], row.labels["n"]) for row in found if "table" in row.labels
    ]
    expected = [(cell.table, cell.pass_, cell.method, cell.n) for each in tables() for cell in each]
    assert sorted(map(str, printed_cells)) == sorted(map(str, expected))
    figures = 3 * len(figure2_left()) + 2 * len(figure2_middle()) + len(figure2_right())
    assert len(found) - len(expected) == figures + len(softmax_accesses())


def test_every_number_says_where_it_is_from_and_how_ours_came_about() -> None:
    for row in (row for one in EVERYTHING for row in one.rows):
        assert "arXiv" in row.source
        assert (row.ours is None) == (row.verdict == NO_KERNEL) == (row.command is None)
        assert row.verdict in {AGREES, SHOWN, NO_FIT, NO_TEST, NO_KERNEL}
        assert row.ours is None or row.made


def test_what_is_not_claimed_says_why() -> None:
    assert [one.title for one in EVERYTHING if any(row.claim is None for row in one.rows) and not one.why] == []


# Figure 2, left


def test_the_traffic_of_the_left_panel_to_the_digits_printed() -> None:
    standard, flash = number("Figure 2, left", "GB, Standard"), number("Figure 2, left", "GB, FlashAttention")
    assert (counted(standard), counted(flash)) == (18 * SQUARE + 12 * TALL, 33 * TALL)
    assert [round(row.ours or 0, 1) for row in (standard, flash)] == [standard.published, flash.published] == [40.3, 4.4]
    assert [row.claim for row in (standard, flash)] == [printed(40.3), printed(4.4)]


def test_which_arrays_make_up_18_and_33_passes() -> None:
    standard, flash = (column.work for column in FIGURE.left[:2])
    assert standard is not None
    assert flash is not None
    assert standard.kernels == ("pytorch", "pytorch-backward")
    assert standard.passes(N) == {"S": 4, "P": 3, "Pd": 3, "R": 1, "dPd": 2, "dP": 2, "dS": 3}
    assert standard.passes(D) == {"Q": 2, "K": 2, "V": 2, "O": 1, "dO": 2, "dQ": 1, "dK": 1, "dV": 1}
    assert flash.passes(D) == {"Q": 8, "K": 2, "V": 2, "O": 8, "dO": 4, "dQ": 7, "dK": 1, "dV": 1}
    assert flash.passes(N) == {}


def test_flash_attention_counted_otherwise() -> None:
    rows = numbers("Figure 2, left", "GB, counted otherwise")
    vector = HEADS * N * 4
    passes = [42 * TALL, 38 * TALL, 45 * TALL, 33 * TALL + 26 * vector]
    assert [round((row.ours or 0) * 1e9) for row in rows] == passes
    assert [round(row.ours or 0, 2) for row in rows] == [5.64, 5.10, 6.04, 4.54]
    assert {row.claim for row in rows} == {None}


def test_the_gflops_row_does_not_fit_the_caption() -> None:
    for title, products, text in (("GFLOP, Standard", 6, "there are 6"), ("GFLOP, FlashAttention", 7, "there are 7")):
        row, why = number("Figure 2, left", title), finding("Figure 2, left", title).why
        assert row.verdict == NO_FIT
        assert row.work is not None
        assert row.work.flops == products * 2 * N * N * D * HEADS
        assert why.startswith("does not fit the caption: one N x N x d product of 1,024 heads is 137.4 GFLOP")
        assert text in why
        assert why.endswith("the printed numbers are 8.6 apart, and one product of 64 heads is 8.59")


def test_seven_milliseconds_do_not_fit_the_caption_and_eleven_do() -> None:
    first, other = number("Figure 2, left", "ms, FlashAttention"), number("Figure 2, left, other version", "ms, FlashAttention")
    assert [(row.published, row.verdict) for row in (first, other)] == [(7.3, NO_FIT), (11.7, SHOWN)]
    why = finding("Figure 2, left", "ms, FlashAttention").why
    assert why.startswith("does not fit the caption: 962.1 GFLOP in 7.3 ms are 132 TFLOP/s, where a full grid sustains 111")
    assert "4 x 2.81 = 11.2 ms" in why
    assert "188.4 / 16 = 11.8 ms" in why


def test_the_time_of_standard_attention_follows_from_its_bytes() -> None:
    row = number("Figure 2, left", "ms, Standard")
    assert row.ours == pytest.approx((18 * SQUARE + 12 * TALL) / RUNTIMES.times.bandwidth * 1e3)
    assert (row.verdict, round(row.ratio or 0, 3)) == (AGREES, 0.994)


def test_the_other_version_fits_no_list_of_steps() -> None:
    row = number("Figure 2, left, other version", "GB, Standard")
    assert (row.verdict, counted(row)) == (NO_FIT, 16 * SQUARE + 12 * TALL)


# Figure 2, middle and right


def test_the_four_points_of_the_middle_panel_within_a_thousandth() -> None:
    rows = numbers("Figure 2, middle", "GB")
    assert [counted(row) for row in rows] == [(3 * N // cols + 1) * TALL for cols in (64, 128, 256, 512)]
    assert [round(row.ours or 0, 4) for row in rows] == [6.5767, 3.3554, 1.7448, 0.9395]
    assert [row.published for row in rows] == [6.578, 3.356, 1.744, 0.939]
    assert all(abs(row.published - (row.ours or 0)) <= 0.001 * row.published for row in rows)


def test_bytes_bind_where_blocks_are_small() -> None:
    times, setup = FIGURE.times, SHIPPED.middle.setup
    memory_, compute = ([of(point.work) for point in FIGURE.middle] for of in (times.memory, lambda work: times.compute(work, setup)))
    assert [taken > other for taken, other in zip(memory_, compute, strict=True)] == [True, True, False, False]
    assert [point.time.ours for point in FIGURE.middle] == [max(both) for both in zip(memory_, compute, strict=True)]


def test_time_and_traffic_are_straight_lines_over_the_density() -> None:
    panel = FIGURE.right
    assert (round(panel.time.slope, 3), round(panel.time.intercept, 2)) == (1.861, 6.43)
    assert 0.999 < panel.r2_of_time < 1
    assert panel.r2_of_traffic == pytest.approx(1, abs=1e-12)
    assert len(panel.points) == len(panel.sparse) + 1 == 10


def test_the_traffic_under_a_block_mask_is_that_of_its_tiles() -> None:
    """K and V once, dK and dV filled and written, what a tile moves for every tile that is kept, and O, l, m, dQ filled first."""
    n, rows, cols = 4096, 16, 256
    for point in FIGURE.right.points:
        tiles = round((point.work.kept or 0) * n * n / rows / cols)
        per_tile = rows * (3 * D * 2 + 4 * 4) + rows * (5 * D * 2 + 2 * 4)
        once = n * D * 2 * (2 + 6) + n * (D * 2 + 2 * 4) + n * D * 2
        assert point.work.bytes == HEADS * (tiles * per_tile + once)
        assert abs(point.percent - point.published.percent) < 1
    assert FIGURE.right.points[-1].percent == 100


# Runtimes

PASSES = {
    ("fwd", False): (4, 4), ("bwd", False): (7, 8), ("fwd+bwd", False): (11, 12),
    ("fwd", True): (6.5, 4), ("bwd", True): (9.5, 8), ("fwd+bwd", True): (16, 12),
}  # fmt: skip


def moved(cell: Cell) -> float:
    a, b = PASSES[cell.pass_, cell.dropout]
    return (a * cell.n**2 + b * cell.n * D) * 2 * 128


def flops(cell: Cell) -> float:
    return {"fwd": 4, "bwd": 10, "fwd+bwd": 14}[cell.pass_] * cell.n**2 * D * 128


def place(cell: Cell) -> tuple[int, str, int]:
    return cell.table, cell.method, cell.n


def test_bandwidth_and_rate_are_fitted_on_ten_cells_with_counted_work() -> None:
    times = RUNTIMES.times
    assert (round(times.bandwidth / 1e12, 4), round(times.fitted / 1e12, 2), round(times.rate / 1e12, 1)) == (0.9717, 65.54, 110.6)
    slow = [(18, "PyTorch Attention", 1024), (18, "PyTorch Attention", 2048), (18, "PyTorch Attention", 4096)]
    slow += [(18, "Megatron", 1024), (18, "Megatron", 2048)]
    fast = [(18, "FlashAttention", 4096 << step) for step in range(5)]
    assert [place(cell) for _, cell in SHIPPED.cells() if fixes_bandwidth(cell)] == slow
    assert [place(cell) for _, cell in SHIPPED.cells() if fixes_rate(cell)] == fast
    assert [place(one.cell) for one in RUNTIMES.judged if one.fitted] == slow + fast


def test_28_of_30_unmasked_cells_within_15_percent_and_all_within_21() -> None:
    one = finding("Tables 9 to 20, ms", "PyTorch, Megatron")
    judged = [found for found in RUNTIMES.judged if found.compared in one.rows]
    known = [moved(found.cell) / RUNTIMES.times.bandwidth * 1e3 for found in judged]
    off = [abs(time / found.cell.value - 1) for time, found in zip(known, judged, strict=True)]
    assert [row.ours for row in one.rows] == pytest.approx(known)
    assert (len(off), sum(part <= 0.15 for part in off), sum(part <= 0.21 for part in off)) == (30, 28, 30)
    assert {(found.cell.table, found.cell.mask) for found in judged} == {(number, False) for number in range(15, 21)}
    assert {found.cell.n for found in judged} == {1024, 2048, 4096}
    assert [row.claim for row in one.rows] == [percent(row.published, 21) for row in one.rows]
    assert one.checks == (Check("28 of 30 within 15 %", True),)


def test_flash_attention_from_4096_on_within_5_percent() -> None:
    one = finding("Tables 9 to 20, ms", "FlashAttention")
    judged = [found for found in RUNTIMES.judged if found.compared in one.rows]
    known = [flops(found.cell) / RUNTIMES.times.fitted * 1e3 for found in judged]
    off = [abs(time / found.cell.value - 1) for time, found in zip(known, judged, strict=True)]
    assert [row.ours for row in one.rows] == pytest.approx(known)
    assert (len(off), sum(part <= 0.05 for part in off)) == (15, 15)
    assert {found.cell.table for found in judged} == {18, 19, 20}
    assert [row.claim for row in one.rows] == [percent(row.published, 5) for row in one.rows]


def test_two_may_lie_outside_15_percent_and_no_more() -> None:
    near, far = compared(1.0, 1.1, 21), compared(1.0, 1.2, 21)
    for outside in range(5):
        assert tight([near] * 10 + [far] * outside) == Check(f"10 of {10 + outside} within 15 %", outside <= 2)


SHOWN_ALONE = {
    "FlashAttention, mask": (15, 0.94, 1.01, SHOWN),
    "FlashAttention, dropout": (30, 0.77, 0.81, SHOWN),
    "PyTorch, mask, forward": (7, 0.89, 1.05, SHOWN),
    "PyTorch, mask, backward": (12, 0.38, 0.65, NO_FIT),
    "Megatron, Table 9": (2, 0.45, 0.52, NO_FIT),
    "Megatron, mask": (10, 0.77, 1.28, SHOWN),
    "PyTorch, long": (1, 1.05, 1.06, SHOWN),
    "FlashAttention, short": (60, 0, 1, NO_TEST),
    "PyTorch, Megatron, short": (72, 0, 1, NO_TEST),
}


@pytest.mark.parametrize("title", SHOWN_ALONE)
def test_other_times_are_shown_with_their_residual_and_a_reason(title: str) -> None:
    many, low, high, verdict = SHOWN_ALONE[title]
    one = finding("Tables 9 to 20, ms", title)
    assert (len(one.rows), one.verdict, one.claims) == (many, verdict, [])
    assert all(low < (row.ratio or 0) < high for row in one.rows)
    assert one.why


def test_the_known_remarks_come_with_their_cells() -> None:
    known = notes("tables_9_21")
    assert sum(bool(one.notes) for one in RUNTIMES.judged) > 100
    for one in RUNTIMES.judged:
        assert [note.name for note in one.notes] == [note.name for note in known if note.concerns(one.cell)]


def test_a_mask_costs_pytorch_one_pass_that_reads_and_writes_and_megatron_none() -> None:
    problem = Asked("pytorch", "fwd", 1024, 64, 16, 8, "float16", options=IDEAL)
    square = 1024 * 1024 * 128 * 2
    plain, hidden = count(problem), count(Asked("pytorch", "fwd", 1024, 64, 16, 8, "float16", masked=True, options=IDEAL))
    fused = count(Asked("megatron", "fwd", 1024, 64, 16, 8, "float16", masked=True, options=IDEAL))
    assert (hidden.bytes - plain.bytes, fused.bytes) == (2 * square, plain.bytes)


# Memory


@pytest.mark.parametrize("cell", [cell for cell in cells(21) if cell.method in memory.LISTS], ids=lambda cell: f"{cell.method}-{cell.n}")
def test_every_cell_of_table_21_and_what_the_machine_tracks(cell: Cell) -> None:
    kept = memory.kept(next(found.setup for found, one in SHIPPED.cells() if one == cell), cell)
    tall, square, vector = 128 * cell.n * D * 2, 128 * cell.n**2 * 2, 128 * cell.n * 4
    assert abs(kept.in_all / 2**20 - cell.value) <= (8 if cell.method.startswith("Block") else 0.5)
    assert kept.explained
    if cell.method in {"PyTorch Attention", "Megatron"}:
        assert (kept.tracked, kept.larger_pass) == (4 * square + 8 * tall, 3 * square + 7 * tall)
        assert (kept.missing, kept.besides) == ({"unnamed 1": tall, "unnamed 2": tall}, {})
    else:
        assert (kept.tracked, kept.larger_pass) == (8 * tall + 4 * tall + 2 * vector, 8 * tall + 2 * tall + 2 * vector)
        unpadded = dict.fromkeys(("Q_unpadded", "K_unpadded", "V_unpadded"), tall)
        assert kept.missing == unpadded | ({"O_tmp or dQ_tmp": 2 * tall} if cell.n > 256 else {})
        assert kept.besides == {"O_acc": 2 * tall, "dQ_acc": 2 * tall}


def test_what_the_machine_tracks_is_its_own_peak() -> None:
    asked = Asked("pytorch", "bwd", 512, 64, 16, 8, "float16", options=IDEAL)
    (plan,) = asked.plans
    assert count(asked).peaks == {"pytorch-backward": plan.count().peak_hbm_bytes * 128}


def test_a_difference_that_is_not_named_is_seen() -> None:
    cell = next(cell for cell in cells(21, method="PyTorch Attention") if cell.n == 512)
    right = memory.kept(SHIPPED.tables[1].setup, cell)
    assert not memory.Kept(cell, right.listed, count(Asked("pytorch", "fwd+bwd", 512, 32, 16, 8, "float16", options=IDEAL))).explained


# Softmax


@pytest.mark.parametrize("row", softmax_accesses().rows, ids=lambda row: row.method)
def test_published_and_counted_accesses_of_softmax(row: Accesses) -> None:
    one = finding(softmax.SECTION, row.method)
    assert one.rows[0].ours == row.total == {"naive": 3, "safe": 4, "online": 3}[row.method]
    assert [check.holds for check in one.checks] == [True]


@given(st.sampled_from(list(softmax.LISTINGS)), st.integers(1, 300), st.integers(1, 70))
def test_a_listing_loads_and_stores_every_element_so_often_in_any_tiles(name: str, n: int, b: int) -> None:
    row = next(row for row in softmax_accesses() if row.method == name)
    assert softmax.accesses(softmax.LISTINGS[name], n, b) == (row.loads * n, row.stores * n)


@given(st.sampled_from(list(softmax.LISTINGS)), st.integers(1, 100), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_the_listings_are_softmax(name: str, n: int, b: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((1, n))
    m = Machine(sram=b + 3, accumulator="float64")
    X, Y = m.input("X", x.shape, x, dtype="float64"), m.output("Y", x.shape, dtype="float64")
    softmax.LISTINGS[name](m, X, Y, b)
    counts = m.finish()
    assert counts.peak_sram <= min(n, b) + 3
    # Two sums of at most 100 positive terms, each to 100 ulp, an exponential and a quotient to a few.
    np.testing.assert_allclose(np.asarray(Y.data, float), np.exp(x) / np.exp(x).sum(), rtol=1e-13)


def test_only_naive_softmax_overflows() -> None:
    x = np.array([[1000.0, 0.0]])
    for name, listing in softmax.LISTINGS.items():
        m = Machine(sram=16, accumulator="float64")
        X, Y = m.input("X", x.shape, x, dtype="float64"), m.output("Y", x.shape, dtype="float64")
        with np.errstate(over="ignore", invalid="ignore"):
            listing(m, X, Y, 1)
        m.finish()
        assert bool(np.isfinite(Y.data).all()) == (name != "naive")


# What claims are


@given(st.decimals(0, 10**6, places=3, allow_nan=False), st.integers(0, 3))
def test_printed_is_half_a_unit_of_the_last_digit(value: object, places: int) -> None:
    published = round(float(str(value)), places)
    decimals = len(str(published).partition(".")[2])
    unit = 10.0**-decimals
    assert printed(published).most == pytest.approx(unit / 2)
    assert printed(published).holds(published, published + 0.49 * unit)
    assert not printed(published).holds(published, published + 0.51 * unit + 1e-9)


@given(st.floats(0.01, 1e6), st.floats(0.01, 50), st.floats(-2, 2).filter(lambda share: abs(abs(share) - 1) > 1e-6))
def test_a_percentage_is_of_the_published_number(value: float, most: float, share: float) -> None:
    assert percent(value, most).holds(value, value * (1 + share * most / 100)) == (abs(share) < 1)


def compared(published: float, ours: float | None, allowed: float | None) -> Compared:
    claim = None if allowed is None else percent(published, allowed)
    return Compared("a number", published, "ms", ours, "here", {"method": "mine"}, claim, SHOWN if ours is not None else NO_KERNEL)


def test_a_finding_is_as_good_as_its_worst_number() -> None:
    good, bad, shown, absent = compared(1.0, 1.1, 20), compared(1.0, 1.3, 20), compared(1.0, 9.0, None), compared(1.0, None, None)
    assert [row.verdict for row in (good, bad, shown, absent)] == [AGREES, DIFFERS, SHOWN, NO_KERNEL]
    assert [row.agrees for row in (good, bad, shown, absent)] == [True, False, None, None]
    assert Finding("runtimes", "here", "two", (good, good)).verdict == AGREES
    both = Finding("runtimes", "here", "two", (good, bad))
    assert (both.verdict, both.failures) == (DIFFERS, ("a number: 1 ms published, 1.3 ours",))
    unchecked = Finding("runtimes", "here", "one", (good,), checks=(Check("all near", False),))
    assert (unchecked.verdict, unchecked.failures) == (DIFFERS, ("here, one: all near",))


# Data of one's own


def test_a_file_replaces_the_data_of_its_form(tmp_path: Path) -> None:
    for field, name in {
        "left": "figure_2_left", "middle": "figure_2_middle", "right": "figure_2_right", "softmax": "online_softmax"
    }.items():  # fmt: skip
        path = tmp_path / "mine.toml"
        text = (DATA / f"{name}.toml").read_text(encoding="utf-8")
        path.write_text(text.replace('name = "', 'name = "My ', 1), encoding="utf-8")
        mine = paper.load([str(path)])
        assert getattr(mine, field).name.startswith("My ")
        others = {"left", "middle", "right", "tables", "softmax"} - {field}
        assert all(getattr(mine, other) == getattr(SHIPPED, other) for other in others)


def own_tables(folder: Path, *lines: str, setup: str = "") -> paper.Data:
    toml = (DATA / "tables_9_21.toml").read_text(encoding="utf-8").replace("tables_9_21.csv", "mine.csv")
    (folder / "mine.toml").write_text(toml.replace('device = "A100-SXM4-40GB"', setup or 'device = "A100"'), encoding="utf-8")
    (folder / "mine.csv").write_text("\n".join(["table,pass,dropout,mask,method,unit,1024,4096", *lines]), encoding="utf-8")
    return paper.load([str(folder / "mine.toml")])


def test_a_table_of_ones_own_replaces_that_table_alone(tmp_path: Path) -> None:
    mine = own_tables(tmp_path, "19,bwd,0,0,Megatron,ms,4.0,")
    assert [cell.value for _, cell in mine.cells() if cell.table == 19] == [4.0]
    assert [cell for _, cell in mine.cells() if cell.table != 19] == [cell for _, cell in SHIPPED.cells() if cell.table != 19]
    one = next(one for one in paper.runtimes(mine).judged if one.cell.table == 19)
    assert one.compared.verdict == DIFFERS


def test_remarks_on_the_paper_are_not_about_numbers_of_ones_own(tmp_path: Path) -> None:
    for value, known in (("3.65", ["megatron-table-9"]), ("2.65", [])):
        mine = paper.runtimes(own_tables(tmp_path, f"9,fwd,1,1,Megatron,ms,{value},"))
        (one,) = [one for one in mine.judged if one.cell.table == 9]
        assert [note.name for note in one.notes] == known


def test_loads_and_stores_of_softmax_are_claimed_each(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (DATA / "online_softmax.toml").read_text(encoding="utf-8")
    path.write_text(text.replace("loads = 2\nstores = 1", "loads = 1\nstores = 2", 1), encoding="utf-8")
    naive = softmax.findings(paper.load([str(path)]))[0]
    assert (naive.rows[0].agrees, naive.verdict) == (True, DIFFERS)


def test_twice_the_bytes_in_the_same_time_are_twice_the_bandwidth(tmp_path: Path) -> None:
    lines = [",".join(["18,fwd,0,0", method, "ms,1.27", "8.42"]) for method in ("Megatron", "FlashAttention")]
    one, two = (paper.fit(own_tables(tmp_path, *lines, setup=f'device = "{name}"')) for name in ("A100", "h100"))
    assert (one.bandwidth, one.fitted) == (two.bandwidth, two.fitted)
    assert one.rate == pytest.approx(one.fitted / (128 / 216))
    assert two.rate == pytest.approx(two.fitted / (128 / 132))


def test_what_cannot_be_compared_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"times need Table 18: PyTorch Attention and Megatron at N = 1024 to 4096"):
        paper.findings(own_tables(tmp_path, "18,fwd,0,0,Reformer,ms,4.0,"))
    with pytest.raises(BadInput, match=r"multiprocessors .*'Z80'.*; known: A100, t4"):
        paper.findings(own_tables(tmp_path, "18,fwd,0,0,Megatron,ms,4.0,5", "18,fwd,0,0,FlashAttention,ms,4.0,5", setup='device = "Z80"'))
    with pytest.raises(BadInput, match=r"float16 .* float32"):
        memory.kept(Setup(64, 1, 1, "float32", 0.1, "none", "A100"), cells(21)[0])
    with pytest.raises(BadInput, match=f"at most N = {LONGEST:,}"):
        count(Asked("flash", "fwd", LONGEST + 1, 64, 1, 1, "float16"))
    path = tmp_path / "none.toml"
    path.write_text("[[row]]\nx = 1\n", encoding="utf-8")
    with pytest.raises(BadInput, match=r"none.toml, line 1: neither tables nor a figure"):
        paper.load([str(path)])


def test_a_figure_without_a_length_is_refused(tmp_path: Path) -> None:
    text = (DATA / "figure_2_middle.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace("n = 1024\n", ""), encoding="utf-8")
    with pytest.raises(BadInput, match="the setup of a figure must say n"):
        paper.figure2(paper.load([str(path)]))


def test_a_method_that_nobody_knows_has_no_kernel(tmp_path: Path) -> None:
    text = (DATA / "figure_2_left.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('"FlashAttention"', '"SlowAttention"'), encoding="utf-8")
    found = [one for one in paper.figure2(paper.load([str(path)])).findings if "SlowAttention" in one.title]
    assert [one.verdict for one in found] == [NO_KERNEL] * 6


def test_one_block_size_more(tmp_path: Path) -> None:
    text = (DATA / "figure_2_middle.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text + "\n[[row]]\nblock_cols = 1024\ngigabytes = 0.537\nmilliseconds = 3\n", encoding="utf-8")
    last = paper.figure2(paper.load([str(path)])).middle[-1]
    assert last.work.asked.blocks == Blocks(16, 1024)
    assert (last.work.data_bytes, last.traffic.verdict) == (4 * TALL, AGREES)


def test_density_zero_percent_of_anything_is_refused(tmp_path: Path) -> None:
    text = (
        (DATA / "figure_2_right.toml")
        .read_text(encoding="utf-8")
        .partition('[[row]]\nmethod = "Block-Sparse FlashAttention"\npercent = 20')[0]
    )
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match="a line over the density needs two block masks of different density"):
        paper.figure2(paper.load([str(path)]))


def test_r2_of_a_line_is_that_of_the_correlation() -> None:
    panel = FIGURE.right
    x, y = [point.published.percent for point in panel.sparse], [point.published.milliseconds for point in panel.sparse]
    assert panel.r2_of_time == pytest.approx(math.pow(float(np.corrcoef(x, y)[0, 1]), 2))
