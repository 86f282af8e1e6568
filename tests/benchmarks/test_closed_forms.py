"""Closed forms without a mask, for whole arrays of sizes at once."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import pytest

from iosim import predict

POINTS = 10**6
LENGTHS = np.arange(1, POINTS + 1)
CAPACITIES = np.arange(1000, 1000 + POINTS)


@pytest.mark.parametrize("kernel", predict.KERNELS)
def test_words_over_n(kernel: str, turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    """All words of one head for a million N; d = 64, 64x64."""
    [seconds] = turns(lambda: predict.dense_words(kernel, n=LENGTHS, d=64, Br=64, Bc=64), rounds=9)
    figure("million points/s", POINTS / median(seconds) / 1e6, ">= 10")


@pytest.mark.parametrize("kernel", predict.KERNELS)
def test_words_over_m(kernel: str, turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    """The largest blocks that fit for a million M, and the words that they move; N = 4096, d = 64."""

    def blocks_and_words() -> None:
        rows, cols = predict.fit_dense(kernel, CAPACITIES, n=4096, d=64)
        predict.dense_words(kernel, n=4096, d=64, Br=np.maximum(rows, 1), Bc=np.maximum(cols, 1))

    fit, both = turns(lambda: predict.fit_dense(kernel, CAPACITIES, n=4096, d=64), blocks_and_words, rounds=9)
    figure("million blocks/s", POINTS / median(fit) / 1e6, ">= 10")
    figure("million points/s, blocks and words", POINTS / median(both) / 1e6, "")
