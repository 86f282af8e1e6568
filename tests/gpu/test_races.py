"""No kernel has a race that a hostile order of its threads shows, and every barrier in it is there for a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import iosim_gpu.kernels
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.meters import simulator
from iosim_gpu.meters.schedule import ORDERS, Diverged, Order, scheduled
from tests.gpu import edits, hunt
from tests.gpu.edits import swapped
from tests.gpu.every import STEPS, VARIANTS

THREADS = 24  # neither divides nor equals d, so that no thread meets only what it loaded itself
SHAPES = [(29, 37, False), (29, 21, True), (21, 29, True)]  # several tiles each way; of the second, the first 8 queries see no key
needs_both = [pytest.mark.needs_simulator, pytest.mark.needs_greenlet]


def case_of(variant: str, n: int, nk: int, causal: bool) -> Case:
    kernel, options = VARIANTS[variant]
    mask = patterns.random(n, nk, 8, 12, 0.6, seed=3) if KERNELS[kernel].masked else None
    return Case(kernel, n, 16, 8, 12, THREADS, nk=nk, causal=causal, mask=mask, options=options)


def call_of(body: str) -> Call:
    """One launch of a kernel with this body, of one block of four threads, that may write to Q."""
    case = Case("flash2", 4, 1, 4, 4, 4)
    lines = [
        "@launch('Q', '', 'queries')",
        "def made(tiling):",
        "    def kernel(Q, scale, counts):",
        "        t = cuda.threadIdx.x",
        *body.splitlines(),
        "    return kernel",
    ]
    text = "import numpy as np; from iosim_gpu.declaration import launch\n" + "\n".join(lines)
    return calls(case, prepared(case), steps=[edits.loaded("made", text).made])[0]


@pytest.mark.needs_simulator
def test_every_barrier_belongs_to_a_kernel() -> None:
    """The hunt reads the kernels' own modules: the device functions that they share must hold no barrier."""
    folder = Path(str(iosim_gpu.kernels.__file__)).parent
    written = sum(path.read_text().count("cuda.syncthreads()") for path in folder.glob("*.py"))
    found = {(step.factory.__module__, line) for step in STEPS.values() for line in hunt.barriers(step)}
    assert len(found) == written > 20


class TestHunt:
    pytestmark = needs_both

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    @pytest.mark.parametrize("variant", VARIANTS)
    def test_the_kernels_are_right_in_every_order(self, variant: str, shape: tuple[int, int, bool], order: Order) -> None:
        assert hunt.fault(case_of(variant, *shape), order=order) == ""

    @pytest.mark.parametrize("variant", VARIANTS)
    def test_every_barrier_is_necessary(self, variant: str) -> None:
        assert hunt.idle([case_of(variant, *shape) for shape in SHAPES]) == []

    def test_a_barrier_too_many_is_found(self) -> None:
        case = case_of("flash2", *SHAPES[0])
        load_v = "load_tile(V, head, j0, cols, v, t, n, V_LOADS)"
        twice = edits.edited(case.steps[0], (load_v, f"{load_v}; cuda.syncthreads()"))
        line = 1 + edits.source(twice).split("\n").index(f"            {load_v}; cuda.syncthreads()")
        assert hunt.idle([case, case_of("flash2", *SHAPES[1])], [twice]) == [
            f"{twice.factory.__module__}:flash2: line {line + more}" for more in (0, 1)
        ]

    def test_threads_that_load_what_they_use_hide_a_missing_barrier(self) -> None:
        """Why T is 24 here: with T = d a thread of this kernel meets only columns that it loaded itself."""
        shown, hidden = (Case("flash2", 29, 16, 16, 16, threads, nk=37) for threads in (24, 16))
        (step,) = shown.steps
        before_keys = hunt.barriers(step)[0]
        assert hunt.missed(shown, step, before_keys)
        assert not hunt.missed(hidden, step, before_keys)


class TestScheduler:
    pytestmark = needs_both

    def test_threads_run_to_their_next_barrier_in_order(self) -> None:
        body = """
        Q[0, t, 0] = Q[0, 0, 0] + 1.0
        cuda.syncthreads()
        Q[0, t, 0] = Q[0, t, 0] + 10.0 * Q[0, 0, 0]"""
        for order, first in (("forward", 5.0), ("reversed", 4.0)):
            call = call_of(body)
            call.arrays["Q"][:] = 3.0
            with scheduled(order):  # type: ignore[arg-type]  # one of ORDERS
                simulator.launch(call)
            after = {"forward": [44.0, 445.0, 445.0, 445.0], "reversed": [44.0, 44.0, 44.0, 44.0]}[order]
            assert call.arrays["Q"].ravel().tolist() == after, first

    def test_blocks_run_in_order_too(self) -> None:
        """A kernel whose first block prepares what the others add to: right in one order, on a GPU in none."""
        case = Case("flash2-backward", 13, 4, 4, 4, 6)
        step = case.steps[2]
        add = "cuda.atomic.add(dQ, (head, i0 + r, x), scale * acc)"
        begin = f"if cuda.blockIdx.x == 0: dQ[head, i0 + r, x] = np.float32(0.0)\n                    {add}"
        steps = swapped(case.steps, edits.edited(step, (add, begin)))
        assert hunt.fault(case, steps, "forward") == ""
        assert hunt.fault(case, steps, "reversed").startswith("dQ is off by ")

    @pytest.mark.parametrize(
        ("body", "line"),
        [
            ("        if t < 3:\n            cuda.syncthreads()", "3 threads wait at the barrier in line 7, and 1 of 4 have ended"),
            (
                "        if t == 0:\n            return\n        cuda.syncthreads()",
                "3 threads wait at the barrier in line 8, and 1 of 4 have ended",
            ),
            (
                "        if t < 3:\n            cuda.syncthreads()\n        else:\n            cuda.syncthreads()",
                "4 threads wait at the barrier in line 7 and line 9, and 0 of 4 have ended",
            ),
        ],
        ids=["divergent", "early return", "two barriers"],
    )
    @pytest.mark.parametrize("order", ORDERS)
    def test_a_barrier_that_not_all_reach_is_refused(self, body: str, line: str, order: Order) -> None:
        with scheduled(order), pytest.raises(Diverged, match=f"^kernel: {line}$"):
            simulator.launch(call_of(body))

    def test_shared_memory_is_nan_when_a_block_begins(self) -> None:
        body = """
        room = cuda.shared.array(4, np.float32)
        Q[0, t, 0] = room[t]
        room[t] = 1.0"""
        call = call_of(body)
        with scheduled():
            simulator.launch(call)
        assert np.isnan(call.arrays["Q"]).all()

    def test_the_simulator_is_as_before_afterwards(self) -> None:
        from iosim_gpu.cuda import cuda

        kernel, kernelapi = cuda.simulator.kernel, cuda.simulator.kernelapi
        before = kernel.BlockManager, kernelapi.threading, vars(kernelapi.FakeCUDAAtomic).copy(), kernel._get_kernel_context()
        with scheduled("reversed"), pytest.raises(Diverged):
            simulator.launch(call_of("        if t:\n            cuda.syncthreads()"))
        assert (kernel.BlockManager, kernelapi.threading, vars(kernelapi.FakeCUDAAtomic).copy(), kernel._get_kernel_context()) == before

    def test_no_thread_is_left_inside_a_kernel_that_failed(self) -> None:
        body = """
        try:
            cuda.syncthreads()
            1 // (t - 2)
            cuda.syncthreads()
        finally:
            Q[0, t, 0] = 7.0"""
        call = call_of(body)
        with scheduled(), pytest.raises(ZeroDivisionError) as kept:
            simulator.launch(call)
        assert kept.value is not None  # and with it all that the failed thread held
        assert call.arrays["Q"].ravel().tolist() == [7.0] * 4

    def test_what_a_thread_raises_is_what_the_launch_raises(self) -> None:
        with scheduled(), pytest.raises(ZeroDivisionError):
            simulator.launch(call_of("        cuda.syncthreads()\n        1 // (t - 2)"))


@pytest.mark.needs_compiler
def test_the_scheduler_needs_the_simulator() -> None:
    with pytest.raises(BadInput, match="the simulator is off"), scheduled():
        pass


@pytest.mark.needs_simulator
class TestEdits:
    def test_a_text_that_is_there_twice_or_never_is_refused(self) -> None:
        step = STEPS["flash2"]
        for old, times in (("cuda.syncthreads()", 5), ("no such text", 0)):
            with pytest.raises(
                BadInput, match=rf"^an edit needs a text that the source of flash2 holds once; it holds '.*' {times} times$"
            ):
                edits.edited(step, (old, "pass"))

    def test_only_the_kernels_own_functions_are_edited(self) -> None:
        """A module may hold several kernels, of which only one is to change."""
        scores, softmax = STEPS["scores"], STEPS["softmax"]
        line = "            S[head, i0 + r, j0 + c] = acc"
        assert edits.source(scores).count("for j0 in range(0, S.shape[2], Bc):") == 2
        with pytest.raises(BadInput, match="0 times"):
            edits.edited(scores, ("for j0 in range(0, S.shape[2], Bc):", ""))
        with pytest.raises(BadInput, match="0 times"):
            edits.edited(softmax, (line, ""))
