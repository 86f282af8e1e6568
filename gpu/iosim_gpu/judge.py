"""The inputs of a case, its right outputs by the float64 oracle, and their error bounds in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim_gpu.case import Case
from iosim_reference import attention, gradient_bound, gradients, lse_bound, output_bound

Float = NDArray[np.float32]
Wide = NDArray[np.float64]


def inputs(case: Case) -> dict[str, Float]:
    """The arrays that the kernel is given, ``(B H, N, d)`` or ``(B H, N)`` float32."""
    rng = np.random.default_rng(case.seed)
    shapes = {"Q": case.n, "K": case.nk, "V": case.nk} | ({"dO": case.n} if "dO" in case.declared.reads else {})
    drawn = {name: rng.standard_normal((case.instances, rows, case.d)).astype(np.float32) for name, rows in shapes.items()}
    if "dO" not in drawn:
        return drawn
    truth = attention(*(_lifted(drawn[name]) for name in "QKV"), **_rules(case))
    return {**drawn, "O": truth.output[0].astype(np.float32), "LSE": truth.lse[0].astype(np.float32)}


def truth(case: Case, given: dict[str, Float]) -> tuple[dict[str, Wide], dict[str, float]]:
    """The right outputs by name, and the bound that float32 keeps for each: O and LSE, or dQ, dK and dV."""
    wide = {name: _lifted(given[name]) for name in given if name not in ("O", "LSE")}
    if "dO" in wide:
        found = gradients(*wide.values(), **_rules(case))
        bound = gradient_bound(found, (case.rows, case.cols), "float32")
        return {"dQ": found.dq[0], "dK": found.dk[0], "dV": found.dv[0]}, {"dQ": bound.dq, "dK": bound.dk, "dV": bound.dv}
    right = attention(*wide.values(), **_rules(case))
    products = case.problem.softmax_scale * np.prod([np.linalg.norm(wide[name], axis=-1).max() for name in "QK"])
    largest, cols = float(np.abs(wide["V"]).max()), min(case.cols, case.nk)
    bounds = {"O": output_bound(right.max_score, case.nk, cols, largest), "LSE": lse_bound(float(products), case.nk, cols)}
    return {"O": right.output[0], "LSE": right.lse[0]}, bounds


def _lifted(tensor: Float) -> Wide:
    """Heads as one batch: (1, B H, N, d)."""
    return tensor.astype(np.float64)[None]


def _rules(case: Case) -> dict[str, Any]:
    pattern = None if case.mask is None else (case.mask.dense(), case.mask.rows, case.mask.cols)
    return {"causal": case.causal, "block_mask": pattern}
