"""The map at the SRAM of a device: how many words it holds, their regime, and the best kernel there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from iosim.core.hardware import DEVICES, Device, device
from iosim.core.units import Capacity
from iosim.study.regimes.map_over_m import RegimeMap, Row

# CUDA C++ Programming Guide, compute capabilities: a kernel that asks for more must opt in to dynamic shared memory.
WITHOUT_OPTING_IN = Capacity(48 * 2**10, "bytes")
Part = Literal["SM", "block", "block without opting in"]


@dataclass(frozen=True, slots=True)
class Place:
    """The shared memory of an SM of some ``devices``, or the most that one thread block may use, and the ``row`` of the map there."""

    devices: tuple[str, ...]
    part: Part
    size: Capacity
    row: Row


def places(found: RegimeMap, devices: Sequence[Device] | None = None) -> tuple[Place, ...]:
    """The map at the shared memory of ``devices`` (None: all presets), the smallest first; devices with as much stand together.

    >>> from iosim import Attention, regime_map
    >>> first = places(regime_map(Attention(n=4096, d=128)))[0]
    >>> str(first.size), first.row.sram, first.row.regime.name
    ('48 KiB', 12288, 'small cache')
    """
    chips = [device(name) for name in DEVICES] if devices is None else devices
    sizes: dict[tuple[int, Part], list[str]] = {}
    for chip in chips:
        for amount, part in _parts(chip):
            sizes.setdefault((amount, part), []).append(chip.key)
    return tuple(_place(found, tuple(names), part, Capacity(amount, "bytes")) for (amount, part), names in sorted(sizes.items()))


def _parts(chip: Device) -> Iterator[tuple[int, Part]]:
    yield min(chip.shared_memory_per_block, WITHOUT_OPTING_IN.amount), "block without opting in"
    yield chip.shared_memory_per_block, "block"
    yield chip.shared_memory_per_sm, "SM"


def _place(found: RegimeMap, names: tuple[str, ...], part: Part, size: Capacity) -> Place:
    return Place(names, part, size, found.row(max(1, size.words(found.problem.itemsize))))
