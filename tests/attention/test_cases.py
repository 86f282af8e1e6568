"""Faults that people hit in public attention code, each with its right value, on every kernel and every tile size of the case."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from iosim import KERNELS, Attention, BadInput, BlockMask, predict, problem_of, simulate
from iosim.attention.plan import Given, make_plan
from iosim.attention.run import report
from iosim.core.masks import patterns
from iosim.core.masks.grid import grid
from iosim.core.options import Options
from iosim.core.problem import Blocks
from iosim.core.units import capacity
from iosim.testing import variants

CASES = Path(__file__).parents[1] / "cases"
NAMES = ("H01", "H02", "H03", "H04", "H05", "H06")
FORWARD = [name for name, found in KERNELS.items() if found.forward is None]
BACKWARD = [name for name, found in KERNELS.items() if found.forward is not None]


def every(kernels: list[str]) -> list[tuple[str, Given]]:
    return [(kernel, {**options}) for kernel in kernels for options in variants(kernel, skip=True, pack=False)]


def load(name: str) -> Any:
    return json.loads((CASES / f"{name}.json").read_text())


def floats(array: NDArray[np.generic] | None) -> NDArray[np.float64]:
    assert array is not None
    return array.astype(np.float64)


@pytest.mark.parametrize(("kernel", "options"), every(FORWARD), ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_forward_cases(name: str, kernel: str, options: Given) -> None:
    case = load(name)
    given, expected = case["inputs"], case["expect"]
    q, k, v = (np.array(given[tensor], np.float64) for tensor in "qkv")
    rules = {"scale": given["scale"], "causal": given["causal"]}
    if given["mask_keep"] is not None:
        rules["mask"] = np.array(given["mask_keep"], bool)
    for tile in case["tiles"]:
        problem, blocks = problem_of(q, k, v, **rules), Blocks(tile["br"], tile["bc"])
        if kernel == "block-sparse":
            everything = patterns.dense(problem.n, problem.nk, blocks.rows, blocks.cols)
            problem = problem_of(q, k, v, block_mask=everything, **rules)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = report(make_plan(kernel, problem, 10**6, blocks, None, options), inputs=(q, k, v), check=9)
        assert found.sound
        np.testing.assert_allclose(floats(found.output), np.array(expected["o"], float), rtol=1e-9, atol=1e-12)
        assert (found.lse is not None) == bool({"LSE", "l"} & set(KERNELS[kernel].outputs))
        if found.lse is not None:
            np.testing.assert_allclose(floats(found.lse), np.array(expected["lse"], float), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("kernel", "options"), every(BACKWARD), ids=str)
@pytest.mark.parametrize("blocks", [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("gradient", ["ones", "random"])
def test_h15_gradients(gradient: str, blocks: tuple[int, int], kernel: str, options: Given) -> None:
    """Each of dQ, dK, dV is right for both dO, and a dV from another row's dO, right by chance where all are 1, is told from it."""
    case = load("H15")
    given, expected = case["inputs"], case["expect"][gradient]
    q, k, v = (np.array(given[tensor], np.float64) for tensor in "qkv")
    do = np.array(expected["do"], np.float64)
    problem = problem_of(q, k, v, scale=given["scale"])
    found = report(make_plan(kernel, problem, 10**6, blocks, None, options), inputs=(q, k, v, do), check=9)
    assert found.sound
    for name in ("dQ", "dK", "dV"):
        np.testing.assert_allclose(floats(found.values[name]), np.array(expected[name.lower()], float), rtol=1e-9, atol=1e-12)
    off = np.abs(floats(found.values["dV"]) - np.array(expected["faulty_dv"])).max()
    assert (off > 1e-3) == (gradient == "random")
    assert (off > found.bounds["dV"]) == (gradient == "random")


@pytest.mark.parametrize(("kernel", "options"), every(BACKWARD), ids=str)
def test_h01_a_query_that_attends_to_nothing_has_gradient_zero(kernel: str, options: Given) -> None:
    q, k, v = np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]), np.array([[10.0], [20.0]])
    mask = np.array([[True, True], [False, False]])
    problem = problem_of(q, k, v, scale=1.0, mask=mask)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = report(make_plan(kernel, problem, 10**6, (1, 2), None, options), inputs=(q, k, v, np.array([[3.0], [5.0]])))
    assert found.sound
    assert found.values["dQ"][1].tolist() == [0.0]
    assert np.isfinite(floats(found.values["dQ"])).all()
    assert floats(found.values["dV"]).sum() == pytest.approx(3.0)  # the first row's dO alone


@pytest.mark.parametrize(("kernel", "options"), every(FORWARD), ids=str)
def test_h07_true_means_may_attend_and_what_a_mask_hides_has_no_effect(kernel: str, options: Given) -> None:
    q, k, v = np.array([[1.0]]), np.array([[0.0], [0.0]]), np.array([[5.0], [1e30]])
    mask = np.array([[True, False]])
    everything = patterns.dense(1, 2, 1, 2) if kernel == "block-sparse" else None
    problem = problem_of(q, k, v, mask=mask, block_mask=everything)
    found = report(make_plan(kernel, problem, 1000, (1, 2), None, options), inputs=(q, k, v))
    assert floats(found.output).tolist() == [[5.0]]


@pytest.mark.parametrize("kernel", FORWARD)
@pytest.mark.parametrize("name", ["Q", "K", "V"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_h07_non_finite_input_is_refused_by_name_and_place(kernel: str, name: str, value: float) -> None:
    arrays = dict.fromkeys("QKV", np.zeros((4, 3)))
    arrays[name] = arrays[name].copy()
    arrays[name][2, 1] = value
    with pytest.raises(BadInput, match=rf"{name}\[2, 1\] is .* must be finite"):
        simulate(kernel, Attention(n=4, d=3, dtype="float64"), sram=1000, blocks=(2, 2), inputs=tuple(arrays.values()))


@pytest.mark.parametrize(("window", "pairs"), [((1, 0), 9), ((-1, 0), 15), ((4, 0), 15), ((5, 0), 15)])
def test_h08_windows_are_inclusive(window: tuple[int, int], pairs: int) -> None:
    tiles = grid(Attention(n=5, d=1, window=window), Blocks(1, 1))
    assert tiles.by_row.visited().sum() == pairs
    causal = grid(Attention(n=5, d=1, causal=True), Blocks(1, 1))
    assert (tiles.by_row.visited().tolist() == causal.by_row.visited().tolist()) == (pairs == 15)


@pytest.mark.parametrize("kernel", ["standard", "flash", "flash2"])
def test_h09_the_sequence_is_the_last_axis_but_one(kernel: str) -> None:
    zeros = np.zeros((1, 2, 3, 4))
    v = zeros + np.arange(3.0)[:, None]
    output = floats(simulate(kernel, problem_of(zeros, zeros, v), sram=1000, blocks=(2, 2), inputs=(zeros, zeros, v)).output)
    assert output.shape == (1, 2, 3, 4)
    assert (np.abs(output - 1) < 1e-15).all()
    flat = simulate(kernel, problem_of(zeros[0, 0], zeros[0, 0], v[0, 0]), sram=1000, inputs=(zeros[0, 0], zeros[0, 0], v[0, 0]))
    assert floats(flat.output).shape == (3, 4)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (1, 1, 2, 3, 4)])
def test_h09_another_number_of_dimensions_is_refused_by_its_shape(shape: tuple[int, ...]) -> None:
    array = np.zeros(shape)
    with pytest.raises(ValueError, match=str(shape).replace("(", r"\(").replace(")", r"\)")):
        problem_of(array, array, array)


def test_h10_paper_blocks_take_m_in_elements() -> None:
    table = load("H10")
    for row in table["rows"]:
        expected = row["br"], row["bc"]
        dtype = {"fp16": "float16", "fp32": "float32"}[row["dtype"]]
        problem = Attention(n=4096, d=row["d"], dtype=dtype)
        size = capacity(f"{table['sram_bytes_per_SM']}B")
        assert size.words(problem.itemsize) == row["M_elements"]
        for kernel, found in (("flash", expected), ("flash2", expected[::-1])):
            assert predict.choose_blocks(kernel, problem, size, "paper", Options()) == Blocks(*found)


def test_h11_reads_and_writes_by_tensor() -> None:
    case = load("H11")
    blocks = case["blocks"]["br"], case["blocks"]["bc"]
    problem = Attention(n=case["params"]["N"], d=case["params"]["d"])
    one = simulate("flash", problem, sram=10**6, blocks=blocks, execute=False)
    for name, words in case["flash1"].items():
        if isinstance(words, dict):
            assert (one.arrays[name].reads, one.arrays[name].writes - one.arrays[name].init_writes) == (words["read"], words["write"])
    assert sum(array.init_writes for array in one.arrays.values()) == case["flash1_init_writes"]
    two = simulate("flash2", problem, sram=10**6, blocks=blocks, execute=False)
    for name, words in case["flash2_same_tiles"].items():
        if isinstance(words, dict):
            assert (two.arrays[name].reads, two.arrays[name].writes) == (words["read"], words["write"])


def test_h13_paper_blocks_that_do_not_fit_are_flagged() -> None:
    found = simulate("flash", Attention(n=8, d=4), sram=17, blocks="paper")
    assert (found.blocks, found.sound) == (Blocks(2, 2), True)
    assert found.overflow == found.peak_sram - 17 > 0
    assert "overflow recorded" in repr(found)


def test_h13_an_sram_below_4d_is_refused_with_that_number() -> None:
    with pytest.raises(BadInput, match="4d"):
        simulate("flash", Attention(n=8, d=4), sram=15, blocks="paper")
    with pytest.raises(BadInput, match="smallest SRAM"):
        simulate("flash", Attention(n=8, d=4), sram=16)


def test_h16_a_block_mask_has_one_row_a_query_tile_and_one_column_a_key_tile() -> None:
    assert patterns.causal(5, 7, 2, 3).grid == (3, 3)
    assert patterns.causal(5, 7, 2, 3).nnz == 7
    with pytest.raises(ValueError, match=r"\(3, 2\).*\(3, 3\)|\(3, 3\).*\(3, 2\)"):
        BlockMask.from_dense(np.ones((3, 2), bool), 5, 7, 2, 3)
    problem = Attention(n=5, nk=7, d=2, block_mask=patterns.dense(5, 7, 2, 3))
    with pytest.raises(BadInput, match=r"grid"):
        simulate("flash2", problem, sram=1000, blocks=(3, 2))


def test_h16_skipped_tiles_move_nothing_but_every_row_of_o_is_written() -> None:
    keep = np.array([[True, False], [False, False]])
    problem = Attention(n=4, d=3, block_mask=BlockMask.from_dense(keep, 4, 4, 2, 2))
    found = simulate("flash2", problem, sram=1000, blocks=(2, 2))
    assert found.arrays["K"].reads == 2 * 3
    assert found.arrays["O"].writes == 4 * 3
    assert (floats(found.output)[2:] == 0).all()
    assert floats(found.lse)[2:].tolist() == [-np.inf, -np.inf]


def test_h16_the_element_mask_still_holds_inside_a_kept_tile() -> None:
    mask = np.array([[True, False], [True, True]])
    blocks = BlockMask.from_elements(mask, 2, 2)
    assert (blocks.nnz, blocks.partial) == (1, 1)
    with pytest.raises(BadInput, match="partial"):
        Attention(n=2, d=1, block_mask=blocks)
    q = np.zeros((2, 1))
    v = np.array([[1.0], [3.0]])
    found = simulate("block-sparse", problem_of(q, q, v, mask=mask, block_mask=blocks), sram=100, blocks=(2, 2), inputs=(q, q, v))
    assert floats(found.output).tolist() == [[1.0], [2.0]]


def test_h22_the_property_profile_has_no_deadline() -> None:
    from hypothesis import settings

    assert settings().deadline is None
