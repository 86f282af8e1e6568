"""The published numbers: what the data files hold, what their notes work out, and how a file that does not parse is refused."""

from __future__ import annotations

import math
import re
import shutil
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.study import published
from iosim.study.published import Cell, cells, figure2_left, figure2_middle, figure2_right, notes, softmax_accesses, table, tables
from iosim.study.published.datasets import DATA, Dataset
from iosim.study.published.notes import Kind

GPT2 = {"n": 1024, "d": 64, "heads": 1024}  # both passes of the left panel, the forward pass of the middle one
SQUARE_GB = GPT2["heads"] * GPT2["n"] ** 2 * 2 / 1e9  # one pass over an N x N array of float16
TALL_GB = GPT2["heads"] * GPT2["n"] * GPT2["d"] * 2 / 1e9  # and over an N x d one
ONE_PRODUCT_GFLOP = 2 * GPT2["heads"] * GPT2["n"] ** 2 * GPT2["d"] / 1e9

SPARSE = ("Block Sparse", "Longformer", "BigBird")
METHODS = {
    "PyTorch Attention", "Megatron", "Reformer", "Local Attention", "Linformer", "Smyrf", "LSformer", *SPARSE, "FlashAttention",
    "Block-Sparse FlashAttention",
}  # fmt: skip


def value(number: int, method: str, n: int, pass_: str | None = None) -> float:
    (found,) = [cell.value for cell in cells(number, method=method) if cell.n == n and pass_ in (None, cell.pass_)]
    return found


def row(number: int, method: str) -> dict[int, float]:
    return {cell.n: cell.value for cell in cells(number, method=method)}


def note(name: str) -> published.Note:
    (found,) = [note for note in notes() if note.name == name]
    return found


@pytest.mark.parametrize("load", [figure2_left, figure2_middle, figure2_right, lambda: table(7), softmax_accesses])
def test_every_data_set_says_where_it_comes_from(load: Callable[[], Dataset[object]]) -> None:
    found = load()
    assert re.search(r"arXiv \d{4}\.\d{5}", found.source)
    assert found.read.startswith(("printed", "digitised", "abstract"))
    assert len(found) > 0


def test_only_what_was_digitised_has_an_error_of_reading() -> None:
    assert figure2_middle().error == {"gigabytes": 0.003, "milliseconds": 0.02}
    assert figure2_right().error == {"milliseconds": 0.4}
    assert not figure2_left().error
    assert not table(7).error
    assert figure2_middle().read.startswith("digitised")
    assert figure2_right().read.startswith("digitised")


def test_setups() -> None:
    """Captions of Figure 2, and Appendix E.4 and E.6."""
    left, middle, right = figure2_left().setup, figure2_middle().setup, figure2_right().setup
    for setup in (left, middle):
        assert (setup.n, setup.d, setup.batch, setup.heads, setup.instances) == (1024, 64, 64, 16, 1024)
        assert {"n", "d", "batch", "heads", "device"}.isdisjoint(setup.assumed)
    assert (right.n, right.instances) == (4096, 1024)
    assert {"batch", "heads"} <= set(right.assumed)
    assert (table(7).setup.n, table(7).setup.d, table(7).setup.instances) == (None, 64, 1024)
    appendix = table(20).setup
    assert (appendix.d, appendix.batch, appendix.heads, appendix.dropout, appendix.dtype) == (64, 16, 8, 0.1, "float16")
    assert "N - 20" in appendix.mask
    assert {table(7).setup.device, appendix.device} == {"A100-SXM4-40GB"}


def test_figure_2_left() -> None:
    found = {(row.version, row.method): (row.gflops, row.gigabytes, row.milliseconds) for row in figure2_left()}
    assert found == {
        ("arXiv v2", "Standard"): (66.6, 40.3, 41.7),
        ("arXiv v2", "FlashAttention"): (75.2, 4.4, 7.3),
        ("other", "Standard"): (66.6, 35.3, 35.1),
        ("other", "FlashAttention"): (75.2, 4.4, 11.7),
    }


def test_the_effective_bandwidth_of_standard_attention_is_62_to_65_percent_of_the_peak() -> None:
    rates = {row.version: row.gigabytes / row.milliseconds * 1e3 for row in figure2_left() if row.method == "Standard"}
    assert {version: round(rate) for version, rate in rates.items()} == {"arXiv v2": 966, "other": 1006}
    assert [round(rate / 1555, 2) for rate in rates.values()] == [0.62, 0.65]


def test_figure_2_middle() -> None:
    found = [(row.block_cols, row.gigabytes, row.milliseconds) for row in figure2_middle()]
    assert found == [(64, 6.578, 8.60), (128, 3.356, 4.70), (256, 1.744, 3.30), (512, 0.939, 3.20)]


def test_figure_2_right() -> None:
    sparse = {row.percent: row.milliseconds for row in figure2_right() if row.method == "Block-Sparse FlashAttention"}
    assert sparse == dict(zip(range(10, 100, 10), [27.2, 43.4, 60.3, 81.2, 99.4, 117.0, 135.6, 155.6, 175.6], strict=True))
    (dense,) = [row for row in figure2_right() if row.method == "FlashAttention"]
    assert (dense.percent, dense.milliseconds) == (100, 188.4)


@pytest.mark.parametrize(
    ("method", "pass_", "printed"),
    [
        ("Apex FMHA", "fwd", [0.10, 0.29, 1.14]),
        ("FlashAttention", "fwd", [0.08, 0.22, 0.81]),
        ("Apex FMHA", "bwd", [0.17, 0.52, 1.81]),
        ("FlashAttention", "bwd", [0.20, 0.53, 2.00]),
        ("Apex FMHA", "fwd+bwd", [0.27, 0.81, 2.95]),
        ("FlashAttention", "fwd+bwd", [0.28, 0.75, 2.81]),
    ],
)
def test_table_7(method: str, pass_: str, printed: list[float]) -> None:
    found = [cell for cell in table(7) if (cell.method, cell.pass_) == (method, pass_)]
    assert [(cell.n, cell.value) for cell in found] == list(zip([128, 256, 512], printed, strict=True))
    assert all(cell.dropout and cell.mask and cell.unit == "ms" for cell in found)


def test_passes_dropout_and_masks_of_tables_9_to_21() -> None:
    found = {number: {(cell.pass_, cell.dropout, cell.mask, cell.unit) for cell in cells(number)} for number in range(9, 22)}
    passes = ["fwd", "bwd", "fwd+bwd"]
    conditions = [(True, True), (False, True), (True, False), (False, False)]
    expected = {9 + 3 * i + j: {(pass_, *how, "ms")} for i, how in enumerate(conditions) for j, pass_ in enumerate(passes)}
    assert found == expected | {21: {("fwd+bwd", False, False, "MiB")}}


def test_each_of_tables_9_to_21_has_the_twelve_methods_and_the_lengths_are_powers_of_two_without_gaps() -> None:
    for number in range(9, 22):
        assert {cell.method for cell in cells(number)} == METHODS
        for method in METHODS:
            assert list(row(number, method)) == [128 << i for i in range(len(row(number, method)))]


@pytest.mark.parametrize(("method", "longest"), [("Megatron", 2048), ("Block Sparse", 4096), ("Longformer", 8192), ("BigBird", 8192)])
def test_what_a_method_does_not_support_is_absent(method: str, longest: int) -> None:
    assert max(cell.n for cell in cells(method=method)) == longest


@pytest.mark.parametrize(
    ("number", "count", "total"),
    [
        (7, 18, 15.74), (9, 93, 5081.13), (10, 92, 10675.18), (11, 92, 15376.95), (12, 96, 4433.95), (13, 93, 8956.86), (14, 93, 12931.34),
        (15, 95, 4996.98), (16, 92, 10485.80), (17, 92, 15075.63), (18, 96, 4256.46), (19, 93, 8757.56), (20, 93, 12597.65),
        (21, 93, 345847.0),
    ],
)  # fmt: skip
def test_no_cell_was_lost_or_mistyped(number: int, count: int, total: float) -> None:
    """The sums were taken over the extracted tables before they became data files."""
    assert (len(cells(number)), round(math.fsum(cell.value for cell in cells(number)), 2)) == (count, total)


def test_cells_that_the_fact_sheet_restates() -> None:
    assert row(21, "PyTorch Attention") == {128: 36, 256: 104, 512: 336, 1024: 1184, 2048: 4416, 4096: 17024}
    assert list(row(21, "FlashAttention").values()) == [22, 44, 104, 209, 418, 836, 1672, 3344, 6688, 13376]
    assert row(21, "Megatron").items() <= row(21, "PyTorch Attention").items()
    assert round(value(21, "PyTorch Attention", 4096) / value(21, "FlashAttention", 4096), 1) == 20.4
    assert round(value(21, "Linformer", 65536) / value(21, "FlashAttention", 65536), 2) == 1.96
    assert value(21, "Linformer", 65536) == 26252
    assert [value(9, "Megatron", n) for n in (1024, 2048)] == [3.65, 16.19]
    assert [value(10, "Megatron", n) for n in (1024, 2048)] == [2.42, 8.43]
    assert [value(11, "Megatron", n) for n in (1024, 2048)] == [4.21, 16.50]
    assert value(11, "FlashAttention", 1024) == 2.55


@pytest.mark.parametrize("number", range(9, 21))
def test_flash_attention_is_faster_than_linformer_up_to_512_and_slower_from_1024(number: int) -> None:
    """The paper says that approximate methods overtake it between 512 and 1024; Linformer does in every table."""
    flash, linformer = row(number, "FlashAttention"), row(number, "Linformer")
    assert all((flash[n] < linformer[n]) == (n <= 512) for n in flash.keys() & linformer.keys())


def test_softmax_accesses() -> None:
    found = {row.method: (row.loads, row.stores, row.total) for row in softmax_accesses()}
    assert found == {"naive": (2, 1, 3), "safe": (3, 1, 4), "online": (2, 1, 3)}
    assert round(found["safe"][2] / found["online"][2], 2) == 1.33


def test_the_curve_of_figure_2_is_the_count_of_blocks() -> None:
    """2 N d (3 Tc + 1) bytes a head: K and V once, Q Tc times, O written Tc times and read Tc - 1 times."""
    counted = {row.block_cols: (3 * GPT2["n"] // row.block_cols + 1) * TALL_GB for row in figure2_middle()}
    assert all(abs(counted[row.block_cols] - row.gigabytes) <= figure2_middle().error["gigabytes"] for row in figure2_middle())
    assert [round(gb, 4) for gb in counted.values()] == [6.5767, 3.3554, 1.7448, 0.9395]
    assert list(note("counted-or-measured").numbers.values())[:4] == [6.5767, 3.3554, 1.7448, 0.9395]


def test_the_gigabytes_of_figure_2_left_are_counts_of_passes() -> None:
    standard, flash = 18 * SQUARE_GB + 12 * TALL_GB, (13 + 20) * TALL_GB
    printed = {row.method: row.gigabytes for row in figure2_left() if row.version == "arXiv v2"}
    assert printed == {"Standard": round(standard, 1), "FlashAttention": round(flash, 1)}
    assert note("counted-or-measured").numbers["standard_gb"] == round(standard, 3) == 40.265
    assert note("counted-or-measured").numbers["flash_gb"] == round(flash, 3) == 4.429


def test_the_gflops_row_fits_no_count_of_its_caption() -> None:
    gflops = {row.method: row.gflops for row in figure2_left()}
    numbers = note("gflops-row").numbers
    assert numbers["one_product_gflop"] == round(ONE_PRODUCT_GFLOP, 1) == 137.4
    assert numbers["standard_gflop"] == round(6 * ONE_PRODUCT_GFLOP, 1) == 824.6
    assert numbers["flash_gflop"] == round(7 * ONE_PRODUCT_GFLOP, 1) == 962.1
    assert numbers["printed_difference_gflop"] == round(gflops["FlashAttention"] - gflops["Standard"], 1) == 8.6
    assert numbers["one_product_of_64_heads_gflop"] == round(ONE_PRODUCT_GFLOP * 64 / 1024, 2) == 8.59
    for method, products in (("Standard", 6), ("FlashAttention", 7)):
        assert gflops[method] < products * ONE_PRODUCT_GFLOP / 10


def test_the_runtime_of_version_2_fits_neither_table_7_nor_the_right_panel_and_the_other_fits_both() -> None:
    times = {row.version: row.milliseconds for row in figure2_left() if row.method == "FlashAttention"}
    from_table = 4 * value(7, "FlashAttention", 512, "fwd+bwd")
    from_right = figure2_right().rows[-1].milliseconds / 16
    assert (round(from_table, 1), round(from_right, 1)) == (11.2, 11.8)
    assert dict(note("runtime-7.3").numbers) == {"from_table_7_ms": 11.2, "from_figure_2_right_ms": 11.8}
    for time in (from_table, from_right):
        assert abs(times["other"] / time - 1) < 0.05
        assert abs(times["arXiv v2"] / time - 1) > 0.3


def test_no_obvious_list_moves_35_3_gigabytes() -> None:
    numbers = note("35.3-gigabytes").numbers
    assert numbers["nearest_list_gb"] == round(16 * SQUARE_GB + 12 * TALL_GB, 2) == 35.97
    assert numbers["fitting_number_gb"] == round(16 * SQUARE_GB + 7 * TALL_GB, 2) == 35.30


def test_megatron_in_table_9_takes_longer_than_tables_10_and_11_leave_for_it() -> None:
    numbers = note("megatron-table-9").numbers
    for n in (1024, 2048):
        left = value(11, "Megatron", n) - value(10, "Megatron", n)
        assert numbers[f"left_at_{n}_ms"] == round(left, 2)
        assert value(9, "Megatron", n) > 2 * left


def test_megatron_in_table_9_is_the_only_forward_pass_that_is_a_quarter_too_long() -> None:
    """Where all three are printed, N >= 2048: forward and backward pass apart against both together."""
    excess = {}
    for forward in (9, 12, 15, 18):
        for cell in cells(forward):
            backward, both = row(forward + 1, cell.method).get(cell.n), row(forward + 2, cell.method).get(cell.n)
            if cell.n >= 2048 and backward and both:
                excess[forward, cell.method, cell.n] = (cell.value + backward) / both
    assert len(excess) > 100
    assert [place for place, ratio in excess.items() if ratio > 1.25] == [(9, "Megatron", 2048)]


def repeated() -> dict[str, set[tuple[int, int]]]:
    """Pairs of tables in which a method has the same row."""
    found: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for method in METHODS:
        by_row = defaultdict(list)
        for number in range(9, 21):
            by_row[tuple(row(number, method).items())].append(number)
        for numbers in by_row.values():
            found[method].update(pairwise(numbers))
    return {method: pairs for method, pairs in found.items() if pairs}


def test_repeated_rows_are_those_that_the_notes_name() -> None:
    assert repeated() == {"LSformer": {(11, 14)}} | {method: {(11, 17), (12, 18), (13, 19), (14, 20)} for method in SPARSE}
    assert (note("repeated-rows").methods, note("repeated-rows").tables) == (("LSformer",), (11, 14))
    assert note("repeated-sparse-rows").methods == SPARSE
    assert note("repeated-sparse-rows").tables == (11, 12, 13, 14, 17, 18, 19, 20)


def test_the_mask_of_pytorch_costs_more_backwards_than_any_fill() -> None:
    numbers, square_gb = note("masked-pytorch-backward").numbers, 128 * 4096**2 * 2 / 1e9
    for name, masked, plain in (("forward", 12, 18), ("backward", 13, 19), ("both", 14, 20)):
        more = value(masked, "PyTorch Attention", 4096) - value(plain, "PyTorch Attention", 4096)
        assert numbers[f"{name}_ms"] == round(more, 1)
        assert numbers[f"{name}_passes"] == round(more / square_gb, 1)  # 1 TB/s is 1 GB a millisecond


def test_the_grid_of_the_appendix_is_half_filled() -> None:
    numbers = note("half-filled-grid").numbers
    assert numbers["occupancy"] == round((128 / 108) / math.ceil(128 / 108), 3) == 0.593
    assert numbers["table_7_ms_a_head"] == round(4 * value(7, "FlashAttention", 512, "fwd+bwd") / 1024, 5) == 0.01098
    assert numbers["table_11_ms_a_head"] == round(value(11, "FlashAttention", 1024) / 128, 4) == 0.0199


def test_every_number_of_a_note_is_in_its_text() -> None:
    for found in notes():
        if found.name not in {"counted-or-measured"}:  # whose text gives the formulas instead
            assert all(f"{number:g}" in found.text for number in found.numbers.values()), found.name


def test_notes_are_about_data_files_and_cells_that_exist() -> None:
    files = {path.stem for path in DATA.glob("*.toml")}
    for found in notes():
        assert set(found.about) <= files
        if found.tables:
            assert {cell.table for cell in cells() if found.concerns(cell)} == set(found.tables)
            assert set(found.methods) <= {cell.method for cell in cells() if found.concerns(cell)}
        else:
            assert not any(found.concerns(cell) for cell in cells())


def test_a_note_concerns_its_tables_methods_and_lengths_only() -> None:
    megatron, launch = note("megatron-table-9"), note("launch-bound")
    assert {(cell.table, cell.method) for cell in cells() if megatron.concerns(cell)} == {(9, "Megatron")}
    assert {cell.n for cell in cells() if launch.concerns(cell)} == {128, 256}


def test_notes_are_chosen_by_what_they_are_about_and_by_kind() -> None:
    assert {note.name for note in notes("figure_2_left")} >= {"gflops-row", "runtime-7.3", "35.3-gigabytes", "two-versions"}
    assert [note.name for note in notes("table_7")] == ["runtime-7.3"]
    assert {note.kind for note in notes(kind="condition")} == {"condition"}
    assert sum(len(notes(kind=kind)) for kind in ("misprint", "doubt", "condition")) == len(notes())


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: cells(8), "the data has no table 8; it has: 7, 9, 10"),
        (lambda: cells(method="Flash"), "the data has no method 'Flash'; it has: Apex FMHA, BigBird"),
        (lambda: cells(9, pass_="bwd"), "the data has no pass 'bwd'; it has: fwd"),
        (lambda: table(8), "there is no table 8 here"),
        (lambda: notes("figure_3"), "no note is about 'figure_3'; notes are about: figure_2_left"),
        (lambda: notes(kind=cast(Kind, "error")), "there is no note of the kind 'error'; kinds are: misprint, doubt, condition"),
    ],
)
def test_a_question_without_an_answer_is_refused(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        ask()
    assert "\n" not in str(caught.value)


LOADERS: dict[str, Callable[[Path], object]] = {
    "figure_2_left.toml": figure2_left,
    "figure_2_middle.toml": figure2_middle,
    "figure_2_right.toml": figure2_right,
    "online_softmax.toml": softmax_accesses,
    "notes.toml": lambda path: notes(path=path),
    "table_7.toml": tables,
    "tables_9_21.toml": tables,
    "table_7.csv": lambda path: tables(path.with_suffix(".toml")),
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the data that a test may spoil."""
    return shutil.copytree(DATA, tmp_path / "data")


@pytest.mark.parametrize("name", LOADERS)
def test_a_copy_of_a_shipped_file_loads_from_its_path(name: str, copy: Path) -> None:
    assert LOADERS[name](copy / name)


def test_cells_come_from_the_given_file_alone(copy: Path) -> None:
    assert len(cells(path=copy / "table_7.toml")) == 18
    assert cells(7, path=copy / "table_7.toml") == list(table(7))


SPOILT = [
    # file, what stands there, what is put there instead, line of the fault, what the message says
    ("table_7.csv", "table,pass", "tabel,pass", 1, "table is missing; give it"),
    ("table_7.csv", ",unit,", ",", 1, "unit is missing; give it"),
    ("table_7.csv", ",128,256,512", ",128,n256,512", 1, "a column must be table, pass, dropout, mask, method, unit or a sequence length"),
    ("table_7.csv", ",128,256,512", ",128,0,512", 1, "a column must be"),
    ("table_7.csv", ",128,256,512", ",128,128,512", 1, "two columns have the same name"),
    ("table_7.csv", ",0.22,0.81", ",fast,0.81", 3, "256 must be a number, not 'fast'"),
    ("table_7.csv", ",0.22,0.81", ",-0.22,0.81", 3, "256 must be finite and > 0, not -0.22"),
    ("table_7.csv", ",0.22,0.81", ",0,0.81", 3, "256 must be finite and > 0, not 0"),
    ("table_7.csv", ",0.22,0.81", ",nan,0.81", 3, "256 must be finite and > 0, not nan"),
    ("table_7.csv", ",0.22,0.81", ",inf,0.81", 3, "256 must be finite and > 0, not inf"),
    ("table_7.csv", ",0.22,0.81", ",1e999,0.81", 3, "256 must be finite and > 0, not inf"),
    ("table_7.csv", ",0.22,0.81", ",1_0,0.81", 3, "256 must be a number, not '1_0'"),
    ("table_7.csv", ",0.22,0.81", ",0.81", 3, "8 fields under 9 columns"),
    ("table_7.csv", ",0.22,0.81", ",0.22,0.81,9", 3, "10 fields under 9 columns"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7,backward,1,1,Apex", 4, "pass must be fwd or bwd or fwd+bwd, not 'backward'"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7,,1,1,Apex", 4, "pass is missing; give it"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7.5,bwd,1,1,Apex", 4, "table must be a whole number >= 1, not 7.5"),
    ("table_7.csv", "7,bwd,1,1,Apex", "0,bwd,1,1,Apex", 4, "table must be a whole number >= 1, not 0"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7,bwd,2,1,Apex", 4, "dropout must be 0 or 1, not 2"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7,bwd,1,yes,Apex", 4, "mask must be 0 or 1, not 'yes'"),
    ("table_7.csv", "bwd,1,1,Apex FMHA,", "bwd,1,1,,", 4, "method is missing; give it"),
    ("table_7.csv", "7,bwd,1,1,Apex FMHA,ms", "7,bwd,1,1,Apex FMHA,s", 4, "unit must be ms or MiB, not 's'"),
    ("table_7.csv", "7,bwd,1,1,Apex", "7,fwd,1,1,Apex", 4, "table 7, pass 'fwd', dropout True, mask True, method 'Apex FMHA', n 128 is"),
    ("table_7.csv", "Apex FMHA,ms,0.17", '"Apex FMHA,ms,0.17', 8, "not CSV: unexpected end of data"),
    ("table_7.toml", 'source = "arXiv', '#source = "arXiv', 1, "source is missing; give it"),
    ("table_7.toml", 'source = "arXiv 2205.14135 v2, Appendix E.4, Table 7"', 'source = " "', 2, "source must be words, not ' '"),
    ("table_7.toml", 'read = "printed"', "read = 3", 3, "read must be words, not 3"),
    ("table_7.toml", 'read = "printed"', 'raed = "printed"', 3, "'raed' is unknown here"),
    ("table_7.toml", "table_7.csv", "../table_7.csv", 4, "rows must be the name of a .csv file beside this one"),
    ("table_7.toml", "table_7.csv", "table_8.csv", 4, "rows names 'table_8.csv', but there is no such file beside this one"),
    ("table_7.toml", "[setup]", "[setap]", 1, "'setap' is unknown here"),
    ("table_7.toml", "[setup]", "[[setup]]", 1, "setup must be a table under a header [setup]"),
    ("table_7.toml", "d = 64", "d = 64.5", 7, "d must be a whole number >= 1, not 64.5"),
    ("table_7.toml", "d = 64", "e = 64", 7, "'e' is unknown here"),
    ("table_7.toml", "d = 64\n", "", 6, "d is missing; give it"),
    ("table_7.toml", "dropout = 0.1", "dropout = 1.0", 11, "dropout must be a probability below 1, not 1"),
    ("table_7.toml", '"mask"]', '"n"]', 14, "assumed names 'n', which the setup does not give"),
    ("table_7.toml", "d = 64", "d = ", 7, "not TOML: Invalid value"),
    ("table_7.toml", "d = 64", f"d = {'[' * 5000}", 1, "nested too deeply"),
    ("figure_2_left.toml", "gflops = 75.2", "gflops = -75.2", 26, "gflops must be finite and > 0, not -75.2"),
    ("figure_2_left.toml", "gflops = 75.2", "gflops = 1e308", 26, "gflops must be at most 1e+12, not 1e+308"),
    ("figure_2_left.toml", "gflops = 75.2", "gflops = nan", 26, "gflops must be finite and > 0, not nan"),
    ("figure_2_left.toml", "gflops = 75.2", f"gflops = 1{'0' * 400}", 26, "gflops must be finite and > 0, not 1000"),
    ("figure_2_left.toml", "gflops = 75.2", 'gflops = "75.2"', 26, "gflops must be a number, not '75.2'"),
    ("figure_2_left.toml", "gflops = 75.2", "gflops = true", 26, "gflops must be a number, not True"),
    ("figure_2_left.toml", "gflops = 75.2", "mistyped = 75.2", 26, "'mistyped' is unknown here"),
    ("figure_2_left.toml", "gflops = 75.2\n", "", 23, "gflops is missing; give it"),
    ("figure_2_left.toml", 'method = "FlashAttention"', 'method = ["FlashAttention"]', 25, "method must be words, not ['FlashAttention']"),
    ("figure_2_left.toml", 'method = "FlashAttention"', 'method = "Standard"', 24, "version 'arXiv v2', method 'Standard' is given twice"),
    ("figure_2_middle.toml", "block_cols = 128", "block_cols = 64", 26, "block_cols 64 is given twice, first on line 20"),
    ("figure_2_middle.toml", "block_cols = 128", "block_cols = 0", 26, "block_cols must be a whole number >= 1, not 0"),
    ("figure_2_middle.toml", "gigabytes = 0.003", "gigabyte = 0.003", 17, "error names 'gigabyte'"),
    ("figure_2_right.toml", "percent = 20", "percent = 120", 26, "percent must be at most 100, not 120"),
    ("figure_2_right.toml", "percent = 20", "percent = 10.0", 25, "method 'Block-Sparse FlashAttention', percent 10.0 is given twice"),
    ("online_softmax.toml", "[[row]]", "[[rows]]", 1, "'rows' is unknown here"),
    ("online_softmax.toml", "loads = 3", "loads = -3", 12, "loads must be a whole number >= 1, not -3"),
    ("online_softmax.toml", 'method = "safe"', 'method = "naive"', 11, "method 'naive' is given twice, first on line 5"),
    ("notes.toml", 'kind = "misprint"', 'kind = "error"', 72, "kind must be misprint or doubt or condition, not 'error'"),
    ("notes.toml", "tables = [9]", "tables = [9.5]", 74, "tables must be a whole number >= 1, not 9.5"),
    ("notes.toml", "tables = [9]", "tables = 9", 74, "tables must be a list of whole numbers, not 9"),
    ("notes.toml", 'methods = ["Megatron"]', "methods = [3]", 75, "methods must be a list of words, not [3]"),
    ("notes.toml", 'name = "35.3-gigabytes"', 'name = "gflops-row"', 42, "name 'gflops-row' is given twice, first on line 5"),
    ("notes.toml", "left_at_1024_ms = 1.79", 'left_at_1024_ms = "1.79"', 70, "left_at_1024_ms must be a number, not '1.79'"),
    ("notes.toml", "up_to_n = 256", "up_to_n = 0.5", 142, "up_to_n must be a whole number >= 1, not 0.5"),
]  # fmt: skip


def refusal(name: str, folder: Path) -> str | None:
    """Why the file ``name`` of ``folder`` is refused; None where it loads."""
    try:
        LOADERS[name](folder / name)
    except BadInput as error:
        return str(error)
    return None


@pytest.mark.parametrize(("name", "stands", "instead", "line", "message"), SPOILT, ids=[f"{s[0]}-{i}" for i, s in enumerate(SPOILT)])
def test_a_spoilt_file_is_refused_by_name_line_and_reason(
    copy: Path, name: str, stands: str, instead: str, line: int, message: str
) -> None:
    text = (copy / name).read_text(encoding="utf-8")
    assert stands in text
    (copy / name).write_text(text.replace(stands, instead, 1), encoding="utf-8")
    found = refusal(name, copy)
    assert found is not None
    assert found.startswith(f"{copy / name}, line {line}: {message}")
    assert "\n" not in found


HEAD = 'name = "a"\nsource = "b"\nread = "c"\n'
ENTRY = 'method = "naive"\nloads = 2\nstores = 1\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "row = [{method = 'naive', loads = 2, stores = 1}]\n", 4),
        (HEAD + "row = []\n", 4),
        (HEAD + "row = 3\n", 4),
        (HEAD + "row.method = 'naive'\n", 1),
        (HEAD + "[[row]]\n" + ENTRY + 'also = """\n[[row]]\n"""\n', 1),
    ],
)
def test_entries_whose_lines_cannot_be_known_are_refused(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "online_softmax.toml").write_text(text, encoding="utf-8")
    found = refusal("online_softmax.toml", tmp_path)
    assert found == f"{tmp_path / 'online_softmax.toml'}, line {line}: every row needs a header [[row]] of its own"


def test_a_setup_whose_lines_cannot_be_known_is_refused(copy: Path) -> None:
    text = (copy / "table_7.toml").read_text(encoding="utf-8")
    (copy / "table_7.toml").write_text(text[: text.index("[setup]")] + "setup = {d = 64}\n", encoding="utf-8")
    found = refusal("table_7.toml", copy)
    assert found is not None
    assert found.endswith("line 6: setup must be a table under a header [setup]")


def test_a_file_that_is_not_there_or_not_text_is_refused(copy: Path) -> None:
    with pytest.raises(BadInput, match=r"table_8\.toml cannot be read: No such file"):
        tables(copy / "table_8.toml")
    with pytest.raises(BadInput, match="cannot be read"):
        tables(copy)
    (copy / "figure_2_left.toml").write_bytes(b'name = "a"\nsource = "\xff"\n')
    with pytest.raises(BadInput, match=r"figure_2_left\.toml, line 2: not UTF-8 text"):
        figure2_left(copy / "figure_2_left.toml")


@pytest.mark.parametrize(("text", "message"), [("", "table is missing"), ("table,pass,dropout,mask,method,unit\n", "no column"),
                                               ("table,pass,dropout,mask,method,unit,128\n\n", "no cell below the head")])  # fmt: skip
def test_a_table_without_cells_is_refused(copy: Path, text: str, message: str) -> None:
    (copy / "table_7.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=rf"table_7\.csv, line 1: {message}"):
        tables(copy / "table_7.toml")


SPOILS = st.sampled_from(["", ",", "\n", "0", "-1", "nan", '"', "[", "]", "=", "é", "\x00", "\r", "[[row]]", "# ", "'''", "1e400"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(DATA, tmp_path_factory.mktemp("spoilt") / "data")


@given(data=st.data(), name=st.sampled_from(sorted(LOADERS.keys() - {"tables_9_21.toml"})), spoil=SPOILS)
def test_whatever_is_put_into_a_file_it_loads_or_is_refused_in_one_line(folder: Path, data: st.DataObject, name: str, spoil: str) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    first = data.draw(st.integers(0, len(text) - 1))
    last = data.draw(st.integers(first, min(len(text), first + 12)))
    (folder / name).write_text(text[:first] + spoil + text[last:], encoding="utf-8")
    found = refusal(name, folder)
    (folder / name).write_text(text, encoding="utf-8")
    assert found is None or re.fullmatch(rf"{re.escape(str(folder / name))}, line \d+: .+", found)


def test_a_cell_cannot_be_changed() -> None:
    cell: Cell = cells(18)[0]
    with pytest.raises(AttributeError):
        cell.value = 1.0  # type: ignore[misc]  # that is the point
