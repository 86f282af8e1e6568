"""Memory that runs take: no N x N array, whatever N."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak that Linux alone tells of one program")

# Linux hands the peak of ru_maxrss on through exec, so that it would be this process's; VmHWM begins anew.
PEAK = "print(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmHWM')) // 1024)"


def megabytes(code: str) -> int:
    """The most memory that a new interpreter held while it ran ``code``."""
    done = subprocess.run([sys.executable, "-c", f"{code}\n{PEAK}"], capture_output=True, text=True, check=True, env=os.environ)
    return int(done.stdout.split()[-1])


@pytest.mark.slow
def test_sixteen_thousand_rows_are_executed_and_judged_in_less_than_400_megabytes() -> None:
    run = "assert simulate('flash2', Attention(n=16384, d=64), sram=98304).agreed['executed']"
    assert megabytes(f"from iosim import Attention, simulate; {run}") < 400 < 16384**2 * 4 >> 20


@pytest.mark.parametrize("rule", ["", "causal=True", "window=(1000, 0)"])
def test_a_million_rows_are_counted_in_less_than_200_megabytes(rule: str) -> None:
    run = f"simulate('flash2', Attention(n=2**20, d=64, {rule}), sram=10**6, blocks=(64, 64), execute=False, replay=False)"
    assert megabytes(f"from iosim import Attention, simulate; {run}") < 200
