"""Masks in .npy files, read without trusting them."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim.core.masks.arrays import Bool, boolean
from iosim.core.units import whole

Path = str | os.PathLike[str]
Shape = tuple[int, int]

LARGEST = 2**30


def load_elements(path: Path, n: int, nk: int) -> Bool:
    """Read an element mask of shape ``(n, nk)``, booleans or 0 and 1, True = may attend.

    Raises :class:`iosim.core.errors.BadInput` when there is no such file, when it is no complete .npy array, holds Python
    objects or other numbers, has another shape, or is larger than 1 GiB.
    """
    return read(path, {"(n, nk)": (whole("n", n), whole("nk", nk))})


def read(path: Path, shapes: dict[str, Shape]) -> Bool:
    """Read a boolean array that has one of ``shapes``, each named by its formula; refuses like :func:`load_elements`."""
    what = f"the mask {os.fspath(path)!r}"
    array = _load(what, os.fspath(path))
    if array.shape not in shapes.values():
        wanted = " or ".join(f"{formula} = {shape}" for formula, shape in shapes.items())
        raise BadInput(f"{what} has shape {array.shape} but must have {wanted}")
    # A file can give a boolean array bytes that are neither 0 nor 1, and NumPy counts such an element more than once.
    return boolean(what, array.view(np.uint8) if array.dtype == np.bool_ else array)


def _load(what: str, path: str) -> NDArray[Any]:
    if not os.path.isfile(path):
        raise BadInput(f"{what} is not a file that can be found; give the path of a .npy file")
    size = os.path.getsize(path)
    if size > LARGEST:
        raise BadInput(f"{what} takes {size} bytes and at most {LARGEST} (1 GiB) are read; give a grid of tiles, or a rule")
    try:
        with open(path, "rb") as file:
            array = np.load(file, allow_pickle=False)
    except OSError as fault:
        raise BadInput(f"{what} cannot be read: {fault.strerror or 'damaged file'}") from None
    except Exception:  # NumPy's header parser lets many kinds of error through, and each means the same here
        raise BadInput(f"{what} is not a complete .npy array of plain numbers; write it with numpy.save") from None
    if not isinstance(array, np.ndarray):
        raise BadInput(f"{what} is an .npz archive; write one array with numpy.save")
    return array
