"""Closed forms of attention as software runs it, against what the listings do on a machine that counts, and against printed numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, predict
from iosim.attention.arrays import launch
from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, Unit
from iosim.memory import Counts, Machine
from iosim.predict import Moved
from iosim.predict.blocks.rules import Rule
from iosim.testing import cases

SOFTWARE = tuple(name for name, found in KERNELS.items() if not found.paper)
UNFUSED = tuple(name for name in SOFTWARE if "reuse" in KERNELS[name].has)
PLAIN, IDEAL = Options(), Options(reuse="ideal")
FIGURE_2 = Attention(n=1024, d=64, batch=64, heads=16, dtype="float16")  # GPT-2 medium
N2, ND = 1024 * 1024, 1024 * 64

RULES: tuple[Rule, ...] = get_args(Rule)

software = pytest.mark.parametrize("kernel", SOFTWARE)
unfused = pytest.mark.parametrize("kernel", UNFUSED)
units = st.sampled_from(["words", "bytes"])


def counted(kernel: str, problem: Attention, blocks: Blocks, options: Options, unit: Unit = "words") -> Counts:
    """What the listing does where there is room for everything."""
    m = Machine(Capacity(10**12, unit), mode="count", accumulator=dtypes.accumulator(problem.dtype))
    launch(KERNELS[kernel], m, problem, blocks, options)
    return m.finish()


def moved(counts: Counts) -> dict[str, Moved]:
    return {name: Moved(array.reads, array.writes, array.init_writes) for name, array in counts.arrays.items()}


def words(kernel: str, problem: Attention, blocks: Blocks, options: Options = PLAIN) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


# two roads


@software
@given(data=st.data(), unit=units)
def test_what_the_listing_moves_and_holds_is_predicted(kernel: str, data: st.DataObject, unit: Unit) -> None:
    problem, blocks, given_options = data.draw(cases(kernel, most=20, widest=5, dtype=data.draw(st.sampled_from(dtypes.NAMES))))
    options = Options(**given_options)
    counts = counted(kernel, problem, blocks, options, unit)
    assert predict.predict(kernel, problem, blocks, options) == moved(counts)
    assert predict.residents(kernel, problem, blocks, options, unit) == counts.peak_sram
    assert all(term.symbol and term.why and not term.init for term in predict.terms(kernel, problem, blocks, options))


@software
def test_a_group_of_heads_moves_what_each_moves_and_sums_the_gradients_of_keys_and_values(kernel: str) -> None:
    problem, blocks = Attention(20, 3, nk=30, dv=5, heads=6, kv_heads=2, causal=True, dropout=0.1), Blocks(8, 7)
    counts = counted(kernel, problem, blocks, PLAIN)
    merged: dict[str, Moved] = {}
    for name, words_moved in moved(counts).items():
        array = name.partition("[")[0]
        merged[array] = merged.get(array, Moved()) + words_moved
    assert predict.predict(kernel, problem, blocks) == merged
    assert predict.residents(kernel, problem, blocks) == counts.peak_sram


@software
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("d", "dv"), [(1, 1), (40, 2), (2, 40)])
@pytest.mark.parametrize(("br", "bc"), [(1, 1), (5, 20), (20, 5), (20, 20)])
def test_each_pass_may_be_the_one_that_holds_most(kernel: str, dtype: str, d: int, dv: int, br: int, bc: int) -> None:
    elements = np.random.default_rng(0).random((40, 50)) < 0.5
    for mask, dropout, options in product((None, elements), (0.0, 0.1), (PLAIN, IDEAL)):
        problem = Attention(40, d, nk=50, dv=dv, dtype=dtype, mask=mask, dropout=dropout)
        counts = counted(kernel, problem, Blocks(br, bc), options, "bytes")
        assert predict.residents(kernel, problem, Blocks(br, bc), options, "bytes") == counts.peak_sram


def test_a_whole_row_stands_on_chip_while_the_softmax_runs() -> None:
    long = Attention(8, 1, nk=256, dtype="float16", mask=np.ones((8, 256), dtype=bool))
    needed = {kernel: predict.residents(kernel, long, Blocks(1, 1), unit="bytes") for kernel in UNFUSED}
    row, gradients = 256 * 2, 2 * 256 * 2
    assert needed == {
        "pytorch": row,
        "megatron": row + 256,  # and its row of the mask
        "pytorch-backward": gradients,
        "megatron-backward": gradients,
    }


def test_a_query_tile_that_is_never_visited_holds_its_zeros() -> None:
    last_two = Attention(40, 30, nk=2, causal=True, dtype="float16")  # 38 queries come before the first key
    for kernel, zeros in {"released": 38 * (30 + 1) * 4, "released-backward": 38 * 30 * 4}.items():  # O and LSE, or dQ
        assert predict.residents(kernel, last_two, Blocks(38, 1), unit="bytes") == zeros
        assert counted(kernel, last_two, Blocks(38, 1), PLAIN, "bytes").peak_sram == zeros


# printed numbers, in GB of 1024 heads in float16


def gigabytes(kernels: tuple[str, ...], problem: Attention, blocks: Blocks, options: Options, leave_out: tuple[str, ...] = ()) -> float:
    """GB of all heads in a forward and a backward pass, the same whether predicted or counted."""
    total = 0
    for kernel in kernels:
        found = counted(kernel, problem, blocks, options)
        predicted = predict.predict(kernel, problem, blocks, options)
        assert predicted == moved(found)
        used = [name for name in predicted if name not in leave_out]
        total += sum((predicted[name].reads + predicted[name].writes) * found.arrays[name].itemsize for name in used)
    return total * problem.instances / 1e9


def test_figure_2_pytorch_moves_40_gb() -> None:
    """FlashAttention paper (arXiv 2205.14135 v2), Figure 2, left: 40.3 GB, which is 18 N^2 and 12 Nd passes of 2 bytes."""
    problem = replace(FIGURE_2, causal=True, dropout=0.1)
    assert gigabytes(("pytorch", "pytorch-backward"), problem, Blocks(64, 64), IDEAL) == (18 * N2 + 12 * ND) * 2 * 1024 / 1e9 == 40.2653184


def test_megatron_saves_the_two_passes_of_the_mask() -> None:
    problem = replace(FIGURE_2, causal=True, dropout=0.1)
    assert (
        gigabytes(("megatron", "megatron-backward"), problem, Blocks(64, 64), IDEAL) == (16 * N2 + 12 * ND) * 2 * 1024 / 1e9 == 35.970351104
    )
    assert gigabytes(("pytorch", "pytorch-backward"), replace(FIGURE_2, dropout=0.1), Blocks(64, 64), IDEAL) == 35.970351104


def test_released_code_moves_6_gb_with_its_wide_accumulators() -> None:
    """The tiles of the code for d = 64; its statistics left out: 19 + 26 passes over Nd elements of 2 bytes."""
    found = gigabytes(("released", "released-backward"), FIGURE_2, Blocks(16, 256), PLAIN, leave_out=("LSE", "D"))
    assert found == (19 + 26) * ND * 2 * 1024 / 1e9 == 6.03979776


def test_statistics_of_released_code_are_fifteen_vectors() -> None:
    problem, blocks = FIGURE_2, Blocks(16, 256)
    found = [predict.predict(kernel, problem, blocks) for kernel in ("released", "released-backward")]
    vectors = sum(one[name].reads + one[name].writes for one in found for name in ("LSE", "D") if name in one)
    assert vectors == (2 * 4 - 1 + 4 + 4) * 1024


@pytest.mark.parametrize("n", [128, 256, 512])
def test_fmha_stores_p_and_moves_all_else_once(n: int) -> None:
    problem = Attention(n, 64, dropout=0.1)
    assert words("fmha", problem, Blocks(32, 7)) == n * n + 4 * n * 64
    assert words("fmha-backward", problem, Blocks(32, 7)) == n * n + 7 * n * 64
    masked = Attention(n, 64, mask=np.tri(n, dtype=bool))
    assert words("fmha", masked, Blocks(32, 7)) == 2 * n * n + 4 * n * 64


# terms


def passes(kernel: str, problem: Attention) -> list[str]:
    """The passes over all pairs, in order: "<" into SRAM, ">" out of it."""
    terms = predict.terms(kernel, problem, Blocks(64, 64), IDEAL)
    return [("<" if term.direction == "read" else ">") + term.array for term in terms if term.symbol == "Nq Nk"]


def test_passes_over_the_pairs_come_in_the_order_of_the_steps() -> None:
    plain, full = Attention(64, 8), Attention(64, 8, causal=True, dropout=0.1)
    assert " ".join(passes("pytorch", plain)) == ">S <S >P <P"
    assert " ".join(passes("pytorch", full)) == ">S <S >S <S >P >R <P >Pd <Pd"
    assert " ".join(passes("megatron", full)) == ">S <S >P >R <P >Pd <Pd"
    for kernel in ("pytorch-backward", "megatron-backward"):
        assert " ".join(passes(kernel, plain)) == "<P >dP <P <dP >dS <dS <dS"
        assert " ".join(passes(kernel, full)) == "<Pd >dPd <dPd <R >dP <P <dP >dS <dS <dS"


@unfused
def test_an_element_mask_is_loaded_once_in_the_forward_pass(kernel: str) -> None:
    by_index, by_element = Attention(40, 3, causal=True), Attention(40, 3, mask=np.tri(40, dtype=bool))
    elements = predict.predict(kernel, by_element, Blocks(16, 9))
    assert elements.pop("mask") == Moved(reads=0 if kernel.endswith("backward") else 1600)
    assert elements == predict.predict(kernel, by_index, Blocks(16, 9))


# many sizes at once


@given(kernel=st.sampled_from(SOFTWARE), ideal=st.booleans(), dropout=st.booleans(), seed=st.integers(0, 2**32))
def test_arrays_of_sizes_give_the_words_of_each(kernel: str, ideal: bool, dropout: bool, seed: int) -> None:
    n, nk, d, dv, br, bc = np.random.default_rng(seed).integers(1, 40, (6, 3))
    options = IDEAL if ideal else PLAIN
    found = np.asarray(predict.dense_words(kernel, n=n[:, None], nk=nk, d=d, dv=dv, Br=br, Bc=bc, dropout=dropout, options=options))
    for i, j in np.ndindex(3, 3):
        problem = Attention(n[i], d[j], nk=nk[j], dv=dv[j], dropout=0.5 if dropout else 0.0)
        assert found[i, j] == words(kernel, problem, Blocks(br[j], bc[j]), options)


sizes = st.integers(1, 200)


@given(n=sizes, nk=sizes, d=sizes, dv=sizes, br=sizes, bc=sizes)
def test_sums_are_the_closed_forms_of_the_listings(n: int, nk: int, d: int, dv: int, br: int, bc: int) -> None:
    tr, tc, both = -(-n // br), -(-nk // bc), d + dv
    forms = {
        "pytorch": 4 * n * nk + n * both + tr * nk * both,
        "pytorch-backward": 7 * n * nk + n * both + tc * n * both + nk * both + tr * nk * both,
        "fmha": n * nk + n * both + nk * both,
        "fmha-backward": n * nk + n * (both + d) + 2 * nk * both,
        "released": nk * both + tc * n * d + n * dv + 2 * (tc - 1) * n * dv + (2 * tc - 1) * n,
        "released-backward": 2 * nk * both + (tc + 1) * n * both + 2 * (tc - 1) * n * d + 2 * tc * n,
    }
    for kernel, form in forms.items():
        assert predict.dense_words(kernel, n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc) == form
    for way in ("", "-backward"):
        assert predict.dense_words(f"megatron{way}", n=n, nk=nk, d=d, dv=dv, Br=br, Bc=bc) == forms[f"pytorch{way}"]


# blocks


@st.composite
def problems(draw: st.DrawFn) -> Attention:
    """A tiny problem that leaves the blocks free."""
    n, nk = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    elements = np.random.default_rng(draw(st.integers(0, 2**32))).random((n, nk)) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    return Attention(
        n,
        draw(st.integers(1, 3)),
        nk=nk,
        dv=draw(st.integers(1, 6)),
        dtype=draw(st.sampled_from(["float16", "float32", "float8_e5m2"])),
        causal=draw(st.booleans()),
        window=draw(st.none() | st.tuples(st.integers(-1, 4), st.integers(-1, 4))),
        mask=draw(st.sampled_from([None, elements])),
        dropout=draw(st.sampled_from([0.0, 0.1])),
    )


def every_blocks(problem: Attention) -> list[Blocks]:
    return [Blocks(*blocks) for blocks in product(range(1, problem.n + 1), range(1, problem.nk + 1))]


@given(kernel=st.sampled_from(SOFTWARE), problem=problems(), unit=units)
def test_the_smallest_sram_is_the_least_that_any_blocks_need(kernel: str, problem: Attention, unit: Unit) -> None:
    for options in (PLAIN, IDEAL):
        least = min(predict.residents(kernel, problem, blocks, options, unit) for blocks in every_blocks(problem))
        assert predict.smallest_sram(kernel, problem, options, unit) == least


@given(kernel=st.sampled_from(SOFTWARE), problem=problems(), unit=units, spare=st.integers(0, 300))
def test_best_moves_the_fewest_words_of_all_that_fit_in_the_fewest_tiles(kernel: str, problem: Attention, unit: Unit, spare: int) -> None:
    amount = predict.smallest_sram(kernel, problem, unit=unit) + spare

    def rank(blocks: Blocks) -> tuple[bool, int, int, int]:
        needed = predict.residents(kernel, problem, blocks, unit=unit)
        return needed > amount, words(kernel, problem, blocks), tiles(kernel, problem, blocks), needed

    best = predict.choose_blocks(kernel, problem, Capacity(amount, unit), "best")
    assert rank(best) == min(map(rank, every_blocks(problem)))


def tiles(kernel: str, problem: Attention, blocks: Blocks) -> int:
    """How many tiles a kernel visits: all of them, but for released code."""
    wide = problem.nk if kernel.startswith("fmha") else blocks.cols
    if not kernel.startswith("released"):
        return -(-problem.n // blocks.rows) * -(-problem.nk // wide)
    ahead = np.arange(problem.nk) - np.arange(problem.n)[:, None] - (problem.nk - problem.n)
    left, right = problem.band or (-1, -1)
    keep = ((left < 0) | (ahead >= -left)) & ((right < 0) | (ahead <= right))
    if problem.mask is not None:
        keep &= problem.mask
    down, across = range(0, problem.n, blocks.rows), range(0, problem.nk, blocks.cols)
    return sum(bool(keep[i : i + blocks.rows, j : j + blocks.cols].any()) for i, j in product(down, across))


@given(kernel=st.sampled_from(SOFTWARE), problem=problems(), unit=units, spare=st.integers(0, 300), skip=st.booleans())
def test_fit_fits_and_nothing_larger_of_its_shape_does(kernel: str, problem: Attention, unit: Unit, spare: int, skip: bool) -> None:
    options = Options(skip=skip)
    amount = predict.smallest_sram(kernel, problem, options, unit) + spare
    blocks = predict.choose_blocks(kernel, problem, Capacity(amount, unit), "fit", options)
    assert predict.residents(kernel, problem, blocks, options, unit) <= amount
    if kernel.startswith("released") and problem.masked and skip:
        return  # which tiles occur depends on the blocks there: larger ones may fit again
    for outer in range(1, problem.n + problem.nk):
        larger = shaped(kernel, problem, outer)
        if (larger.rows, larger.cols) > (blocks.rows, blocks.cols) and larger.rows >= blocks.rows and larger.cols >= blocks.cols:
            assert predict.residents(kernel, problem, larger, options, unit) > amount


def shaped(kernel: str, problem: Attention, outer: int) -> Blocks:
    """Blocks of the paper's shape; the kernels that hold K and V whole have tiles of all keys."""
    inner = min(outer, problem.d)
    rows, cols = (inner, outer) if predict.outside(kernel) == "keys" else (outer, inner)
    return Blocks(min(rows, problem.n), problem.nk if kernel.startswith("fmha") else min(cols, problem.nk))


@given(
    kernel=st.sampled_from(SOFTWARE),
    problem=problems(),
    unit=units,
    br=st.integers(1, 14),
    bc=st.integers(1, 14),
    amount=st.integers(1, 400),
    ideal=st.booleans(),
)
def test_what_is_said_to_fit_fits(kernel: str, problem: Attention, unit: Unit, br: int, bc: int, amount: int, ideal: bool) -> None:
    options = IDEAL if ideal else PLAIN
    said = predict.would_fit(kernel, problem, Blocks(br, bc), Capacity(amount, unit), options)
    if match := re.fullmatch(r"(Br|Bc) <= (\d+) would fit", said):
        smaller = range(1, int(match[2]) + 1)
        candidates = [Blocks(size, bc) if match[1] == "Br" else Blocks(br, size) for size in smaller]
    elif match := re.fullmatch(r"blocks (\d+)x(\d+) would fit", said):
        candidates = [Blocks(int(match[1]), int(match[2]))]
    else:
        least = predict.smallest_sram(kernel, problem, options, unit)
        assert said == f"the smallest SRAM for any blocks is {least} {unit}"
        return
    assert all(predict.residents(kernel, problem, blocks, options, unit) <= amount for blocks in candidates)


@pytest.mark.parametrize("kernel", ["fmha", "fmha-backward"])
def test_fmha_chooses_how_many_queries_stand_beside_all_keys(kernel: str) -> None:
    problem = Attention(100, 8)
    assert {predict.residents(kernel, problem, Blocks(10, cols)) for cols in (1, 7, 100, 300)} == {
        predict.residents(kernel, problem, Blocks(10, 1))
    }
    amount = predict.residents(kernel, problem, Blocks(30, 1))
    assert predict.choose_blocks(kernel, problem, Capacity(amount), "fit") == Blocks(30, 100)
    assert predict.choose_blocks(kernel, problem, Capacity(amount), "best") == Blocks(25, 100)  # as few tiles, of fewer rows
    assert predict.would_fit(kernel, problem, Blocks(64, 5), Capacity(amount)) == "Br <= 30 would fit"
    least = predict.smallest_sram(kernel, problem)
    for rule in RULES[1:]:  # the printed one does not ask whether its blocks fit
        with pytest.raises(
            BadInput, match=f"no blocks of {kernel} fit in {least - 1} words; the smallest SRAM for any blocks is {least} words"
        ):
            predict.choose_blocks(kernel, problem, Capacity(least - 1), rule)


@unfused
def test_ideal_reuse_is_never_refused(kernel: str) -> None:
    for rule in RULES:
        blocks = predict.choose_blocks(kernel, Attention(4096, 64), Capacity(1000), rule, IDEAL)
        assert blocks.cols == 4096


def test_paper_blocks_keep_the_block_of_the_outer_loop_large() -> None:
    problem, sram = Attention(4096, 64, dtype="float16"), Capacity(192 * 1024, "bytes")
    assert predict.choose_blocks("released", problem, sram, "paper") == Blocks(64, 384)
    assert predict.choose_blocks("pytorch", problem, sram, "paper") == Blocks(384, 64)
    assert predict.choose_blocks("fmha", problem, sram, "paper") == Blocks(384, 4096)


@software
def test_a_block_mask_brings_its_blocks_but_to_kernels_that_hold_all_keys(kernel: str) -> None:
    problem = Attention(8, 2, block_mask=BlockMask.from_dense(np.eye(2, dtype=bool), 8, 8, 4, 4))
    if kernel.startswith("fmha"):
        assert words(kernel, problem, Blocks(2, 4)) == words(kernel, Attention(8, 2), Blocks(8, 8))
    else:
        with pytest.raises(BadInput, match="blocks 2x4 do not suit a block mask made for blocks 4x4"):
            predict.predict(kernel, problem, Blocks(2, 4))
        assert predict.choose_blocks(kernel, problem, Capacity(10**6), "best") == Blocks(4, 4)
