"""What it costs to run a submission apart: the worker's start with all its probes, and a function's run in a warm one."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np

from iosim.course.grading.job import function_job
from iosim.course.grading.worker import Worker

SOURCE = b"import numpy as np\ndef f(x): return np.exp(x - x.max(axis=1, keepdims=True))\n"


def test_worker(turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    """Four calls of one function on 64 x 64 numbers; the start is that of the fork server and of a child for every probe."""
    job = function_job("f", [(np.ones((64, 64)),)] * 4)
    bare = Worker(unprotected=True)

    def start_server() -> None:
        bare._running()
        bare.close()

    def start_worker() -> None:
        with Worker():
            pass

    with Worker() as worker:
        submission, server, probed = turns(lambda: worker.run(job, SOURCE), start_server, start_worker, rounds=9)
    figure("ms a submission", median(submission) * 1e3, "<= 20")
    figure("ms the fork server's start", median(server) * 1e3, "<= 300")
    figure("ms a worker's start", median(probed) * 1e3, "")
