"""The verdict: measured and predicted elements, compared with ==, and values compared with the float64 oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim_gpu import judge
from iosim_gpu.case import Case
from iosim_gpu.moved import Array, Measured, Moved

JUDGED = ("O", "LSE", "l", "m", "dQ", "dK", "dV")
"""The outputs whose values are checked; l and m are judged together, as the log-sum-exp m + log l."""


@dataclass(frozen=True, slots=True)
class Row:
    """One array of one case under one meter; elements are those of all heads.

    Args:
        kernel, case, meter, array: their names.
        predicted_reads, measured_reads: elements read.
        predicted_writes, measured_writes: elements written.
        max_error: the distance of the values from the oracle; None where they are not judged.
        bound: the distance that float32 may have.
        sectors, requests: 32-byte sectors and warp instructions; None where the meter cannot see them.
        plain_loads: plain loads of an array whose updates are declared atomic; there should be none.
    """

    kernel: str
    case: str
    meter: str
    array: str
    predicted_reads: int
    measured_reads: int
    predicted_writes: int
    measured_writes: int
    max_error: float | None = None
    bound: float | None = None
    sectors: int | None = None
    requests: int | None = None
    plain_loads: int = 0

    @property
    def equal(self) -> bool:
        """Whether both counts are equal, and the array is accessed as declared."""
        counted = (self.predicted_reads, self.predicted_writes) == (self.measured_reads, self.measured_writes)
        return counted and not self.plain_loads

    @property
    def within(self) -> bool | None:
        """Whether the error is within its bound; None where it is not judged. NaN is not within."""
        return None if self.max_error is None or self.bound is None else self.max_error <= self.bound

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return self.equal and self.within is not False

    @property
    def failure(self) -> str | None:
        """In one line what is wrong; None where nothing is."""
        if self.sound:
            return None
        where = f"{self.kernel} {self.case}: {self.array}"
        reads, writes = (self.predicted_reads, self.measured_reads), (self.predicted_writes, self.measured_writes)
        for did, (predicted, measured) in (("read", reads), ("written", writes)):
            if predicted != measured:
                return f"{where} is {did} {measured:,} times by the {self.meter}, and {predicted:,} times are predicted"
        if self.plain_loads:
            return f"{where} is read by plain loads {self.plain_loads:,} times by the {self.meter}, where atomic updates are declared"
        return f"{where} is {self.max_error:.1e} from the float64 oracle's under the {self.meter}, above the bound {self.bound:.1e}"

    def record(self) -> dict[str, str | int | float | bool | None]:
        """The row as JSON has it."""
        return {name: getattr(self, name) for name in RECORDED}


RECORDED = (
    *("kernel", "case", "meter", "array", "predicted_reads", "measured_reads", "predicted_writes", "measured_writes"),
    *("plain_loads", "equal", "max_error", "bound", "within", "sectors", "requests"),
)


def compare(case: Case, measured: Measured) -> list[Row]:
    """One row for each array that the model predicts, that the meter saw move, or whose values are judged.

    An array that one side does not have counts 0 there. Values are judged if the run has outputs; then none may be missing.
    """
    predicted, moved = case.predicted(), measured.arrays
    errors = errors_of(case, measured.outputs) if measured.outputs else {}
    seen = [name for name, what in moved.items() if what.reads or what.writes]
    updated = only_updated(case)
    rows = []
    for name in dict.fromkeys([*predicted, *seen, *errors]):
        reads, writes = (predicted[name].reads, predicted[name].writes) if name in predicted else (0, 0)
        what = moved.get(name, Moved())
        error, bound = errors.get(name, (None, None))
        rows.append(
            Row(
                case.kernel, case.name, measured.meter, name, reads, what.reads, writes, what.writes, error, bound,
                what.sectors, what.requests, what.loads if name in updated else 0,
            )
        )  # fmt: skip
    return rows


def only_updated(case: Case) -> set[str]:
    """The arrays that the launches update atomically and never load. An atomic update reads and writes one element.

    >>> only_updated(Case("flash2-backward", 9, 4, 4, 3, 8))
    {'dQ'}
    >>> only_updated(Case("flash", 9, 4, 4, 3, 8))
    set()
    """
    slots = {slot for step in case.steps for slot in step.slots}
    atomics = {slot.partition(".")[0] for slot in slots if slot.endswith(".atomics")}
    return {name for name in atomics if f"{name}.loads" not in slots}


def errors_of(case: Case, outputs: dict[str, Array]) -> dict[str, tuple[float, float]]:
    """The largest error and the bound of each judged output; the error of a missing output is infinite."""
    right, bounds = judge.truth(case, judge.inputs(case))
    written = {name for name, what in case.predicted().items() if what.writes}
    found: dict[str, tuple[float, float]] = {}
    for name in right:
        if name == "LSE" and name not in written:
            statistics = [one for one in ("l", "m") if one in written]  # standard attention stores neither
            error = error_of(_log_sum_exp(outputs), right[name]) if statistics else 0.0
            found |= dict.fromkeys(statistics, (error, bounds[name]))
        else:
            found[name] = error_of(outputs.get(name), right[name]), bounds[name]
    return found


def error_of(values: NDArray[Any] | None, right: NDArray[np.float64]) -> float:
    """The largest difference; infinite for what is missing, misshapen or not a number. Equal infinities do not differ.

    >>> error_of(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.5])), error_of(np.array([np.nan]), np.array([0.0]))
    (0.5, inf)
    """
    if values is None or values.shape != right.shape:
        return math.inf
    with np.errstate(invalid="ignore"):
        apart = np.where(values == right, 0.0, np.abs(values.astype(np.float64) - right))
    return float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max(initial=0.0))


def _log_sum_exp(outputs: dict[str, Array]) -> NDArray[Any] | None:
    if not {"l", "m"} <= outputs.keys():
        return None
    l, m = outputs["l"].astype(np.float64), outputs["m"].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(l == 0, -np.inf, m + np.log(l))
