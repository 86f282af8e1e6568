"""PTX text as data: modules, entries, basic blocks, instructions and operands, each with its line.

The parser knows the grammar that NVVM writes, statement by statement, and refuses the rest. It does not know opcodes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from iosim_gpu.ptx.dtypes import DTYPES, REGISTERS
from iosim_gpu.ptx.faults import UnsupportedPtx, quoted


@dataclass(frozen=True, slots=True)
class Register:
    """A register, predicate or special register by its full name, such as `%rd12` or `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number as it is written: `-4`, `0x1F`, `0f3F800000` or `0d3FF0000000000000`."""

    text: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A named place in shared or local memory, a parameter or a label."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """`[base+offset]`, the offset in bytes."""

    base: Register | Symbol
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b}` or `{a, b, c, d}`."""

    parts: tuple[Register | Immediate, ...]


Operand: TypeAlias = Register | Immediate | Symbol | Address | Vector


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p` or `@!%p`: the lanes for which an instruction works."""

    register: str
    negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One statement of a kernel's body; `text` is what the file says, without comment."""

    line: int
    text: str
    guard: Guard | None
    opcode: str
    operands: tuple[Operand, ...]

    def refuse(self, why: str) -> NoReturn:
        """Raise the error that this instruction cannot be run, and why."""
        raise UnsupportedPtx(f"{quoted(self.line, self.text)}: {why}")


@dataclass(frozen=True, slots=True)
class Room:
    """A named stretch of shared or local memory; `size` is None for the one that grows with each launch."""

    name: str
    align: int
    size: int | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel and its type."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel: what it takes, its registers (name to declared type), its blocks, and its own shared and local memory."""

    name: str
    parameters: tuple[Parameter, ...]
    registers: dict[str, str]
    shared: tuple[Room, ...]
    local: tuple[Room, ...]
    blocks: tuple[tuple[Instruction, ...], ...]
    labels: dict[str, int]
    most_threads: int | None


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX file: its version and target, the shared memory that all its kernels may use, and the kernels."""

    version: str
    target: str
    shared: tuple[Room, ...]
    entries: tuple[Entry, ...]

    @property
    def entry(self) -> Entry:
        """The only kernel; raises UnsupportedPtx where there are several or none."""
        if len(self.entries) != 1:
            raise UnsupportedPtx(f"the PTX holds {len(self.entries)} kernels; the emulator runs a module of exactly one")
        return self.entries[0]


ENDS = {"bra", "bra.uni", "ret", "exit", "bar.sync"}
"""The opcodes that end a basic block."""

_NAME = r"[A-Za-z_$][\w$]*"
_REGISTER = r"%[\w$]+(?:\.[xyz])?"
_LABEL = re.compile(rf"({_NAME}):\s*")
_INSTRUCTION = re.compile(r"(?:@(!?)(%[\w$]+)\s+)?([a-z][\w.:]*)\s*([^;]*);")
_DECIMAL = "(?:0|[1-9][0-9]*)"  # a zero before other digits makes a number octal
_NUMBER = re.compile(rf"-?(0x[0-9a-fA-F]+|{_DECIMAL})|0f[0-9a-fA-F]{{8}}|0d[0-9a-fA-F]{{16}}")
_ADDRESS = re.compile(rf"\[\s*({_REGISTER}|{_NAME})\s*(?:\+\s*(-?{_DECIMAL}))?\s*\]")
_DECLARED = re.compile(rf"\.reg\s+\.(\w+)\s+(%[\w$]+?)(?:<({_DECIMAL})>)?;")
_ROOM = re.compile(rf"(?:\.(?:visible|extern|weak)\s+)?\.(shared|local)\s+\.align\s+({_DECIMAL})\s+\.b8\s+({_NAME})\s*\[({_DECIMAL}?)\];")
_UNUSED = re.compile(rf"\.common\s+\.global\s+\.align\s+\d+\s+\.\w+\s+{_NAME};")
_HEADER = re.compile(rf"(?:\.visible\s+|\.weak\s+)?\.entry\s+({_NAME})\s*\(?\s*(\)?)")
_LIMIT = re.compile(r"\.maxntid\s+([1-9][0-9]*)(?:\s*,\s*([1-9][0-9]*))?(?:\s*,\s*([1-9][0-9]*))?")
_PARAMETER = re.compile(rf"\.param\s+\.(\w+)\s+({_NAME})\s*(,?)")
_SILENT = {".address_size", ".file", ".loc", ".pragma", ".minnctapersm", ".maxnreg"}  # hints and debug lines: no effect on results

# Far more than NVVM writes or a GPU has; what is beyond would take long to read, or memory that is not there.
_LONGEST = 4096  # characters of a line
_MOST_REGISTERS = 100_000  # of one declaration
_MOST_BYTES = 512 * 1024  # of one room: the local memory of a thread (CUDA C++ Programming Guide, table of compute capabilities)
_OFFSETS = 1 << 31  # of an address, each way (PTX ISA, addresses as operands)


def parse(ptx: str) -> Module:
    """Read PTX text; line numbers count from 1. Raises UnsupportedPtx on anything outside the known grammar.

    >>> text = ".version 9.0\\n.target sm_90\\n.visible .entry k()\\n{\\n  ret;\\n}"
    >>> parse(text).entry.blocks[0][0].opcode
    'ret'
    """
    return _Reader().read(ptx)


class _Reader:
    """Walks over the lines with one open entry at most."""

    def __init__(self) -> None:
        self.version = self.target = ""
        self.shared: list[Room] = []
        self.entries: list[Entry] = []
        self.body: _Body | None = None

    def read(self, ptx: str) -> Module:
        for number, raw in enumerate(ptx.splitlines(), start=1):
            text = raw.split("//")[0].strip()
            if len(text) > _LONGEST:
                raise UnsupportedPtx(f"{quoted(number, text)}: a line of more than {_LONGEST} characters")
            if text and not _is_silent(text):
                self._line(number, text)
        if self.body:
            raise UnsupportedPtx(f"the PTX ends inside the kernel {self.body.name[:60]}, which begins in line {self.body.start}")
        return Module(self.version, self.target, tuple(self.shared), tuple(self.entries))

    def _line(self, number: int, text: str) -> None:
        if self.body is None:
            self._outside(number, text)
        elif not self.body.opened:
            self.body.signature(number, text)
        elif text == "}":
            self.entries.append(self.body.close())
            self.body = None
        else:
            self.body.statement(number, text)

    def _outside(self, number: int, text: str) -> None:
        if text.startswith(".version "):
            self.version = text.split()[1]
        elif text.startswith(".target "):
            self.target = text.split()[1].rstrip(",")
        elif (room := _ROOM.fullmatch(text)) and room[1] == "shared":
            self.shared.append(_room(number, text, room, self.shared))
        elif header := _HEADER.fullmatch(text):
            self.body = _Body(header[1], number, taken=bool(header[2]))
        elif not _UNUSED.fullmatch(text):  # the symbol that Numba leaves behind; a use of it is refused as unknown
            raise UnsupportedPtx(f"{quoted(number, text)}: not a declaration that the emulator knows")


def _is_silent(text: str) -> bool:
    """Whether a line is of no effect; one that holds more than a single statement is not passed over."""
    return text.split(maxsplit=1)[0] in _SILENT and ";" not in text[:-1]


def _room(number: int, text: str, found: re.Match[str], others: list[Room]) -> Room:
    align, size = int(found[2]), int(found[4] or 0)
    if align & (align - 1) or not 1 <= align <= _MOST_BYTES or size > _MOST_BYTES:
        raise UnsupportedPtx(f"{quoted(number, text)}: aligned to a power of two, and of {_MOST_BYTES} bytes at most")
    _new(number, text, found[3], [room.name for room in others])
    return Room(found[3], align, size if found[4] else None)


def _new(number: int, text: str, name: str, known: Container[str]) -> None:
    """Raise UnsupportedPtx for a name that is declared already."""
    if name in known:
        raise UnsupportedPtx(f"{quoted(number, text)}: {name[:60]} is declared twice")


class _Body:
    """Collects one entry."""

    def __init__(self, name: str, line: int, *, taken: bool) -> None:
        self.name, self.start = name, line
        self.taken, self.opened = taken, False  # whether the list of parameters and then the body has begun
        self.parameters: list[Parameter] = []
        self.registers: dict[str, str] = {}
        self.rooms: dict[str, list[Room]] = {"shared": [], "local": []}
        self.blocks: list[list[Instruction]] = [[]]
        self.labels: dict[str, int] = {}
        self.most_threads: int | None = None

    def signature(self, number: int, text: str) -> None:
        if text == "{" and self.taken:
            self.opened = True
        elif text == ")" and not self.taken:
            self.taken = True
        elif (found := _LIMIT.fullmatch(text)) and self.taken:
            self.most_threads = math.prod(int(size) for size in found.groups("1"))
        elif (found := _PARAMETER.fullmatch(text)) and not self.taken and found[1] in DTYPES:
            _new(number, text, found[2], [parameter.name for parameter in self.parameters])
            self.parameters.append(Parameter(found[2], found[1]))
        elif text != "(" or self.taken:
            raise UnsupportedPtx(f"{quoted(number, text)}: not a parameter or limit that the emulator knows")

    def statement(self, number: int, text: str) -> None:
        if label := _LABEL.match(text):
            self._label(number, text, label[1])
            text = text[label.end() :]
        if text.startswith("."):
            self._declaration(number, text)
        elif text:
            self._instruction(number, text)

    def _label(self, number: int, text: str, name: str) -> None:
        _new(number, text, name, self.labels)
        if self.blocks[-1]:
            self.blocks.append([])
        self.labels[name] = len(self.blocks) - 1

    def _declaration(self, number: int, text: str) -> None:
        if (found := _DECLARED.fullmatch(text)) and found[1] in REGISTERS:
            for name in _declared(number, text, found):
                _new(number, text, name, self.registers)
                self.registers[name] = found[1]
        elif room := _ROOM.fullmatch(text):
            self.rooms[room[1]].append(_room(number, text, room, [*self.rooms["shared"], *self.rooms["local"]]))
        else:
            raise UnsupportedPtx(f"{quoted(number, text)}: not a declaration that the emulator knows")

    def _instruction(self, number: int, text: str) -> None:
        found = _INSTRUCTION.fullmatch(text)
        if not found:
            raise UnsupportedPtx(f"{quoted(number, text)}: not one whole instruction ending in a semicolon")
        guard = Guard(found[2], bool(found[1])) if found[2] else None
        operands = tuple(_operand(number, text, part) for part in _split(found[4]))
        self.blocks[-1].append(Instruction(number, text, guard, found[3], operands))
        if found[3] in ENDS:
            self.blocks.append([])

    def close(self) -> Entry:
        if not self.blocks[-1] and len(self.blocks) - 1 not in self.labels.values():
            self.blocks.pop()
        return Entry(
            self.name,
            tuple(self.parameters),
            self.registers,
            tuple(self.rooms["shared"]),
            tuple(self.rooms["local"]),
            tuple(tuple(block) for block in self.blocks),
            self.labels,
            self.most_threads,
        )


def _declared(number: int, text: str, found: re.Match[str]) -> list[str]:
    """The names of the registers in one declaration."""
    if found[3] is None:
        return [found[2]]
    if int(found[3]) > _MOST_REGISTERS:
        raise UnsupportedPtx(f"{quoted(number, text)}: more than {_MOST_REGISTERS} registers")
    return [f"{found[2]}{i}" for i in range(int(found[3]))]


def _split(operands: str) -> list[str]:
    """The operands, cut at the commas that stand outside braces."""
    return [part.strip() for part in re.split(r",(?![^{]*\})", operands)] if operands.strip() else []


def _operand(number: int, text: str, part: str) -> Operand:
    if re.fullmatch(_REGISTER, part):
        return Register(part)
    if _NUMBER.fullmatch(part):
        return Immediate(part)
    if re.fullmatch(_NAME, part) and part != "_":
        return Symbol(part)
    if (found := _ADDRESS.fullmatch(part)) and -_OFFSETS <= int(found[2] or 0) < _OFFSETS:
        return Address(Register(found[1]) if found[1].startswith("%") else Symbol(found[1]), int(found[2] or 0))
    if part.startswith("{") and part.endswith("}") and "{" not in part[1:]:
        return Vector(tuple(_part(number, text, each) for each in _split(part[1:-1])))
    raise UnsupportedPtx(f"{quoted(number, text)}: the operand {part[:60]!r} is of no form that the emulator knows")


def _part(number: int, text: str, part: str) -> Register | Immediate:
    found = _operand(number, text, part)
    if not isinstance(found, Register | Immediate):
        raise UnsupportedPtx(f"{quoted(number, text)}: a vector holds registers and numbers, not {part[:60]!r}")
    return found
