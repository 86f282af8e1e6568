"""The frontier over every SRAM: nothing better is overlooked, in the honest and in the ideal accounting, and what it shows."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import permutations, product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.predict import Frontier, frontier
from iosim.predict.blocks.frontier_search import Sides, allowed, steps
from iosim.predict.blocks.fused_tiles import Schedule
from iosim.predict.blocks.product_tiles import product_steps
from iosim.predict.blocks.staircase import smallest_blocks
from iosim.predict.formulas import FORMULAS

PLAIN, CREATE, STREAMED, LINES = Options(), Options(first_pass="create"), Options(softmax="streamed"), Options(depth="one")
OWN, IDEAL = Options(dq_pass="own"), Options(reuse="ideal")
ALL = [(kernel, PLAIN) for kernel in predict.KERNELS if kernel != "block-sparse"] + [
    ("flash", CREATE),
    ("flash", Options(first_pass="create", accumulator="float32")),
    ("standard", STREAMED),
    ("standard", IDEAL),
    ("standard", Options(reuse="ideal", softmax="streamed")),
    ("standard-backward", STREAMED),
    ("flash-backward", CREATE),
    ("flash2-backward", OWN),
    ("square-tiles", LINES),
    ("square-tiles-backward", LINES),
]
kernels = pytest.mark.parametrize(("kernel", "options"), ALL)
some_kernels = pytest.mark.parametrize(  # one of each way to search
    ("kernel", "options"),
    [
        ("flash", CREATE),
        ("flash2", PLAIN),
        ("standard", STREAMED),
        ("standard", IDEAL),
        ("square-tiles", LINES),
        ("square-tiles-backward", PLAIN),
        ("flash2-backward", OWN),
        ("fmha", PLAIN),
    ],
)
sizes = st.integers(1, 5)


@st.composite
def problems(draw: st.DrawFn) -> Attention:
    """A tiny problem without a mask, with up to three heads to a group."""
    heads = draw(st.integers(1, 3))
    dropout = draw(st.sampled_from([0.0, 0.5]))
    return Attention(draw(sizes), draw(sizes), nk=draw(sizes), dv=draw(sizes), heads=heads, kv_heads=1, dropout=dropout)


@st.composite
def banded(draw: st.DrawFn) -> Attention:
    """The same under causal or a window."""
    window = draw(st.none() | st.tuples(st.integers(-1, 5), st.integers(-1, 5)))
    causal = window is None or draw(st.booleans())
    return Attention(draw(sizes), draw(sizes), nk=draw(sizes), dv=draw(sizes), causal=causal, window=window)


def words(kernel: str, problem: Attention, blocks: Blocks, options: Options) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


def searched(kernel: str, problem: Attention, options: Options, sides: Sides = "all") -> dict[int, int]:
    """The least words by the SRAM from which on they move, of every pair of blocks, each asked by itself."""
    steps: dict[int, int] = {}
    high, wide = ([side for side in range(1, rows + 1) if fair(side, rows, sides)] for rows in (problem.n, problem.nk))
    if options.reuse == "ideal" or kernel.startswith("fmha"):
        wide = [problem.nk]
    for blocks in (Blocks(*pair) for pair in product(high, wide)):
        needed, moved = predict.residents(kernel, problem, blocks, options), words(kernel, problem, blocks, options)
        steps[needed] = min(moved, steps.get(needed, moved))
    return steps


def fair(side: int, rows: int, sides: Sides) -> bool:
    return {"all": True, "powers": side.bit_count() == 1 or side == rows, "divisors": rows % side == 0}[sides]


def assert_frontier(found: Frontier, steps: dict[int, int]) -> None:
    """At every SRAM, some beyond the last step among them, the frontier is the least of all ``steps`` that fit."""
    nothing = 2**62
    least = np.full(max(steps) + 3, nothing)
    least[list(steps)] = list(steps.values())
    expected = np.minimum.accumulate(least).tolist()
    at = found.at(np.arange(len(least))).tolist()
    assert [nothing if step < 0 else int(found.words[step]) for step in at] == expected
    assert (np.diff(found.sram) > 0).all()
    assert (np.diff(found.words) < 0).all()


# honest


@kernels
@given(problem=problems())
def test_the_frontier_is_the_least_of_all_blocks_at_every_sram(kernel: str, options: Options, problem: Attention) -> None:
    assert_frontier(frontier(kernel, problem, options), searched(kernel, problem, options))


@pytest.mark.parametrize(("kernel", "options"), [(kernel, options) for kernel, options in ALL if FORMULAS[kernel].skips])
@given(problem=banded())
def test_so_it_is_under_causal_or_a_window(kernel: str, options: Options, problem: Attention) -> None:
    assert_frontier(frontier(kernel, problem, options), searched(kernel, problem, options))


@some_kernels
@given(problem=problems() | banded())
def test_best_blocks_are_on_the_frontier(kernel: str, options: Options, problem: Attention) -> None:
    found = frontier(kernel, problem, options)
    for place, (sram, moved) in enumerate(zip(found.sram.tolist(), found.words.tolist(), strict=True)):
        own = Blocks(int(found.rows[place]), int(found.cols[place]))
        assert (predict.residents(kernel, problem, own, options), words(kernel, problem, own, options)) == (sram, moved)
        below_the_next = [*found.sram.tolist(), sram + 9][place + 1] - 1
        best = predict.choose_blocks(kernel, problem, Capacity(below_the_next), "best", options)
        assert words(kernel, problem, best, options) == moved
    assert found.sram[0] == predict.smallest_sram(kernel, problem, options)


@pytest.mark.parametrize(("kernel", "options"), [("flash2", Options(pack=True)), ("flash-backward", Options(pack=True))])
@given(problem=problems())
def test_packed_heads_have_blocks_as_tall_as_all_of_them(kernel: str, options: Options, problem: Attention) -> None:
    found = frontier(kernel, problem, options)
    for sram, moved in zip(found.sram.tolist(), found.words.tolist(), strict=True):
        best = predict.choose_blocks(kernel, problem, Capacity(sram), "best", options)
        assert words(kernel, problem, best, options) == moved


@pytest.mark.parametrize(
    ("kernel", "options"), [("flash", PLAIN), ("flash2", PLAIN), ("standard", STREAMED), ("square-tiles", PLAIN), ("square-tiles", LINES)]
)
def test_at_a_thousand_tokens_no_sram_in_a_sample_knows_better_blocks(kernel: str, options: Options) -> None:
    problem = Attention(1000, 64)
    found = frontier(kernel, problem, options, upto=64000)
    for sram in np.random.default_rng(5).integers(found.sram[0], 64000, 40).tolist():
        best = predict.choose_blocks(kernel, problem, Capacity(sram), "best", options)
        assert found.words[found.at(sram)] == words(kernel, problem, best, options)


def test_the_blocks_of_a_block_mask_are_one_step() -> None:
    mask = BlockMask.from_dense(np.tri(4, dtype=bool), n=16, nk=16, rows=4, cols=4)
    problem = Attention(16, 4, block_mask=mask)
    found, own = frontier("block-sparse", problem), Blocks(4, 4)
    assert found.words.tolist() == [words("block-sparse", problem, own, PLAIN)]
    assert found.sram.tolist() == [predict.residents("block-sparse", problem, own)]


@given(problem=problems(), upto=st.integers(1, 300))
def test_upto_leaves_out_what_takes_more(problem: Attention, upto: int) -> None:
    whole, part = frontier("flash2", problem), frontier("flash2", problem, upto=upto)
    assert part.sram.tolist() == [sram for sram in whole.sram.tolist() if sram <= upto]
    assert part.words.tolist() == whole.words.tolist()[: len(part.sram)]
    assert len(part.rows) == len(part.cols) == len(part.sram)


def test_among_equals_the_largest_tiles_are_taken() -> None:
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        rows, cols = np.array([1, 3, 2])[order], np.array([4, 3, 2])[order]
        found = steps(np.full(3, 40), np.full(3, 900), rows, cols)
        assert [column.tolist() for column in found] == [[40], [900], [3], [3]]


def test_every_sram_can_be_asked_at_once() -> None:
    found = frontier("flash2", Attention(16, 2))
    asked = np.array([[0, 9], [10**6, int(found.sram[1])]])
    assert found.at(asked).tolist() == [[-1, -1], [len(found.sram) - 1, 1]]


@given(st.integers(1, 400))
def test_the_smallest_blocks_are_those_that_a_smaller_one_would_cut_into_more_tiles(rows: int) -> None:
    expected = [block for block in range(1, rows + 1) if block == 1 or -(-rows // block) < -(-rows // (block - 1))]
    assert smallest_blocks(rows).tolist() == expected
    assert len(expected) < 2 * rows**0.5 + 1


def test_all_chunks_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    problems_ = (Attention(60, 3, nk=50), Attention(9, 3, causal=True))
    kernels_ = ("square-tiles", "flash2", "flash2-backward")
    before = [frontier(kernel, problem, OWN) for kernel, problem in product(kernels_, problems_)]
    monkeypatch.setattr("iosim.predict.blocks.frontier_search._PART", 7)
    for old, (kernel, problem) in zip(before, product(kernels_, problems_), strict=True):
        new = frontier(kernel, problem, OWN)
        assert (new.sram.tolist(), new.words.tolist()) == (old.sram.tolist(), old.words.tolist())


# powers of two and divisors


@pytest.mark.parametrize("sides", ["powers", "divisors"])
@some_kernels
@given(problem=problems())
def test_sides_are_searched_too_and_never_beat_all(kernel: str, options: Options, sides: Sides, problem: Attention) -> None:
    some, every = frontier(kernel, problem, options, sides=sides), frontier(kernel, problem, options)
    assert_frontier(some, searched(kernel, problem, options, sides))
    at_all = every.words[every.at(some.sram)]
    assert (some.words >= at_all).all()
    worst = predict.worst_penalty(kernel, problem, sides, options)
    srams = np.arange(every.sram[0], max(every.sram[-1], some.sram[-1]) + 2)
    ratios = some.words[some.at(srams)] / every.words[every.at(srams)]
    assert worst.ratio == ratios.max() >= 1
    assert worst.sram == srams[ratios == ratios.max()][0]  # the first that has it
    assert worst.ratio == some.words[some.at(worst.sram)] / every.words[every.at(worst.sram)]


@pytest.mark.parametrize("sides", ["powers", "divisors"])
@pytest.mark.parametrize(("kernel", "options"), [("flash", CREATE), ("square-tiles", PLAIN)])
@given(problem=banded())
def test_sides_are_searched_under_a_mask(kernel: str, options: Options, sides: Sides, problem: Attention) -> None:
    assert_frontier(frontier(kernel, problem, options, sides=sides), searched(kernel, problem, options, sides))


@given(st.integers(1, 300))
def test_the_allowed_sides(rows: int) -> None:
    for sides in ("all", "powers", "divisors"):
        assert allowed(rows, sides).tolist() == [side for side in range(1, rows + 1) if fair(side, rows, sides)]


# ideal


def test_the_ideal_frontier_of_flash2_is_the_closed_form() -> None:
    n, d = 256, 32
    srams = np.arange(1056, 16450)
    closed = 2 * n * d * (1 + -(-n // (srams // (2 * (d + 1)))))
    for found in (frontier("flash2", Attention(n, d), accounting="ideal"), predict.ideal_frontier(Attention(n, d))):
        assert (found.words[found.at(srams)] == closed).all()


@given(problems())
def test_of_flash2_for_any_sizes(problem: Attention) -> None:
    found = frontier("flash2", problem, accounting="ideal")
    width, tile = problem.d + problem.dv, problem.d + problem.dv + 2
    for sram in range(problem.n * tile + 3):
        high = min(sram // tile, problem.n)
        step = int(found.at(sram))
        assert (step < 0) == (high == 0)
        assert high == 0 or found.words[step] == problem.group * width * (problem.n - -(-problem.n // high) * -problem.nk)


@given(problems())
def test_of_flash_keys_change_places_with_queries_and_sums_move_twice(problem: Attention) -> None:
    found = frontier("flash", problem, accounting="ideal")
    width, tile = problem.d + problem.dv, problem.d + problem.dv + 2
    for sram in range(tile, problem.nk * tile + 3):
        across = -(-problem.nk // min(sram // tile, problem.nk))
        each = problem.nk * width + problem.n * (across * problem.d + (2 * across - 1) * problem.dv)
        assert found.words[found.at(sram)] == problem.group * each


@given(problems(), st.sampled_from(["flash", "flash2"]))
def test_no_kernel_beats_its_ideal_nor_that_the_best_of_all_schedules(problem: Attention, kernel: str) -> None:
    honest, ideal = frontier(kernel, problem, CREATE), frontier(kernel, problem, accounting="ideal")
    every = predict.ideal_frontier(problem)
    assert (ideal.words[ideal.at(honest.sram)] < honest.words).all()
    assert (every.words[every.at(ideal.sram)] <= ideal.words).all()
    assert every.words[-1] == problem.group * (problem.n + problem.nk) * (problem.d + problem.dv)  # each operand once


@pytest.mark.parametrize("shape", [(3, 2, 3), (4, 3, 2), (2, 4, 3), (1, 3, 4), (5, 1, 2)])
def test_a_product_in_tiles_is_the_best_of_all_nests_of_two_loops_a_rank(shape: tuple[int, int, int]) -> None:
    steps = nests(shape)
    found = product_steps(*shape)
    for sram in range(found.sram[0], max(steps) + 1):
        best = min(moved for needed, moved in steps.items() if needed <= sram)
        assert found.words[found.sram <= sram][-1] == best
    assert min(steps) == found.sram[0]


def nests(shape: tuple[int, int, int]) -> dict[int, int]:
    """The least words by room of a product's loop nests: each rank in tiles, their rows inside, in any order; each matrix kept anywhere."""
    steps: dict[int, int] = {}
    orders = [order for order in permutations([0, 1, 2, 3, 4, 5]) if all(order.index(rank) < order.index(rank + 3) for rank in range(3))]
    for order, tiles in product(orders, product(*(smallest_blocks(rows).tolist() for rows in shape))):
        kept = [placed(ranks, order, shape, tiles) for ranks in ((0, 1), (1, 2), (0, 2))]
        for choice in product(*kept):
            room, moved = map(sum, zip(*choice, strict=True))
            steps[room] = min(moved, steps.get(room, moved))
    return steps


def placed(ranks: tuple[int, int], order: tuple[int, ...], shape: tuple[int, ...], tiles: tuple[int, ...]) -> set[tuple[int, int]]:
    """Room and words of a matrix of two ranks below any number of the loops; C is read again for each sum but the first."""
    found = set()
    other = 3 - sum(ranks)
    for above in (order[:stop] for stop in range(7)):
        depth = [(rank in above) + (rank + 3 in above) for rank in range(3)]
        extents = [(shape[rank], tiles[rank], 1)[depth[rank]] for rank in ranks]
        times = (1, -(-shape[other] // tiles[other]), shape[other])[depth[other]]
        found.add((prod(extents), shape[ranks[0]] * shape[ranks[1]] * (2 * times - 1 if ranks == (0, 2) else times)))
    return {each for each in found if not any(room <= each[0] and moved <= each[1] and (room, moved) != each for room, moved in found)}


@pytest.mark.parametrize(("high", "wide", "room"), [(1, 1, 3), (1, 2, 4), (2, 1, 4), (2, 3, 12)])
def test_where_nothing_waits_a_tile_of_scores_meets_lines_and_words(high: int, wide: int, room: int) -> None:
    """S beside a word of Q and one of K takes three words; any larger tile takes as much beside P, or more."""
    problem = Attention(4, 5, nk=6)
    assert Schedule("queries", frozenset()).room(problem, np.array([high]), np.array([wide])).tolist() == [room]
    moved = high * 5 + 5 * wide + high * wide
    assert min(needed for needed, words_ in nests((high, 5, wide)).items() if words_ == moved) <= room


# what is refused

SPARSE = Attention(4, 1, block_mask=BlockMask.from_dense(np.ones((2, 2), dtype=bool), n=4, nk=4, rows=2, cols=2))
ELEMENTS = Attention(4, 1, mask=np.tri(4, dtype=bool))


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: frontier("block-sparse", Attention(8, 2)),
            "under a block mask only, and the problem has none; give one, or ask for flash",
        ),
        (lambda: frontier("flash3", Attention(8, 2)), "no closed form for 'flash3'; known: "),
        (lambda: frontier("flash", ELEMENTS), "known without a mask, under causal and under a window; leave out the element mask"),
        (
            lambda: frontier("flash", Attention(4, 1, causal=True, heads=2, kv_heads=1), Options(pack=True)),
            "leave out the element mask, or pack",
        ),
        (
            lambda: frontier("square-tiles", Attention(1025, 1, causal=True)),
            "1,048,576 pairs of blocks at most, not 1,050,625; ask for fewer rows, or",
        ),
        (lambda: frontier("flash", Attention(4, 1), sides="odd"), "unknown sides 'odd'; known: all, powers, divisors"),  # type: ignore[arg-type]
        (lambda: frontier("flash", Attention(4, 1), accounting="my"), "unknown accounting 'my'; known: honest, ideal"),  # type: ignore[arg-type]
        (lambda: frontier("flash", Attention(4, 1), upto=0), "upto must be a whole number >= 1, not 0"),
        (lambda: frontier("standard", Attention(4, 1), accounting="ideal"), "known for flash and flash2 without a mask, not for standard"),
        (lambda: frontier("flash2", SPARSE, accounting="ideal"), "without a mask, not for flash2 under a mask"),
        (
            lambda: frontier("flash2", Attention(1024, 64, heads=8, kv_heads=2), Options(pack=True), accounting="ideal"),
            "knows no packed heads; leave pack out, or ask flash2 for the honest accounting",
        ),
        (lambda: frontier("flash2", Attention(2**30, 1024)), "some blocks move 2.4e+21 words, more than 64 bits count safely"),
        (
            lambda: frontier("flash2", Attention(2**30, 1024), accounting="ideal"),
            "words, more than 64 bits count safely; ask for a smaller",
        ),
        (lambda: predict.ideal_frontier(Attention(2**30, 1024)), "words, more than 64 bits count safely; ask for a smaller problem"),
        (lambda: predict.ideal_frontier(ELEMENTS), "the ideal accounting knows no masks; leave causal, window and masks out"),
        (lambda: predict.leading_constants(2**30, 1024, 2**20), "more than 64 bits count safely; ask for a smaller problem"),
        (lambda: predict.leading_constants(64, 4, 24), "known above M = 4 d + 8 = 24 words, not for 24; ask for a larger SRAM"),
    ],
)
def test_what_has_no_frontier_is_refused_in_one_line(ask: object, message: str) -> None:
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        ask()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


# leading constants


@given(st.integers(1, 3000), st.integers(1, 80), st.integers(1, 10**5))
def test_what_is_left_of_the_words_lies_where_the_lower_order_terms_say(n: int, d: int, spare: int) -> None:
    for found in predict.leading_constants(n, d, 4 * d + 8 + spare):
        assert found.low <= found.ratio <= found.high


@pytest.mark.parametrize(("d", "rows"), [(8, 64), (64, 256)])
def test_the_lowest_that_they_can_be_is_reached_where_nothing_is_lost_to_rounding(d: int, rows: int) -> None:
    """N is so large, and cut so evenly, that what moves once and ragged tiles count for nothing."""
    just = {
        "flash, paper blocks": 4 * d * (rows - 1) + 1,  # Bc = ceil(M / 4d) = rows
        "flash, best blocks": (2 * d + 1) * rows + 2 * d + 8,
        "flash2, best blocks": (2 * d + 5) * rows + 2 * d,
        "Saha and Ye's bound": 4 * d * d + 9,
    }
    for name, sram in just.items():
        (found,) = (each for each in predict.leading_constants(2**24, d, max(sram, 4 * d + 9)) if each.name == name)
        assert 0 <= found.ratio - found.low <= found.ratio / 1000


def test_the_leading_constants() -> None:
    limits, wide = [12, 6, 4, 1], Fraction(1)
    for power in (6, 8, 10):
        d = 2**power
        found = predict.leading_constants(2**24, d, 2 ** (power - 2) * d**2)
        assert [each.limit for each in found] == limits
        spread = max(max(abs(each.low - each.limit), abs(each.high - each.limit)) / each.limit for each in found)
        assert spread < wide
        wide = spread / 2
    assert wide < Fraction(1, 100)


# the page


def page(source_tree: Path) -> str:
    return (source_tree / "docs" / "frontier.md").read_text(encoding="utf-8")


PENALISED = [
    ("flash", PLAIN),
    ("flash2", PLAIN),
    ("standard", STREAMED),
    ("square-tiles", LINES),
    ("flash-backward", PLAIN),
    ("flash2-backward", PLAIN),
]


def test_the_table_of_penalties_on_the_page(source_tree: Path) -> None:
    lines = []
    for n, (kernel, options) in product((1024, 1000, 1021), PENALISED):
        problem = Attention(n, 64)
        at = [frontier(kernel, problem, options, sides=sides) for sides in ("all", "powers", "divisors")]
        words_ = [int(found.words[found.at(12288)]) for found in at]
        cells = [f"{words_[0]:,}", f"{words_[1] / words_[0]:.3f}", f"{words_[2] / words_[0]:.3f}"]
        for sides in ("powers", "divisors"):
            worst = predict.worst_penalty(kernel, problem, sides, options, upto=n * 64)
            cells.append(f"{worst.ratio:.2f} at {worst.sram:,}")
        lines.append(f"| {n} | {kernel} | {' | '.join(cells)} |")
    assert "\n".join(lines) in page(source_tree)


def test_the_table_of_leading_constants_on_the_page(source_tree: Path) -> None:
    lines = []
    for d, x in ((64, 16), (64, 256), (128, 256), (256, 256), (1024, 256)):
        ratios = (f"{float(found.ratio):.3f}" for found in predict.leading_constants(2**24, d, x * d * d))
        lines.append(f"| {d} | {x} | {' | '.join(ratios)} |")
    assert "\n".join(lines) in page(source_tree)
