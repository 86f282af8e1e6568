"""Element types by name: how wide they are in HBM and what they widen to on chip."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from iosim.core.errors import BadInput, MissingExtra

_NUMPY = ("float16", "float32", "float64")
_ML_DTYPES = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
NAMES = (*_NUMPY, *_ML_DTYPES)


def checked(name: str) -> str:
    """``name`` if it is an element type that iosim knows; raises :class:`BadInput` otherwise."""
    if name not in NAMES:
        raise BadInput(f"unknown dtype {name!r}; known: {', '.join(NAMES)}")
    return name


def itemsize(name: str) -> int:
    """Bytes an element takes in HBM.

    >>> itemsize("bfloat16")
    2
    """
    return _ML_DTYPES.get(checked(name)) or np.dtype(name).itemsize


def storage(name: str) -> np.dtype[Any]:
    """The NumPy dtype that stores ``name``; bfloat16 and float8 need the extra ``dtypes``."""
    if checked(name) in _NUMPY:
        return np.dtype(name)
    try:
        module = importlib.import_module("ml_dtypes")
    except ImportError:
        raise MissingExtra(f'{name} needs ml_dtypes: pip install "iosim[dtypes]"') from None
    dtype: np.dtype[Any] = np.dtype(getattr(module, name))
    return dtype


def accumulator(name: str) -> str:
    """The type of every value computed on chip: float64 for float64, float32 for all else."""
    return "float64" if checked(name) == "float64" else "float32"


def intermediate(name: str) -> str:
    """The type in which standard attention keeps S and P: one byte holds no logits, so float8 takes bfloat16."""
    return "bfloat16" if itemsize(name) == 1 else name
