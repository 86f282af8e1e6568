"""What the tensors of one KV head and its group should be: asked of the float64 reference, with how far rounding may take each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.attention.catalogue import kernel
from iosim.attention.inputs import Values
from iosim.attention.plan import Plan
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim_reference import attention, gradient_bound, gradients, lse_bound, output_bound

Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Truth:
    """The right values by tensor, and the bounds that a kernel keeps in float32 and float64; none for tensors rounded to fewer bits."""

    values: dict[str, Float]
    bounds: dict[str, float]


def truth(plan: Plan, values: Values, head: int = 0) -> Truth:
    """What ``plan`` should compute of the numbers that HBM holds: O and LSE, or dQ, dK and dV where there is a dO.

    ``head`` is the first of the query heads. Shapes as :func:`iosim.attention.arrays.launch` takes them. Raises :class:`BadInput` where
    float64 cannot hold a score or a gradient.
    """
    wide = {name: array.astype(np.float64) for name, array in values.items()}
    try:
        return _gradients(plan, wide, head) if "dO" in wide else _outputs(plan, wide, head)
    except ValueError as error:  # what float64 cannot hold
        raise BadInput(f"the oracle cannot judge {plan.kernel}: {error}") from None


def _outputs(plan: Plan, wide: dict[str, Float], head: int) -> Truth:
    """An LSE carries the rounding of the logits whole, and where products cancel that grows with |q| |k|, not with |S|."""
    problem, bc, dtype = plan.problem, min(plan.blocks.cols, plan.problem.nk), plan.problem.dtype
    found = attention(*(lifted(wide[name]) for name in ("Q", "K", "V")), head=head, **rules(problem))
    values = {"O": heads_of(found.output, problem.group), "LSE": heads_of(found.lse, problem.group)}
    if dtype not in ("float32", "float64"):
        return Truth(values, {})
    largest = float(np.abs(wide["V"]).max()) / (1 - problem.dropout)
    products = _products(problem, wide)
    summed = 1 if plan.options.depth == "one" else bc  # keys in one product of P and V
    bounds = {"O": output_bound(found.max_score, problem.nk, summed, largest, dtype), "LSE": lse_bound(products, problem.nk, bc, dtype)}
    return Truth(values, bounds)


def _gradients(plan: Plan, wide: dict[str, Float], head: int) -> Truth:
    problem, dtype = plan.problem, plan.problem.dtype
    found = gradients(*(lifted(wide[name]) for name in ("Q", "K", "V", "dO")), head=head, **rules(problem))
    values = {"dQ": heads_of(found.dq, problem.group), "dK": found.dk[0, 0], "dV": found.dv[0, 0]}
    if dtype not in ("float32", "float64"):
        return Truth(values, {})
    cols = problem.nk if "P" in kernel(plan.kernel).inputs else plan.blocks.cols  # P was made, and is used, by whole rows
    blocks = (1, 1) if plan.options.depth == "one" else (plan.blocks.rows, cols)  # rows in one product
    bound = gradient_bound(found, blocks, dtype)
    return Truth(values, {"dQ": bound.dq, "dK": bound.dk, "dV": bound.dv})


def rules(problem: Attention) -> dict[str, Any]:
    """The rules of ``problem`` as the reference takes them."""
    blocks = problem.block_mask
    pattern = None if blocks is None else (blocks.dense(), blocks.rows, blocks.cols)
    return {
        "scale": problem.scale, "causal": problem.causal, "window": problem.window, "mask": problem.mask, "block_mask": pattern,
        "dropout": problem.dropout, "seed": problem.dropout_seed,
    }  # fmt: skip


def lifted(tensor: Float) -> Float:
    """A tensor as (batch, heads, rows, columns)."""
    return tensor.reshape(1, -1, *tensor.shape[-2:])


def heads_of(tensor: Float, group: int) -> Float:
    """What a batch of one holds: one head's tensor, or those of a group along the first axis."""
    return np.asarray(tensor[0] if group > 1 else tensor[0, 0])


def _products(problem: Attention, wide: dict[str, Float]) -> float:
    """scale |q| |k| for the longest rows, above every |S|."""
    q, k = (float(np.linalg.norm(wide[name], axis=-1).max()) for name in "QK")
    return abs(problem.softmax_scale) * q * k
