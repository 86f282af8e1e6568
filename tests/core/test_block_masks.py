"""A block mask says of every tile whether it is empty, partial or full, however it was given."""

from __future__ import annotations

import pickle
import re
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Bool
from iosim.core.masks.block import BlockMask, grid_shape
from iosim.core.masks.npy import LARGEST, load_elements

Tiling = tuple[int, int, int, int]

tilings = st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9))


def states_of(elements: Bool, rows: int, cols: int) -> NDArray[np.uint8]:
    """0 empty, 1 partial, 2 full, by looking at every tile."""
    n, nk = elements.shape
    grid = np.zeros(grid_shape(n, nk, rows, cols), np.uint8)
    for i, j in np.ndindex(grid.shape):
        tile = elements[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
        grid[i, j] = int(tile.any()) + int(tile.all())
    return grid


@st.composite
def element_masks(draw: st.DrawFn, tiling: Tiling | None = None) -> tuple[Bool, int, int]:
    """An element mask with empty, partial and full tiles, and the Br, Bc of its tiles."""
    n, nk, rows, cols = tiling or draw(tilings)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    coarse = rng.integers(0, 3, grid_shape(n, nk, rows, cols)).repeat(rows, 0).repeat(cols, 1)[:n, :nk]
    return (coarse == 2) | (coarse == 1) & (rng.random((n, nk)) < 0.5), rows, cols


@st.composite
def block_masks(draw: st.DrawFn, tiling: Tiling | None = None) -> BlockMask:
    return BlockMask.from_elements(*draw(element_masks(tiling)))


def tiling_of(mask: BlockMask) -> dict[str, int]:
    return {"n": mask.n, "nk": mask.nk, "rows": mask.rows, "cols": mask.cols}


# H16: the shape of the grid


def test_causal_example_keeps_seven_of_nine_tiles() -> None:
    mask = BlockMask.from_elements(np.tri(5, 7, 2, bool), rows=2, cols=3)
    assert mask.grid == (3, 3)
    assert mask.states().tolist() == [[2, 1, 0], [2, 1, 0], [2, 2, 2]]
    assert (mask.nnz, mask.partial) == (7, 2)


@given(tilings, st.tuples(st.integers(1, 31), st.integers(1, 31)))
def test_another_grid_is_refused_with_both_shapes(tiling: Tiling, shape: tuple[int, int]) -> None:
    keep, wanted = np.ones(shape, bool), grid_shape(*tiling)
    if shape == wanted:
        assert BlockMask.from_dense(keep, *tiling).density == 1
        return
    with pytest.raises(BadInput) as caught:
        BlockMask.from_dense(keep, *tiling)
    assert str(shape) in str(caught.value)
    assert f"(ceil(n/Br), ceil(nk/Bc)) = {wanted}" in str(caught.value)


@given(tilings)
def test_grid_covers_the_pairs_and_no_more(tiling: Tiling) -> None:
    n, nk, rows, cols = tiling
    tr, tc = grid_shape(*tiling)
    assert (tr - 1) * rows < n <= tr * rows
    assert (tc - 1) * cols < nk <= tc * cols


def test_a_grid_beyond_int32_is_refused() -> None:
    with pytest.raises(BadInput, match="larger blocks"):
        grid_shape(2**31, 8, 1, 1)


# Elements, tiles and what is counted of them


@given(element_masks())
def test_a_tile_is_kept_for_any_pair_and_full_for_all(case: tuple[Bool, int, int]) -> None:
    expected = states_of(*case)
    mask = BlockMask.from_elements(*case)
    assert np.array_equal(mask.states(), expected)
    assert np.array_equal(mask.dense(), expected > 0)
    assert (mask.nnz, mask.partial) == ((expected > 0).sum(), (expected == 1).sum())
    assert np.array_equal(np.argwhere(expected), np.stack([mask.rows_of(), mask.indices], axis=1))


@given(block_masks())
def test_density_and_sparsity_are_fractions_that_sum_to_one(mask: BlockMask) -> None:
    assert mask.density == mask.dense().mean()
    assert 0 <= mask.sparsity <= 1
    assert mask.density + mask.sparsity == 1


@given(block_masks())
def test_filled_keeps_the_tiles_and_leaves_none_partial(mask: BlockMask) -> None:
    filled = mask.filled()
    assert filled.partial == 0
    assert filled == BlockMask.from_dense(mask.dense(), **tiling_of(mask))


@given(element_masks())
def test_zeros_and_ones_mean_what_booleans_mean(case: tuple[Bool, int, int]) -> None:
    elements, rows, cols = case
    assert BlockMask.from_elements(elements.astype(np.int8), rows, cols) == BlockMask.from_elements(*case)


@pytest.mark.parametrize("other", [np.array([[2, 0]]), np.array([[-1, 0]]), np.array([[1.0, 0.0]]), np.array([["1", "0"]]), [[1], [1, 0]]])
def test_other_numbers_are_refused(other: NDArray[np.int64]) -> None:
    with pytest.raises(BadInput):
        BlockMask.from_elements(other, 1, 1)
    with pytest.raises(BadInput):
        BlockMask.from_dense(other, 1, 2, 1, 1)


@pytest.mark.parametrize("shape", [(4,), (0, 3), (2, 2, 2)])
def test_element_masks_have_two_axes(shape: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match=re.escape(str(shape))):
        BlockMask.from_elements(np.ones(shape, bool), 2, 2)


# Layouts


@given(block_masks())
def test_csr_brings_the_mask_back(mask: BlockMask) -> None:
    indptr, indices = mask.to_csr()
    assert BlockMask.from_csr(indptr, indices, **tiling_of(mask), full=mask.full) == mask
    assert BlockMask.from_csr(indptr, indices, **tiling_of(mask)) == mask.filled()
    assert mask.nbytes("csr") == indptr.nbytes + indices.nbytes


@given(block_masks())
def test_flex_lists_partial_tiles_and_full_ones_apart(mask: BlockMask) -> None:
    arrays = mask.to_flex()
    for state, counts, columns in ((1, *arrays[:2]), (2, *arrays[2:])):
        for i, row in enumerate(mask.states()):
            chosen = np.flatnonzero(row == state).tolist()
            assert counts[i] == len(chosen)
            assert columns[i].tolist() == chosen + [0] * (mask.grid[1] - len(chosen))
    assert mask.nbytes("flex") == sum(array.nbytes for array in arrays)
    assert {array.dtype for array in arrays} == {np.dtype(np.int32)}


@given(block_masks(), st.booleans(), st.integers(0, 2**32))
def test_flex_brings_the_mask_back_whatever_the_order_and_the_padding(mask: BlockMask, one_head: bool, seed: int) -> None:
    rng, arrays = np.random.default_rng(seed), mask.to_flex()
    for counts, columns in (arrays[:2], arrays[2:]):
        for count, row in zip(counts, columns, strict=True):
            row[:count] = rng.permutation(row[:count])
            row[count:] = rng.integers(-9, 99, len(row) - count)
    given_arrays = [array[None, None] if one_head else array for array in arrays]
    assert BlockMask.from_flex(*given_arrays, **tiling_of(mask)) == mask


def test_flex_without_full_lists_is_partial_throughout() -> None:
    mask = BlockMask.from_flex([1, 2], [[1, 0], [0, 1]], n=4, nk=4, rows=2, cols=2)
    assert mask.states().tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        (([1, 2, 1], [[0, 1]] * 3), r"kv_num_blocks has shape \(3,\)"),
        (([1, 2], [[0], [1]]), r"kv_indices has shape \(2, 1\)"),
        (([[[1, 2]] * 2], [[[[0, 1]] * 2] * 2]), r"kv_num_blocks has shape \(1, 2, 2\)"),
        (([3, 0], [[0, 1]] * 2), "between 0 and Tc = 2"),
        (([-1, 0], [[0, 1]] * 2), "between 0 and Tc = 2"),
        (([1, 0], [[5, 1]] * 2), "column 5"),
        (([2, 0], [[1, 1]] * 2), "twice"),
        (([1, 0], [[1, 0]] * 2, [1, 0], [[1, 0]] * 2), "twice"),
        (([1, 0], [[1, 0]] * 2, [1, 0]), "both or neither"),
        (([1.0, 0.0], [[1, 0]] * 2), "integers"),
    ],
)
def test_flex_arrays_that_make_no_sense_are_refused(arrays: tuple[list[int], ...], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        BlockMask.from_flex(*arrays, n=4, nk=4, rows=2, cols=2)


@pytest.mark.parametrize(
    ("indptr", "indices", "full", "reason"),
    [
        ([0, 1], [0], None, re.escape("(ceil(n/Br), ceil(nk/Bc)) = (2, 3)")),
        ([0, 1, 2], [0, 3], None, r"column 3 .*= \(2, 3\)"),
        ([0, 1, 2], [0, -1], None, "column -1"),
        ([0, 2, 2], [1, 0], None, "tile row 0"),
        ([0, 0, 2], [1, 1], None, "tile row 1"),
        ([0, 2, 1], [0, 1], None, "rise from 0"),
        ([1, 1, 2], [0, 1], None, "rise from 0"),
        ([0, 1, 3], [0, 1], None, "rise from 0"),
        ([0, 1, 2], [0, 1], [True], "one flag each"),
        ([0, 1, 2], [0, 1], [2, 1], "0 and 1"),
        ([0, 1, 2], [[0, 1]], None, "one list"),
        ([0, 1, 2], [0.0, 1.0], None, "integers"),
        ([0, 1, 2], [True, False], None, "integers"),
    ],
)
def test_compressed_rows_that_make_no_sense_are_refused(
    indptr: list[int], indices: list[int], full: list[bool] | None, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        BlockMask.from_csr(indptr, indices, n=4, nk=5, rows=2, cols=2, full=full)


def test_a_row_may_begin_before_the_last_one_ended() -> None:
    mask = BlockMask.from_csr([0, 2, 2, 3], [1, 2, 0], n=6, nk=6, rows=2, cols=2)
    assert mask.dense().tolist() == [[False, True, True], [False] * 3, [True, False, False]]


def test_an_unknown_layout_names_the_known_ones() -> None:
    mask = BlockMask.from_dense([[True]], 4, 4, 4, 4)
    assert mask.nbytes("dense") == 1
    with pytest.raises(BadInput, match="dense, csr, flex"):
        mask.nbytes("coo")  # type: ignore[arg-type]


# Two masks


@given(st.data(), tilings)
def test_and_or_tile_by_tile(data: st.DataObject, tiling: Tiling) -> None:
    one, other = data.draw(block_masks(tiling)), data.draw(block_masks(tiling))
    assert np.array_equal((one & other).states(), np.minimum(one.states(), other.states()))
    assert np.array_equal((one | other).states(), np.maximum(one.states(), other.states()))


@given(st.lists(tilings, min_size=2, max_size=2, unique=True))
def test_masks_of_different_grids_do_not_combine(pair: list[Tiling]) -> None:
    one, other = (BlockMask.from_dense(np.ones(grid_shape(*tiling), bool), *tiling) for tiling in pair)
    assert one != other
    for combine in (BlockMask.__and__, BlockMask.__or__):
        with pytest.raises(BadInput, match=re.escape(f"{other.rows}x{other.cols} over {other.n}x{other.nk}")):
            combine(one, other)


@given(st.data(), tilings)
def test_equality_is_by_content(data: st.DataObject, tiling: Tiling) -> None:
    one, other = data.draw(block_masks(tiling)), data.draw(block_masks(tiling))
    assert (one == other) == np.array_equal(one.states(), other.states())
    twin = pickle.loads(pickle.dumps(one))
    assert twin == one
    assert hash(twin) == hash(one)
    assert one != "a block mask"


def test_arrays_are_copied_and_read_only() -> None:
    indices = np.array([0, 1])
    mask = BlockMask.from_csr([0, 1, 2], indices, 4, 4, 2, 2)
    indices[:] = 1
    assert mask.indices.tolist() == [0, 1]
    for array in (mask.indptr, mask.indices, mask.full):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_million_tokens_take_no_grid() -> None:
    tr = 2**14
    tracemalloc.start()
    mask = BlockMask.from_csr(np.arange(tr + 1), np.arange(tr), 2**20, 2**20, 64, 64)
    both = mask | mask & mask.filled()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert both == mask
    assert mask.density == 1 / tr
    assert mask.nbytes("dense") == tr * tr
    assert peak < 2**23  # a grid of bytes would take 2^28


# Files


@given(element_masks())
def test_files_hold_tiles_or_elements(tmp_path_factory: pytest.TempPathFactory, case: tuple[Bool, int, int]) -> None:
    path = tmp_path_factory.mktemp("masks") / "mask.npy"
    mask = BlockMask.from_elements(*case)
    for array, expected in ((case[0], mask), (np.asfortranarray(case[0]), mask), (mask.dense().astype(np.uint8), mask.filled())):
        np.save(path, array)
        assert BlockMask.load(path, **tiling_of(mask)) == expected
    np.save(path, case[0].astype(np.int64))
    assert np.array_equal(load_elements(str(path), *case[0].shape), case[0])


def write_oversize(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGEST + 1)


def write_truncated(path: Path) -> None:
    np.save(path, np.ones((4, 6), bool))
    path.write_bytes(path.read_bytes()[:-1])


def write_wrong_bytes(path: Path) -> None:
    np.save(path, np.full((4, 6), 2, np.uint8).view(bool))


def write_header_alone(path: Path) -> None:
    np.save(path, np.ones((4, 6), bool))
    path.write_bytes(path.read_bytes().replace(b"(4, 6), }", b"(4000000, 6000000), }")[:128])


def write_archive(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, np.ones((4, 6), bool))


BAD_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "not a file"),
    "folder": (lambda path: path.mkdir(), "not a file"),
    "empty": (lambda path: path.touch(), "not a complete .npy"),
    "text": (lambda path: path.write_text("0 1 1 0\n"), "not a complete .npy"),
    "objects": (lambda path: np.save(path, np.full((4, 6), None), allow_pickle=True), "not a complete .npy"),
    "truncated": (write_truncated, "not a complete .npy"),
    "header alone": (write_header_alone, "not a complete .npy"),
    "broken header": (lambda path: path.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': (((((\n"), "not a complete .npy"),
    "archive": (write_archive, "archive"),
    "oversize": (write_oversize, "1 GiB"),
    "floats": (lambda path: np.save(path, np.ones((4, 6))), "float64"),
    "twos": (lambda path: np.save(path, np.full((4, 6), 2)), "0 and 1"),
    "wrong bytes": (write_wrong_bytes, "0 and 1"),
    "shape": (lambda path: np.save(path, np.ones((6, 4), bool)), re.escape("(6, 4)") + ".*" + re.escape("(n, nk) = (4, 6)")),
}


@pytest.mark.parametrize("kind", BAD_FILES)
@pytest.mark.parametrize("name", ["mask.npy", "two\nlines.npy"])
def test_files_that_make_no_sense_are_refused_in_one_line(tmp_path: Path, kind: str, name: str) -> None:
    write, reason = BAD_FILES[kind]
    write(tmp_path / name)
    for read in (lambda path: load_elements(path, 4, 6), lambda path: BlockMask.load(path, 4, 6, 2, 2)):
        with pytest.raises(BadInput, match=reason) as caught:
            read(tmp_path / name)
        assert "\n" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_a_file_of_the_wrong_shape_hears_both_formulas(tmp_path: Path) -> None:
    np.save(tmp_path / "mask.npy", np.ones((6, 4), bool))
    with pytest.raises(BadInput, match=re.escape("(6, 4) but must have (ceil(n/Br), ceil(nk/Bc)) = (2, 3) or (n, nk) = (4, 6)")):
        BlockMask.load(tmp_path / "mask.npy", 4, 6, 2, 2)


def test_a_path_with_a_null_byte_is_no_file() -> None:
    with pytest.raises(BadInput, match="not a file"):
        load_elements("mask\0.npy", 4, 6)
