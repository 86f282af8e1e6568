"""Grouped heads: values, words and gradients where query heads share a K and V, one after the other or packed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, Attention, BadInput, problem_of, simulate
from iosim.cli import main
from iosim_reference import attention, gradients

PACKING = [name for name, found in KERNELS.items() if "pack" in found.has]
BATCH, HEADS, KV_HEADS = 2, 8, 2
GROUP = HEADS // KV_HEADS
N, NK, D, DV = 40, 56, 8, 4
BLOCKS = (16, 8)


def grouped(**rules: Any) -> Attention:
    return Attention(N, D, nk=NK, dv=DV, batch=BATCH, heads=HEADS, kv_heads=KV_HEADS, **rules)


def tensors(dtype: type = np.float64) -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = (HEADS, N, D), (KV_HEADS, NK, D), (KV_HEADS, NK, DV), (HEADS, N, DV)
    return [rng.standard_normal((BATCH, *shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("kernel", ["flash", "flash2"])
def test_values_of_all_heads_in_their_layout(kernel: str, pack: bool) -> None:
    q, k, v, _ = tensors()
    rules: dict[str, Any] = {"causal": True}
    problem = problem_of(q, k, v, dropout=0.2, dropout_seed=3, **rules)
    assert (problem.heads, problem.kv_heads, problem.group, problem.instances) == (8, 2, 4, 4)
    made = simulate(kernel, problem, sram=10**5, blocks=BLOCKS, inputs=(q, k, v), pack=pack)
    expected = attention(q, k, v, dropout=0.2, seed=3, **rules)
    assert made.sound
    assert made.output is not None
    assert made.lse is not None
    np.testing.assert_allclose(made.output.astype(np.float64), expected.output, rtol=0, atol=1e-12)
    np.testing.assert_allclose(made.lse.astype(np.float64), expected.lse, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("kernel", ["flash-backward", "flash2-backward"])
def test_gradients_are_summed_over_the_group(kernel: str, pack: bool) -> None:
    q, k, v, do = tensors()
    made = simulate(kernel, problem_of(q, k, v, window=(20, 3)), sram=10**5, blocks=BLOCKS, inputs=(q, k, v, do), pack=pack)
    expected = gradients(q, k, v, do, window=(20, 3))
    assert made.sound
    for name, right in (("dQ", expected.dq), ("dK", expected.dk), ("dV", expected.dv)):
        assert made.values[name].shape == right.shape
        np.testing.assert_allclose(made.values[name].astype(np.float64), right, rtol=0, atol=1e-11)


def test_words_of_flash2_one_head_after_the_other_and_packed() -> None:
    """One after the other, every query tile of every head loads K and V; packed, 160 rows make 10 tiles instead of 4 x 3."""
    apart, together = (simulate("flash2", grouped(), sram=10**5, blocks=BLOCKS, pack=pack, execute=False) for pack in (False, True))
    machines = BATCH * KV_HEADS
    for made, tiles in ((apart, GROUP * 3), (together, 10)):
        assert {name: (a.reads, a.writes) for name, a in made.arrays.items()} == {
            "Q": (machines * GROUP * N * D, 0),
            "K": (machines * tiles * NK * D, 0),
            "V": (machines * tiles * NK * DV, 0),
            "O": (0, machines * GROUP * N * DV),
            "LSE": (0, machines * GROUP * N),
        }
    assert apart.lower_bound == together.lower_bound == machines * (GROUP * N * (D + DV) + NK * (D + DV))


def test_one_new_token_reads_the_cache_once_if_its_heads_are_packed() -> None:
    """Decoding: with N_q = 1, the four heads of a group read K and V four times apart, and once packed."""
    problem = Attention(1, 64, nk=1000, heads=32, kv_heads=8)
    apart, together = (simulate("flash2", problem, sram=10**5, blocks=(16, 64), pack=pack, execute=False) for pack in (False, True))
    assert apart.arrays["K"].reads == 4 * together.arrays["K"].reads == 4 * 8 * 1000 * 64


def test_words_of_the_shares_of_dk_and_dv() -> None:
    """One after the other each head stores its shares, which are then read and stored as one sum; packed there is no sum to make."""
    apart, together = (
        simulate("flash2-backward", grouped(), sram=10**5, blocks=BLOCKS, pack=pack, execute=False) for pack in (False, True)
    )
    machines = BATCH * KV_HEADS
    for name, width in (("dK", D), ("dV", DV)):
        assert (apart.arrays[name].reads, apart.arrays[name].writes) == (machines * GROUP * NK * width, machines * (GROUP + 1) * NK * width)
        assert (together.arrays[name].reads, together.arrays[name].writes) == (0, machines * NK * width)


@pytest.mark.parametrize("kernel", PACKING)
@pytest.mark.parametrize("pack", [False, True])
def test_explain_accounts_for_every_word(kernel: str, pack: bool, capsys: pytest.CaptureFixture[str]) -> None:
    line = f"explain {kernel} --n {N} --nk {NK} --d {D} --dv {DV} --batch 2 --heads 8 --kv-heads 2 --sram 5000 --blocks 16x8 --causal"
    assert main([*line.split(), *(["--pack"] if pack else [])]) == 0
    text = capsys.readouterr().out
    assert "on 2 KV heads" in text
    assert "equal" in text


@pytest.mark.parametrize("kernel", PACKING)
@given(
    n=st.integers(1, 24), nk=st.integers(1, 40), group=st.integers(1, 4), rows=st.integers(1, 40), cols=st.integers(1, 20),
    rule=st.sampled_from(["none", "causal", "window", "skip"]), pack=st.booleans(), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_all_roads_meet_for_any_group(
    kernel: str, n: int, nk: int, group: int, rows: int, cols: int, rule: str, pack: bool, seed: int
) -> None:
    rules = {"none": {}, "causal": {"causal": True}, "window": {"window": (seed % 7, seed % 5)}, "skip": {"causal": True}}[rule]
    problem = Attention(n, 5, nk=nk, dv=3, heads=2 * group, kv_heads=2, dropout=0.3 * (seed % 2), dropout_seed=seed, **rules)  # type: ignore[arg-type]
    made = simulate(kernel, problem, sram=10**6, blocks=(rows, cols), replay=True, check=3, pack=pack, skip=rule != "skip")
    assert made.agreed == {"executed": True, "predicted": True, "replayed": True}
    assert made.broken == ()


def test_kv_heads_that_do_not_divide_heads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match="kv_heads must divide heads, so that every KV head serves as many, but 3 does not divide 8"):
        Attention(8, 4, heads=8, kv_heads=3)
    assert main(["run", "flash2", "--heads", "8", "--kv-heads", "3"]) == 2
    assert "kv_heads must divide heads" in capsys.readouterr().err


@pytest.mark.parametrize("kernel", PACKING)
def test_masks_whose_rows_are_queries_are_not_for_packed_heads(kernel: str) -> None:
    problem = Attention(8, 4, heads=2, kv_heads=1, mask=np.ones((8, 8), bool))
    with pytest.raises(BadInput, match="packed heads take causal and window, no element or block mask"):
        simulate(kernel, problem, sram=1000, blocks=(4, 4), pack=True)
    assert simulate(kernel, problem, sram=1000, blocks=(4, 4)).sound


def test_heads_that_are_not_shared_may_be_asked_to_be_packed() -> None:
    problem = Attention(N, D, heads=3)
    assert simulate("flash2", problem, sram=2000, pack=True).arrays == simulate("flash2", problem, sram=2000).arrays
