"""The independent judges of a run: values in float64, and a recount of its event trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.attention.arrays import launch, numbers
from iosim.attention.catalogue import kernel
from iosim.attention.inputs import Values
from iosim.attention.plan import Plan, by_tensor
from iosim.attention.truth import Truth, truth
from iosim.core import dtypes
from iosim.core.counts import Counts
from iosim.core.errors import BadInput
from iosim.core.events import Event
from iosim.core.problem import Options
from iosim.machine import Hbm, Machine
from iosim_reference import replay

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Execution:
    """The tensors of some heads, each computed on a machine of its own, and what the oracle says they should be."""

    plan: Plan
    counts: Counts
    found: list[dict[str, Array]]
    truths: list[Truth]

    def errors(self) -> dict[str, float]:
        """The largest difference of an element of each tensor from the oracle's; NaN stays NaN."""
        pairs = list(zip(self.found, self.truths, strict=True))
        return {name: float(np.max([_difference(one[name], truth.values[name]) for one, truth in pairs])) for name in self.found[0]}

    def bounds(self) -> dict[str, float]:
        """What those differences may be, for the worst of the heads, where a bound is stated."""
        return {name: max(truth.bounds[name] for truth in self.truths) for name in self.found[0] if name in self.truths[0].bounds}


def execute(plan: Plan, heads: Sequence[Values], *, registers: int | None = None) -> Execution:
    """Run the plan on real numbers, head by head, and ask the oracle for the same heads."""
    found, truths = [], []
    for head, values in enumerate(heads):
        m = plan.machine("execute", registers=registers)
        try:
            arrays = plan.run(m, with_forward(plan, values, head), head * plan.problem.group)
        except BadInput as error:
            raise BadInput(f"head {head}: {error}" if len(heads) > 1 else str(error)) from None
        counts = by_tensor(m.finish())
        found.append(computed(arrays, plan.problem.group))
        held = {name: numbers(arrays, name, plan.problem.group) for name in values}
        truths.append(truth(plan, held, head * plan.problem.group))
    return Execution(plan, counts, found, truths)


def with_forward(plan: Plan, values: Values, head: int) -> Values:
    """``values``, and for a backward kernel what its forward kernel stored: computed in the same blocks, with as much SRAM as it takes."""
    forward = kernel(plan.kernel).forward
    if forward is None:
        return values
    own = {option: getattr(plan.options, option) for option in kernel(forward).options}
    m = Machine(mode="execute", accumulator=dtypes.accumulator(plan.problem.dtype))
    arrays = launch(forward, m, plan.problem, plan.blocks, Options(**own), values, head * plan.problem.group)
    m.finish()
    check_stored(forward, arrays)
    asked = kernel(plan.kernel)
    stored = {name.partition("[")[0] for name in arrays} & {*asked.inputs, *(extra.name for extra in asked.extra_inputs)}
    return {name: numbers(arrays, name, plan.problem.group) for name in stored} | values


def check_stored(forward: str, arrays: dict[str, Hbm]) -> None:
    """Raise :class:`BadInput` where the forward kernel stored what no backward kernel can read: an O or a P that is not finite."""
    for name, array in arrays.items():
        if name.partition("[")[0] in ("O", "P") and not np.isfinite(array.data).all():
            raise BadInput(f"the forward pass, {forward}, stored an {name} that is not finite; give smaller inputs or scale")


def computed(arrays: dict[str, Hbm], group: int) -> dict[str, Array]:
    """The tensors that a kernel is judged by: dQ, dK and dV, or O and, where it makes one, the LSE."""
    tensors = {name.partition("[")[0] for name in arrays}
    if "dQ" in tensors:
        return {name: numbers(arrays, name, group) for name in ("dQ", "dK", "dV")}
    found = {"O": numbers(arrays, "O", group)}
    if "LSE" in tensors:
        return found | {"LSE": numbers(arrays, "LSE", group)[..., 0]}
    if "l" not in tensors:
        return found
    with np.errstate(divide="ignore"):
        return found | {"LSE": (numbers(arrays, "m", group) + np.log(numbers(arrays, "l", group)))[..., 0]}


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
