"""What the benchmarks share: runs that take turns, interpreters of their own, and figures beside their goals. No time passes or fails.

A figure is a ratio or a rate of medians measured in one run. The goals are those that the project set itself; the summary at the end
of `pytest tests/benchmarks` prints both, and pytest-benchmark's record (``--benchmark-json``) holds them as ``extra_info``.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
from threadpoolctl import threadpool_limits

Run = Callable[[], object]
FIGURES = pytest.StashKey[list[str]]()


class Benchmark(Protocol):
    """What is used of pytest-benchmark's fixture, which has no annotations."""

    extra_info: dict[str, object]

    def pedantic(self, target: Run, *, setup: Callable[[], None], rounds: int, warmup_rounds: int) -> object: ...


class Watch:
    """A run, and the seconds that each of its calls took."""

    def __init__(self, run: Run, clock: Callable[[], float]) -> None:
        self.run, self.clock = run, clock
        self.seconds: list[float] = []

    def __call__(self) -> None:
        start = self.clock()
        self.run()
        self.seconds.append(self.clock() - start)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """One BLAS thread, because many slow small products down; and pytest's own objects are out of the garbage collector's sight."""
    gc.collect()
    gc.freeze()
    with threadpool_limits(1):
        yield
    gc.unfreeze()


@pytest.fixture
def turns(benchmark: Benchmark) -> Callable[..., list[list[float]]]:
    """Call several runs in turn, A B C A B C ..., after some rounds of warming up; returns the seconds of each.

    What slows the computer down for a while slows all of them down, so that their ratios stay. pytest-benchmark's table shows the first.
    """

    def take_turns(
        first: Run, *others: Run, rounds: int = 31, warmup: int = 2, clock: Callable[[], float] = time.perf_counter
    ) -> list[list[float]]:
        watches = [Watch(run, clock) for run in (first, *others)]

        def call_others() -> None:
            for watch in watches[1:]:
                watch()

        benchmark.pedantic(watches[0], setup=call_others, rounds=rounds, warmup_rounds=warmup)
        return [watch.seconds[-rounds:] for watch in watches]

    return take_turns


@pytest.fixture
def figure(request: pytest.FixtureRequest, benchmark: Benchmark) -> Callable[[str, float, str], None]:
    """Put a figure beside its goal, such as ``figure("ms dense", 12.5, "<= 50")``: into the benchmark's record, and into the summary."""

    def put(name: str, value: float, goal: str) -> None:
        benchmark.extra_info[name] = {"value": value, "goal": goal}
        test = request.node.name.removeprefix("test_").replace("_", " ")
        request.config.stash.setdefault(FIGURES, []).append(f"{test:42} {name:36} {value:8.4g}  {goal}".rstrip())

    return put


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run code in an interpreter of its own, its bytecode cached as at any second start, and return what it prints."""
    cache = {"PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("bytecode"))}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | cache

    def run(code: str, *args: str) -> str:
        done = subprocess.run([sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def peak_megabytes(python: Callable[..., str]) -> Callable[[str], float]:
    """The most memory, in MB of 10^6 bytes, that an interpreter of its own held while it ran some code."""
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc: elsewhere a process is charged with its parent's peak")

    def measure(code: str) -> float:
        ask = "\nprint(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM:')))"
        return int(python(code + ask).split()[-1]) * 1024 / 1e6

    return measure


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print every figure beside its goal."""
    lines = config.stash.get(FIGURES, [])
    if lines:
        terminalreporter.section("figures beside their goals (none passes or fails)")
        for line in lines:
            terminalreporter.write_line(line)
