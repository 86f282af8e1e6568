"""Blocks: what they need on chip, what the rules choose, and what is said where they do not fit."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import KERNELS, predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, Unit, capacity
from iosim.predict.blocks.rules import Rule

PLAIN, CREATE, IDEAL, STREAMED = Options(), Options(first_pass="create"), Options(reuse="ideal"), Options(softmax="streamed")
OWN, APART = Options(dq_pass="own"), Options(first_pass="create", accumulator="float32")
LINES = Options(depth="one")
OTHERS = [
    Options(skip=False, dq_pass="own"),
    Options(skip_empty=True, first_pass="create", softmax="streamed"),
    Options(skip_empty=True, first_pass="create", accumulator="float32", softmax="streamed", dq_pass="own"),
]
LONG = Attention(n=4096, d=64)

ALGORITHMS = [name for name, found in KERNELS.items() if found.paper]  # software has tests of its own
kernels = pytest.mark.parametrize("kernel", ALGORITHMS)
units = st.sampled_from(["words", "bytes"])


@st.composite
def problems(draw: st.DrawFn) -> tuple[Attention, Options]:
    """A tiny problem that leaves the blocks free, and options."""
    n, nk = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    elements = np.random.default_rng(draw(st.integers(0, 2**32))).random((n, nk)) < draw(st.sampled_from([0, 0.3, 0.9, 1]))
    problem = Attention(
        n,
        draw(st.integers(1, 3)),
        nk=nk,
        dv=draw(st.integers(1, 6)),
        dtype=draw(st.sampled_from(["float16", "float32", "float8_e5m2"])),
        causal=draw(st.booleans()),
        window=draw(st.none() | st.tuples(st.integers(-1, 4), st.integers(-1, 4))),
        mask=draw(st.sampled_from([None, elements])),
    )
    return problem, draw(st.sampled_from([PLAIN, PLAIN, CREATE, STREAMED, OWN, APART, LINES, *OTHERS]))


def words(kernel: str, problem: Attention, blocks: Blocks, options: Options = PLAIN) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


def tiles(problem: Attention, blocks: Blocks, options: Options) -> int:
    """How many tiles a kernel visits."""
    ahead = np.arange(problem.nk) - np.arange(problem.n)[:, None] - (problem.nk - problem.n)
    left, right = problem.band or (-1, -1)
    keep = ((left < 0) | (ahead >= -left)) & ((right < 0) | (ahead <= right))
    if problem.mask is not None:
        keep &= problem.mask
    if not options.skip:
        keep[:] = True
    down, across = range(0, problem.n, blocks.rows), range(0, problem.nk, blocks.cols)
    return sum(bool(keep[i : i + blocks.rows, j : j + blocks.cols].any()) for i, j in product(down, across))


# residents


def test_residents_of_full_tiles() -> None:
    for br, bc in ((64, 64), (16, 128), (128, 16)):
        shared = 2 * (br + bc) * 64 + br * bc
        assert predict.residents("flash", LONG, Blocks(br, bc)) == shared + 8 * br
        assert predict.residents("flash2", LONG, Blocks(br, bc)) == shared + 4 * br


def test_bytes_count_what_is_loaded_at_its_dtype_and_what_is_computed_in_float32() -> None:
    half = Attention(n=256, d=32, dtype="float16")
    loaded, computed = 64 * 32 * 2, 4
    assert (
        predict.residents("flash2", half, Blocks(64, 64), unit="bytes") == 3 * loaded + 64 * 32 * computed + (64 * 64 + 4 * 64) * computed
    )
    assert predict.residents("flash", half, Blocks(64, 64), unit="bytes") == 4 * loaded + (64 * 64 + 8 * 64) * computed


def test_only_the_tiles_that_occur_take_room() -> None:
    corner = Attention(n=1, d=2, nk=14, window=(0, 0))  # the last key, in a last tile of one row
    assert predict.residents("block-sparse", corner, Blocks(1, 13), Options(skip_empty=True)) == 2 * (1 + 1) * 2 + 1 + 8
    assert predict.residents("block-sparse", corner, Blocks(1, 13)) == 2 * 13 * 2
    full_then_partial = Attention(1, 1, nk=8, dtype="float16", mask=np.arange(8)[None] < 5)
    loaded, made = 2 * (2 * 4 + 1), 4 * (4 + 8)  # K, V, Q and S, l, m and so on
    first, second = loaded + made + 4, loaded + made + 2 + 4  # O is computed, then O and a mask are loaded
    assert predict.residents("flash", full_then_partial, Blocks(1, 4), CREATE, "bytes") == second > first


def test_standard_needs_a_whole_row_of_scores_unless_they_are_streamed() -> None:
    assert predict.residents("standard", LONG, Blocks(8, 8)) == 4096
    assert predict.residents("standard", LONG, Blocks(8, 8), STREAMED) == 2 * 8 * 64 + 64
    assert predict.residents("standard", LONG, Blocks(8, 8), IDEAL) == 4096 * 64 + 8 * 64 + 8 * 4096


@kernels
@given(problems(), units, st.integers(1, 8), st.integers(1, 8))
def test_without_a_mask_residents_never_fall_as_a_block_grows(
    kernel: str, case: tuple[Attention, Options], unit: Unit, br: int, bc: int
) -> None:
    masked, options = case
    problem = Attention(masked.n, masked.d, nk=masked.nk, dv=masked.dv, dtype=masked.dtype)
    larger = Blocks(br, bc), Blocks(br + 1, bc), Blocks(br, bc + 1)
    needed = [predict.residents(kernel, problem, blocks, options, unit) for blocks in larger]
    assert needed[0] == min(needed)


@kernels
@given(problems(), units)
def test_the_smallest_sram_is_the_least_that_any_blocks_need(kernel: str, case: tuple[Attention, Options], unit: Unit) -> None:
    problem, options = case
    every = product(range(1, problem.n + 1), range(1, problem.nk + 1))
    least = min(predict.residents(kernel, problem, Blocks(*blocks), options, unit) for blocks in every)
    assert predict.smallest_sram(kernel, problem, options, unit) == least


# the printed rule


@pytest.mark.parametrize(
    ("dtype", "d", "bc", "br"),
    [("float16", 64, 384, 64), ("float16", 128, 192, 128), ("float16", 80, 308, 80), ("float32", 64, 192, 64), ("float32", 128, 96, 96)],
)
def test_h10_paper_blocks_of_192_kib(dtype: str, d: int, bc: int, br: int) -> None:
    problem = Attention(n=4096, d=d, dtype=dtype)
    assert predict.choose_blocks("flash", problem, capacity("192KiB"), "paper") == Blocks(br, bc)
    assert predict.choose_blocks("flash2", problem, capacity("192KiB"), "paper") == Blocks(bc, br)


def test_h13_paper_blocks_of_a_tiny_sram() -> None:
    problem = Attention(n=8, d=4)
    assert predict.choose_blocks("flash", problem, Capacity(17), "paper") == Blocks(2, 2)
    assert predict.choose_blocks("flash", problem, Capacity(16), "paper") == Blocks(1, 1)
    assert predict.residents("flash", problem, Blocks(2, 2)) == 52
    with pytest.raises(BadInput, match=r"need M >= 4d = 16 words but the SRAM holds 15"):
        predict.choose_blocks("flash", problem, Capacity(15), "paper")
    with pytest.raises(BadInput, match=r"need M >= 2\(d \+ dv\) = 20 words but the SRAM holds 15"):
        predict.choose_blocks("flash", Attention(n=8, d=4, dv=6), Capacity(15), "paper")


def test_blocks_are_clipped_to_the_axes() -> None:
    problem = Attention(n=10, d=4, nk=12)
    assert predict.choose_blocks("flash", problem, Capacity(10**6), "paper") == Blocks(4, 12)
    assert predict.choose_blocks("flash2", problem, Capacity(10**6), "fit") == Blocks(10, 4)
    assert predict.choose_blocks("flash2", problem, Capacity(10**6), "best") == Blocks(10, 12)


# the largest of that shape that fit


@pytest.mark.parametrize(
    ("kernel", "sram", "millions"),
    [
        ("flash", 49152, 16.85),
        ("flash", 98304, 8.0),
        ("flash", 262144, 4.0),
        ("flash2", 49152, 11.01),
        ("flash2", 98304, 5.3),
        ("flash2", 262144, 2.6),
    ],
)
def test_words_of_the_blocks_that_fit(kernel: str, sram: int, millions: float) -> None:
    blocks = predict.choose_blocks(kernel, LONG, Capacity(sram))
    assert words(kernel, LONG, blocks) / 1e6 == pytest.approx(millions, abs=0.06)


def test_flash2_in_49152_words() -> None:
    assert predict.choose_blocks("flash2", LONG, Capacity(49152), "fit") == Blocks(208, 64)
    assert words("flash2", LONG, Blocks(208, 64)) == 11_014_144


@kernels
@given(problems(), units, st.integers(0, 300))
def test_fit_is_the_largest_of_its_shape_that_always_fits(kernel: str, case: tuple[Attention, Options], unit: Unit, spare: int) -> None:
    problem, options = case
    amount = predict.smallest_sram(kernel, problem, options, unit) + spare
    blocks = predict.choose_blocks(kernel, problem, Capacity(amount, unit), "fit", options)
    assert predict.residents(kernel, problem, blocks, options, unit) <= amount
    if problem.mask is None:
        every = [shaped(kernel, problem, outer) for outer in range(1, problem.n + problem.nk)]
        fitting = [taller for taller in every if needed_whatever_is_hidden(kernel, problem, taller, options, unit) <= amount]
        assert blocks == (fitting or [Blocks(1, 1)])[-1]


def needed_whatever_is_hidden(kernel: str, problem: Attention, blocks: Blocks, options: Options, unit: Unit) -> int:
    """What blocks need without a mask, or where the backward pass of standard attention fills a hidden tile of dP with float32 zeros."""
    dense = Attention(problem.n, problem.d, nk=problem.nk, dv=problem.dv, dtype=problem.dtype)
    needed = predict.residents(kernel, dense, blocks, options, unit)
    if kernel == "standard-backward" and tiles(problem, Blocks(1, 1), options) < problem.n * problem.nk:
        given, made = (problem.itemsize, 4) if unit == "bytes" else (1, 1)
        needed = max(needed, blocks.rows * (problem.dv * given + blocks.cols * made))
    return needed


def shaped(kernel: str, problem: Attention, outer: int) -> Blocks:
    """Blocks of the paper's shape."""
    if kernel.startswith("square-tiles"):
        return Blocks(min(outer, problem.n), min(outer, problem.nk))
    rows, cols = (outer, min(outer, problem.d)) if predict.outside(kernel) == "queries" else (min(outer, problem.d), outer)
    return Blocks(min(rows, problem.n), min(cols, problem.nk))


@kernels
@given(seed=st.integers(0, 2**32), options=st.sampled_from([PLAIN, CREATE, STREAMED, IDEAL, OWN, APART, LINES]))
def test_fit_for_arrays_is_fit_for_each(kernel: str, seed: int, options: Options) -> None:
    rng = np.random.default_rng(seed)
    shapes, capacities = rng.integers(1, 20, (4, 4)), rng.integers(1, 1000, 5)
    n, nk, d, dv = shapes[..., None]
    rows, cols = predict.fit_dense(kernel, capacities, n=n, nk=nk, d=d, dv=dv, options=options)
    for i, j in np.ndindex(4, 5):
        n_, nk_, d_, dv_ = shapes[:, i].tolist()
        problem, sram = Attention(n_, d_, nk=nk_, dv=dv_), Capacity(int(capacities[j]))
        if rows[i, j]:
            assert predict.choose_blocks(kernel, problem, sram, "fit", options) == Blocks(int(rows[i, j]), int(cols[i, j]))
        else:
            assert cols[i, j] == 0
            assert predict.smallest_sram(kernel, problem, options) > sram.amount


def test_ideal_reuse_is_never_refused() -> None:
    assert predict.choose_blocks("standard", LONG, Capacity(300_000), "fit", IDEAL) == Blocks(9, 4096)
    assert predict.choose_blocks("standard", LONG, Capacity(1000), "fit", IDEAL) == Blocks(1, 4096)
    assert predict.choose_blocks("standard", LONG, Capacity(1000), "best", IDEAL) == Blocks(1, 4096)
    assert predict.choose_blocks("standard", LONG, Capacity(1000), "paper", IDEAL) == Blocks(4, 4096)


# the fewest words of all that fit


@kernels
@given(problems(), units, st.integers(0, 300))
def test_best_is_the_best_of_all_blocks(kernel: str, case: tuple[Attention, Options], unit: Unit, spare: int) -> None:
    problem, options = case
    amount = predict.smallest_sram(kernel, problem, options, unit) + spare

    def rank(blocks: Blocks) -> tuple[bool, int, int, int]:
        needed = predict.residents(kernel, problem, blocks, options, unit)
        return needed > amount, words(kernel, problem, blocks, options), tiles(problem, blocks, options), needed

    every = (Blocks(*blocks) for blocks in product(range(1, problem.n + 1), range(1, problem.nk + 1)))
    best = predict.choose_blocks(kernel, problem, Capacity(amount, unit), "best", options)
    assert rank(best) == min(map(rank, every))


def test_among_equal_words_best_prefers_few_tiles_and_then_few_residents() -> None:
    alike = Attention(7, 4, nk=1, mask=np.ones((7, 1), dtype=bool))
    assert predict.choose_blocks("flash", alike, Capacity(predict.residents("flash", alike, Blocks(6, 1))), "best") == Blocks(4, 1)
    last = Attention(7, 4, nk=1, mask=np.arange(7)[:, None] > 3)
    assert predict.residents("flash", last, Blocks(4, 1)) == 2 * (3 + 1) * 4 + 3 + 8 * 3  # only the last tile, of three rows, is visited
    assert predict.choose_blocks("flash", last, Capacity(59), "best") == Blocks(4, 1)


@pytest.mark.parametrize("rule", ["fit", "best"])
@kernels
def test_one_word_less_than_the_smallest_sram_is_refused(kernel: str, rule: Rule) -> None:
    for problem in (Attention(7, 2, nk=5), Attention(7, 2, nk=5, causal=True), Attention(7, 2, mask=np.eye(7, dtype=bool))):
        least = predict.smallest_sram(kernel, problem)
        assert predict.residents(kernel, problem, predict.choose_blocks(kernel, problem, Capacity(least), rule)) <= least
        with pytest.raises(
            BadInput, match=f"no blocks of {kernel} fit in {least - 1} words; the smallest SRAM for any blocks is {least} words"
        ):
            predict.choose_blocks(kernel, problem, Capacity(least - 1), rule)


def test_best_is_found_for_a_million_tokens() -> None:
    problem = Attention(2**20, 64, causal=True)
    blocks = predict.choose_blocks("flash2", problem, capacity("192KiB"), "best")
    assert blocks.cols == 1
    assert predict.residents("flash2", problem, blocks) <= 49152 < predict.residents("flash2", problem, Blocks(blocks.rows + 1, 1))


# where nothing fits


def test_what_would_fit_is_one_block_or_both_or_another_sram() -> None:
    problem = Attention(n=1024, d=32)
    assert predict.would_fit("flash2", problem, Blocks(32, 32), Capacity(3000)) == "Bc <= 8 would fit"
    assert predict.would_fit("flash2", problem, Blocks(32, 512), Capacity(2100)) == "blocks 14x14 would fit"
    assert predict.would_fit("flash2", problem, Blocks(2000, 8), Capacity(3000)) == "Br <= 32 would fit"
    assert predict.would_fit("flash", problem, Blocks(16, 500), Capacity(136)) == "the smallest SRAM for any blocks is 137 words"
    hint = 'the smallest SRAM for any blocks is 1024 words (65 with softmax="streamed")'
    assert predict.would_fit("standard", problem, Blocks(8, 8), Capacity(1000)) == hint


@kernels
@given(problems(), units, st.integers(1, 14), st.integers(1, 14), st.integers(1, 300))
def test_what_is_said_to_fit_fits(kernel: str, case: tuple[Attention, Options], unit: Unit, br: int, bc: int, amount: int) -> None:
    problem, options = case
    said = predict.would_fit(kernel, problem, Blocks(br, bc), Capacity(amount, unit), options)
    if match := re.fullmatch(r"(Br|Bc) <= (\d+) would fit", said):
        smaller = range(1, int(match[2]) + 1)
        candidates = [Blocks(size, bc) if match[1] == "Br" else Blocks(br, size) for size in smaller]
    elif match := re.fullmatch(r"blocks (\d+)x(\d+) would fit", said):
        candidates = [Blocks(int(match[1]), int(match[2]))]
    else:
        least = predict.smallest_sram(kernel, problem, options, unit)
        assert said.startswith(f"the smallest SRAM for any blocks is {least} {unit}")
        return
    assert all(predict.residents(kernel, problem, blocks, options, unit) <= amount for blocks in candidates)


@pytest.mark.parametrize("rule", ["fit", "best"])
def test_a_block_mask_leaves_no_choice(rule: Rule) -> None:
    problem = Attention(8, 2, block_mask=BlockMask.from_dense(np.eye(2, dtype=bool), 8, 8, 4, 4))
    assert predict.choose_blocks("block-sparse", problem, Capacity(80), rule) == Blocks(4, 4)
    assert predict.choose_blocks("block-sparse", problem, Capacity(8), "paper") == Blocks(4, 4)
    with pytest.raises(BadInput, match=r"fit in 79 words; the block mask was made for blocks 4x4, which need 80 words"):
        predict.choose_blocks("block-sparse", problem, Capacity(79), rule)
    assert predict.would_fit("flash", problem, Blocks(4, 4), Capacity(79)) == "the block mask was made for blocks 4x4, which need 80 words"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(BadInput, match="unknown block rule 'large'; known: paper, fit, best"):
        predict.choose_blocks("flash", LONG, Capacity(49152), "large")  # type: ignore[arg-type]


def test_what_is_outside_and_how_words_grow() -> None:
    assert {kernel: predict.outside(kernel) for kernel in ALGORITHMS} == {
        "standard": "queries",
        "flash": "keys",
        "flash2": "queries",
        "block-sparse": "keys",
        "standard-backward": "queries",
        "flash-backward": "keys",
        "flash2-backward": "keys",
        "square-tiles": "queries",
        "square-tiles-backward": "queries",
    }
    assert predict.theta("standard") == predict.theta("standard-backward") == "Θ(Nd + N²)"
    assert predict.theta("flash-backward") == predict.theta("flash2-backward") == "Θ(N²d²/M)"
    assert predict.theta("square-tiles") == predict.theta("square-tiles-backward") == "Θ(N² + N²d/√M)"
    assert predict.theta("block-sparse") == "Θ(Nd + N²d²s/M)"
