"""Every pattern keeps the tiles that its definition names, on any grid, and costs what it keeps."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim.core.masks.arrays import Bool
from iosim.core.masks.block import BlockMask, grid_shape

Tiling = tuple[int, int, int, int]

MILLION = (2**20, 2**20, 64, 64)

tilings = st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(1, 9), st.integers(1, 9))
reaches = st.integers(-1, 60)


def window_elements(n: int, nk: int, left: int, right: int) -> Bool:
    """Pair by pair, as the convention is written: i + nk - n - left <= j <= i + nk - n + right, -1 = unbounded."""
    distance = np.arange(nk)[None, :] - (np.arange(n)[:, None] + nk - n)
    return ((left < 0) | (distance >= -left)) & ((right < 0) | (distance <= right))


def full_tiles(tiling: Tiling, keeps: Callable[[int, int], bool]) -> BlockMask:
    """Full tiles (i, j) of the grid where ``keeps(i, j)``, asked one by one."""
    grid = grid_shape(*tiling)
    keep = np.array([keeps(i, j) for i, j in np.ndindex(grid)]).reshape(grid)
    return BlockMask.from_dense(keep, *tiling)


# Causal and window (H08): partial and full told apart


@given(tilings, reaches, reaches)
def test_window_is_its_element_mask(tiling: Tiling, left: int, right: int) -> None:
    n, nk, rows, cols = tiling
    elements = window_elements(n, nk, left, right)
    assert patterns.sliding_window(*tiling, left, right) == BlockMask.from_elements(elements, rows, cols)


@given(tilings)
def test_causal_is_its_element_mask(tiling: Tiling) -> None:
    n, nk, rows, cols = tiling
    assert patterns.causal(*tiling) == BlockMask.from_elements(np.tri(n, nk, nk - n, bool), rows, cols)


def test_window_of_one_to_the_left_keeps_nine_pairs_of_five() -> None:
    assert patterns.sliding_window(5, 5, 1, 1, 1, 0).nnz == 9


@pytest.mark.parametrize("left", [-1, 4, 5, 2**80])
def test_a_window_that_reaches_far_enough_is_causal(left: int) -> None:
    for rows, cols in ((1, 1), (2, 3), (8, 8)):
        assert patterns.sliding_window(5, 5, rows, cols, left, 0) == patterns.causal(5, 5, rows, cols)


def test_queries_before_the_first_key_keep_no_tile() -> None:
    assert patterns.causal(8, 4, 2, 2).states().tolist() == [[0, 0], [0, 0], [1, 0], [2, 1]]


# Patterns of full tiles


@given(tilings)
def test_dense_keeps_every_tile(tiling: Tiling) -> None:
    assert patterns.dense(*tiling) == full_tiles(tiling, lambda i, j: True)


@given(tilings, st.integers(0, 60))
def test_local_band_is_the_stretched_band(tiling: Tiling, radius: int) -> None:
    tr, tc = grid_shape(*tiling)
    size = min(tr, tc)
    assert patterns.local_band(*tiling, radius) == full_tiles(tiling, lambda i, j: abs(i * size // tr - j * size // tc) <= radius)


@given(st.integers(1, 20), st.integers(0, 25))
def test_local_band_of_a_square_grid_is_the_band(tiles: int, radius: int) -> None:
    tiling = (tiles * 4, tiles * 3, 4, 3)
    assert patterns.local_band(*tiling, radius) == full_tiles(tiling, lambda i, j: abs(i - j) <= radius)


@given(tilings, st.integers(1, 60))
def test_strided_keeps_equal_remainders(tiling: Tiling, stride: int) -> None:
    assert patterns.strided(*tiling, stride) == full_tiles(tiling, lambda i, j: i % stride == j % stride)


@given(tilings, st.integers(0, 60))
def test_global_tiles_are_the_first_rows_and_columns(tiling: Tiling, count: int) -> None:
    assert patterns.global_tiles(*tiling, count) == full_tiles(tiling, lambda i, j: min(i, j) < count)


@given(st.integers(0, 6), st.integers(1, 5), st.integers(1, 5), st.data())
def test_butterfly_joins_tiles_that_differ_in_one_bit(factors: int, rows: int, cols: int, data: st.DataObject) -> None:
    size = 2**factors
    clipped = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, cols - 1))
    tiling = (size * rows - clipped[0], size * cols - clipped[1], rows, cols)
    mask = patterns.butterfly(*tiling)
    assert mask == full_tiles(tiling, lambda i, j: (i ^ j).bit_count() <= 1)
    assert set(np.diff(mask.indptr)) == {factors + 1}
    assert mask.density == (factors + 1) / size


@given(tilings)
def test_butterfly_stretches_over_other_grids(tiling: Tiling) -> None:
    tr, tc = grid_shape(*tiling)
    size = max(2**k for k in range(7) if 2**k <= min(tr, tc))
    mask = patterns.butterfly(*tiling)
    assert mask == full_tiles(tiling, lambda i, j: ((i * size // tr) ^ (j * size // tc)).bit_count() <= 1)
    assert mask.dense().any(axis=0).all()
    assert mask.dense().any(axis=1).all()


@given(tilings, st.floats(0, 1), st.integers(0, 2**64))
def test_random_draws_every_tile_on_its_own(tiling: Tiling, density: float, seed: int) -> None:
    keep = np.random.default_rng(seed).random(grid_shape(*tiling)) < density
    assert patterns.random(*tiling, density, seed) == BlockMask.from_dense(keep, *tiling)


def test_random_goes_on_drawing_over_a_large_grid() -> None:
    tiling = (1100, 1000, 1, 1)  # more tiles than one draw of 2^20
    keep = np.random.default_rng(3).random((1100, 1000)) < 0.01
    assert patterns.random(*tiling, 0.01, 3) == BlockMask.from_dense(keep, *tiling)


@given(tilings)
def test_random_ends_at_nothing_and_at_everything(tiling: Tiling) -> None:
    assert patterns.random(*tiling, 0).nnz == 0
    assert patterns.random(*tiling, 1) == patterns.dense(*tiling)


# What is refused


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (partial(patterns.sliding_window, left=-2, right=0), "window left"),
        (partial(patterns.sliding_window, left=0, right=-2), "window right"),
        (partial(patterns.local_band, radius=-1), "radius"),
        (partial(patterns.strided, stride=0), "stride"),
        (partial(patterns.global_tiles, count=-1), "count"),
        (partial(patterns.random, density=1.01), "density"),
        (partial(patterns.random, density=-0.1), "density"),
        (partial(patterns.random, density=float("nan")), "density"),
        (partial(patterns.random, density=True), "density"),
        (partial(patterns.random, density=0.5, seed=-1), "seed"),
    ],
)
def test_values_that_make_no_sense_are_refused(build: Callable[..., BlockMask], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        build(8, 8, 2, 2)


@pytest.mark.parametrize("build", [patterns.causal, patterns.dense, partial(patterns.random, density=0.5)])
def test_a_mask_of_too_many_tiles_is_refused_before_it_is_made(build: Callable[..., BlockMask]) -> None:
    started = perf_counter()
    with pytest.raises(BadInput, match="larger blocks"):
        build(*MILLION)
    assert perf_counter() - started < 1


def test_random_refuses_a_grid_that_it_could_not_draw() -> None:
    with pytest.raises(BadInput, match="larger blocks"):
        patterns.random(2**20, 2**20, 8, 8, 1e-9)


# A million tokens: 16384 x 16384 tiles


@pytest.mark.parametrize(
    ("spec", "kept"),
    [
        ("butterfly", 2**14 * 15),
        ("local:1", 3 * 2**14 - 2),
        ("strided:1024", 2**14 * 16),
        ("global:1", 2 * 2**14 - 1),
        ("window:128,0", 2**14 + (2**14 - 1) + (2**14 - 2)),
        ("local:0+butterfly", 2**14 * 15),
    ],
)
def test_a_million_tokens_cost_what_they_keep(spec: str, kept: int) -> None:
    started = perf_counter()
    mask = patterns.parse(spec, *MILLION)
    assert perf_counter() - started < 1  # milliseconds, with room for a busy machine; a grid of 2^28 tiles takes longer
    assert mask.nnz == kept


# The command line's spelling


@given(tilings)
def test_every_pattern_has_a_spelling(tiling: Tiling) -> None:
    spelled = {
        "butterfly": patterns.butterfly(*tiling),
        "causal": patterns.causal(*tiling),
        "dense": patterns.dense(*tiling),
        "global:2": patterns.global_tiles(*tiling, 2),
        "local:1": patterns.local_band(*tiling, 1),
        "random:0.2": patterns.random(*tiling, 0.2, 0),
        "random:0.2,7": patterns.random(*tiling, 0.2, 7),
        "strided:3": patterns.strided(*tiling, 3),
        "window:-1,2": patterns.sliding_window(*tiling, -1, 2),
    }
    for spec, mask in spelled.items():
        assert patterns.parse(spec, *tiling) == mask
    assert {spec.partition(":")[0] for spec in spelled} == set(patterns.PATTERNS)


@given(tilings)
def test_plus_means_union(tiling: Tiling) -> None:
    union = patterns.local_band(*tiling, 1) | patterns.global_tiles(*tiling, 1) | patterns.causal(*tiling)
    assert patterns.parse("local:1+global:1 + causal", *tiling) == union


def test_a_path_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "local:1+mine.npy"
    np.save(path, np.eye(2, dtype=bool))
    assert patterns.parse(str(path), 4, 4, 2, 2).dense().tolist() == [[True, False], [False, True]]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("", "unknown block mask ''"),
        ("checkers", ", ".join(patterns.SPELLINGS)),
        ("local:1+", "unknown block mask ''"),
        ("local", "write local:RADIUS"),
        ("local:", "cannot read the number ''"),
        ("local:1,2", "write local:RADIUS"),
        ("local:one", "cannot read the number 'one'"),
        ("local:1.5", "radius"),
        ("causal:", "write causal"),
        ("window:3", "write window:LEFT,RIGHT"),
        ("random", "write random:DENSITY[,SEED]"),
        ("random:0.2,7,1", "write random:DENSITY[,SEED]"),
        ("random:nan", "density"),
        ("random:0.2,1.5", "seed"),
        ("absent.npy", "not a file"),
    ],
)
def test_a_spelling_that_makes_no_sense_is_refused_in_one_line(spec: str, reason: str) -> None:
    with pytest.raises(BadInput, match=re.escape(reason)) as caught:
        patterns.parse(spec, 8, 8, 2, 2)
    assert "\n" not in str(caught.value)
