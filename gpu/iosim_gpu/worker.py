"""``python -m iosim_gpu.worker``: measure the cases that standard input names, one JSON line a case on standard output.

Whether Numba simulates or compiles is decided when it loads, so that each kind of meter needs a process of its own; see
:mod:`iosim_gpu.children`, which starts them. Exit status 2: a line ``{"error": ...}`` says in one sentence what is missing or refused.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TextIO

from iosim.core.errors import IosimError
from iosim_gpu.check import JUDGED
from iosim_gpu.environment import needs
from iosim_gpu.moved import Measured
from iosim_gpu.wire import Job, Json, job_from_json, measured_to_json

Meter = Callable[[Job], Measured]


def simulator(job: Job) -> Measured:
    """Counting arrays in Numba's simulator."""
    return _scheduled("iosim_gpu.meters.simulator", job)


def counters(job: Job) -> Measured:
    """The kernel's own counters, in Numba's simulator."""
    return _scheduled("iosim_gpu.meters.counters", job)


def emulator(job: Job) -> Measured:
    """The compiled PTX, executed."""
    found: Measured = import_module("iosim_gpu.meters.emulator").measure(job.case, arch=job.arch)
    return found


def device(job: Job) -> Measured:
    """The kernel's own counters, on a GPU."""
    found: Measured = import_module("iosim_gpu.meters.device").measure_counters_on_device(job.case)
    return found


METERS: dict[str, Meter] = {"simulator": simulator, "counters": counters, "emulator": emulator, "device": device}
NEEDS = {"simulator": "simulate", "counters": "simulate", "emulator": "compile", "device": "run on a GPU"}
DEFAULT = ("simulator", "counters", "emulator")
"""The meters that need no GPU."""


def _scheduled(meter: str, job: Job) -> Measured:
    """A simulated measurement, in the quick scheduler where that is installed."""
    with import_module("iosim_gpu.meters.schedule").preferred():
        found: Measured = import_module(meter).measure(job.case)
    return found


def answers(jobs: Sequence[Job]) -> Iterator[Json]:
    """One answer a job, in order; the first that is refused is the last, and it is the only one where something is missing for all."""
    try:
        for what in dict.fromkeys(NEEDS[job.meter] for job in jobs):
            needs(what)
    except IosimError as error:
        yield {"error": str(error), "missing": True}
        return
    for job in jobs:
        try:
            yield {"measured": measured_to_json(METERS[job.meter](job), JUDGED)}
        except IosimError as error:
            yield {"error": str(error), "missing": False}
            return


def work(asked: TextIO, told: TextIO) -> int:
    """Read jobs, write answers line by line, and return the exit status."""
    for answer in answers([job_from_json(found) for found in json.load(asked)]):
        told.write(json.dumps(answer) + "\n")
        told.flush()
        if "error" in answer:
            return 2
    return 0


def main() -> int:
    """Keep standard output for the answers: whatever prints, prints to standard error."""
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return work(sys.stdin, told)


if __name__ == "__main__":
    sys.exit(main())
