"""Words over M in steps: who moves fewer, where that changes, and variants merged into one curve."""

from __future__ import annotations

import numpy as np

from iosim.predict.over_m import FAR, Steps, crossovers, leaders, lowest, versus


def steps(name: str, *pairs: tuple[int, int]) -> Steps:
    """A curve from (M, words)."""
    sram, words = (np.array(column, dtype=np.int64) for column in zip(*pairs, strict=True))
    return Steps(name, sram, words, np.arange(len(sram)), np.arange(len(sram)), np.zeros_like(sram))


def test_ties_and_who_does_not_fit() -> None:
    a, b = steps("a", (4, 9), (8, 5), (20, 1)), steps("b", (6, 9), (7, 5), (16, 4))
    assert [tuple(win) for win in versus(a, b)] == [(4, "a"), (6, None), (7, "b"), (8, None), (16, "b"), (20, "a")]
    assert [tuple(win) for win in crossovers(a, b)] == [tuple(win) for win in versus(a, b)][1:]
    assert [tuple(win) for win in leaders([a, b])] == [(4, "a"), (7, "b"), (8, "a"), (16, "b"), (20, "a")]
    assert a.words_at([3, 4, 19, 99]).tolist() == [FAR, 9, 5, 1]


def test_variants_are_merged_with_their_blocks() -> None:
    a, b = steps("a", (4, 9), (8, 5), (20, 1)), steps("b", (6, 8), (16, 4))
    merged = lowest("both", [a, b])
    assert merged.words_at(range(3, 22)).tolist() == [
        min(pair) for pair in zip(a.words_at(range(3, 22)), b.words_at(range(3, 22)), strict=True)
    ]
    assert list(zip(merged.sram.tolist(), merged.variant.tolist(), merged.rows.tolist(), strict=True)) == [
        (4, 0, 0), (6, 1, 0), (8, 0, 1), (16, 1, 1), (20, 0, 2),
    ]  # fmt: skip


def test_of_variants_that_move_as_much_the_first_is_taken() -> None:
    a, b = steps("a", (4, 9), (8, 5)), steps("b", (4, 9), (6, 5))
    for pair in ([a, b], [b, a]):
        merged = lowest("both", pair)
        at = [int(merged.variant[merged.at(m)]) for m in (4, 9)]
        assert at == [0, 0]
