"""What grading a kernel costs: writing down what it does on the stand-in machine, and replaying that on the real one."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import thread_time
from typing import Any

from iosim import Attention, Machine, random_inputs
from iosim.attention.kernels.flash2 import flash2
from iosim.attention.kernels.masking import Mask
from iosim.core.masks.grid import grid, index_rule
from iosim.core.problem import Blocks
from iosim.course.grading import records
from iosim.course.grading.caps import UNBOUNDED
from iosim.course.grading.job import kernel_job, tables_of
from iosim.course.grading.recording import record
from iosim.course.grading.replay import replay

Turns = Callable[..., list[list[float]]]
Figure = Callable[[str, float, str], None]

PROBLEM, BLOCK = Attention(n=256, d=32), 16
SHAPES = dict.fromkeys("QKVO", (PROBLEM.n, PROBLEM.d)) | {"LSE": (PROBLEM.n, 1)}
PARAMS: dict[str, Any] = {"Br": BLOCK, "Bc": BLOCK, "scale": PROBLEM.softmax_scale}
MASK, VALUES = Mask(grid(PROBLEM, Blocks(BLOCK, BLOCK)), index_rule(PROBLEM)), random_inputs(PROBLEM)
JOB = kernel_job("flash2", SHAPES, PARAMS, tables_of(MASK))


def test_written_down_and_replayed(turns: Turns, figure: Figure) -> None:
    """flash2, N = 256, d = 32, 16x16, on one thread; seconds of that thread, which other processes cannot add to."""
    stream = record(flash2, JOB)
    many = len(stream) // records.RECORD.size

    def write_down() -> None:
        record(flash2, JOB)

    def replay_it() -> None:
        machine = Machine(8192)
        arrays = [machine.input(name, SHAPES[name], VALUES[name]) for name in "QKV"]
        arrays += [machine.output(name, SHAPES[name]) for name in ("O", "LSE")]
        replay(stream, machine, arrays, MASK, UNBOUNDED)
        machine.finish()

    written, replayed = turns(write_down, replay_it, clock=thread_time)
    figure("records written a second", many / median(written), ">= 300,000")
    figure("records replayed a second", many / median(replayed), ">= 200,000")
