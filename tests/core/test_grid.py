"""The grid of tiles under a mask: which tiles are met, which are full, and which visit is a query tile's first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import Attention, BadInput, BlockMask, Machine
from iosim.core.masks.grid import grid, index_rule
from iosim.core.masks.runs import FIRST, FULL, LAST, Table
from iosim.core.problem import Blocks
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
def test_tiles_are_met_full_first_and_last_as_their_pairs_say(case: Case) -> None:
    expected = states(case.problem, case.blocks)
    found = grid(case.problem, case.blocks)
    rows, cols = codes(found.by_row, expected.shape[1]), codes(found.by_col, expected.shape[0]).T
    for table in (rows, cols):
        assert np.array_equal(table >= 0, expected > 0)
        assert np.array_equal((table >= 0) & (table & FULL > 0), expected == 2)
    check_edges(cols, expected > 0)


def check_edges(cols: np.ndarray[tuple[int, ...], np.dtype[np.int64]], met: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> None:
    """The first and the last key tile that each query tile meets are marked as such, and no other."""
    first = met & (np.cumsum(met, axis=1) == 1)
    last = met & (np.cumsum(met[:, ::-1], axis=1)[:, ::-1] == 1)
    assert np.array_equal((cols >= 0) & (cols & FIRST > 0), first)
    assert np.array_equal((cols >= 0) & (cols & LAST > 0), last)


@given(
    n=st.integers(1, 20), nk=st.integers(1, 40), group=st.integers(1, 5), rows=st.integers(1, 30), cols=st.integers(1, 15),
    window=st.none() | st.tuples(st.integers(-1, 40), st.integers(-1, 40)), causal=st.booleans(),
)  # fmt: skip
def test_packed_rows_are_met_as_their_queries_are(
    n: int, nk: int, group: int, rows: int, cols: int, window: tuple[int, int] | None, causal: bool
) -> None:
    problem = Attention(n=n, nk=nk, d=1, window=window, causal=causal)
    rule = index_rule(problem, group=group)
    keep = np.ones((n * group, nk), bool)
    if rule is not None:
        keep &= rule(np.arange(n * group)[:, None], np.arange(nk)[None, :])
        query_by_query = index_rule(problem)
        assert query_by_query is not None
        assert np.array_equal(keep, np.repeat(query_by_query(np.arange(n)[:, None], np.arange(nk)[None, :]), group, axis=0))
    expected = BlockMask.from_elements(keep, rows, cols).states()
    found = grid(problem, Blocks(rows, cols), group=group)
    by_row, by_col = codes(found.by_row, expected.shape[1]), codes(found.by_col, expected.shape[0]).T
    for table in (by_row, by_col):
        assert np.array_equal(table >= 0, expected > 0)
        assert np.array_equal((table >= 0) & (table & FULL > 0), expected == 2)
    check_edges(by_col, expected > 0)


@given(case=cases("flash"))
def test_without_skipping_every_tile_of_a_masked_problem_is_met_as_partial(case: Case) -> None:
    found = grid(case.problem, case.blocks, skip=False)
    shape = -(-case.problem.n // case.blocks.rows), -(-case.problem.nk // case.blocks.cols)
    expected = 0 if case.problem.masked else FULL
    assert (codes(found.by_row, shape[1]) == expected).all()
    cols = codes(found.by_col, shape[0]).T
    assert ((cols & ~FIRST & ~LAST) == expected).all()
    check_edges(cols, np.ones(shape, bool))


def test_a_tile_of_another_height_is_refused() -> None:
    found = grid(Attention(n=8, d=1, causal=True), Blocks(2, 2))
    m = Machine(mode="count")
    tile = next(iter(m.tiles(8, 3)))
    with pytest.raises(BadInput, match=r"tiles of 2 out of 8 rows but was asked for a tile of 3 out of 8"):
        found.row(tile)
