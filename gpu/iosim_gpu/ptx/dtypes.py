"""The types of PTX as NumPy types, and the one form in which a register of each width keeps its bits."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Lanes: TypeAlias = NDArray[Any]
"""A value for each lane of a batch of threads, or, with no axis, one value that all of them share."""

DTYPES: dict[str, np.dtype[Any]] = {"pred": np.dtype(np.bool_), "b8": np.dtype(np.uint8)} | {
    f"{kind}{width}": np.dtype(f"{kept}{width // 8}")
    for kind, kept, widths in (("b", "i", (16, 32, 64)), ("s", "i", (8, 16, 32, 64)), ("u", "u", (8, 16, 32, 64)), ("f", "f", (16, 32, 64)))
    for width in widths
}
"""What an operand of each type is computed as. Bits are signed, as registers keep them: most work needs no view then."""

REGISTERS: dict[str, np.dtype[Any]] = {kind: DTYPES[kind] for kind in ("pred", "f32", "f64")} | {
    f"{kind}{width}": DTYPES[f"b{width}"] for kind in "bsu" for width in (16, 32, 64)
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
