"""What the answers of exercises should be, asked of the float64 oracle, and where a result first differs from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.course.spec import Array, Wrong
from iosim_reference import lse_bound, output_bound, softmax

Float = NDArray[np.float64]


def softmax_rows(x: ArrayLike) -> tuple[Float, Float]:
    """Softmax of each row of ``x`` (rows, cols), and the log-sum-exp of each (rows,); -inf is a masked logit.

    >>> [part.tolist() for part in softmax_rows([[1000.0, 1000.0]])]
    [[[0.5, 0.5]], [1000.6931471805599]]
    """
    return softmax.safe(x), softmax.state(x).lse[:, 0]


def softmax_bounds(x: ArrayLike, dtype: str = "float64") -> tuple[float, float]:
    """How far rounding may take a weight and a log-sum-exp of ``x``, in any order of summation."""
    finite = np.asarray(x)[np.isfinite(x)]
    largest, cols = float(np.abs(finite).max(initial=0.0)), np.shape(x)[1]
    return output_bound(largest, cols, 1, 1.0, dtype), lse_bound(largest, cols, 1, dtype)


def first_wrong(name: str, found: Array, wanted: Float, bound: float) -> Wrong | None:
    """The first element of ``found``, row by row, that is further than ``bound`` from ``wanted``; a wrong shape before that.

    Infinities must be the same ones, and NaN is always wrong.

    >>> first_wrong("P", np.array([[0.5, 0.25]]), np.array([[0.5, 0.5]]), 1e-9)
    Wrong(says='P[0, 1] is 0.25 but should be 0.5', where=(0, 1), found=0.25, wanted=0.5)
    """
    if found.shape != wanted.shape:
        return Wrong(f"{name} has shape {found.shape} but should have {wanted.shape}")
    wide = found.astype(np.float64)
    near = np.abs(np.where(wide == wanted, 0.0, wide) - np.where(wide == wanted, 0.0, wanted)) <= bound
    if near.all():
        return None
    where = tuple(int(index) for index in np.argwhere(~near)[0])
    a, b = float(wide[where]), float(wanted[where])
    place = f"{name}[{', '.join(map(str, where))}]" if where else name
    return Wrong(f"{place} is {spelled(a, b)} but should be {spelled(b, a)}", where, a, b)


def spelled(x: float, beside: float) -> str:
    """``x`` in as few digits as show that it is not ``beside``, four at least.

    >>> spelled(0.123456, 0.123457), spelled(2.0, 3.0), spelled(float("nan"), 1.0)
    ('0.123456', '2', 'nan')
    """
    digits = next((n for n in range(4, 17) if f"{x:.{n}g}" != f"{beside:.{n}g}"), 17)
    return f"{x:.{digits}g}"
