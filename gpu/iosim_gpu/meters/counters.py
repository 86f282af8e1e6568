"""The counters meter: the kernel compiled with its own counters, which report what its threads say they moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iosim_gpu.calls import Call, calls, prepared, total
from iosim_gpu.case import Case
from iosim_gpu.declaration import Step
from iosim_gpu.meters import simulator
from iosim_gpu.moved import Measured

Runner = Callable[[Call], object]
"""Runs one launch: when it returns, the call's arrays and counts hold what the kernel wrote."""


def measure(case: Case, steps: Sequence[Step] | None = None, runner: Runner = simulator.launch) -> Measured:
    """``case`` with counting compiled in, run by ``runner``: the simulator's ``launch``, the emulator's, or that of a device.

    Raises :class:`iosim.core.errors.BadInput` where the runner cannot run in this process.
    """
    arrays = prepared(case)
    launches = calls(case, arrays, counting=True, steps=steps)
    for call in launches:
        runner(call)
    return Measured("counters", total([call.counted() for call in launches]), dict(arrays))
