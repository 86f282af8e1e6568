"""What is counted of each array, and how: elements, sectors of 32 bytes, and requests of warps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from iosim_gpu.ptx.transfers import KINDS, Kind

WARP = 32
"""Threads of a warp."""

SECTOR = 32
"""Bytes of a sector, the unit in which a GPU's memory system moves data."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a kernel moved of one array.

    `loads`, `stores`, `atomics`: elements, once for every thread that asks for one; an atomic is neither a load nor a store.
    `*_sectors`: different 32-byte sectors that the threads of one warp touch in one instruction, summed over warps and
    instructions. `*_requests`: warps that executed such an instruction for at least one thread. No cache is modelled:
    what a warp reads twice counts twice. Arrays start on a sector of their own, as device allocations do.
    """

    loads: int = 0
    stores: int = 0
    atomics: int = 0
    load_sectors: int = 0
    store_sectors: int = 0
    atomic_sectors: int = 0
    load_requests: int = 0
    store_requests: int = 0
    atomic_requests: int = 0


@dataclass(slots=True)
class Tally:
    """Counts that grow while a kernel runs; `moved` holds elements, sectors and requests of an array and a kind of access,
    `shared` elements of shared memory by kind.
    """

    moved: dict[tuple[str, Kind], tuple[int, int, int]] = field(default_factory=dict)
    shared: Counter[Kind] = field(default_factory=Counter)
    barriers: int = 0
    instructions: int = 0

    def global_access(self, array: str, kind: Kind, warps: NDArray[np.int64], offsets: NDArray[np.int64], vector: int) -> None:
        """Count one instruction: for each thread that takes part, its warp and the byte offset in `array`; `vector` elements each."""
        elements, sectors, requests = self.moved.get((array, kind), (0, 0, 0))
        # Lanes come in the order of their warps, so a warp is new where the number changes.
        newcomers = 1 + int(np.count_nonzero(warps[1:] != warps[:-1]))
        touched = np.unique(warps * (1 << 40) + offsets // SECTOR).size  # an array is smaller than 2^40 bytes
        self.moved[array, kind] = elements + offsets.size * vector, sectors + int(touched), requests + newcomers

    def access(self, array: str) -> Access:
        """What was counted of one array."""
        elements, sectors, requests = zip(*(self.moved.get((array, kind), (0, 0, 0)) for kind in KINDS), strict=True)
        return Access(*elements, *sectors, *requests)
