"""Every kernel on several heads with dropout, forward and backward, against the reference; and what two passes amount to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from iosim import BACKWARD, KERNELS, Attention, BadInput, both, problem_of, simulate
from iosim.attention.passes import kernels_of
from iosim.core.hardware import device
from iosim.testing import variants
from iosim_reference import attention, gradients

BATCH, HEADS, N, NK, D, DV = 2, 4, 11, 13, 5, 3
RULES: dict[str, Any] = {"window": (7, 2)}
EVERY = [  # but kernels whose own mask is another problem
    (kernel, options, kv_heads)
    for kernel, found in KERNELS.items()
    if found.brings is None
    for options in variants(kernel, skip=True)
    for kv_heads in ((2,) if found.chosen(options) else (1, 2, 4))
]


@pytest.mark.parametrize(("kernel", "options", "kv_heads"), EVERY, ids=str)
def test_all_heads_of_all_kernels_with_dropout(kernel: str, options: dict[str, Any], kv_heads: int) -> None:
    """Batches, groups, dropout and a window together: every head has its own dropout mask, the same in both passes."""
    rng = np.random.default_rng(7)
    shapes = (HEADS, N, D), (kv_heads, NK, D), (kv_heads, NK, DV), (HEADS, N, DV)
    q, k, v, do = (rng.standard_normal((BATCH, *shape)) for shape in shapes)
    backward = KERNELS[kernel].forward is not None
    problem = problem_of(q, k, v, dropout=0.3, dropout_seed=2**40 + 9, **RULES)
    inputs = (q, k, v, do) if backward else (q, k, v)
    made = simulate(kernel, problem, sram=10**6, blocks=(4, 3), inputs=inputs, **options)
    assert made.sound
    if backward:
        exact = gradients(q, k, v, do, dropout=0.3, seed=2**40 + 9, **RULES)
        expected = {"dQ": exact.dq, "dK": exact.dk, "dV": exact.dv}
    else:
        expected = {"O": attention(q, k, v, dropout=0.3, seed=2**40 + 9, **RULES).output}
    for name, right in expected.items():
        np.testing.assert_allclose(made.values[name].astype(np.float64), right, rtol=0, atol=1e-12)
        assert made.bounds[name] < 1e-8  # a bound that a wrong digit exceeds


@pytest.mark.parametrize("kernel", [name for name, found in KERNELS.items() if {"accumulator", "pack"} <= set(found.has)])
@pytest.mark.parametrize("pack", [False, True])
def test_accumulators_are_wide_in_groups_too(kernel: str, pack: bool) -> None:
    made = simulate(kernel, Attention(16, 8, heads=4, kv_heads=1, dtype="float16"), sram=10**6, accumulator="float32", pack=pack)
    wide = {name for name, array in made.arrays.items() if array.itemsize == 4}
    assert wide & {"O_acc", "dQ_acc"}
    assert {made.arrays[name].itemsize for name in ("Q", "K", "V")} == {2}


@pytest.mark.parametrize(
    ("kernel", "options", "blocks"),
    [
        ("flash", {}, 3 * 8), ("flash", {"pack": True}, 3 * 2), ("flash2", {}, 3 * 8 * 4), ("flash2", {"pack": True}, 3 * 2 * 13),
        ("flash-backward", {}, 3 * 8), ("flash2-backward", {}, 3 * 8 * 5), ("flash2-backward", {"pack": True}, 3 * 2 * 5),
        ("standard", {}, None), ("pytorch", {}, None),
    ],
)  # fmt: skip
def test_how_many_thread_blocks_a_gpu_runs(kernel: str, options: dict[str, Any], blocks: int | None) -> None:
    """FlashAttention runs one a head, FlashAttention-2 one a query tile, and backward one a key tile; packed heads share them."""
    problem = Attention(50, 8, nk=70, batch=3, heads=8, kv_heads=2)
    assert simulate(kernel, problem, sram=10**6, blocks=(16, 16), execute=False, **options).grid == blocks


def test_two_passes_are_summed_and_their_peaks_are_not() -> None:
    found = both("flash", Attention(256, 32, heads=4, dtype="float16"), device="a100-40gb", blocks=(32, 32), accumulator="float32")
    one, two = found.reports
    record = found.record()
    assert (one.kernel, two.kernel, found.sound) == ("flash", "flash-backward", True)
    assert one.sram == two.sram == device("a100-40gb").sram
    assert record["total"] == found.total == one.total + two.total
    assert record["total_bytes"] == found.bytes == one.bytes + two.bytes
    assert record["peak_sram"] == found.peak_sram == max(one.peak_sram, two.peak_sram) == two.peak_sram
    assert record["peak_hbm"] == max(one.peak_hbm, two.peak_hbm) == two.peak_hbm > one.peak_hbm
    assert found.peak_hbm_bytes == two.peak_hbm_bytes
    assert one.time is not None
    assert two.time is not None
    assert record["seconds"] == found.seconds == one.time.seconds + two.time.seconds
    assert record["passes"] == [one.record(), two.record()]
    assert record["flops"] == {
        "matmul": one.flops.matmul + two.flops.matmul,
        "elementwise": found.flops.elementwise,
        "exp": found.flops.exp,
    }


def test_both_passes_of_own_arrays() -> None:
    rng = np.random.default_rng(1)
    q, k, v, do = (rng.standard_normal((9, 4)) for _ in range(4))
    found = both("flash2", problem_of(q, k, v), sram=10**4, inputs=(q, k, v, do))
    np.testing.assert_allclose(found.reports[1].values["dV"].astype(float), gradients(q, k, v, do).dv, atol=1e-12)


def test_the_two_passes_of_a_kernel_know_each_other() -> None:
    for name, backward in BACKWARD.items():
        assert KERNELS[name].forward is None
        assert str(KERNELS[backward].forward) in BACKWARD
    for name, found in KERNELS.items():
        assert found.forward is None or BACKWARD[str(found.forward)] == name
    assert [kernel.name for kernel in kernels_of("block-sparse", "both")] == ["block-sparse", "flash-backward"]
    alone = kernels_of("flash2-backward", None)
    assert alone == kernels_of("flash2-backward", "backward")
    assert [kernel.name for kernel in alone] == ["flash2-backward"]
    with pytest.raises(BadInput, match="flash2-backward is a backward pass and has no other; ask for --pass both of flash2"):
        kernels_of("flash2-backward", "both")


def test_what_float64_cannot_hold_is_told_in_one_line() -> None:
    with np.errstate(all="ignore"):
        with pytest.raises(BadInput, match="the oracle cannot judge flash2: scale"):
            simulate("flash2", Attention(8, 4, scale=1e308), sram=1000)
        with pytest.raises(BadInput, match="the forward pass, flash2, stored an O that is not finite"):
            simulate("flash2-backward", Attention(8, 4, scale=1e300), sram=1000)


def test_a_group_that_is_too_large_to_replay_is_not() -> None:
    assert "replayed" not in simulate("flash2", Attention(64, 4, heads=800, kv_heads=1), sram=10**4, blocks=(8, 8), execute=False).agreed
