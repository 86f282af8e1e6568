"""The numbers of a problem: drawn at random, or given by a caller and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.core.units import whole

Values = dict[str, NDArray[np.generic]]
LAYOUT = "(N, d) or (B, H, N, d)"
RULES = {"scale", "causal", "window", "mask", "block_mask", "dropout", "dropout_seed"}


def random_inputs(problem: Attention, seed: int = 0, *, gradient: bool = False) -> Values:
    """Standard normal Q ``(n, d)``, K ``(nk, d)`` and V ``(nk, dv)`` of one head, in its dtype; ``gradient`` adds dO ``(n, dv)``."""
    rng = np.random.default_rng(whole("seed", seed, 0))
    heads = (problem.group,) if problem.group > 1 else ()
    shapes = {"Q": (*heads, problem.n, problem.d), "K": (problem.nk, problem.d), "V": (problem.nk, problem.dv)}
    shapes |= {"dO": (*heads, problem.n, problem.dv)} if gradient else {}
    return {name: _frozen(rng.standard_normal(shape, np.float32).astype(dtypes.storage(problem.dtype))) for name, shape in shapes.items()}


def problem_of(q: ArrayLike, k: ArrayLike, v: ArrayLike, **rules: object) -> Attention:
    """The :class:`Attention` problem of three arrays of layout (N, d) or (B, H, N, d).

    ``rules``: scale, causal, window, mask, block_mask, dropout and dropout_seed, as :class:`Attention` takes them; k and v may have fewer
    heads than q. Raises :class:`BadInput` naming the shape where dimensions do not match, where there are not 2 or 4 of them or one is 0,
    and for elements that are no real numbers.

    >>> problem_of([[1.0, 0.0]], [[4.0, 0.0]], [[3.0]], causal=True)
    Attention(n=1, d=2, dv=1, dtype='float64', causal=True)
    """
    unknown = set(rules) - RULES
    if unknown:
        raise BadInput(f"unknown rule {unknown.pop()!r}; known: {', '.join(sorted(RULES))}")
    arrays = {name: array_of(name, array) for name, array in (("q", q), ("k", k), ("v", v))}
    for name, array in arrays.items():
        if array.ndim not in (2, 4):
            raise BadInput(f"{name} has shape {array.shape}, {array.ndim} dimensions; the layout is {LAYOUT}")
        if array.dtype.kind not in "iuf" and str(array.dtype) not in dtypes.NAMES:
            raise BadInput(f"{name} holds {array.dtype}; attention needs real numbers, such as {' '.join(dtypes.NAMES[:3])}")
        if array.size == 0:
            raise BadInput(f"{name} has shape {array.shape} and holds no element; every dimension must be at least 1")
    q, k, v = arrays.values()
    if not q.shape[:-3] == k.shape[:-3] or k.shape[:-2] != v.shape[:-2]:
        raise BadInput(f"q, k and v differ in batch or heads: {q.shape}, {k.shape}, {v.shape}; the layout is {LAYOUT}")
    if q.shape[-1] != k.shape[-1]:
        raise BadInput(f"q {q.shape} and k {k.shape} differ in d: {q.shape[-1]} and {k.shape[-1]}")
    if k.shape[-2] != v.shape[-2]:
        raise BadInput(f"k {k.shape} and v {v.shape} differ in rows: {k.shape[-2]} and {v.shape[-2]}; every key has one value")
    batch, heads = q.shape[:-2] or (1, 1)
    kv_heads = k.shape[-3] if k.ndim == 4 else 1
    problem = Attention(
        q.shape[-2], q.shape[-1], nk=k.shape[-2], dv=v.shape[-1], batch=batch, heads=heads, kv_heads=kv_heads, dtype=_dtype(q)
    )
    return replace(problem, **rules)  # type: ignore[arg-type]  # replace() checks the names, Attention the values


def array_of(name: str, values: ArrayLike) -> NDArray[np.generic]:
    """``values`` as an array; raises :class:`BadInput` for rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise BadInput(f"{name} cannot be read as an array: {error}") from None


def heads_of(problem: Attention, inputs: Sequence[ArrayLike], *, gradient: bool = False) -> list[Values]:
    """The given ``(q, k, v)``, with ``do`` for a ``gradient``, as one dictionary a KV head, checked against ``problem``.

    In a group, Q and dO have a first axis of query heads.
    """
    names = ("Q", "K", "V", "dO") if gradient else ("Q", "K", "V")
    if not hasattr(inputs, "__len__") or len(inputs) != len(names):
        found = f"{len(inputs)} arrays" if hasattr(inputs, "__len__") else repr(inputs)
        raise BadInput(f"inputs must be ({', '.join(name.lower() for name in names)}), not {found}")
    given = problem_of(*inputs[:3])
    for name in ("n", "nk", "d", "dv", "batch", "heads", "kv_heads"):
        if getattr(given, name) != getattr(problem, name):
            raise BadInput(f"the inputs have {name} = {getattr(given, name)} but the problem has {name} = {getattr(problem, name)}")
    output = (*np.shape(inputs[0])[:-1], np.shape(inputs[2])[-1])
    if gradient and array_of("do", inputs[3]).shape != output:
        raise BadInput(f"do has shape {np.shape(inputs[3])} but the output has {output}")
    groups = (problem.group,) if problem.group > 1 else ()
    shaped = [
        np.asarray(array).reshape(problem.instances, *(() if name in ("K", "V") else groups), *np.shape(array)[-2:])
        for name, array in zip(names, inputs, strict=True)
    ]
    return [dict(zip(names, head, strict=True)) for head in zip(*shaped, strict=True)]


def _dtype(array: NDArray[np.generic]) -> str:
    name = str(array.dtype)
    return name if name in dtypes.NAMES else "float64"


def _frozen(array: NDArray[np.generic]) -> NDArray[np.generic]:
    array.flags.writeable = False
    return array
