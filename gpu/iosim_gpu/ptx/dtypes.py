"""The types of PTX as NumPy types, and the one form in which a register of each width keeps its bits."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Lanes: TypeAlias = NDArray[Any]
"""A value for each lane of a batch of threads, or, with no axis, one value that all of them share."""

DTYPES: dict[str, np.dtype[Any]] = {
    "pred": np.dtype(np.bool_),
    "b8": np.dtype(np.uint8),
    "b16": np.dtype(np.int16),
    "b32": np.dtype(np.int32),
    "b64": np.dtype(np.int64),
    "s8": np.dtype(np.int8),
    "s16": np.dtype(np.int16),
    "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
"""What an operand of each type is computed as. Bits are signed, as registers keep them: most work needs no view then."""

REGISTERS: dict[str, np.dtype[Any]] = {
    name: DTYPES[kept]
    for kept, names in {
        "pred": ("pred",),
        "b16": ("b16", "s16", "u16"),
        "b32": ("b32", "s32", "u32"),
        "b64": ("b64", "s64", "u64"),
        "f32": ("f32",),
        "f64": ("f64",),
    }.items()
    for name in names
}
"""What a register declared with each type is kept as; other declarations are refused."""


def bits(kind: str) -> str:
    """The untyped name of the same width: where sign makes no difference, as in `add.u64`.

    >>> bits("u64")
    'b64'
    """
    return "b" + kind[1:]


@functools.cache
def poison(dtype: np.dtype[Any]) -> Lanes:
    """What a register or a byte holds before it is written: all bits set, which is NaN for floats and -1 for integers.

    >>> float(poison(np.dtype(np.float32)))
    nan
    """
    return np.array(True) if dtype.kind == "b" else np.full(dtype.itemsize, 0xFF, np.uint8).view(dtype).reshape(())


def convert(value: Lanes, dtype: np.dtype[Any]) -> Lanes:
    """The same bits under another type of that width; or an integer, across widths, cut off or extended by its own sign.

    >>> convert(np.array(-1, np.int32), np.dtype(np.uint32)), convert(np.array(-1, np.int8), np.dtype(np.int32))
    (array(4294967295, dtype=uint32), array(-1, dtype=int32))
    """
    if value.dtype == dtype:
        return value
    return value.view(dtype) if value.dtype.itemsize == dtype.itemsize else value.astype(dtype)
