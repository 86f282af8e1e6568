"""Lower bounds in M: exact integers of their formulas, below every count, and above nothing that is known to be possible."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import KERNELS, Attention, BlockMask, Capacity, Report, predict, simulate
from iosim.attention.run import floors
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.options import Options
from iosim.core.problem import Blocks
from iosim.predict.bounds import (
    BACKWARD_GROWTH,
    FORWARD_GROWTH,
    backward_bounds,
    bounds,
    least_backward_words,
    least_words,
    product_bounds,
)
from iosim.predict.compulsory import attending, compulsory, compulsory_backward
from iosim.testing import RULES, Case, build_case, cases
from iosim_reference.pebbling import attention, product
from iosim_reference.pebbling.schedules import attention_orders, cheapest, product_orders

small = st.integers(1, 40)
COUNT: dict[str, Any] = {"execute": False, "replay": False}


def who_may_attend(problem: Attention) -> NDArray[np.bool_]:
    """Pair by pair, from the rules as they are stated."""
    ahead = np.arange(problem.nk)[None, :] - np.arange(problem.n)[:, None] - (problem.nk - problem.n)
    keep = np.ones(ahead.shape, bool) if problem.mask is None else problem.mask
    if problem.causal:
        keep = keep & (ahead <= 0)
    if problem.window is not None:
        left, right = problem.window
        keep = keep & (left < 0 or ahead >= -left) & (right < 0 or ahead <= right)
    if problem.block_mask is not None:
        tiles = problem.block_mask
        keep = keep & tiles.dense().repeat(tiles.rows, 0)[: problem.n].repeat(tiles.cols, 1)[:, : problem.nk]
    return np.asarray(keep)


@st.composite
def problems(draw: st.DrawFn) -> Attention:
    """Problems under every rule and every two of them, with heads that share K and V."""
    sizes = draw(small), draw(small), draw(st.integers(1, 12)), draw(st.integers(1, 12))
    blocks, rng = Blocks(draw(st.integers(1, 9)), draw(st.integers(1, 9))), np.random.default_rng(draw(st.integers(0, 999)))
    problem = build_case(
        rng, "flash2", sizes, blocks, draw(st.sampled_from((*RULES, "window blocks", "causal window blocks"))), "float32"
    ).problem
    return grouped(problem, draw(st.integers(1, 3)))


def grouped(problem: Attention, group: int) -> Attention:
    p = problem
    return Attention(
        p.n, p.d, nk=p.nk, dv=p.dv, heads=group, kv_heads=1, dtype=p.dtype, causal=p.causal, window=p.window, mask=p.mask,
        block_mask=p.block_mask, dropout=p.dropout,
    )  # fmt: skip


# pairs, and what is compulsory


@given(problems())
def test_who_attends_is_counted_pair_by_pair(problem: Attention) -> None:
    keep = who_may_attend(problem)
    assert attending(problem) == (keep.sum(), keep.any(axis=1).sum(), keep.any(axis=0).sum())


@given(n=st.integers(1, 24), nk=st.integers(1, 24), reach=st.tuples(st.integers(-1, 5), st.integers(-1, 5)), seed=st.integers(0, 10**6))
def test_who_attends_under_a_window_in_a_few_tiles(n: int, nk: int, reach: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, cols = (int(size) for size in rng.integers(1, 7, size=2))
    mask = BlockMask.from_dense(rng.random((-(-n // rows), -(-nk // cols))) < 0.3, n, nk, rows, cols)
    problem = Attention(n, 1, nk=nk, window=reach, block_mask=mask)
    keep = who_may_attend(problem)
    assert attending(problem) == (keep.sum(), keep.any(axis=1).sum(), keep.any(axis=0).sum())


def test_a_million_tokens_under_a_block_mask_and_a_window_cost_no_more_than_their_tiles() -> None:
    n, block = 2**20, 2**14
    mask = BlockMask.from_dense(np.ones((64, 64), bool), n, n, block, block)
    banded = Attention(n, 4, window=(999, 0))
    assert attending(Attention(n, 4, window=(999, 0), block_mask=mask)) == attending(banded) == (1000 * n - 999 * 500, n, n)


@given(problems())
def test_compulsory_are_the_rows_that_are_used_and_all_that_is_written(problem: Attention) -> None:
    p, keep = problem, who_may_attend(problem)
    queries, keys = p.group * int(keep.any(axis=1).sum()), int(keep.any(axis=0).sum())
    rows = p.group * p.n
    assert compulsory(p) == queries * p.d + keys * (p.d + p.dv) + rows * p.dv
    assert compulsory_backward(p) == (queries + keys) * (p.d + p.dv) + rows * p.d + p.nk * (p.d + p.dv)
    assert (bounds(p, 99)[0].words, backward_bounds(p, 99)[0].words) == (compulsory(p), compulsory_backward(p))


# the formulas


@given(problems(), st.integers(1, 5000))
def test_each_bound_is_its_formula_rounded_up(problem: Attention, m: int) -> None:
    p = problem
    found, back = ({bound.name: bound.words for bound in of(p, m)} for of in (bounds, backward_bounds))
    e, rows = attending(p).pairs * p.group, p.group * p.n
    assert found["Saha-Ye"] == math.ceil(Fraction(e * p.d**2, m + 4 * p.d**2) - m)
    others = attending(p).keys * p.dv + rows * p.dv
    assert is_root(found["small cache"] + 2 * m + e - others, 4 * e**2 * p.d**2, m)
    for words, s, r in (
        (found["two products"], p.d + p.dv, min(2 * p.d, p.d + p.dv)),
        (back["three products"], 2 * p.d + p.dv, min(2 * p.dv, 2 * p.d + p.dv)),
    ):
        if m < r * r:
            assert is_root(words + e + 2 * m, 4 * e**2 * s**2, m)
        else:
            assert words == math.ceil(r * (2 * s - r) * (1 - Fraction(1, 2 * m)) ** 2 * e / m - 2 * m + 1)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 10**4))
def test_both_forms_of_the_bound_meet(d: int, dv: int, n: int) -> None:
    m = min(2 * d, d + dv) ** 2
    below, above = (next(b.words for b in bounds(Attention(n, d, dv=dv), size) if b.name == "two products") for size in (m - 1, m))
    assert abs(below - above) <= 2 + 2 * n * n * (d + dv) / max(1, m - 1)


def is_root(root: int, numerator: int, denominator: int) -> bool:
    """Whether ``root`` is the square root of a fraction, rounded up."""
    return (root - 1) ** 2 * denominator < numerator <= root**2 * denominator or root == numerator == 0


@given(st.integers(1, 4), st.integers(1, 4), st.floats(0.05, 1.0), st.integers(0, 999), st.data())
def test_the_words_of_a_segment_allow_no_more_multiply_adds(rows: int, cols: int, w: float, seed: int, data: st.DataObject) -> None:
    """The inequality of docs/bounds.md, after Loomis and Whitney: F_1 + F_2 <= (W / 3)^(3/2) / sqrt(w), where the pairs weigh w each."""
    rng = np.random.default_rng(seed)
    made = [rng.random((rows, cols, data.draw(st.integers(1, 4)))) < data.draw(st.floats(0.0, 1.0)) for _ in range(2)]
    pairs_ = int((made[0].any(axis=2) | made[1].any(axis=2)).sum())
    operands = sum(int(part.any(axis=axis).sum()) for part in made for axis in (0, 1))
    assert sum(int(part.sum()) for part in made) <= ((operands + w * pairs_) / 3) ** 1.5 / math.sqrt(w) * (1 + 1e-12)


@pytest.mark.parametrize("m", [0, -1, 1.5])
def test_an_sram_of_no_words_has_no_bound(m: float) -> None:
    for of in (bounds, backward_bounds, least_words, least_backward_words):
        with pytest.raises(BadInput, match="sram must be"):
            of(Attention(8, 4), m)  # type: ignore[arg-type]


def test_what_has_no_constant_gives_no_words() -> None:
    for growth in (FORWARD_GROWTH, BACKWARD_GROWTH):
        assert growth.words is growth.constant is None
        assert growth.formula.startswith("Θ")
    assert "d x d matrix" in BACKWARD_GROWTH.remark


def test_the_published_curve() -> None:
    # In units of N^2, N = 4096 and d = 64, for M / d^2 = 1/16, 1/4, 1, 4, 16, 64: worked out by hand from the same two papers.
    problem, n, d = Attention(4096, 64), 4096, 64
    published = []
    for m in (d * d // 16, d * d // 4, d * d, 4 * d * d, 16 * d * d, 64 * d * d):
        known = {bound.name: bound.words for bound in bounds(problem, m)}
        known["small cache"] -= 2 * n * d  # of V and O, which the papers leave out
        published.append(max(known[name] for name in ("compulsory", "Saha-Ye", "small cache")) / n**2)
    assert [round(value, 2) for value in published] == [7.0, 3.0, 1.0, 0.12, 0.06, 0.06]


@given(n=st.integers(1, 400), d=st.integers(1, 12), m=st.integers(1, 4000))
def test_where_saha_and_yes_bound_says_more_than_what_is_compulsory_the_new_one_says_still_more(n: int, d: int, m: int) -> None:
    least, published, _, new = (bound.words for bound in bounds(Attention(n, d), m))
    assert published <= max(least, new - 1)


# below every count


def counted(kernel: str, problem: Attention, sram: Capacity, case: Case, rule: str) -> Report | None:
    """The counts of a kernel, in the blocks of a case or by a rule; None where it cannot run."""
    given_ = problem.block_mask is not None or rule in ("given", "record")
    blocks = case.blocks if given_ else rule
    overflow = "record" if rule == "record" else None
    try:
        return simulate(kernel, problem, sram=sram, blocks=blocks, overflow=overflow, **case.options, **COUNT)  # type: ignore[arg-type]
    except (SramOverflow, BadInput):
        return None


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=40)
@given(data=st.data())
def test_no_kernel_moves_less(kernel: str, data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float32", "float16", "bfloat16"]))
    case = data.draw(cases(kernel, most=70, widest=10, dtype=dtype))
    problem = grouped(case.problem, data.draw(st.sampled_from([1, 1, 2, 3])))
    rule = data.draw(st.sampled_from(["given", "record", "fit", "paper", "best"]))
    sram = Capacity(data.draw(st.integers(4, 300) | st.integers(4, 6000)), data.draw(st.sampled_from(["words", "bytes"])))
    made = counted(kernel, problem, sram, case, rule)
    if made is None:
        return
    assert made.compulsory <= made.lower_bound <= made.total
    if not made.overflow and sram.unit == "words":
        of = least_words if KERNELS[kernel].forward is None else least_backward_words
        assert made.lower_bound == of(made.problem, sram.amount) * made.problem.instances


@pytest.mark.parametrize(
    ("kernel", "n", "d", "sram", "name", "times"),
    [
        ("square-tiles", 96, 24, 30, "two products", 3),
        ("flash2", 256, 4, 96, "two products", 3),
        ("square-tiles-backward", 96, 24, 30, "three products", 4),
        ("flash2-backward", 256, 4, 180, "three products", 6),
    ],
)
def test_a_bound_is_in_force_where_it_should_be_and_not_far_below_the_best_blocks(
    kernel: str, n: int, d: int, sram: int, name: str, times: int
) -> None:
    options: dict[str, Any] = {"depth": "one"} if "square" in kernel else {}
    made = simulate(kernel, Attention(n, d), sram=sram, blocks="best", **options, **COUNT)
    assert made.floor is not None
    assert made.floor.name == name
    assert made.compulsory < made.lower_bound <= made.total < times * made.lower_bound


@pytest.mark.parametrize(("times", "room"), [(4, 1.02), (8, 1.02), (16, 1.02), (1, 1.4), (2, 1.13)])
def test_the_order_of_flash_attention_2_attains_the_constant_from_4_d_squared_on(times: int, room: float) -> None:
    n, d = 2**20, 256
    problem, m = Attention(n, d), times * d * d
    rows = (m - 2 * d - 1) // (2 * d + 5)  # Q, O, a column of S and four statistics of a query tile, and one key
    assert predict.residents("flash2", problem, Blocks(rows, 1), Options()) <= m
    moved = sum(array.reads + array.writes for array in predict.predict("flash2", problem, Blocks(rows, 1), Options()).values())
    assert 1 < moved / least_words(problem, m) < room


def test_each_head_has_its_bound() -> None:
    one, many = (simulate("flash2", Attention(300, 4, batch=b, heads=h), sram=120, **COUNT) for b, h in ((1, 1), (3, 5)))
    assert (many.lower_bound, many.compulsory) == (15 * one.lower_bound, 15 * one.compulsory)
    assert one.lower_bound > one.compulsory == 4 * 300 * 4


def test_the_bound_is_taken_at_the_sram_really_used() -> None:
    problem = Attention(400, 4)
    within, over = (simulate("flash2", problem, sram=m, blocks=(24, 3), overflow="record", **COUNT) for m in (400, 100))
    assert (within.overflow, over.overflow) == (0, over.peak_sram - 100)
    assert within.total == over.total
    assert within.lower_bound == least_words(problem, 400)
    assert over.lower_bound == least_words(problem, over.peak_sram) < least_words(problem, 100)
    assert f"{over.total / over.lower_bound:.2f} times the {over.lower_bound:,} that must move in the SRAM that it takes" in repr(over)
    assert f"{within.total / within.lower_bound:.2f} times the {within.lower_bound:,} that must move in this SRAM" in repr(within)


@pytest.mark.parametrize(("dtype", "width"), [("float16", 2), ("float32", 4), ("float8_e4m3fn", 1)])
def test_an_sram_of_bytes_holds_as_many_words_as_it_could_of_the_narrowest_type(dtype: str, width: int) -> None:
    made = simulate("flash2", Attention(600, 4, dtype=dtype), sram="1KiB", **COUNT)
    assert made.lower_bound == least_words(Attention(600, 4), 1024 // width)
    assert floors(made.plan, peak=2048) == bounds(Attention(600, 4), 2048 // width)


def test_enough_sram_leaves_what_is_compulsory_and_the_record_says_which_bound_holds() -> None:
    forward, backward = (simulate(name, Attention(64, 8), sram=10**5, **COUNT) for name in ("flash2", "flash2-backward"))
    assert [made.record()[key] for made in (forward, backward) for key in ("compulsory", "lower_bound", "lower_bound_name")] == [
        4 * 64 * 8, 4 * 64 * 8, "compulsory", 7 * 64 * 8, 7 * 64 * 8, "compulsory",
    ]  # fmt: skip
    assert "times the 2,048 that must move\n" in repr(forward)
    tight = simulate("flash2-backward", Attention(512, 2), sram=200, **COUNT).record()
    assert tight["lower_bound_name"] == "three products"


# products, and the optima of pebbling


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.integers(3, 400))
def test_a_product_in_the_best_tile_moves_no_less(rows: int, inner: int, cols: int, m: int) -> None:
    side = max(1, math.isqrt(m + 1) - 1)  # one tile of the product, and a column and a row beside it
    moved = rows * cols + inner * (rows * -(-cols // side) + cols * -(-rows // side))
    assert max(bound.words for bound in product_bounds(rows, inner, cols, m)) <= moved


def test_the_leading_term_of_a_product_is_attained() -> None:
    side, n = 64, 2**12
    moved = n * n + 2 * n**3 // side
    assert 1 < moved / max(bound.words for bound in product_bounds(n, n, n, (side + 1) ** 2)) < 1.05


def optima(text: str) -> Iterator[tuple[str, dict[str, int], int, int]]:
    """Graph, sizes, M and the least traffic, of every row of the tables in docs/pebbling.md."""
    for title, rows in re.findall(r"^### (.*?): \d+ vertices.*?$(.*?)(?=^###|\Z)", text, re.MULTILINE | re.DOTALL):
        sizes = {name: int(size) for name, size in re.findall(r"(\w+)=(\d+)", title)}
        for memory, again, once in re.findall(r"^\| (\d+) \|[^|]*\|[^|]*\| ([^|]*) \| (\d+) \|", rows, re.MULTILINE):
            yield title.partition(",")[0], sizes, int(memory), min(int(once), int(again) if again.isdigit() else 10**9)


def test_no_bound_is_above_an_optimum_that_pebbling_found(source_tree: Path) -> None:
    found = list(optima((source_tree / "docs" / "pebbling.md").read_text()))
    assert len(found) > 80
    assert {"product", "attention"} == {name for name, *_ in found}
    for name, sizes, memory, least in found:
        if name == "product":
            known = product_bounds(sizes["n"], sizes["k"], sizes["m"], memory)
        else:
            known = bounds(Attention(sizes["n"], sizes["d"], nk=sizes["nk"]), memory)
        assert max(bound.words for bound in known) <= least, (name, sizes, memory)


@pytest.mark.parametrize(("n", "nk", "d"), [(9, 9, 1), (10, 4, 2), (3, 12, 2)])
def test_no_bound_is_above_the_best_schedule_by_hand(n: int, nk: int, d: int) -> None:
    graph = attention(n, d, nk=nk)
    orders = list(attention_orders(graph, n, nk))[::9]
    for memory in (3, 4, 7, 12):
        moved = cheapest(graph, orders, memory)[1]
        assert least_words(Attention(n, d, nk=nk), memory) <= moved


def test_a_product_by_hand_moves_no_less() -> None:
    graph = product(6, 5, 6)
    orders = list(product_orders(graph, 6, 6))[::3]
    for memory in (3, 5, 9, 16):
        assert max(bound.words for bound in product_bounds(6, 5, 6, memory)) <= cheapest(graph, orders, memory)[1]
