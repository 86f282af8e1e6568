"""A kernel and its backward pass: which kernels a pass takes, planned and reported together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from iosim.compare import check_some_have, options_of
from iosim.errors import BadInput
from iosim.kernels.registry import BACKWARD, kernel
from iosim.masks import patterns
from iosim.memory import Flops
from iosim.plan import BlockChoice, Given, Overflow, Plan, make_plan
from iosim.report import Report
from iosim.specs import Attention
from iosim.tables import Cell, table
from iosim.units import Capacity

Pass = Literal["forward", "backward", "both"]
PASSES: tuple[Pass, ...] = ("forward", "backward", "both")


def kernels_of(name: str, asked: Pass) -> tuple[str, ...]:
    """The kernels of a pass of ``name``, forward before backward; raises :class:`BadInput` for a pass that it does not have."""
    if asked not in PASSES:
        raise BadInput(f"pass must be {', '.join(PASSES[:-1])} or {PASSES[-1]}, not {asked!r}")
    if kernel(name).forward is not None and asked != "backward":
        raise BadInput(f"{name} is a backward pass and has no other; ask for --pass {asked} of {kernel(name).forward}")
    backward = BACKWARD.get(name, name)
    return {"forward": (name,), "backward": (backward,), "both": (name, backward)}[asked]


@dataclass(frozen=True, slots=True, repr=False)
class Passes:
    """The reports of a forward and a backward pass: words, bytes and operations are summed, of peaks the larger counts."""

    reports: tuple[Report, ...]

    @property
    def reads(self) -> int:
        """Words read from HBM."""
        return sum(made.reads for made in self.reports)

    @property
    def writes(self) -> int:
        """Words written to HBM."""
        return sum(made.writes for made in self.reports)

    @property
    def total(self) -> int:
        """Words moved."""
        return self.reads + self.writes

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return sum(made.bytes for made in self.reports)

    @property
    def flops(self) -> Flops:
        """Operations by class."""
        all_ = [made.flops for made in self.reports]
        return Flops(sum(f.matmul for f in all_), sum(f.elementwise for f in all_), sum(f.exp for f in all_))

    @property
    def peak_sram(self) -> int:
        """The most that was occupied at once in either pass."""
        return max(made.peak_sram for made in self.reports)

    @property
    def peak_hbm_bytes(self) -> int:
        """Bytes of HBM of the pass that takes more."""
        return max(made.peak_hbm_bytes for made in self.reports)

    @property
    def sound(self) -> bool:
        """Whether both reports are."""
        return all(made.sound for made in self.reports)

    def __repr__(self) -> str:
        sums: list[Cell] = ["both passes", self.reads, self.writes, self.total, self.bytes]
        rows: list[list[Cell]] = [[made.pass_, made.reads, made.writes, made.total, made.bytes] for made in self.reports]
        return "\n\n".join([*map(repr, self.reports), table(["pass", "reads", "writes", "words", "bytes"], [*rows, sums])])


def plans(
    name: str, problem: Attention, sram: Capacity | int | str, blocks: BlockChoice, overflow: Overflow | None, given: Given, asked: Pass
) -> tuple[Plan, ...]:
    """A plan for every kernel of the pass; an option applies to those that have it.

    Where ``block-sparse`` brings its own mask, its blocks are those that the backward pass, which needs more room, would choose.
    """
    names = kernels_of(name, asked)
    check_some_have(names, given)
    if name == "block-sparse" and asked != "forward" and problem.block_mask is None:
        cut = make_plan(names[-1], problem, sram, blocks, overflow, options_of(names[-1], given)).blocks
        problem = replace(problem, block_mask=patterns.butterfly(problem.n, problem.nk, cut.rows, cut.cols))
        blocks = cut
    return tuple(make_plan(one, problem, sram, blocks, overflow, options_of(one, given)) for one in names)
