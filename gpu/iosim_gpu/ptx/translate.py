"""From a parsed kernel to one that can run: a slot for every register and constant, a closure for every instruction.

The register file also holds the constants, special registers and parameters, so an operand is always the number of a slot.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from iosim_gpu.ptx import steps
from iosim_gpu.ptx.dtypes import DTYPES, REGISTERS, Lanes, poison
from iosim_gpu.ptx.faults import UnsupportedPtx
from iosim_gpu.ptx.opcodes import OPS, Op
from iosim_gpu.ptx.parse import Address, Entry, Immediate, Instruction, Operand, Parameter, Register, Room, Symbol, Vector, parse
from iosim_gpu.ptx.steps import Source, Step, Target
from iosim_gpu.ptx.transfers import TRANSFERS, Transfer

SPECIALS = {f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"} | {"%dynamic_smem_size"}
"""The special registers that the emulator knows, all of 32 bits."""

FENCES = {"membar.cta", "membar.gl", "membar.sys"}
"""Opcodes without effect here: memory is sequentially consistent."""


@dataclass(frozen=True, slots=True)
class End:
    """How a basic block ends: run on, jump, wait at a barrier, or leave; under a guard, only some lanes do so."""

    kind: Literal["next", "jump", "barrier", "exit"]
    target: int = 0
    guard: int | None = None
    negated: bool = False
    instruction: Instruction | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A basic block: its steps, how many instructions it is (the one that ends it included), its first line, its end."""

    steps: tuple[Step, ...]
    length: int
    line: int
    end: End


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel that can run. `initial` is the register file before special registers and parameters are filled in."""

    blocks: tuple[Block, ...]
    initial: tuple[Lanes, ...]
    specials: dict[str, int]
    parameters: tuple[Parameter, ...]
    parameter_slots: dict[str, int]
    shared_bytes: int
    grows: bool
    local_bytes: int
    most_threads: int | None


@functools.lru_cache(maxsize=64)
def translate(ptx: str) -> Program:
    """Translate the only kernel of `ptx`. Raises UnsupportedPtx with the line of the first thing that is not known exactly."""
    module = parse(ptx)
    return _Translator(module.entry, module.shared).program()


@dataclass
class _Slots:
    """The register file as it grows."""

    initial: list[Lanes] = field(default_factory=list)
    constants: dict[tuple[str, bytes], int] = field(default_factory=dict)

    def new(self, value: Lanes) -> int:
        self.initial.append(value)
        return len(self.initial) - 1

    def constant(self, value: Lanes) -> int:
        key = (value.dtype.str, value.tobytes())
        if key not in self.constants:
            self.constants[key] = self.new(value)
        return self.constants[key]


def _layout(rooms: Iterable[Room]) -> tuple[dict[str, int], int]:
    """Where each room begins, those of open size last and all at one place, and where they begin."""
    places: dict[str, int] = {}
    end = 0
    for room in sorted(rooms, key=lambda room: room.size is None):
        end = -(-end // room.align) * room.align
        places[room.name] = end
        end += room.size or 0
    return places, end


class _Translator:
    def __init__(self, entry: Entry, shared: tuple[Room, ...]) -> None:
        self.entry = entry
        self.slots = _Slots()
        rooms = (*shared, *entry.shared)
        self.grows = any(room.size is None for room in rooms)
        places, self.shared_bytes = _layout(rooms)
        local, self.local_bytes = _layout(entry.local)
        self.places = places | local
        self.dtypes = {name: REGISTERS[kind] for name, kind in entry.registers.items()}
        self.registers = {name: self.slots.new(poison(dtype)) for name, dtype in self.dtypes.items()}
        self.specials = {name: self.slots.new(poison(np.dtype(np.int32))) for name in sorted(SPECIALS)}
        self.parameters = {each.name: self.slots.new(poison(DTYPES[each.kind])) for each in entry.parameters}
        self.kinds = {each.name: each.kind for each in entry.parameters}
        self.lasting = _lasting(entry)

    def program(self) -> Program:
        blocks = tuple(self._block(number, block) for number, block in enumerate(self.entry.blocks))
        if not blocks or blocks[-1].end.kind not in {"exit", "jump"} or blocks[-1].end.guard is not None:
            raise UnsupportedPtx(f"the kernel {self.entry.name[:60]} runs off its end: it must end in ret or in a jump")
        return Program(
            blocks,
            tuple(self.slots.initial),
            self.specials,
            self.entry.parameters,
            self.parameters,
            self.shared_bytes,
            self.grows,
            self.local_bytes,
            self.entry.most_threads,
        )

    def _block(self, number: int, block: tuple[Instruction, ...]) -> Block:
        end = self._end(block[-1]) if block else None
        plain = block[:-1] if end else block
        return Block(tuple(self._guarded(each) for each in plain), len(block), block[0].line if block else 0, end or End("next"))

    # How a block ends

    def _end(self, last: Instruction) -> End | None:
        guard = self._predicate(last)
        negated = last.guard is not None and last.guard.negated
        if last.opcode in {"bra", "bra.uni"}:
            return End("jump", self._label(last), guard, negated, last)
        if last.opcode in {"ret", "exit"}:
            self._count(last, 0)
            return End("exit", 0, guard, negated, last)
        if last.opcode == "bar.sync":
            if last.operands != (Immediate("0"),) or guard is not None:
                last.refuse("only barrier 0, for all threads and without a guard, is known")
            return End("barrier", instruction=last)
        return None

    def _label(self, jump: Instruction) -> int:
        name = jump.operands[0].name if len(jump.operands) == 1 and isinstance(jump.operands[0], Symbol) else ""
        if name not in self.entry.labels:
            jump.refuse("no such label")
        return self.entry.labels[name]

    def _predicate(self, instruction: Instruction) -> int | None:
        if instruction.guard is None:
            return None
        name = instruction.guard.register
        if self.entry.registers.get(name) != "pred":
            instruction.refuse(f"{name} is not a predicate of this kernel")
        return self.registers[name]

    # What an instruction does

    def _guarded(self, instruction: Instruction) -> Step:
        step = self._step(instruction)
        slot = self._predicate(instruction)
        if slot is None or instruction.guard is None:
            return step
        return steps.guarded(step, slot, negated=instruction.guard.negated)

    def _step(self, instruction: Instruction) -> Step:
        opcode = instruction.opcode
        if opcode in OPS:
            return self._arithmetic(instruction, OPS[opcode])
        if opcode in TRANSFERS:
            return self._transfer(instruction, TRANSFERS[opcode])
        if opcode.startswith("ld.param."):
            return self._parameter(instruction, opcode.removeprefix("ld.param."))
        if opcode in FENCES and not instruction.operands:
            return steps.nothing
        instruction.refuse(f"the emulator does not know {opcode}")

    def _arithmetic(self, instruction: Instruction, op: Op) -> Step:
        self._count(instruction, 1 + len(op.operands))
        target = self._target(instruction, instruction.operands[0], DTYPES[op.result], resizes=op.resizes)
        sources = [
            self._source(instruction, operand, kind, resizes=op.resizes)
            for operand, kind in zip(instruction.operands[1:], op.operands, strict=True)
        ]
        if op.divides:
            return steps.division(instruction, op.compute, sources, target)
        return steps.arithmetic(op.compute, sources, target, converts=target.dtype != DTYPES[op.result])

    def _parameter(self, instruction: Instruction, kind: str) -> Step:
        self._count(instruction, 2)
        place = instruction.operands[1]
        if not isinstance(place, Address) or not isinstance(place.base, Symbol) or place.base.name not in self.parameters:
            instruction.refuse("no such parameter")
        declared = self.kinds[place.base.name]
        if kind not in DTYPES or DTYPES[kind].itemsize != DTYPES[declared].itemsize or place.offset:
            instruction.refuse(f"the parameter is of type .{declared}, and is read whole")
        target = self._target(instruction, instruction.operands[0], DTYPES[kind], resizes=True)
        source = Source(self.parameters[place.base.name], None if kind == declared else DTYPES[kind])
        return steps.arithmetic(lambda value: value, [source], target, converts=True)

    def _transfer(self, instruction: Instruction, transfer: Transfer) -> Step:
        match transfer.kind:
            case "load":
                self._count(instruction, 2)
                targets = [
                    self._target(instruction, each, transfer.dtype, resizes=True)
                    for each in self._parts(instruction, instruction.operands[0], transfer.vector)
                ]
                return steps.load(instruction, transfer, *self._place(instruction, 1, transfer), targets)
            case "store":
                self._count(instruction, 2)
                sources = [
                    self._stored(instruction, each, transfer) for each in self._parts(instruction, instruction.operands[1], transfer.vector)
                ]
                return steps.store(instruction, transfer, *self._place(instruction, 0, transfer), sources)
            case "atomic":
                return self._atomic(instruction, transfer)

    def _atomic(self, instruction: Instruction, transfer: Transfer) -> Step:
        first = 1 if transfer.returns else 0
        self._count(instruction, first + 1 + transfer.operands)
        target = self._target(instruction, instruction.operands[0], transfer.dtype, resizes=False) if transfer.returns else None
        sources = [self._stored(instruction, each, transfer) for each in instruction.operands[first + 1 :]]
        return steps.atomic(instruction, transfer, *self._place(instruction, first, transfer), sources, target)

    # Operands

    def _count(self, instruction: Instruction, expected: int) -> None:
        if len(instruction.operands) != expected:
            instruction.refuse(f"{instruction.opcode} takes {expected} operands")

    def _parts(self, instruction: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
        parts = operand.parts if isinstance(operand, Vector) else (operand,)
        if len(parts) != count or isinstance(operand, Vector) != (count > 1):
            instruction.refuse(f"{instruction.opcode} moves {count} elements")
        return parts

    def _place(self, instruction: Instruction, position: int, transfer: Transfer) -> tuple[int, int]:
        """The slot that holds the base of an address, and the offset from it."""
        address = instruction.operands[position]
        if not isinstance(address, Address):
            instruction.refuse("an address in brackets is needed here")
        if isinstance(address.base, Symbol):
            if transfer.space == "global":
                instruction.refuse(f"{address.base.name} is not in global memory")
            return self._symbol(instruction, address.base.name), address.offset
        return self._source(instruction, address.base, "b64", resizes=False).slot, address.offset

    def _symbol(self, instruction: Instruction, name: str) -> int:
        if name not in self.places:
            instruction.refuse(f"the emulator knows no {name[:60]}")
        return self.slots.constant(np.array(self.places[name], np.int64))

    def _target(self, instruction: Instruction, operand: Operand, dtype: np.dtype[Any], *, resizes: bool) -> Target:
        if not isinstance(operand, Register) or operand.name not in self.registers:
            instruction.refuse("the result must go to a register of this kernel")
        kept = self.dtypes[operand.name]
        self._fits(instruction, operand.name, kept, dtype, resizes=resizes)
        return Target(self.registers[operand.name], kept, operand.name in self.lasting)

    def _stored(self, instruction: Instruction, operand: Operand, transfer: Transfer) -> Source:
        """What goes to memory: of an integer in a wider register, the low bits."""
        return self._source(instruction, operand, transfer.element, resizes=transfer.kind == "store")

    def _source(self, instruction: Instruction, operand: Operand, kind: str, *, resizes: bool) -> Source:
        dtype = DTYPES[kind]
        match operand:
            case Immediate(text):
                return Source(self.slots.constant(_number(instruction, text, kind)), None)
            case Symbol(name) if dtype == np.int64:
                return Source(self._symbol(instruction, name), None)
            case Register(name) if name in self.registers:
                slot, kept = self.registers[name], self.dtypes[name]
            case Register(name) if name in SPECIALS:
                slot, kept = self.specials[name], np.dtype(np.int32)
            case Register(name):
                instruction.refuse(f"the emulator knows no register {name}")
            case _:
                instruction.refuse(f"an operand of type .{kind} cannot be written so")
        self._fits(instruction, name, kept, dtype, resizes=resizes)
        return Source(slot, None if kept == dtype else dtype)

    def _fits(self, instruction: Instruction, name: str, kept: np.dtype[Any], dtype: np.dtype[Any], *, resizes: bool) -> None:
        """A register has the width of the type; one of integers may be wider where the instruction cuts off or extends."""
        wider = resizes and kept.itemsize > dtype.itemsize and kept.kind == "i" and dtype.kind in "iu"
        same = kept.itemsize == dtype.itemsize and (kept.kind == "b") == (dtype.kind == "b")
        if not (same or wider):
            instruction.refuse(f"{name} is kept as {kept}, which is not of the width that {instruction.opcode} needs")


def _number(instruction: Instruction, text: str, kind: str) -> Lanes:
    """An immediate as a value of a PTX type."""
    dtype = DTYPES[kind]
    if text.startswith(("0f", "0d")):
        pattern = np.array(int(text[2:], 16), np.uint32 if text[1] == "f" else np.uint64)
        if dtype.kind != "f" or pattern.itemsize != dtype.itemsize:
            instruction.refuse(f"{text} is not of type .{kind}")
        return pattern.view(dtype)
    value = int(text, 0)
    if kind == "pred":
        return np.array(value != 0)
    if dtype.kind == "f" or not -(1 << (8 * dtype.itemsize - 1)) <= value < 1 << (8 * dtype.itemsize):
        instruction.refuse(f"{text} is not of type .{kind}")
    return np.array(value % (1 << (8 * dtype.itemsize)), f"u{dtype.itemsize}").view(dtype)


def _lasting(entry: Entry) -> set[str]:
    """The registers whose value must outlive a basic block: somewhere, one is read before it is surely written in that block."""
    lasting: set[str] = set()
    for block in entry.blocks:
        written: set[str] = set()
        for instruction in block:
            lasting.update(set(_read(instruction)) - written)
            if instruction.guard is None:
                written.update(_written(instruction))
            else:
                lasting.update(_written(instruction))
    return lasting


def _without_result(opcode: str) -> bool:
    return opcode.split(".", maxsplit=1)[0] in {"st", "red", "bra", "bar", "ret", "exit", "membar"}


def _written(instruction: Instruction) -> set[str]:
    if _without_result(instruction.opcode) or not instruction.operands:
        return set()
    return set(_names(instruction.operands[:1]))


def _read(instruction: Instruction) -> set[str]:
    operands = instruction.operands if _without_result(instruction.opcode) else instruction.operands[1:]
    guard = {instruction.guard.register} if instruction.guard else set()
    return guard | set(_names(operands))


def _names(operands: Iterable[Operand]) -> Iterable[str]:
    for operand in operands:
        match operand:
            case Register(name) | Address(Register(name)):
                yield name
            case Vector(parts):
                yield from _names(parts)
