"""``iosim run`` and ``iosim compare``: the library's own numbers, exact, in every form."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iosim import FORWARD, KERNELS, Attention, BlockMask, predict, simulate

KEYS = {
    "kernel", "n", "nk", "d", "dv", "batch", "heads", "kv_heads", "dtype", "pass", "sram", "sram_unit", "block_rows", "block_cols", "reads",
    "writes", "total", "read_bytes", "write_bytes", "total_bytes", "arrays", "flops", "peak_sram", "peak_hbm", "overflow", "max_error",
    "predicted_reads", "predicted_writes", "compulsory", "lower_bound", "lower_bound_name",
}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_road_gives_the_same_numbers(document: Callable[[str], Any], kernel: str) -> None:
    sram = "12288 --overflow record" if kernel.startswith("fmha") else "12288"  # which keeps all keys on chip
    found = document(f"run {kernel} --n 250 --d 64 --sram {sram} {'--blocks 32x32' if 'overflow' in sram else ''}")
    assert set(found) >= KEYS
    assert found["agreed"] == {"executed": True, "predicted": True, "replayed": True}
    assert found["max_error"] <= found["error_bound"]
    assert found["reads"] == sum(array["reads"] for array in found["arrays"].values()) == found["predicted_reads"]
    assert found["writes"] == sum(array["writes"] for array in found["arrays"].values()) == found["predicted_writes"]
    blocks = (32, 32) if kernel.startswith("fmha") else "fit"
    overflow = "record" if kernel.startswith("fmha") else None
    assert found == simulate(kernel, Attention(n=250, d=64), sram=12288, blocks=blocks, overflow=overflow).record()  # type: ignore[arg-type]


def test_options_reach_the_library(document: Callable[[str], Any]) -> None:
    line = "run flash --n 100 --nk 130 --d 8 --dv 5 --batch 2 --heads 3 --dtype float64 --scale 0 --causal --window 40,9 --seed 7"
    found = document(f"{line} --sram 2KB --blocks 12x9 --overflow record --first-pass create --no-skip")
    problem = Attention(n=100, nk=130, d=8, dv=5, batch=2, heads=3, dtype="float64", scale=0.0, causal=True, window=(40, 9))
    asked = {"sram": "2KB", "blocks": (12, 9), "overflow": "record", "seed": 7, "first_pass": "create", "skip": False}
    assert found == simulate("flash", problem, **asked).record()  # type: ignore[arg-type]  # the options are checked at run time
    assert found["overflow"] > 0


def test_masks_come_from_files_and_patterns(document: Callable[[str], Any], tmp_path: Path) -> None:
    mask = np.random.default_rng(1).random((60, 70)) < 0.3
    np.save(tmp_path / "mask.npy", mask)
    found = document(f"run flash2 --n 60 --nk 70 --d 4 --sram 900 --mask {tmp_path / 'mask.npy'}")
    assert found == simulate("flash2", Attention(n=60, nk=70, d=4, mask=mask), sram=900).record()
    np.save(tmp_path / "grid.npy", np.eye(4, dtype=bool))
    found = document(f"run flash2 --n 64 --d 4 --sram 2000 --blocks 16x16 --block-mask {tmp_path / 'grid.npy'}")
    blocks = BlockMask.from_dense(np.eye(4, dtype=bool), 64, 64, 16, 16)
    assert found == simulate("flash2", Attention(n=64, d=4, block_mask=blocks), sram=2000, blocks=(16, 16)).record()


def test_a_pattern_is_made_for_the_blocks_that_the_rule_chooses(document: Callable[[str], Any]) -> None:
    dense = document("run block-sparse --n 512 --d 16 --sram 4096 --block-mask dense --no-execute")
    sparse = document("run block-sparse --n 512 --d 16 --sram 4096 --block-mask local:1 --no-execute")
    assert (dense["block_rows"], dense["block_cols"]) == (sparse["block_rows"], sparse["block_cols"])
    assert dense["total"] == simulate("flash", Attention(n=512, d=16), sram=4096).total > sparse["total"]


def test_the_table_is_the_report(answer: Callable[[str], str]) -> None:
    assert answer("run flash2 --n 256") == f"{simulate('flash2', Attention(n=256, d=64))!r}\n"


def test_paper_blocks_overflow_and_say_so(answer: Callable[[str], str]) -> None:
    assert "overflow recorded" in answer("run flash2 --n 256 --blocks paper")


def test_no_execute_counts_only(document: Callable[[str], Any]) -> None:
    found = document("run flash2 --n 256 --no-execute")
    assert found["max_error"] is None
    assert "executed" not in found["agreed"]


def test_csv_has_one_row_an_array(answer: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer("run flash --n 300 --csv"))))
    report = simulate("flash", Attention(n=300, d=64))
    assert [row["array"] for row in rows] == list(report.arrays)
    assert sum(int(row["reads"]) + int(row["writes"]) for row in rows) == report.total


def test_compare_sets_the_kernels_side_by_side(document: Callable[[str], Any]) -> None:
    found = document("compare --n 300 --d 16 --sram 4096 --first-pass create")
    assert [record["kernel"] for record in found] == list(FORWARD)
    problem = Attention(n=300, d=16)
    for record in found:
        first_pass = "create" if "first_pass" in KERNELS[record["kernel"]].has else None
        assert record == simulate(record["kernel"], problem, sram=4096, first_pass=first_pass).record()


def test_compare_as_csv_has_the_numbers_of_the_table(answer: Callable[[str], str]) -> None:
    rows = list(csv.DictReader(io.StringIO(answer("compare --n 256 --csv"))))
    text = answer("compare --n 256")
    assert "SRAM 100 KiB" in text
    assert "peak SRAM in bytes" in text
    assert [f"{int(row['total']):,}" in text for row in rows] == [True] * len(FORWARD)
    assert {row["agreed_predicted"] for row in rows} == {"true"}


def test_compare_tells_why_a_kernel_is_missing(answer: Callable[[str], str]) -> None:
    needed = {name: predict.smallest_sram(name, Attention(64, 64)) for name in FORWARD}
    text = answer("compare --n 64 --sram 262 --no-execute")
    assert "flash: no blocks of flash fit in 262 words; the smallest SRAM for any blocks is 265 words" in text.splitlines()
    rows = [line.split()[0] for line in text.splitlines() if line.startswith(tuple(f"{name} " for name in FORWARD))]
    assert rows == [name for name in FORWARD if needed[name] <= 262] != []


def test_compare_uses_one_grid_for_a_block_mask(document: Callable[[str], Any]) -> None:
    found = document("compare --n 128 --d 8 --blocks 16x16 --block-mask local:1")
    assert {(record["block_rows"], record["block_cols"]) for record in found} == {(16, 16)}
    assert all(all(record["agreed"].values()) for record in found)
