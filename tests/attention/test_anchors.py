"""Numbers that the issue, the papers and the cases print, reproduced to the word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from iosim import KERNELS, Attention, both, simulate, sweep
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.attention.sweep import Record
from iosim.core.masks import BlockMask, patterns

SQUARE = Attention(n=1024, d=64)


def moved(kernel: str, problem: Attention = SQUARE, blocks: tuple[int, int] = (64, 64), **options: str) -> dict[str, tuple[int, int, int]]:
    found = report(make_plan(kernel, problem, 10**6, blocks, None, options), execute=False, replay=False)
    assert found.sound
    return {name: (a.reads, a.writes, a.init_writes) for name, a in found.arrays.items()}


def total(record: Record) -> int:
    words = record["total"]
    assert isinstance(words, int)
    return words


def test_flash_as_printed() -> None:
    assert moved("flash") == {
        "Q": (1048576, 0, 0),
        "K": (65536, 0, 0),
        "V": (65536, 0, 0),
        "O": (1048576, 1048576 + 65536, 65536),
        "l": (16384, 16384 + 1024, 1024),
        "m": (16384, 16384 + 1024, 1024),
    }


def test_flash_that_creates_its_state_on_chip() -> None:
    found = moved("flash", first_pass="create")
    assert found["O"] == (983040, 1048576, 0)
    assert found["l"] == found["m"] == (15360, 16384, 0)


def test_flash2() -> None:
    assert moved("flash2") == {
        "Q": (65536, 0, 0),
        "K": (1048576, 0, 0),
        "V": (1048576, 0, 0),
        "O": (0, 65536, 0),
        "LSE": (0, 1024, 0),
    }


def test_standard_ideal_and_tiled() -> None:
    ideal = moved("standard", reuse="ideal")
    assert sum(reads + writes for reads, writes, _ in ideal.values()) == 4456448 == 4 * 1024**2 + 4 * 1024 * 64
    tiled = moved("standard")
    assert tiled["K"] == tiled["V"] == (1048576, 0, 0)
    assert tiled["S"] == tiled["P"] == (1048576, 1048576, 0)


def test_standard_in_bytes_is_34_64_and_34_mebibytes() -> None:
    problem = Attention(n=4096, d=128, dtype="float16")
    found = simulate("standard", problem, sram="4GiB", reuse="ideal", execute=False, replay=False)
    steps = {name: (a.reads + a.writes) * a.itemsize for name, a in found.arrays.items()}
    assert found.bytes == 138412032
    assert steps["Q"] + steps["K"] + steps["S"] // 2 == 34 * 2**20
    assert steps["S"] // 2 + steps["P"] // 2 == 64 * 2**20
    assert steps["P"] // 2 + steps["V"] + steps["O"] == 34 * 2**20


@pytest.mark.parametrize(("cols", "published"), [(64, 6.5767), (128, 3.3554), (256, 1.7448), (512, 0.9395)])
def test_figure_2_middle(cols: int, published: float) -> None:
    """FlashAttention paper (arXiv 2205.14135 v2), Figure 2, middle: GB of Q, K, V and O, GPT-2 medium's attention in float16."""
    problem = Attention(n=1024, d=64, batch=64, heads=16, dtype="float16")
    found = simulate("flash", problem, sram=10**6, blocks=(64, cols), first_pass="create", execute=False, replay=False)
    gigabytes = sum((found.arrays[name].reads + found.arrays[name].writes) * 2 for name in "QKVO") / 1e9
    assert round(gigabytes, 4) == published


@pytest.mark.parametrize(
    ("sram", "flash2", "flash"),
    [(49152, 11_014_144, 16_850_944), (98304, 5_246_976, 8_019_968), (262144, 2_625_536, 4_005_888)],
)
def test_flash2_moves_less_than_flash_where_both_fit(sram: int, flash2: int, flash: int) -> None:
    records = {str(record["kernel"]): record for record in sweep(Attention(n=4096, d=64), ["flash", "flash2"], sram=sram)}
    assert (records["flash2"]["total"], records["flash"]["total"]) == (flash2, flash)
    assert records["flash2"]["block_cols"] == records["flash"]["block_rows"] == 64


def test_flash2_stays_below_flash_over_the_whole_range() -> None:
    records = sweep(Attention(n=4096, d=64), ["flash", "flash2"], sram=list(range(49152, 262145, 4096)))
    totals = [total(record) for record in records]
    assert all(two < one for one, two in zip(totals[::2], totals[1::2], strict=True))


@pytest.mark.parametrize("kernel", [name for name, found in KERNELS.items() if found.forward is None])
@pytest.mark.parametrize("n", [1, 7, 64, 300])
def test_no_kernel_moves_less_than_every_word_once(kernel: str, n: int) -> None:
    everything = patterns.dense(n, n, 4, 4) if kernel == "block-sparse" else None
    problem = Attention(n=n, d=16, block_mask=everything)
    sizes = [50, 100, 200, 500, 1000, 5000, 10**5, 10**7]
    counted = [total(record) for record in sweep(problem, [kernel], sram=sizes) if record["error"] is None]
    assert counted
    assert all(words >= 4 * n * 16 for words in counted)


RULES = [{"causal": True}, {"window": (1000, 0)}, {"window": (300, 77)}, {"causal": True, "window": (513, 9)}]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_long_masked_count_equals_the_closed_form(kernel: str, rule: Any) -> None:
    problem = replace(Attention(n=65536, d=64), **rule)
    found = simulate(kernel, problem, sram=10**6, blocks=(64, 128), execute=False, replay=False)
    assert found.agreed == {"predicted": True}


@pytest.mark.parametrize("kernel", ["flash", "flash2", "block-sparse"])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_masked_count_equals_the_enumerated_run(kernel: str, rule: Any) -> None:
    problem = replace(Attention(n=4096, d=8), **rule)
    found = simulate(kernel, problem, sram=10**6, blocks=(64, 100), execute=False, replay=True)
    assert found.agreed == {"predicted": True, "replayed": True}


@pytest.mark.parametrize("pattern", ["butterfly", "local:2+global:1", "strided:7", "random:0.1,3", "window:500,20"])
@pytest.mark.parametrize("n", [4096, 65536])
def test_block_sparse_counts_of_long_sequences(pattern: str, n: int) -> None:
    blocks: BlockMask = patterns.parse(pattern, n, n, 64, 64)
    blocks = blocks.filled()
    plan = make_plan("block-sparse", Attention(n=n, d=8, block_mask=blocks), 10**6, (64, 64), None, {})
    found = report(plan, execute=False, replay=n <= 4096)
    assert found.agreed == ({"predicted": True, "replayed": True} if n <= 4096 else {"predicted": True})
    assert found.arrays["Q"].reads == blocks.nnz * 64 * 8


PASSES = {"Q": 4, "dO": 4, "O": 1, "dQ": 7, "K": 1, "V": 1, "dK": 1, "dV": 1}


def test_the_backward_pass_that_the_paper_counted_moves_twenty_passes() -> None:
    """Figure 2, left: N = 1024, d = 64, Tc = 4, float16, 1024 heads; D is stored once, dQ made in the first pass."""
    problem = Attention(1024, 64, batch=64, heads=16, dtype="float16")
    found = simulate("flash-backward", problem, sram=10**6, blocks=(16, 256), first_pass="create", execute=False)
    once = 1024 * 64 * 1024
    assert found.agreed["predicted"]
    assert {name: found.arrays[name].reads + found.arrays[name].writes for name in PASSES} == {n: k * once for n, k in PASSES.items()}
    assert sum(PASSES.values()) == 20
    assert set(found.arrays) == {*PASSES, "l", "m", "D"}
    assert (found.arrays["D"].reads, found.arrays["D"].writes) == (3 * 1024 * 1024, 1024 * 1024)


def test_both_passes_of_standard_attention_move_eighteen_squares_and_twelve_passes() -> None:
    """Figure 2, left: 40.3 GB are 18 N^2 elements of two bytes (two masks of one byte make one) and 12 N d, for 1024 heads."""
    problem = Attention(1024, 64, batch=64, heads=16, dtype="float16", causal=True, dropout=0.1)
    found = both("pytorch", problem, sram=10**6, blocks=(16, 256), reuse="ideal", execute=False)
    assert all(made.agreed["predicted"] for made in found.reports)
    assert found.bytes == 2 * 1024 * (18 * 1024**2 + 12 * 1024 * 64) == 40_265_318_400


@pytest.mark.parametrize(("kernel", "passes"), [("flash", 13 + 20), ("released", 19 + 26)])
def test_both_passes_of_flash_attention(kernel: str, passes: int) -> None:
    """4.4 GB as the paper counts Q, K, V, O and their gradients; 6.0 GB with the float32 accumulators of the released code."""
    problem = Attention(1024, 64, batch=64, heads=16, dtype="float16")
    options: dict[str, Any] = {"first_pass": "create"} if kernel == "flash" else {}
    found = both(kernel, problem, sram=10**6, blocks=(16, 256), execute=False, **options)
    moved = sum(
        (array.reads + array.writes) * array.itemsize
        for made in found.reports
        for name, array in made.arrays.items()
        if name not in ("l", "m", "LSE", "D")
    )
    assert moved == passes * 2 * 1024 * 64 * 1024
