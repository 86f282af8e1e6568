"""All that is decided before anything runs: blocks, options, capacity, and the mask that a kernel brings itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal

from iosim import predict
from iosim.attention.arrays import launch
from iosim.attention.catalogue import Named, kernel, ours
from iosim.attention.declaration import Kernel
from iosim.attention.inputs import Values
from iosim.core import dtypes
from iosim.core.counts import Counts, Traffic
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.events import Event, Observer
from iosim.core.options import Options, Value
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity, capacity
from iosim.machine import Hbm, Machine, Mode

Overflow = Literal["error", "record"]
BlockChoice = Literal["fit", "paper", "best"] | Blocks | tuple[int, int]
Given = Mapping[str, Value | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel on one problem in one SRAM, ready to run on any machine."""

    kernel: Kernel
    problem: Attention
    blocks: Blocks
    options: Options
    sram: Capacity
    overflow: Overflow
    notes: tuple[str, ...] = ()

    @property
    def formula(self) -> str | None:
        """The name under which the closed forms know the kernel; None where they do not."""
        return self.kernel.name if self.kernel.name in predict.KERNELS else None

    def machine(self, mode: Mode, observers: Sequence[Observer] = (), *, check: int = 0, registers: int | None = None) -> Machine:
        """A machine as the plan asks for it."""
        accumulator = dtypes.accumulator(self.problem.dtype)
        return Machine(
            self.sram, mode=mode, accumulator=accumulator, overflow=self.overflow, observers=observers, check=check, registers=registers
        )

    def run(self, m: Machine, values: Values | None = None, head: int = 0) -> dict[str, Hbm]:
        """Run the listing on ``m`` to its end; a capacity error also says what would fit."""
        try:
            with self.told():
                return launch(self.kernel, m, self.problem, self.blocks, self.options, values, head)
        except SramOverflow as error:
            raise SramOverflow(f"{error}; {self.would_fit()}") from None

    def finish(self, m: Machine) -> Counts:
        """End the run on ``m``, and return its counts, tensor by tensor."""
        with self.told():
            return by_tensor(m.finish())

    def told(self) -> AbstractContextManager[None]:
        """Where an error in a listing of a user gets its file and line."""
        return told(self.kernel)

    def would_fit(self) -> str:
        """What would fit where the blocks do not."""
        if self.formula is not None:
            return predict.would_fit(self.formula, self.problem, self.blocks, self.sram, self.options)
        from iosim.attention.counted_blocks import advice  # which counts, since there is no closed form

        return advice(self.kernel, self.problem, self.sram, self.options)

    def count(self, *, check: int = 0, registers: int | None = None) -> Counts:
        """The counts of one head, from one tile of each kind."""
        m = self.machine("count", check=check, registers=registers)
        self.run(m)
        return self.finish(m)

    def trace(self) -> list[Event]:
        """Every event of one head, tile by tile, without numbers."""
        events: list[Event] = []
        m = self.machine("trace", [events.append])
        self.run(m)
        self.finish(m)
        return events

    @property
    def tiles(self) -> int:
        """Tiles of the grid of a KV head and its group, each as often as the pieces that the kernel cuts it into."""
        p = self.problem
        return -(-p.n * p.group // self.blocks.rows) * -(-p.nk // self.blocks.cols) * self.kernel.pieces(self)

    def peak(self) -> int:
        """Peak SRAM, in the unit of the capacity: in closed form where there is one, else counted."""
        predicted = self.predicted_peak()
        return replace(self, overflow="record").count().peak_sram if predicted is None else predicted

    def predicted_peak(self) -> int | None:
        """Peak SRAM in closed form, in the unit of the capacity; None without one."""
        if self.formula is None:
            return None
        return predict.residents(self.formula, self.problem, self.blocks, self.options, self.sram.unit)


def told(own: Kernel) -> AbstractContextManager[None]:
    """Where an error in what a user wrote gets its file and line."""
    if ours(own):
        return nullcontext()
    from iosim.attention.own_kernels import told_where

    return told_where(own)


def by_tensor(counts: Counts) -> Counts:
    """The counts with the arrays of all query heads of a group, ``Q[0]`` and its like, as one."""
    arrays: dict[str, Traffic] = {}
    for name, moved in counts.arrays.items():
        tensor = name.partition("[")[0]
        arrays[tensor] = moved if tensor not in arrays else arrays[tensor] + moved
    return replace(counts, arrays=arrays)


def make_plan(
    asked: Named, problem: Attention, sram: Capacity | int | str, blocks: BlockChoice, overflow: Overflow | None, given: Given
) -> Plan:
    """Decide; raises :class:`BadInput` for an unknown kernel or option, and for blocks that cannot be chosen.

    Overflow is recorded, not raised, where that is asked, for the paper's printed blocks, and where K and V stand whole on chip.

    Args:
        asked: the kernel.
        problem: the attention problem.
        sram: M.
        blocks: the blocks, or the rule for them.
        overflow: what happens where M is exceeded; None lets the kernel and the blocks decide.
        given: the options that are given, by name; None leaves one open.
    """
    if not isinstance(problem, Attention):
        raise BadInput(f"the problem must be an Attention, not {type(problem).__name__}")
    if overflow not in (None, "error", "record"):
        raise BadInput(f"overflow must be 'error' or 'record', not {overflow!r}")
    own, size = kernel(asked), capacity(sram)
    check_rules(own, problem)
    values = {name: own.option(name).checked(value) for name, value in given.items() if value is not None}
    with told(own):
        notes = own.settle(problem, size, values)
    options = own.chosen(values)
    if options.pack and problem.group > 1 and (problem.mask is not None or problem.block_mask is not None):
        raise BadInput("packed heads take causal and window, no element or block mask, whose rows are queries; leave the heads unpacked")
    cut = _blocks(own, problem, size, blocks, options)
    if own.brings is not None and problem.block_mask is None:
        with told(own):
            problem = replace(problem, block_mask=own.brings(problem, cut))
    lax: Overflow = "record" if own.wide(options) or (isinstance(blocks, str) and blocks == "paper") else "error"
    return Plan(own, problem, cut, options, size, overflow or lax, notes)


def check_rules(own: Kernel, problem: Attention) -> None:
    """Raise :class:`BadInput` for a problem with a mask or dropout where the listing has no parameter ``mask`` to be told of it."""
    if not own.takes("mask") and (problem.masked or problem.dropout):
        raise BadInput(f"{own} has no parameter mask, so it cannot be told who may attend; leave out masks and dropout, or add mask")


def _blocks(own: Kernel, problem: Attention, size: Capacity, blocks: BlockChoice, options: Options) -> Blocks:
    if isinstance(blocks, Blocks):
        return blocks
    if isinstance(blocks, str) and blocks in ("fit", "paper", "best"):
        if own.name in predict.KERNELS:
            return predict.choose_blocks(own.name, problem, size, blocks, options)
        from iosim.attention.counted_blocks import choose

        return choose(own, problem, size, blocks, options)
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or len(blocks) != 2:
        raise BadInput(f"blocks must be 'fit', 'paper', 'best' or (Br, Bc), not {blocks!r}")
    return Blocks(*blocks)
