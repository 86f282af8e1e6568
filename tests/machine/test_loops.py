"""A tile lives while its loop stands on it, and a loop runs once, to its end: everything else raises, in every mode."""

from __future__ import annotations

import copy
import pickle
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput, DeadValue, LoopMisuse
from iosim.core.masks.runs import Runs
from iosim.memory import Machine, Mode, Region, Tile

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)


@given(n=st.integers(1, 60), b=st.integers(1, 70))
def test_the_tiles_of_an_axis_cover_it_in_order(n: int, b: int) -> None:
    rows = [row for i in Machine(mode="trace").tiles(n, b) for row in range(i.start, i.start + i.size)]
    assert rows == list(range(n))


@given(n=st.integers(1, 60), b=st.integers(1, 70))
def test_counting_visits_one_full_and_one_last_tile_for_all(n: int, b: int) -> None:
    visits = [(i.size, i.times) for i in Machine(mode="count").tiles(n, b)]
    assert sum(size * times for size, times in visits) == n
    assert len(visits) == min(2, -(-n // b))


@in_every_mode
def test_the_inner_loop_left_by_break_is_noticed_by_the_outer_one(mode: Mode) -> None:
    m = Machine(mode=mode)
    outer = iter(m.tiles(8, 2))
    next(outer)
    for _ in m.tiles(8, 2):
        break
    with pytest.raises(LoopMisuse, match=r"left by break or return.*let every loop run to its end"):
        next(outer)


@in_every_mode
def test_the_outer_loop_left_by_break_is_noticed_at_the_end(mode: Mode) -> None:
    m = Machine(mode=mode)
    for _ in m.tiles(8, 2):
        break
    with pytest.raises(LoopMisuse, match=r"left by break or return.*let every loop run to its end"):
        m.finish()


@in_every_mode
def test_a_break_on_the_last_tile_is_a_break(mode: Mode) -> None:
    m = Machine(mode=mode)
    for _ in m.tiles(2, 2):
        break
    with pytest.raises(LoopMisuse, match="let every loop run to its end"):
        m.finish()


@in_every_mode
def test_a_return_from_inside_is_noticed_at_the_end(mode: Mode) -> None:
    def listing(m: Machine) -> None:
        for _ in m.tiles(8, 2):
            for _ in m.tiles(8, 2):
                return

    m = Machine(mode=mode)
    listing(m)
    with pytest.raises(LoopMisuse, match="let every loop run to its end"):
        m.finish()


@in_every_mode
def test_an_exception_caught_around_a_loop_leaves_it_open(mode: Mode) -> None:
    def listing(m: Machine) -> None:
        for _ in m.tiles(8, 2):
            raise ZeroDivisionError

    m = Machine(mode=mode)
    with pytest.raises(ZeroDivisionError):
        listing(m)
    with pytest.raises(LoopMisuse, match="let every loop run to its end"):
        m.finish()


@in_every_mode
def test_the_outer_loop_cannot_go_on_while_the_inner_one_is_open(mode: Mode) -> None:
    m = Machine(mode=mode)
    outer = iter(m.tiles(8, 2))
    next(outer)
    next(iter(m.tiles(8, 2)))
    with pytest.raises(LoopMisuse, match="an outer one went on before it ended"):
        next(outer)


@in_every_mode
def test_two_loops_cannot_be_zipped(mode: Mode) -> None:
    m = Machine(mode=mode)
    with pytest.raises(LoopMisuse, match="write nested loops as nested for statements"):
        list(zip(m.tiles(8, 2), m.tiles(8, 2), strict=True))


@in_every_mode
def test_a_loop_zipped_with_something_shorter_was_left_early(mode: Mode) -> None:
    m = Machine(mode=mode)
    for _ in zip(m.tiles(8, 2), range(1), strict=False):
        pass
    with pytest.raises(LoopMisuse, match="let every loop run to its end"):
        m.finish()


@in_every_mode
def test_a_loop_runs_once(mode: Mode) -> None:
    m = Machine(mode=mode)
    loop = m.tiles(8, 2)
    for _ in loop:
        pass
    with pytest.raises(LoopMisuse, match=r"call m.tiles\(...\) again"):
        iter(loop)


@in_every_mode
def test_a_loop_runs_where_it_was_made(mode: Mode) -> None:
    m = Machine(mode=mode)
    inner = m.tiles(8, 2)
    for _ in m.tiles(8, 2):
        with pytest.raises(LoopMisuse, match=r"call m.tiles\(...\) again in the for statement"):
            iter(inner)


@in_every_mode
@pytest.mark.parametrize("rows", [8, 9])
def test_a_tile_kept_in_a_list_is_refused(mode: Mode, rows: int) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (rows, 2), np.ones((rows, 2)))
    tiles = list(m.tiles(rows, 2))
    for tile in tiles:
        with pytest.raises(LoopMisuse, match="never keep tiles in a list"):
            m.load(X[tile])
        with pytest.raises(LoopMisuse, match="inside its own loop body"):
            _ = tile.members


@in_every_mode
def test_a_tile_is_refused_after_its_loop(mode: Mode) -> None:
    m = Machine(mode=mode)
    X, Y = m.input("X", (8, 8), np.ones((8, 8))), m.output("Y", (8, 8))
    for i in m.tiles(8, 4):  # noqa: B007 - the point is what happens below
        pass
    for j in m.tiles(8, 4):
        with pytest.raises(LoopMisuse, match="after its loop had moved on"):
            m.load(X[j, i])
        with pytest.raises(LoopMisuse, match="after its loop had moved on"):
            m.store(Y[i], m.full(0.0, 4, 8, name="y"))
        with pytest.raises(LoopMisuse, match="after its loop had moved on"):
            m.pairs(lambda rows, cols: rows >= cols, i, j)


@in_every_mode
def test_a_region_kept_and_loaded_later_is_refused(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (8, 2), np.ones((8, 2)))
    kept: list[Region] = []
    for i in m.tiles(8, 4):
        kept.append(X[i])
    with pytest.raises(LoopMisuse, match="after its loop had moved on"):
        m.load(kept[0])


@in_every_mode
def test_a_region_may_be_named_before_an_inner_loop(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (8, 2), np.ones((8, 2)))
    for i in m.tiles(8, 4):
        region = X[i]
        for _ in m.tiles(6, 2):
            m.load(region)
    assert m.finish().arrays["X"].reads == 3 * 16


@in_every_mode
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda tile: pickle.loads(pickle.dumps(tile))])
def test_a_tile_cannot_be_copied_to_outlive_its_loop(mode: Mode, copied: type) -> None:
    for i in Machine(mode=mode).tiles(8, 8):
        with pytest.raises(LoopMisuse, match="neither copied nor pickled"):
            copied(i)


@in_every_mode
@pytest.mark.parametrize("rows", [1, 5, 7, 9])
def test_a_tile_over_another_axis_does_not_fit(mode: Mode, rows: int) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (8, 3), np.ones((8, 3)))
    for i in m.tiles(rows, 2):
        says = rf"axis 0 has 8 rows but the tile comes from a loop over {rows}; loop over m.tiles\(8, ...\)"
        with pytest.raises(BadInput, match=says):
            m.load(X[i])
    for j in m.tiles(8, 2):
        with pytest.raises(BadInput, match="axis 1 has 3 rows but the tile comes from a loop over 8"):
            m.load(X[:, j])


@in_every_mode
def test_a_tile_of_another_machine_is_refused(mode: Mode) -> None:
    m, other = Machine(mode=mode), Machine(mode=mode)
    X = m.input("X", (8, 2), np.ones((8, 2)))
    for i in other.tiles(8, 2):
        with pytest.raises(BadInput, match="two machines never meet"):
            m.load(X[i])
        with pytest.raises(BadInput, match="two machines never meet"):
            m.load(X[:, i])


@in_every_mode
def test_a_tile_made_by_hand_opens_no_door(mode: Mode) -> None:
    m, other = Machine(mode=mode), Machine(mode=mode)
    X = m.input("X", (8, 2), np.ones((8, 2)))
    with pytest.raises(LoopMisuse, match="was used after its loop had moved on"):
        m.load(X[Tile(m.tiles(8, 2), (6, -4, 0, 1, None))])
    with pytest.raises(LoopMisuse, match="was used after its loop had moved on"):
        m.load(X[Tile(other.tiles(8, 2), (6, 2, 0, 1, None))])


@in_every_mode
@pytest.mark.parametrize(("first", "stop"), [(0, 5), (-1, 2), (3, 3), (2, 1), (7, 9)])
def test_runs_of_another_grid_are_refused(mode: Mode, first: int, stop: int) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match="an axis of 7 cut into 2 has 4; make the grid for these blocks"):
        list(m.tiles(7, 2, seen=Runs(np.array([0, first]), np.array([1, stop]), np.array([0, 0]))))


@in_every_mode
def test_runs_say_which_tiles_are_visited(mode: Mode) -> None:
    m = Machine(mode=mode)
    X = m.input("X", (7, 1), np.ones((7, 1)))
    for i in m.tiles(7, 2, seen=Runs(np.array([0, 3]), np.array([2, 4]), np.array([0, 0]))):
        m.load(X[i])
    for i in m.tiles(7, 2, seen=Runs(np.array([], np.int64), np.array([], np.int64), np.array([], np.int64))):
        m.load(X[i])
    assert m.finish().arrays["X"].reads == 2 + 2 + 1


@in_every_mode
def test_runs_that_sum_over_unnamed_tiles_are_refused(mode: Mode) -> None:
    m = Machine(mode=mode)
    with pytest.raises(BadInput, match=r"ask a grid for it, as in grid.row\(i\)"):
        m.tiles(7, 2, seen=Runs(np.array([0]), np.array([4]), np.array([0]), members=100))


@in_every_mode
@pytest.mark.parametrize(("n", "b"), [(0, 1), (1, 0), (-3, 2), (3, -2), (2.0, 1), (4, 2.5), ("8", 2), (8, None), (True, 1), (8, True)])
def test_an_axis_and_its_tiles_are_whole_numbers(mode: Mode, n: int, b: int) -> None:
    with pytest.raises(BadInput, match="must be a whole number >= 1"):
        Machine(mode=mode).tiles(n, b)


@in_every_mode
def test_numpy_integers_are_whole_numbers(mode: Mode) -> None:
    sizes = [i.size for i in Machine(mode=mode).tiles(np.int64(5), np.uint8(4))]  # type: ignore[arg-type]
    assert sizes == [4, 1]


@in_every_mode
def test_a_block_is_released_when_its_tile_ends(mode: Mode) -> None:
    m = Machine(mode=mode)
    kept = []
    for i in m.tiles(8, 4):
        kept.append(m.full(0.0, i.size, 2, name="x"))
    with pytest.raises(DeadValue, match="released when its tile ended; load it again, or carry its value in a block made outside the loop"):
        kept[0] + 1.0
    with pytest.raises(DeadValue, match="released when its tile ended"):
        kept[0] += 1.0
    with pytest.raises(DeadValue, match="released when its tile ended"):
        kept[0][...] = m.full(0.0, 4, 2, name="y")
    with pytest.raises(DeadValue, match="released when its tile ended"):
        _ = kept[0].T


@in_every_mode
def test_a_block_made_outside_lives_through_the_loop(mode: Mode) -> None:
    m = Machine(mode=mode)
    Y, total = m.output("Y", (1, 1)), m.full(0.0, 1, 1, name="total")
    for _ in m.tiles(6, 2):
        for _ in m.tiles(6, 3):
            total += 1.0
    m.store(Y[:], total)
    m.finish()
    if mode == "execute":
        assert Y.data is not None
        assert Y.data[0, 0] == 6
