"""Sizes as expressions: the same over whole numbers as Python's own arithmetic, and nothing else is read."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import BadInput
from iosim.core.expressions import evaluate

SIZES = {"n": 1000, "nk": 77, "d": 64, "dv": 3, "Br": 16, "Bc": 5, "splits": 4}
names = st.sampled_from([*SIZES])
leaves = names | st.integers(0, 10**20).map(str)


def joined(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.tuples(parts, st.sampled_from("+-*"), parts).map(lambda three: f"({' '.join(three)})")
    return binary | st.tuples(parts, names).map(lambda two: f"ceil({two[0]} / {two[1]})")


@given(st.recursive(leaves, joined, max_leaves=12))
def test_a_size_is_what_python_makes_of_it(text: str) -> None:
    found = evaluate(text, SIZES)
    assert type(found) is int
    assert found == eval(text, {"ceil": ceil}, {name: Fraction(size) for name, size in SIZES.items()})


ODD = (
    "", " ", "nn", "N", "n / 2", "n // 2", "n ** 2", "n % 2", "-n", "n.real", "n[0]", "n n", "n +", "1.5", "1e3", "True", "None", "'n'",
    "n and d", "n if d else nk", "ceil(n)", "ceil(n / 0)", "ceil(n / (d - d))", "ceil(n, d)", "ceil(n // d)", "floor(n / d)", "max(n, d)",
    "lambda: n", "(n := 3)", "__import__('os')", "n; d", "n\nd", "n # rows\n+", "\0", "१ * n", "²",
    "n" * 10**6, "n" + "+n" * 10**4, "(" * 500 + "n" + ")" * 500,
)  # fmt: skip


@pytest.mark.parametrize("text", [*ODD, 5, None, ("n",)], ids=lambda text: repr(text)[:20])
def test_anything_else_is_refused_with_what_would_work(text: str) -> None:
    with pytest.raises(BadInput) as caught:
        evaluate(text, SIZES)
    assert all(name in str(caught.value) for name in SIZES)


def test_over_symbols_it_is_a_formula() -> None:
    sympy = pytest.importorskip("sympy")
    n, b = sympy.symbols("n b", integer=True, positive=True)
    assert evaluate("2 * n + ceil(n / b)", {"n": n, "b": b}).subs({n: 10, b: 4}) == 23
