"""Arrays that come from outside, read as booleans or as indices; anything else is refused by name."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core.errors import BadInput

Bool = NDArray[np.bool_]
Index = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


def boolean(what: str, value: ArrayLike) -> Bool:
    """``value`` as booleans, True or 1 = may attend; raises :class:`iosim.core.errors.BadInput` for any other number.

    >>> boolean("mask", [[1, 0]])
    array([[ True, False]])
    """
    array = _array(what, value)
    if array.size and array.dtype.kind not in "biu":
        raise BadInput(f"{what} must hold booleans, or integers 0 and 1 (True = may attend), not {array.dtype}")
    if array.size and array.dtype.kind in "iu" and (array.min() < 0 or array.max() > 1):
        raise BadInput(f"{what} must hold only 0 and 1 (1 = may attend), not numbers from {array.min()} to {array.max()}")
    return array.astype(np.bool_, copy=False)


def integers(what: str, value: ArrayLike) -> Index:
    """``value`` as int64; raises :class:`iosim.core.errors.BadInput` for booleans, fractions and strings."""
    array = _array(what, value)
    if array.size and array.dtype.kind not in "iu":
        raise BadInput(f"{what} must hold integers, not {array.dtype}")
    return array.astype(np.int64, copy=False)


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """A copy of ``array`` that nobody can write to."""
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _array(what: str, value: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(value)
    except (TypeError, ValueError):
        raise BadInput(f"{what} is not an array: give rows of equal length") from None
