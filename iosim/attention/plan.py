"""All that is decided before anything runs: blocks, options, capacity, and the mask that a kernel brings itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from iosim import predict
from iosim.attention.arrays import launch
from iosim.attention.catalogue import kernel
from iosim.attention.inputs import Values
from iosim.core import dtypes
from iosim.core.counts import Counts, Traffic
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.events import Event, Observer
from iosim.core.masks import patterns
from iosim.core.problem import OPTION_NAMES, Attention, Blocks, Options
from iosim.core.units import Capacity, capacity
from iosim.machine import Hbm, Machine, Mode

Overflow = Literal["error", "record"]
BlockChoice = Literal["fit", "paper", "best"] | Blocks | tuple[int, int]
Given = Mapping[str, str | bool | None]


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel on one problem in one SRAM, ready to run on any machine."""

    kernel: str
    problem: Attention
    blocks: Blocks
    options: Options
    sram: Capacity
    overflow: Overflow
    notes: tuple[str, ...] = ()

    def machine(self, mode: Mode, observers: Sequence[Observer] = (), *, check: int = 0, registers: int | None = None) -> Machine:
        """A machine as the plan asks for it."""
        accumulator = dtypes.accumulator(self.problem.dtype)
        return Machine(
            self.sram, mode=mode, accumulator=accumulator, overflow=self.overflow, observers=observers, check=check, registers=registers
        )

    def run(self, m: Machine, values: Values | None = None, head: int = 0) -> dict[str, Hbm]:
        """Run the listing on ``m``; a capacity error also says what would fit."""
        try:
            return launch(self.kernel, m, self.problem, self.blocks, self.options, values, head)
        except SramOverflow as error:
            advice = predict.would_fit(self.kernel, self.problem, self.blocks, self.sram, self.options)
            raise SramOverflow(f"{error}; {advice}") from None

    def count(self, *, check: int = 0, registers: int | None = None) -> Counts:
        """The counts of one head, from one tile of each kind."""
        m = self.machine("count", check=check, registers=registers)
        self.run(m)
        return by_tensor(m.finish())

    def trace(self) -> list[Event]:
        """Every event of one head, tile by tile, without numbers."""
        events: list[Event] = []
        m = self.machine("trace", [events.append])
        self.run(m)
        m.finish()
        return events

    @property
    def tiles(self) -> int:
        """Tiles of the grid of a KV head and its group, each as often as the tiles that a blocked product cuts it into."""
        p, wide = self.problem, min(self.blocks.cols, self.problem.nk)
        tiles = -(-p.n * p.group // self.blocks.rows) * -(-p.nk // wide)
        if "depth" not in kernel(self.kernel).options:
            return tiles
        deep = 1 if self.options.depth == "one" else wide
        return tiles * (-(-p.d // deep) + -(-p.dv // wide) * (wide // deep))

    def predicted_peak(self) -> int:
        """Peak SRAM in closed form, in the unit of the capacity."""
        return predict.residents(self.kernel, self.problem, self.blocks, self.options, self.sram.unit)


def by_tensor(counts: Counts) -> Counts:
    """The counts with the arrays of all query heads of a group, ``Q[0]`` and its like, as one."""
    arrays: dict[str, Traffic] = {}
    for name, moved in counts.arrays.items():
        tensor = name.partition("[")[0]
        arrays[tensor] = moved if tensor not in arrays else arrays[tensor] + moved
    return replace(counts, arrays=arrays)


def make_plan(
    name: str, problem: Attention, sram: Capacity | int | str, blocks: BlockChoice, overflow: Overflow | None, given: Given
) -> Plan:
    """Decide; raises :class:`BadInput` for an unknown kernel or option, and for blocks that cannot be chosen.

    Overflow is recorded, not raised, where that is asked, for the paper's printed blocks, and where K and V stand whole on chip.
    """
    if not isinstance(problem, Attention):
        raise BadInput(f"the problem must be an Attention, not {type(problem).__name__}")
    if overflow not in (None, "error", "record"):
        raise BadInput(f"overflow must be 'error' or 'record', not {overflow!r}")
    size = capacity(sram)
    options = _options(name, problem, size, given)
    if options.pack and problem.group > 1 and (problem.mask is not None or problem.block_mask is not None):
        raise BadInput("packed heads take causal and window, no element or block mask, whose rows are queries; leave the heads unpacked")
    cut = _blocks(name, problem, size, blocks, options)
    if name == "block-sparse" and problem.block_mask is None:
        problem = replace(problem, block_mask=patterns.butterfly(problem.n, problem.nk, cut.rows, cut.cols))
    roomy = options.reuse == "ideal" or kernel(name).wide
    lax: Overflow = "record" if roomy or (isinstance(blocks, str) and blocks == "paper") else "error"
    return Plan(name, problem, cut, options, size, overflow or lax, _notes(name, given, options))


def check_options(name: str, given: Mapping[str, object]) -> None:
    """Raise :class:`BadInput` for an option that the kernel ``name`` does not have."""
    has = kernel(name).options
    for option in given:
        if option not in OPTION_NAMES:
            raise BadInput(f"unknown option {option!r}; known: {', '.join(OPTION_NAMES)}")
        if option not in has:
            raise BadInput(f"{name} has no option {option!r}; it has: {', '.join(has) or 'none'}")


def _options(name: str, problem: Attention, size: Capacity, given: Given) -> Options:
    asked = {option: value for option, value in given.items() if value is not None}
    check_options(name, asked)
    if "softmax" in kernel(name).options and "softmax" not in asked:
        row = problem.nk * (dtypes.itemsize(dtypes.intermediate(problem.dtype)) if size.unit == "bytes" else 1)
        held = row if kernel(name).forward is None else 2 * row  # the backward pass has a row of dP beside that of P
        asked["softmax"] = "rows" if held <= size.amount or asked.get("reuse") == "ideal" else "streamed"
    if asked.get("accumulator") == "float32" and "first_pass" in kernel(name).options:
        asked.setdefault("first_pass", "create")  # as released code does; nobody fills such an accumulator in HBM
    options = Options(**asked)  # type: ignore[arg-type]  # check_options checked the names, Options checks the values
    if options.accumulator == "float32" and options.first_pass == "load" and "first_pass" in kernel(name).options:
        raise BadInput(f"{name} makes a float32 accumulator on chip in its first pass; leave out first_pass load, or accumulator float32")
    if options.accumulator == "float32" and options.dq_pass == "own":
        raise BadInput(f"{name} with a dq_pass of its own accumulates nothing in HBM; leave out accumulator float32")
    return options


def _blocks(name: str, problem: Attention, size: Capacity, blocks: BlockChoice, options: Options) -> Blocks:
    kernel(name)
    if isinstance(blocks, Blocks):
        return blocks
    if isinstance(blocks, str) and blocks in ("fit", "paper", "best"):
        return predict.choose_blocks(name, problem, size, blocks, options)
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or len(blocks) != 2:
        raise BadInput(f"blocks must be 'fit', 'paper', 'best' or (Br, Bc), not {blocks!r}")
    return Blocks(*blocks)


def _notes(name: str, given: Given, chosen: Options) -> tuple[str, ...]:
    silent = "softmax" in kernel(name).options and given.get("softmax") is None and chosen.softmax == "streamed"
    return ("a row of S does not fit in this SRAM, so the softmax is streamed and reads S twice",) if silent else ()
