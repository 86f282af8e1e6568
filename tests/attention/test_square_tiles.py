"""Attention for a small SRAM in square tiles, forward and backward: words, room, values, and where it beats the flash kernels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import Attention, BadInput, SramOverflow, predict, problem_of, simulate
from iosim.attention.kernels.small_cache.products import inner
from iosim.attention.plan import make_plan
from iosim.core.masks import BlockMask
from iosim.core.masks.runs import Runs
from iosim.core.options import Options
from iosim.core.problem import Blocks
from iosim.core.units import Capacity, capacity
from iosim.predict.bounds import least_words
from iosim_reference import attention, gradients

FORWARD, BACKWARD = "square-tiles", "square-tiles-backward"
SQUARE, LINES = Options(), Options(depth="one")
DEPTHS = {"square": SQUARE, "one": LINES}
depths = pytest.mark.parametrize("depth", DEPTHS)
sizes = st.integers(1, 200)
LONG = Attention(4096, 64)
N2 = 4096**2


def moved(kernel: str, problem: Attention, blocks: tuple[int, int], depth: str = "square") -> dict[str, tuple[int, int]]:
    """Reads and writes of each array, counted, and the same on every other road."""
    found = simulate(kernel, problem, sram=10**9, blocks=blocks, replay=True, check=20, depth=depth)
    assert found.agreed == {"executed": True, "predicted": True, "replayed": True}
    assert found.broken == ()
    return {name: (array.reads, array.writes) for name, array in found.arrays.items()}


# words


@depths
def test_words_of_square_tiles(depth: str) -> None:
    """N = 32, d = 8 in tiles of 4 x 4: 8 tiles of rows, two of columns. Printed: 3 N d c(N) + N^2 (1 + c(d)) + N d + 2 N, safe 2 N more."""
    found = moved(FORWARD, Attention(32, 8), (4, 4), depth=depth)
    assert found == {
        "Q": (8 * 256, 0), "K": (8 * 256, 0), "V": (8 * 256, 0), "S": (2 * 1024, 1024), "l": (32, 32), "m": (32, 32), "O": (0, 256),
    }  # fmt: skip
    assert sum(map(sum, found.values())) == (3 * 256 * 8 + 1024 * 3 + 256 + 64) + 64


def test_words_of_square_tiles_backward() -> None:
    """The same tiles: S and dP made of two products, and dV, dQ and dK of three, of which each reads P or dS twice."""
    found = moved(BACKWARD, Attention(32, 8), (4, 4))
    assert found == {
        "Q": (2 * 8 * 256, 0), "K": (2 * 8 * 256, 0), "V": (8 * 256, 0), "O": (256, 0), "l": (32, 0), "m": (32, 0),
        "dO": (256 + 2 * 8 * 256, 0), "dQ": (0, 256), "dK": (0, 256), "dV": (0, 256), "D": (32, 32),
        "P": (1024 + 2 * 1024, 1024), "dS": (4 * 1024, 1024),
    }  # fmt: skip
    assert sum(map(sum, found.values())) == 7 * 256 * 8 + 3 * 1024 * (1 + 2) + 5 * 256 + 4 * 32
    lines = moved(BACKWARD, Attention(32, 8), (4, 4), depth="one")
    assert lines.pop("dS") == (5 * 1024, 2 * 1024)  # where dP waits
    assert lines == {name: words for name, words in found.items() if name != "dS"}


def test_ragged_tiles_of_unequal_sides() -> None:
    """N_q = 5, N_k = 7, d = 4, d_v = 3 in 2 x 3: 3 x 3 tiles, two tiles of columns of Q and K and one of V."""
    found = moved(FORWARD, Attention(5, 4, nk=7, dv=3), (2, 3))
    assert found == {"Q": (60, 0), "K": (84, 0), "V": (63, 0), "S": (35, 35), "l": (5, 5), "m": (5, 5), "O": (0, 15)}
    assert moved(FORWARD, Attention(5, 4, nk=7, dv=3), (2, 2))["S"] == (70, 35)


@given(n=sizes, nk=sizes, d=sizes, dv=sizes, br=sizes, bc=sizes)
def test_words_are_the_closed_forms_of_the_listings(n: int, nk: int, d: int, dv: int, br: int, bc: int) -> None:
    tr, tc, wide = -(-n // br), -(-nk // bc), min(bc, nk)
    given_, made = -(-d // wide), -(-dv // wide)
    asked: dict[str, Any] = {"n": n, "nk": nk, "d": d, "dv": dv, "Br": br, "Bc": bc}
    forward = n * nk * (1 + made) + tc * n * d + tr * nk * (d + dv) + n * dv + 4 * n
    backward = n * nk * (3 + made + 2 * given_) + 2 * tc * n * (d + dv) + tr * nk * (2 * d + dv) + n * (d + 2 * dv) + nk * (d + dv) + 4 * n
    assert predict.dense_words(FORWARD, **asked) == predict.dense_words(FORWARD, **asked, options=LINES) == forward
    assert predict.dense_words(BACKWARD, **asked) == backward
    assert predict.dense_words(BACKWARD, **asked, options=LINES) == backward + 2 * n * nk


@depths
def test_hidden_tiles_are_neither_written_nor_read(depth: str) -> None:
    """Causal, N = 8 in tiles of 2 x 2: 10 of 16 tiles, whose 40 pairs and 20 rows of either side are all that moves of S, Q, K and V."""
    found = moved(FORWARD, Attention(8, 4, causal=True), (2, 2), depth=depth)
    assert found == {"Q": (80, 0), "K": (80, 0), "V": (80, 0), "S": (80, 40), "l": (8, 8), "m": (8, 8), "O": (0, 32)}
    back = moved(BACKWARD, Attention(8, 4, causal=True), (2, 2), depth=depth)
    assert back["P"] == (40 + 2 * 40, 40)
    assert back["dS"] == ((4 * 40, 40) if depth == "square" else (5 * 40, 2 * 40))
    whole = simulate(FORWARD, Attention(8, 4, causal=True), sram=10**4, blocks=(2, 2), depth=depth, skip=False)
    assert whole.sound
    assert (whole.arrays["S"].reads, whole.arrays["S"].writes) == (2 * 64, 64)


@depths
def test_a_mask_is_read_once_where_a_tile_is_partly_hidden(depth: str) -> None:
    mask = np.tri(8, dtype=bool)
    for kernel in (FORWARD, BACKWARD):
        assert moved(kernel, Attention(8, 4, mask=mask), (2, 2), depth=depth)["mask"] == (4 * 4, 0)


def test_single_rows_are_those_of_the_tiles() -> None:
    runs = Runs(np.array([0, 4]), np.array([2, 6]), np.array([1, 0]), members=3, owner="a tile")
    height, rows = inner(runs, 5, 28, "one")
    assert (height, list(rows), rows.members, rows.owner) == (1, [(0, 10, 1), (20, 28, 0)], 3, "a tile")
    assert inner(runs, 5, 28, "square") == (5, runs)


# the leading constants


def ratio(kernel: str, sram: int, rule: Any, depth: str) -> float:
    """Words over N^2 d / sqrt(M) where that outweighs N^2, counted."""
    n, d = 2**22, 2**20
    found = simulate(kernel, Attention(n, d), sram=sram, blocks=rule, execute=False, replay=False, depth=depth)
    assert found.agreed == {"predicted": True}
    return math.sqrt(sram) * found.total / (n * n * d)


@pytest.mark.parametrize(
    ("kernel", "depth", "rule", "constant"),
    [
        (FORWARD, "square", "paper", 8.0),
        (FORWARD, "square", "fit", 4 * 3**0.5),
        (FORWARD, "one", "fit", 4.0),
        (BACKWARD, "square", "paper", 20.0),
        (BACKWARD, "one", "fit", 10.0),
    ],
)
def test_leading_constants(kernel: str, depth: str, rule: str, constant: float) -> None:
    """They are approached from above: N^2 weighs sqrt(M) / d, and what stands beside the tile makes it narrower by a few words."""
    far, near = (ratio(kernel, sram, rule, depth) / constant for sram in (2**8, 2**16))
    if rule == "paper":
        assert 1 < far < near < 1.0001
    else:
        assert 1 < near < 1.013 < far < 1.2


# room


@depths
def test_residents(depth: str) -> None:
    problem, b = Attention(1024, 512), 64
    needed = 3 * b * b + 2 * b if depth == "square" else b * b + 4 * b
    for kernel in (FORWARD, BACKWARD):
        assert predict.residents(kernel, problem, Blocks(b, b), DEPTHS[depth]) == needed
    assert needed <= 4 * b * b


def test_a_partial_tile_holds_its_mask_beside_its_scores() -> None:
    half = Attention(64, 512, mask=np.tri(64, dtype=bool))
    assert predict.residents(FORWARD, half, Blocks(16, 16), LINES) == 2 * 16 * 16 + 2 * 16 + 16  # and l, m and m_new
    assert predict.residents(FORWARD, half, Blocks(16, 16)) == 3 * 16 * 16 + 2 * 16


@pytest.mark.parametrize(
    ("kernel", "d", "dv", "dtype", "room"),
    [
        (FORWARD, 3, 5, "float32", 3 * (2 + 2)),  # l and m beside two columns of O
        (BACKWARD, 1, 4, "float32", 3 * (1 + 2 * 2)),  # D beside two columns of dO and O
        (BACKWARD, 1, 4, "float16", 3 * (4 + 2 * 2 * 2)),
        (BACKWARD, 1, 1, "float8_e4m3fn", 3 * 2 * 4),  # l and m, more than D beside a column of one byte each
    ],
)
def test_rows_that_attend_to_nothing_take_room_too(kernel: str, d: int, dv: int, dtype: str, room: int) -> None:
    problem = Attention(6, d, nk=4, dv=dv, dtype=dtype, mask=np.zeros((6, 4), dtype=bool))
    sram: Capacity = Capacity(10**4, "words" if dtype == "float32" else "bytes")
    found = simulate(kernel, problem, sram=sram, blocks=(3, 2))
    assert found.agreed == {"executed": True, "predicted": True, "replayed": True}
    assert found.peak_sram == predict.residents(kernel, problem, Blocks(3, 2), SQUARE, sram.unit) == room


def test_rules_for_blocks() -> None:
    for kernel in (FORWARD, BACKWARD):
        assert predict.choose_blocks(kernel, LONG, Capacity(1023), "paper") == Blocks(15, 15)
        assert predict.choose_blocks(kernel, LONG, Capacity(1024), "paper") == Blocks(16, 16)
        assert predict.choose_blocks(kernel, LONG, capacity("4KiB"), "paper") == Blocks(16, 16)
        assert predict.choose_blocks(kernel, LONG, Capacity(1024), "fit") == Blocks(18, 18)
        assert predict.choose_blocks(kernel, LONG, Capacity(1024), "fit", LINES) == Blocks(30, 30)
        assert predict.choose_blocks(kernel, Attention(10, 64, nk=4096), Capacity(1024), "paper") == Blocks(10, 16)
        with pytest.raises(BadInput, match="the paper's blocks need M >= 4 words but the SRAM holds 3"):
            predict.choose_blocks(kernel, LONG, Capacity(3), "paper")
        with pytest.raises(BadInput, match=f"no blocks of {kernel} fit in 4 words; the smallest SRAM for any blocks is 5 words"):
            predict.choose_blocks(kernel, LONG, Capacity(4), "fit")


def test_the_papers_blocks_fit_but_for_one_word_in_four() -> None:
    for sram in range(4, 200):
        found = simulate(FORWARD, Attention(64, 32), sram=sram, blocks="paper", execute=False, replay=False)
        assert found.overflow == (1 if sram == 4 else 0)  # l and m where the print has one sum
    with pytest.raises(SramOverflow, match=r"Br <= |blocks 2x2 would fit|Bc <= "):
        simulate(FORWARD, Attention(64, 32), sram=20, blocks=(3, 3))


@pytest.mark.parametrize(("kernel", "d", "dv"), [(FORWARD, 8, 60), (BACKWARD, 8, 60), (BACKWARD, 60, 8)])
def test_best_blocks_cut_columns_into_as_few_tiles_as_they_can(kernel: str, d: int, dv: int) -> None:
    """100 keys in two tiles take 50 of them each, but 60 columns in one tile take 60."""
    problem = Attention(6, d, nk=100, dv=dv)
    room = predict.residents(kernel, problem, Blocks(6, 60))
    assert predict.choose_blocks(kernel, problem, Capacity(room), "best") == Blocks(6, 60)


@pytest.mark.parametrize("kernel", [FORWARD, BACKWARD])
@depths
def test_best_moves_no_more_than_fit(kernel: str, depth: str) -> None:
    for sram in (5, 17, 100, 1000, 5000):
        best, fit = (
            sum(
                term.total for term in predict.terms(kernel, LONG, predict.choose_blocks(kernel, LONG, Capacity(sram), rule, DEPTHS[depth]))
            )
            for rule in ("best", "fit")
        )
        assert best <= fit


# against the flash kernels


def words(kernel: str, sram: int, rule: Any = "best", options: Options = SQUARE, problem: Attention = LONG) -> int:
    blocks = predict.choose_blocks(kernel, problem, Capacity(sram), rule, options)
    return int(sum(term.total for term in predict.terms(kernel, problem, blocks, options)))


def test_in_units_of_n_squared() -> None:
    """N = 4096, d = 64, the paper's blocks, for M / d^2 = 1/16, 1/4, 1, 4, 16, 64: worked out by hand from Algorithm 1."""
    found = [words(FORWARD, 4096 * 4**power // 16, "paper") / N2 for power in range(6)]
    assert [round(value, 1) for value in found] == [33.0, 17.0, 9.0, 5.0, 3.5, 2.8]


@pytest.mark.parametrize("flash", ["flash", "flash2"])
@depths
def test_it_wins_below_d_squared_and_loses_above(flash: str, depth: str) -> None:
    """With the best blocks of either, N = 4096, d = 64; below 5 d words or so the flash kernels do not fit at all."""
    assert predict.smallest_sram(flash, LONG) > 4 * 64 > 40 * predict.smallest_sram(FORWARD, LONG, DEPTHS[depth])
    for sram in (300, 512, 1024, 1536):
        assert words(FORWARD, sram, options=DEPTHS[depth]) < words(flash, sram)
    for sram in (8192, 16384, 65536):
        assert words(FORWARD, sram, options=DEPTHS[depth]) > words(flash, sram)


def test_where_the_best_blocks_of_either_cross() -> None:
    for flash, depth, last, first in (("flash", "square", 2973, 2974), ("flash2", "square", 1590, 1591), ("flash2", "one", 3186, 3187)):
        assert words(FORWARD, last, options=DEPTHS[depth]) < words(flash, last)
        assert words(FORWARD, first, options=DEPTHS[depth]) > words(flash, first)


def test_with_the_papers_blocks_the_lead_changes_three_times() -> None:
    """12 x^2 = 8 x + 1, x = d / sqrt(M), has its solution at M = 1.67 d^2; exactly it is 1.50 to 1.56 d^2."""
    sram = np.arange(4 * 64, 3 * 64**2)
    side, cols = np.floor(np.sqrt(sram // 4)).astype(np.int64), -(-sram // (4 * 64))
    ours = predict.dense_words(FORWARD, n=4096, d=64, Br=side, Bc=side)
    loses = np.asarray(ours > predict.dense_words("flash", n=4096, d=64, Br=np.minimum(cols, 64), Bc=cols))
    assert (sram[1:][np.diff(loses)]).tolist() == [6145, 6400, 6401]
    for place in (0, 1000, 6144 - 256, 9000):
        assert ours[place] == words(FORWARD, int(sram[place]), "paper")  # type: ignore[index]


@given(
    n=st.integers(1, 40), nk=st.integers(1, 40), d=st.integers(1, 40), dv=st.integers(1, 12), sram=st.integers(5, 3000),
    causal=st.booleans(), depth=st.sampled_from(["square", "one"]),
)  # fmt: skip
def test_no_bound_is_above_what_it_moves(n: int, nk: int, d: int, dv: int, sram: int, causal: bool, depth: str) -> None:
    problem = Attention(n, d, nk=nk, dv=dv, causal=causal)
    least = least_words(problem, sram)
    assert least is not None
    assert least <= words(FORWARD, sram, options=DEPTHS[depth], problem=problem)


# values


@depths
@pytest.mark.parametrize("sram", [5, 24, 100])
def test_it_runs_in_an_sram_far_below_d_squared(sram: int, depth: str) -> None:
    problem = Attention(8, 12, nk=9, dv=7, causal=True)
    for kernel in (FORWARD, BACKWARD):
        made = simulate(kernel, problem, sram=sram, blocks="best", overflow="error", depth=depth)
        assert made.sound
        assert made.peak_sram <= sram < 12 * 12


@depths
def test_logits_that_exp_could_not_hold(depth: str) -> None:
    """exp(S), as printed, is infinite from 89 on in float32; the same key twice shares the weight exactly."""
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((12, 6)).astype(np.float32) for _ in range(3))
    q *= 2000
    k[5] = k[4]
    made = simulate(FORWARD, problem_of(q, k, v, scale=1.0), sram=200, blocks=(4, 3), inputs=(q, k, v), depth=depth)
    assert made.sound
    assert made.output is not None
    assert np.isfinite(made.output.astype(float)).all()
    ties = simulate(
        FORWARD, problem_of(q[:2], k[4:6], v[4:6], scale=1.0), sram=99, blocks=(2, 1), inputs=(q[:2], k[4:6], v[4:6]), depth=depth
    )
    assert ties.output is not None
    np.testing.assert_array_equal(ties.output, np.broadcast_to((v[4] + v[5]) / 2, (2, 6)))


@depths
def test_rows_that_attend_to_nothing(depth: str) -> None:
    rng = np.random.default_rng(4)
    q, k, v, do = (rng.standard_normal((9, 5)) for _ in range(4))
    mask = rng.random((9, 9)) < 0.4
    mask[2], mask[6:], mask[:, 1] = False, False, False  # a row in a tile, a whole tile of rows, a key
    rules: dict[str, Any] = {"mask": mask}
    made = simulate(FORWARD, problem_of(q, k, v, **rules), sram=10**4, blocks=(3, 2), inputs=(q, k, v), depth=depth)
    assert made.sound
    assert made.output is not None
    assert made.lse is not None
    assert (made.output[2].astype(float) == 0).all()
    assert made.lse[6:].tolist() == [-np.inf] * 3
    np.testing.assert_allclose(made.output.astype(float), attention(q, k, v, **rules).output, atol=1e-12)
    back = simulate(BACKWARD, problem_of(q, k, v, **rules), sram=10**4, blocks=(3, 2), inputs=(q, k, v, do), depth=depth)
    assert back.sound
    exact = gradients(q, k, v, do, **rules)
    for name, right in (("dQ", exact.dq), ("dK", exact.dk), ("dV", exact.dv)):
        np.testing.assert_allclose(back.values[name].astype(float), right, atol=1e-12)
    assert (back.values["dK"][1].astype(float) == 0).all()


@depths
@pytest.mark.parametrize("kernel", [FORWARD, BACKWARD])
def test_block_masks_and_groups(kernel: str, depth: str) -> None:
    keep = np.random.default_rng(1).random((4, 5)) < 0.5
    blocks = BlockMask.from_dense(keep, 13, 22, 4, 5)
    rules: dict[str, Any] = {"block_mask": blocks, "heads": 4, "kv_heads": 2, "dropout": 0.3}
    made = simulate(kernel, Attention(13, 7, nk=22, dv=6, **rules), sram=10**4, blocks=(4, 5), replay=True, check=20, depth=depth)
    assert made.agreed == {"executed": True, "predicted": True, "replayed": True}
    assert made.broken == ()


def test_sums_over_single_rows_keep_the_bounds_of_tiles_of_one_row() -> None:
    problem = Attention(30, 8, nk=40)
    for kernel, single in ((FORWARD, (6, 1)), (BACKWARD, (1, 1))):
        lines, tiles = (
            simulate(kernel, problem, sram=10**4, blocks=blocks, depth=depth, replay=False).bounds
            for blocks, depth in (((6, 5), "one"), (single, "square"))
        )
        for name in {"O", "dQ", "dK", "dV"} & lines.keys():
            assert lines[name] == tiles[name]


@depths
def test_half_precision_is_as_near_as_that_of_standard_attention(depth: str) -> None:
    """S and P wait in HBM in the inputs' type in both."""
    problem = Attention(48, 32, dtype="float16")
    ours = simulate(FORWARD, problem, sram="64KiB", blocks=(16, 16), depth=depth).errors["O"]
    assert ours < 2 * simulate("standard", problem, sram="64KiB", blocks=(16, 16)).errors["O"] < 0.01


def test_a_plan_counts_the_turns_of_its_innermost_loop() -> None:
    """16 x 16 tiles of 4: two of columns of S and two of O in tiles, eight of S and 2 x 4 of O in lines."""
    tiles = [make_plan(FORWARD, Attention(64, 8), 10**4, (4, 4), None, {"depth": depth}).tiles for depth in ("square", "one")]
    assert tiles == [256 * (2 + 2), 256 * (8 + 2 * 4)]
    assert make_plan("flash2", Attention(64, 8), 10**4, (4, 4), None, {}).tiles == 256


# refusals


def test_what_it_lacks_is_refused_in_a_line() -> None:
    with pytest.raises(BadInput, match=r"^square-tiles has no option 'pack'; it has: skip, depth$"):
        simulate(FORWARD, LONG, sram=1000, pack=True)
    with pytest.raises(BadInput, match=r"^flash2 has no option 'depth'; it has: skip, pack$"):
        simulate("flash2", LONG, sram=1000, depth="one")
    with pytest.raises(BadInput, match=r"^depth must be 'square' or 'one', not 'two'$"):
        simulate(FORWARD, LONG, sram=1000, depth="two")
