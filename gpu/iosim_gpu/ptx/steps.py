"""What an instruction does to a frame, as closures: arithmetic, loads, stores, atomics, and work under a guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iosim_gpu.ptx.dtypes import Lanes, convert
from iosim_gpu.ptx.frame import Frame, Part
from iosim_gpu.ptx.memory import Addresses, OutOfBounds, turns
from iosim_gpu.ptx.opcodes import Compute
from iosim_gpu.ptx.parse import Instruction
from iosim_gpu.ptx.transfers import Transfer

Step: TypeAlias = Callable[[Frame], None]
Value: TypeAlias = Callable[[list[Lanes]], Lanes]


@dataclass(frozen=True, slots=True)
class Source:
    """An operand that is read: its slot in the register file, and the type to turn it into, or None where it has that type."""

    slot: int
    cast: np.dtype[Any] | None

    def fetch(self, frame: Frame) -> Lanes:
        """The value in every lane."""
        value = frame.registers[self.slot]
        return value if self.cast is None else convert(value, self.cast)


@dataclass(frozen=True, slots=True)
class Target:
    """A register that is written: its slot, what it is kept as, and whether a lane that stands elsewhere may still read it.

    A register that is only ever read after a write in the same basic block may be overwritten for all lanes at once.
    """

    slot: int
    dtype: np.dtype[Any]
    lasting: bool

    def put(self, frame: Frame, value: Lanes) -> None:
        """Write a value for the lanes that take part."""
        value = convert(value, self.dtype)
        if self.lasting:
            frame.keep(self.slot, value)
        else:
            frame.registers[self.slot] = value


def arithmetic(compute: Compute, sources: Sequence[Source], target: Target, *, converts: bool) -> Step:
    """Compute, then write; `converts` says that the result is of another type than the register keeps."""
    value = _value(compute, sources)
    slot = target.slot
    if converts:
        return lambda frame: target.put(frame, value(frame.registers))
    if target.lasting:
        return lambda frame: frame.keep(slot, value(frame.registers))

    def step(frame: Frame) -> None:
        frame.registers[slot] = value(frame.registers)

    return step


def _value(compute: Compute, sources: Sequence[Source]) -> Value:
    """The operation on the register file; those without casts, nearly all, are spelled out because they are the innermost loop."""
    if any(source.cast for source in sources):
        return _casting(compute, sources)
    slots = [source.slot for source in sources]
    if len(slots) == 1:
        (a,) = slots
        return lambda registers: compute(registers[a])
    if len(slots) == 2:
        a, b = slots
        return lambda registers: compute(registers[a], registers[b])
    a, b, c = slots
    return lambda registers: compute(registers[a], registers[b], registers[c])


def _casting(compute: Compute, sources: Sequence[Source]) -> Value:
    pairs = [(source.slot, source.cast) for source in sources]
    return lambda registers: compute(*[registers[slot] if cast is None else convert(registers[slot], cast) for slot, cast in pairs])


def division(instruction: Instruction, compute: Compute, sources: Sequence[Source], target: Target) -> Step:
    """As arithmetic, but a zero divisor in a lane that takes part is a fault; the other lanes divide by one instead."""
    dividend, divisor = sources

    def step(frame: Frame) -> None:
        below = divisor.fetch(frame)
        zero = below == 0
        if zero.any():
            if (hit := frame.taking_part(zero)).any():
                frame.fault(instruction, int(np.argmax(hit)), "integer division by zero")
            below = np.where(zero, below.dtype.type(1), below)
        target.put(frame, compute(dividend.fetch(frame), below))

    return step


def load(instruction: Instruction, transfer: Transfer, slot: int, offset: int, targets: Sequence[Target]) -> Step:
    """Read one element, or the elements of a vector, for each lane that takes part."""

    def step(frame: Frame) -> None:
        addresses = frame.addresses(slot, offset)
        parts = _parts(frame, instruction, transfer, addresses)
        for i, target in enumerate(targets):
            target.put(frame, frame.spread(_gather(parts, i, addresses.size)))

    return step


def _parts(frame: Frame, instruction: Instruction, transfer: Transfer, addresses: Addresses) -> Sequence[Part]:
    try:
        return frame.parts(transfer, addresses)
    except OutOfBounds as wrong:
        frame.fault(instruction, wrong.lane, wrong.what)


def _gather(parts: Sequence[Part], element: int, count: int) -> Lanes:
    if len(parts) == 1:
        cells, _, places = parts[0]
        return cells[places + element if element else places]
    gathered = np.empty(count, parts[0][0].dtype)
    for cells, which, places in parts:
        gathered[which] = cells[places + element]
    return gathered


def store(instruction: Instruction, transfer: Transfer, slot: int, offset: int, sources: Sequence[Source]) -> Step:
    """Write one element, or the elements of a vector; where lanes meet in one place, the last lane's value stays."""

    def step(frame: Frame) -> None:
        addresses = frame.addresses(slot, offset)
        values = [frame.taking_part(source.fetch(frame)) for source in sources]
        for cells, which, places in _parts(frame, instruction, transfer, addresses):
            for i, value in enumerate(values):
                cells[places + i] = value[which]

    return step


def atomic(instruction: Instruction, transfer: Transfer, slot: int, offset: int, sources: Sequence[Source], target: Target | None) -> Step:
    """Read, update and write one element for each lane, in the order of the lanes where several meet in one place."""
    update = transfer.update
    assert update is not None

    def step(frame: Frame) -> None:
        addresses = frame.addresses(slot, offset)
        operands = [frame.taking_part(source.fetch(frame)) for source in sources]
        old = np.empty(addresses.size, transfer.dtype)
        for cells, which, places in _parts(frame, instruction, transfer, addresses):
            old[which] = _take_turns(cells, places, update, [operand[which] for operand in operands])
        if target is not None:
            target.put(frame, frame.spread(old))

    return step


def _take_turns(cells: Lanes, places: Lanes, update: Callable[..., Any], operands: list[Lanes]) -> Lanes:
    old = np.empty(places.size, cells.dtype)
    for turn in turns(places):
        now = cells[places[turn]]
        old[turn] = now
        cells[places[turn]] = update(now, *[operand[turn] for operand in operands])
    return old


def guarded(step: Step, slot: int, *, negated: bool) -> Step:
    """Take the step for those lanes whose predicate says so, if there are any."""

    def narrowed(frame: Frame) -> None:
        outer = frame.selection
        predicate = frame.registers[slot]
        if frame.select(outer.active & (predicate != negated)).count:
            step(frame)
        frame.selection = outer

    return narrowed


def nothing(frame: Frame) -> None:
    """A fence: lanes already see each other's writes in the order in which they were made."""
