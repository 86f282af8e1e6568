"""The search for the best blocks under a mask: what it counts many grids at once with, and that nothing better is overlooked."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, Unit, capacity
from iosim.predict.blocks import outer_search, plane_search, sides
from iosim.predict.case import case
from iosim.predict.census.band import Band
from iosim.predict.census.patterns import Pairs, pattern
from iosim.predict.census.tally import Tally
from iosim.predict.census.tiles import Census, axis
from iosim.predict.census.visits import counted
from iosim.predict.room import room
from iosim.predict.sizes import floors

OWN, CREATE, STREAMED = Options(dq_pass="own"), Options(first_pass="create"), Options(softmax="streamed")
LINES = Options(depth="one")
lengths = st.integers(1, 24)


@st.composite
def masked(draw: st.DrawFn, most: int) -> Attention:
    """A problem in which a window, or an element mask beside it, hides some pairs."""
    n, nk = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    window = draw(st.tuples(st.integers(0, most), st.integers(-1, most)))
    mask = draw(st.sampled_from([None, None, rng.random((n, nk)) < rng.random(), np.tri(n, nk, nk - n, dtype=bool)]))
    d, dv, dtype = draw(st.integers(1, 6)), draw(st.integers(1, 6)), draw(st.sampled_from(["float16", "float32"]))
    return Attention(n, d, nk=nk, dv=dv, dtype=dtype, window=window, mask=mask)


def hiding(problem: Attention) -> Band | Pairs:
    """The pattern of a problem, a band even where it cuts nothing."""
    found = pattern(problem)
    return found if isinstance(found, Band | Pairs) else Band(problem.n, problem.nk, problem.n + problem.nk, problem.n + problem.nk)


# many grids at once


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 99), st.integers(0, 99), st.integers(1, 99)), min_size=1, max_size=9))
def test_floors_are_summed_without_a_loop(asked: list[tuple[int, int, int, int]]) -> None:
    count, start, step, by = np.array(asked).T
    assert floors(count, start, step, by).tolist() == [sum((s + i * t) // b for i in range(n)) for n, s, t, b in asked]


@given(masked(24), st.lists(st.tuples(lengths, lengths), min_size=1, max_size=5))
def test_a_tally_is_the_census_of_every_grid(problem: Attention, blocks: list[tuple[int, int]]) -> None:
    who = hiding(problem)
    rows, cols = np.minimum(np.array(blocks).T, [[problem.n], [problem.nk]])
    tally = who.tally(rows, cols)
    censuses = [who.census(axis(problem.n, br), axis(problem.nk, bc)) for br, bc in blocks]
    elements = isinstance(who, Pairs)
    for place, census in enumerate(censuses):
        same_tiles(tally, place, census, elements)
    sums = tally.sums
    for place, visits in enumerate(counted(census, elements=elements) for census in censuses):
        for name in ("queries", "keys", "pairs", "queries_met", "keys_met"):
            passes = getattr(visits, name)
            assert getattr(sums, name)[place] == passes.times.value * passes.rows.value
        assert tally.visits(elements=elements).cols[place] == visits.cols  # type: ignore[index]
        assert visits.elements is None or sums.elements[place] == visits.elements.times.value


def same_tiles(tally: Tally, place: int, census: Census, elements: bool) -> None:
    """Of every kind; a band knows no partial tiles."""
    found, expected = tally.visited[..., place], census.visited.sum(axis=3)
    if not elements:
        found, expected = found.sum(axis=2), expected.sum(axis=2)
    assert np.array_equal(found, expected)
    assert tally.tiles[place] == census.visited.sum()
    unmet = np.subtract(census.rows.numbers, census.unmet())
    assert np.array_equal(tally.met_rows[:, place], unmet)
    assert tuple(tally.met_cols[:, place]) == census.met


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("standard-backward", STREAMED),
        ("flash2-backward", OWN),
        ("flash2", Options()),
        ("square-tiles", LINES),
        ("square-tiles-backward", Options()),
        ("square-tiles-backward", LINES),
    ],
)
@given(problem=masked(16), unit=st.sampled_from(["words", "bytes"]), blocks=st.tuples(lengths, lengths))
def test_the_tiles_of_a_tally_need_what_those_of_a_census_need(
    kernel: str, options: Options, problem: Attention, unit: Unit, blocks: tuple[int, int]
) -> None:
    asked = case(kernel, problem, options)
    if not isinstance(asked.pattern, Band | Pairs):
        return
    rows, cols = np.minimum(np.array(blocks), [problem.n, problem.nk])[:, None]
    needed = asked.peak(asked.pattern.tally(rows, cols).kinds(), room(problem, unit))
    assert np.max(needed) == predict.residents(kernel, problem, Blocks(*blocks), options, unit)


@given(masked(16), lengths, st.booleans())
def test_what_blocks_of_one_axis_are_sure_to_bring_is_there(problem: Attention, height: int, keys: bool) -> None:
    who, ahead = hiding(problem), np.arange(problem.nk) - np.arange(problem.n)[:, None] - (problem.nk - problem.n)
    left, right = problem.window or (-1, -1)
    keep = (ahead >= -left) & ((right < 0) | (ahead <= right)) & (True if problem.mask is None else problem.mask)
    keep = keep.T if keys else keep
    block = min(height, len(keep))
    side = (sides.key_side if keys else sides.query_side)(who, np.array([block]))[0].at(np.array(0))
    strips = [keep[start : start + block] for start in range(0, len(keep), block)]
    seen = [int(strip.any(axis=0).sum()) for strip in strips]
    hidden = [count - int(strip.all(axis=0).sum()) for strip, count in zip(strips, seen, strict=True)]
    met = sum(count > 0 for count in seen[:-1])
    alike = [len(strip) == side.size for strip in strips]
    assert side.cells == sum(seen)
    assert side.pairs == sum(len(strip) * count for strip, count in zip(strips, seen, strict=True))
    assert side.size == len(strips[0 if met else -1])
    assert max(np.array(seen)[alike]) >= side.seen == (-(-sum(seen[:-1]) // met) if met else seen[-1])
    if problem.mask is not None:
        assert side.elements == sum(len(strip) * count for strip, count in zip(strips, hidden, strict=True))
        assert max(np.array(hidden)[alike]) >= side.hidden == (-(-sum(hidden[:-1]) // met) if met else hidden[-1])


# nothing better is overlooked


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        ("standard-backward", STREAMED),
        ("flash2-backward", OWN),
        ("flash-backward", CREATE),
        ("flash", Options(first_pass="create", accumulator="float32")),
        ("flash2", Options()),
        ("square-tiles", Options()),
        ("square-tiles", LINES),
        ("square-tiles-backward", Options()),
        ("square-tiles-backward", LINES),
    ],
)
@given(problem=masked(8), unit=st.sampled_from(["words", "bytes"]), spare=st.integers(0, 400))
def test_best_is_best_however_few_blocks_are_looked_at_together(
    kernel: str, options: Options, problem: Attention, unit: Unit, spare: int
) -> None:
    sram = Capacity(predict.smallest_sram(kernel, problem, options, unit) + spare, unit)

    with ExitStack() as stack:
        for module, name in ((sides, "_FIRST"), (outer_search, "_PART"), (plane_search, "_PART")):
            stack.enter_context(patch.object(module, name, 3))
        assert_best(kernel, problem, sram, options)


@pytest.mark.parametrize(
    ("kernel", "options"),
    [("standard-backward", STREAMED), ("flash2-backward", OWN), ("flash-backward", CREATE), ("square-tiles", Options())],
)
@pytest.mark.parametrize("problem", [Attention(1, 1, nk=9, window=(5, 0)), Attention(9, 1, nk=1, causal=True)])
def test_best_is_best_where_an_axis_is_a_single_row(kernel: str, options: Options, problem: Attention) -> None:
    least = predict.smallest_sram(kernel, problem, options)
    for amount in range(least, least + 60):
        assert_best(kernel, problem, Capacity(amount), options)


def assert_best(kernel: str, problem: Attention, sram: Capacity, options: Options) -> None:
    """The blocks that are chosen fit, and of all that do none moves fewer words, or as many with fewer tiles or residents."""

    def rank(blocks: Blocks) -> tuple[bool, int, int, int]:
        needed = predict.residents(kernel, problem, blocks, options, sram.unit)
        tiles = int(case(kernel, problem, options).census(blocks).visited.sum())
        return needed > sram.amount, words(kernel, problem, blocks, options), tiles, needed

    best = predict.choose_blocks(kernel, problem, sram, "best", options)
    every = product(range(1, problem.n + 1), range(1, problem.nk + 1))
    assert rank(best) == min(rank(Blocks(*blocks)) for blocks in every)


@pytest.mark.parametrize(("kernel", "options"), [("standard-backward", STREAMED), ("flash2-backward", OWN)])
@pytest.mark.parametrize("causal", [False, True])
def test_both_blocks_are_balanced_for_a_million_tokens(kernel: str, options: Options, causal: bool) -> None:
    problem, sram = Attention(2**20, 64, causal=causal), capacity("192KiB")
    best = predict.choose_blocks(kernel, problem, sram, "best", options)
    assert predict.residents(kernel, problem, best, options) <= 49152
    assert predict.residents(kernel, problem, Blocks(best.rows + 1, best.cols + 1), options) > 49152
    fit = predict.choose_blocks(kernel, problem, sram, "fit", options)
    assert words(kernel, problem, best, options) < words(kernel, problem, fit, options)


def words(kernel: str, problem: Attention, blocks: Blocks, options: Options) -> int:
    return sum(int(term.total) for term in predict.terms(kernel, problem, blocks, options))


@pytest.mark.parametrize("power", [26, 28, 30])
def test_sizes_at_which_the_words_of_small_blocks_overflow_64_bits(power: int) -> None:
    problem = Attention(n=2**power, d=1024)
    blocks = predict.choose_blocks("flash2", problem, Capacity(2**24), "best")
    assert blocks.cols == 1  # as at every size: all room for queries
    assert blocks.rows == -(-problem.n // -(-problem.n // ((2**24 - 2048) // 2053)))
    words = sum(array.reads + array.writes for array in predict.predict("flash2", problem, blocks).values())
    assert words == 2 * problem.n * 1024 * (1 + -(-problem.n // blocks.rows)) + problem.n


def test_where_no_blocks_can_be_counted_that_is_said() -> None:
    with pytest.raises(BadInput, match="64 bits"):
        predict.choose_blocks("flash2", Attention(n=2**36, d=1024), Capacity(2**20), "best")
