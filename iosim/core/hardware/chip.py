"""A device in plain numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from iosim.core.errors import BadInput
from iosim.core.hardware.quantity import Quantity, shown
from iosim.core.units import Capacity


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU. Memories are in bytes, ``bandwidth`` in bytes/s, rates in flop/s, all exact integers.

    ``key`` is the preset or the path it was asked for by. ``shared_memory_per_block`` is the most that one block may have (by opting in),
    ``fp16_tensor_rate`` the dense one with float32 accumulation, ``fp32_rate`` that of the other cores. ``quantities`` holds the same
    numbers as the tables print them, with their sources.
    """

    key: str
    name: str
    compute_capability: str
    sms: int
    shared_memory_per_sm: int
    shared_memory_per_block: int
    l2: int
    memory: int
    bandwidth: int
    fp16_tensor_rate: int
    fp32_rate: int
    quantities: tuple[Quantity, ...]

    @property
    def sram(self) -> Capacity:
        """M: the shared memory of one SM, in bytes.

        >>> from iosim.core.hardware import device
        >>> device("a100-40gb").sram.words(itemsize=2)
        83968
        """
        return Capacity(self.shared_memory_per_sm, "bytes")

    def quantity(self, field: str) -> Quantity:
        """One number with its unit and source; ``field`` is the name of the attribute."""
        return next(number for number in self.quantities if number.field == field)


def chip(key: str, name: object, compute_capability: object, quantities: Iterable[Quantity]) -> Device:
    """A device from its numbers, one for each of ``KINDS``; raises :class:`BadInput` for a name that is none and numbers that clash."""
    if not isinstance(name, str) or not name.strip():
        raise BadInput(f"name must be what the device is called, not {shown(name)}")
    if not isinstance(compute_capability, str) or not re.fullmatch(r"[0-9]+\.[0-9]", compute_capability):
        raise BadInput(f'compute_capability must be a text such as "8.0", not {shown(compute_capability)}')
    known = {number.field: number for number in quantities}
    sm, block = known["shared_memory_per_sm"], known["shared_memory_per_block"]
    if block.base > sm.base:
        raise BadInput(f"shared_memory_per_block, {block}, is more than shared_memory_per_sm, {sm}")
    plain = {field: number.base for field, number in known.items()}
    return Device(key=key, name=name, compute_capability=compute_capability, quantities=tuple(known.values()), **plain)
