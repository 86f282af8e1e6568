"""The processes that measure: one for the meters that simulate, one for those that compile, side by side."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO

from iosim.core.errors import BadInput, IosimError
from iosim_gpu.moved import Measured
from iosim_gpu.wire import Job, job_to_json, measured_from_json

SIMULATED = ("simulator", "counters")
"""The meters that need Numba's simulator; the others compile."""

Answer = tuple[Job, Measured] | BaseException


class WorkerDied(IosimError, RuntimeError):
    """A process ended before it had measured everything; the message ends with its last line."""


@dataclass(slots=True, eq=False)
class Child:
    """One process and what it has to measure, in order."""

    jobs: Sequence[Job]
    simulated: bool
    process: subprocess.Popen[str] | None = None
    stopped: bool = field(default=False)

    def work(self) -> Iterator[tuple[Job, Measured]]:
        """Start it and give what it measures as it comes; raises :class:`WorkerDied` and :class:`iosim.core.errors.BadInput`."""
        if self.stopped:
            return
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said, start(self.simulated, said) as process:
            self.process = process
            if self.stopped:  # while it was being started
                process.kill()
            yield from self._answers(process, said)

    def _answers(self, process: subprocess.Popen[str], said: IO[str]) -> Iterator[tuple[Job, Measured]]:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError), process.stdin as asked:
            json.dump([job_to_json(job) for job in self.jobs], asked)
        left = list(self.jobs)
        for line in process.stdout:
            answer = json.loads(line)
            if "error" in answer:
                raise BadInput(answer["error"] if answer["missing"] else f"{left[0].name}: {answer['error']}")
            yield left.pop(0), measured_from_json(answer["measured"])
        if process.wait() or left:
            raise WorkerDied(obituary(process.returncode, left, last_line(said)))

    def stop(self) -> None:
        """End it, wherever it is."""
        self.stopped = True
        if self.process is not None:
            self.process.kill()


def start(simulated: bool, said: IO[str]) -> subprocess.Popen[str]:
    """A worker whose Numba simulates or does not, whatever the caller's Numba is told; its standard error goes to ``said``."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    if simulated:
        variables["NUMBA_ENABLE_CUDASIM"] = "1"
    command = [sys.executable, "-P", "-m", "iosim_gpu.worker"]  # -P: nothing that lies about is imported
    return subprocess.Popen(command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)


def obituary(status: int, left: Sequence[Job], last: str) -> str:
    """What happened to a process that died, in one line."""
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    what = left[0].name if left else "everything"
    return f"the process that measured {what} {how}: {last or 'it said nothing'}"


def last_line(said: IO[str]) -> str:
    """The last line that is not empty."""
    said.seek(0)
    return next((line.strip() for line in reversed(said.readlines()) if line.strip()), "")


def measure(jobs: Sequence[Job], processes: int = 2) -> Iterator[tuple[Job, Measured]]:
    """Measure everything in at most ``processes`` processes at a time; answers come as they are ready.

    Raises :class:`iosim.core.errors.BadInput` for what a meter refuses and :class:`WorkerDied` for a process that dies. All processes are
    ended then, and when the caller stops listening.
    """
    children = batches(jobs, processes)
    answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
    with ThreadPoolExecutor(processes) as threads:
        try:
            for child in children:
                threads.submit(_listen, child, answers)
            for _ in jobs:
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            for child in children:
                child.stop()


def batches(jobs: Sequence[Job], processes: int) -> list[Child]:
    """The jobs of each process: simulated and compiled apart, one variant in one process, more processes for what is compiled."""
    children = []
    for simulated in (True, False):
        mine = [job for job in jobs if (job.meter in SIMULATED) == simulated]
        variants = list(dict.fromkeys(_variant(job) for job in mine))
        parts = min(len(variants), max(1, processes // 2) if simulated else processes)
        for part in range(parts):
            own = set(variants[part::parts])
            children.append(Child([job for job in mine if _variant(job) in own], simulated))
    return children


def _variant(job: Job) -> tuple[object, ...]:
    return job.case.kernel, *job.case.options.values(), job.case.tiling


def _listen(child: Child, answers: queue.SimpleQueue[Answer]) -> None:
    try:
        for answer in child.work():
            answers.put(answer)
    except BaseException as error:  # told to whoever asked
        answers.put(error)
