"""Exercises 5, 6, 7, 10 and 11: what is drawn, what is wanted, what it may move, other right answers, and cases from the field."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim import predict
from iosim.attention.kernels.masking import Mask
from iosim.core.masks.block import BlockMask
from iosim.core.masks.grid import grid, index_rule
from iosim.core.masks.runs import Runs
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.course.answers import first_wrong
from iosim.course.exercises.e05_tiled_product.source import best_known, tiled_product, tiles_of_c
from iosim.course.exercises.e06_standard.source import standard
from iosim.course.exercises.e07_flash.source import flash
from iosim.course.exercises.e10_causal.source import causal
from iosim.course.exercises.e11_block_sparse.source import block_sparse
from iosim.course.exercises.scores import problem_of, scores
from iosim.course.judging import drawn_trials
from iosim.course.spec import Exercise, Mistake, Trial
from iosim.course.text import built, mistaken, solution_source
from iosim.course.trials import counted, mask_of
from iosim.course.verdict import Verdict
from iosim.exercises import check
from iosim.memory import Hbm, Machine
from iosim_reference import softmax

Float = NDArray[np.float64]
FOLDERS = ("e05_tiled_product", "e06_standard", "e07_flash", "e10_causal", "e11_block_sparse")
EXERCISES: dict[str, Exercise] = {name: import_module(f"iosim.course.exercises.{name}.source").EXERCISE for name in FOLDERS}
KERNELS = {
    "e06_standard": ("standard", Options(reuse="tiled", softmax="rows")),
    "e07_flash": ("flash", Options()),
    "e10_causal": ("flash2", Options()),
    "e11_block_sparse": ("block-sparse", Options(first_pass="create", skip_empty=True)),
}
SEEDS, MANY = (1, 2), range(1, 7)
SIZES = st.integers(1, 9)
every = pytest.mark.parametrize("folder", FOLDERS)
attention = pytest.mark.parametrize("folder", KERNELS)


@cache
def drawn(folder: str, seed: int) -> Sequence[Trial]:
    return drawn_trials(EXERCISES[folder], seed)


def judged(folder: str, seed: int, *edits: tuple[str, str]) -> Verdict:
    """The verdict on the solution with these edits."""
    asked = EXERCISES[folder]
    return check(built(mistaken(asked, Mistake("edited", "", edits)), asked.function), asked, seed=seed).verdict


def passed(verdict: Verdict) -> tuple[bool | None, ...]:
    return tuple(part.passed for part in verdict.parts)


# words and room, by other roads


@attention
def test_every_array_moves_what_the_closed_form_says(folder: str) -> None:
    kernel, options = KERNELS[folder]
    for trial in (trial for seed in MANY for trial in drawn(folder, seed)):
        found = counted(EXERCISES[folder].solution, trial).arrays
        predicted = predict.predict(kernel, problem_of(trial), blocks_of(trial), options)
        assert {name: (a.reads, a.writes) for name, a in found.items()} == {name: (a.reads, a.writes) for name, a in predicted.items()}
        assert trial.budget == sum(a.reads + a.writes for a in predicted.values())
        assert trial.least is not None
        assert trial.best is not None
        assert trial.least <= trial.best <= trial.budget


@attention
def test_the_room_is_that_of_our_own_kernel(folder: str) -> None:
    kernel, options = KERNELS[folder]
    for trial in (trial for seed in MANY for trial in drawn(folder, seed)):
        problem, blocks = problem_of(trial), blocks_of(trial)
        if folder == "e11_block_sparse":  # that of exercise 7, whose listing should fit
            kernel, problem, options = "flash", replace(problem, block_mask=None), Options()
            blocks = Blocks(min(blocks.rows, problem.n), min(blocks.cols, problem.nk))
            assert counted(block_sparse, trial).peak_sram < trial.sram
        assert trial.sram == predict.residents(kernel, problem, blocks, options)


def blocks_of(trial: Trial) -> Blocks:
    return Blocks(int(trial.params["Br"]), int(trial.params["Bc"]))


@attention
def test_the_budget_is_the_formula_that_is_printed(folder: str) -> None:
    formulas = {"e06_standard": standard_words, "e07_flash": flash_words, "e10_causal": causal_words, "e11_block_sparse": sparse_words}
    for trial in (trial for seed in MANY for trial in drawn(folder, seed)):
        (n, d), (nk, dv), Br, Bc = trial.inputs["Q"], trial.inputs["V"], int(trial.params["Br"]), int(trial.params["Bc"])
        assert formulas[folder](n, nk, d, dv, Br, Bc, tiles_kept(trial)) == trial.budget


def tiles_kept(trial: Trial) -> Mapping[tuple[int, int], bool]:
    """Whether some pair of a tile attends, from all its pairs."""
    problem = problem_of(trial)
    keep = np.isfinite(scores(problem, trial.data[0]))
    Br, Bc = int(trial.params["Br"]), int(trial.params["Bc"])
    tiles = np.ndindex(-(-problem.n // Br), -(-problem.nk // Bc))
    return {(I, J): bool(keep[I * Br : I * Br + Br, J * Bc : J * Bc + Bc].any()) for I, J in tiles}


def standard_words(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, _: object) -> int:
    return 4 * n * nk + n * (d + dv) + -(-n // Br) * nk * (d + dv)


def flash_words(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, _: object) -> int:
    return nk * (d + dv) + -(-nk // Bc) * (n * (d + 2 * dv) + 4 * n) + n * (dv + 2)


def causal_words(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, kept: Mapping[tuple[int, int], bool]) -> int:
    seen = sum(min(Bc, nk - J * Bc) for (_, J), visited in kept.items() if visited)
    return n * (d + dv + 1) + seen * (d + dv)


def sparse_words(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, kept: Mapping[tuple[int, int], bool]) -> int:
    met = sum(min(Bc, nk - J * Bc) for J in {J for (_, J), visited in kept.items() if visited})
    rows = sum(min(Br, n - I * Br) for (I, _), visited in kept.items() if visited)
    unseen = n - sum(min(Br, n - I * Br) for I in {I for (I, _), visited in kept.items() if visited})
    return met * (d + dv) + rows * (2 * dv + d + 4) + (2 * unseen - n) * (dv + 2)


@given(I=SIZES, J=SIZES, K=SIZES, Bi=SIZES, Bj=SIZES, Bk=SIZES)
def test_the_product_moves_and_needs_what_is_said(I: int, J: int, K: int, Bi: int, Bj: int, Bk: int) -> None:
    m = Machine(mode="count")
    tiled_product(m, m.input("A", (I, K)), m.input("B", (K, J)), m.output("C", (I, J)), Bi=Bi, Bj=Bj, Bk=Bk)
    counts = m.finish()
    assert sum(a.reads + a.writes for a in counts.arrays.values()) == I * J + -(-J // Bj) * I * K + -(-I // Bi) * K * J
    i, j, k = min(I, Bi), min(J, Bj), min(K, Bk)
    assert counts.peak_sram == i * j + i * k + k * j


def a_stays(m: Machine, A: Hbm, B: Hbm, C: Hbm, *, high: int, wide: int) -> None:
    """C = A B with a tile of A on chip, past which columns of B and of C run."""
    (I, K), J, slices = A.shape, B.shape[1], -(-A.shape[1] // wide)
    for i in m.tiles(I, high):
        for first, stop in ((0, 1), (1, slices))[:slices]:
            for k in m.tiles(K, wide, seen=Runs(np.array([first]), np.array([stop]), np.array([0]))):
                a = m.load(A[i, k])
                for j in m.tiles(J, 1):
                    c = m.load(C[i, j]) if first else m.full(0.0, i.size, 1, name="C_ij")
                    c += a @ m.load(B[k, j])
                    m.store(C[i, j], c)


@given(I=SIZES, J=SIZES, K=SIZES, data=st.data())
def test_the_best_known_words_of_a_product_can_be_had(I: int, J: int, K: int, data: st.DataObject) -> None:
    sram = data.draw(st.integers(3, I * J + I * K + K * J))
    found = []
    for rows, cols, inner, which in ((I, J, K, "C"), (I, K, J, "A"), (J, K, I, "B")):  # B stays: the transposed product
        for high, wide in ((high, wide) for high in range(1, rows + 1) for wide in range(1, cols + 1)):
            if high * wide + high + wide <= sram:
                found.append(staying_words(which, rows, cols, inner, high, wide))
    assert best_known(I, J, K, sram) == min(found)
    assert all(high * wide + high + wide <= sram for high, wide in tiles_of_c(I, J, sram))


@cache
def staying_words(which: str, rows: int, cols: int, inner: int, high: int, wide: int) -> int:
    """Counted on the machine, in the room of the tile that stays and of a column and a row."""
    I, J, K = (rows, cols, inner) if which == "C" else (rows, inner, cols)
    m = Machine(high * wide + high + wide, mode="count")
    arrays = m.input("A", (I, K)), m.input("B", (K, J)), m.output("C", (I, J))
    if which == "C":
        tiled_product(m, *arrays, Bi=high, Bj=wide, Bk=1)
    else:
        a_stays(m, *arrays, high=high, wide=wide)
    return sum(a.reads + a.writes for a in m.finish().arrays.values())


# what is drawn


def test_products_are_ragged_and_square_and_long() -> None:
    for seed in MANY:
        whole, ragged, long = drawn("e05_tiled_product", seed)
        assert len({*whole.inputs["A"], *whole.inputs["B"]}) == 1
        (I, K), J = ragged.inputs["A"], ragged.inputs["B"][1]
        assert all(size % ragged.params[tile] and size > ragged.params[tile] for size, tile in ((I, "Bi"), (J, "Bj"), (K, "Bk")))
        assert len({ragged.params[tile] for tile in ("Bi", "Bj", "Bk")}) == 3
        assert long.inputs["A"][0] < long.params["Bi"]
        assert long.inputs["A"][1] > 2 * long.params["Bk"]


def test_causal_problems_have_tiles_and_rows_that_see_nothing() -> None:
    for seed in MANY:
        whole, more, fewer = (problem_of(trial) for trial in drawn("e10_causal", seed))
        Br, Bc = (int(drawn("e10_causal", seed)[1].params[name]) for name in ("Br", "Bc"))
        assert Br < more.n - more.nk < 2 * Br  # a whole query tile, and part of the next
        assert (whole.n == whole.nk, fewer.n < fewer.nk) == (True, True)
        assert (more.n % Br > 0, more.nk % Bc > 0, len({more.d, more.dv, Br, Bc})) == (True, True, 4)
        empty = sum(not kept for kept in tiles_kept(drawn("e10_causal", seed)[0]).values())
        assert empty > 0


def test_block_masks_have_empty_rows_and_columns_and_rows_met_again() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e11_block_sparse", seed)):
        mask = problem_of(trial).block_mask
        assert mask is not None
        keep = mask.dense()
        assert not keep.any(axis=0).all()
        assert keep.any(axis=1).all() == (len(keep) == 1)
        assert keep.sum(axis=1).max() >= 2
        assert mask.partial == 0


@every
def test_data_differ_by_seed_and_are_huge_where_exp_is_taken(folder: str) -> None:
    first, other = drawn(folder, 1)[0], drawn(folder, 2)[0]
    name = next(iter(first.inputs))
    assert not np.array_equal(np.asarray(first.data[0][name]).ravel()[:9], np.asarray(other.data[0][name]).ravel()[:9])
    assert np.array_equal(first.data[0][name], drawn_trials(EXERCISES[folder], 1)[0].data[0][name])
    for trial in drawn(folder, 1) if folder in KERNELS else ():
        assert np.abs(scores(replace(problem_of(trial), causal=False, block_mask=None), trial.data[1])).max() > 88.7


def test_queries_outside_move_more_than_is_allowed_in_any_tiles() -> None:
    """With room for Q_i, O_i, two columns and a column of S beside one key, which is less than any listing needs."""
    for trial in (drawn("e07_flash", seed)[-1] for seed in MANY):
        (n, d), (nk, dv) = trial.inputs["Q"], trial.inputs["V"]
        most = (trial.sram - d - dv) // (d + dv + 3)
        assert n * d + -(-n // most) * nk * (d + dv) + n * (dv + 2) > trial.budget
        assert nk == 2 * trial.params["Bc"]


# what is wanted


@pytest.mark.parametrize("folder", ["e07_flash", "e11_block_sparse"])
def test_the_statistics_are_the_references(folder: str) -> None:
    for trial in (trial for seed in SEEDS for trial in drawn(folder, seed)):
        for data in trial.data:
            state, answers = softmax.state(scores(problem_of(trial), data)), trial.expected(data)
            np.testing.assert_array_equal(answers["m"][0], state.m)
            np.testing.assert_allclose(answers["l"][0], state.l, rtol=1e-11)


def test_the_weights_are_the_references() -> None:
    for trial in (trial for seed in SEEDS for trial in drawn("e06_standard", seed)):
        for data in trial.data:
            answers, v = trial.expected(data), data["V"].astype(np.float64)
            np.testing.assert_allclose(answers["P"][0] @ v, answers["O"][0], rtol=1e-11, atol=1e-12)
            q, k = (data[name].astype(np.float64) for name in "QK")
            exact = float(trial.params["scale"]) * (q[:, None, :] * k[None, :, :]).sum(axis=2)
            np.testing.assert_allclose(answers["S"][0], exact, rtol=1e-11, atol=1e-9)


@every
def test_what_is_off_by_more_than_rounding_explains_is_wrong(folder: str) -> None:
    for trial in drawn(folder, 1):
        for data, most in zip(trial.data, (1e-3, 0.1), strict=True):
            for name, (wanted, bound) in trial.expected(data).items():
                assert bound < most * (1 + np.abs(wanted[np.isfinite(wanted)]).max())
                assert first_wrong(name, wanted, wanted, bound) is None
                assert first_wrong(name, wanted + 2 * bound + 1e-9, wanted, bound) is not None


def test_the_first_array_that_is_wrong_is_told_first() -> None:
    for folder, old, new, says in (
        ("e06_standard", "scale * (q @", "(q @", "S[0, 0] is "),
        ("e06_standard", "s / s.rowsum()", "s", "P[0, 0] is "),
        ("e07_flash", "scale * (q @", "(q @", "m[0, 0] is "),
        ("e07_flash", "a * l_i + b", "l_i + b", "l["),
        ("e07_flash", "l_i * a * o", "l_i * o", "O["),
    ):
        assert judged(folder, 1, (old, new)).parts[0].says.startswith(says)


# other right answers

SIMPLER = (
    (
        '            m_t = m.let(s.rowmax(), "m_tilde")\n            s[...] = exp(s - m_t)  # P_ij takes the room of S_ij\n'
        '            l_t = m.let(s.rowsum(), "l_tilde")\n            m_new = m.let(maximum(m_i, m_t), "m_new")\n'
        '            a, b = m.let(exp(m_i - m_new), "a"), m.let(exp(m_t - m_new), "b")\n'
        '            l_new = m.let(a * l_i + b * l_t, "l_new")\n            m.store(O[i], (l_i * a * o + b * (s @ v)) / l_new)\n',
        '            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")\n            s[...] = exp(s - m_new)\n'
        '            a = m.let(exp(m_i - m_new) * l_i, "a")\n            l_new = m.let(a + s.rowsum(), "l_new")\n'
        "            m.store(O[i], (a * o + s @ v) / l_new)\n",
    ),
)
SCALED = ("scale * q @ k.T", "(q * scale) @ k.T", "q @ (scale * k.T)", "q @ k.T * scale")
AS_IN_SEVEN = (
    (
        '            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")\n            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij\n'
        '            l_i *= exp(m_i - m_new)\n            l_new = m.let(l_i + s.rowsum(), "l_new")\n'
        "            m.store(O[i], (l_i * o + s @ v) / l_new)\n",
        SIMPLER[0][0],
    ),
)


@pytest.mark.parametrize(
    ("folder", "edits"),
    [
        ("e05_tiled_product", (("c += m.load(A[i, k]) @ m.load(B[k, j])", "c[...] = c + m.load(A[i, k]) @ m.load(B[k, j])"),)),
        ("e05_tiled_product", (("c += m.load(A[i, k]) @", "a = m.load(A[i, k])\n                c += a @"),)),
        ("e06_standard", (("m.store(S[i, j], s)", "m.store(S[i, j], 1.0 * s)"),)),
        ("e06_standard", (("m.store(P[i], s / s.rowsum())", "s /= s.rowsum()\n        m.store(P[i], s)"),)),
        ("e07_flash", SIMPLER),
        ("e11_block_sparse", AS_IN_SEVEN),
        *((folder, (("scale * (q @ k.T)", to),)) for folder in ("e07_flash", "e11_block_sparse") for to in SCALED),
        ("e10_causal", (("            if not j.full:\n                mask.hide(m, s, i, j)\n", "            mask.hide(m, s, i, j)\n"),)),
        (
            "e10_causal",
            (("finite(maximum(m_i, s.rowmax()))", "maximum(m_i, s.rowmax())"), ("exp(s - m_new)", "exp(s - finite(m_new))"),
             ("exp(m_i - m_new)", "exp(m_i - finite(m_new))")),
        ),
    ],
)  # fmt: skip
def test_other_right_answers_get_full_marks(folder: str, edits: tuple[tuple[str, str], ...]) -> None:
    for seed in SEEDS:
        verdict = judged(folder, seed, *edits)
        assert passed(verdict) == (True, True, True), verdict


# where one error has two causes

LET, MAXIMUM = 'm.let(scale * (q @ k.T), "S_ij")', '            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")\n'


@pytest.mark.parametrize("new", [MAXIMUM, '            m_t = m.let(s.rowmax(), "m_t")\n', ""])
def test_scores_without_room_are_told_from_weights_without_room(new: str) -> None:
    again = ("s[...] = exp(s - m_new)", "s[...] = exp(s - s.rowmax())")
    assert judged("e11_block_sparse", 1, (LET, "scale * q @ k.T"), (MAXIMUM, new), again).mistake == "S without room"


def test_weights_without_room_are_told_from_scores_without_room() -> None:
    edits = ("s[...] = exp(s - m_new)", "p = exp(s - m_new)"), ("s.rowsum()", "p.rowsum()"), ("s @ v", "p @ v")
    assert judged("e11_block_sparse", 1, *edits).mistake == "P used twice without a name"


# cases from the field


def case(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def outputs(listing: Callable[..., None], told: Any, Br: int, Bc: int, mask: Mask | None = None) -> dict[str, Float]:
    """What a listing fills, in float64, so that hand-made numbers can be met exactly."""
    q, k, v = (np.array(told[name]) for name in ("q", "k", "v"))
    names = {standard: ("S", "P", "O"), flash: ("O", "l", "m"), causal: ("O", "LSE"), block_sparse: ("O", "l", "m")}[listing]
    m = Machine(accumulator="float64")
    arrays = [m.input(name, x.shape, x) for name, x in zip("QKV", (q, k, v), strict=True)]
    arrays += [
        m.output(name, {"O": (len(q), v.shape[1]), "S": (len(q), len(k)), "P": (len(q), len(k))}.get(name, (len(q), 1))) for name in names
    ]
    scale = 1 / np.sqrt(q.shape[1]) if told["scale"] is None else told["scale"]
    listing(m, *arrays, Br=Br, Bc=Bc, scale=float(scale), **({} if mask is None else {"mask": mask}))
    m.finish()
    return {name: array.data.astype(np.float64) for name, array in zip(names, arrays[3:], strict=True)}


def cut(problem: Attention, Br: int, Bc: int) -> Mask:
    return Mask(grid(problem, Blocks(Br, Bc)), index_rule(problem))


@pytest.mark.parametrize("listing", [standard, flash])
@pytest.mark.parametrize(("Br", "Bc"), [(2, 3), (4, 2), (5, 5), (8, 8), (1, 1)])
def test_h03_any_tiles_give_the_same_output(listing: Callable[..., None], Br: int, Bc: int) -> None:
    told, expected = case("H03")["inputs"], case("H03")["expect"]
    found = outputs(listing, told, Br, Bc)
    np.testing.assert_allclose(found["O"], expected["o"], rtol=expected["rtol"])
    if listing is flash:
        np.testing.assert_allclose((found["m"] + np.log(found["l"]))[:, 0], expected["lse"], rtol=expected["rtol"])


def test_h04_two_tiles_by_hand() -> None:
    told, expected = case("H04")["inputs"], case("H04")["expect"]
    found = outputs(flash, told, 1, 2)
    assert (found["m"].item(), found["l"].item(), found["O"].item()) == pytest.approx((np.log(3), 2, 6), rel=1e-14)
    assert expected["o"][0][0] == pytest.approx(6)
    first = {name: told[name][:2] if name in "kv" else told[name] for name in told}
    assert [outputs(flash, first, 1, 2)[name].item() for name in ("m", "l", "O")] == [0.0, 2.0, 2.0]


@pytest.mark.parametrize(("Br", "Bc"), [(1, 2), (2, 2), (2, 5), (1, 1)])
def test_h02_causal_is_aligned_to_the_last_key(Br: int, Bc: int) -> None:
    told, expected = case("H02")["inputs"], case("H02")["expect"]
    found = outputs(causal, told, Br, Bc, cut(Attention(2, 1, nk=5, causal=True), Br, Bc))
    np.testing.assert_allclose(found["O"], expected["o"], rtol=expected["rtol"])
    np.testing.assert_allclose(found["LSE"][:, 0], expected["lse"], rtol=expected["rtol"])
    turned = {"q": told["k"], "k": told["q"], "v": told["v"][:2], "scale": 1.0}
    nothing = outputs(causal, turned, Br, Bc, cut(Attention(5, 1, nk=2, causal=True), Br, Bc))
    assert not nothing["O"][:3].any()
    assert np.isneginf(nothing["LSE"][:3]).all()
    assert nothing["O"][3:, 0].tolist() == pytest.approx([1.0, 1.5])  # two keys, equal ones


def test_h06_huge_equal_logits_and_a_single_key() -> None:
    told = case("H06")["inputs"]
    for found in (outputs(standard, told, 2, 1), outputs(flash, told, 2, 1), outputs(causal, told, 2, 1, cut(Attention(3, 1, nk=2), 2, 1))):
        np.testing.assert_allclose(found["O"], [[3.0], [3.0], [3.0]], rtol=1e-12)
    single = {**told, "k": told["k"][:1], "v": told["v"][:1]}
    assert outputs(flash, single, 2, 1)["O"].tolist() == [[2.0]] * 3


@given(data=st.data(), n=SIZES, nk=SIZES, Br=SIZES, Bc=SIZES, seed=st.integers(0, 2**32))
def test_block_sparse_is_softmax_over_the_kept_tiles(data: st.DataObject, n: int, nk: int, Br: int, Bc: int, seed: int) -> None:
    """Any mask, the one that keeps nothing among them (H01)."""
    shape = -(-n // Br), -(-nk // Bc)
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))).reshape(shape)
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal(size) for size in ((n, 2), (nk, 2), (nk, 3)))
    problem = Attention(n, 2, nk=nk, dv=3, scale=0.7, block_mask=BlockMask.from_dense(keep, n, nk, Br, Bc))
    found = outputs(block_sparse, {"q": q, "k": k, "v": v, "scale": 0.7}, Br, Bc, cut(problem, Br, Bc))
    s = scores(problem, {"Q": q, "K": k})
    assert np.array_equal(np.isfinite(s), np.kron(keep, np.ones((Br, Bc), dtype=bool))[:n, :nk])
    right = softmax.state(s)
    np.testing.assert_allclose(found["m"], right.m, rtol=1e-12)
    np.testing.assert_allclose(found["l"], right.l, rtol=1e-12)
    np.testing.assert_allclose(found["O"], softmax.safe(s) @ v, rtol=1e-9, atol=1e-12)


# why it matters


def test_why_tiles_of_a_product_matter() -> None:
    why, n, b = EXERCISES["e05_tiled_product"].why, 4096, 128
    alone, tiled = (n**2 + 2 * n**3 // size for size in (1, b))
    assert f"{n} x {n} take {alone:,} words" in why
    assert f"for which {b * b + 2 * b:,} words of SRAM suffice, it is {tiled:,}, {alone / tiled:.0f} times fewer" in why
    least = 2 * n**3 / np.sqrt(b * b + 2 * b) - 2 * (b * b + 2 * b)  # Smith et al.
    assert f"less than {int(np.ceil(least)):,} in that room" in why
    assert least < tiled < 1.03 * least


def test_why_scores_should_not_go_through_hbm() -> None:
    why, n, d, b = EXERCISES["e06_standard"].why, 4096, 64, 64
    assert f"moves {standard_words(n, n, d, d, b, b, None):,} words, {4 * n * n:,} of them for S and P" in why
    assert f"{2 * n * n * 4 // 2**20} MiB of HBM" in why
    assert f"Exercise 8 moves {n * (2 * d + 1) + n // b * n * 2 * d:,}" in why


def test_why_flash_matters() -> None:
    why, n, d = EXERCISES["e07_flash"].why, 4096, 64
    assert (
        f"standard attention moves {standard_words(n, n, d, d, 64, 64, None):,} words and this {flash_words(n, n, d, d, 64, 64, None):,}"
        in why
    )
    assert f"256 keys in a tile it is {flash_words(n, n, d, d, 64, 256, None):,}" in why


def test_why_skipping_matters() -> None:
    why, n, d, b = EXERCISES["e10_causal"].why, 8192, 128, 128
    tiles = n // b
    visited, dense = tiles * (tiles + 1) // 2, tiles**2
    assert f"{visited:,} of {dense:,} tiles are visited and {tiles} of them masked" in why
    skipped, whole = (n * (2 * d + 1) + pairs * b * 2 * d for pairs in (visited, dense))
    assert f"moves {skipped:,} words; the same listing with every tile visited moves {whole:,}, {whole / skipped:.2f} times" in why


def test_why_block_sparsity_matters() -> None:
    why, n, d, b = EXERCISES["e11_block_sparse"].why, 4096, 64, 64
    tiles, kept = n // b, 7  # a tile row of the butterfly meets itself and its 6 neighbours that differ from it in one bit
    assert f"keeps {tiles * kept} of {tiles**2:,} tiles of 64 x 64" in why
    sparse, dense = (n * 2 * d + each * n * (3 * d + 4) - n * (d + 2) for each in (kept, tiles))
    printed = sparse + 2 * n * (d + 2)
    assert f"moves {sparse:,} words, {100 * sparse / dense:.0f} % of the {dense:,}" in why
    assert f"moves {printed:,}: {100 * (printed / sparse - 1):.0f} % more" in why


@every
def test_listings_read_like_those_of_the_kernels(folder: str) -> None:
    source = solution_source(EXERCISES[folder])
    assert max(map(len, source.splitlines())) <= 140
    assert "import" not in source.partition('"""')[2]


@attention
def test_the_mask_that_a_trial_gives_is_the_problems(folder: str) -> None:
    for trial in drawn(folder, 1):
        mask = mask_of(trial)
        assert (mask is not None) == (folder in ("e10_causal", "e11_block_sparse"))
