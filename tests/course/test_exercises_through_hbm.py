"""Exercises 12, 13 and 14: kernels in which something waits in HBM between two loops: D and dQ, the parts of a softmax, the scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import predict
from iosim.attention.kernels.masking import Mask
from iosim.attention.plan import make_plan
from iosim.core.masks.grid import grid
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.course.exercises.e12_backward import source as e12
from iosim.course.exercises.e13_decoding import source as e13
from iosim.course.exercises.e14_small_cache import source as e14
from iosim.course.judging import drawn_trials
from iosim.course.parts import values
from iosim.course.runs import attempted, listing_attempt, ran
from iosim.course.spec import Exercise, Trial
from iosim.course.text import built, mistaken
from iosim.course.trials import attention_trial, counted, moved, output_answers, shape_of, words_of
from iosim.exercises import check
from iosim.memory import Counts, Machine
from iosim_reference import attention, softmax

FOLDERS = ("e12_backward", "e13_decoding", "e14_small_cache")
EXERCISES: dict[str, Exercise] = {name: import_module(f"iosim.course.exercises.{name}.source").EXERCISE for name in FOLDERS}
MANY = range(1, 6)
SIZES = st.integers(1, 9)
every = pytest.mark.parametrize("folder", FOLDERS)


@cache
def drawn(folder: str, seed: int) -> Sequence[Trial]:
    return drawn_trials(EXERCISES[folder], seed)


def mistake_of(folder: str, name: str) -> Callable[..., Any]:
    asked = EXERCISES[folder]
    return built(mistaken(asked, next(mistake for mistake in asked.mistakes if mistake.name == name)), asked.function)


def problem_of(trial: Trial) -> Attention:
    """The problem whose keys are all attended to: the mask of exercise 13 is a table of parts."""
    (n, d), (nk, dv) = trial.inputs["Q"], trial.inputs["V"]
    return Attention(n, d, nk=nk, dv=dv, scale=float(trial.params["scale"]))


def blocks_of(trial: Trial) -> Blocks:
    return Blocks(int(trial.params["Br"]), int(trial.params["Bc"]))


def traffic(arrays: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {name: (array.reads, array.writes) for name, array in arrays.items()}


# words and room, by other roads


def test_the_backward_pass_moves_and_needs_what_our_own_kernel_does() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e12_backward", seed)):
        problem, blocks = problem_of(trial), blocks_of(trial)
        assert traffic(counted(e12.backward, trial).arrays) == traffic(predict.predict("flash2-backward", problem, blocks))
        assert trial.sram == predict.residents("flash2-backward", problem, blocks)


def test_the_small_cache_moves_and_needs_what_our_own_kernel_does_but_for_l_and_m() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e14_small_cache", seed)):
        problem, blocks, options = problem_of(trial), blocks_of(trial), Options(depth="one")
        predicted = traffic(predict.predict("square-tiles", problem, blocks, options))
        assert predicted.pop("l") == predicted.pop("m") == (problem.n, problem.n)
        assert traffic(counted(e14.small_cache, trial).arrays) == predicted
        assert trial.sram == predict.residents("square-tiles", problem, blocks, options)


def test_the_parts_move_what_flash2_moves_under_a_block_mask_and_the_merge_reads_it_again() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e13_decoding", seed)):
        assert trial.mask is not None
        found = traffic(counted(e13.decoding, trial).arrays)
        under = traffic(predict.predict("flash2", trial.mask, blocks_of(trial)))
        assert [found[name] for name in ("Q", "K", "V")] == [under[name] for name in ("Q", "K", "V")]
        assert found["O_p"] == (under["O"][1], under["O"][1])
        assert found["M_p"] == found["L_p"] == (under["LSE"][1], under["LSE"][1])
        assert found["O"] == (0, trial.outputs["O"][0] * trial.outputs["O"][1])
        assert trial.sram == predict.residents("flash2", trial.mask, blocks_of(trial))


@every
def test_the_budget_is_the_formula_that_is_printed(folder: str) -> None:
    formulas = {"e12_backward": backward_words, "e13_decoding": decoding_words, "e14_small_cache": small_cache_words}
    for trial in (trial for seed in MANY for trial in drawn(folder, seed)):
        assert trial.budget == formulas[folder](problem_of(trial), blocks_of(trial), parts_in(trial))
        assert trial.least is not None
        assert trial.best is not None
        assert trial.least <= trial.best <= trial.budget


def backward_words(p: Attention, b: Blocks, _: int) -> int:
    Tc = -(-p.nk // b.cols)
    return p.n * (p.d + 2 * p.dv + 1) + 2 * p.nk * (p.d + p.dv) + Tc * p.n * (3 * p.d + p.dv + 2)


def decoding_words(p: Attention, _: Blocks, T: int) -> int:
    return T * p.n * p.d + p.nk * (p.d + p.dv) + 2 * T * p.n * (p.dv + 2) + p.n * p.dv


def small_cache_words(p: Attention, b: Blocks, _: int) -> int:
    Tr, Tc = -(-p.n // b.rows), -(-p.nk // b.cols)
    return p.n * p.nk * (1 - (-p.dv // b.cols)) + Tc * p.n * p.d + Tr * p.nk * (p.d + p.dv) + p.n * p.dv


def parts_in(trial: Trial) -> int:
    return trial.outputs["O_p"][0] // trial.inputs["Q"][0] if "O_p" in trial.outputs else 0


# any problem in any blocks


@given(n=SIZES, nk=SIZES, d=SIZES, dv=SIZES, Br=SIZES, Bc=SIZES, seed=st.integers(0, 9))
def test_the_backward_pass_is_exact_in_any_blocks(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, seed: int) -> None:
    exact(e12.backward, e12.problem("any", Attention(n, d, nk=nk, dv=dv), Blocks(Br, Bc), np.random.default_rng(seed)), backward_words)


@given(n=SIZES, nk=SIZES, d=SIZES, dv=SIZES, Br=SIZES, Bc=SIZES, seed=st.integers(0, 9))
def test_the_small_cache_is_exact_in_any_blocks(n: int, nk: int, d: int, dv: int, Br: int, Bc: int, seed: int) -> None:
    asked, rng = Attention(n, d, nk=nk, dv=dv), np.random.default_rng(seed)
    trial = attention_trial(
        e14.small_cache, "any", asked, Blocks(Br, Bc), rng, scratch=("S",), expected=lambda _, data: output_answers(asked, data)
    )
    exact(e14.small_cache, trial, small_cache_words)


@given(n=SIZES, tiles=st.integers(3, 9), d=SIZES, dv=SIZES, Bc=SIZES, seed=st.integers(0, 9), data=st.data())
def test_decoding_is_exact_in_any_parts(n: int, tiles: int, d: int, dv: int, Bc: int, seed: int, data: st.DataObject) -> None:
    nk = tiles * Bc - data.draw(st.integers(0, Bc - 1))
    count = data.draw(st.integers(2, tiles))
    sizes = e13.part_sizes(tiles, count, np.random.default_rng(seed))
    assert (len(sizes), sum(sizes), sizes[-1], min(sizes)) == (count, tiles, 1, 1)
    problem = Attention(n, d, nk=nk, dv=dv)
    trial = e13.problem("any", problem, Blocks(n, Bc), sizes, np.random.default_rng(seed))
    exact(e13.decoding, trial, decoding_words)


def exact(listing: Callable[..., Any], trial: Trial, formula: Callable[[Attention, Blocks, int], int]) -> None:
    tried = attempted(trial, listing_attempt(listing, trial))
    assert tried.stop is None
    assert values([tried]).passed, values([tried])
    assert tried.runs[0].words == trial.budget == formula(problem_of(trial), blocks_of(trial), parts_in(trial))


# what is drawn


@every
def test_logits_are_huge_axes_differ_and_tails_are_short(folder: str) -> None:
    for trials in (drawn(folder, seed) for seed in MANY):
        for trial in trials:
            q, k = (trial.data[1][name].astype(np.float64) for name in ("Q", "K"))
            assert np.abs(float(trial.params["scale"]) * (q @ k.T)).max() > 88.7
            assert problem_of(trial).d > 1
        assert all(problem_of(trial).d != trial.params["Br"] for trial in trials[:2])
        ragged = trials[1]
        p, b = problem_of(ragged), blocks_of(ragged)
        assert len({p.n, p.nk}) == len({p.d, p.dv}) == 2
        assert p.nk % b.cols > 0
        assert p.n % b.rows > 0 or folder == "e13_decoding"  # where all queries are one tile
        assert p.scale != p.d**-0.5


def test_small_caches_are_below_d_squared_and_flash2_fits_but_moves_more() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e14_small_cache", seed)):
        problem = problem_of(trial)
        assert trial.sram < problem.d**2
        flash2 = words_of("flash2", problem, trial.sram)
        assert flash2 is not None
        assert flash2 > 1.5 * trial.budget
        assert trial.budget < min(found for name in ("flash", "square-tiles") if (found := words_of(name, problem, trial.sram)) is not None)


def test_parts_are_all_the_keys_once_and_their_maxima_rise_and_fall() -> None:
    for trial in (trial for seed in MANY for trial in drawn("e13_decoding", seed)):
        assert trial.mask is not None
        assert trial.mask.block_mask is not None
        seen = trial.mask.block_mask.dense()
        assert (seen.sum(axis=0) == 1).all()
        assert seen.sum(axis=1).min() == 1 < seen.sum(axis=1).max()
        for data, sign in zip(trial.data, (1, -1), strict=True):
            assert (sign * np.diff(data["K"] @ data["Q"][0]) >= 0).all()
    assert drawn("e13_decoding", 1)[0].inputs["Q"][0] == 1


@every
def test_what_waits_has_the_shape_that_is_told(folder: str) -> None:
    for trial in drawn(folder, 1):
        p, rows = problem_of(trial), parts_in(trial) * trial.inputs["Q"][0]
        waits = {"e12_backward": {"D": (p.n, 1)}, "e14_small_cache": {"S": (p.n, p.nk)}}
        assert trial.scratch == waits.get(folder, {})
        judged_too = {name: trial.outputs[name] for name in ("M_p", "L_p", "O_p") if name in trial.outputs}
        assert judged_too == ({"M_p": (rows, 1), "L_p": (rows, 1), "O_p": (rows, p.dv)} if folder == "e13_decoding" else {})


def test_what_each_part_knows_is_the_references() -> None:
    for trial in drawn("e13_decoding", 1):
        assert trial.mask is not None
        assert trial.mask.block_mask is not None
        rows, seen = int(trial.params["Br"]), trial.mask.block_mask.dense()
        for data in trial.data:
            answers, (q, k, v) = trial.expected(data), (data[name].astype(np.float64) for name in "QKV")
            for part, tiles in enumerate(seen):
                keys = np.repeat(tiles, int(trial.params["Bc"]))[: len(k)]
                state = softmax.state(float(trial.params["scale"]) * (q @ k[keys].T), v[keys])
                for name, right in (("M_p", state.m), ("L_p", state.l), ("O_p", state.o)):
                    found, bound = answers[name]
                    assert np.abs(found[part * rows : (part + 1) * rows] - right).max() <= 1e-6 * bound, name


@pytest.mark.parametrize("name", ["parts go on from one another", "nothing is split", "every part reads all keys"])
def test_parts_that_are_not_parts_get_O_right_and_no_point(name: str) -> None:
    listing = mistake_of("e13_decoding", name)
    verdict = check(listing, EXERCISES["e13_decoding"], seed=2).verdict
    assert (verdict.score, verdict.mistake) == (0, name)
    for trial in drawn("e13_decoding", 2):
        wanted, bound = trial.expected(trial.data[0])["O"]
        found = ran(trial, listing_attempt(listing, trial), trial.data[0], lax=True).found["O"].astype(np.float64)
        assert np.abs(found - wanted).max() <= bound


def test_forward_results_are_those_of_the_reference_and_dO_is_no_constant() -> None:
    for trial in drawn("e12_backward", 1):
        for data in trial.data:
            found = attention(data["Q"], data["K"], data["V"], scale=float(trial.params["scale"]))
            assert np.array_equal(data["O"], found.output.astype(np.float32))
            assert np.array_equal(data["LSE"][:, 0], found.lse.astype(np.float32))
            assert data["dO"].std() > 0.1


# by hand


def hand(name: str) -> Any:
    return json.loads((Path(__file__).parents[1] / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def backward_of(listing: Callable[..., Any], do: Any) -> Mapping[str, Any]:
    """What a listing makes of case H15 in tiles of one query and one key."""
    q, k, v = (np.array(hand("H15")["inputs"][name]) for name in "qkv")
    left = attention(q, k, v, scale=1.0)
    data = {"Q": q, "K": k, "V": v, "O": left.output, "LSE": left.lse[:, None], "dO": np.array(do)}
    trial = e12.problem("H15", Attention(2, 2, scale=1.0), Blocks(1, 1), np.random.default_rng(0))
    return ran(trial, listing_attempt(listing, trial), {name: array.astype(np.float32) for name, array in data.items()}).found


@pytest.mark.parametrize("which", ["ones", "random"])
def test_a_constant_dO_does_not_show_that_dV_is_wrong(which: str) -> None:
    wanted = hand("H15")["expect"][which]
    right = backward_of(e12.backward, wanted["do"])
    for gradient in ("dQ", "dK", "dV"):
        np.testing.assert_allclose(right[gradient], wanted[gradient.lower()], atol=1e-6)
    wrong = backward_of(mistake_of("e12_backward", "dV from a constant dO"), wanted["do"])
    assert np.allclose(wrong["dV"], right["dV"], atol=1e-6) == (which == "ones")


@pytest.mark.parametrize(
    ("mistake", "output"), [(None, 6.0), ("inverse factor", 3.0909), ("parts added as they are", 4.4), ("l merged without weights", 3.6)]
)
def test_two_parts_by_hand(mistake: str | None, output: float) -> None:
    """Case H04: scores [0, 0 | ln 3, 0] and values [1, 3 | 7, 11]; its second tile comes first where what follows it is weighted wrong."""
    listing = e13.decoding if mistake is None else mistake_of("e13_decoding", mistake)
    keys = [(0.0, 1.0), (0.0, 3.0), (np.log(3.0), 7.0), (0.0, 11.0)]
    keys = keys if mistake == "l merged without weights" else keys[2:] + keys[:2]
    data = {"Q": np.ones((1, 1)), "K": np.array([[s] for s, _ in keys]), "V": np.array([[v] for _, v in keys])}
    trial = e13.problem("H04", Attention(1, 1, nk=4, dv=1, scale=1.0), Blocks(1, 2), [1, 1], np.random.default_rng(0))
    found = ran(trial, listing_attempt(listing, trial), {name: array.astype(np.float32) for name, array in data.items()}).found
    assert found["O"].item() == pytest.approx(output, abs=1e-4)


# why it matters


def counts_of(listing: Callable[..., None], shapes: Mapping[str, tuple[int, int]], outputs: int, **given_: Any) -> Counts:
    """What a listing moves: of its arrays the last ``outputs`` are filled, or wait."""
    m, last = Machine(mode="count"), len(shapes) - outputs
    arrays = [(m.input if place < last else m.output)(name, shape) for place, (name, shape) in enumerate(shapes.items())]
    listing(m, *arrays, **given_)
    return m.finish()


def planned(name: str, asked: Attention, sram: int, blocks: tuple[int, int] | Literal["best"] = "best") -> tuple[int, Blocks]:
    """What one of our own kernels moves, counted, and its blocks."""
    plan = make_plan(name, asked, sram, blocks, None, {})
    return moved(plan.count()), plan.blocks


def test_making_P_again_moves_fewer_words_than_storing_it() -> None:
    asked, sram, why = e12.HEAD, e12.SRAM.amount, e12.EXERCISE.why
    assert (asked.n, asked.d, 4 * asked.n**2, 4 * asked.n, sram) == (4096, 64, 64 * 2**20, 16 * 2**10, 49_152)
    assert "store P, 64 MiB a head in float32, instead of an LSE of 16 KiB" in why
    (standard, _), (_, cut) = planned("standard-backward", asked, sram), planned("flash2-backward", asked, sram)
    shapes = {name: shape_of(name, asked) for name in ("Q", "K", "V", "O", "LSE", "dO", "dQ", "dK", "dV", "D")}
    counts = counts_of(e12.backward, shapes, 4, Br=cut.rows, Bc=cut.cols, scale=0.125)
    assert counts.peak_sram <= sram
    assert f"in {sram:,} words of SRAM {moved(counts):,}, where" in why
    assert f"moves {standard:,}, {standard / moved(counts):.1f} times as many" in why


def test_many_parts_cost_few_words() -> None:
    asked, cut, T, why = e13.CACHE, Blocks(1, 128), 108, e13.EXERCISE.why
    sizes = e13.part_sizes(512, T, np.random.default_rng(0))
    shapes = {"Q": (1, 128), "K": (65_536, 128), "V": (65_536, 128), "O": (1, 128), "M_p": (T, 1), "L_p": (T, 1), "O_p": (T, 128)}
    mask = Mask(grid(e13.parts(asked, cut, sizes), cut))
    found = moved(counts_of(e13.decoding, shapes, 4, Br=1, Bc=128, scale=0.1, mask=mask))
    alone, _ = planned("flash2", asked, 2**20, (1, 128))
    assert "a cache of, say, 65,536 keys" in why
    assert f"one of the {T} SMs of an A100" in why
    assert f"for d = 128 {found:,} words move instead of {alone:,}, {100 * (found - alone) / alone:.2f} % more" in why


def test_below_d_squared_blocked_products_beat_flash2() -> None:
    asked, sram, cut, why = e14.HEAD, e14.SRAM.amount, e14.TILES, e14.EXERCISE.why
    assert (asked.d**2, sram) == (4096, 512)
    shapes = {name: shape_of(name, asked) for name in ("Q", "K", "V", "O", "S")}
    counts = counts_of(e14.small_cache, shapes, 2, Br=cut.rows, Bc=cut.cols, scale=0.125)
    assert counts.peak_sram <= sram
    flash2, blocks = planned("flash2", asked, sram)
    assert blocks.rows == 2
    assert f"has room for two queries and moves {flash2:,} words at best" in why
    assert f"in tiles of {cut} move {moved(counts):,}, S included: {flash2 / moved(counts):.1f} times fewer" in why
    assert flash2 < planned("flash", asked, sram)[0]
