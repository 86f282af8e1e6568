"""Every kernel of the course: its solution is right and its typical mistakes are wrong, whatever is drawn, submitted or in process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from iosim.course.catalogue import EXERCISES
from iosim.course.graded import job_of, replaying
from iosim.course.grading.caps import UNBOUNDED
from iosim.course.grading.recording import record
from iosim.course.judging import drawn_trials
from iosim.course.parts import rules, values, words
from iosim.course.runs import Ran, attempted, listing_attempt, ran
from iosim.course.spec import Exercise, Mistake, Trial
from iosim.course.text import built, mistaken, solution_source
from iosim.course.trials import Data

KERNELS = [one for one in EXERCISES.values() if one.kind == "kernel"]
MISTAKES = [(one, mistake) for one in KERNELS for mistake in one.mistakes]
WRONG_NUMBERS_ALONE = ("backward", "small-cache")  # whose mistakes in values move and hold what the solution does
every = pytest.mark.parametrize("asked", KERNELS, ids=lambda one: one.name)


@cache
def drawn(name: str, seed: int) -> Sequence[Trial]:
    """The problems of a seed, which remember their answers."""
    return [replace(trial, expected=remembered(trial)) for trial in drawn_trials(EXERCISES[name], seed)]


def remembered(trial: Trial) -> Callable[[Data], Any]:
    answers = [trial.expected(data) for data in trial.data]
    return lambda data: next(answer for answer, mine in zip(answers, trial.data, strict=True) if mine is data)


def parts_of(asked: Exercise, source: str, seed: int) -> dict[str, bool | None]:
    """Whether each part passes; nothing is recognised, which takes longest."""
    listing = built(source, asked.function)
    with np.errstate(all="ignore"):
        tried = [attempted(trial, listing_attempt(listing, trial)) for trial in drawn(asked.name, seed)]
        return {part.name: part.passed for part in (values(tried), rules(tried), words(asked, tried))}


@every
def test_the_solution_passes_in_every_part(asked: Exercise) -> None:
    for seed in range(1, 7):
        assert parts_of(asked, solution_source(asked), seed) == {"values": True, "rules": True, "words": True}, seed


@pytest.mark.parametrize(("asked", "mistake"), MISTAKES, ids=[f"{one.name}: {mistake.name}" for one, mistake in MISTAKES])
def test_each_mistake_fails_the_named_part(asked: Exercise, mistake: Mistake) -> None:
    for seed in range(1, 4):
        parts = parts_of(asked, mistaken(asked, mistake), seed)
        assert parts[mistake.fails] is False, parts
        if mistake.fails == "words":
            assert parts["values"] is True, parts
            assert parts["rules"] is True or asked.name == "backward", parts  # O, read again, takes room too
        if mistake.fails == "values" and asked.name in WRONG_NUMBERS_ALONE:
            assert (parts["rules"], parts["words"]) == (True, True), parts


@every
def test_there_are_mistakes_of_all_three_parts_and_advice_gives_no_line_away(asked: Exercise) -> None:
    assert len({mistake.name for mistake in asked.mistakes}) == len(asked.mistakes) >= 5
    assert {mistake.fails for mistake in asked.mistakes} == {"values", "rules", "words"}
    body = solution_source(asked).rsplit('"""', 1)[1]
    lines = {line.strip().partition("  #")[0] for line in body.splitlines() if len(line.strip()) > 12}
    for mistake in asked.mistakes:
        assert len(mistake.says) > 60, mistake.name
        assert not any(line in mistake.says for line in lines), mistake.name


# against the stand-in machine, as submissions run


def submitted(asked: Exercise, source: str, trial: Trial) -> Ran:
    return ran(trial, replaying(record(source, job_of(asked, trial)), UNBOUNDED), trial.data[0])


def in_process(asked: Exercise, source: str, trial: Trial) -> Ran:
    return ran(trial, listing_attempt(built(source, asked.function), trial), trial.data[0])


@every
def test_a_submission_does_what_it_does_in_process(asked: Exercise) -> None:
    for trial in drawn(asked.name, 1):
        for source in (solution_source(asked), *(mistaken(asked, mistake) for mistake in asked.mistakes)):
            assert_same(submitted(asked, source, trial), in_process(asked, source, trial))


def assert_same(there: Ran, here: Ran) -> None:
    assert (there.stop and there.stop.told, there.traffic, there.peak) == (here.stop and here.stop.told, here.traffic, here.peak)
    assert there.complete == here.complete
    assert all(np.array_equal(array, here.found[name], equal_nan=True) for name, array in there.found.items())
