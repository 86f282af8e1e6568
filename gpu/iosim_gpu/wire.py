"""Cases and measurements as JSON, between a check and the processes that measure for it."""

from __future__ import annotations

import base64
from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from iosim.core.masks import BlockMask
from iosim_gpu.case import Case
from iosim_gpu.moved import Array, Measured, Moved

Json = dict[str, Any]
PLAIN = [field.name for field in fields(Case) if field.name != "mask"]
COUNTS = [field.name for field in fields(Moved)]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One case to measure with one meter; ``arch`` is what the emulator has it compiled for."""

    meter: str
    case: Case
    arch: str = "sm_90"

    @property
    def name(self) -> str:
        """What is measured, and with what."""
        return f"{self.case.kernel} {self.case.name}, {self.meter}"


def job_to_json(job: Job) -> Json:
    """A job, the same after :func:`job_from_json`."""
    mask = None if job.case.mask is None else job.case.mask.dense().tolist()
    return {"meter": job.meter, "arch": job.arch, "case": {name: getattr(job.case, name) for name in PLAIN}, "mask": mask}


def job_from_json(found: Json) -> Job:
    """The job that was told."""
    told = dict(found["case"])
    if found["mask"] is not None:
        told["mask"] = BlockMask.from_dense(np.array(found["mask"], bool), *(told[name] for name in ("n", "nk", "rows", "cols")))
    return Job(found["meter"], Case(**told), found["arch"])


def measured_to_json(measured: Measured, outputs: Collection[str]) -> Json:
    """A measurement with those of its arrays that are named in ``outputs``."""
    return {
        "meter": measured.meter,
        "arrays": {name: [getattr(moved, kind) for kind in COUNTS] for name, moved in measured.arrays.items()},
        "outputs": {name: _array_to_json(array) for name, array in measured.outputs.items() if name in outputs},
    }


def measured_from_json(found: Json) -> Measured:
    """The measurement that was told."""
    arrays = {name: Moved(**dict(zip(COUNTS, counts, strict=True))) for name, counts in found["arrays"].items()}
    return Measured(found["meter"], arrays, {name: _array_from_json(array) for name, array in found["outputs"].items()})


def _array_to_json(array: Array) -> Json:
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"dtype": array.dtype.str, "shape": array.shape, "data": data}


def _array_from_json(found: Json) -> Array:
    return np.frombuffer(base64.b64decode(found["data"]), np.dtype(found["dtype"])).reshape(found["shape"])
