"""The child that runs a kernel submission: against the stand-in machine, whose operations go one way down a file descriptor.

Standard library only; loaded by path in an interpreter without site-packages. It knows no data and no answer, and decides nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from iosim.core import errors
from iosim.course.grading import records as r
from iosim.course.grading import submission
from iosim.course.grading.standin import Hbm, Machine, Region
from iosim.course.grading.standin_masks import Mask
from iosim.course.grading.standin_tiles import Tile
from iosim.course.grading.standin_values import FUNCTIONS, Block, OnChip, Value

_ERRORS: dict[str, Any] = {name: found for name, found in vars(errors).items() if isinstance(found, type)}
_CLASSES: tuple[Any, ...] = (Block, Hbm, Machine, Mask, OnChip, Region, Tile, Value)
OPEN: dict[str, dict[str, Any]] = {
    "iosim": {name: _ERRORS[name] for name in ("BadInput", "IosimError", "SramOverflow")} | {"Machine": Machine},
    "iosim.memory": {one.__name__: one for one in _CLASSES} | FUNCTIONS,
    "iosim.errors": _ERRORS,  # this and the next two: where files that were handed out before 0.2 look
    "iosim.kernels": {},
    "iosim.kernels.masking": {"Mask": Mask},
}
"""What a submission can import of iosim: the modules by name, and what each holds."""


def main(out_fd: int, job: dict[str, Any], source: bytes, protect: Callable[[], None]) -> None:
    """Run the kernel of ``source`` against a stand-in machine and write frames of records to ``out_fd``; returns when all are written.

    ``job``: what ``json.loads`` makes of :meth:`iosim.course.grading.job.Job.to_json` (trusted). ``protect`` is called once, before the
    source is compiled, and applies the limits; what it raises passes through. An exception of the submission is written as FAIL
    records: type, message and lines, of fixed size. A submission that ends the process leaves a stream without END, which is refused.
    """
    machine = Machine(lambda frame: write_all(out_fd, frame))
    protect()
    with open_modules():
        run(machine, job, lambda: submission.load(source, job["function"]))


def run(machine: Machine, job: dict[str, Any], find: Callable[[], Callable[..., Any]]) -> None:
    """Call the listing that ``find`` finds with the arrays, the parameters and the mask of the job; write END, or what it raised."""
    try:
        arrays = [Hbm(place, name, (rows, cols)) for place, (name, rows, cols) in enumerate(job["arrays"])]
        given = [None if place is None else arrays[place] for place in job["args"]]
        mask = {} if job["mask"] is None else {"mask": Mask(machine, job["mask"], arrays)}
        find()(machine, *given, **job["params"], **mask)
    except BaseException as error:  # SystemExit too: a listing that leaves has not ended
        fail(machine, error)
    else:
        machine._put(r.END)
    machine._flush()


def fail(machine: Machine, error: BaseException) -> None:
    """Write the exception's type, message and the last lines that it passed through, each cut to what is read of it."""
    kind, says, lines = submission.told(error)
    for which, text, most in ((r.KIND, kind, r.MOST_KIND), (r.SAYS, says, r.MOST_SAYS)):
        data = text[: most * r.LABEL].encode("utf-8", "backslashreplace")[: most * r.LABEL]
        for start in range(0, len(data), r.LABEL):
            part = data[start : start + r.LABEL]
            machine._put(r.FAIL, a=len(part), name=part, flags=which, line=0)
    for line in lines[-r.MOST_TRACE :]:
        machine._put(r.FAIL, flags=r.WHERE_IT_WAS, line=line)


@contextmanager
def open_modules() -> Iterator[None]:
    """While this lasts, ``import iosim.memory`` gives the stand-in, and nothing else of iosim is there."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "iosim"}
    modules = {name: ModuleType(name) for name in OPEN}
    for name, module in modules.items():
        vars(module).update(OPEN[name])
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "iosim"]:
            del sys.modules[name]
        sys.modules.update(hidden)


def write_all(out_fd: int, frame: bytes) -> None:
    """Write a frame, all of it."""
    left = memoryview(frame)
    while left:
        left = left[os.write(out_fd, left) :]
