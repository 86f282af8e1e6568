"""One tile of each kind stands for all: counting equals tracing equals executing, and ``check`` finds bodies that depend on their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput, KindMismatch, LoopMisuse
from iosim.core.masks import BlockMask
from iosim.core.masks.grid import Grid, grid
from iosim.core.masks.runs import Runs
from iosim.core.problem import Attention, Blocks
from iosim.memory import Counts, Hbm, Machine, Mode, exp, where
from iosim.testing import cases

MODES: tuple[Mode, ...] = get_args(Mode)
in_every_mode = pytest.mark.parametrize("mode", MODES)
Listing = Callable[[Machine], None]
sizes = st.integers(1, 20)


def run(listing: Listing, mode: Mode, **options: int) -> Counts:
    m = Machine(mode=mode, **options)  # type: ignore[arg-type]
    listing(m)
    return m.finish()


def same_in_every_mode(listing: Listing) -> Counts:
    """The counts of ``listing``, after comparing all modes, and all tiles of each kind."""
    counts = [run(listing, mode) for mode in MODES] + [run(listing, mode, check=1000) for mode in MODES]
    assert all(count == counts[0] for count in counts)
    return counts[0]


def ones(m: Machine, name: str, rows: int, cols: int) -> Hbm:
    return m.input(name, (rows, cols), np.ones((rows, cols)))


# listings written by hand


@given(n=sizes, k=sizes, c=sizes, b=st.tuples(sizes, sizes, sizes))
def test_a_product_in_three_nested_loops(n: int, k: int, c: int, b: tuple[int, int, int]) -> None:
    def listing(m: Machine) -> None:
        A, B, C = ones(m, "A", n, k), ones(m, "B", k, c), m.output("C", (n, c))
        for i in m.tiles(n, b[0]):
            for j in m.tiles(c, b[1]):
                total = m.full(0.0, i.size, j.size, name="C_ij")
                for h in m.tiles(k, b[2]):
                    total += m.load(A[i, h]) @ m.load(B[h, j])
                m.store(C[i, j], total)

    counts = same_in_every_mode(listing)
    assert counts.arrays["A"].reads == n * k * -(-c // b[1])
    assert counts.arrays["B"].reads == k * c * -(-n // b[0])
    assert (counts.arrays["C"].writes, counts.flops.matmul) == (n * c, 2 * n * k * c)


@given(n=sizes, d=sizes, b=sizes, c=sizes)
def test_several_loops_in_a_row_inside_one(n: int, d: int, b: int, c: int) -> None:
    def listing(m: Machine) -> None:
        X, Y = ones(m, "X", n, d), m.output("Y", (n, d))
        for i in m.tiles(n, b):
            total, top = m.full(0.0, i.size, 1, name="l"), m.full(0.0, i.size, 1, name="m")
            for j in m.tiles(d, c):
                top += m.load(X[i, j]).rowmax()
            for j in m.tiles(d, c):
                total += exp(m.load(X[i, j]) - top).rowsum()
            for j in m.tiles(d, c):
                m.store(Y[i, j], exp(m.load(X[i, j]) - top) / total)
        for j in m.tiles(d, b):
            m.load(Y[:, j])

    counts = same_in_every_mode(listing)
    assert (counts.arrays["X"].reads, counts.arrays["Y"].reads, counts.arrays["Y"].writes) == (3 * n * d, n * d, n * d)


@given(n=sizes, b=sizes)
def test_a_body_may_depend_on_the_size_of_its_tile(n: int, b: int) -> None:
    def listing(m: Machine) -> None:
        X = ones(m, "X", n, 1)
        for i in m.tiles(n, b):
            m.load(X[i])
            if i.size < b:
                m.load(X[i])
            for _ in m.tiles(i.size, 2):
                m.full(0.0, 1, i.size, name="x")

    same_in_every_mode(listing)


@given(data=st.data())
def test_masks_at_every_depth(data: st.DataObject) -> None:
    problem, blocks, _ = data.draw(cases("flash2", most=20))
    tiles = grid(problem, blocks)

    def listing(m: Machine) -> None:
        Q, K = ones(m, "Q", problem.n, 2), ones(m, "K", problem.nk, 3)
        for h in m.tiles(5, 2):
            for i in m.tiles(problem.n, blocks.rows):
                m.load(Q[i])
                for j in m.tiles(problem.nk, blocks.cols, seen=tiles.row(i)):
                    m.full(0.0, 1 + j.full, 1 + h.size, name="x")
                    m.load(K[j])
                for j in m.tiles(problem.nk, blocks.cols, seen=tiles.unseen(i)):
                    m.load(K[j])
        for j in m.tiles(problem.nk, blocks.cols, seen=tiles.columns(skip_empty=True)):
            for _ in m.tiles(3, 2):
                for i in m.tiles(problem.n, blocks.rows, seen=tiles.col(j)):
                    m.load(Q[i])
                    if i.first:
                        m.load(K[j])
                    for k in m.tiles(problem.nk, blocks.cols, seen=tiles.row(i)):
                        m.load(K[k])
        for i in m.tiles(problem.n, blocks.rows, seen=tiles.unvisited_rows()):
            m.load(Q[i])

    same_in_every_mode(listing)


@given(n=sizes, nk=sizes, b=sizes, c=sizes)
def test_pairs_computed_from_indices(n: int, nk: int, b: int, c: int) -> None:
    def listing(m: Machine) -> None:
        S = m.output("S", (n, nk))
        for i in m.tiles(n, b):
            for j in m.tiles(nk, c):
                s = m.full(1.0, i.size, j.size, name="S_ij")
                m.store(S[i, j], where(m.pairs(lambda row, col: row >= col, i, j), s, 0.0))

    assert same_in_every_mode(listing).flops.elementwise == 2 * n * nk
    m = Machine()
    listing(m)
    m.finish()
    assert np.array_equal(m.arrays["S"].data, np.tri(n, nk))


def test_one_million_tokens_take_a_few_visits() -> None:
    m = Machine(mode="count")
    X, Y = m.input("X", (2**20, 64)), m.output("Y", (2**20, 64))
    visits = 0
    for i in m.tiles(2**20, 100):
        m.store(Y[i], m.load(X[i]))
        for _ in m.tiles(2**20, 3):
            visits += 1
    assert m.finish().arrays["X"].reads == 2**26
    assert visits == 4


# loops that depend on one tile


BITTEN = BlockMask.from_dense(np.array([[1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, 1]], bool), 8, 8, 2, 2)


def bitten() -> Grid:
    """A grid whose query tiles meet 4, 1, 2 and 2 key tiles."""
    return grid(Attention(n=8, d=1, block_mask=BITTEN), Blocks(2, 2))


@in_every_mode
def test_two_nested_loops_cannot_depend_on_one_tile(mode: Mode) -> None:
    tiles = bitten()

    def listing(m: Machine) -> None:
        for i in m.tiles(8, 2):
            for _ in m.tiles(8, 2, seen=tiles.row(i)):
                for _ in m.tiles(8, 2):
                    m.tiles(8, 2, seen=tiles.row(i))  # 4 * 4 + 1 + 2 * 2 + 2 * 2 turns, which no product of sums gives

    with pytest.raises(LoopMisuse, match="write loops that depend on one tile one after the other, not nested"):
        listing(Machine(mode=mode))


@in_every_mode
def test_a_loop_depends_on_an_open_tile(mode: Mode) -> None:
    tiles = bitten()

    def listing(m: Machine) -> None:
        kept = [tiles.row(i) for i in m.tiles(8, 2)]
        m.tiles(8, 2, seen=kept[0])

    with pytest.raises(LoopMisuse, match="ask it of an open tile"):
        listing(Machine(mode=mode))


def test_a_chain_of_loops_each_depending_on_the_one_around_it() -> None:
    tiles = bitten()

    def listing(m: Machine) -> None:
        X = ones(m, "X", 8, 1)
        for i in m.tiles(8, 2):
            for j in m.tiles(8, 2, seen=tiles.row(i)):
                for k in m.tiles(8, 2, seen=tiles.col(j)):
                    for l in m.tiles(8, 2, seen=tiles.row(k)):
                        m.load(X[l])

    keep = BITTEN.dense().astype(int)
    assert same_in_every_mode(listing).arrays["X"].reads == 2 * (keep @ keep.T @ keep).sum()


@in_every_mode
@pytest.mark.parametrize("seen", [[0, 1], (0, 1), "all", np.arange(3), range(3)])
def test_a_loop_is_limited_by_runs(mode: Mode, seen: Runs) -> None:
    with pytest.raises(BadInput, match=r"seen must be runs of tiles, as from grid.row\(i\)"):
        Machine(mode=mode).tiles(8, 2, seen=seen)


# bodies that depend on their place


def by_counter(deed: Callable[[Machine, Hbm], object]) -> Listing:
    """A listing that does something more on the third tile, told from the others by a counter in its closure."""

    def listing(m: Machine) -> None:
        Y = m.output("Y", (40, 4))
        m.store(Y[:], m.full(0.0, 40, 4, name="zero"))
        for turn, i in enumerate(m.tiles(40, 4)):
            m.store(Y[i], m.full(0.0, i.size, 4, name="y"))
            if turn == 2:
                deed(m, Y)

    return listing


def half(m: Machine, Y: Hbm) -> None:
    for j in m.tiles(40, 4, seen=Runs(np.array([0]), np.array([5]), np.array([0]))):
        m.full(0.0, j.size, 1, name="x")


DEEDS: dict[str, Callable[[Machine, Hbm], object]] = {
    "a load": lambda m, Y: m.load(Y[:]),
    "a store": lambda m, Y: m.store(Y[:], m.full(0.0, 40, 4, name="y")),
    "room": lambda m, Y: m.full(0.0, 1, 1, name="y"),
    "a product": lambda m, Y: m.full(0.0, 1, 1, name="y") @ m.full(0.0, 1, 1, name="y"),
    "a loop": lambda m, Y: [1 for _ in m.tiles(3, 3)],
    "half a loop": half,
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS.keys())
@pytest.mark.parametrize("mode", MODES)
def test_a_body_that_counts_its_turns_is_found_out(mode: Mode, deed: Callable[[Machine, Hbm], object]) -> None:
    message = (
        r"two tiles of one kind \(4 rows, loop depth 1\) did different things .*; "
        "a body may depend only on its tile's size, full, first and last"
    )
    with pytest.raises(KindMismatch, match=message):
        run(by_counter(deed), mode, check=100)


@in_every_mode
def test_what_differs_is_named(mode: Mode) -> None:
    def listing(m: Machine) -> None:
        for i in m.tiles(40, 4):
            x = m.full(0.0, 2, 3 if i.start else 5, name="x")
            exp(x)

    with pytest.raises(KindMismatch, match=r"at step 1: alloc x 2 5 against alloc x 2 3;"):
        run(listing, mode, check=5)


SUBTLE: dict[str, Callable[[Machine, Hbm, bool], object]] = {
    "an initialising store": lambda m, Y, odd: m.store(Y[:], m.full(0.0, 40, 4, name="y"), init=odd),
    "a loop over some tiles": lambda m, Y, odd: half(m, Y) if odd else [m.full(0.0, j.size, 1, name="x") for j in m.tiles(40, 4)],
    "the size of an unnamed value": lambda m, Y, odd: m.full(0.0, 4, 4, name="y").rowsum() if odd else m.full(0.0, 4, 4, name="y") + 1.0,
    "an exponential for a sum": lambda m, Y, odd: exp(m.full(0.0, 4, 4, name="y")) if odd else m.full(0.0, 4, 4, name="y") + 1.0,
    "the array": lambda m, Y, odd: m.load(Y[:]) if odd else m.load(m.arrays["X"][:]),
    "the order": lambda m, Y, odd: [m.load(Z[:]) for Z in ((Y, m.arrays["X"]) if odd else (m.arrays["X"], Y))],
}


@pytest.mark.parametrize("deed", SUBTLE.values(), ids=SUBTLE.keys())
def test_bodies_that_differ_subtly_are_found_out(deed: Callable[[Machine, Hbm, bool], object]) -> None:
    def listing(m: Machine) -> None:
        ones(m, "X", 40, 4)
        Y = m.output("Y", (40, 4))
        for turn, i in enumerate(m.tiles(40, 4)):
            m.store(Y[i], m.full(0.0, i.size, 4, name="y"))
            deed(m, Y, turn == 0)

    with pytest.raises(KindMismatch, match="did different things"):
        run(listing, "count", check=5)


@pytest.mark.parametrize("check", [1, 2, 5])
def test_the_last_of_a_kind_is_always_looked_at(check: int) -> None:
    def listing(m: Machine) -> None:
        X = ones(m, "X", 1000, 1)
        for i in m.tiles(1000, 10):
            if i.start == 980:  # the tile at 990 ends the axis, and is a kind of its own
                m.load(X[i])

    with pytest.raises(KindMismatch, match="nothing more"):
        run(listing, "count", check=check)


def test_a_difference_deep_inside_is_found() -> None:
    def listing(m: Machine) -> None:
        X, turn = ones(m, "X", 12, 1), 0
        for _ in m.tiles(12, 3):
            for j in m.tiles(12, 2):
                turn += 1
                for _ in m.tiles(12, 4):
                    if turn == 8:
                        m.load(X[j])

    with pytest.raises(KindMismatch, match="loop depth 3"):
        run(listing, "count", check=100)


def test_without_check_nothing_is_compared() -> None:
    assert run(by_counter(DEEDS["a load"]), "count").arrays["Y"].reads == 0
    assert run(by_counter(DEEDS["a load"]), "execute").arrays["Y"].reads == 160


def test_tiles_looked_at_only_to_be_compared_count_nothing() -> None:
    listing = by_counter(lambda m, Y: None)
    assert run(listing, "count", check=7) == run(listing, "count") == run(listing, "execute")


def test_checking_an_enormous_axis_looks_at_a_few_of_its_tiles() -> None:
    m = Machine(mode="count", check=3)
    assert len(list(m.tiles(10**15, 2))) == 1 + 3 + 1
