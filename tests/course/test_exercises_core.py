"""Every exercise of the course: its solution, its starter file, its mistakes and its text agree, since they have one source."""

from __future__ import annotations

import ast
import time
from dataclasses import replace

import pytest

from iosim.core.errors import BadInput
from iosim.course import text
from iosim.course.catalogue import EXERCISES, exercise, exercise_of
from iosim.course.here import Shown, check
from iosim.course.spec import Exercise, Mistake
from iosim.course.text import about, built, file_name, lines, mistaken, page, signature, solution_source, starter

ALL = list(EXERCISES.values())
MISTAKES = [(one, mistake) for one in ALL for mistake in one.mistakes]
every = pytest.mark.parametrize("asked", ALL, ids=lambda one: one.name)
SEEDS = (0, 1)


def checked(asked: Exercise, source: str, seed: int) -> Shown:
    """The verdict on a source text, which must come within two seconds of work, whatever else the machine does."""
    function, start = built(source, asked.function), time.process_time()
    shown = check(function, asked, seed=seed)
    assert time.process_time() - start < 2
    return shown


@every
@pytest.mark.parametrize("seed", SEEDS)
def test_the_solution_gets_full_marks(asked: Exercise, seed: int) -> None:
    shown = checked(asked, solution_source(asked), seed)
    assert shown.passed, str(shown)
    assert (shown.verdict.mistake, shown.verdict.reason) == (None, "")


@every
def test_the_starter_gets_nothing_and_says_what_is_to_be_done(asked: Exercise) -> None:
    verdict = checked(asked, starter(asked), 0).verdict
    assert (verdict.score, verdict.mistake) == (0, None)
    assert "NotImplementedError" in verdict.reason
    assert asked.name in verdict.reason
    assert all(part.passed is None for part in verdict.parts)


def fails_as_named(asked: Exercise, mistake: Mistake, seed: int) -> None:
    shown = checked(asked, mistaken(asked, mistake), seed)
    parts = {part.name: part.passed for part in shown.verdict.parts}
    assert parts[mistake.fails] is False, str(shown)
    assert mistake.fails != "words" or parts["values"] is True
    assert not shown.passed
    assert (shown.verdict.mistake, shown.verdict.advice) == (mistake.name, mistake.says), str(shown)


each_mistake = pytest.mark.parametrize(("asked", "mistake"), MISTAKES, ids=[f"{one.name}: {mistake.name}" for one, mistake in MISTAKES])


@each_mistake
def test_each_mistake_fails_the_named_part_and_is_recognised(asked: Exercise, mistake: Mistake) -> None:
    fails_as_named(asked, mistake, seed=0)


@pytest.mark.slow
@each_mistake
def test_whatever_the_inputs(asked: Exercise, mistake: Mistake) -> None:
    for seed in (1, 2):
        fails_as_named(asked, mistake, seed)


@every
def test_four_mistakes_or_more_each_with_a_name_and_advice_of_its_own(asked: Exercise) -> None:
    assert len(asked.mistakes) >= 4
    for said in ([mistake.name for mistake in asked.mistakes], [mistake.says for mistake in asked.mistakes]):
        assert len(set(said)) == len(said)


@every
def test_an_edit_that_does_not_match_once_is_refused(asked: Exercise) -> None:
    first = asked.mistakes[0]
    with pytest.raises(BadInput, match="matches 0 times"):
        mistaken(asked, replace(first, edits=(("no such text", ""),)))
    with pytest.raises(BadInput, match="it must match once"):
        mistaken(asked, replace(first, edits=((" ", ""),)))


@every
def test_the_page_says_what_is_needed(asked: Exercise) -> None:
    text, unwrapped = page(asked), " ".join(page(asked).split())
    for line in signature(asked).splitlines():
        assert line in text
    for said in (asked.learn, asked.formula, asked.paper, asked.why, asked.title, about(asked)):
        assert " ".join(said.split()) in unwrapped
    assert "There are 3 hints" in text
    assert f"iosim exercise check {file_name(asked)}" in unwrapped
    assert any(character.isdigit() for character in asked.why)
    assert not any(hint in unwrapped for hint in asked.hints)


@every
def test_the_starter_holds_the_text_and_not_the_solution(asked: Exercise) -> None:
    text, tree = starter(asked), ast.parse(starter(asked))
    assert text.startswith(asked.header)
    assert not text.startswith("\n")
    assert not solution_source(asked).startswith("\n")
    assert ("mask.hide(m, s, i, j)  " in text) is ("mask: Mask" in signature(asked))
    assert "can be imported." in text
    commented = [line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")]
    assert asked.title in " ".join(commented)
    assert signature(asked) in text
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == asked.function]
    assert [type(statement) for statement in function.body] == [ast.Expr, ast.Raise]
    assert 1 <= lines(asked) <= 40


def test_neither_comments_nor_blank_lines_count(monkeypatch: pytest.MonkeyPatch) -> None:
    source = 'def f(x):\n    """Twice."""\n    # why\n\n    y = x  # kept\n    return y + y\n'
    monkeypatch.setattr(text, "function_source", lambda _: source)
    assert lines(ALL[0]) == 2


@every
def test_text_fits_and_is_plain(asked: Exercise) -> None:
    assert all(len(line) <= 140 for line in starter(asked).splitlines())
    assert len({hint for hint in asked.hints if hint}) == 3


def test_numbers_names_functions_and_files_are_unique_and_in_order() -> None:
    assert [one.number for one in ALL] == sorted({one.number for one in ALL})
    assert list(EXERCISES) == [one.name for one in ALL]
    assert len({one.function for one in ALL}) == len({file_name(one) for one in ALL}) == len(ALL)


@every
def test_an_exercise_is_found_by_name_number_and_function(asked: Exercise) -> None:
    assert exercise(asked.name) is exercise(asked.number) is exercise(str(asked.number)) is exercise_of(asked.function) is asked


@pytest.mark.parametrize("name", ["", "nothing", "0", -1, 99])
def test_unknown_exercises_are_refused_naming_the_others(name: str | int) -> None:
    with pytest.raises(BadInput, match=f"there is no exercise .*1 {ALL[0].name}"):
        exercise(name)
    with pytest.raises(BadInput, match=f"no exercise asks for a function .*{ALL[0].function}"):
        exercise_of(str(name))
