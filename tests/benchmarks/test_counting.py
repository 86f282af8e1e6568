"""Count mode: a million tokens cost what their kinds of tile cost."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from iosim import KERNELS, Attention, Blocks, Machine, Options
from iosim.attention.arrays import launch
from iosim.core.masks.patterns import butterfly

N = 2**20
BLOCKS, OPTIONS = Blocks(64, 64), Options(softmax="streamed")
RULES = {
    "dense": (Attention(n=N, d=64), "<= 50"),
    "causal": (Attention(n=N, d=64, causal=True), "<= 100"),
    "windowed": (Attention(n=N, d=64, window=(1000, 0)), "<= 100"),
    "butterfly": (Attention(n=N, d=64, block_mask=butterfly(N, N, 64, 64)), ""),
}
CASES = [(kernel, rule) for kernel in ("standard", "flash", "flash2") for rule in ("dense", "causal", "windowed")]
CASES += [("block-sparse", "butterfly"), ("flash2", "butterfly")]
COUNT = """
from iosim import Attention, simulate
for rules in ({}, {"causal": True}, {"window": (1000, 0)}):
    for kernel in ("standard", "flash", "flash2", "block-sparse"):
        problem = Attention(n=2**20, d=64, **(rules if kernel != "block-sparse" else {}))
        assert simulate(kernel, problem, blocks=(64, 64), sram=49152, overflow="record", execute=False).sound
"""


@pytest.mark.parametrize(("kernel", "rule"), CASES)
def test_a_million_tokens(
    kernel: str, rule: str, turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]
) -> None:
    """N = 2^20, d = 64, 64x64: declaring the arrays, cutting the grid, running the listing, adding up."""
    problem, goal = RULES[rule]

    def count() -> None:
        m = Machine(49152, mode="count", overflow="record")
        launch(KERNELS[kernel], m, problem, BLOCKS, OPTIONS)
        m.finish()

    [seconds] = turns(count, rounds=15)
    figure("ms", median(seconds) * 1e3, goal)


def test_memory_for_a_million_tokens(
    turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None], peak_megabytes: Callable[[str], float]
) -> None:
    """Every kernel through the Python API, closed forms beside the counts, in one interpreter."""
    peaks: list[float] = []
    turns(lambda: peaks.append(peak_megabytes(COUNT)), rounds=1, warmup=0)
    figure("MB at the peak", max(peaks), "< 200")
