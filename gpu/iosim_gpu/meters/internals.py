"""The names inside Numba's CUDA simulator that the meter and the scheduler stand on: none is public, so all are met here and checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from iosim.core.errors import BadInput
from iosim_gpu.environment import needs

WRITTEN_FOR = "numba-cuda 0.30"
OPERATIONS = ("add", "and_", "cas", "compare_and_swap", "dec", "exch", "inc", "max", "min", "nanmax", "nanmin", "or_", "sub", "xor")
"""The simulated atomic operations; the first argument of each is the array."""
INDEXED = tuple(name for name in OPERATIONS if name != "compare_and_swap")
"""Those whose second argument is an index: the other one means the first element, by an ordinary load and store."""


@cache  # asked again while a launch has some of these names exchanged
def simulator() -> Any:
    """Numba's simulator; raises :class:`iosim.core.errors.BadInput` where it is off, or no longer what this module was written for."""
    needs("simulate")
    from iosim_gpu.cuda import SIMULATED, cuda

    if not SIMULATED:
        raise BadInput("the simulator is off in this process; set NUMBA_ENABLE_CUDASIM=1 before Python starts, or use the emulator")
    changed = changes(cuda.simulator)
    if changed:
        raise BadInput(f"Numba's simulator has changed inside ({changed[0]}); {WRITTEN_FOR} would work")
    return cuda.simulator


def changes(found: Any) -> list[str]:
    """What is not as it was in the simulator that this module was written for; empty where all is well."""
    return [told for told, check in CHECKS.items() if not _holds(check, found)]


def _holds(check: Callable[[Any], bool], found: Any) -> bool:
    try:
        return check(found)
    except (AttributeError, TypeError, ValueError):
        return False


def _parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


CHECKS: dict[str, Callable[[Any], bool]] = {
    "kernel.BlockManager is built otherwise": (
        lambda s: _parameters(s.kernel.BlockManager) == ["f", "grid_dim", "block_dim", "debug"]
    ),
    "kernel.BlockManager.run takes other arguments": (
        lambda s: _parameters(s.kernel.BlockManager.run) == ["self", "grid_point", "args"]
    ),
    "a launch does not look for kernel.BlockManager": (
        lambda s: "BlockManager" in s.kernel.FakeCUDAKernel.__call__.__code__.co_names
    ),
    "kernel._get_kernel_context is gone": (
        lambda s: s.kernel._get_kernel_context() is None
    ),
    "a kernel does not find its thread by threading.current_thread()": (
        lambda s: all(
            read.fget.__code__.co_names[:2] == ("threading", "current_thread")
            for read in (s.kernelapi.FakeCUDAModule.threadIdx, s.kernelapi.FakeCUDAModule.blockIdx)
        )
    ),
    "syncthreads does not call the thread's own": (
        lambda s: s.kernelapi.FakeCUDAModule.syncthreads.__code__.co_names == ("threading", "current_thread", "syncthreads")
    ),
    "kernelapi.Dim3 is built otherwise": (
        lambda s: _parameters(s.kernelapi.Dim3) == ["x", "y", "z"]
    ),
    "shared arrays are kept elsewhere": (
        lambda s: s.kernelapi.FakeCUDAShared(8)._allocations == {} and s.kernelapi.FakeCUDAShared(8)._dynshared.nbytes == 8
    ),
    "a kernel's shared memory is not its _shared": (
        lambda s: "_shared" in s.kernelapi.FakeCUDAModule.__init__.__code__.co_names
    ),
    "there are other atomic operations": (
        lambda s: tuple(sorted(name for name in vars(s.kernelapi.FakeCUDAAtomic) if name[0] != "_")) == OPERATIONS
    ),
    "an atomic operation does not begin with its array": (
        lambda s: all(_parameters(getattr(s.kernelapi.FakeCUDAAtomic, name))[:2] == ["self", "array"] for name in OPERATIONS)
    ),
}  # fmt: skip
"""What must hold, by what to say when it does not."""


@contextmanager
def exchanged(owner: Any, **names: Any) -> Iterator[None]:
    """``owner`` with other attributes for as long as the context lasts."""
    before = {name: getattr(owner, name) for name in names}
    try:
        for name, value in names.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)
