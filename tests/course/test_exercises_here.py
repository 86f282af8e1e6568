"""iosim.exercises.check: the verdict on one's own function, in this process, as text and as HTML."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim.course.catalogue import exercise
from iosim.course.exercises.e01_softmax.source import softmax
from iosim.course.exercises.e08_flash2.source import flash2
from iosim.course.shown import MARKS
from iosim.course.spec import FunctionCheck, Given
from iosim.course.text import built, mistaken, solution_source, starter
from iosim.exercises import check
from iosim.memory import Hbm, Machine

SOFTMAX, FLASH2 = exercise("softmax"), exercise("flash2")


def edited(old: str, new: str) -> Callable[..., Any]:
    source = solution_source(FLASH2)
    assert source.count(old) == 1
    return built(source.replace(old, new), "flash2")


def parts(shown: object) -> list[str]:
    return [line[0] for line in str(shown).splitlines() if line[0] in MARKS.values()]


def test_the_exercise_is_found_by_the_name_of_the_function() -> None:
    assert check(flash2).verdict.exercise == "flash2"
    assert check(softmax).verdict.exercise == "softmax"


@pytest.mark.parametrize("asked", [8, "8", "flash2", FLASH2])
def test_or_is_named(asked: Any) -> None:
    assert check(functools.partial(flash2), asked).passed


def test_what_cannot_be_checked_is_refused_in_one_line() -> None:
    for wrong, says in (
        (3, "check takes the function that you wrote, not int"), (sorted, "no exercise asks for a function 'sorted'"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=says) as caught:
            check(wrong)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value)


def test_seeds_come_from_the_system_and_are_recorded() -> None:
    drawn = {check(softmax).verdict.seed for _ in range(4)}
    assert len(drawn) > 1
    wrong = built(mistaken(SOFTMAX, SOFTMAX.mistakes[3]), "softmax")
    shown = check(wrong)
    assert str(check(wrong, seed=shown.verdict.seed)) == str(shown)
    assert f"seed {shown.verdict.seed}" in str(shown)


def test_the_text_has_three_parts_a_picture_and_no_line_that_is_too_long() -> None:
    text = str(check(flash2, seed=1))
    assert parts(text) == ["✔"] * 3
    for said in (
        "flash2: 3 of 3 points",
        "values match",
        "memory rules kept",
        "words moved",
        "best known",
        "lower bound",
        "Tiles that moved",
    ):
        assert said in text
    assert max(map(len, text.splitlines())) <= 100
    assert "seed" not in text


def test_a_known_mistake_is_named_with_advice_as_text_and_as_html() -> None:
    shown = check(built(mistaken(FLASH2, FLASH2.mistakes[0]), "flash2"), seed=1)
    for text in (str(shown), shown._repr_html_()):
        assert "A known mistake, rescale of O missing" in text
        assert "Tiles that moved" in text
    assert shown._repr_html_().count("<table") == shown._repr_html_().count("</table>") > 3
    assert repr(shown) == str(shown)


def test_no_tick_stands_beside_no_point() -> None:
    shown = check(built(mistaken(FLASH2, FLASH2.mistakes[0]), "flash2"), seed=1)
    assert [part.passed for part in shown.verdict.parts] == [False, True, True]
    assert parts(shown) == ["✘", "–", "–"]
    assert str(shown).count("counts once the values match; now") == 2
    assert "✔" not in shown._repr_html_()
    assert "The same inputs again: --seed 1\n" in str(shown)
    assert "The same inputs again: seed=1<" in shown._repr_html_()


def test_a_kernel_that_moved_nothing_has_no_picture() -> None:
    shown = check(built(starter(FLASH2), "flash2"))
    assert "tile moved" not in str(shown)
    assert "<caption" not in shown._repr_html_()


def test_whole_numbers_of_numpy_are_numbers() -> None:
    blocks = exercise("blocks")
    right = built(solution_source(blocks), blocks.function)
    assert check(lambda *sizes: tuple(map(np.int32, right(*sizes))), "blocks").passed
    assert "is a float" in check(lambda *sizes: tuple(map(float, right(*sizes))), "blocks").verdict.parts[0].says


def test_what_a_function_raises_is_told_with_its_line() -> None:
    def softmax(x: Any) -> Any:
        """A division by zero, two lines below."""
        return 1 // 0

    verdict = check(softmax).verdict
    assert verdict.reason == "ZeroDivisionError: integer division or modulo by zero"
    assert verdict.line == softmax.__code__.co_firstlineno + 2
    assert f"Stopped in line {verdict.line}: ZeroDivisionError" in str(check(softmax))


def test_the_line_is_the_students_not_ours() -> None:
    source = solution_source(FLASH2)
    place = source.splitlines().index("            l_i[...] = alpha * l_i + s.rowsum()") + 1
    for wrong, reason in (("alpha * l_i + s.rowsums()", "AttributeError"), ("alpha * l_i + s", "BadInput")):
        verdict = check(edited("alpha * l_i + s.rowsum()", wrong)).verdict
        assert verdict.line == place
        assert verdict.reason.startswith(reason)
        assert parts(check(edited("alpha * l_i + s.rowsum()", wrong))) == ["–"] * 3


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (None, "it returned nothing"),
        ([1.0], "a value of type list; 2 results are wanted, a tuple: return a, b"),
        ({}, "a value of type dict"),
        ((1.0, "x"), "a value of type tuple"),
    ],
)
def test_results_that_are_no_arrays_are_told(returned: object, reason: str) -> None:
    verdict = check(lambda _: returned, "softmax").verdict
    assert (verdict.score, reason in verdict.reason) == (0, True)


def test_sys_exit_ends_the_answer_not_the_notebook() -> None:
    def leave(*_: object, **__: object) -> None:
        raise SystemExit(0)

    for asked in ("softmax", "flash2"):
        assert check(leave, asked).verdict.reason == "SystemExit: 0"


def test_an_interrupt_reaches_the_notebook() -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    for asked in ("softmax", "flash2"):
        with pytest.raises(KeyboardInterrupt):
            check(interrupted, asked)


def test_a_function_gets_copies() -> None:
    def destructive(x: Any) -> Any:
        found = softmax(x.copy())
        x[...] = 0.0
        return found

    def draw(rng: np.random.Generator) -> list[Given]:
        x = rng.standard_normal((3, 5))
        return [Given("once", (x,)), Given("again", (x,))]

    assert isinstance(SOFTMAX.check, FunctionCheck)
    assert check(destructive, replace(SOFTMAX, check=replace(SOFTMAX.check, draw=draw))).passed


@pytest.mark.parametrize("guard", ["m.mode == 'execute'", "m.mode != 'execute'"])
def test_a_kernel_that_behaves_otherwise_when_it_is_only_counted_is_caught(guard: str) -> None:
    shown = check(
        edited("            m_i[...] = m_new\n", f"            m_i[...] = m_new\n            if {guard}: m.store(O[i], o)\n"), seed=1
    )
    assert shown.verdict.parts[0].passed is True
    assert shown.verdict.parts[1].passed is False
    assert re.search(r"O moves [\d,]+ words, but [\d,]+ when the kernel is only counted", shown.verdict.parts[1].says)


def test_a_body_that_depends_on_which_turn_it_is_is_caught() -> None:
    turns = iter(range(10**9))

    def turning(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, *, Br: int, Bc: int, scale: float) -> None:
        flash2(m, Q, K, V, O, LSE, Br=Br, Bc=Bc, scale=scale)
        for j in m.tiles(K.shape[0], Bc):
            if next(turns) % 2:
                m.load(K[j])

    shown = check(turning, "flash2", seed=1)
    assert shown.verdict.parts[1].passed is False
    assert "counted" in shown.verdict.parts[1].says


def test_numbers_that_overflow_in_the_answer_raise_no_warning() -> None:
    def overflowing(x: Any) -> Any:
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), np.log(np.exp(x).sum(axis=1))

    with np.errstate(all="raise"):
        assert check(overflowing, "softmax").verdict.mistake == "maximum not subtracted"
