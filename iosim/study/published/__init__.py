"""The published numbers of the FlashAttention paper, with sources, setups and known misprints."""

from iosim.study.published.cells import Cell, cells, table, tables
from iosim.study.published.datasets import Dataset, Measured, Setup
from iosim.study.published.figures import (
    Accesses,
    BlockPoint,
    DensityPoint,
    Traffic,
    figure2_left,
    figure2_middle,
    figure2_right,
    softmax_accesses,
)
from iosim.study.published.footprints import Tensor, flash_live, pytorch_live
from iosim.study.published.mapper_frontier import Mapped, MapperPoint, mapper_frontier
from iosim.study.published.notes import Note, notes

__all__ = [
    "Accesses", "BlockPoint", "Cell", "Dataset", "DensityPoint", "Mapped", "MapperPoint", "Measured", "Note", "Setup", "Tensor", "Traffic",
    "cells", "figure2_left", "figure2_middle", "figure2_right", "flash_live", "mapper_frontier", "notes",
    "pytorch_live", "softmax_accesses", "table", "tables",
]  # fmt: skip
