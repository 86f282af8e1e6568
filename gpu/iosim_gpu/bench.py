"""Times on a GPU: standard attention by cuBLAS beside the kernels, and the bytes that the model predicts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from statistics import median
from typing import Any

from iosim_gpu import baseline, judge
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.check import error_of
from iosim_gpu.meters.device import Device, here

WORD = 4
"""Bytes of every element that the kernels move: float32, and the int32 of a block mask."""

REPEATS, SECONDS = 20, 1.0
CASES = tuple(Case(kernel.name, n, 64, 32, 32, 128, heads=16) for n in (1024, 2048) for kernel in KERNELS.values() if kernel.timed)
"""Long enough that a launch from Python, some tens of microseconds, is small beside the run."""

Clock = Callable[[Callable[[], object]], list[float]]
"""Seconds that each of some runs took on the GPU."""


@dataclass(frozen=True, slots=True)
class Timing:
    """One implementation on one problem.

    Args:
        by: "iosim" for the kernels of this package, "cupy" for the baseline.
        kernel: the name of the kernel.
        case: the name of the case.
        median_seconds, fastest_seconds: GPU time of one run.
        runs: how many were timed.
        predicted_bytes: bytes that the closed forms predict for the kernel. CuPy passes over S more often, and L2 answers most re-reads.
        max_error: the distance of the last head's O from the float64 oracle.
        bound: the distance that float32 may have.
    """

    by: str
    kernel: str
    case: str
    median_seconds: float
    fastest_seconds: float
    runs: int
    predicted_bytes: int
    max_error: float
    bound: float

    @property
    def bytes_per_second(self) -> float:
        """Predicted bytes over the median time."""
        return self.predicted_bytes / self.median_seconds

    def record(self) -> dict[str, Any]:
        """The timing as JSON has it."""
        return {**{field.name: getattr(self, field.name) for field in fields(self)}, "bytes_per_second": self.bytes_per_second}


def clock(run: Callable[[], object]) -> list[float]:
    """CuPy's clock."""
    return baseline.benchmark(run, repeats=REPEATS, seconds=SECONDS)


def predicted_bytes(case: Case) -> int:
    """Bytes that the closed forms say ``case`` moves, over all heads.

    >>> predicted_bytes(Case("flash2", 64, 16, 32, 32, 32))
    24832
    """
    return WORD * sum(words.reads + words.writes for words in case.predicted().values())


def timings(cases: Sequence[Case] = CASES) -> list[Timing]:
    """Time every case, and CuPy where it takes the same steps. Raises as :func:`baseline.cupy` and :func:`here` do."""
    xp, device = baseline.cupy(), here()
    found = []
    for case in cases:
        if case.declared.baseline:
            found.append(time_baseline(case, xp, clock))
        found.append(time_kernel(case, xp, device, clock))
    return found


def time_baseline(case: Case, xp: Any, timed: Clock) -> Timing:
    """Standard attention against ``xp``."""
    run = baseline.prepared(case, judge.inputs(case), xp)
    return _timing("cupy", case, timed(run), xp.asnumpy(run()[0]))


def time_kernel(case: Case, xp: Any, device: Device, timed: Clock) -> Timing:
    """The launches of ``case`` on ``xp``'s arrays, which they take as they are."""
    arrays = prepared(case)
    there = {name: xp.asarray(array) for name, array in arrays.items()}
    launches = [device.ready(call, _arguments(call, there, xp)) for call in calls(case, arrays)]
    seconds = timed(lambda: [launch() for launch in launches])
    return _timing("iosim", case, seconds, xp.asnumpy(there["O"]))


def _arguments(call: Call, there: dict[str, Any], xp: Any) -> list[Any]:
    given = {**there, "counts": xp.asarray(call.counts)}
    return [given.get(name, value) for name, value in call.args]


def _timing(by: str, case: Case, seconds: list[float], output: Any) -> Timing:
    """A timing; only the last head is judged, since the oracle is slow."""
    last = replace(case, batch=1, heads=1)
    right, bounds = judge.truth(last, {name: array[-1:] for name, array in judge.inputs(case).items()})
    return Timing(
        by, case.kernel, case.name, median(seconds), min(seconds), len(seconds), predicted_bytes(case),
        error_of(output[-1:], right["O"]), bounds["O"],
    )  # fmt: skip
