"""The emulator meter: the PTX that Numba and NVVM emit, executed on the CPU, with every access to global memory counted."""

from __future__ import annotations

from collections.abc import Sequence

from iosim_gpu.calls import Call, calls, prepared, total
from iosim_gpu.case import Case
from iosim_gpu.checks import check
from iosim_gpu.compiling import to_ptx
from iosim_gpu.declaration import Step
from iosim_gpu.moved import Measured, Moved
from iosim_gpu.ptx import Access, Run, emulate


def measure(case: Case, steps: Sequence[Step] | None = None, arch: str = "sm_90") -> Measured:
    """``case`` compiled for ``arch`` and emulated; ``steps`` stands in for the kernel's own launches.

    Raises :class:`iosim.core.errors.BadInput` where nothing can be compiled: without NVVM, or in a process whose simulator is on.
    """
    arrays = prepared(case)
    return Measured("emulator", total([counted(call, arch) for call in calls(case, arrays, steps=steps)]), dict(arrays))


def counted(call: Call, arch: str = "sm_90") -> dict[str, Moved]:
    """One launch, which writes into the call's arrays; what each of them moved."""
    run = launch(call, arch)
    return {name: moved(run.arrays[name]) for name in call.arrays}


def launch(call: Call, arch: str = "sm_90") -> Run:
    """Compile ``call`` for ``arch`` and run the PTX on the call's arrays and counts."""
    check(call)
    return emulate(to_ptx(call, arch), grid=call.grid, threads=call.tiling.threads, args=call.args, dynamic_shared=call.dynamic_bytes)


def moved(access: Access) -> Moved:
    """What the emulator saw of one array, its transactions included."""
    return Moved(
        access.loads, access.stores, access.atomics,
        access.load_sectors + access.store_sectors + access.atomic_sectors,
        access.load_requests + access.store_requests + access.atomic_requests,
    )  # fmt: skip
