"""Measure the CUDA kernels' global-memory traffic, and ask for equality with the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import click

from iosim.cli.gpu_cases import cases_of, check_room, model_differs, unsound
from iosim.cli.gpu_options import PROBLEM, GpuGiven, takes
from iosim.cli.gpu_table import Checked, text_of
from iosim.cli.options import Command
from iosim.cli.output import Answer, deliver
from iosim.cli.progress import steps
from iosim.core.errors import BadInput
from iosim_gpu import children, environment
from iosim_gpu.case import Case
from iosim_gpu.check import compare
from iosim_gpu.wire import Job
from iosim_gpu.worker import DEFAULT


@click.command("check", cls=Command)
@takes("own_kernels", "meters", "arch", *PROBLEM, "arrays", "jobs", "json", "csv")
def command(**given: Unpack[GpuGiven]) -> None:
    """Measure what the CUDA kernels really read and write, and ask for equality with the model, array by array, to the element.

    Three meters, none of which needs a GPU: arrays that count in Numba's simulator, counters in the kernel itself, and an emulator that
    executes the compiled PTX. A fourth, device, runs the counters on a GPU. Outputs are held against float64 attention. Exits with 1 if
    a count differs or an error is above its bound.

    A list of cases is measured: every kernel, ragged, masked, with more queries than keys and with fewer; --causal and --seed apply to
    all of it. Any other option that describes a problem, or its tiles, replaces the list by one case a kernel, with the sizes given,
    and N = 37, d = 16, tiles 8x12, 24 threads and a butterfly mask for those that are not. A kernel with variants is measured in each of
    them, unless one is given.

    The simulator is Python, for N in the hundreds: its time grows with N², and N = 500 takes from seconds to minutes. For more, try
    --meter emulator. With greenlet, pip install "iosim[races]", the simulator takes half the time.

    \b
    iosim gpu check
    iosim gpu check --kernel flash2 --n 100 --d 32 --blocks 16x32 --arrays
    iosim gpu check --meter emulator --arch sm_80 --json
    """
    environment.installed()
    if given["arrays"] and (given["json"] or given["csv"]):
        raise BadInput("--arrays is for the tables; --json and --csv have the rows of every array anyway, so leave it out")
    cases, meters = cases_of(given), given.get("meters") or DEFAULT
    for case in cases:
        for step in case.steps:
            check_room(step, case.tiling)
    checked = [Checked(case, model_differs(case), {meter: [] for meter in meters}) for case in cases]
    by_case = {one.case: one for one in checked}
    jobs = jobs_of(cases, meters, given["arch"])
    for job, measured in steps(children.measure(jobs, given["jobs"]), len(jobs), "measuring"):
        by_case[job.case].rows[job.meter] = compare(job.case, measured)
    deliver(given, answer(checked, meters, given))


def jobs_of(cases: Sequence[Case], meters: Sequence[str], arch: str) -> list[Job]:
    """Every case under every meter."""
    return [Job(meter, case, arch) for case in cases for meter in meters]


def answer(checked: Sequence[Checked], meters: Sequence[str], given: GpuGiven) -> Answer:
    """The verdict in every form."""
    rows = [row.record() for one in checked for row in one.all_rows()]
    failures = [why for one in checked for why in one.failures()]
    document = {
        "arch": given["arch"], "meters": list(meters), "equal": not failures, "failures": failures,
        "cases": [one.record() for one in checked], "rows": rows,
    }  # fmt: skip
    return Answer(text_of(checked, meters, given["arch"], arrays=given["arrays"]), document, rows, failed=unsound(failures, given))
