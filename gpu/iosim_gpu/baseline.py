"""Standard attention against the array API, for whatever library its arrays come from: on a GPU, CuPy, where a product is cuBLAS.

The only module that imports CuPy, inside functions. The same lines run with NumPy and with array-api-strict, which refuses everything
outside the standard, so that they are proved where there is no GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput, MissingExtra
from iosim_gpu.case import Case
from iosim_gpu.environment import told

EXTRA = 'pip install "iosim[cupy]"'


def standard(q: Any, k: Any, v: Any, scale: float, *, causal: bool = False, mask: Any = None) -> tuple[Any, Any]:
    """O ``(..., N, dv)`` and the log-sum-exp ``(..., N)`` of q ``(..., N, d)``, k ``(..., Nk, d)``, v ``(..., Nk, dv)``; S and P are made.

    ``causal`` is aligned bottom-right: key j <= i + Nk - N. ``mask``: boolean ``(N, Nk)``, True = may attend. A query that may attend to
    nothing gives O = 0 and LSE = -inf. All arrays come from one library and have one floating dtype, in which everything is computed.

    >>> o, lse = standard(np.zeros((1, 2)), np.ones((3, 2)), np.asarray([[1.0], [2.0], [6.0]]), 1.0)
    >>> o.tolist(), round(float(lse[0]), 3)
    ([[3.0]], 1.099)
    """
    xp = namespace(q)
    s = scale * xp.matmul(q, xp.matrix_transpose(k))
    pairs = allowed(xp, q.shape[-2], k.shape[-2], causal=causal, mask=mask)
    if pairs is not None:
        s = xp.where(pairs, s, xp.full_like(s, -xp.inf))
    m = xp.max(s, axis=-1, keepdims=True)
    m = xp.where(xp.isinf(m), xp.zeros_like(m), m)  # -inf - (-inf) would be NaN
    p = xp.exp(s - m)
    l = xp.sum(p, axis=-1, keepdims=True)
    empty = l == 0
    l = xp.where(empty, xp.ones_like(l), l)
    lse = xp.where(empty, xp.full_like(l, -xp.inf), m + xp.log(l))
    return xp.matmul(p / l, v), xp.squeeze(lse, axis=-1)


def allowed(xp: Any, n: int, nk: int, *, causal: bool, mask: Any) -> Any:
    """Which pairs ``(N, Nk)`` may attend, as a boolean array of ``xp``; None for all."""
    if not causal:
        return mask
    below = xp.expand_dims(xp.arange(nk), axis=0) <= xp.expand_dims(xp.arange(n), axis=1) + (nk - n)
    return below if mask is None else xp.logical_and(below, mask)


def namespace(array: Any) -> Any:
    """The array API of the library that ``array`` comes from. CuPy 14's arrays do not say; their package is it."""
    ask = getattr(array, "__array_namespace__", None)
    return import_module(type(array).__module__.partition(".")[0]) if ask is None else ask()


def element_mask(case: Case) -> NDArray[np.bool_] | None:
    """The pairs ``(N, Nk)`` that the block mask of ``case`` keeps; None without one."""
    if case.mask is None:
        return None
    tall = np.repeat(case.mask.dense(), case.mask.rows, axis=0)[: case.n]
    return np.repeat(tall, case.mask.cols, axis=1)[:, : case.nk]


def prepared(case: Case, given: dict[str, NDArray[np.float32]], xp: Any) -> Callable[[], tuple[Any, Any]]:
    """Standard attention of ``case`` on ``given`` inputs, copied to ``xp``, as something to be called: each time one run."""
    q, k, v = (xp.asarray(given[name]) for name in "QKV")
    keep = element_mask(case)
    mask = None if keep is None else xp.asarray(keep)
    return lambda: standard(q, k, v, case.problem.softmax_scale, causal=case.causal, mask=mask)


def cupy() -> Any:
    """CuPy, on a device that works.

    Raises :class:`iosim.core.errors.MissingExtra` where it does not load, whatever a broken one raises, and
    :class:`iosim.core.errors.BadInput` where it finds no device.
    """
    try:
        found = import_module("cupy")
    except Exception as error:
        raise MissingExtra(f"the baseline needs CuPy, which does not load here ({told(error)}); {EXTRA}") from error
    try:
        found.cuda.runtime.getDeviceCount()
    except RuntimeError as error:  # as which CUDARuntimeError counts
        raise BadInput(f"CuPy {found.__version__} finds no GPU ({told(error)})") from error
    return found


def benchmark(run: Callable[[], object], *, repeats: int, seconds: float) -> list[float]:
    """GPU seconds of each of at most ``repeats`` runs, between two events on the stream; no more once ``seconds`` have passed.

    One run before them is not timed. Raises as :func:`cupy` does.
    """
    cupy()
    timed = import_module("cupyx.profiler").benchmark(run, n_repeat=repeats, n_warmup=1, name="run", max_duration=seconds)
    return [float(one) for one in timed.gpu_times[0]]
