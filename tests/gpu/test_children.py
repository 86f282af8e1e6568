"""Processes that measure: none outlives whoever asked, and the caller's Numba variables do not reach them."""

from __future__ import annotations

import subprocess
import sys
from typing import IO

import pytest

from iosim_gpu import children
from iosim_gpu.children import Child, WorkerDied

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.timeout(30)
def test_a_process_that_is_stopped_while_it_starts_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    child = Child([], simulated=True)

    def start(simulated: bool, said: IO[str]) -> subprocess.Popen[str]:
        child.stop()  # by the other thread, between the start and the moment in which the child knows its process
        return subprocess.Popen(SLEEPER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True)

    monkeypatch.setattr(children, "start", start)
    with pytest.raises(WorkerDied, match="ended by signal 9"):
        list(child.work())


def test_a_process_has_none_of_the_callers_numba_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setenv("NUMBA_FORCE_CUDA_CC", "5.2")
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "1")
    monkeypatch.setattr(subprocess, "Popen", lambda *_, env, **__: seen.append(env))
    for simulated in (True, False):
        children.start(simulated, sys.stderr)
    assert [{name: value for name, value in env.items() if name.startswith("NUMBA_")} for env in seen] == [
        {"NUMBA_ENABLE_CUDASIM": "1"},
        {},
    ]
