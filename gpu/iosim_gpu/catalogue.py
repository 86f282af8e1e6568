"""The CUDA kernels by name: every file of :mod:`iosim_gpu.kernels` that declares a ``KERNEL``."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from iosim.core.errors import BadInput
from iosim_gpu import kernels
from iosim_gpu.declaration import Kernel


def found() -> Iterator[Kernel]:
    """Every kernel that a file declares."""
    for file in iter_modules(kernels.__path__, f"{kernels.__name__}."):
        declared = getattr(import_module(file.name), "KERNEL", None)
        if isinstance(declared, Kernel):
            yield declared


KERNELS = {kernel.name: kernel for kernel in sorted(found(), key=lambda kernel: kernel.place)}
OPTIONS = {option.name: option for kernel in KERNELS.values() for option in kernel.options}
"""The options of all kernels."""


def kernel(name: str) -> Kernel:
    """The kernel of this name; raises :class:`BadInput` with the names there are."""
    if name not in KERNELS:
        raise BadInput(f"no CUDA kernel is called {name!r}; there are {', '.join(KERNELS)}")
    return KERNELS[name]
