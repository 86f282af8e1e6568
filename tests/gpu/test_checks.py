"""What a GPU refuses is refused on the host in one line, and nothing else is; the tiles that a refusal names fit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim.core.errors import BadInput
from iosim.core.masks import BlockMask
from iosim_gpu import defaults
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.checks import check, check_grid, check_shared
from iosim_gpu.declaration import Step
from iosim_gpu.fitting import OPT_IN, STATIC_LIMIT, largest_fitting
from iosim_gpu.tiling import Tiling
from tests.gpu.every import STEPS

SMALL = Case("flash2", 5, 4, 2, 3, 8, nk=7, heads=2)
MASKED = Case("block-sparse", 4, 2, 2, 2, 4, mask=BlockMask.from_dense([[True, False], [True, True]], 4, 4, 2, 2))
BACKWARD = Case("flash2-backward", 5, 4, 2, 3, 8)


def made(case: Case, step: int = 0) -> Call:
    return calls(case, prepared(case))[step]


def given_array(call: Call, name: str, array: Any) -> Call:
    return replace(call, arrays={**call.arrays, name: array})


def said(call: Call, limit: int = STATIC_LIMIT) -> str:
    with pytest.raises(BadInput) as refused:
        check(call, limit)
    message = str(refused.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_launch_of_the_default_cases_is_allowed(kernel: str) -> None:
    for case in [*defaults.cases([kernel]), *defaults.compiled(kernel)]:
        for counting in (False, True):
            for call in calls(case, prepared(case), counting=counting):
                check(call)


def test_the_checks_need_no_numba() -> None:
    code = "import sys; sys.modules['numba'] = None; import iosim_gpu.checks"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("threads", [1025, 2048])
def test_more_threads_than_a_block_can_have(threads: int) -> None:
    case = Case("flash2", 5, 4, 2, 3, threads)
    assert said(made(case)) == f"flash2 was asked for {threads:,} threads a block; CUDA takes at most 1,024"
    check(made(Case("flash2", 5, 4, 2, 3, 1024)))


@pytest.mark.parametrize("name", ["rows", "cols", "d", "threads"])
@pytest.mark.parametrize("value", [0, -3, 2.0, np.int64(4), True, "4"])
def test_a_constant_that_is_no_python_int(name: str, value: object) -> None:
    call = made(SMALL)
    message = said(replace(call, tiling=replace(call.tiling, **{name: value})))  # type: ignore[arg-type]
    assert message == f"{name} of a tiling must be a Python int >= 1, to be compiled in, not {value!r}"


@pytest.mark.parametrize("name", ["causal", "counting", "dynamic"])
def test_a_switch_that_is_neither_on_nor_off(name: str) -> None:
    call = made(SMALL)
    assert f"{name} of a tiling must be True or False" in said(replace(call, tiling=replace(call.tiling, **{name: 1})))  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [("rows", 3), ("cols", 2), ("d", 5), ("threads", 9), ("causal", True)])
def test_a_kernel_compiled_for_another_case(name: str, value: int) -> None:
    call = made(SMALL)
    message = said(replace(call, tiling=replace(call.tiling, **{name: value})))  # type: ignore[arg-type]
    assert message == f"a kernel compiled for {name} = {value} was given the case 1x2 5x7 d4 2x3 T8; compile it for that"


def test_more_shared_memory_than_a_static_array_can_have() -> None:
    message = said(made(Case("flash2", 5, 64, 64, 64, 128)))
    assert message == (
        "flash2 64x64 d=64 T=128 needs 83,968 bytes of shared memory a block, but 49,152 is the static limit; "
        "40x40 would fit, or dynamic shared memory on sm_80, sm_86, sm_89, sm_90, sm_100"
    )


def test_a_static_array_stays_small_where_the_device_has_more() -> None:
    assert "49,152 is the static limit" in said(made(Case("flash2", 5, 64, 64, 64, 128)), OPT_IN["sm_90"])


@pytest.mark.parametrize(("arch", "allowed"), [("sm_80", False), ("sm_90", True)])
def test_dynamic_shared_memory_may_fill_the_device(arch: str, allowed: bool) -> None:
    call = made(Case("flash2-backward", 5, 128, 64, 64, 128), 2)
    dynamic = replace(call, tiling=replace(call.tiling, dynamic=True))
    assert dynamic.dynamic_bytes == 231_936
    if allowed:
        check(dynamic, OPT_IN[arch])
    else:
        assert "166,912 is the dynamic limit; 47x47 would fit, or dynamic shared memory on sm_90, sm_100" in said(dynamic, OPT_IN[arch])


def test_the_list_of_a_block_mask_counts_too() -> None:
    step, tiling = STEPS["block-sparse"], Tiling(2, 2, 2, 4, dynamic=True)
    assert step.shared_bytes(tiling) == step.room_bytes(tiling) + 12
    check_shared(step, tiling, step.shared_bytes(tiling))
    with pytest.raises(BadInput):
        check_shared(step, tiling, step.shared_bytes(tiling) - 1)


def test_a_head_too_wide_for_any_tile() -> None:
    assert said(made(Case("flash2", 1, 4096, 2, 2, 32))).endswith(
        "not even 1x1 tiles fit at d = 4096, or dynamic shared memory on sm_80, sm_90, sm_100"
    )


@pytest.mark.parametrize("step", STEPS.values(), ids=lambda step: step.name)
@given(rows=st.integers(1, 300), cols=st.integers(1, 300), d=st.integers(1, 200), limit=st.integers(64, 250_000))
def test_the_largest_tiles_that_fit_do_and_no_longer_ones_do(step: Step, rows: int, cols: int, d: int, limit: int) -> None:
    tiling = Tiling(rows, cols, d, 32)
    found = largest_fitting(step, tiling, limit)
    most, shortest = max(rows, cols), min(rows, cols)
    longer = 0 if found is None else max(found.rows, found.cols)
    if found is not None:
        assert step.shared_bytes(found) <= limit
        assert min(found.rows, found.cols) == max(1, shortest * longer // most)
        assert (found.rows, found.cols) <= (rows, cols)
    if longer < most:
        sides = [max(1, side * (longer + 1) // most) for side in (rows, cols)]
        assert step.shared_bytes(Tiling(sides[0], sides[1], d, 32)) > limit
    else:
        assert found == tiling


def test_default_tiles_leave_room_in_static_shared_memory() -> None:
    for kernel in KERNELS:
        for case in defaults.compiled(kernel):
            assert all(call.step.shared_bytes(call.tiling) <= STATIC_LIMIT for call in calls(case, prepared(case)))
    at_128 = Tiling(16, 16, 128, 128)
    assert all(step.shared_bytes(at_128) <= STATIC_LIMIT for step in STEPS.values() if "keys-outside" not in step.name)


@pytest.mark.parametrize(
    ("name", "tiling", "nbytes"),
    [
        ("flash2", Tiling(32, 32, 64, 1), 37_888),
        ("flash2", Tiling(64, 32, 64, 1), 59_136),
        ("flash", Tiling(32, 32, 64, 1), 29_440),
        ("keys-outside", Tiling(32, 32, 64, 1), 58_624),
        ("keys-outside", Tiling(64, 64, 128, 1), 231_936),
    ],
)
def test_bytes_of_shared_memory(name: str, tiling: Tiling, nbytes: int) -> None:
    assert STEPS[name].room_bytes(tiling) == nbytes


@pytest.mark.parametrize("grid", [(0, 1), (1, 0), (2**31, 1), (1, 65_536)])
def test_a_grid_that_is_empty_or_too_large(grid: tuple[int, int]) -> None:
    with pytest.raises(BadInput, match="CUDA takes 1 to"):
        check_grid(grid)
    check_grid((2**31 - 1, 65_535))


def test_a_call_whose_grid_is_too_large() -> None:
    assert "a grid of 70,000 blocks along y" in said(made(Case("flash2", 1, 1, 1, 1, 1, heads=70_000)))


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "float64": (lambda q: q.astype(np.float64), "Q must be float32, not float64; Q.astype(np.float32) would do"),
    "other bytes first": (lambda q: q.astype(">f4"), "Q must be float32, not >f4; Q.astype(np.float32) would do"),
    "a head less": (lambda q: q[:1], "Q must have the shape (2, 5, 4), not (1, 5, 4)"),
    "a row too many": (lambda q: np.zeros((2, 6, 4), np.float32), "Q must have the shape (2, 5, 4), not (2, 6, 4)"),
    "two axes exchanged": (lambda q: q.reshape(2, 4, 5), "Q must have the shape (2, 5, 4), not (2, 4, 5)"),
    "no heads": (lambda q: q[0], "Q must have the shape (2, 5, 4), not (5, 4)"),
    "transposed": (np.asfortranarray, "Q must be C-contiguous, its last axis the fastest; np.ascontiguousarray(Q) would do"),
    "a list": (lambda q: q.tolist(), "Q must be a NumPy array, not list"),
    "NaN": (lambda q: np.where(np.arange(4) == 2, np.nan, q).astype(np.float32), "Q must be finite, but Q[0, 0, 2] is nan"),
    "infinite": (lambda q: np.full_like(q, np.inf), "Q must be finite, but Q[0, 0, 0] is inf"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_an_array_that_a_kernel_was_not_compiled_for(fault: str) -> None:
    call = made(SMALL)
    wrong, message = WRONG[fault]
    assert said(given_array(call, "Q", wrong(call.arrays["Q"]))) == message


@pytest.mark.parametrize("name", ["Q", "K", "V", "dO", "O", "LSE"])
def test_every_input_must_be_finite(name: str) -> None:
    step = 0 if name == "O" else 2
    call = made(BACKWARD, step)
    wrong = call.arrays[name].copy()
    wrong.flat[-1] = np.nan
    assert f"{name} must be finite" in said(given_array(call, name, wrong))


def test_a_query_that_attends_to_nothing_has_a_log_sum_exp_of_minus_infinity() -> None:
    call = made(Case("flash2-backward", 5, 4, 2, 3, 8, nk=2, causal=True), 2)
    assert np.isneginf(call.arrays["LSE"]).any()
    check(call)
    assert "LSE must be finite" in said(given_array(call, "LSE", np.full_like(call.arrays["LSE"], np.inf)))


def test_what_is_yet_to_be_written_may_be_anything() -> None:
    call = made(SMALL)
    assert np.isnan(call.arrays["O"]).all()
    check(call)


def test_arrays_that_are_missing_or_in_another_order() -> None:
    call = made(SMALL)
    assert said(replace(call, arrays=dict(reversed(call.arrays.items())))) == "flash2 takes the arrays Q, K, V, O, LSE, not LSE, O, V, K, Q"
    assert said(replace(call, arrays={})).endswith("not none")


def test_counters_of_another_size_or_type() -> None:
    call = made(SMALL)
    assert said(replace(call, counts=np.zeros(4, np.int64))) == "counts must have the shape (5,), not (4,)"
    assert "counts must be int64, not int32" in said(replace(call, counts=np.zeros(5, np.int32)))


def test_outputs_that_cannot_be_written_or_lie_in_an_input() -> None:
    call = made(replace(SMALL, nk=SMALL.n))  # every tensor has the same shape
    frozen = call.arrays["O"].copy()
    frozen.flags.writeable = False
    assert said(given_array(call, "O", frozen)) == "O is written, but is read-only; O.copy() would do"
    assert said(given_array(call, "O", call.arrays["Q"])) == "Q and O lie in the same memory, but flash2 writes to one of them; copy one"
    check(given_array(call, "K", call.arrays["V"]))  # two that are only read


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("indices", [0, -1, 1], "indices must name query tiles, 0 to 1, but -1 is among them"),
        ("indices", [0, 1, 2], "indices must name query tiles, 0 to 1, but 2 is among them"),
        ("indices", [0, 1], "indptr must rise from 0 to the 2 entries of indices, not [0, 2, 3]"),
        ("indptr", [1, 2, 3], "indptr must rise from 0 to the 3 entries of indices, not [1, 2, 3]"),
        ("indptr", [0, 4, 3], "indptr must rise from 0 to the 3 entries of indices, not [0, 4, 3]"),
        ("indptr", [0, 3], "indptr must have the shape (3,), not (2,)"),
        ("indices", [[0, 1, 1]], "indices must have the shape (entries,), not (1, 3)"),
    ],
)
def test_a_list_of_tiles_that_points_outside(name: str, value: list[int], message: str) -> None:
    assert said(given_array(made(MASKED), name, np.array(value, np.int32))) == message


def test_a_list_of_tiles_of_another_type() -> None:
    call = made(MASKED)
    assert "indptr must be int32, not int64" in said(given_array(call, "indptr", call.arrays["indptr"].astype(np.int64)))
