"""The whole frontier over M up to N d."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

from iosim import predict
from iosim.core.options import Options
from iosim.core.problem import Attention

USUAL = [
    ("flash", Options()),
    ("flash2", Options()),
    ("standard", Options()),
    ("standard", Options(softmax="streamed")),
    ("square-tiles", Options()),
    ("square-tiles", Options(depth="one")),
    ("flash-backward", Options()),
    ("flash2-backward", Options(dq_pass="own")),
    ("standard-backward", Options()),
    ("square-tiles-backward", Options()),
]


@pytest.mark.parametrize(("n", "d", "goal"), [(1024, 64, 2), (4096, 64, 1), (4096, 128, 1)])
@pytest.mark.parametrize(("kernel", "options"), USUAL)
def test_frontier(
    kernel: str, options: Options, n: int, d: int, goal: int,
    turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None],
) -> None:  # fmt: skip
    [seconds] = turns(lambda: predict.frontier(kernel, Attention(n, d), options, upto=n * d), rounds=9)
    figure("s, dense", median(seconds), f"<= {goal}")


@pytest.mark.parametrize("kernel", ["flash2", "square-tiles"])
def test_frontier_causal(kernel: str, turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    [seconds] = turns(lambda: predict.frontier(kernel, Attention(1024, 64, causal=True), upto=65536), rounds=3, warmup=1)
    figure("s, causal, N = 1024", median(seconds), "")


def test_memory_of_a_frontier(
    peak_megabytes: Callable[[str], float], turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]
) -> None:
    ask = "from iosim import predict; from iosim.core.problem import Attention; predict.frontier('square-tiles', Attention(4096, 128))"
    turns(lambda: None, rounds=1)
    figure("MB, all of the process", peak_megabytes(ask), "<= 300")


def test_ideal_frontier(turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    [seconds] = turns(lambda: predict.ideal_frontier(Attention(4096, 64)), rounds=9)
    figure("s, all schedules", median(seconds), "")
