"""Launches on a GPU: what the checks allow, with shared memory beyond 48 KB asked for, arrays copied there and back.

A real device is one more runner of the counters meter (:mod:`iosim_gpu.meters.counters`); Nsight Compute and the timings launch in the
same way.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from iosim.core.errors import BadInput
from iosim_gpu import optin
from iosim_gpu.calls import Call
from iosim_gpu.case import Case
from iosim_gpu.checks import check
from iosim_gpu.declaration import Step
from iosim_gpu.environment import needs, part, simulated
from iosim_gpu.fitting import STATIC_LIMIT
from iosim_gpu.meters import counters
from iosim_gpu.moved import Measured
from iosim_gpu.tiling import Tiling

OPTIONS: Mapping[str, Any] = {"lto": False}
"""How kernels are compiled for a device. Without optimisation at link time the machine code comes from the very PTX that the emulator
executes. No ``lineinfo``: it should change no instruction, but NVVM 13.0 orders some of them otherwise."""


def absent() -> str:
    """Why nothing can be launched on a GPU in this process, in one line; empty where it can."""
    if part("numba").found and simulated():
        return "a GPU was asked for, but this process runs kernels in Numba's simulator; unset NUMBA_ENABLE_CUDASIM"
    try:
        needs("run on a GPU")
    except BadInput as missing:
        return str(missing)
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """The current device of ``cuda``, Numba's module. ``allow`` opts a kernel in to more than 48 KB; see :func:`optin.allow`."""

    cuda: Any
    allow: Callable[[Any, int, Any], None] = optin.allow
    dispatchers: dict[tuple[Step, Tiling], Any] = field(default_factory=dict)

    @property
    def shared_limit(self) -> int:
        """Bytes of shared memory that a block of threads may have at most, once it has opted in."""
        return int(self.cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)

    def launch(self, call: Call) -> None:
        """Run ``call``; afterwards its arrays and counts hold what the kernel wrote.

        Raises :class:`iosim.core.errors.BadInput` for a launch that the device would refuse, before it is made.
        """
        there = {name: self.cuda.to_device(value) if isinstance(value, np.ndarray) else value for name, value in call.args}
        self.ready(call, list(there.values()))()
        for name, value in call.args:
            if name in written(call):
                there[name].copy_to_host(value)

    def ready(self, call: Call, arguments: Sequence[Any]) -> Callable[[], object]:
        """``call``, checked and compiled, as something to be called: each time one launch on ``arguments``, which lie on the device.

        A launch returns before the kernel has run. CuPy's arrays are arguments as they are.
        """
        fitted = sized(call)
        check(fitted, self.shared_limit)
        dispatcher = self._dispatcher(fitted)
        kernel = dispatcher.compile(tuple(dispatcher.typeof_pyval(value) for value in arguments))
        fits(fitted, kernel)
        if fitted.step.shared_bytes(fitted.tiling) > STATIC_LIMIT:
            self.allow(kernel, fitted.dynamic_bytes, self.cuda)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Grid size")  # a small grid is what most checks want
            launcher = dispatcher[fitted.grid, fitted.tiling.threads, 0, fitted.dynamic_bytes]
        return lambda: launcher(*arguments)

    def _dispatcher(self, call: Call) -> Any:
        """One for each kernel and tiling, since Numba compiles every new function anew."""
        key = call.step, call.tiling
        if key not in self.dispatchers:
            # In one call: numba-cuda 0.30's jit(lto=False) gives a decorator that has forgotten it.
            self.dispatchers[key] = self.cuda.jit(call.step.make(call.tiling), **OPTIONS)
        return self.dispatchers[key]


def sized(call: Call) -> Call:
    """``call`` with its shared memory sized at the launch where a static array would be refused: above 48 KB."""
    if call.step.shared_bytes(call.tiling) <= STATIC_LIMIT:
        return call
    return replace(call, tiling=replace(call.tiling, dynamic=True))


def written(call: Call) -> set[str]:
    """The arguments that the kernel stores to; the others need not come back."""
    return {slot.partition(".")[0] for slot in call.step.slots if not slot.endswith(".loads")} | {"counts"}


def fits(call: Call, kernel: Any) -> None:
    """Raise :class:`iosim.core.errors.BadInput` where the compiled kernel takes too many registers for that many threads."""
    most = kernel.max_threads_per_block
    if call.tiling.threads > most:
        raise BadInput(
            f"{call.step.name} takes {kernel.regs_per_thread} registers a thread on this device, which leaves room for {most} threads "
            f"a block, not {call.tiling.threads}; threads <= {most} would fit"
        )


@cache
def here() -> Device:
    """The device of this process; raises :class:`iosim.core.errors.BadInput` where there is none, saying why."""
    missing = absent()
    if missing:
        raise BadInput(missing)
    from iosim_gpu.cuda import cuda

    return Device(cuda)


def launch(call: Call) -> None:
    """Run ``call`` on the device of this process, as :meth:`Device.launch` does; a runner for :func:`counters.measure`."""
    here().launch(call)


def measure_counters_on_device(case: Case) -> Measured:
    """What the kernel counts itself on a GPU, array by array, and the arrays afterwards.

    Raises :class:`iosim.core.errors.BadInput` where there is no GPU, and for a launch that the one there is would refuse.
    """
    here()
    return replace(counters.measure(case, runner=launch), meter="counters on the device")
