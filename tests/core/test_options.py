"""Options: what each takes, what it refuses, and their values by name."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import BadInput, Option, Options
from iosim.core.options import OPTIONS

TEXT, FLAG, NUMBER = Option("mode", "a", "which way", ("a", "b")), Option("fast", True, "leave steps out"), Option("splits", 4, "how many")
KINDS = {"text": TEXT, "flag": FLAG, "number": NUMBER}
ODD: tuple[object, ...] = (None, 0, -1, 1.0, "c", "4", b"a", np.True_, [], {}, object, float("nan"))


TAKEN: list[tuple[Option, tuple[object, ...]]] = [(TEXT, ("a", "b")), (FLAG, (False, True)), (NUMBER, (1, 4, 10**30, np.int64(7)))]


@pytest.mark.parametrize(("option", "values"), TAKEN)
def test_an_option_takes_values_of_the_type_of_its_default(option: Option, values: tuple[object, ...]) -> None:
    assert [option.checked(value) for value in values] == [*values]
    assert all(type(option.checked(value)) is type(option.default) for value in values)


@pytest.mark.parametrize("option", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("value", ODD, ids=repr)
def test_any_other_value_is_refused_by_name(option: Option, value: object) -> None:
    with pytest.raises(BadInput, match=f"^{option.name} must be"):
        option.checked(value)


CONTRADICTIONS: dict[str, tuple[Callable[[], object], str]] = {
    "no name": (lambda: Option("", 1, ""), "''"),
    "a dash": (lambda: Option("dq-pass", 1, ""), "'dq-pass'"),
    "a number for a name": (lambda: Option(3, 1, ""), "3"),  # type: ignore[arg-type]
    "private": (lambda: Option("_x", 1, ""), "'_x'"),
    "a method of mappings": (lambda: Option("keys", 1, ""), "'keys'"),
    "a fraction": (lambda: Option("eps", 1e-6, ""), "1e-06"),  # type: ignore[arg-type]
    "nothing": (lambda: Option("eps", None, ""), "None"),  # type: ignore[arg-type]
    "zero, which is never accepted": (lambda: Option("splits", 0, ""), "0"),
    "a text without choices": (lambda: Option("mode", "a", ""), "'a'"),
    "a default that is no choice": (lambda: Option("mode", "c", "", ("a", "b")), "'c'"),
    "a text for its choices": (lambda: Option("mode", "ab", "", "ab"), "'ab'"),  # type: ignore[arg-type]
    "choices of another type": (lambda: Option("splits", 4, "", (2, "4")), "(2, '4')"),
    "true among numbers": (lambda: Option("splits", 4, "", (True, 4)), "(True, 4)"),
    "no help": (lambda: Option("splits", 4, None), "None"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("made", CONTRADICTIONS)
def test_a_declaration_that_contradicts_itself_is_refused(made: str) -> None:
    build, found = CONTRADICTIONS[made]
    with pytest.raises(BadInput) as caught:
        build()
    assert found in str(caught.value)
    assert "\n" not in str(caught.value)


def test_choices_may_be_a_list() -> None:
    assert hash(Option("mode", "a", "", ["a", "b"])) == hash(Option("mode", "a", "", ("a", "b")))  # type: ignore[arg-type]


@given(st.sampled_from([*OPTIONS.values()]), st.data())
def test_options_are_their_values_that_are_not_defaults(option: Option, data: st.DataObject) -> None:
    value = data.draw(st.sampled_from(option.choices))
    options = Options(**{option.name: value})
    assert getattr(options, option.name) == value
    assert dict(options) == ({} if value == option.default else {option.name: value})
    assert options == Options(**{option.name: value}) == pickle.loads(pickle.dumps(options))
    assert (options == Options()) == (value == option.default)
    assert options.but(**{option.name: option.default}) == Options()


def test_options_of_users_stand_beside_the_known_ones() -> None:
    options = Options(splits=4, skip=True, first_pass="create")
    assert (dict(options), options.splits, options.skip, options.unheard_of) == ({"splits": 4, "first_pass": "create"}, 4, True, None)
    assert hash(options) == hash(Options(first_pass="create", splits=4))


@pytest.mark.parametrize(("name", "value"), [("skip", 1), ("first_pass", "stash"), ("pack", "yes"), ("reuse", True)])
def test_a_known_option_is_checked_wherever_it_is_given(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        Options(**{name: value})
