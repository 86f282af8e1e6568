"""A case says what a kernel is run on, which tiles it visits and how many words it moves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import predict
from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim_gpu.calls import calls, prepared
from iosim_gpu.case import Case, shape, visited
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.declaration import Kernel, Option
from iosim_gpu.tiling import Tiling, offsets
from tests.gpu.every import VARIANTS

SIZE = st.integers(1, 12)


def case_of(kernel: str, **changed: Any) -> Case:
    asked = {"n": 5, "d": 4, "rows": 2, "cols": 3, "threads": 8, "nk": 7} | changed
    if KERNELS[kernel].masked:
        grid = -(-asked["n"] // asked["rows"]), -(-asked["nk"] // asked["cols"])
        asked["mask"] = BlockMask.from_dense(np.ones(grid, bool), asked["n"], asked["nk"], asked["rows"], asked["cols"])
    return Case(kernel, **asked)


@st.composite
def masked(draw: st.DrawFn) -> Case:
    n, nk, rows, cols = (draw(SIZE) for _ in range(4))
    grid = -(-n // rows), -(-nk // cols)
    kept = draw(st.lists(st.booleans(), min_size=grid[0] * grid[1], max_size=grid[0] * grid[1]))
    mask = BlockMask.from_dense(np.reshape(kept, grid), n, nk, rows, cols)
    return Case("block-sparse", n, 2, rows, cols, 4, nk=nk, heads=draw(st.integers(1, 3)), causal=draw(st.booleans()), mask=mask)


@given(masked())
def test_visited_tiles_are_those_kept_in_which_a_pair_may_attend(case: Case) -> None:
    assert case.mask is not None
    queries, keys = np.indices((case.n, case.nk))
    attends = (keys <= queries + case.nk - case.n) | (not case.causal)
    expected = [
        [i for i in range(len(kept)) if kept[i] and attends[i * case.rows : (i + 1) * case.rows, j * case.cols : (j + 1) * case.cols].any()]
        for j, kept in enumerate(case.mask.dense().T)
    ]
    indptr, indices = visited(case)
    assert [indices[begin:end].tolist() for begin, end in pairwise(indptr)] == expected
    assert {indptr.dtype, indices.dtype} == {np.dtype(np.int32)}


@given(masked())
def test_a_list_is_read_by_every_head_twice_a_key_tile_and_once_an_entry(case: Case) -> None:
    words = case.predicted()
    entries = len(visited(case)[1])
    assert words["indptr"].reads == case.heads * 2 * -(-case.nk // case.cols)
    assert words["indices"].reads == case.heads * entries if entries else "indices" not in words


@pytest.mark.parametrize("kernel", KERNELS)
@given(n=SIZE, nk=SIZE, causal=st.booleans(), batch=st.integers(1, 3), heads=st.integers(1, 3))
def test_every_head_moves_as_many_words(kernel: str, n: int, nk: int, causal: bool, batch: int, heads: int) -> None:
    one = case_of(kernel, n=n, nk=nk, causal=causal).predicted()
    all_heads = case_of(kernel, n=n, nk=nk, causal=causal, batch=batch, heads=heads).predicted()
    assert all_heads == {
        a: predict.Moved(*(getattr(w, part) * batch * heads for part in ("reads", "writes", "init_writes"))) for a, w in one.items()
    }


@pytest.mark.parametrize("kernel", KERNELS)
def test_words_are_predicted_for_arrays_of_the_steps_alone(kernel: str) -> None:
    case = case_of(kernel)
    assert set(case.predicted()) <= {name for step in case.steps for name in step.arrays}


def test_flash2_in_numbers() -> None:
    """Two of three query tiles are full: K and V are read once a query tile."""
    words = case_of("flash2", heads=2).predicted()
    assert {name: (moved.reads, moved.writes) for name, moved in words.items()} == {
        "Q": (2 * 5 * 4, 0), "K": (2 * 3 * 7 * 4, 0), "V": (2 * 3 * 7 * 4, 0), "O": (0, 2 * 5 * 4), "LSE": (0, 2 * 5),
    }  # fmt: skip


def test_sizes_become_python_ints_and_keys_are_as_many_as_queries() -> None:
    case = Case("flash2", np.int64(5), np.int32(4), np.uint8(2), np.int16(3), np.int64(8))  # type: ignore[arg-type]
    assert case.nk == 5
    assert {type(value) for value in (case.n, case.nk, case.d, case.rows, case.cols, case.threads)} == {int}
    assert case.tiling == Tiling(2, 3, 4, 8)


def test_names_tell_cases_apart() -> None:
    assert case_of("flash2").name == "5x7 d4 2x3 T8"
    assert case_of("flash2", batch=2, heads=3, causal=True).name == "2x3 5x7 d4 2x3 T8 causal"
    assert case_of("flash2-backward", options={"dq_pass": "own"}).name == "5x7 d4 2x3 T8 dq_pass=own"


@pytest.mark.parametrize(
    ("kernel", "asked", "message"),
    [
        ("flash3", {}, f"no CUDA kernel is called 'flash3'; there are {', '.join(KERNELS)}"),
        ("flash2", {"rows": 0}, "rows must be a whole number >= 1, not 0"),
        ("flash2", {"threads": 2.5}, "threads must be a whole number >= 1, not 2.5"),
        ("flash2", {"n": True}, "n must be a whole number >= 1, not True"),
        (
            "flash2",
            {"mask": BlockMask.from_dense([[True]], 5, 7, 5, 7)},
            "flash2 takes no block mask",
        ),
        ("flash2", {"options": {"dq_pass": "own"}}, "flash2 has no option 'dq_pass' in CUDA; it has: none"),
        ("flash2-backward", {"options": {"dq": "own"}}, "flash2-backward has no option 'dq' in CUDA; it has: dq_pass"),
        ("flash2-backward", {"options": {"dq_pass": "none"}}, "dq_pass must be 'shared' or 'own', not 'none'"),
        ("flash2", {"causal": 1}, "causal must be True or False, not 1"),
    ],
)
def test_a_case_that_cannot_be(kernel: str, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        Case(kernel, **({"n": 5, "d": 4, "rows": 2, "cols": 3, "threads": 8, "nk": 7} | asked))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_block_sparse_without_a_mask_or_with_one_of_other_tiles() -> None:
    with pytest.raises(BadInput, match="block-sparse needs a block mask"):
        Case("block-sparse", 5, 4, 2, 3, 8)
    with pytest.raises(BadInput):
        Case("block-sparse", 5, 4, 2, 3, 8, mask=BlockMask.from_dense([[True]], 5, 5, 5, 5))
    with pytest.raises(BadInput, match="flash2 has no block mask"):
        visited(case_of("flash2"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_grid_covers_every_tile_once(variant: str) -> None:
    name, options = VARIANTS[variant]
    case = case_of(name, options=options, heads=2, rows=3)
    tiles = {"head": 1, "queries": 2, "keys": 3}
    assert [call.grid for call in calls(case, prepared(case))] == [(tiles[step.grid], 2) for step in case.steps]


def test_the_variants_of_a_kernel_are_all_combinations_of_its_options() -> None:
    kernel = Kernel("k", lambda **_: (), (Option("a", ("x", "y"), ""), Option("b", ("1", "2", "3"), "")))
    assert len(kernel.variants) == 6
    assert kernel.chosen({"b": "2"}) == {"a": "x", "b": "2"}
    assert kernel.asked({"b": "2"}) == [{"a": "x", "b": "2"}, {"a": "y", "b": "2"}]
    assert Kernel("k", lambda: ()).variants == [{}]


def test_an_array_whose_shape_nobody_declares_is_refused() -> None:
    with pytest.raises(BadInput, match="flash2 declares no shape for 'X'"):
        shape(case_of("flash2"), "X")
    assert Kernel("k", lambda: (), shapes={"X": ("nk", "d")}).axes("X") == ("nk", "d")


def test_offsets_follow_one_another() -> None:
    assert offsets([6, 2, 0, 5]) == (0, 6, 8, 8, 13)
