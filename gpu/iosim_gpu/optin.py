"""More than 48 KB of shared memory for one kernel, which CUDA gives to whoever asks and numba-cuda 0.30 never asks for.

The driver has to be told before the launch, by an attribute of the compiled kernel. numba-cuda has no public way to the handle of
that kernel, so the names it is reached by are private and met here alone. What the driver says afterwards is read back: whatever the
names may come to mean in another version, either the kernel has the room or :func:`allow` raises.
"""

from __future__ import annotations

from typing import Any

from iosim.core.errors import BadInput
from iosim_gpu.environment import released

WRITTEN_FOR = "0.30"


def allow(kernel: Any, nbytes: int, cuda: Any) -> None:
    """Let ``kernel``, compiled for the current device, be launched with ``nbytes`` of dynamic shared memory.

    ``kernel`` is what ``dispatcher.compile`` of ``cuda``, Numba's module, gives. Raises :class:`iosim.core.errors.BadInput` where
    numba-cuda is no longer built the way this module was written for, and where the driver does not do it.
    """
    try:
        function, attribute, driver = _handles(kernel, cuda)
        driver.cuKernelSetAttribute(attribute, nbytes, function.handle, function.device.id)
        found = int(driver.cuKernelGetAttribute(attribute, function.handle, function.device.id))
    except (AttributeError, TypeError) as changed:
        installed = released("numba-cuda", "an unknown version")
        raise BadInput(
            f"more than 48 KB of shared memory takes private names of numba-cuda {WRITTEN_FOR}, which {installed} lacks ({changed}); "
            "take smaller tiles, or that version"
        ) from changed
    if found < nbytes:
        raise BadInput(f"the kernel was to have {nbytes:,} bytes of dynamic shared memory, but the driver leaves it at {found:,}")


def _handles(kernel: Any, cuda: Any) -> tuple[Any, Any, Any]:
    """The driver's handle of the kernel, the attribute that bounds its dynamic shared memory, and the driver itself."""
    inside = cuda.cudadrv.driver
    attribute = inside.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    return kernel._codelibrary.get_cufunc(), attribute, inside.driver
