"""Dropout of the float64 oracle: known random words, a rule that knows no tiles, the right rate, and what it does to attention."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim_reference import allowed, attention, kept, philox

Float = NDArray[np.float64]
ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)

SIZES = st.integers(1, 11)
SEEDS = st.integers(0, 2**64 - 1)
HEADS = st.integers(0, 2**32 - 1)
PROBABILITIES = st.sampled_from([0.0, 0.1, 0.5, 0.9])


def inputs(n: int, nk: int, seed: int = 0) -> tuple[Float, Float, Float]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 3)), rng.standard_normal((nk, 3)), rng.standard_normal((nk, 2))


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((ONES, ONES, ONES, ONES), (ONES, ONES), "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (*PI, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers_of_random123(counter: tuple[int, int, int, int], key: tuple[int, int], words: str) -> None:
    assert " ".join(f"{word:08x}" for word in philox(counter, key).tolist()) == words


def test_many_counters_are_many_single_ones() -> None:
    rows, columns = np.arange(5)[:, None], np.array([0, 7, ONES])
    words = philox((rows, columns, 3, 0), (1, 2))
    assert words.shape == (5, 3, 4)
    for i, j in np.ndindex(5, 3):
        np.testing.assert_array_equal(words[i, j], philox((i, int(columns[j]), 3, 0), (1, 2)))


@pytest.mark.parametrize("word", [-1, 2**32, 2**70, 0.5])
def test_words_have_32_bits(word: int) -> None:
    with pytest.raises(ValueError, match="counter needs whole numbers"):
        philox((0, word, 0, 0), (0, 0))
    with pytest.raises(ValueError, match="key needs whole numbers"):
        philox((0, 0, 0, 0), (0, word))


@given(SIZES, SIZES, PROBABILITIES, SEEDS, HEADS)
def test_each_pair_has_a_word_of_its_own(n: int, nk: int, p: float, seed: int, head: int) -> None:
    pairs = kept(n, nk, p, seed=seed, head=head)
    assert pairs.shape == (n, nk)
    for row, column in np.ndindex(n, nk):
        word = philox((row, column // 4, head, 0), (seed % 2**32, seed // 2**32))[column % 4]
        assert pairs[row, column] == (int(word) >= round(p * 2**32))


@given(SIZES, SIZES, SEEDS, st.integers(0, 11), st.integers(0, 11), SIZES, SIZES)
def test_no_blocking_changes_a_pair(n: int, nk: int, seed: int, start: int, stop: int, more: int, wider: int) -> None:
    whole = kept(n, nk, 0.5, seed=seed, head=1)
    np.testing.assert_array_equal(kept(n, nk, 0.5, seed=seed, head=1, rows=slice(start, stop)), whole[start:stop])
    np.testing.assert_array_equal(kept(n + more, nk + wider, 0.5, seed=seed, head=1)[:n, :nk], whole)


@pytest.mark.parametrize("p", [0.001, 0.1, 0.25, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("head", [0, 5])
def test_the_rate_is_within_five_standard_errors(p: float, head: int) -> None:
    pairs = kept(300, 301, p, seed=7, head=head)
    assert abs(pairs.mean() - (1 - p)) < 5 * math.sqrt(p * (1 - p) / pairs.size)


def test_rows_columns_heads_and_both_halves_of_the_seed_are_independent() -> None:
    this = kept(256, 256, 0.5, seed=1, head=2)
    others = [kept(256, 256, 0.5, seed=seed, head=head) for seed, head in [(2, 2), (1 + 2**32, 2), (2**32, 2), (1, 3), (2, 1)]]
    for other in [*others, this.T, np.roll(this, 1, 0), np.roll(this, 1, 1)]:
        assert abs((this == other).mean() - 0.5) < 5 * math.sqrt(0.25 / this.size)


def test_the_threshold_is_rounded_half_to_even() -> None:
    def dropped(word: float) -> int:
        return int((~kept(2**10, 2**10, word / 2**32, seed=1, head=0)).sum())

    words = philox((np.arange(2**10)[:, None], np.arange(2**8), 0, 0), (1, 0))
    least, second = np.sort(words, axis=None)[:2].tolist()
    assert [dropped(least + off) for off in (-0.75, 0.25, 0.75)] == [0, 0, 1]
    assert [dropped(second + off) for off in (-0.75, 0.25, 0.75)] == [1, 1, 2]
    assert [dropped(least + 0.5), dropped(second + 0.5)] == [least % 2, 1 + second % 2]
    assert {least % 2, second % 2} == {0, 1}


def test_both_ends_of_the_probabilities() -> None:
    assert kept(64, 64, 0.0, seed=0, head=0).all()
    assert not kept(64, 64, math.nextafter(1, 0), seed=0, head=0).any()


@pytest.mark.parametrize("p", [-0.1, 1.0, 2.0, math.nan])
@pytest.mark.parametrize("ask", [lambda p: kept(2, 2, p, seed=0, head=0), lambda p: attention(*inputs(2, 2), dropout=p)])
def test_refuses_what_is_no_probability(ask: object, p: float) -> None:
    assert callable(ask)
    with pytest.raises(ValueError, match=r"probability in \[0, 1\), not"):
        ask(p)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5])
def test_refuses_seeds_of_other_than_64_bits_even_where_nothing_is_dropped(seed: int) -> None:
    with pytest.raises(ValueError, match="seed must be a whole number"):
        kept(2, 2, 0.5, seed=seed, head=0)
    with pytest.raises(ValueError, match="seed must be a whole number"):
        attention(*inputs(2, 2), seed=seed)


def test_refuses_other_heads_and_sizes() -> None:
    with pytest.raises(ValueError, match="head must be a whole number"):
        kept(2, 2, 0.5, seed=0, head=2**32)
    with pytest.raises(ValueError, match="head must be a whole number"):
        attention(*inputs(2, 2), head=-1)
    with pytest.raises(ValueError, match="nk must be a whole number"):
        kept(2, 0, 0.5, seed=0, head=0)


@given(SIZES, SIZES, PROBABILITIES, SEEDS, HEADS, st.booleans())
def test_dropped_weights_are_0_and_the_others_grow(n: int, nk: int, p: float, seed: int, head: int, causal: bool) -> None:
    q, k, v = inputs(n, nk, seed)
    plain, dropped = attention(q, k, v, causal=causal), attention(q, k, v, causal=causal, dropout=p, seed=seed, head=head)
    weights = np.where(allowed(n, nk, causal=causal), np.exp(q @ k.T / math.sqrt(3)), 0.0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-300)
    expected = weights * kept(n, nk, p, seed=seed, head=head) / (1 - p) @ v
    np.testing.assert_allclose(dropped.output, expected, rtol=0, atol=1e-13 / (1 - p))
    np.testing.assert_array_equal(dropped.lse, plain.lse)
    assert dropped.max_score == plain.max_score


@given(SIZES, SIZES, SEEDS)
def test_dropping_nothing_changes_no_bit(n: int, nk: int, seed: int) -> None:
    q, k, v = inputs(n, nk)
    np.testing.assert_array_equal(attention(q, k, v, dropout=0.0, seed=seed, head=1).output, attention(q, k, v).output)


def test_the_mean_over_seeds_is_attention_without_dropout() -> None:
    q, k, v = inputs(3, 5)
    outputs = np.array([attention(q, k, v, dropout=0.4, seed=seed).output for seed in range(1000)])
    error = np.abs(outputs.mean(axis=0) - attention(q, k, v).output)
    assert (error < 5 * outputs.std(axis=0) / math.sqrt(len(outputs))).all()


def test_heads_are_numbered_through_the_batch_by_query_head() -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.random((2, 4, 5, 3)), rng.random((2, 2, 6, 3)), rng.random((2, 2, 6, 2))
    whole, later = attention(q, k, v, dropout=0.3, seed=9), attention(q[1:], k[1:], v[1:], dropout=0.3, seed=9, head=4)
    for b, h in np.ndindex(2, 4):
        one = attention(q[b, h], k[b, h // 2], v[b, h // 2], dropout=0.3, seed=9, head=4 * b + h)
        np.testing.assert_array_equal(whole.output[b, h], one.output)
    np.testing.assert_array_equal(whole.output[1:], later.output)


def test_many_row_blocks_drop_what_one_drops() -> None:
    q, k, v = inputs(700, 1501)
    whole = attention(q, k, v, dropout=0.5, seed=4).output
    for i in (0, 348, 349, 350, 699):
        keep = np.zeros((i + 1, 1501), bool)
        keep[i] = True
        row = attention(q[: i + 1], k, v, mask=keep, dropout=0.5, seed=4).output
        np.testing.assert_allclose(whole[i], row[i], rtol=0, atol=1e-13)
        assert not row[:i].any()
