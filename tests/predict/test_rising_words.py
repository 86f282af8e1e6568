"""The best blocks of a kernel whose words are not proved to fall as blocks grow: all are tried."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from iosim import Attention, BadInput, predict
from iosim.core.problem import Blocks
from iosim.core.units import Capacity
from iosim.predict.formulas import FORMULAS
from iosim.predict.sizes import Size, once
from iosim.predict.term import Term, read


@pytest.fixture
def rising(monkeypatch: pytest.MonkeyPatch) -> str:
    """flash2 that reads Q again Bc times: its words rise with Bc, and fall with Br."""
    right = FORMULAS["flash2"]

    def terms(shape: Any, visits: Any, options: Any) -> Iterator[Term]:
        yield from right.terms(shape, visits, options)
        yield read("Q", once(shape.Nq), Size("Bc", visits.cols), "again for every key of a tile")

    monkeypatch.setitem(FORMULAS, "flash2", replace(right, terms=terms, falls=False))
    return "flash2"


def test_the_best_blocks_are_the_best_of_all(rising: str) -> None:
    problem, size = Attention(n=24, d=4, nk=20), Capacity(300)
    found = predict.choose_blocks(rising, problem, size, "best")
    fitting = [Blocks(r, c) for r in range(1, 25) for c in range(1, 21) if predict.residents(rising, problem, Blocks(r, c)) <= 300]

    def words(blocks: Blocks) -> int:
        return sum(int(term.total) for term in predict.terms(rising, problem, blocks))

    assert words(found) == min(map(words, fitting))
    assert found.cols == 1


def test_too_many_blocks_are_refused(rising: str) -> None:
    with pytest.raises(BadInput, match="all would be tried"):
        predict.choose_blocks(rising, Attention(n=4096, d=4), Capacity(300), "best")
