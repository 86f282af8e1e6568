"""The grid of tiles under a mask: which tiles are met, which are full, and which visit is a query tile's first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from iosim import Attention, BadInput, BlockMask, Machine
from iosim.masks.grid import grid, index_rule
from iosim.masks.runs import FIRST, FULL, Table
from iosim.specs import Blocks
from iosim.testing import Case, cases


def codes(table: Table, tiles: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The code of every tile, -1 where it is not met."""
    found = np.full((len(table.pointer) - 1, tiles), -1)
    for t in range(len(found)):
        for first, stop, code in table.of(range(t, t + 1)):
            found[t, first:stop] = code
    return found


def states(problem: Attention, blocks: Blocks) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    """0 empty, 1 partial, 2 full, from the pairs themselves."""
    rule = index_rule(problem, with_blocks=True)
    keep = np.ones((problem.n, problem.nk), bool)
    if rule is not None:
        keep &= rule(np.arange(problem.n)[:, None], np.arange(problem.nk)[None, :])
    if problem.mask is not None:
        keep &= problem.mask
    return BlockMask.from_elements(keep, blocks.rows, blocks.cols).states()


@given(case=cases("flash"))
def test_tiles_are_met_full_and_first_as_their_pairs_say(case: Case) -> None:
    expected = states(case.problem, case.blocks)
    found = grid(case.problem, case.blocks)
    rows, cols = codes(found.by_row, expected.shape[1]), codes(found.by_col, expected.shape[0]).T
    for table in (rows, cols):
        assert np.array_equal(table >= 0, expected > 0)
        assert np.array_equal((table >= 0) & (table & FULL > 0), expected == 2)
    first = (expected > 0) & (np.cumsum(expected > 0, axis=1) == 1)
    assert np.array_equal((cols >= 0) & (cols & FIRST > 0), first)


@given(case=cases("flash"))
def test_without_skipping_every_tile_of_a_masked_problem_is_met_as_partial(case: Case) -> None:
    found = grid(case.problem, case.blocks, skip=False)
    shape = -(-case.problem.n // case.blocks.rows), -(-case.problem.nk // case.blocks.cols)
    expected = 0 if case.problem.masked else FULL
    assert (codes(found.by_row, shape[1]) == expected).all()
    cols = codes(found.by_col, shape[0])
    assert (cols[0] == expected | FIRST).all()
    assert (cols[1:] == expected).all()


def test_a_tile_of_another_height_is_refused() -> None:
    found = grid(Attention(n=8, d=1, causal=True), Blocks(2, 2))
    m = Machine(mode="count")
    tile = next(iter(m.tiles(8, 3)))
    with pytest.raises(BadInput, match=r"tiles of 2 out of 8 rows but was asked for a tile of 3 out of 8"):
        found.row(tile)
