"""The machine cannot be talked round: attention listings that cheat, each by one trick, and the remedy that each is told."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import get_args

import numpy as np
import pytest

from iosim.core.errors import BadInput, DeadValue, IosimError, LoopMisuse, NotWritten, RegisterOverflow, SramOverflow
from iosim.memory import Block, Hbm, Machine, Mode, OnChip, Tile, Value, exp, maximum, where

N, D, B = 10, 2, 4
MODES: tuple[Mode, ...] = get_args(Mode)
Listing = Callable[[Machine, Hbm, Hbm, Hbm, Hbm], object]
RNG = np.random.default_rng(0)
INPUTS = {name: RNG.standard_normal((N, D)) for name in "QKV"}


def run(listing: Listing, mode: Mode, sram: int | None = None, registers: int | None = None) -> Machine:
    m = Machine(sram, mode=mode, registers=registers)
    Q, K, V = (m.input(name, (N, D), values) for name, values in INPUTS.items())
    listing(m, Q, K, V, m.output("O", (N, D)))
    m.finish()
    return m


def state(m: Machine, i: Tile) -> tuple[Block, Block, Block]:
    """O_i, l_i and m_i of a query tile that has seen no key."""
    return m.full(0.0, i.size, D, name="O_i"), m.full(0.0, i.size, 1, name="l_i"), m.full(-1e30, i.size, 1, name="m_i")


def meet(m: Machine, q: OnChip, k: OnChip, v: OnChip, o: Block, l_i: Block, m_i: Block) -> None:
    """One step of the online softmax: a query tile meets a key tile."""
    s = m.let(q @ k.T, "S_ij")
    m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
    s[...] = exp(s - m_new)
    alpha = m.let(exp(m_i - m_new), "alpha")
    l_i *= alpha
    l_i += s.rowsum()
    o *= alpha
    o += s @ v
    m_i[...] = m_new


def honest(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        for j in m.tiles(N, B):
            meet(m, q, m.load(K[j]), m.load(V[j]), o, l_i, m_i)
        m.store(O[i], o / l_i)


@pytest.mark.parametrize("mode", MODES)
def test_the_honest_listing_passes(mode: Mode) -> None:
    m = run(honest, mode, sram=64)
    assert [m.arrays[name].reads for name in "QKV"] == [N * D, 3 * N * D, 3 * N * D]
    if mode == "execute":
        p = np.exp(INPUTS["Q"] @ INPUTS["K"].T)
        assert np.allclose(m.arrays["O"].data, p / p.sum(axis=1, keepdims=True) @ INPUTS["V"], rtol=1e-5)


# keeping K and V on chip


def keep_blocks(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """K_j and V_j stay in a dictionary after the first query tile."""
    cache: dict[int, tuple[Block, Block]] = {}
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        for j in m.tiles(N, B):
            if j.start not in cache:
                cache[j.start] = m.load(K[j]), m.load(V[j])
            meet(m, q, *cache[j.start], o, l_i, m_i)
        m.store(O[i], o / l_i)


def keep_values(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Unnamed copies of K_j and V_j take no room and stay in a list."""
    cache: list[tuple[Value, Value]] = [(1.0 * m.load(K[j]), 1.0 * m.load(V[j])) for j in m.tiles(N, B)]
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        for k, v in cache:
            meet(m, q, k, v, o, l_i, m_i)
        m.store(O[i], o / l_i)


def keep_transposes(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A transpose is only an access pattern, so K is kept as one."""
    cache = [m.load(K[j]).T for j in m.tiles(N, B)]
    for i in m.tiles(N, B):
        m.store(O[i], (m.load(Q[i]) @ cache[0]).rowmax() * m.load(Q[i]))


def keep_the_whole(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """K and V are loaded once, whole, outside the loop."""
    k, v = m.load(K[:]), m.load(V[:])
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        meet(m, q, k, v, o, l_i, m_i)
        m.store(O[i], o / l_i)


def keep_in_a_small_block(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """One row has room; a whole tile is written into it."""
    k = m.full(0.0, 1, D, name="cache")
    for j in m.tiles(N, B):
        k[...] = m.load(K[j])


def grow_a_small_block(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """One row has room; adding a tile broadcasts it to the tile's size."""
    k = m.full(0.0, 1, D, name="cache")
    for j in m.tiles(N, B):
        k += m.load(K[j])


def write_into_a_broadcast(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Row plus column is an unnamed matrix of K's size; K is written into it."""
    cache = m.full(0.0, N, 1, name="column") + m.full(0.0, 1, D, name="row")
    cache[...] = m.load(K[:])


def update_a_broadcast(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The same, updated in place."""
    cache = m.full(0.0, N, 1, name="column") + m.full(0.0, 1, D, name="row")
    cache += m.load(K[:])


def copy_blocks(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Python's own copy asks the machine for no room."""
    k = m.full(0.0, B, D, name="K_j")
    for j in m.tiles(N, B):
        k[...] = m.load(K[j])
        copy.copy(k)


def copy_values(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A copy of an unnamed value can be used once more."""
    for i in m.tiles(N, B):
        p = exp(m.load(Q[i]))
        m.store(O[i], p * copy.deepcopy(p))


def hide_behind_transposes(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The transpose holds what its block held before that was overwritten."""
    k = m.full(0.0, N, D, name="K")
    old = k.T
    k[...] = m.load(K[:])
    m.store(O[:], old.T)


# using a value twice


def use_twice(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """P_ij takes no room, and is summed and multiplied."""
    for i in m.tiles(N, B):
        q, (o, l_i, _) = m.load(Q[i]), state(m, i)
        for j in m.tiles(N, B):
            p = exp(q @ m.load(K[j]).T)
            l_i += p.rowsum()
            o += p @ m.load(V[j])
        m.store(O[i], o / l_i)


def use_in_a_nested_loop(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """2 Q_i takes no room, and is used for every key tile."""
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = 2.0 * m.load(Q[i]), state(m, i)
        for j in m.tiles(N, B):
            meet(m, q, m.load(K[j]), m.load(V[j]), o, l_i, m_i)
        m.store(O[i], o / l_i)


def use_too_late(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Q_i is kept, unnamed, over the loop and added to the output behind it."""
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        again = 1.0 * q
        for j in m.tiles(N, B):
            meet(m, q, m.load(K[j]), m.load(V[j]), o, l_i, m_i)
        m.store(O[i], o / l_i + again)


def update_unnamed(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """O_i is carried in an unnamed value that is updated in place."""
    for i in m.tiles(N, B):
        o = 0.0 * m.load(Q[i])
        o += m.load(Q[i])
        m.store(O[i], o)


def keep_scores_in_registers(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The whole of S, unnamed: it costs no SRAM, only more registers than there are."""
    m.store(O[:], exp(m.load(Q[:]) @ m.load(K[:]).T) @ m.load(V[:]))


# loops


def stop_early(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """One key tile is enough."""
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        for j in m.tiles(N, B):
            meet(m, q, m.load(K[j]), m.load(V[j]), o, l_i, m_i)
            break
        m.store(O[i], o / l_i)


def stop_outside(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The outputs are all written in the first turn."""
    for _ in m.tiles(N, B):
        m.store(O[:], m.load(Q[:]))
        break


def return_from_inside(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The same by return."""
    for _ in m.tiles(N, N):
        m.store(O[:], m.load(Q[:]))
        return


def list_tiles(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The key tiles are listed once and walked in Python's loops, in which nothing is released and nothing dies."""
    keys = list(m.tiles(N, B))
    for i in m.tiles(N, B):
        q, (o, l_i, m_i) = m.load(Q[i]), state(m, i)
        for j in keys:
            meet(m, q, m.load(K[j]), m.load(V[j]), o, l_i, m_i)
        m.store(O[i], o / l_i)


def zip_tiles(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Two loops in one."""
    for i, _ in zip(m.tiles(N, B), m.tiles(N, B), strict=True):
        m.store(O[i], m.load(Q[i]))


def loop_again(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """One loop over keys is made for all query tiles."""
    keys = m.tiles(N, B)
    for i in m.tiles(N, B):
        for j in keys:
            m.load(K[j])
        m.store(O[i], m.load(Q[i]))


def borrow_tiles(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Another machine counts the turns, so that this one multiplies nothing."""
    for i in Machine(mode=m.mode).tiles(N, B):
        m.store(O[i], m.load(Q[i]))


def keep_regions(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Addresses are listed, to be loaded where no loop stands."""
    for region in [K[j] for j in m.tiles(N, B)]:
        m.load(region)


def copy_tiles(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A copy of a tile does not end with its loop."""
    for j in [copy.copy(j) for j in m.tiles(N, B)]:
        m.load(K[j])


# moving words uncounted


def copy_arrays(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A copy of an HBM array would have counters of its own."""
    for i in m.tiles(N, B):
        m.store(O[i], m.load(copy.copy(Q)[i]))


def read_arrays(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """NumPy reads whatever can be read."""
    m.store(O[:], m.full(0.0, N, D, name="O") * np.asarray(Q))  # type: ignore[arg-type]


def compute_outside(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """NumPy's own functions on what is on chip."""
    for i in m.tiles(N, B):
        m.store(O[i], np.exp(m.load(Q[i])))  # type: ignore[arg-type]


def bring_numbers(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A block is filled with an array instead of a number."""
    m.store(O[:], m.full(INPUTS["Q"], N, D, name="O"))  # type: ignore[arg-type]


def bring_numbers_as_a_fallback(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A condition that never holds falls back to an array."""
    zeros = m.full(0.0, N, D, name="zeros")
    m.store(O[:], where(zeros, zeros, INPUTS["Q"]))  # type: ignore[arg-type]


def bring_numbers_as_operands(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """An array is an operand."""
    m.store(O[:], m.full(0.0, N, D, name="zeros") + INPUTS["Q"])  # type: ignore[arg-type]


def look_at_numbers(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """What is on chip is turned into Python numbers, which take no room."""
    for i in m.tiles(N, B):
        m.store(O[i], float(m.load(Q[i]).rowmax()) * m.load(Q[i]))


def branch_on_numbers(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """A tile that changes nothing is skipped."""
    for i in m.tiles(N, B):
        q = m.load(Q[i])
        m.store(O[i], q if q.rowmax() > 0.0 else 0.0 * q)


# writing less


def forget_the_last_tile(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """The short last tile is not worth the trouble."""
    for i in m.tiles(N, B):
        if i.size == B:
            m.store(O[i], m.load(Q[i]))


def round_down(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Only whole tiles are visited, each written twice, so that the words would suffice."""
    for _ in m.tiles(2, 1):
        for i in m.tiles(N // B * B, B):
            m.store(O[i], m.load(Q[i]))


def read_the_first_rows_again(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """Tiles of another axis, as long as a tile, in place of tiles inside that tile."""
    for i in m.tiles(N, B):
        for j in m.tiles(i.size, 2):
            m.store(O[j], m.load(Q[j]))


def overwrite_an_input(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm) -> None:
    """O takes the place of Q."""
    for i in m.tiles(N, B):
        m.store(Q[i], m.load(Q[i]))


ROOM = r"give it room with m.let\(value, name\)"
TO_THE_END = "let every loop run to its end"
ONLY_NUMBERS = r"use blocks, values and Python numbers, and m.load for arrays"
TRICKS: dict[Listing, tuple[type[IosimError], str]] = {
    keep_blocks: (DeadValue, "load it again, or carry its value in a block made outside the loop"),
    keep_values: (DeadValue, f"used after a tile began or ended: {ROOM}"),
    keep_transposes: (DeadValue, f"used after a tile began or ended: {ROOM}"),
    keep_the_whole: (SramOverflow, r"V\(10, 2\) needs 20 words but 10 of 30 are free; resident: K\(10, 2\)"),
    keep_in_a_small_block: (BadInput, r"cannot write K\(4, 2\) into cache\(1, 2\)"),
    grow_a_small_block: (BadInput, r"cannot update cache\(1, 2\) in place with K\(4, 2\); the result has another shape"),
    write_into_a_broadcast: (DeadValue, f"was assigned to, but it has no room: {ROOM}"),
    update_a_broadcast: (DeadValue, f"was assigned to, but it has no room: {ROOM}"),
    copy_blocks: (BadInput, "m.let copies"),
    copy_values: (BadInput, "m.let copies"),
    hide_behind_transposes: (DeadValue, r"give the transpose room with m.let\(x.T, name\)"),
    use_twice: (DeadValue, f"used twice: {ROOM}"),
    use_in_a_nested_loop: (DeadValue, f"used after a tile began or ended: {ROOM}"),
    use_too_late: (DeadValue, f"used after a tile began or ended: {ROOM}"),
    update_unnamed: (DeadValue, f"was assigned to, but it has no room: {ROOM}"),
    keep_scores_in_registers: (RegisterOverflow, r"give some of them room with m.let\(value, name\)"),
    stop_early: (LoopMisuse, TO_THE_END),
    stop_outside: (LoopMisuse, TO_THE_END),
    return_from_inside: (LoopMisuse, TO_THE_END),
    list_tiles: (LoopMisuse, "never keep tiles in a list"),
    zip_tiles: (LoopMisuse, "write nested loops as nested for statements"),
    loop_again: (LoopMisuse, r"call m.tiles\(...\) again in the for statement"),
    borrow_tiles: (BadInput, "two machines never meet"),
    keep_regions: (LoopMisuse, "use a tile inside its own loop body"),
    copy_tiles: (LoopMisuse, "use it inside its own loop body"),
    copy_arrays: (BadInput, "load it tile by tile"),
    read_arrays: (BadInput, "load it tile by tile"),
    compute_outside: (BadInput, "the functions of iosim.memory"),
    bring_numbers: (BadInput, ONLY_NUMBERS),
    bring_numbers_as_a_fallback: (BadInput, ONLY_NUMBERS),
    bring_numbers_as_operands: (BadInput, ONLY_NUMBERS),
    look_at_numbers: (BadInput, "its numbers leave only through m.store"),
    branch_on_numbers: (BadInput, "branch on it"),
    forget_the_last_tile: (NotWritten, "was never written; store every tile of it"),
    round_down: (BadInput, r"loop over m.tiles\(10, ...\)"),
    read_the_first_rows_again: (BadInput, r"inside a tile i of that over i.tiles\(2\)"),
    overwrite_an_input: (BadInput, r"declare an output with m.output\(name, shape\)"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__)
def test_a_trick_raises_and_names_the_remedy(mode: Mode, trick: Listing) -> None:
    error, remedy = TRICKS[trick]
    sram, registers = (30, None) if error is SramOverflow else (None, 50)
    with pytest.raises(error, match=remedy):
        run(trick, mode, sram, registers)
