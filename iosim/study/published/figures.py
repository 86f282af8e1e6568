"""Figure 2 of the FlashAttention paper, and what the softmax listings access."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.study.published.datasets import Dataset, Given, Measured, entries, located, measured, rows_of, stated
from iosim.study.published.documents import Document
from iosim.study.published.records import Record, shown


@dataclass(frozen=True, slots=True)
class Traffic:
    """Figure 2, left: one method in one ``version`` of the paper; GFLOPs, GB (10^9 bytes) through HBM, and milliseconds."""

    version: str
    method: str
    gflops: float
    gigabytes: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class BlockPoint:
    """Figure 2, middle: FlashAttention's forward pass with key blocks of ``block_cols`` rows."""

    block_cols: int
    gigabytes: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class DensityPoint:
    """Figure 2, right: the time of both passes where ``percent`` of the blocks are not zero."""

    method: str
    percent: float
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Accesses:
    """Loads and stores of one vector element in one listing of softmax."""

    method: str
    loads: int
    stores: int

    @property
    def total(self) -> int:
        """Loads and stores together."""
        return self.loads + self.stores


def figure2_left(path: Given = None) -> Measured[Traffic]:
    """Standard attention and FlashAttention, in both versions of the panel that are known.

    >>> [(row.gigabytes, row.milliseconds) for row in figure2_left() if row.version == "arXiv v2"]
    [(40.3, 41.7), (4.4, 7.3)]
    """
    return measured(located(path, "figure_2_left.toml"), "row", rows_of(Traffic, "version", "method"))


def figure2_middle(path: Given = None) -> Measured[BlockPoint]:
    """HBM accesses and runtime of FlashAttention's forward pass over the block size.

    >>> [row.gigabytes for row in figure2_middle()]
    [6.578, 3.356, 1.744, 0.939]
    """
    return measured(located(path, "figure_2_middle.toml"), "row", rows_of(BlockPoint, "block_cols"))


def figure2_right(path: Given = None) -> Measured[DensityPoint]:
    """Runtime of block-sparse FlashAttention over the density; the last row is dense FlashAttention.

    >>> figure2_right().rows[-1]
    DensityPoint(method='FlashAttention', percent=100.0, milliseconds=188.4)
    """
    return measured(located(path, "figure_2_right.toml"), "row", _densities)


def softmax_accesses(path: Given = None) -> Dataset[Accesses]:
    """Accesses an element of naive, safe and online softmax (Milakov and Gimelshein, arXiv 1805.02867).

    >>> {row.method: row.total for row in softmax_accesses()}
    {'naive': 3, 'safe': 4, 'online': 3}
    """
    return stated(located(path, "online_softmax.toml"), "row", rows_of(Accesses, "method"))


def _densities(document: Document) -> tuple[DensityPoint, ...]:
    return entries(document, "row", _density_of, "method", "percent")


def _density_of(record: Record) -> DensityPoint:
    point = record.build(DensityPoint)
    if point.percent > 100:
        raise record.fault("percent", f"percent must be at most 100, not {shown(record.value('percent'))}")
    return point
