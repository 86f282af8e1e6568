"""The judges of a run: values in float64 with how far rounding may take each, and an independent recount of the event trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim.attention.arrays import launch, numbers
from iosim.attention.catalogue import kernel
from iosim.attention.declaration import Kernel
from iosim.attention.inputs import Values
from iosim.attention.plan import Plan
from iosim.core import dtypes
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.events import Event
from iosim.core.options import Options
from iosim.core.problem import Attention
from iosim.machine import Hbm, Machine
from iosim_reference import attention, gradient_bound, gradients, lse_bound, output_bound, replay

Array = NDArray[np.generic]
Float = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Execution:
    """The tensors of some heads, each computed on a machine of its own, and what the oracle says they should be."""

    plan: Plan
    counts: Counts
    found: list[dict[str, Array]]
    truths: list[Truth]

    def errors(self) -> dict[str, float]:
        """The largest difference of an element of each tensor from the oracle's; NaN stays NaN."""
        pairs = list(zip(self.found, self.truths, strict=False))  # no truths where no oracle judges
        if not pairs:
            return {}
        return {name: float(np.max([_difference(one[name], truth.values[name]) for one, truth in pairs])) for name in self.found[0]}

    def bounds(self) -> dict[str, float]:
        """What those differences may be, for the worst of the heads, where a bound is stated."""
        stated = self.truths[0].bounds if self.truths else {}
        return {name: max(truth.bounds[name] for truth in self.truths) for name in self.found[0] if name in stated}


def execute(plan: Plan, heads: Sequence[Values], *, registers: int | None = None) -> Execution:
    """Run the plan on real numbers, head by head, and ask the oracle for the same heads, where the kernel computes attention."""
    found, truths, group = [], [], plan.problem.group
    for head, values in enumerate(heads):
        m = plan.machine("execute", registers=registers)
        try:
            arrays = plan.run(m, with_forward(plan, values, head), head * group)
        except BadInput as error:
            raise BadInput(f"head {head}: {error}" if len(heads) > 1 else str(error)) from None
        counts = plan.finish(m)
        found.append(computed(plan.kernel, arrays, group))
        held = {name: numbers(plan.kernel, arrays, name, group) for name in values}
        truths += [truth(plan, held, head * group)] if plan.kernel.computes is not None else []
    return Execution(plan, counts, found, truths)


def with_forward(plan: Plan, values: Values, head: int) -> Values:
    """``values``, and for a backward kernel what its forward kernel stored: computed in the same blocks, with as much SRAM as it takes."""
    if plan.kernel.forward is None:
        return values
    forward, group = kernel(plan.kernel.forward), plan.problem.group
    own = Options(**{option: getattr(plan.options, option) for option in forward.has})
    m = Machine(mode="execute", accumulator=dtypes.accumulator(plan.problem.dtype))
    arrays = launch(forward, m, plan.problem, plan.blocks, own, values, head * group)
    m.finish()
    check_stored(forward.name, arrays)
    asked = {array.name for array in plan.kernel.arrays if array.role == "input"}
    stored = {name.partition("[")[0] for name in arrays} & asked
    return {name: numbers(forward, arrays, name, group) for name in stored} | values


def check_stored(forward: str, arrays: dict[str, Hbm]) -> None:
    """Raise :class:`BadInput` where the forward kernel stored what no backward kernel can read: an O or a P that is not finite."""
    for name, array in arrays.items():
        if name.partition("[")[0] in ("O", "P") and not np.isfinite(array.data).all():
            raise BadInput(f"the forward pass, {forward}, stored an {name} that is not finite; give smaller inputs or scale")


def computed(asked: Kernel, arrays: dict[str, Hbm], group: int) -> dict[str, Array]:
    """The tensors that a kernel is judged by: dQ, dK and dV, or O and, where it makes one, the LSE; of other kernels all outputs."""
    held = {name: numbers(asked, arrays, name, group) for name in (*asked.outputs, "l", "m") if {name, f"{name}[0]"} & arrays.keys()}
    if asked.computes is None:
        return {name: held[name] for name in asked.outputs}
    if asked.forward is not None:
        return {name: held[name] for name in ("dQ", "dK", "dV")}
    if "LSE" in held:
        return {"O": held["O"], "LSE": held["LSE"][..., 0]}
    if not {"l", "m"} <= held.keys():
        return {"O": held["O"]}
    with np.errstate(divide="ignore"):
        return {"O": held["O"], "LSE": (held["m"] + np.log(held["l"]))[..., 0]}


def replayed_equal(plan: Plan, counts: Counts) -> bool:
    """Whether an independent recount of the trace gives the same words per array and the same peak."""
    seen = replay(map(Event.record, plan.trace()))
    found: dict[str, tuple[int, int, int]] = {}
    for name, a in seen.arrays.items():
        tensor = name.partition("[")[0]
        before = found.get(tensor, (0, 0, 0))
        found[tensor] = before[0] + a.reads, before[1] + a.writes, before[2] + a.init_writes
    peak = seen.peak_bytes if plan.sram.unit == "bytes" else seen.peak_words
    return found == {name: (a.reads, a.writes, a.init_writes) for name, a in counts.arrays.items()} and peak == counts.peak_sram


def _difference(found: Array, expected: NDArray[np.float64]) -> float:
    wide = found.astype(np.float64)
    both_none = np.isneginf(wide) & np.isneginf(expected)  # the LSE of a row that attends to nothing
    return float(np.abs(np.where(both_none, 0.0, wide) - np.where(both_none, 0.0, expected)).max())


@dataclass(frozen=True, slots=True)
class Truth:
    """The right values by tensor, and the bounds that a kernel keeps in float32 and float64; none for tensors rounded to fewer bits."""

    values: dict[str, Float]
    bounds: dict[str, float]


def truth(plan: Plan, values: Values, head: int = 0) -> Truth:
    """What ``plan`` should compute of the numbers that HBM holds: O and LSE, or dQ, dK and dV where there is a dO.

    ``head`` is the first of the query heads. Shapes as :func:`iosim.attention.arrays.launch` takes
    them. Raises :class:`BadInput` where
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
    summed = min(plan.kernel.product(plan).cols, problem.nk)  # keys in one product of P and V
    bounds = {"O": output_bound(found.max_score, problem.nk, summed, largest, dtype), "LSE": lse_bound(products, problem.nk, bc, dtype)}
    return Truth(values, bounds)


def _gradients(plan: Plan, wide: dict[str, Float], head: int) -> Truth:
    problem, dtype = plan.problem, plan.problem.dtype
    found = gradients(*(lifted(wide[name]) for name in ("Q", "K", "V", "dO")), head=head, **rules(problem))
    values = {"dQ": heads_of(found.dq, problem.group), "dK": found.dk[0, 0], "dV": found.dv[0, 0]}
    if dtype not in ("float32", "float64"):
        return Truth(values, {})
    summed = plan.kernel.product(plan)  # rows and keys in one product
    bound = gradient_bound(found, (summed.rows, summed.cols), dtype)
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
