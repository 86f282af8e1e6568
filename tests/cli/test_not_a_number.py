"""In JSON and in CSV a value that is no number is told apart from one that nobody computed."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable

import pytest

from iosim.cli.output import as_csv, as_json

WRITTEN = {math.nan: "NaN", math.inf: "Infinity", -math.inf: "-Infinity"}


def strict(text: str) -> object:
    """A document as any reader of JSON takes it, who knows no NaN."""

    def refuse(constant: str) -> object:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("value", WRITTEN)
def test_each_has_a_word_of_its_own_wherever_it_stands(value: float) -> None:
    word = WRITTEN[value]
    assert strict(as_json({"a": value, "b": [value, (value,)], "c": {"d": value}})) == {"a": word, "b": [word, [word]], "c": {"d": word}}
    assert float(word) == value or math.isnan(value)
    (row,) = csv.DictReader(io.StringIO(as_csv([{"a": value, "b": None}])))
    assert row["b"] == ""
    assert str(float(row["a"])) == str(value)


def test_what_was_not_computed_is_null() -> None:
    assert strict(as_json({"a": None, "b": 2**70, "c": 0.5})) == {"a": None, "b": 2**70, "c": 0.5}


def test_an_error_that_is_no_number_is_not_like_one_that_was_not_measured(called: Callable[[str], tuple[int, str, str]]) -> None:
    line = "run flash2 --n 16 --d 4 --scale 1e300 --json"
    status, out, err = called(line)
    executed = json.loads(out)
    assert (status, executed["max_error"], executed["errors"]["O"], "nan" in err) == (1, "NaN", "NaN", True)
    status, out, _ = called(f"{line} --no-execute")
    counted = json.loads(out)
    assert (status, counted["max_error"], counted["errors"]) == (0, None, {})
    assert executed.keys() == counted.keys()
