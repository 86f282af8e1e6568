"""How Numba hands arguments to a compiled kernel: an array of rank r as 5 + 2 r parameters, a number as itself.

An array is `parent, memory info, size, item size, data, *shape, *strides`, of which the first two are null on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim_gpu.ptx.dtypes import DTYPES, Lanes
from iosim_gpu.ptx.memory import GlobalMemory
from iosim_gpu.ptx.parse import Parameter

Argument: TypeAlias = "NDArray[Any] | np.generic | int | float"


def parameters(expected: Sequence[Parameter], args: Sequence[tuple[str, Argument]], memory: GlobalMemory) -> list[Lanes]:
    """The value of each parameter of a kernel, in the type that the kernel declares.

    Raises BadInput where the number of parameters differs, or a number does not fit the type that the kernel declares.
    """
    flat = [(name, word) for name, value in args for word in _words(name, value, memory)]
    if len(flat) != len(expected):
        counts = ", ".join(f"{name} {len(_words(name, value, memory))}" for name, value in args)
        raise BadInput(f"the kernel takes {len(expected)} parameters, but the arguments make {len(flat)}: {counts or 'none'}")
    return [_fitted(name, word, parameter) for (name, word), parameter in zip(flat, expected, strict=True)]


def _words(name: str, value: Argument, memory: GlobalMemory) -> list[int | float]:
    if isinstance(value, np.ndarray):
        return [0, 0, value.size, value.itemsize, memory.base(name), *value.shape, *value.strides]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise BadInput(f"{name} must be an array or a real number: got {type(value).__name__}")
    return [value]


def _fitted(name: str, word: float, parameter: Parameter) -> Lanes:
    dtype = DTYPES[parameter.kind]
    if dtype.kind == "f":
        return np.array(word, dtype)
    bits = 8 * dtype.itemsize
    if not isinstance(word, int) or not -(1 << (bits - 1)) <= word < 1 << bits:
        raise BadInput(f"{name} = {word} does not fit the kernel's parameter of type .{parameter.kind}")
    return np.array(word % (1 << bits), f"u{dtype.itemsize}").view(dtype)
