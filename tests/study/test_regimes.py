"""The map over M: crossings are those that a scan of every M finds, and every number on it is counted and above its bound."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosim import BACKWARD, KERNELS, Attention, BadInput, BlockMask, predict, regime_map, simulate
from iosim.core.hardware import device
from iosim.core.options import Options
from iosim.core.problem import Blocks
from iosim.core.units import Capacity
from iosim.predict.over_m import FAR, crossovers, leaders
from iosim.predict.regimes import floors
from iosim.study.regimes import BlockRule, RegimeMap, known, places

RULES: tuple[BlockRule, ...] = ("best", "paper")
lengths = st.integers(1, 9)
widths = st.integers(1, 5)
dense = st.builds(lambda n, nk, d, dv: Attention(n, d, nk=nk, dv=dv), lengths, lengths, widths, widths)


def moved(kernel: str, problem: Attention, blocks: Blocks, options: Options) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


def least_by_trying(found: RegimeMap, place: int, most: int) -> list[int]:
    """What a rival moves at M = 0, 1, ... ``most``, by trying all pairs of blocks one by one; FAR where none fit."""
    rival, p = found.rivals[place], found.problem
    tries = []
    for variant in range(len(rival.variants)):
        options = Options(**rival.asked(variant))
        for rows, cols in np.ndindex(p.n, p.nk):
            blocks = Blocks(rows + 1, cols + 1)
            tries.append((predict.residents(rival.kernel, p, blocks, options), moved(rival.kernel, p, blocks, options)))
    return [min([words for room, words in tries if room <= m], default=FAR) for m in range(most + 1)]


def paper_by_asking(found: RegimeMap, place: int, most: int) -> list[int]:
    """What a rival moves at every M in the blocks that the printed rule gives there; FAR where it gives none."""
    rival, p = found.rivals[place], found.problem
    row = (2 if found.backward else 1) * p.nk  # the softmax of standard attention goes by rows where that much fits

    def at(m: int) -> int:
        variant = int(len(rival.variants) > 1 and m < row)
        options = Options(**rival.asked(variant))
        try:
            return moved(rival.kernel, p, predict.choose_blocks(rival.kernel, p, Capacity(m), "paper", options), options)
        except BadInput:
            return FAR

    return [FAR, *(at(m) for m in range(1, most + 1))]


def changes(first: list[int], second: list[int]) -> list[tuple[int, int]]:
    """Where the sign of the difference changes in two lists over M, where one of them fits; and the sign from there on."""
    signs = [(m, (a > b) - (a < b)) for m, (a, b) in enumerate(zip(first, second, strict=True)) if min(a, b) < FAR]
    return [(m, sign) for (_, before), (m, sign) in pairwise(signs) if sign != before]


def check_every_m(found: RegimeMap, scanned: list[list[int]]) -> None:
    most = len(scanned[0])
    for one, words in zip(found.curves, scanned, strict=True):
        assert one.words_at(np.arange(most)).tolist() == words
    for i, j in combinations(range(len(scanned)), 2):
        first, second = found.curves[i], found.curves[j]
        code = {first.name: -1, None: 0, second.name: 1}
        assert [(win.sram, code[win.name]) for win in crossovers(first, second) if win.sram < most] == changes(scanned[i], scanned[j])
    best = [min(range(len(scanned)), key=lambda place: scanned[place][m]) for m in range(most)]
    fits = [min(words[m] for words in scanned) < FAR for m in range(most)]
    turns = [(m, found.curves[best[m]].name) for m in range(1, most) if fits[m] and (not fits[m - 1] or best[m] != best[m - 1])]
    assert [tuple(win) for win in leaders(found.curves) if win.sram < most] == turns


@settings(max_examples=15)
@given(dense, st.booleans())
def test_crossovers_are_those_of_every_m_and_all_blocks(problem: Attention, backward: bool) -> None:
    found = regime_map(problem, sram=[1], backward=backward)
    most = max(int(one.sram[-1]) for one in found.curves) + 2
    check_every_m(found, [least_by_trying(found, place, most) for place in range(len(found.rivals))])


@settings(max_examples=15)
@given(dense, st.booleans())
def test_so_are_those_of_the_papers_blocks(problem: Attention, backward: bool) -> None:
    found = regime_map(problem, sram=[1], backward=backward, blocks="paper")
    most = min(150, max(int(one.sram[-1]) for one in found.curves) + 2)
    check_every_m(found, [paper_by_asking(found, place, most) for place in range(len(found.rivals))])


BEST = {
    (64, "square"): {"flash": [(2845, 1), (2876, -1), (2974, 1)], "flash2": [(1591, 1)]},
    (64, "one"): {"flash": [(5812, 1), (5826, -1), (5941, 1)], "flash2": [(3054, 1), (3146, -1), (3187, 1)]},
    (128, "square"): {"flash": [(10801, 1), (10913, -1), (11058, 1)], "flash2": [(5476, 1), (5512, -1), (5737, 1)]},
    (128, "one"): {"flash": [(23394, 1)], "flash2": [(11740, 1), (11918, -1), (12001, 1)]},
}
PAPER = {64: [(6145, 1), (6400, -1), (6401, 1)], 128: [(25089, 1)]}


@pytest.mark.parametrize(("d", "depth"), BEST)
def test_square_tiles_win_below_d_squared_and_flash_above(d: int, depth: str) -> None:
    found = regime_map(Attention(4096, d), sram=[d], depth=depth)
    tiles = "square-tiles" if depth == "square" else "square-tiles (one)"
    for other, wanted in BEST[d, depth].items():
        assert [(win.sram, 1 if win.name == other else -1) for win in found.crossovers(tiles, other)] == wanted
    printed = regime_map(Attention(4096, d), sram=[d], blocks="paper")
    assert [(win.sram, 1 if win.name == "flash" else -1) for win in printed.crossovers("square-tiles", "flash")] == PAPER[d]


@pytest.mark.parametrize("m", [m + step for m in (2845, 2876, 2974) for step in (-1, 0)])
def test_a_crossing_is_one_on_the_machine_too(m: int) -> None:
    problem = Attention(4096, 64)
    tiles, flash = (
        simulate(kernel, problem, sram=m, blocks="best", execute=False, replay=False).total for kernel in ("square-tiles", "flash")
    )
    assert (flash < tiles) == (m in (2845, 2875, 2974))


@pytest.mark.parametrize("backward", [False, True])
def test_the_rows_are_counted_and_above_their_bound(backward: bool) -> None:
    found = regime_map(Attention(300, 24, nk=200, dv=16), backward=backward)
    assert {row.regime.name for row in found.rows} == {"small cache", "middle", "everything fits"}
    for row in found.rows:
        assert row.counted
        assert row.rival is not None
        assert row.words is not None
        assert row.overflow == 0
        assert row.ratio == row.words / row.bound.words >= 1
        asked = [(one.kernel, one.asked(place)) for one in found.rivals for place in range(len(one.variants))]
        assert row.words == min(best_words(kernel, found.problem, row.sram, options) for kernel, options in asked)


def best_words(kernel: str, problem: Attention, m: int, options: dict[str, str]) -> int:
    """What the library's best blocks move; FAR where none fit."""
    try:
        return simulate(kernel, problem, sram=m, blocks="best", execute=False, replay=False, **options).total  # type: ignore[arg-type]  # no option is called overflow
    except BadInput:
        return FAR


@settings(max_examples=25)
@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 20), st.integers(1, 20), st.booleans(), st.sampled_from(RULES))
def test_no_row_is_below_its_bound(n: int, nk: int, d: int, dv: int, backward: bool, rule: BlockRule) -> None:
    found = regime_map(Attention(n, d, nk=nk, dv=dv), backward=backward, blocks=rule)
    for row in found.rows:
        assert row.bound.words == max(bound.words for bound in floors(found.problem, row.sram, backward=backward))
        assert row.words is None or rule == "paper" or row.words >= row.bound.words
        assert (row.words is None) == (row.sram < row.needs[1])


def test_a_capacity_below_every_minimum_says_what_is_needed() -> None:
    problem = Attention(64, 8)
    found = regime_map(problem, ["flash", "flash2"], sram=[1, 36, 37])
    least = {name: predict.smallest_sram(name, problem) for name in ("flash", "flash2")}
    assert found.least == least == {"flash": 41, "flash2": 37}
    assert [(row.words is None, row.needs) for row in found.rows] == [(True, ("flash2", 37))] * 2 + [(False, ("flash2", 37))]
    first = found.rows[0]
    assert (first.blocks, first.ratio, first.overflow) == (None, None, None)


@settings(max_examples=20)
@given(dense, st.booleans())
def test_the_map_ends_where_all_fit_and_the_last_has_taken_the_lead(problem: Attention, backward: bool) -> None:
    found = regime_map(problem, backward=backward)
    places, nd = [row.sram for row in found.rows], min(problem.n, problem.nk) * problem.d
    last = max(*found.least.values(), *(win.sram for win in found.leaders()))
    assert last <= places[-1]
    assert places[-1] < 2 * max(last, 4 * nd, problem.d**2)
    assert {win.sram for win in found.leaders() if win.sram >= places[0]} <= set(places)


def test_flash2_is_seen_on_the_smallest_map() -> None:
    assert [row.rival.name for row in regime_map(Attention(1, 1)).rows if row.rival][-2:] == ["flash2", "flash2"]
    assert regime_map(Attention(4096, 64)).rows[-1].sram == 4 * 4096 * 64  # as ever


def test_the_time_of_counting_goes_by_the_tiles_along_both_axes() -> None:
    row = regime_map(Attention(100, 8, nk=90), ["flash2"], sram=[200]).rows[0]
    assert row.blocks is not None
    assert row.tiles == -(-100 // row.blocks.rows) + -(-90 // row.blocks.cols)
    assert regime_map(Attention(100, 8), ["flash2"], sram=[2]).rows[0].tiles == 0


def test_the_softmax_of_standard_attention_is_the_better_one_at_every_m() -> None:
    found = regime_map(Attention(256, 16), ["standard"], sram=[255, 256])
    assert [row.plan.options.softmax for row in found.rows if row.plan] == ["streamed", "rows"]
    fixed = regime_map(Attention(256, 16), ["standard"], sram=[300], softmax="streamed")
    assert fixed.rows[0].plan is not None
    assert fixed.rows[0].plan.options.softmax == "streamed"


def test_printed_blocks_record_their_overflow() -> None:
    found = regime_map(Attention(4096, 64), ["flash"], sram=[16384], blocks="paper")
    row = found.rows[0]
    assert (str(row.blocks), row.overflow) == (
        "64x64",
        simulate("flash", found.problem, sram=16384, blocks="paper", execute=False, replay=False).overflow,
    )
    assert row.counted


def test_a_block_of_48_kib_is_a_small_cache_for_wide_heads() -> None:
    for d, dtype, regime in ((128, "float32", "small cache"), (64, "float32", "middle"), (128, "float16", "middle")):
        found = places(regime_map(Attention(4096, d, dtype=dtype), sram=[d]))
        assert (str(found[0].size), found[0].row.regime.name) == ("48 KiB", regime)
        assert found[0].row.sram == 49152 // found[0].row.plan.problem.itemsize  # type: ignore[union-attr]  # something fits
    t4 = places(regime_map(Attention(4096, 256), sram=[256]), [device("t4")])
    assert [(place.part, place.row.regime.name) for place in t4] == [
        ("block without opting in", "small cache"), ("SM", "small cache"), ("block", "small cache")
    ]  # fmt: skip


def test_every_device_is_placed_by_its_sm_and_its_block() -> None:
    found = places(regime_map(Attention(64, 8), sram=[64]))
    owned = {(name, place.part): place.size.amount for place in found for name in place.devices}
    assert owned["a100-40gb", "SM"] == device("a100-40gb").shared_memory_per_sm
    assert owned["a100-40gb", "block"] == device("a100-40gb").shared_memory_per_block
    assert len(owned) == 3 * len({name for name, _ in owned})
    assert [place.size.amount for place in found] == sorted(place.size.amount for place in found)


def test_the_kernels_are_exact_algorithms_of_papers() -> None:
    assert all(KERNELS[name].paper and KERNELS[name].brings is None for name in known(backward=False))
    assert [BACKWARD[name] for name in known(backward=False)] == [*known(backward=True)] != []


MASK = BlockMask.from_dense([[1]], 4, 4, 4, 4)


@pytest.mark.parametrize(
    ("problem", "asked", "message"),
    [
        (Attention(8, 4, causal=True), {}, "leave causal"),
        (Attention(4, 4, block_mask=MASK), {}, "masks out"),
        (Attention(8, 4, heads=4, kv_heads=2), {}, "leave kv_heads out"),
        (Attention(2**24, 2**20), {}, "64 bits"),
        (Attention(8, 4), {"kernels": ["block-sparse"]}, "block-sparse is not among the exact forward"),
        (Attention(8, 4), {"kernels": ["flash"], "backward": True}, "exact backward .* flash-backward"),
        (Attention(8, 4), {"kernels": ["flsh"]}, "unknown kernel"),
        (Attention(8, 4), {"kernels": []}, "no kernel was named"),
        (Attention(8, 4), {"blocks": "fit"}, "'best' or 'paper', not 'fit'"),
        (Attention(8, 4), {"sram": ["3 B"]}, "no element of 4 bytes"),
        (Attention(8, 4), {"sram": [0]}, "sram must be"),
        (Attention(8, 4), {"depth": "two"}, "depth must be"),
        (Attention(8, 4), {"dq_pass": "own"}, "none of .* has an option 'dq_pass'"),
        ("flash", {}, "must be an Attention"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(problem: Attention, asked: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        regime_map(problem, **asked)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(BadInput, match="is not on this map"):
        regime_map(Attention(8, 4), ["flash"], sram=[64]).crossovers("flash", "flash2")
