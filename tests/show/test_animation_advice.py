"""The smaller problem at its edges: the side of its tiles, its last resort, the steps through masks that are not square; and the sample."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from iosim import KERNELS, Attention, BlockMask, animate
from iosim.attention.plan import Plan, make_plan
from iosim.core.masks import patterns
from iosim.show.animation import limits
from iosim.show.animation.limits import TooLarge, measure, sample_of
from iosim.show.animation.pool import Sample
from iosim.show.animation.recording import record
from iosim.show.animation.smaller import SIDES, grid_of, smaller

LARGE = Attention(n=1024, d=8)


def plan(kernel: str, sram: int, problem: Attention = LARGE, blocks: tuple[int, int] = (4, 4), **options: str | bool) -> Plan:
    return make_plan(kernel, problem, sram, blocks, "record", options)


def least(kernel: str, side: int) -> int:
    """The words that tiles of this side need at the depth of the smaller problem."""
    d = 12 if "depth" in KERNELS[kernel].has else 4
    problem = Attention(n=8 * side, d=min(8, d))
    return make_plan(kernel, problem, 2**30, (side, side), None, {}).peak()


@pytest.mark.parametrize("kernel", ["flash", "flash2", "flash2-backward", "square-tiles", "released"])
@pytest.mark.parametrize(("side", "next_smaller"), [(4, 2), (2, 1)])
def test_the_tiles_are_the_largest_that_m_holds(kernel: str, side: int, next_smaller: int) -> None:
    enough = least(kernel, side)
    for sram, expected in ((enough, side), (enough - 1, next_smaller)):
        found = smaller([plan(kernel, sram)], limits.fits)
        assert found is not None
        assert (found.blocks.rows, found.blocks.cols, found.grid, found.over) == (expected, expected, (8, 8), False)


def test_where_m_holds_no_tile_they_are_the_largest_and_more_than_m_is_asked_for() -> None:
    found = smaller([plan("flash2", least("flash2", 1) - 1)], limits.fits)
    assert found is not None
    assert (found.blocks.rows, found.over) == (SIDES[0], True)


@pytest.mark.parametrize("most", [8, 6, 4, 3, 2, 1])
def test_of_the_grids_that_fit_the_largest_is_taken_down_to_a_single_tile(most: int) -> None:
    made = smaller([plan("flash2", 10**6)], lambda one: max(grid_of(one)) <= most)
    assert made is not None
    assert made.grid == (most, most)
    assert smaller([plan("flash2", 10**6)], lambda one: False) is None


@pytest.mark.parametrize(("most", "expected"), [(9, 9), (8, 4), (3, 2), (1, 1)])
def test_heads_are_left_out_only_where_no_grid_fits_with_them(most: int, expected: int) -> None:
    many = replaced(heads=18, kv_heads=2)
    made = smaller([plan("flash2", 10**6, many)], lambda one: one.problem.group <= most)
    assert made is not None
    assert (made.problem.group, made.problem.kv_heads) == (expected, 2)


def replaced(**fields: int) -> Attention:
    return Attention(n=LARGE.n, d=LARGE.d, **fields)  # type: ignore[arg-type]  # all of them are numbers


# the advice in Python

RNG = np.random.default_rng(5)


def advised(problem: Attention) -> Attention:
    """The problem that the message spells, with the masks of the large one at hand."""
    with pytest.raises(TooLarge) as told:
        animate("flash", problem)
    found = re.search(r"; (Attention\(.*\)) with blocks=\(4, 4\) shows the same in", str(told.value))
    assert found is not None, told.value
    made = eval(found[1], {"Attention": Attention, "BlockMask": BlockMask, "mask": problem.mask, "block_mask": problem.block_mask})
    assert isinstance(made, Attention)
    assert len(animate("flash", made).runs[0].steps.rows) > 50
    return made


@pytest.mark.parametrize(("n", "nk"), [(2000, 800), (800, 2000), (1200, 1200)])
def test_of_an_element_mask_every_so_many_rows_and_columns_are_taken_of_each_axis(n: int, nk: int) -> None:
    mask = RNG.random((n, nk)) < 0.5
    made = advised(Attention(n=n, nk=nk, d=4, mask=mask))
    assert made.mask is not None
    down, across = n // made.n, nk // made.nk
    assert (made.mask == mask[::down, ::across][: made.n, : made.nk]).all()
    assert made.n * (down + 1) > n  # from the first row to the last
    assert made.nk * (across + 1) > nk


@pytest.mark.parametrize(("n", "nk"), [(2048, 768), (768, 2048)])
def test_of_a_block_mask_every_so_many_tiles_are_taken_of_each_axis(n: int, nk: int) -> None:
    grid = RNG.random((n // 4, nk // 4)) < 0.5
    made = advised(Attention(n=n, nk=nk, d=4, block_mask=BlockMask.from_dense(grid, n, nk, 4, 4)))
    assert made.block_mask is not None
    tr, tc = made.n // 4, made.nk // 4
    down, across = n // 4 // tr, nk // 4 // tc
    assert made.block_mask == BlockMask.from_dense(grid[::down, ::across][:tr, :tc], made.n, made.nk, 4, 4)
    assert made.block_mask != patterns.dense(made.n, made.nk, 4, 4)


# which numbers are kept


@pytest.mark.parametrize("kernel", KERNELS)
def test_all_numbers_are_kept_where_a_bound_on_them_has_room(monkeypatch: pytest.MonkeyPatch, kernel: str) -> None:
    """A block brings numbers at its birth, an allocated one may be filled later, and one that is used may be overwritten after."""
    made = make_plan(kernel, Attention(n=10, nk=14, d=3, dv=2, causal=True), 2**20, (4, 3), None, {})
    events = made.trace()
    inputs = {event.name for event in events if event.kind == "input"}
    times = {"begin": 0, "end": 0, "alloc": 2}
    kept = sum(event.words * times.get(event.kind, 1) for event in events if not (event.kind == "load" and event.name in inputs))
    monkeypatch.setattr(limits, "MOST_NUMBERS", kept)
    assert sample_of(made) == Sample()
    assert record(made).pool.size <= kept
    monkeypatch.setattr(limits, "MOST_NUMBERS", kept - 1)
    assert sample_of(made).cols == 8


def test_a_run_just_below_the_limit_is_measured_as_it_is() -> None:
    made = plan("flash2", 10**6, Attention(n=256, d=4))
    found = measure(made)
    assert found.events == sum(event.kind != "use" for event in made.trace())
    assert found.fits
    assert not replace(found, events=limits.MOST_EVENTS + 1).fits
    assert not replace(found, words=limits.MOST_WORDS + 1).fits
    assert not replace(found, arrays=limits.MOST_ARRAYS + 1).fits
    assert replace(found, events=limits.MOST_EVENTS, words=limits.MOST_WORDS, arrays=limits.MOST_ARRAYS).fits
