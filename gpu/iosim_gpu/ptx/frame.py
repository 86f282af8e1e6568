"""The state of a batch of thread blocks that run side by side: a lane for each thread, and which lanes take part just now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim_gpu.ptx.counting import WARP, Tally
from iosim_gpu.ptx.dtypes import Lanes
from iosim_gpu.ptx.faults import KernelFault, quoted
from iosim_gpu.ptx.memory import Addresses, GlobalMemory, OutOfBounds, OwnedMemory, Region
from iosim_gpu.ptx.parse import Instruction
from iosim_gpu.ptx.transfers import Transfer

Part: TypeAlias = tuple[NDArray[Any], "slice | NDArray[np.intp]", NDArray[np.int64]]
"""Cells of memory, which of the accesses fall into them, and the place in the cells where each begins."""

_ALL = slice(None)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which lanes take part in what runs now.

    `lanes` numbers them, or is None for all. `alone` says that every other lane has ended, so that a register may be replaced whole.
    """

    active: NDArray[np.bool_]
    count: int
    lanes: NDArray[np.intp] | None
    alone: bool


class Frame:
    """Registers, memories and counts of a batch of `blocks` (their x and y), each of `threads` lanes in a row.

    A register holds an array of lanes, or a single value, that is never changed in place: writing replaces it.
    """

    def __init__(
        self, blocks: list[tuple[int, int]], threads: int, memory: GlobalMemory, tally: Tally, *, shared_bytes: int, local_bytes: int
    ) -> None:
        self.blocks, self.threads, self.size = blocks, threads, len(blocks) * threads
        numbers = np.arange(self.size, dtype=np.int64)
        self.thread_of = numbers % threads
        self.block_of = numbers // threads
        self.warps = self.block_of * -(-threads // WARP) + self.thread_of // WARP
        self.memory, self.tally = memory, tally
        self.shared = OwnedMemory(self.block_of, shared_bytes, "shared")
        self.local = OwnedMemory(numbers, local_bytes, "local")
        self.registers: list[Lanes] = []
        self.ended = 0
        self.selection = self.select(np.ones(self.size, np.bool_))

    def select(self, active: NDArray[np.bool_]) -> Selection:
        """Let exactly these lanes take part from now on."""
        count = int(np.count_nonzero(active))
        lanes = None if count == self.size else np.flatnonzero(active)
        self.selection = Selection(active, count, lanes, count + self.ended == self.size)
        return self.selection

    def keep(self, slot: int, value: Lanes) -> None:
        """Write a register for the lanes that take part; the others keep what they have."""
        if not self.selection.alone:
            value = np.where(self.selection.active, value, self.registers[slot])
        self.registers[slot] = value

    def addresses(self, slot: int, offset: int) -> Addresses:
        """The addresses in a register, plus an offset, of the lanes that take part."""
        return self.taking_part(self.registers[slot]) + offset

    def taking_part(self, value: Lanes) -> Lanes:
        """The values of the lanes that take part, one after the other."""
        if value.ndim == 0:
            return np.full(self.selection.count, value)
        return value if self.selection.lanes is None else value[self.selection.lanes]

    def spread(self, values: Lanes) -> Lanes:
        """A value for every lane from those of the lanes that take part; the others, of no account, get zero."""
        if self.selection.lanes is None:
            return values
        spread = np.zeros(self.size, values.dtype)
        spread[self.selection.lanes] = values
        return spread

    def parts(self, transfer: Transfer, addresses: Addresses) -> Sequence[Part]:
        """The memory that an access touches, checked and counted; never empty, and only for global memory more than one part."""
        if transfer.space == "global":
            return [self._part(transfer, *found) for found in self.memory.parts(addresses, transfer.dtype.itemsize, transfer.span)]
        owned = self.local
        if transfer.space == "shared":
            owned = self.shared
            self.tally.shared[transfer.kind] += addresses.size * transfer.vector
        places = owned.places(addresses, self.selection.lanes, transfer.span) >> transfer.shift
        return [(owned.cells(transfer.dtype), _ALL, places)]

    def _part(self, transfer: Transfer, region: Region, which: slice | NDArray[np.intp], offsets: Addresses) -> Part:
        if transfer.kind != "load" and not region.array.flags.writeable:
            raise OutOfBounds(0, f"{region.name} is read-only")
        warps = self.warps if self.selection.lanes is None else self.warps[self.selection.lanes]
        self.tally.global_access(region.name, transfer.kind, warps[which], offsets, transfer.vector)
        return region.cells(transfer.dtype), which, offsets >> transfer.shift

    def fault(self, instruction: Instruction, lane: int, what: str) -> NoReturn:
        """Raise KernelFault for the `lane`-th of the lanes that take part."""
        number = lane if self.selection.lanes is None else int(self.selection.lanes[lane])
        block = self.blocks[number // self.threads]
        raise KernelFault(f"{quoted(instruction.line, instruction.text)}: thread {number % self.threads} of block {block}: {what}")
