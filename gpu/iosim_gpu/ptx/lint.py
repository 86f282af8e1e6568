"""What can be said about a kernel without running it: the opcodes it uses, local memory, doubles, accesses in the text."""

from __future__ import annotations

from dataclasses import dataclass

from iosim_gpu.ptx.parse import Entry, Instruction, parse


@dataclass(frozen=True, slots=True)
class Lint:
    """Static facts of one kernel. The counts are instructions in the text, not executions; `red` counts as an atomic.

    `local_bytes` is the local memory of a thread, alignment included; `double` says that a 64-bit float occurs somewhere.
    """

    opcodes: frozenset[str]
    local_bytes: int
    double: bool
    global_loads: int
    global_stores: int
    global_atomics: int


def lint(ptx: str) -> Lint:
    """Read the only kernel of `ptx`. Opcodes that the emulator cannot run are listed too; raises UnsupportedPtx as parse does."""
    entry = parse(ptx).entry
    instructions = [each for block in entry.blocks for each in block]
    opcodes = frozenset(each.opcode for each in instructions)
    return Lint(
        opcodes,
        _local_bytes(entry),
        any("f64" in opcode.split(".") for opcode in opcodes) or "f64" in entry.registers.values(),
        *(sum(_is_global(each, kinds) for each in instructions) for kinds in (("ld",), ("st",), ("atom", "red"))),
    )


def _local_bytes(entry: Entry) -> int:
    end = 0
    for room in entry.local:
        end = -(-end // room.align) * room.align + (room.size or 0)
    return end


_ELSEWHERE = {"param", "shared", "local", "const"}


def _is_global(instruction: Instruction, kinds: tuple[str, ...]) -> bool:
    """An access without a state space goes through a generic address, which in the kernels at hand is a global one."""
    name, *modifiers = instruction.opcode.split(".")
    return name in kinds and not _ELSEWHERE.intersection(modifiers)
