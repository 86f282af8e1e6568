"""The exercises on plain functions: solutions are right, and every typical mistake is wrong, whatever is drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import Attention, predict
from iosim.attention.plan import make_plan
from iosim.core.masks.grid import grid
from iosim.core.options import Options
from iosim.core.problem import Blocks
from iosim.course.exercises.e02_online_softmax.source import online_softmax
from iosim.course.exercises.e03_merge.source import merge
from iosim.course.exercises.e04_count_standard.source import count_standard
from iosim.course.exercises.e09_blocks.source import best_blocks
from iosim.course.exercises.e15_visited_tiles.source import visited_tiles
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong
from iosim.course.text import built, mistaken, solution_source
from iosim_reference import attention, softmax

Float = NDArray[np.float64]
Part = tuple[Float, Float, Float]
Results = list[tuple[Array, ...]]
SEEDS = 60
FOLDERS = ("e02_online_softmax", "e03_merge", "e04_count_standard", "e09_blocks", "e15_visited_tiles")
EXERCISES: dict[str, Exercise] = {name: import_module(f"iosim.course.exercises.{name}.source").EXERCISE for name in FOLDERS}
FLOATS = ("e02_online_softmax", "e03_merge")
MISTAKES = [(name, mistake.name) for name, exercise in EXERCISES.items() for mistake in exercise.mistakes]
SIZES = st.integers(1, 12)
HAND_PARTS: tuple[Part, Part] = tuple(tuple(np.array([[x]]) for x in part) for part in ((0, 2.0, 4.0), (math.log(3), 4 / 3, 32 / 3)))  # type: ignore[assignment]  # fmt: skip


def case(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def check_of(folder: str) -> FunctionCheck:
    check = EXERCISES[folder].check
    assert isinstance(check, FunctionCheck)
    return check


@cache
def drawn(folder: str, seed: int) -> Sequence[Given]:
    return check_of(folder).draw(np.random.default_rng(seed))


def called(function: Callable[..., Any], calls: Sequence[Given]) -> Results:
    """What a function returns for copies of the arguments, as arrays."""
    results = []
    for call in calls:
        returned = function(*(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in call.args))
        results.append(tuple(np.asarray(part) for part in (returned if isinstance(returned, tuple) else (returned,))))
    return results


def first_wrong_of(folder: str, calls: Sequence[Given], results: Results) -> Wrong | None:
    judge = check_of(folder).judge
    return next((wrong for pair in zip(calls, results, strict=True) if (wrong := judge(*pair))), None)


def mistake_of(folder: str, name: str) -> Mistake:
    return next(mistake for mistake in EXERCISES[folder].mistakes if mistake.name == name)


@cache
def wrong_function(folder: str, name: str) -> Callable[..., Any]:
    exercise = EXERCISES[folder]
    return built(mistaken(exercise, mistake_of(folder, name)), exercise.function)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_solution_is_right_whatever_is_drawn(folder: str) -> None:
    exercise = EXERCISES[folder]
    solution = built(solution_source(exercise), exercise.function)
    for seed in range(SEEDS):
        calls = drawn(folder, seed)
        results = called(solution, calls)  # warnings are errors here
        assert first_wrong_of(folder, calls, results) is None, seed
        check = check_of(folder)
        assert {len(result) for result in results} == {check.arrays}
        assert {str(array.dtype) for result in results for array in result} <= set(check.dtypes)


@pytest.mark.parametrize(("folder", "name"), MISTAKES)
def test_every_mistake_is_wrong_whatever_is_drawn(folder: str, name: str) -> None:
    function = wrong_function(folder, name)
    for seed in range(SEEDS):
        calls = drawn(folder, seed)
        with np.errstate(all="ignore"):
            assert first_wrong_of(folder, calls, called(function, calls)) is not None, seed


@pytest.mark.parametrize(("folder", "name"), [pair for pair in MISTAKES if pair[0] in FLOATS])
def test_no_mistake_is_near_the_bound(folder: str, name: str) -> None:
    function, judge = wrong_function(folder, name), check_of(folder).judge
    for seed in range(SEEDS):
        calls = drawn(folder, seed)
        with np.errstate(all="ignore"):
            found = [judge(*pair) for pair in zip(calls, called(function, calls), strict=True)]
        assert any(far_off(wrong) for wrong in found if wrong is not None), seed


def far_off(wrong: Wrong) -> bool:
    """Whether one per cent of what is wanted, or more, is wrong."""
    assert wrong.found is not None
    assert wrong.wanted is not None
    return not abs(wrong.found - wrong.wanted) <= 0.01 * abs(wrong.wanted)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rows_rise_and_fall_in_ragged_tiles(seed: int) -> None:
    rising, huge, hidden, *_, single = (call.args for call in drawn("e02_online_softmax", seed))
    x, cols, Bc = np.asarray(rising[0]), np.shape(rising[0])[1], int(rising[1])
    assert (np.diff(x[0]) > 0).all()
    assert (np.diff(x[1]) < 0).all()
    assert (cols > 2 * Bc, cols % Bc > 0) == (True, True)
    assert np.ptp(np.asarray(huge[0]), axis=0).min() > 10_000
    assert np.isneginf(np.asarray(hidden[0])).all(axis=1).tolist() == [False, False, True, False]
    assert np.shape(single[0]) == (1, 1)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_parts_differ_in_both_directions(seed: int) -> None:
    m1, l1, O1, m2, l2, O2 = (np.asarray(arg, dtype=np.float64) for arg in drawn("e03_merge", seed)[0].args)
    assert ((m1 - m2).min() <= -0.5, (m1 - m2).max() >= 0.5) == (True, True)
    assert (l2 - l1).min() >= 1
    assert (np.sign(O1) == np.sign(O2)).all()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_sizes_are_ragged_and_all_differ(seed: int) -> None:
    (n, nk, d, dv, Br), (n2, nk2, d2, dv2, _) = ([int(size) for size in call.args] for call in drawn("e04_count_standard", seed)[:2])
    assert (n % Br > 0, n < nk, d < dv, n2 > nk2, d2 > dv2) == (True,) * 5
    n, nk, Br, Bc = (int(size) for size in drawn("e15_visited_tiles", seed)[0].args)
    assert (n % Br, nk % Bc > 0, nk - n >= Bc) == (1, True, True)
    assert drawn("e15_visited_tiles", seed)[1].args == (nk, n, Bc, Br)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_two_mistakes_do_the_same(folder: str) -> None:
    names = [mistake.name for mistake in EXERCISES[folder].mistakes]
    assert len(set(names)) == len(names) >= 5
    for seed in range(5):
        with np.errstate(all="ignore"):
            answers = [repr(called(wrong_function(folder, name), drawn(folder, seed))) for name in names]
        assert len(set(answers)) == len(names), seed


@pytest.mark.parametrize("folder", FOLDERS)
def test_calls_differ_and_are_labelled(folder: str) -> None:
    labels = [call.label for call in drawn(folder, 0)]
    assert len(set(labels)) == len(labels) >= 5
    assert repr([call.args for call in drawn(folder, 0)]) != repr([call.args for call in drawn(folder, 1)])
    again = check_of(folder).draw(np.random.default_rng(0))
    assert repr([call.args for call in again]) == repr([call.args for call in drawn(folder, 0)])


@pytest.mark.parametrize("folder", FOLDERS)
def test_advice_does_not_give_the_line_away(folder: str) -> None:
    body = solution_source(EXERCISES[folder]).rsplit('"""', 1)[1]
    lines = {line.strip().partition("  #")[0] for line in body.splitlines() if len(line.strip()) > 12}
    for mistake in EXERCISES[folder].mistakes:
        assert len(mistake.says) > 60, mistake.name
        assert not any(line in mistake.says for line in lines), mistake.name


def test_h04_tile_by_tile() -> None:
    told = case("H04")["inputs"]
    x = np.array(told["k"]).T * told["q"][0][0]
    assert [part.item() for part in online_softmax(x[:, :2], 2)] == [0.0, 2.0]
    m, l = online_softmax(x, 2)
    assert m.item() == math.log(3)
    assert l.item() == pytest.approx(2.0, rel=1e-15)
    assert m.item() + math.log(l.item()) == pytest.approx(case("H04")["expect"]["lse"][0], rel=1e-15)


@given(rows=SIZES, cols=SIZES, Bc=SIZES, seed=st.integers(0, 2**32), hidden=st.sampled_from([0.0, 0.5, 0.95]))
def test_online_softmax_is_the_reference_for_any_tile(rows: int, cols: int, Bc: int, seed: int, hidden: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, cols)) < hidden, -np.inf, 30 * rng.standard_normal((rows, cols)))
    m, l = online_softmax(x, Bc)
    right = softmax.state(x)
    np.testing.assert_array_equal(m, right.m)
    np.testing.assert_allclose(l, right.l, rtol=1e-13)


def logarithms(x: Float, Bc: int) -> tuple[Float, Float]:
    """A right answer by a long way round: through the log-sum-exp."""
    m = x.max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        lse = np.logaddexp.reduce(x, axis=1, keepdims=True)
        return m, np.where(np.isneginf(m), 0.0, np.exp(lse - m))


def element_by_element(x: Float, Bc: int) -> tuple[Float, Float]:
    """A right answer in tiles of a single column."""
    return online_softmax(x, 1)


@pytest.mark.parametrize("answer", [logarithms, element_by_element])
def test_other_right_sums_are_accepted(answer: Callable[..., Any]) -> None:
    for seed in range(SEEDS):
        calls = drawn("e02_online_softmax", seed)
        assert first_wrong_of("e02_online_softmax", calls, called(answer, calls)) is None


@pytest.mark.parametrize(
    ("folder", "place"), [("e02_online_softmax", 0), ("e02_online_softmax", 1), *(("e03_merge", at) for at in range(3))]
)
def test_small_errors_and_other_shapes_are_refused(folder: str, place: int) -> None:
    call = drawn(folder, 3)[0]
    (right,) = called(EXERCISES[folder].solution, [call])
    exact = right[place].astype(np.float64)
    for spoiled in (exact * (1 + 1e-9), exact[:, 0], np.full_like(exact, np.nan)):
        wrong = check_of(folder).judge(call, (*right[:place], spoiled, *right[place + 1 :]))
        assert wrong is not None
        assert wrong.says.startswith("mlO"[place])


def test_why_one_pass_matters() -> None:
    """The streamed softmax of standard attention reads S twice and stores P once; the loop for the maximum would read it once more."""
    terms = predict.terms("standard", Attention(4096, 64), Blocks(64, 64), Options(softmax="streamed"))
    online = sum(int(term.total) for term in terms if (term.array, term.direction) in {("S", "read"), ("P", "write")})
    assert online == 3 * 4096**2
    assert f"{4 * 4096**2 - online:,} words fewer, 64 MiB" in EXERCISES["e02_online_softmax"].why
    assert 4 * (4 * 4096**2 - online) == 64 * 2**20


def output(parts: tuple[Part, Part], function: Callable[..., Any] = merge) -> float:
    _, l, O = function(*parts[0], *parts[1])
    return float((O / l).item())


def test_h04_merged_by_hand() -> None:
    assert output(HAND_PARTS) == pytest.approx(6, rel=1e-15)
    assert [part.item() for part in merge(*HAND_PARTS[0], *HAND_PARTS[1])] == pytest.approx([math.log(3), 2, 12], rel=1e-15)


@pytest.mark.parametrize(("name", "wrong"), [("inverse factor", 68 / 22), ("rescale missing", 4.4), ("l not rescaled", 3.6)])
def test_h04_merged_wrongly(name: str, wrong: float) -> None:
    assert output(HAND_PARTS, wrong_function("e03_merge", name)) == pytest.approx(wrong, rel=1e-14)
    told = f"is {wrong:.5g}"
    assert told in mistake_of("e03_merge", name).says


def test_h03_from_tiles_of_any_width() -> None:
    told, expected = case("H03")["inputs"], case("H03")["expect"]
    q, k, v = (np.array(told[name]) for name in "qkv")
    s = q @ k.T / math.sqrt(q.shape[1])
    for width in range(1, len(k) + 1):
        tiles = [softmax.state(s[:, at : at + width], v[at : at + width]) for at in range(0, len(k), width)]
        parts: list[Part] = [(np.asarray(tile.m), np.asarray(tile.l), np.asarray(tile.o)) for tile in tiles]
        m, l, O = reduce(lambda a, b: merge(*a, *b), parts)
        np.testing.assert_allclose(O / l, expected["o"], rtol=expected["rtol"], atol=expected["atol"])
        np.testing.assert_allclose((m + np.log(l))[:, 0], expected["lse"], rtol=expected["rtol"])


@given(seed=st.integers(0, 2**32), rows=SIZES, dv=SIZES, hidden=st.sampled_from([0.0, 0.3, 1.0]))
def test_merge_is_associative_and_commutative(seed: int, rows: int, dv: int, hidden: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((rows, 9)) < hidden, -np.inf, 20 * rng.standard_normal((rows, 9)))
    v = rng.standard_normal((9, dv))
    states = [softmax.state(x[:, at : at + 3], v[at : at + 3]) for at in (0, 3, 6)]
    a, b, c = [(np.asarray(one.m), np.asarray(one.l), np.asarray(one.o)) for one in states]
    left, right = merge(*merge(*a, *b), *c), merge(*a, *merge(*b, *c))
    whole = softmax.state(x, v)
    for one, other, all_at_once in zip(left, right, (whole.m, whole.l, whole.o), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(one, all_at_once, rtol=1e-12, atol=1e-13)
    for one, other in zip(merge(*a, *b), merge(*b, *a), strict=True):
        np.testing.assert_array_equal(one, other)
    nothing: Part = (np.full((rows, 1), -np.inf), np.zeros((rows, 1)), np.zeros((rows, dv)))
    for one, other in zip(merge(*a, *nothing), a, strict=True):
        np.testing.assert_array_equal(one, other)


def by_log_sum_exp(m1: Float, l1: Float, O1: Float, m2: Float, l2: Float, O2: Float) -> Part:
    """A right answer by a long way round, as split-key decoding does it."""
    m = np.maximum(m1, m2)
    with np.errstate(all="ignore"):
        lse1, lse2 = m1 + np.log(l1), m2 + np.log(l2)
        l = np.where(np.isneginf(m), 0.0, np.exp(lse1 - m) + np.exp(lse2 - m))
        a, b = (np.where(np.isneginf(lse), 0.0, np.exp(lse - m)) / np.where(k == 0, 1.0, k) for lse, k in ((lse1, l1), (lse2, l2)))
    return m, l, a * O1 + b * O2


def test_other_right_merges_are_accepted() -> None:
    for seed in range(SEEDS):
        calls = drawn("e03_merge", seed)
        assert first_wrong_of("e03_merge", calls, called(by_log_sum_exp, calls)) is None


def test_why_the_merge_matters() -> None:
    """Decoding: 65,536 keys of d = 128; each of 16 parts hands over a row of O and two numbers."""
    handed, cache_words = 16 * (128 + 1 + 1), 65_536 * (128 + 128)
    why = EXERCISES["e03_merge"].why
    assert f"{handed:,} words in all" in why
    assert f"{200 * handed / cache_words:.3f} % of the {cache_words:,} words" in why


@given(n=SIZES, nk=SIZES, d=SIZES, dv=SIZES, Br=SIZES, Bc=SIZES)
def test_the_count_is_what_the_machine_counts(n: int, nk: int, d: int, dv: int, Br: int, Bc: int) -> None:
    plan = make_plan("standard", Attention(n, d, nk=nk, dv=dv), 10**6, (Br, Bc), None, {"reuse": "tiled", "softmax": "rows"})
    counted = sum(array.reads + array.writes for array in plan.count().arrays.values())
    assert count_standard(n, nk, d, dv, Br) == counted


def test_h11_in_one_tile() -> None:
    told = case("H11")
    total = told["standard"]["total"]
    assert count_standard(1024, 1024, 64, 64, 1024) == total == 4 * 1024**2 + 4 * 1024 * 64
    assert 2 * count_standard(4096, 4096, 128, 128, 4096) == 138_412_032  # bytes of float16
    scores = 4 * 1024**2
    why = EXERCISES["e04_count_standard"].why
    assert f"moves {total:,} words, and {scores:,} of them, {100 * scores / total:.0f} %," in why
    assert f"{4 * 1024 * 64:,}: Q, K, V and O once" in why


@pytest.mark.parametrize("spoiled", [np.int64(1), np.array([4456448])])
def test_only_the_very_number_is_accepted(spoiled: Array) -> None:
    call = Given("by hand", (1024, 1024, 64, 64, 1024))
    judge = check_of("e04_count_standard").judge
    assert judge(call, (np.asarray(4456448),)) is None
    assert judge(call, (np.asarray(4456449),)) == Wrong("the count is 4,456,449 words but should be 4,456,448", (), 4456449, 4456448)
    assert judge(call, (np.asarray(spoiled),)) is not None


def words(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, sram: int) -> tuple[int, int]:
    """Words and peak SRAM as the machine counts them."""
    counts = make_plan("flash2", Attention(n, d, nk=nk, dv=dv), sram, (Br, Bc), "record", {}).count()
    return sum(array.reads + array.writes for array in counts.arrays.values()), counts.peak_sram


@given(n=st.integers(1, 7), nk=st.integers(1, 6), d=st.integers(1, 4), dv=st.integers(1, 4), spare=st.integers(0, 90))
def test_no_blocks_that_fit_move_fewer_words(n: int, nk: int, d: int, dv: int, spare: int) -> None:
    M = 2 * (d + dv) + 5 + spare
    counts = {(Br, Bc): words(n, nk, d, dv, Br, Bc, M) for Br in range(1, n + 1) for Bc in range(1, nk + 1)}
    moved, needed = counts[best_blocks(n, nk, d, dv, M)]
    assert needed <= M
    assert moved == min(words for words, peak in counts.values() if peak <= M)


def test_blocks_are_judged_by_what_they_do() -> None:
    call, judge = Given("by hand", (10, 8, 2, 2, 3 * 9 + 4 + 3)), check_of("e09_blocks").judge

    def says(Br: object, Bc: object) -> str:
        wrong = judge(call, (np.asarray(Br), np.asarray(Bc)))
        return "" if wrong is None else wrong.says

    assert says(3, 1) == ""
    assert says(*best_blocks(10, 8, 2, 2, 34)) == ""
    assert says(2, 2) == "Br = 2, Bc = 2 need 28 of 34 words of SRAM and move 210 words, but 178 would do"
    assert says(4, 1) == "Br = 4, Bc = 1 need 40 words but the SRAM holds 34"
    assert says(0, 1) == "Br = 0, Bc = 1, but 1 <= Br <= 10 and 1 <= Bc <= 8 must hold"
    assert "1 <= Bc <= 8" in says(3, 9)
    assert "two whole numbers" in says([3], [1])


def test_best_by_a_smaller_tile_is_best_too() -> None:
    """Two tiles of 5 of 10 queries: 6 and 4 are as good."""
    judge = check_of("e09_blocks").judge
    M = 6 * 9 + 4
    assert best_blocks(10, 8, 2, 2, M)[0] == 5
    assert all(judge(Given("by hand", (10, 8, 2, 2, M)), (np.asarray(Br), np.asarray(1))) is None for Br in (5, 6))


def test_why_the_blocks_matter() -> None:
    best = best_blocks(4096, 4096, 64, 64, 49_152)
    paper = (-(-49_152 // 256), 64)
    moved = [4096 * 129 + -(-4096 // Br) * 4096 * 128 for Br in (paper[0], best[0])]
    why = EXERCISES["e09_blocks"].why
    assert f"{paper[0]}x{paper[1]}" in why
    assert f"move {moved[0]:,} words and the best ones, {best[0]}x{best[1]}, {moved[1]:,}: {moved[0] / moved[1]:.2f} times" in why


@given(n=SIZES, nk=SIZES, Br=SIZES, Bc=SIZES)
def test_tiles_are_those_of_the_grid_and_of_all_pairs(n: int, nk: int, Br: int, Bc: int) -> None:
    tiles = visited_tiles(n, nk, Br, Bc)
    table = grid(Attention(n, 1, nk=nk, causal=True), Blocks(Br, Bc)).by_row
    assert np.count_nonzero(tiles, axis=1).tolist() == np.asarray(table.visited()).tolist()
    for I, J in np.ndindex(tiles.shape):
        keys = range(J * Bc, min(nk, J * Bc + Bc))
        pairs = [j <= i + nk - n for i in range(I * Br, min(n, I * Br + Br)) for j in keys]
        assert tiles[I, J] == any(pairs) + all(pairs)


@given(n=SIZES, nk=SIZES, Br=SIZES, Bc=SIZES)
def test_tiles_are_as_many_as_the_released_code_visits(n: int, nk: int, Br: int, Bc: int) -> None:
    """FlashAttention-2 v2.8.3: key tiles below min(ceil(Nk / Bc), ceil(((I + 1) Br + Nk - Nq) / Bc)) for query tile I."""
    tiles = visited_tiles(n, nk, Br, Bc)
    stops = [min(-(-nk // Bc), -(-((I + 1) * Br + nk - n) // Bc)) for I in range(len(tiles))]
    assert np.count_nonzero(tiles, axis=1).tolist() == [max(0, stop) for stop in stops]


def test_h02_and_h16_by_hand() -> None:
    assert visited_tiles(2, 5, 1, 1).tolist() == [[2, 2, 2, 2, 0], [2, 2, 2, 2, 2]]
    assert wrong_function("e15_visited_tiles", "causal off by the offset")(2, 5, 1, 1).tolist() == [[2, 0, 0, 0, 0], [2, 2, 0, 0, 0]]
    assert visited_tiles(5, 2, 1, 1).tolist() == [[0, 0], [0, 0], [0, 0], [2, 0], [2, 2]]
    assert np.count_nonzero(visited_tiles(5, 7, 2, 3)) == 7


def test_h02_the_visited_pairs_give_its_output() -> None:
    told, expected = case("H02")["inputs"], case("H02")["expect"]
    q, k, v = (np.array(told[name]) for name in "qkv")
    keep = visited_tiles(len(q), len(k), 1, 1) == 2
    np.testing.assert_allclose(attention(q, k, v, scale=1.0, mask=keep).output, expected["o"], rtol=expected["rtol"])


def test_the_verdict_names_the_pairs_of_the_tile() -> None:
    call = Given("by hand", (2, 5, 1, 2))
    wrong = check_of("e15_visited_tiles").judge(call, (np.array([[2, 2, 0], [2, 2, 1]]),))
    assert wrong == Wrong("tiles[1, 2] is 1 but should be 2 (queries 1..1, keys 4..4 of 2 x 5)", (1, 2), 1.0, 2.0)


def test_why_skipping_matters() -> None:
    tiles = 4096 // 64
    visited, dense = tiles * (tiles + 1) // 2, tiles**2
    moved = [4096 * 129 + pairs * 64 * 128 for pairs in (visited, dense)]
    why = EXERCISES["e15_visited_tiles"].why
    assert f"{visited:,} of {dense:,} tiles are visited and only {tiles} of them need a mask" in why
    assert f"moves {moved[0]:,} words instead of {moved[1]:,}" in why
