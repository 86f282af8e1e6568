"""Tiles inside tiles: `i.tiles(b)` cuts the rows of i, whatever i stands for, and a region is cut by tiles of its own axis alone."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput, DeadValue, KindMismatch, LoopMisuse, NotWritten, SramOverflow
from iosim.core.masks.grid import grid
from iosim.core.masks.runs import joined
from iosim.core.problem import Attention, Blocks
from iosim.memory import Block, Counts, Event, Hbm, Machine, Mode, Tile, where
from iosim_reference.replay import replay

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)
sizes = st.integers(1, 20)
Listing = Callable[[Machine], object]


def counted(listing: Listing, mode: Mode, check: int = 0) -> Counts:
    m = Machine(mode=mode, check=check)
    listing(m)
    return m.finish()


def same_in_every_mode(listing: Listing) -> Counts:
    """The counts of ``listing``, after comparing all modes, with and without looking at other tiles of each kind, and a recount."""
    events: list[Event] = []
    m = Machine(observers=[events.append])
    listing(m)
    counts = m.finish()
    assert {counted(listing, mode, check) == counts for mode in MODES for check in (0, 2, 1000)} == {True}
    recount = replay(event.record() for event in events)
    assert {name: (a.reads, a.writes) for name, a in counts.arrays.items()} == {
        name: (a.reads, a.writes) for name, a in recount.arrays.items()
    }
    assert recount.peak_words == counts.peak_sram
    return counts


# what a tile inside a tile is


@given(n=sizes, b=sizes, c=sizes, d=sizes)
def test_they_cut_their_tile_in_order(n: int, b: int, c: int, d: int) -> None:
    found = [
        (k.start, k.size)
        for i in Machine(mode="trace").tiles(n, b)
        for j in i.tiles(c)
        for k in j.tiles(d)
    ]  # fmt: skip
    cuts = sorted({(i // b, i % b // c, i % b % c // d) for i in range(n)})
    starts = [i * b + j * c + k * d for i, j, k in cuts]
    assert [start for start, _ in found] == starts
    assert [size for _, size in found] == np.diff([*starts, n]).tolist()


@in_every_mode
def test_a_ragged_tile_ends_in_a_short_one(mode: Mode) -> None:
    for i in Machine(mode=mode).tiles(64, 16):
        found = [(j.size, j.times // i.times) for j in i.tiles(5)]
        assert found == ([(5, 3), (1, 1)] if mode == "count" else [(5, 1), (5, 1), (5, 1), (1, 1)])


def squares(m: Machine) -> Hbm:
    """Of 64 rows A[r] = r, the sums of squares of every 16."""
    A, S = m.input("A", (64, 1), np.arange(64.0)[:, None]), m.output("S", (64, 1))
    for i in m.tiles(64, 16):
        total = m.full(0.0, 1, 1, name="total")
        for j in i.tiles(4):
            a = m.load(A[j])
            total += a.T @ a
        m.store(S[i], m.full(0.0, i.size, 1, name="zero") + total)
    return S


def test_sums_of_squares() -> None:
    m = Machine()
    S = squares(m)
    m.finish()
    assert S.data[::16, 0].tolist() == [1240, 9176, 25304, 49624]
    assert same_in_every_mode(squares).arrays["A"].reads == 64


@in_every_mode
def test_they_are_full_first_and_last_where_their_tile_is(mode: Mode) -> None:
    m, tiles = Machine(mode=mode), grid(Attention(n=12, d=1, causal=True), Blocks(4, 3))
    seen = set()
    for j in m.tiles(12, 3):
        for i in m.tiles(12, 4, seen=tiles.col(j)):
            for k in i.tiles(2):
                assert (k.full, k.first, k.last) == (i.full, i.first, i.last)
                seen.add((k.full, k.first, k.last))
    assert len(seen) > 3
    m.finish()


# counts


@dataclass(frozen=True)
class Nest:
    """A loop over an axis, or inside the tile of a loop around it: ``of`` says of which, None for the axis ``axis``."""

    axis: int
    of: int | None
    height: int


@st.composite
def nests(draw: st.DrawFn, shape: tuple[int, int]) -> list[Nest]:
    """Up to four loops, one inside the other, some of which cut tiles of others."""
    found: list[Nest] = []
    for depth in range(draw(st.integers(1, 4))):
        of = draw(st.none() | st.integers(0, depth - 1)) if depth else None
        axis = draw(st.integers(0, 1)) if of is None else found[of].axis
        found.append(Nest(axis, of, draw(st.integers(1, max(shape)))))
    return found


def opened(m: Machine, shape: tuple[int, int], loops: list[Nest], tiles: tuple[Tile, ...] = ()) -> Iterator[tuple[Tile, ...]]:
    """All tiles that are open, in every innermost turn."""
    if not loops[len(tiles) :]:
        yield tiles
        return
    nest = loops[len(tiles)]
    for tile in m.tiles(shape[nest.axis], nest.height) if nest.of is None else tiles[nest.of].tiles(nest.height):
        yield from opened(m, shape, loops, (*tiles, tile))


def innermost(tiles: tuple[Tile, ...], loops: list[Nest], axis: int) -> Tile | slice:
    """The last of the tiles that cut an axis, or all of it."""
    return next((tile for tile, nest in zip(tiles[::-1], loops[::-1], strict=True) if nest.axis == axis), slice(None))


@given(data=st.data(), shape=st.tuples(st.integers(1, 12), st.integers(1, 12)))
def test_random_nests_count_what_they_execute(data: st.DataObject, shape: tuple[int, int]) -> None:
    loops, others = data.draw(nests(shape)), data.draw(nests(shape))
    numbers = np.arange(float(shape[0] * shape[1])).reshape(shape)

    def listing(m: Machine) -> None:
        X, Y = m.input("X", shape, numbers), m.output("Y", shape)
        m.store(Y[:], m.full(0.0, *shape, name="zero"))
        for nest in (loops, others):
            for tiles in opened(m, shape, nest):
                place = innermost(tiles, nest, 0), innermost(tiles, nest, 1)
                y = m.load(Y[place])
                y += m.load(X[place]) if tiles[-1].size > 1 else 3.0 * m.load(X[place])
                m.store(Y[place], y)

    counts = same_in_every_mode(listing)
    m = Machine()
    listing(m)
    m.finish()
    expected = np.zeros(shape)
    for nest in (loops, others):
        for (rows, cols), size in places(shape, nest):
            expected[rows, cols] += numbers[rows, cols] * (1 if size > 1 else 3)
    assert np.array_equal(m.arrays["Y"].data, expected)
    assert counts.arrays["X"].reads == sum(numbers[place].size for nest in (loops, others) for place, _ in places(shape, nest))


def places(shape: tuple[int, int], loops: list[Nest]) -> Iterator[tuple[tuple[slice, slice], int]]:
    """By Python's own ranges: the slices of every innermost turn, and the size of its innermost tile."""

    def turns(at: int, cuts: tuple[range, ...]) -> Iterator[tuple[range, ...]]:
        if at == len(loops):
            yield cuts
            return
        rows = range(shape[loops[at].axis]) if loops[at].of is None else cuts[loops[at].of or 0]
        for start in range(0, len(rows), loops[at].height):
            yield from turns(at + 1, (*cuts, rows[start : start + loops[at].height]))

    for cuts in turns(0, ()):
        ends = [next((cut for cut, nest in zip(cuts[::-1], loops[::-1], strict=True) if nest.axis == a), range(shape[a])) for a in (0, 1)]
        rows, cols = (slice(end.start, end.stop) for end in ends)
        yield (rows, cols), len(cuts[-1])


def test_any_number_of_rows_takes_a_few_visits() -> None:
    m, visits, rows = Machine(mode="count"), 0, 2**40 + 3
    X, Y = m.input("X", (rows, 8)), m.output("Y", (rows, 8))
    for i in m.tiles(rows, 100):
        for j in i.tiles(7):
            m.store(Y[j], m.load(X[j]))
            visits += 1
    assert m.finish().arrays["X"].reads == 8 * rows
    assert visits == 4


def test_masked_loops_around_inside_and_beside_them() -> None:
    problem, blocks = Attention(n=23, d=1, nk=17, window=(5, 2)), Blocks(5, 4)
    tiles = grid(problem, blocks)

    def listing(m: Machine) -> None:
        Q, K = (m.input(name, (rows, 1), np.ones((rows, 1))) for name, rows in (("Q", 23), ("K", 17)))
        for i in m.tiles(23, 5):
            for k in i.tiles(2):
                m.load(Q[k])
                for j in m.tiles(17, 4, seen=tiles.row(i)):
                    m.load(Q[k])
                    for l in j.tiles(3):
                        m.load(K[l])
                        for _ in k.tiles(1):
                            m.full(0.0, l.size, 1, name="x")
        for j in m.tiles(17, 4):
            for i in m.tiles(23, 5, seen=tiles.col(j)):
                for k in i.tiles(3):
                    m.load(Q[k])

    same_in_every_mode(listing)


@given(n=sizes, nk=sizes, b=sizes, c=sizes)
def test_pairs_are_those_of_the_rows_themselves(n: int, nk: int, b: int, c: int) -> None:
    def listing(m: Machine) -> None:
        S = m.output("S", (n, nk))
        for i in m.tiles(n, b):
            for k in i.tiles(2):
                for j in m.tiles(nk, c):
                    for l in j.tiles(3):
                        s = m.full(1.0, k.size, l.size, name="s")
                        m.store(S[k, l], where(m.pairs(lambda row, col: row >= col, k, l), s, 0.0))

    same_in_every_mode(listing)
    m = Machine()
    listing(m)
    m.finish()
    assert np.array_equal(m.arrays["S"].data, np.tri(n, nk))


# outputs that are written whole, or not


@given(n=sizes, b=sizes, c=sizes, d=sizes, left_out=st.sets(st.integers(0, 19)))
def test_counting_knows_which_rows_are_written(n: int, b: int, c: int, d: int, left_out: set[int]) -> None:
    """Tiles of some sizes are stored to, so that whole kinds are left out; and as words, enough are written."""

    def listing(m: Machine) -> None:
        Y = m.output("Y", (n, 1))
        for i in m.tiles(n, b):
            for j in i.tiles(c):
                if j.size not in left_out:
                    store(m, Y, j, n)
            for j in i.tiles(c):
                for k in j.tiles(d):
                    if k.size not in left_out:
                        store(m, Y, k, n)

    ends = {mode: ended(listing, mode) for mode in MODES}
    assert ends["count"] == ends["trace"] == ends["execute"]


def store(m: Machine, Y: Hbm, tile: Tile, times: int) -> None:
    for _ in range(times):
        m.store(Y[tile], m.full(0.0, tile.size, 1, name="y"))


def ended(listing: Listing, mode: Mode) -> str:
    try:
        counted(listing, mode)
    except NotWritten:
        return "not written"
    return "written"


@in_every_mode
@pytest.mark.parametrize("left_out", [(), (5,), (1,)])
def test_a_kind_of_tile_that_is_left_out_is_noticed(mode: Mode, left_out: tuple[int, ...]) -> None:
    def listing(m: Machine) -> None:
        Y = m.output("Y", (64, 1))
        for i in m.tiles(64, 16):
            for j in i.tiles(5):
                if j.size not in left_out:
                    store(m, Y, j, 64)

    if not left_out:
        assert counted(listing, mode).arrays["Y"].writes == 64 * 64
        return
    row = {5: 0, 1: 15}[left_out[0]]
    with pytest.raises(NotWritten, match=rf"(element \({row}, 0\)|row {row}) was never written"):
        counted(listing, mode)


def in_loops_of_one_size(m: Machine, *found: int) -> None:
    """Loops over 67 rows in tiles of 16, cut into 5, 5, 5 and 1, or 3 at the end: each stores to tiles of one size, twice."""
    Y = m.output("Y", (67, 1))
    for size in found:
        for i in m.tiles(67, 16):
            for j in i.tiles(5):
                if j.size == size:
                    store(m, Y, j, 2)


@in_every_mode
def test_several_loops_fill_what_none_fills_alone(mode: Mode) -> None:
    assert counted(lambda m: in_loops_of_one_size(m, 5, 1, 3), mode).arrays["Y"].writes == 2 * 67
    with pytest.raises(NotWritten, match=r"(element \(64, 0\)|row 64) was never written"):
        counted(lambda m: in_loops_of_one_size(m, 5, 1), mode)


@given(spans=st.lists(st.tuples(sizes, sizes), min_size=1))
def test_spans_are_joined(spans: list[tuple[int, int]]) -> None:
    found = joined(np.array([(start, start + more) for start, more in spans]))
    rows = {row for start, more in spans for row in range(start, start + more)}
    assert [row for start, stop in found for row in range(start, stop)] == sorted(rows)
    assert (found[1:, 0] > found[:-1, 1]).all()


# room


@in_every_mode
def test_room_is_that_of_the_tiles_inside(mode: Mode) -> None:
    m = Machine(10, mode=mode)
    X = m.input("X", (64, 1), np.ones((64, 1)))
    for i in m.tiles(64, 16):
        for j in i.tiles(5):
            m.full(0.0, 5, 1, name="five")
            m.load(X[j])
    assert m.finish().peak_sram == 10
    m = Machine(9, mode=mode)
    X = m.input("X", (64, 1), np.ones((64, 1)))
    for i in m.tiles(64, 16):
        for j in i.tiles(5):
            m.full(0.0, 5, 1, name="five")
            if j.size == 5:
                with pytest.raises(SramOverflow, match=r"X\(5, 1\) needs 5 words but 4 of 9 are free; resident: five\(5, 1\)$"):
                    m.load(X[j])


@in_every_mode
def test_what_is_made_inside_dies_inside(mode: Mode) -> None:
    m, kept = Machine(mode=mode), list[Block]()
    X = m.input("X", (8, 1), np.ones((8, 1)))
    for i in m.tiles(8, 4):
        for j in i.tiles(2):
            kept.append(m.load(X[j]))
        with pytest.raises(DeadValue, match="released when its tile ended"):
            kept[-1] + 1.0
    assert m.used == 0


# what is refused


@in_every_mode
def test_a_tile_of_another_axis_as_long_as_a_tile_is_refused(mode: Mode) -> None:
    m = Machine(mode=mode)
    A, S = m.input("A", (64, 1), np.ones((64, 1))), m.output("S", (64, 1))
    says = r"axis 0 has 64 rows but the tile comes from a loop over 16; .* inside a tile i of that over i.tiles\(4\)"
    for i in m.tiles(64, 16):
        for j in m.tiles(i.size, 4):
            with pytest.raises(BadInput, match=says):
                m.load(A[j])
            with pytest.raises(BadInput, match=says):
                m.store(S[j], m.full(0.0, 4, 1, name="s"))
            for k in j.tiles(2):
                with pytest.raises(BadInput, match="comes from a loop over 16"):
                    m.load(A[k])


@in_every_mode
def test_a_tile_inside_a_tile_cuts_the_axis_of_that(mode: Mode) -> None:
    m = Machine(mode=mode)
    X, Y = (m.input(name, shape, np.ones(shape)) for name, shape in (("X", (64, 16)), ("Y", (16, 64))))
    for i in m.tiles(64, 16):
        for j in i.tiles(4):
            m.load(X[j])
            m.load(Y[:, j])
            with pytest.raises(BadInput, match="axis 1 has 16 rows but the tile comes from a loop over 64"):
                m.load(X[:, j])
            with pytest.raises(BadInput, match="axis 0 has 16 rows but the tile comes from a loop over 64"):
                m.load(Y[j])


@in_every_mode
def test_a_mask_knows_no_tile_inside_a_tile(mode: Mode) -> None:
    m, tiles = Machine(mode=mode), grid(Attention(n=8, d=1, causal=True), Blocks(2, 2))
    for i in m.tiles(8, 4):
        with pytest.raises(BadInput, match=r"m.tiles\(n, b, seen=...\); i.tiles\(b\) visits all rows of i"):
            i.tiles(2, seen=tiles.columns())
        for j in i.tiles(2):
            with pytest.raises(BadInput, match=r"a mask knows the tiles of m.tiles\(8, 2\), and no tile inside a tile"):
                tiles.row(j)


@in_every_mode
@pytest.mark.parametrize("b", [0, -1, 2.0, True, None, "2"])
def test_a_height_is_a_whole_number(mode: Mode, b: int) -> None:
    for i in Machine(mode=mode).tiles(8, 8):
        with pytest.raises(BadInput, match="the tile height must be a whole number >= 1"):
            i.tiles(b)


@in_every_mode
def test_a_tile_that_is_over_has_no_tiles(mode: Mode) -> None:
    m = Machine(mode=mode)
    kept = list(m.tiles(8, 4))
    with pytest.raises(LoopMisuse, match="after its loop had moved on"):
        kept[0].tiles(2)
    for i in m.tiles(8, 8):
        inside = list(i.tiles(2))
        with pytest.raises(LoopMisuse, match="after its loop had moved on"):
            inside[-1].tiles(1)
        with pytest.raises(LoopMisuse, match="neither copied nor pickled"):
            copy.copy(i)


@in_every_mode
def test_a_loop_inside_a_tile_runs_once_to_its_end_where_it_was_made(mode: Mode) -> None:
    m = Machine(mode=mode)
    outer = iter(m.tiles(8, 4))
    i = next(outer)
    loop = i.tiles(2)
    list(loop)
    with pytest.raises(LoopMisuse, match="runs once"):
        iter(loop)
    next(iter(i.tiles(2)))
    with pytest.raises(LoopMisuse, match="left by break or return"):
        next(outer)


# bodies that depend on their place


BODIES: dict[str, Callable[[Machine, Hbm, Tile, bool], object]] = {
    "another height": lambda m, X, i, odd: list(i.tiles(2 if odd else 4)),
    "an axis as long": lambda m, X, i, odd: list(m.tiles(i.size, 2) if odd else i.tiles(2)),
    "a tile of another tile": lambda m, X, i, odd: [list((i if odd else j).tiles(1)) for j in i.tiles(8)],
    "what is inside": lambda m, X, i, odd: [m.load(X[j]) if odd and j.size == 3 else None for j in i.tiles(5)],
}


@in_every_mode
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_depends_on_its_place_is_found_out(mode: Mode, body: Callable[[Machine, Hbm, Tile, bool], object]) -> None:
    def listing(m: Machine) -> None:
        X = m.input("X", (64, 1), np.ones((64, 1)))
        for turn, i in enumerate(m.tiles(64, 8)):
            body(m, X, i, turn == 1)

    with pytest.raises(KindMismatch, match="did different things"):
        counted(listing, mode, check=100)


def test_numbers_of_turns_multiply() -> None:
    """Of 23 rows in tiles of 7, cut into 3, cut into 2."""
    found = [k.times for i in Machine(mode="count").tiles(23, 7) for j in i.tiles(3) for k in j.tiles(2)]
    assert sum(found) == sum(-(-min(3, size - at) // 2) for size in (7, 7, 7, 2) for at in range(0, size, 3))
