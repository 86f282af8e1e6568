"""The hunt: a kernel without one of its barriers must go wrong, in its values or before it ends; otherwise the barrier is idle."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim_gpu import judge
from iosim_gpu.calls import calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.declaration import Step
from iosim_gpu.meters import simulator
from iosim_gpu.meters.schedule import ORDERS, Diverged, Order, scheduled
from tests.gpu.edits import own, rewritten, source, swapped

FAULTS = (Diverged, ArithmeticError, IndexError, ValueError)
"""What a wrong kernel may raise while it runs; anything else is no fault of its own."""


def barriers(step: Step) -> list[int]:
    """The lines of its module's source in which ``step``'s kernel has a ``cuda.syncthreads()``."""
    called = (node for function in own(step, source(step)) for node in ast.walk(function) if isinstance(node, ast.Call))
    return sorted({call.lineno for call in called if ast.unparse(call) == "cuda.syncthreads()"})


def without(step: Step, line: int) -> Step:
    """``step`` with the barrier in ``line`` taken away."""
    lines = source(step).split("\n")
    lines[line - 1] = lines[line - 1].replace("cuda.syncthreads()", "pass")
    return rewritten(step, "\n".join(lines))


def idle(cases: Iterable[Case], steps: Sequence[Step] | None = None) -> list[str]:
    """Barriers that none of ``cases`` misses when they are taken away from its kernel, or from ``steps``: module, function and line."""
    tried: dict[tuple[str, int], bool] = {}
    for case in cases:
        for step in case.steps if steps is None else steps:
            for line in barriers(step):
                key = f"{step.factory.__module__}:{step.name}", line
                tried[key] = tried.get(key) or missed(case, step, line)
    return [f"{name}: line {line}" for (name, line), found in tried.items() if not found]


def missed(case: Case, step: Step, line: int) -> bool:
    """Whether ``case`` goes wrong, in some order of its threads, when ``step`` lacks the barrier in ``line``."""
    steps = swapped(case.steps, without(step, line))
    return any(fault(case, steps, order) for order in ORDERS)


def fault(case: Case, steps: Sequence[Step] | None = None, order: Order = "forward") -> str:
    """What goes wrong when ``case`` runs with its threads in ``order``, in one line; empty when all values keep their bounds.

    Raises what :func:`iosim_gpu.meters.schedule.scheduled` raises where it cannot work.
    """
    arrays = prepared(case)
    with scheduled(order), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NaN and infinity may pass: the values are judged at the end
        try:
            for call in calls(case, arrays, steps=steps):
                simulator.launch(call)
        except FAULTS as error:
            return f"{type(error).__name__}: {error}"
    right, bounds = judge.truth(case, judge.inputs(case))
    gaps = {name: gap(arrays[name], right[name]) for name in right if name in arrays}
    return "; ".join(f"{name} is off by {far:.3g}, more than {bounds[name]:.3g}" for name, far in gaps.items() if far > bounds[name])


def gap(found: NDArray[Any], right: NDArray[Any]) -> float:
    """The largest distance between two arrays; infinite where one of them is NaN or infinite and the other is not the same."""
    with np.errstate(invalid="ignore"):
        far = np.where(found == right, 0.0, np.abs(found - right))
    return float(np.nan_to_num(far, nan=np.inf, posinf=np.inf).max())
