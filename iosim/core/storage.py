"""Numbers as HBM holds them: checked on the way in, rounded on the way out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.masks.arrays import boolean

Array = NDArray[np.generic]


def stored(name: str, shape: tuple[int, int], data: ArrayLike, dtype: str, *, infinite: bool = False) -> Array:
    """``data`` as HBM holds it: of ``dtype``, read-only; raises :class:`BadInput` naming the first element that is not finite.

    ``infinite`` allows -inf, which a logarithm of 0 is.
    """
    kind = np.dtype(np.bool_) if dtype == "bool" else dtypes.storage(dtype)
    settled = isinstance(data, np.ndarray) and data.dtype == kind and data.flags.owndata and not data.flags.writeable
    values = np.asarray(data) if settled else _read(name, data, kind)
    if values.shape != tuple(shape):
        raise BadInput(f"{name} has shape {values.shape} but {tuple(shape)} was declared")
    sound = np.isfinite(values)
    if infinite:
        sound |= np.equal(values, -np.inf)
    if not sound.all():
        where = tuple(np.argwhere(~sound)[0].tolist())
        raise BadInput(f"{name}[{', '.join(map(str, where))}] is {values[where]}; every element of {name} must be finite in {dtype}")
    values.flags.writeable = False
    return values


def _read(name: str, data: ArrayLike, dtype: np.dtype[np.generic]) -> Array:
    if dtype == np.bool_:
        return boolean(name, data).copy()
    try:
        if np.iscomplexobj(data):
            raise TypeError("complex numbers")
        with np.errstate(over="ignore"):
            return np.array(data, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadInput(f"{name} cannot be read as an array of {dtype}: {error}") from None


def poison(shape: tuple[int, int], dtype: str) -> Array:
    """An array that was never written: NaN everywhere, which a boolean takes for True."""
    return np.full(shape, np.nan, np.bool_ if dtype == "bool" else dtypes.storage(dtype))


def rounded(name: str, data: Array, dtype: np.dtype[np.generic]) -> Array:
    """``data`` rounded to ``dtype``; raises :class:`BadInput` where a number is out of its range."""
    with np.errstate(over="ignore"):
        narrow = data.astype(dtype)
    lost = np.isfinite(data) & ~np.isfinite(narrow) | np.isinf(data) & np.isnan(narrow)
    if dtype == np.bool_:
        lost = narrow != data
    if lost.any():
        raise BadInput(f"{name} holds {data[lost][0]}, which {dtype} cannot hold; choose a wider dtype")
    return narrow
