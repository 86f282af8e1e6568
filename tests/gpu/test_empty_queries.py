"""A query that attends to nothing gives 0, and -inf where a logarithm is stored; a key that nobody attends to gets no gradient."""

from __future__ import annotations

import numpy as np
import pytest

from iosim.core.masks import BlockMask
from iosim_gpu.calls import Array, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.meters import simulator

pytestmark = [pytest.mark.needs_simulator, pytest.mark.usefixtures("scheduler")]

N, NK, EMPTY = 9, 4, 5
"""Bottom-right, the first 5 of 9 queries come before all 4 keys: 2 whole tiles of queries, and half of the third."""


def run(case: Case) -> dict[str, Array]:
    arrays = prepared(case)
    for call in calls(case, arrays):
        simulator.launch(call)
    return arrays


def causal(kernel: str) -> Case:
    mask = BlockMask.from_dense(np.ones((5, 2), bool), N, NK, 2, 3) if KERNELS[kernel].masked else None
    return Case(kernel, N, 3, 2, 3, 5, nk=NK, heads=2, causal=True, mask=mask)


EXPECTED = {"O": 0.0, "LSE": -np.inf, "l": 0.0, "m": -np.inf, "S": -np.inf, "P": 0.0, "dQ": 0.0, "D": 0.0}


@pytest.mark.parametrize("kernel", KERNELS)
def test_queries_before_the_first_key(kernel: str) -> None:
    case = causal(kernel)
    arrays = run(case)
    written = [name for name, moved in case.predicted().items() if moved.writes and name in EXPECTED]
    assert written
    for name in written:
        assert (arrays[name][:, :EMPTY] == EXPECTED[name]).all()
        assert np.isfinite(arrays[name][:, -1, ..., :1] if arrays[name].ndim == 3 else arrays[name][:, -1]).all()


def test_a_block_mask_of_nothing() -> None:
    arrays = run(Case("block-sparse", 5, 3, 2, 2, 5, mask=BlockMask.from_dense(np.zeros((3, 3), bool), 5, 5, 2, 2)))
    assert (arrays["O"] == 0).all()
    assert (arrays["l"] == 0).all()
    assert np.isneginf(arrays["m"]).all()


def test_rows_and_columns_of_tiles_that_a_block_mask_leaves_out() -> None:
    keep = np.array([[True, False, True], [False, False, False], [True, False, True]])
    arrays = run(Case("block-sparse", 6, 3, 2, 2, 5, mask=BlockMask.from_dense(keep, 6, 6, 2, 2)))
    empty = np.array([False, False, True, True, False, False])
    assert ((arrays["l"] == 0) == empty).all()
    assert (np.isneginf(arrays["m"]) == empty).all()
    assert ((arrays["O"] == 0).all(axis=-1) == empty).all()
