"""Dropout: Philox's words, and a mask that depends on nothing but the pair, the seed and the head."""

from __future__ import annotations

import math
import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Bool
from iosim.core.masks.dropout import Keep, checked_p
from iosim.core.masks.philox import philox4x32
from iosim_reference import dropout as reference

U32, U64 = 2**32 - 1, 2**64 - 1
Four = tuple[int, int, int, int]

words = st.integers(0, U32)
keys = st.tuples(words, words)
counters = st.tuples(words, words, words, words)
probabilities = st.floats(0, 1, exclude_max=True)
keeps = st.builds(Keep, probabilities, st.integers(0, U64), words)
sizes = st.integers(1, 40)

KNOWN = {  # counter, key, output: Random123, known answers of philox4x32 with 10 rounds
    "zeros": ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": ((U32, U32, U32, U32), (U32, U32), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    "pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}


def plain(counter: Four, key: tuple[int, int]) -> Four:
    """Philox4x32-10 on Python's integers, a line for each of the paper's."""
    a, b, c, d = counter
    k, q = key
    for _ in range(10):
        high, low = divmod(0xD2511F53 * a, 2**32)
        top, bottom = divmod(0xCD9E8D57 * c, 2**32)
        a, b, c, d = top ^ b ^ k, bottom, high ^ d ^ q, low
        k, q = (k + 0x9E3779B9) % 2**32, (q + 0xBB67AE85) % 2**32
    return a, b, c, d


def word(keep: Keep, row: int, col: int) -> int:
    """The random word of one pair."""
    return plain((row % 2**32, col // 4 % 2**32, keep.head, 0), (keep.seed % 2**32, keep.seed // 2**32))[col % 4]


def mask(keep: Keep, rows: range | list[int], cols: range | list[int]) -> Bool:
    """Call the rule as a kernel does."""
    return keep(np.array(rows, np.int64)[:, None], np.array(cols, np.int64)[None, :])


def within(rate: float, expected: float, samples: int) -> bool:
    """Whether ``rate`` is within five standard errors of ``expected``: 1 in 1.7 million fair seeds would not be."""
    return abs(rate - expected) <= 5 * math.sqrt(expected * (1 - expected) / samples)


# The words


@pytest.mark.parametrize("name", KNOWN)
def test_known_answers(name: str) -> None:
    counter, key, expected = KNOWN[name]
    assert plain(counter, key) == expected
    assert tuple(int(x) for x in philox4x32(*counter, key=key)) == expected


@given(st.lists(counters, min_size=1, max_size=8), keys)
def test_words_are_those_of_plain_integers(given_counters: list[Four], key: tuple[int, int]) -> None:
    c0, c1, c2, c3 = np.array(given_counters, np.uint64).T
    found = philox4x32(c0, c1, c2, c3, key=key)
    assert [tuple(int(x) for x in four) for four in zip(*found, strict=True)] == [plain(counter, key) for counter in given_counters]


@given(st.lists(words, max_size=5), st.lists(words, max_size=5), words, words, keys)
def test_counters_broadcast(rows: list[int], cols: list[int], c2: int, c3: int, key: tuple[int, int]) -> None:
    found = philox4x32(np.array(rows, np.int64)[:, None], np.array(cols, np.int64), c2, c3, key=key)
    assert {(x.shape, x.dtype) for x in found} == {((len(rows), len(cols)), np.dtype(np.uint32))}
    for i, j in np.ndindex(len(rows), len(cols)):
        assert tuple(int(x[i, j]) for x in found) == plain((rows[i], cols[j], c2, c3), key)


def test_scalar_counters_give_arrays() -> None:
    assert all(isinstance(x, np.ndarray) and x.dtype == np.uint32 for x in philox4x32(1, 2, 3, 4, key=(5, 6)))


def test_counters_are_left_alone() -> None:
    counter = np.arange(5, dtype=np.uint64)
    philox4x32(counter, counter, counter, counter, key=(1, 2))
    assert counter.tolist() == [0, 1, 2, 3, 4]


# The rule


@given(keeps, st.lists(st.integers(0, U32), max_size=5), st.lists(st.integers(0, 2**34 - 1), max_size=9))
def test_a_pair_is_kept_by_its_own_word(keep: Keep, rows: list[int], cols: list[int]) -> None:
    """Any rows and columns: unsorted, repeated, with gaps, none at all."""
    found = mask(keep, rows, cols)
    assert found.dtype == np.bool_
    assert found.shape == (len(rows), len(cols))
    assert found.tolist() == [[word(keep, row, col) >= keep.threshold for col in cols] for row in rows]


@given(keeps, st.integers(-(2**33), 2**35), st.integers(-9, 9), st.integers(1, 20))
def test_a_run_of_columns_starts_anywhere(keep: Keep, row: int, start: int, count: int) -> None:
    for first in (start, start + 2**34):
        cols = range(first, first + count)
        assert mask(keep, [row], cols).tolist() == [[word(keep, row, col) >= keep.threshold for col in cols]]


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
def test_indices_of_any_integer_type(dtype: type[np.integer]) -> None:
    keep, rows, cols = Keep(0.5, 1, 2), [3, 200], [254, 255, 0, 1]
    found = keep(np.array(rows, dtype)[:, None], np.array(cols, dtype)[None, :])
    assert (found == mask(keep, rows, cols)).all()


@given(keeps, sizes, sizes, st.data())
def test_tiles_in_any_order_make_the_whole(keep: Keep, n: int, nk: int, data: st.DataObject) -> None:
    cut_rows, cut_cols = (sorted({0, size, *data.draw(st.sets(st.integers(0, size)))}) for size in (n, nk))
    tiles = [(range(*r), range(*c)) for r in pairwise(cut_rows) for c in pairwise(cut_cols)]
    whole = np.zeros((n, nk), bool)
    for rows, cols in data.draw(st.permutations(tiles)):
        whole[rows.start : rows.stop, cols.start : cols.stop] = mask(keep, rows, cols)
    assert (whole == mask(keep, range(n), range(nk))).all()


@given(keeps, sizes, st.permutations(range(1, 39)))
def test_columns_in_any_order(keep: Keep, n: int, order: list[int]) -> None:
    """With the first and the last in their places too, where a glance at the ends would take them for a run."""
    for cols in (order, [0, *order, 39]):
        assert (mask(keep, range(n), cols) == mask(keep, range(n), range(40))[:, cols]).all()


@given(st.integers(0, U64), words, st.integers(0, 2**20), st.integers(0, 2**20))
def test_the_threshold_itself_is_kept(seed: int, head: int, row: int, col: int) -> None:
    drawn = word(Keep(0, seed, head), row, col)
    assert mask(Keep(drawn / 2**32, seed, head), [row], [col]).all()
    assert drawn == U32 or not mask(Keep((drawn + 1) / 2**32, seed, head), [row], [col]).any()


@pytest.mark.parametrize(
    ("p", "threshold"),
    [(0, 0), (0.5, 2**31), (0.1, 429496730), (0.5 / 2**32, 0), (1.5 / 2**32, 2), (2.5 / 2**32, 2), (math.nextafter(1, 0), 2**32)],
)
def test_halves_round_to_even(p: float, threshold: int) -> None:
    assert Keep(p, 0, 0).threshold == threshold


@given(probabilities, probabilities, st.integers(0, U64), words)
def test_a_larger_p_keeps_fewer_of_the_same(p: float, q: float, seed: int, head: int) -> None:
    more, fewer = (mask(Keep(x, seed, head), range(8), range(8)) for x in sorted((p, q)))
    assert (more | ~fewer).all()


@given(st.integers(0, U64), words)
def test_the_ends(seed: int, head: int) -> None:
    assert mask(Keep(0, seed, head), range(9), range(9)).all()
    assert not mask(Keep(math.nextafter(1, 0), seed, head), range(9), range(9)).any()


@given(keeps, st.sets(st.integers(0, 60)))
def test_rising_columns_with_gaps(keep: Keep, chosen: set[int]) -> None:
    cols = sorted(chosen)
    assert (mask(keep, range(3), cols) == mask(keep, range(3), range(61))[:, cols]).all()


@given(keeps, sizes, sizes, sizes)
def test_the_reference_keeps_the_same_pairs(keep: Keep, n: int, nk: int, first: int) -> None:
    """Bit for bit, of the whole problem and from any row on."""
    assert reference.threshold(keep.p) == keep.threshold
    for rows in (range(n), range(min(first, n - 1), n)):
        expected = reference.kept(n, nk, keep.p, seed=keep.seed, head=keep.head, rows=slice(rows.start, rows.stop))
        assert np.array_equal(mask(keep, rows, range(nk)), expected)


# The statistics, of seeds chosen once


@pytest.mark.parametrize("p", [0.01, 0.1, 0.25, 0.5, 0.9, 0.999])
def test_keep_rate(p: float) -> None:
    keep = mask(Keep(p, 20220527, 7), range(1024), range(1024))
    assert within(float(keep.mean()), 1 - p, keep.size)
    for lane in range(4):
        assert within(float(keep[:, lane::4].mean()), 1 - p, keep.size // 4)


@pytest.mark.parametrize(
    ("seed", "head", "down", "right"),
    [(2, 0, 0, 0), (1 + 2**32, 0, 0, 0), (1 + 2**63, 0, 0, 0), (1, 1, 0, 0), (1, 2**31, 0, 0), (1, 0, 1, 0), (1, 0, 0, 1), (1, 0, 0, 4)],
)
def test_other_seeds_heads_and_places_agree_by_chance_alone(seed: int, head: int, down: int, right: int) -> None:
    """At p = 1/2 two independent masks say the same of half the pairs."""
    one = mask(Keep(0.5, 1, 0), range(512), range(512))
    other = mask(Keep(0.5, seed, head), range(down, 512 + down), range(right, 512 + right))
    assert within(float((one == other).mean()), 0.5, one.size)


# The values


@given(probabilities)
def test_scale(p: float) -> None:
    assert Keep(p, 0, 0).scale == 1 / (1 - p)


def test_numpy_numbers_become_pythons() -> None:
    keep = Keep(np.float32(0.25), np.uint64(U64), np.int8(3))  # type: ignore[arg-type]  # taken as they come
    assert keep == Keep(0.25, U64, 3)
    assert {type(keep.p), type(keep.seed), type(keep.head)} == {float, int}
    assert type(checked_p(0)) is float
    assert pickle.loads(pickle.dumps(keep)) == keep


@pytest.mark.parametrize("p", [1, -0.1, 1.5, math.nan, math.inf, -math.inf, 10**400, True, False, np.True_, "0.1", None, 0.1j, [0.1]])
def test_bad_p(p: float) -> None:
    asked = f"the dropout probability must be a number from 0 to below 1, not {p!r}"
    for build in (checked_p, lambda p: Keep(p, 0, 0)):
        with pytest.raises(BadInput, match=f"^{re.escape(asked)}$"):
            build(p)


def test_a_wide_float_that_rounds_to_one_is_refused() -> None:
    p = np.nextafter(np.longdouble(1), np.longdouble(0))
    if float(p) < 1:
        pytest.skip("a long double is no wider than a float here")
    assert p < 1
    with pytest.raises(BadInput, match="from 0 to below 1"):
        checked_p(p)


@pytest.mark.parametrize("value", [-1, 0.5, 1.0, math.nan, True, "1", None])
@pytest.mark.parametrize("name", ["seed", "head"])
def test_bad_seed_or_head(name: str, value: int) -> None:
    with pytest.raises(BadInput, match=rf"^{name} must be a whole number >= 0, not {re.escape(repr(value))}$"):
        Keep(**{"p": 0.1, "seed": 0, "head": 0, name: value})  # type: ignore[arg-type]  # what is refused


@pytest.mark.parametrize(("name", "bits"), [("seed", 64), ("head", 32)])
def test_too_large_a_seed_or_head(name: str, bits: int) -> None:
    fields = {"p": 0.1, "seed": 0, "head": 0}
    assert getattr(Keep(**fields | {name: 2**bits - 1}), name) == 2**bits - 1
    with pytest.raises(BadInput, match=rf"^{name} must be a whole number below 2\*\*{bits}, not {2**bits}$"):
        Keep(**fields | {name: 2**bits})
