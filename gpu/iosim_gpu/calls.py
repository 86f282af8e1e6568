"""From a case to launches: the arrays in global memory, and one call for each step of the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim_gpu import judge
from iosim_gpu.case import Case, shape, visited
from iosim_gpu.declaration import Step
from iosim_gpu.moved import Moved
from iosim_gpu.tiling import Tiling

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One launch of one step.

    Args:
        case: what it belongs to.
        step: what is launched.
        tiling: the constants that are compiled in.
        arrays: the arrays in the order of the kernel's parameters.
        counts: one int64 a slot of the step.
    """

    case: Case
    step: Step
    tiling: Tiling
    arrays: dict[str, Array]
    counts: NDArray[np.int64]

    @property
    def grid(self) -> tuple[int, int]:
        """Thread blocks along x and along y; along y there is one a head."""
        case = self.case
        tiles = {"head": 1, "queries": -(-case.n // case.rows), "keys": -(-case.nk // case.cols)}
        return tiles[self.step.grid], case.instances

    @property
    def args(self) -> list[tuple[str, Any]]:
        """The kernel's arguments by name."""
        return [*self.arrays.items(), ("scale", np.float32(self.case.problem.softmax_scale)), ("counts", self.counts)]

    @property
    def dynamic_bytes(self) -> int:
        """Shared memory that the launch must bring; 0 where the kernel's own arrays are static."""
        return self.step.room_bytes(self.tiling) if self.tiling.dynamic else 0

    def counted(self) -> dict[str, Moved]:
        """What the in-kernel counters say, array by array."""
        found: dict[str, Moved] = {}
        for slot, number in zip(self.step.slots, self.counts.tolist(), strict=True):
            array, _, kind = slot.partition(".")
            found[array] = found.get(array, Moved()) + Moved(**{kind: number})
        return found


def prepared(case: Case) -> dict[str, Array]:
    """Global memory before the first launch: the inputs, the arrays of the block mask, and NaN in what must be written."""
    arrays: dict[str, Array] = dict(judge.inputs(case))
    if case.mask is not None:
        arrays["indptr"], arrays["indices"] = visited(case)
    for step in case.steps:
        for name in step.arrays:
            if name not in arrays:
                arrays[name] = np.full(shape(case, name), np.nan, np.float32)
    return arrays


def calls(case: Case, arrays: dict[str, Array], *, counting: bool = False, steps: Sequence[Step] | None = None) -> list[Call]:
    """The launches of ``case`` on ``arrays``, in order; ``steps`` replaces those of the kernel, to try others."""
    tiling = case.tiling.counted() if counting else case.tiling
    return [
        Call(case, step, tiling, {name: arrays[name] for name in step.arrays}, np.zeros(len(step.slots), np.int64))
        for step in (case.steps if steps is None else steps)
    ]


def total(parts: Sequence[dict[str, Moved]]) -> dict[str, Moved]:
    """What several launches moved together."""
    sums: dict[str, Moved] = {}
    for part in parts:
        for array, moved in part.items():
            sums[array] = sums[array] + moved if array in sums else moved
    return sums
