"""What only a GPU can show: the kernels as they are launched, counted by themselves, with values; and that nothing is refused by CUDA.

Without a GPU every test here is skipped and says why; IOSIM_REQUIRE_GPU=1, on a machine that must have one, makes that a failure.
"""

from __future__ import annotations

import os
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput, IosimError
from iosim_gpu import baseline, defaults, judge
from iosim_gpu.calls import calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.check import compare, error_of, errors_of
from iosim_gpu.fitting import STATIC_LIMIT
from iosim_gpu.meters import device
from iosim_gpu.moved import Measured

pytestmark = pytest.mark.needs_device

SMALL = Case("flash2", 29, 16, 8, 12, 24, nk=37)
CASES = [case for kernel in KERNELS for case in defaults.cases((kernel,)) if (case.n, case.nk) in ((37, 29), (37, 19))]
"""Of every kernel one that is ragged, and one that is causal with queries that attend to nothing."""

missing = cache(device.absent)


@pytest.fixture(autouse=True)
def _on_a_gpu() -> None:
    reason = missing()
    if reason and os.environ.get("IOSIM_REQUIRE_GPU", "0") not in ("", "0"):
        pytest.fail(f"IOSIM_REQUIRE_GPU is set, but {reason}")
    if reason:
        pytest.skip(reason)


@pytest.fixture
def cupy() -> Any:
    try:
        return baseline.cupy()
    except IosimError as absent:
        pytest.skip(str(absent))


def failures(case: Case, measured: Measured) -> list[str]:
    return [row.failure for row in compare(case, measured) if row.failure is not None]


@pytest.mark.parametrize("case", [*CASES, *map(defaults.large, KERNELS)], ids=lambda case: f"{case.kernel} {case.name}")
def test_every_element_that_a_kernel_counts_is_predicted_and_values_are_within_their_bounds(case: Case) -> None:
    assert failures(case, device.measure_counters_on_device(case)) == []


def test_a_kernel_without_counters_computes_the_same() -> None:
    arrays = prepared(SMALL)
    for call in calls(SMALL, arrays):
        device.launch(call)
        assert not call.counts.any()
    counted = device.measure_counters_on_device(SMALL).outputs
    for name, (error, bound) in errors_of(SMALL, dict(arrays)).items():
        assert error <= bound
        np.testing.assert_array_equal(arrays[name], counted[name])


def test_a_forward_kernel_gives_the_same_bits_every_time() -> None:
    """As it would not if threads raced for shared memory."""
    first, second = (device.measure_counters_on_device(defaults.large("flash2")).outputs for _ in range(2))
    for name in ("O", "LSE"):
        np.testing.assert_array_equal(first[name], second[name])


def test_more_than_48_KB_of_shared_memory_are_opted_in_to() -> None:
    case = Case("flash2", 100, 64, 64, 64, 128, nk=90, causal=True)
    call = calls(case, prepared(case))[0]
    assert call.step.shared_bytes(call.tiling) > STATIC_LIMIT
    assert failures(case, device.measure_counters_on_device(case)) == []


def test_more_shared_memory_than_a_block_can_have_is_refused_by_us() -> None:
    with pytest.raises(BadInput, match="is the dynamic limit"):
        device.measure_counters_on_device(replace(SMALL, rows=512, cols=512, d=128))


def test_1025_threads_are_refused_by_us() -> None:
    with pytest.raises(BadInput, match="CUDA takes at most 1,024"):
        device.measure_counters_on_device(replace(SMALL, threads=1025))


@pytest.mark.parametrize("threads", [704, 1000, 1024])
def test_many_threads_run_or_are_refused_by_us_for_their_registers(threads: int) -> None:
    case = replace(SMALL, threads=threads)
    try:
        wrong = failures(case, device.measure_counters_on_device(case))
    except BadInput as refused:
        wrong = [] if "registers a thread" in str(refused) else [str(refused)]
    assert wrong == []


def test_a_grid_may_be_larger_than_16_bits_along_the_queries() -> None:
    case = Case("flash2", 70_000, 2, 1, 3, 4, nk=3)
    assert failures(case, device.measure_counters_on_device(case)) == []


def test_a_grid_of_as_many_heads_as_cuda_takes_runs_and_of_one_more_is_refused_by_us() -> None:
    case = Case("flash2", 1, 2, 1, 1, 2, heads=65_535)
    assert failures(case, replace(device.measure_counters_on_device(case), outputs={})) == []
    with pytest.raises(BadInput, match="CUDA takes 1 to 65,535"):
        device.measure_counters_on_device(replace(case, heads=65_536))


def test_the_arrays_of_cupy_go_into_a_kernel_as_they_are(cupy: Any) -> None:
    arrays = prepared(SMALL)
    call = calls(SMALL, arrays, counting=True)[0]
    there = {name: cupy.asarray(value) for name, value in [*arrays.items(), ("counts", call.counts)]}
    device.here().ready(call, [there.get(name, value) for name, value in call.args])()
    outputs = {name: cupy.asnumpy(there[name]) for name in call.arrays}
    counted = replace(call, counts=cupy.asnumpy(there["counts"])).counted()
    assert failures(SMALL, Measured("counters on CuPy's arrays", counted, outputs)) == []


@pytest.mark.parametrize("causal", [False, True])
def test_the_baseline_is_right_on_cupys_arrays(causal: bool, cupy: Any) -> None:
    case = Case("standard", 70, 32, 70, 50, 32, nk=50, heads=3, causal=causal)
    right, bounds = judge.truth(case, judge.inputs(case))
    output, lse = baseline.prepared(case, judge.inputs(case), cupy)()
    assert type(output) is cupy.ndarray
    assert error_of(cupy.asnumpy(output), right["O"]) <= bounds["O"]
    assert error_of(cupy.asnumpy(lse), right["LSE"]) <= bounds["LSE"]


def test_a_time_is_positive_and_its_values_are_right(cupy: Any) -> None:
    from iosim_gpu import bench

    for timing in bench.timings([Case("standard", 128, 64, 32, 32, 128), Case("flash2", 128, 64, 32, 32, 128)]):
        assert 0 < timing.fastest_seconds <= timing.median_seconds
        assert timing.max_error <= timing.bound
