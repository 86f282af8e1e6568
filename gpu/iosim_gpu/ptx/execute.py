"""Run a translated kernel: thread blocks in batches, lanes of a batch at the lowest basic block first, barriers for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from iosim.core.errors import BadInput
from iosim_gpu.ptx.abi import Argument, parameters
from iosim_gpu.ptx.counting import Access, Tally
from iosim_gpu.ptx.dtypes import Lanes
from iosim_gpu.ptx.faults import KernelFault, quoted
from iosim_gpu.ptx.frame import Frame
from iosim_gpu.ptx.memory import GlobalMemory
from iosim_gpu.ptx.transfers import KINDS
from iosim_gpu.ptx.translate import Block, Program, translate

STEP_LIMIT = 1_000_000
"""Basic blocks that one batch may run by default: over a minute of work, far more than a kernel that ends needs in a test."""

_BATCH = 1024  # lanes run side by side: more of them share the cost of a NumPy call, fewer fit the caches better
_MOST_THREADS = 1024

_WAITING = 1 << 40  # a lane at a barrier stands at this plus the block after the barrier
_ENDED = 1 << 41


@dataclass(frozen=True, slots=True)
class Run:
    """What a kernel moved and did, summed over all threads.

    `arrays`: for each array argument by name, see Access. `shared_*`: elements of shared memory. `barriers`: barriers passed,
    once for each thread block. `instructions`: instructions times the threads that came to them, also where a guard held one back.
    """

    arrays: dict[str, Access]
    shared_loads: int
    shared_stores: int
    shared_atomics: int
    barriers: int
    instructions: int


def emulate(
    ptx: str,
    *,
    grid: tuple[int, int],
    threads: int,
    args: Sequence[tuple[str, Argument]],
    dynamic_shared: int = 0,
    step_limit: int = STEP_LIMIT,
) -> Run:
    """Run the only kernel of `ptx` on `grid` (x, y) thread blocks of `threads` threads, and count what it moves.

    `args` are names and values in the order of the kernel's arguments, in Numba's convention (see `abi`); arrays, C-contiguous,
    are updated in place. `dynamic_shared` is in bytes. Thread blocks must not wait for each other. Threads of a block meet again
    as soon as they can after a branch: of the lanes that can run, those at the lowest basic block of the text go first.
    A `bar.sync` needs all threads of its block, none ended and none elsewhere.

    Raises UnsupportedPtx for what the emulator does not know exactly, BadInput for arguments that do not fit the kernel, and
    KernelFault for what goes wrong on the way: out of bounds, misaligned, an integer over zero, a split barrier, no end in sight.
    """
    program = translate(ptx)
    _check(program, grid, threads, dynamic_shared)
    memory = GlobalMemory([(name, value) for name, value in args if isinstance(value, np.ndarray)])
    launch = _Launch(program, grid, threads, dynamic_shared, memory, parameters(program.parameters, args, memory), step_limit)
    with np.errstate(all="ignore"):
        for blocks in launch.batches():
            _Batch(launch, blocks).run()
    tally = launch.tally
    arrays = {region.name: tally.access(region.name) for region in memory.regions}
    loads, stores, atomics = (tally.shared[kind] for kind in KINDS)
    return Run(arrays, loads, stores, atomics, tally.barriers, tally.instructions)


def _check(program: Program, grid: tuple[int, int], threads: int, dynamic_shared: int) -> None:
    most = min(_MOST_THREADS, program.most_threads or _MOST_THREADS)
    if not 1 <= threads <= most:
        raise BadInput(f"a thread block of this kernel has 1 to {most} threads: got {threads}")
    if len(grid) != 2 or min(grid) < 1:
        raise BadInput(f"a grid is two positive numbers of thread blocks, x and y: got {grid}")
    if dynamic_shared < 0 or (dynamic_shared and not program.grows):
        raise BadInput(f"dynamic_shared = {dynamic_shared} bytes, but the kernel declares no shared memory of open size")


@dataclass(frozen=True, slots=True)
class _Launch:
    """What all batches of one run share."""

    program: Program
    grid: tuple[int, int]
    threads: int
    dynamic_shared: int
    memory: GlobalMemory
    values: list[Lanes]
    step_limit: int
    tally: Tally = field(default_factory=Tally)

    def batches(self) -> Iterator[list[tuple[int, int]]]:
        """The thread blocks, x first, as many at a time as make a batch."""
        width, height = self.grid
        many = max(1, _BATCH // self.threads)
        for start in range(0, width * height, many):
            yield [(number % width, number // width) for number in range(start, min(start + many, width * height))]

    def frame(self, blocks: list[tuple[int, int]]) -> Frame:
        program = self.program
        frame = Frame(
            blocks,
            self.threads,
            self.memory,
            self.tally,
            shared_bytes=program.shared_bytes + self.dynamic_shared,
            local_bytes=program.local_bytes,
        )
        frame.registers = list(program.initial)
        for parameter, value in zip(program.parameters, self.values, strict=True):
            frame.registers[program.parameter_slots[parameter.name]] = value
        for name, special in self._specials(frame).items():
            frame.registers[program.specials[name]] = special.astype(np.int32)
        return frame

    def _specials(self, frame: Frame) -> dict[str, Lanes]:
        zero, one = np.array(0), np.array(1)
        place = np.array(frame.blocks)[frame.block_of]
        tid, ctaid = (frame.thread_of, zero, zero), (place[:, 0], place[:, 1], zero)
        ntid, nctaid = (np.array(self.threads), one, one), (np.array(self.grid[0]), np.array(self.grid[1]), one)
        axes = {"tid": tid, "ctaid": ctaid, "ntid": ntid, "nctaid": nctaid}
        named = {f"%{name}.{axis}": value for name, values in axes.items() for axis, value in zip("xyz", values, strict=True)}
        return named | {"%dynamic_smem_size": np.array(self.dynamic_shared)}


class _Batch:
    """A batch of thread blocks: where each lane stands, and the loop that moves them on."""

    def __init__(self, launch: _Launch, blocks: list[tuple[int, int]]) -> None:
        self.launch, self.program, self.tally = launch, launch.program, launch.tally
        self.frame = launch.frame(blocks)
        self.at = np.zeros(self.frame.size, np.int64)

    def run(self) -> None:
        """Run until every lane has ended."""
        steps = 0
        while True:
            number = int(self.at.min())
            if number >= _WAITING:
                if not self._open_barriers():
                    return
                continue
            block = self.program.blocks[number]
            steps += 1
            if steps > self.launch.step_limit:
                self._give_up(block)
            self._run_block(number, block)

    def _run_block(self, number: int, block: Block) -> None:
        frame = self.frame
        frame.select(self.at == number)
        for step in block.steps:
            step(frame)
        self.tally.instructions += block.length * frame.selection.count
        self._move_on(number, block)

    def _move_on(self, number: int, block: Block) -> None:
        end, active = block.end, self.frame.selection.active
        after = number + 1
        goal = {"next": after, "jump": end.target, "barrier": after + _WAITING, "exit": _ENDED}[end.kind]
        if end.guard is None:
            np.copyto(self.at, goal, where=active)
        else:
            taken = self.frame.registers[end.guard] != end.negated
            np.copyto(self.at, np.where(taken, goal, after), where=active)
        if end.kind == "exit":
            self.frame.ended = int(np.count_nonzero(self.at == _ENDED))

    def _open_barriers(self) -> bool:
        """Let the lanes that wait go on, if any do: in every thread block all at one barrier, or it is a fault."""
        waiting = self.at != _ENDED
        if not waiting.any():
            return False
        rows = self.at.reshape(-1, self.launch.threads)
        split = np.flatnonzero((rows != rows[:, :1]).any(axis=1))
        if split.size:
            self._split_barrier(int(split[0]), rows[split[0]])
        self.tally.barriers += int(np.count_nonzero(rows[:, 0] != _ENDED))
        self.at[waiting] -= _WAITING
        return True

    def _split_barrier(self, block: int, row: Lanes) -> None:
        stands, counts = np.unique(row, return_counts=True)
        where = [(self.program.blocks[int(s) - _WAITING - 1], int(n)) for s, n in zip(stands, counts, strict=True) if s != _ENDED]
        first = where[0][0].end.instruction
        assert first is not None
        others = [f"{n} wait in line {each.end.instruction.line}" for each, n in where[1:] if each.end.instruction]
        ended = [f"{n} have ended" for s, n in zip(stands, counts, strict=True) if s == _ENDED]
        raise KernelFault(
            f"{quoted(first.line, first.text)}: not all threads of block {self.frame.blocks[block]} come to this barrier: "
            f"of {row.size}, {where[0][1]} wait here, {', '.join(others + ended)}"
        )

    def _give_up(self, block: Block) -> None:
        first, last = self.frame.blocks[0], self.frame.blocks[-1]
        raise KernelFault(
            f"PTX line {block.line}: no end in sight: thread blocks {first} to {last} ran {self.launch.step_limit} basic blocks; "
            "is this loop endless? If not, raise step_limit"
        )
