"""Figure 2, middle: the forward pass over the size of the key blocks."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.core.problem import Blocks
from iosim.study.paper.claims import Claim, percent
from iosim.study.paper.compared import Compared, Finding
from iosim.study.paper.counting import CREATED, RELEASED, Work, asked_of, count
from iosim.study.paper.data import Data
from iosim.study.paper.times import FLASH, Times
from iosim.study.published import BlockPoint

SECTION = "Figure 2, middle"
CLAIM = 0.1  # percent


@dataclass(frozen=True, slots=True)
class Point:
    """One block size: what was published, what was counted, and both numbers side by side."""

    published: BlockPoint
    work: Work
    traffic: Compared
    time: Compared


def points(data: Data, times: Times) -> list[Point]:
    """Every block size of the panel."""
    return [_point(data, row, times) for row in data.middle]


def findings(found: list[Point]) -> list[Finding]:
    """Traffic and time over all block sizes."""
    traffic, time = tuple(point.traffic for point in found), tuple(point.time for point in found)
    bytes_said = "Q, K, V and O in their own type: O is read wherever it was written before; l and m are left out"
    time_said = (
        "the bytes bind where blocks are small, the products where they are large, where the time no longer falls; dropout, and what does "
        "not overlap, is not in the model"
    )
    return [Finding("fig2", SECTION, "GB", traffic, bytes_said), Finding("fig2", SECTION, "ms", time, time_said)]


def _point(data: Data, row: BlockPoint, times: Times) -> Point:
    blocks = Blocks(RELEASED.rows, row.block_cols)
    work = count(asked_of(data.middle.setup, "flash", "fwd", dropout=True, blocks=blocks, options=CREATED))
    moved, slowest = work.data_bytes / 1e9, times.predicted(work, data.middle.setup, FLASH)

    def compared(quantity: str, value: float, unit: str, ours: float, made: str, claim: Claim | None = None) -> Compared:
        labels = {"quantity": quantity, "method": FLASH, "block_cols": row.block_cols}
        name = f"{SECTION}, {quantity} at Bc = {row.block_cols}"
        return Compared(name, value, unit, ours, data.middle.source, labels, claim, work=work, made=made)

    traffic = compared("HBM", row.gigabytes, "GB", moved, "counted_bytes_without_statistics / 10^9", percent(row.gigabytes, CLAIM))
    return Point(row, work, traffic, compared("time", row.milliseconds, "ms", slowest, times.made(fused=True)))
