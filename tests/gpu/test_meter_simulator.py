"""The simulator meter: every element is counted, once, whichever thread moves it, and no kernel leaves its arrays unseen."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iosim.core.errors import BadInput
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.meters import internals, simulator
from iosim_gpu.meters.simulator import CountedArray
from iosim_gpu.moved import Moved
from tests.gpu.edits import loaded

TWO_HEADS = Case("flash2", 9, 3, 4, 5, 6, nk=7, heads=2)


@pytest.fixture
def counted() -> CountedArray:
    return CountedArray("K", np.zeros((2, 5, 3), np.float32))


def call_of(*body: str) -> Call:
    """One launch of a kernel with this body, on Q alone; a grid of 3 x 2 blocks of 6 threads."""
    lines = [
        "from iosim_gpu.declaration import launch",
        "@launch('Q', '', 'queries')",
        "def made(tiling):",
        "    def kernel(Q, scale, counts):",
        *("        " + line for line in body),
        "    return kernel",
    ]
    return calls(TWO_HEADS, prepared(TWO_HEADS), steps=[loaded("made", "\n".join(lines)).made])[0]


@pytest.mark.parametrize("index", [(0, 5, 0), (2, 0, 0), (0, 0, 3), (0, -1, 0), (-1, 0, 0)])
def test_an_element_outside_is_refused(counted: CountedArray, index: tuple[int, ...]) -> None:
    line = r"^K\[[-0-9, ]+\] is outside of K, whose shape is \(2, 5, 3\)$"
    with pytest.raises(IndexError, match=line):
        counted[index]
    with pytest.raises(IndexError, match=line):
        counted[index] = 1.0
    with pytest.raises(IndexError, match=line):
        counted.updated(index)
    assert counted.moved() == Moved()


@pytest.mark.parametrize("index", [0, (0, 1), (0, 1, 2, 0), (0, slice(None), 1), (0, 1.0, 2), (0, None, 1), ..., "K"])
def test_what_is_no_element_is_refused(counted: CountedArray, index: Any) -> None:
    with pytest.raises(IndexError, match=r"^K\[.+\] is no element of K: shape \(2, 5, 3\) takes 3 integers$"):
        counted[index]
    with pytest.raises(IndexError, match=r"is no element of K"):
        counted[index] = 1.0
    assert counted.moved() == Moved()


@pytest.mark.parametrize(
    "whole", [np.exp, np.sum, sum, list, lambda x: x + 1, lambda x: np.float32(2) * x, lambda x: x.sum(), lambda x: x @ x, lambda x: x.T]
)
def test_the_whole_array_is_out_of_reach(counted: CountedArray, whole: Callable[[Any], Any]) -> None:
    for array in (counted, CountedArray("indptr", np.arange(4, dtype=np.int32))):
        with pytest.raises((TypeError, AttributeError)):
            whole(array)
        assert array.moved() == Moved()


def test_threads_count_apart_and_none_is_lost(counted: CountedArray) -> None:
    def work(first: int) -> None:
        for e in range(first, 3000, 4):
            counted[0, e % 5, 1] = counted[1, e % 5, e % 3]

    threads = [threading.Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.moved() == Moved(loads=3000, stores=3000)


def test_shape_size_and_type_are_those_of_the_array(counted: CountedArray) -> None:
    assert (counted.shape, counted.ndim, counted.size, len(counted)) == ((2, 5, 3), 3, 30, 2)
    assert counted.dtype.name == "float32"


@pytest.mark.needs_simulator
def test_the_simulator_is_the_one_that_the_adapter_was_written_for() -> None:
    from importlib.metadata import version

    from iosim_gpu.cuda import cuda

    assert internals.changes(cuda.simulator) == []
    assert f"numba-cuda {version('numba-cuda')}".startswith(internals.WRITTEN_FOR + ".")


@pytest.mark.needs_simulator
@pytest.mark.parametrize("name", ["BlockManager", "_get_kernel_context", "FakeCUDAKernel"])
def test_a_changed_simulator_is_noticed(name: str) -> None:
    from iosim_gpu.cuda import cuda

    with internals.exchanged(cuda.simulator.kernel, **{name: object}):
        told = internals.changes(cuda.simulator)
    assert told
    assert any(name in line or "launch" in line for line in told)
    assert internals.changes(cuda.simulator) == []


@pytest.mark.needs_simulator
def test_another_atomic_operation_is_noticed() -> None:
    from iosim_gpu.cuda import cuda

    atomic = cuda.simulator.kernelapi.FakeCUDAAtomic
    with internals.exchanged(cuda.simulator.kernelapi, FakeCUDAAtomic=type("FakeCUDAAtomic", (atomic,), {"add": atomic.add})):
        assert "there are other atomic operations" in internals.changes(cuda.simulator)


@pytest.mark.needs_compiler
def test_without_the_simulator_it_says_so() -> None:
    with pytest.raises(BadInput, match=r"^the simulator is off in this process; set NUMBA_ENABLE_CUDASIM=1 before Python starts"):
        simulator.measure(TWO_HEADS)


@pytest.mark.needs_simulator
def test_the_kernel_is_given_the_arrays_as_they_are() -> None:
    """An argument that the simulator does not know passes through it untouched: what the meter stands on."""
    with pytest.raises(AttributeError, match="CountedArray"):
        simulator.launch(call_of("Q.no_array_has_this"))


@pytest.mark.needs_simulator
def test_an_atomic_addition_is_one_update() -> None:
    call = call_of("cuda.atomic.add(Q, (1, 2, 0), 1.0)", "cuda.atomic.max(Q, (0, 0, 0), 9.0)")
    before = call.arrays["Q"][1, 2, 0]
    assert simulator.launch(call) == {"Q": Moved(atomics=2 * 3 * 2 * 6)}
    assert call.arrays["Q"][1, 2, 0] == pytest.approx(before + 36, abs=1e-5)
    assert call.arrays["Q"][0, 0, 0] == 9


@pytest.mark.needs_simulator
def test_an_addition_that_is_not_atomic_is_none() -> None:
    assert simulator.launch(call_of("Q[1, 2, 0] += 1.0")) == {"Q": Moved(loads=36, stores=36)}


@pytest.mark.needs_simulator
def test_a_kernel_that_leaves_its_array_is_named(scheduler: None) -> None:
    with pytest.raises(IndexError, match=r"Q\[0, 9, 0\] is outside of Q, whose shape is \(2, 9, 3\)$"):
        simulator.launch(call_of("Q[0, 9, 0]"))
    with pytest.raises(IndexError, match=r"Q\[0, -1, 0\] is outside of Q, whose shape is \(2, 9, 3\)$"):
        simulator.launch(call_of("cuda.atomic.add(Q, (0, -1, 0), 1.0)"))


@pytest.mark.needs_simulator
def test_other_steps_can_be_measured() -> None:
    assert TWO_HEADS.steps[0].name == "flash2"
    only = Case("standard", 9, 3, 4, 5, 6)
    found = simulator.measure(only, only.steps[:1])
    assert found.meter == "simulator"
    assert found.arrays == {"Q": Moved(loads=27), "K": Moved(loads=81), "S": Moved(stores=81)}
    assert np.isnan(found.outputs["O"]).all()


@pytest.mark.needs_simulator
def test_shared_memory_that_the_launch_brings_changes_nothing(scheduler: None) -> None:
    (static,), (given,) = (calls(TWO_HEADS, prepared(TWO_HEADS)) for _ in range(2))
    brought = replace(given, tiling=replace(given.tiling, dynamic=True))
    assert brought.dynamic_bytes > 0
    assert simulator.launch(static) == simulator.launch(brought)
    np.testing.assert_array_equal(static.arrays["O"], brought.arrays["O"])
