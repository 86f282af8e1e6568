"""Judging: values, rules and words apart, the first wrong element, known mistakes and nothing else, and the picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import predict
from iosim.attention.kernels.masking import Mask
from iosim.core.errors import BadInput, DeadValue, NotWritten, SramOverflow
from iosim.core.events import Event
from iosim.core.problem import Attention, Blocks
from iosim.course.answers import first_wrong, softmax_bounds, softmax_rows
from iosim.course.catalogue import exercise
from iosim.course.exercises.e08_flash2.source import flash2
from iosim.course.grading.stream import Failed, Refused
from iosim.course.judging import drawn_calls, drawn_trials, judge_function, judge_kernel
from iosim.course.parts import too_often
from iosim.course.picture import panels, picture, picture_html
from iosim.course.runs import Stop, Stopped, attempted, listing_attempt, ran, stop_of
from iosim.course.spec import Array, Exercise, Trial
from iosim.course.text import built, mistaken, solution_source
from iosim.course.trials import attention_trials, counted, moved
from iosim.course.verdict import Verdict
from iosim.memory import Hbm, Machine

SOFTMAX, FLASH2 = exercise("softmax"), exercise("flash2")
seeds = st.integers(0, 2**32 - 1)


def edited(*edits: tuple[str, str], asked: Exercise = FLASH2) -> Callable[..., object]:
    """The solution of ``asked``, changed."""
    source = solution_source(asked)
    for old, new in edits:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return built(source, asked.function)


def judged(listing: Callable[..., object], seed: int = 0, asked: Exercise = FLASH2) -> Verdict:
    return judge_kernel(asked, seed, [listing_attempt(listing, trial) for trial in drawn_trials(asked, seed)])


def passed(verdict: Verdict) -> tuple[bool | None, ...]:
    return tuple(part.passed for part in verdict.parts)


def results_of(function: Callable[..., object], seed: int = 0) -> list[tuple[Array, ...]]:
    found = [function(*call.args) for call in drawn_calls(SOFTMAX, seed)]
    return [result for result in found if isinstance(result, tuple)]


class TestFunctions:
    def test_the_first_wrong_element_is_named_with_both_values(self) -> None:
        results = results_of(built(solution_source(SOFTMAX), "softmax"))
        results[1][0][2, 3] += 0.5
        results[2][1][0] = np.nan
        verdict = judge_function(SOFTMAX, 0, results)
        assert (verdict.score, verdict.out_of, passed(verdict)) == (0, 1, (False,))
        assert verdict.parts[0].says.startswith("P[2, 3] is ")
        assert "huge logits: x (" in verdict.parts[0].says
        assert verdict.mistake is None

    def test_types_and_numbers_of_results_are_judged_before_their_values(self) -> None:
        right = results_of(built(solution_source(SOFTMAX), "softmax"))
        narrow = [tuple(array.astype(np.float32) for array in result) for result in right]
        assert "result 1 of 2 holds float32 but should hold float64" in judge_function(SOFTMAX, 0, narrow).parts[0].says
        alone = [result[:1] for result in right]
        assert "returned 1 array but should return 2" in judge_function(SOFTMAX, 0, alone).parts[0].says
        broadcast = [(result[0], result[1][:, None]) for result in right]
        assert "LSE has shape" in judge_function(SOFTMAX, 0, broadcast).parts[0].says

    def test_what_returned_nothing_is_not_judged_and_no_mistake_is_named(self) -> None:
        right: list[tuple[Array, ...] | None] = [*results_of(built(solution_source(SOFTMAX), "softmax"))]
        stop = Stop("ZeroDivisionError", "division by zero", 4, rule=False)
        for results, why in (([*right[:2], None], stop), ([*right[:2], None], None), ([], stop), ([], None), ([None] * 5, None)):
            verdict = judge_function(SOFTMAX, 0, results, why)
            assert (verdict.score, passed(verdict), verdict.mistake) == (0, (None,), None)
        assert judge_function(SOFTMAX, 0, [*right[:2], None], stop).reason == stop.told

    def test_what_is_near_a_known_mistake_but_another_formula_has_no_name(self) -> None:
        mistake = SOFTMAX.mistakes[0]
        with np.errstate(all="ignore"):
            made = results_of(built(mistaken(SOFTMAX, mistake), "softmax"))
        assert judge_function(SOFTMAX, 0, made).mistake == mistake.name
        off = [tuple(np.multiply(array, 1 + 1e-5) for array in result) for result in made]
        assert judge_function(SOFTMAX, 0, off).mistake is None

    def test_a_wrong_answer_of_another_kind_has_no_name(self) -> None:
        verdict = judge_function(
            SOFTMAX, 0, [(np.multiply(a, 1.001), b) for a, b in results_of(built(solution_source(SOFTMAX), "softmax"))]
        )
        assert (verdict.score, verdict.mistake) == (0, None)

    @given(seeds)
    def test_the_bound_holds_for_other_orders_of_summation_and_not_for_float32(self, seed: int) -> None:
        x = np.asarray(drawn_calls(SOFTMAX, seed)[1].args[0])
        order = np.random.default_rng(seed).permutation(x.shape[1])
        weights = np.exp(x - x.max(axis=1, keepdims=True))[:, order]
        total = sum(weights.T)
        found = (weights / np.reshape(total, (-1, 1)))[:, np.argsort(order)]
        wanted, bound = softmax_rows(x)[0], softmax_bounds(x)[0]
        assert first_wrong("P", found, wanted, bound) is None
        assert bound < 1e-9
        assert first_wrong("P", wanted + 2 * bound, wanted, bound) is not None

    def test_a_float_for_an_int_is_told_how_it_came(self) -> None:
        blocks = exercise("blocks")
        results: list[tuple[Array, ...] | None] = [(np.asarray(64.0), np.asarray(3))] * len(drawn_calls(blocks, 0))
        assert (
            "result 1 of 2 is a float (64.0) where an int is wanted: use // and not /" in judge_function(blocks, 0, results).parts[0].says
        )
        results = [(np.zeros(2), np.asarray(3))] * len(drawn_calls(blocks, 0))
        assert "holds float64 but should hold int64 (" in judge_function(blocks, 0, results).parts[0].says


class TestValues:
    @pytest.mark.parametrize(
        ("found", "wanted", "where"),
        [([1.0, np.nan], [1.0, 1.0], (1,)), ([np.inf, 1.0], [1.0, 1.0], (0,)), ([-np.inf], [np.inf], (0,)), ([1.0 + 1e-6], [1.0], (0,))],
    )
    def test_what_is_not_near_is_wrong(self, found: list[float], wanted: list[float], where: tuple[int, ...]) -> None:
        wrong = first_wrong("X", np.array(found), np.array(wanted), 1e-7)
        assert wrong is not None
        assert wrong.where == where

    def test_what_is_near_or_equally_infinite_is_right(self) -> None:
        assert first_wrong("X", np.array([1.0 + 1e-8, -np.inf]), np.array([1.0, -np.inf]), 1e-7) is None

    def test_shapes_that_broadcast_are_wrong(self) -> None:
        wrong = first_wrong("X", np.ones((2, 1)), np.ones((2, 2)), 1.0)
        assert wrong is not None
        assert wrong.says == "X has shape (2, 1) but should have (2, 2)"

    def test_a_kernel_says_which_tile(self) -> None:
        verdict = judged(edited(("o / l_i)", "o / l_i * 1.001)")))
        assert passed(verdict) == (False, True, True)
        assert verdict.score == 0
        assert "O[0, 0] is " in verdict.parts[0].says
        assert ", in query tile 0 (whole tiles, random numbers: Q " in verdict.parts[0].says
        assert verdict.mistake is None

    def test_a_listing_written_otherwise_passes(self) -> None:
        other = edited(
            ("o[...] = alpha * o + s @ v", "o *= alpha\n            o += s @ v"),
            ("l_i[...] = alpha * l_i + s.rowsum()", "l_i *= alpha\n            l_i += s.rowsum()"),
            ("m.let(scale * (q @ k.T)", "m.let((scale * q) @ k.T"),
            ("o / l_i)", "o * (1.0 / l_i))"),
        )
        assert judged(other).passed

    def test_nan_of_another_origin_is_not_called_an_inverse_factor(self) -> None:
        verdict = judged(edited(("m.full(0.0, i.size, d_v", "m.full(np.nan, i.size, d_v")))
        assert passed(verdict) == (False, True, True)
        assert verdict.mistake is None


class TestRules:
    def test_values_and_words_are_judged_although_room_ran_out(self) -> None:
        both = edited(("s[...] = exp(s - m_new)", "p = m.let(exp(s - m_new), 'p')"), ("s.rowsum()", "p.rowsum()"), ("s @ v", "p @ v"))
        verdict = judged(both)
        assert passed(verdict) == (True, False, None)
        assert "moved, budget" in verdict.parts[2].says
        assert verdict.parts[2].says.endswith("; not scored, since room ran out")
        assert (verdict.score, verdict.out_of) == (1, 3)
        assert "p(" in verdict.parts[1].says
        assert "words of SRAM" in verdict.parts[1].says
        assert verdict.mistake is None  # the same words as with all keys in one tile, but not the same room

    def test_what_goes_by_the_place_of_a_tile_breaks_a_rule(self) -> None:
        place = edited(
            ("    for i in m.tiles(N_q, Br):\n", "    for place, i in enumerate(m.tiles(N_q, Br)):\n"),
            ("o[...] = alpha * o + s @ v", "o[...] = 1.0 * (alpha * o + s @ v) if place == 1 else alpha * o + s @ v"),
        )
        verdict = judged(place)
        assert (verdict.score, passed(verdict)) == (2, (True, False, True))
        assert "two tiles of one kind (" in verdict.parts[1].says
        assert "a body may depend only on its tile's size, full, first and last" in verdict.parts[1].says

    def test_after_one_that_was_stopped_no_other_data_are_tried(self) -> None:
        trial, ran_on = drawn_trials(FLASH2, 0)[0], []

        def stopping(*_: object) -> None:
            ran_on.append(1)
            raise Stopped("no more")

        assert len(trial.data) > 1
        assert len(attempted(trial, stopping).runs) == len(ran_on) == 1
        assert len(attempted(trial, listing_attempt(flash2, trial)).runs) == len(trial.data)

    def test_who_left_a_loop_at_the_very_end_is_tried_on_all_data(self) -> None:
        """It has outputs, and those for the first data alone would give a naive exp the point for values."""
        trial = drawn_trials(FLASH2, 0)[0]
        leaving = listing_attempt(flash2, trial)

        def left(m: Machine, arrays: Sequence[Hbm], mask: Mask | None) -> None:
            leaving(m, arrays, mask)
            next(iter(m.tiles(4, 2)))

        tried = attempted(trial, left)
        assert tried.stop is not None
        assert len(tried.runs) == len(trial.data)

    def test_few_residents_are_listed(self) -> None:
        crowd = edited(
            (
                "    for i in m.tiles(N_q, Br):\n",
                "    for n in range(99): m.full(0.0, 1, 1, name=f'b{n}')\n    for i in m.tiles(N_q, Br):\n",
            )
        )
        says = judged(crowd).parts[1].says
        assert "b7" in says
        assert "b8" not in says
        assert "more" in says

    def test_the_budget_of_every_problem_counts(self) -> None:
        again = edited(
            ("    for i in m.tiles(N_q, Br):\n", "    for i in m.tiles(N_q, Br):\n        m.load(Q[i])\n    for i in m.tiles(N_q, Br):\n")
        )
        trials = drawn_trials(FLASH2, 0)
        for over in range(len(trials)):
            attempts = [listing_attempt(again if place == over else flash2, trial) for place, trial in enumerate(trials)]
            assert passed(judge_kernel(FLASH2, 0, attempts)) == (True, True, False)

    def test_unnamed_words_are_capped(self) -> None:
        hoard = edited(("o[...] = alpha * o + s @ v", "o[...] = alpha * o + s @ v + 0.0 * o + (0.0 * o + (0.0 * o + (0.0 * o + 0.0 * o)))"))
        verdict = judged(hoard)
        assert passed(verdict) == (True, False, None)
        assert "registers hold" in verdict.parts[1].says

    def test_copies_in_unnamed_values_do_not_outlive_their_tile(self) -> None:
        copies = edited(
            (
                "    for i in m.tiles(N_q, Br):\n",
                "    kept = [1.0 * m.load(K[j]) for j in m.tiles(N_k, Bc)]\n    for i in m.tiles(N_q, Br):\n",
            ),
            ("        for j in m.tiles(N_k, Bc):\n", "        for j, k in zip(m.tiles(N_k, Bc), kept):\n"),
            ("k, v = m.load(K[j]), m.load(V[j])", "v = m.load(V[j])"),
        )
        verdict = judged(copies)
        assert passed(verdict) == (None, False, None)
        assert "after a tile began or ended" in verdict.parts[1].says

    def test_an_array_of_its_own_is_told_and_nothing_of_it_counts(self) -> None:
        own = edited(("    (N_q, _), (N_k, d_v)", "    P = m.output('P', (1, 1), whole=False)\n    (N_q, _), (N_k, d_v)"))
        verdict = judged(own)
        assert passed(verdict) == (None, False, None)
        assert "HBM arrays of its own, P" in verdict.parts[1].says

    def test_misuse_is_a_reason_and_no_part_fails(self) -> None:
        verdict = judged(edited(("m.store(O[i], o / l_i)", "m.store(O[i], q @ q.T)")))
        assert passed(verdict) == (None, None, None)
        assert verdict.reason.startswith("BadInput: cannot store")

    @pytest.mark.parametrize(
        ("old", "new", "says"),
        [
            ("s.rowmax()", "s.max(axis=1)", "x.rowmax()"),
            ("s[...] = exp(", "s[...] = np.exp(", "exp, log and maximum of iosim.memory"),
            (', d_v, name="O_i")', ", d_v)", "m.full wants a name, as in name="),
            ("            k, v =", "            assert not j > i\n            k, v =", "a tile has no place"),
            ("m.store(O[i], o / l_i)", "O[:] = o / l_i", "m.store(C[i], value)"),
            ("m.full(0.0, i.size, d_v", "m.full(0.0, Br, d_v", "the last tile is short: use i.size and j.size"),
        ],
    )
    def test_what_beginners_do_is_told_with_what_would_work(self, old: str, new: str, says: str) -> None:
        verdict = judged(edited((old, new)))
        assert says in verdict.reason
        assert "\n" not in verdict.reason

    def test_a_sum_that_begins_at_a_number_is_told_to_be_given_room(self) -> None:
        verdict = judged(edited(('o = m.full(0.0, i.size, d_v, name="O_i")', "o = 0"), ("o[...] = alpha * o + s @ v", "o += s @ v")))
        assert "make it before the loop: c = m.full(0.0, rows, cols, name='c')" in verdict.parts[1].says

    def test_what_an_attempt_raises_itself_is_the_reason(self) -> None:
        def attempt(*_: object) -> None:
            raise Stopped("ended after 3 s", 7)

        verdict = judge_kernel(FLASH2, 0, [attempt] * 3)
        assert (verdict.score, verdict.reason, verdict.line, verdict.mistake) == (0, "ended after 3 s", 7, None)

    @pytest.mark.parametrize(
        ("error", "told", "rule", "room"),
        [
            (SramOverflow("full"), "SramOverflow: full", True, True), (DeadValue("gone"), "DeadValue: gone", True, False),
            (NotWritten("gap"), "NotWritten: gap", True, False), (BadInput("odd"), "BadInput: odd", False, False),
            (Stopped("ended"), "ended", False, False), (Refused("malformed", 3), "malformed", False, False),
            (Failed("DeadValue", "gone", (1, 2)), "DeadValue: gone", True, False),
            (Failed("KeyError", "two\nlines", (9,)), "KeyError: two lines", False, False), (Failed("X", "", ()), "X", False, False),
        ],
    )  # fmt: skip
    def test_errors_of_the_machine_are_rules_and_others_are_reasons(self, error: Any, told: str, rule: bool, room: bool) -> None:
        stop = stop_of(error)
        assert (stop.told, stop.rule, stop.room) == (told, rule, room)
        assert stop.line == getattr(error, "line", None)


class TestWords:
    def test_the_array_that_moved_too_often_is_named_in_passes(self) -> None:
        verdict = judged(edited(("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.load(V[j])\n")))
        assert passed(verdict)[::2] == (True, False)
        trial = drawn_trials(FLASH2, 0)[0]
        tiles = -(-trial.inputs["Q"][0] // int(trial.params["Br"]))
        assert f"V was read {2 * tiles} times over where {tiles} will do" in verdict.parts[2].says

    def test_passes_are_told_only_where_they_are_whole(self) -> None:
        trial = drawn_trials(FLASH2, 0)[0]
        run = ran(trial, listing_attempt(flash2, trial), trial.data[0])
        size = trial.inputs["Q"][0] * trial.inputs["Q"][1]
        twice, more = (replace(run, traffic={**run.traffic, "Q": (words, 0)}) for words in (2 * size, size + 3))
        assert too_often(FLASH2, trial, twice) == "Q was read 2 times over where once will do"
        assert too_often(FLASH2, trial, more) == f"of Q, {size + 3:,} words were read where {size:,} will do"

    def test_fewer_words_than_the_budget_pass(self) -> None:
        trials = [replace(trial, budget=trial.budget + 1) for trial in drawn_trials(FLASH2, 0)]
        assert judge_kernel(FLASH2, 0, [listing_attempt(flash2, trial) for trial in trials], trials=trials).passed
        short = [replace(trial, budget=trial.budget - 1) for trial in trials]
        strict = [replace(trial, budget=trial.budget - 1) for trial in short]
        verdict = judge_kernel(FLASH2, 0, [listing_attempt(flash2, trial) for trial in strict], trials=strict)
        assert passed(verdict) == (True, True, False)

    @given(seeds)
    def test_budget_room_and_bounds_come_from_roads_of_their_own(self, seed: int) -> None:
        for trial in drawn_trials(FLASH2, seed):
            problem, blocks = problem_of(trial)
            predicted = predict.predict("flash2", problem, blocks)
            assert trial.budget == sum(array.reads + array.writes for array in predicted.values())
            assert trial.sram == predict.residents("flash2", problem, blocks)
            assert trial.least is not None
            assert trial.best is not None
            assert trial.least <= trial.best <= trial.budget


def problem_of(trial: Trial) -> tuple[Attention, Blocks]:
    (n, d), (nk, dv) = trial.inputs["Q"], trial.inputs["V"]
    blocks = Blocks(min(int(trial.params["Br"]), n), min(int(trial.params["Bc"]), nk))
    return Attention(n, d, nk=nk, dv=dv, scale=float(trial.params["scale"])), blocks


class TestTrials:
    @given(seeds)
    def test_they_are_ragged_rectangular_and_huge(self, seed: int) -> None:
        whole, ragged, long = attention_trials(flash2, np.random.default_rng(seed), outputs=("O", "LSE"))
        (n, d), (nk, dv), rows, cols = ragged.inputs["Q"], ragged.inputs["V"], int(ragged.params["Br"]), int(ragged.params["Bc"])
        assert n % rows
        assert nk % cols
        assert n > nk > cols
        assert len({d, dv, rows, cols}) == 4
        assert whole.params["Br"] != whole.inputs["Q"][1]
        assert long.inputs["K"][0] > long.inputs["Q"][0]
        for trial in (whole, ragged, long):
            assert min(shape[1] for name, shape in trial.inputs.items() if name != "V") > 1
            usual, huge = (trial.params["scale"] * np.abs(np.asarray(np.matmul(data["Q"], data["K"].T))).max() for data in trial.data)
            assert usual < 50
            assert huge > 88.7  # where exp overflows in float32

    def test_the_same_seed_draws_the_same_numbers_and_another_one_others(self) -> None:
        one, same, other = (drawn_trials(FLASH2, seed)[1].data[0]["Q"] for seed in (3, 3, 4))
        assert np.array_equal(one, same)
        assert not np.array_equal(one.ravel()[:9], other.ravel()[:9])

    def test_causal_trials_have_rows_that_attend_to_nothing(self) -> None:
        def listing(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, *, Br: int, Bc: int, scale: float, mask: object) -> None:
            for i in m.tiles(O.shape[0], Br):
                m.store(O[i], m.full(scale, i.size, O.shape[1], name="O_i"))

        trials = attention_trials(listing, np.random.default_rng(0), causal=True)
        assert [trial.mask is not None and trial.mask.causal for trial in trials] == [True] * 3
        wanted, _ = trials[1].expected(trials[1].data[0])["O"]
        assert not wanted[0].any()
        assert wanted[-1].any()

    def test_counting_the_listing_is_what_running_it_counts(self) -> None:
        for trial in drawn_trials(FLASH2, 5):
            run = ran(trial, listing_attempt(flash2, trial), trial.data[1])
            counts = counted(flash2, trial)
            assert (run.words, run.peak, run.peak_unnamed) == (moved(counts), counts.peak_sram, counts.peak_unnamed)
            assert run.stop is None


class TestPicture:
    def moves_of(self, listing: Callable[..., object]) -> tuple[Trial, Sequence[Event]]:
        trial = drawn_trials(FLASH2, 0)[1]
        return trial, ran(trial, listing_attempt(listing, trial), trial.data[0]).moves

    def test_a_digit_a_tile(self) -> None:
        trial, moves = self.moves_of(flash2)
        rows, cols = -(-trial.inputs["Q"][0] // int(trial.params["Br"])), -(-trial.inputs["K"][0] // int(trial.params["Bc"]))
        found = {(panel.name, panel.way): panel.times.tolist() for panel in panels(trial, moves)}
        assert found == {
            ("Q", "read"): [[1] * rows], ("K", "read"): [[rows] * cols], ("V", "read"): [[rows] * cols],
            ("O", "written"): [[1] * rows], ("LSE", "written"): [[1] * rows],
        }  # fmt: skip
        assert f"K        read    {rows} passes     {str(rows) * cols}" in picture(trial, moves).splitlines()

    def test_also_where_the_run_was_stopped_and_where_nothing_moved(self) -> None:
        trial, moves = self.moves_of(edited(("m.store(O[i], o / l_i)", "m.store(O[i], q @ q.T)")))
        assert "Q        read" in picture(trial, moves)
        assert "; a digit says how often, · never\n" in picture(trial, moves)
        assert picture(trial, []).startswith("No tile moved")
        assert "<table" in picture_html(trial, [])

    @given(seeds, st.integers(1, 300), st.integers(1, 300), st.integers(0, 40))
    def test_it_stays_small_whatever_moved(self, seed: int, rows: int, cols: int, count: int) -> None:
        rng = np.random.default_rng(seed)
        trial = replace(drawn_trials(FLASH2, 0)[0], inputs={f"X{n}": (rows, cols) for n in range(5)})
        moves = [random_move(rng, rows, cols) for _ in range(count)]
        lines = picture(trial, moves).splitlines()
        assert len(lines) <= 20
        assert max(map(len, lines)) <= 100
        for panel in panels(trial, moves):
            assert panel.times.max() >= 1
        words = {name: sum(move.words for move in moves if move.name == name) for name in trial.inputs}
        drawn = {name: sum(panel.passes for panel in panels(trial, moves) if panel.name == name) for name in trial.inputs}
        assert all(drawn[name] * rows * cols == pytest.approx(words[name]) for name in words)

    def test_many_tiles_are_drawn_as_fewer(self) -> None:
        trial = replace(drawn_trials(FLASH2, 0)[0], inputs={"X": (95, 95)})
        moves = [Event("load", "X", ((row, row + 1), (col, col + 1)), 1, 4, 1 + (row == 94), 0) for row in range(95) for col in range(95)]
        title, *rows = picture(trial, moves).splitlines()
        assert [row[-48:] for row in rows] == ["1" * 48] * 4 + ["2" * 48]
        assert max(map(len, (title, *rows))) <= 100

    def test_signs_and_parts_of_a_pass_are_explained(self) -> None:
        trial = replace(drawn_trials(FLASH2, 0)[0], inputs={"X": (100, 1)})
        few, many = (Event("load", "X", ((0, 1), (0, 1)), 1, 4, times, 0) for times in (3, 12))
        assert picture(trial, [few]).splitlines()[0].endswith("how often, · never")
        assert "X        read    3 % of it" in picture(trial, [few])
        assert picture(trial, [many]).splitlines()[0].endswith("how often, · never, + 10 times or more")

    def test_names_are_escaped_in_html(self) -> None:
        trial = drawn_trials(FLASH2, 0)[0]
        drawn = picture_html(replace(trial, label="<script>"), [Event("load", "<b>", ((0, 1), (0, 1)), 1, 4, 1, 1)])
        assert "<script>" not in drawn
        assert "&lt;b&gt;" in drawn


def random_move(rng: np.random.Generator, rows: int, cols: int) -> Event:
    (top, bottom), (left, right) = (sorted(int(x) for x in rng.choice(size + 1, 2, replace=False)) for size in (rows, cols))
    return Event("load", f"X{rng.integers(5)}", ((top, bottom), (left, right)), (bottom - top) * (right - left), 4, 1, 0)


def test_a_mask_is_handed_to_the_attempt() -> None:
    trial = drawn_trials(FLASH2, 0)[1]
    masked = replace(trial, mask=replace(problem_of(trial)[0], causal=True))
    seen: list[object] = []

    def attempt(m: Machine, arrays: Sequence[Hbm], mask: object) -> None:
        seen.append(mask)
        raise BadInput("enough")

    stop = ran(masked, attempt, masked.data[0]).stop
    assert stop is not None
    assert stop.told == "BadInput: enough"
    assert seen != [None]
