"""Dropout's mask, computed anew for every tile."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import numpy as np
import pytest

from iosim.core.masks.dropout import Keep

CALLS = 50
COLUMNS = {
    "aligned": np.arange(128, 192),
    "ragged": np.arange(130, 194),
    "scattered": np.arange(2, 1026, 16),
}


@pytest.mark.parametrize(("columns", "goal"), [("aligned", "<= 100"), ("ragged", "<= 100"), ("scattered", "")])
def test_dropout_mask(columns: str, goal: str, turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None]) -> None:
    """64 x 64 pairs; scattered columns share no counter, and cost four times the words."""
    keep, rows, cols = Keep(0.1, seed=2**40 + 1, head=3), np.arange(640, 704)[:, None], COLUMNS[columns][None, :]

    def masks() -> None:
        for _ in range(CALLS):
            keep(rows, cols)

    [seconds] = turns(masks)
    figure("us per 64x64 tile", median(seconds) / CALLS * 1e6, goal)
