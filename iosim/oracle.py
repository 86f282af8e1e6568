"""The independent judges of a run: values in float64, and a recount of its event trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim.errors import BadInput
from iosim.inputs import Values
from iosim.memory import Counts, Hbm
from iosim.plan import Plan
from iosim.specs import Attention
from iosim_reference import Result, attention, lse_bound, output_bound, replay

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Execution:
    """The numbers of some heads, each computed on a machine of its own, and what the oracle says they should be.

    ``outputs`` and ``lses`` hold one array a head; a kernel that makes no LSE leaves ``lses`` empty. ``largest_products`` is
    scale |q| |k| for the longest rows, above every |S|.
    """

    plan: Plan
    counts: Counts
    outputs: list[Array]
    lses: list[Array]
    truths: list[Result]
    largest_v: float
    largest_products: float

    def max_error(self) -> float:
        """The largest difference of an output element from the oracle's."""
        pairs = zip(self.outputs, self.truths, strict=True)
        return float(np.max([np.abs(output.astype(np.float64) - truth.output).max() for output, truth in pairs]))  # NaN stays NaN

    def lse_error(self) -> float | None:
        """The largest difference of a log-sum-exp from the oracle's; None for a kernel that makes none."""
        if not self.lses:
            return None
        pairs = zip(self.lses, self.truths, strict=True)
        return float(np.max([_difference(lse.astype(np.float64), truth.lse) for lse, truth in pairs]))

    def error_bound(self) -> float | None:
        """The bound that float32 and float64 runs keep; none is stated for outputs that HBM rounds to fewer bits."""
        problem = self.plan.problem
        if problem.dtype not in ("float32", "float64"):
            return None
        logits = max(truth.max_score for truth in self.truths)
        return output_bound(logits, problem.nk, min(self.plan.blocks.cols, problem.nk), self.largest_v, problem.dtype)

    def lse_bound(self) -> float | None:
        """The bound that the log-sum-exp keeps in float32 and float64.

        An LSE carries the rounding of the logits whole, and where products cancel that grows with |q| |k|, not with |S|.
        """
        problem = self.plan.problem
        if problem.dtype not in ("float32", "float64"):
            return None
        return lse_bound(self.largest_products, problem.nk, min(self.plan.blocks.cols, problem.nk), problem.dtype)


def execute(plan: Plan, heads: Sequence[Values], *, registers: int | None = None) -> Execution:
    """Run the plan on real numbers, head by head, and ask the oracle for the same heads."""
    outputs, lses, truths, products = [], [], [], []
    for head, values in enumerate(heads):
        m = plan.machine("execute", registers=registers)
        try:
            arrays = plan.run(m, values)
        except BadInput as error:
            raise BadInput(f"head {head}: {error}" if len(heads) > 1 else str(error)) from None
        counts = m.finish()
        outputs.append(arrays["O"].data)
        lses.extend(_lse(arrays))
        products.append(abs(plan.problem.softmax_scale) * _longest(arrays["Q"].data) * _longest(arrays["K"].data))
        truths.append(truth(plan.problem, arrays["Q"].data, arrays["K"].data, arrays["V"].data))
    largest = max(float(np.abs(np.asarray(values["V"], np.float64)).max()) for values in heads)
    return Execution(plan, counts, outputs, lses, truths, largest, max(products))


def truth(problem: Attention, q: ArrayLike, k: ArrayLike, v: ArrayLike) -> Result:
    """Attention of one head in float64, on the numbers as HBM holds them."""
    blocks = problem.block_mask
    pattern = None if blocks is None else (blocks.dense(), blocks.rows, blocks.cols)
    wide = [np.asarray(array).astype(np.float64) for array in (q, k, v)]
    return attention(*wide, scale=problem.scale, causal=problem.causal, window=problem.window, mask=problem.mask, block_mask=pattern)


def replayed_equal(plan: Plan, counts: Counts) -> bool:
    """Whether an independent recount of the trace gives the same words per array and the same peak."""
    seen = replay(map(asdict, plan.trace()))
    found = {name: (a.reads, a.writes, a.init_writes) for name, a in seen.arrays.items()}
    peak = seen.peak_bytes if plan.sram.unit == "bytes" else seen.peak_words
    return found == {name: (a.reads, a.writes, a.init_writes) for name, a in counts.arrays.items()} and peak == counts.peak_sram


def _longest(rows: Array) -> float:
    return float(np.linalg.norm(rows.astype(np.float64), axis=1).max())


def _difference(lse: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    both_none = np.isneginf(lse) & np.isneginf(truth)
    return float(np.abs(np.where(both_none, 0.0, lse) - np.where(both_none, 0.0, truth)).max())


def _lse(arrays: dict[str, Hbm]) -> list[Array]:
    if "LSE" in arrays:
        return [arrays["LSE"].data[:, 0]]
    if "l" not in arrays:
        return []
    with np.errstate(divide="ignore"):
        return [arrays["m"].data[:, 0] + np.log(arrays["l"].data[:, 0])]
