"""A kernel and its backward pass: which kernels a pass takes, planned and reported together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from numpy.typing import ArrayLike

from iosim.attention.catalogue import Named, kernel
from iosim.attention.compare import check_some_have, options_of
from iosim.attention.declaration import Kernel
from iosim.attention.plan import BlockChoice, Given, Overflow, Plan, make_plan
from iosim.attention.report import Report, binding
from iosim.attention.run import report
from iosim.core.counts import Flops
from iosim.core.errors import BadInput
from iosim.core.hardware import Device
from iosim.core.hardware import device as find
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity

Pass = Literal["forward", "backward", "both"]
PASSES: tuple[Pass, ...] = ("forward", "backward", "both")
SHARED = ("kernel", "n", "nk", "d", "dv", "batch", "heads", "kv_heads", "dtype", "dropout", "sram", "sram_unit")


def kernels_of(name: Named, asked: Pass | None) -> tuple[Kernel, ...]:
    """The kernels of a pass of ``name``, forward before backward, or itself; raises :class:`BadInput` for a pass that it does not have."""
    own = kernel(name)
    if asked is None:
        return (own,)
    if asked not in PASSES:
        raise BadInput(f"pass must be {', '.join(PASSES[:-1])} or {PASSES[-1]}, not {asked!r}")
    if own.forward is not None and asked != "backward":
        raise BadInput(f"{own} is a backward pass and has no other; ask for --pass {asked} of {kernel(own.forward)}")
    if own.forward is None and own.backward is None and asked != "forward":
        raise BadInput(f"{own} has no backward pass; ask for --pass forward")
    backward = own if own.backward is None else kernel(own.backward)
    return {"forward": (own,), "backward": (backward,), "both": (own, backward)}[asked]


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
    def seconds(self) -> float | None:
        """The roofline times of both passes; None without a device."""
        times = [made.time for made in self.reports]
        return None if None in times else sum(time.seconds for time in times if time is not None)

    @property
    def sound(self) -> bool:
        """Whether both reports are."""
        return all(made.sound for made in self.reports)

    def record(self) -> dict[str, object]:
        """Sums and peaks as one flat JSON-ready record, and the records of the passes under ``passes``."""
        records = [made.record() for made in self.reports]
        first = {name: records[0][name] for name in SHARED}
        moved = [m for made in self.reports for m in made.predicted.values()]
        timing = {} if self.seconds is None else {"device": records[0]["device"], "seconds": self.seconds}
        return {
            **first, "pass": "both", "reads": self.reads, "writes": self.writes, "total": self.total,
            "read_bytes": sum(made.read_bytes for made in self.reports), "write_bytes": sum(made.write_bytes for made in self.reports),
            "total_bytes": self.bytes, "predicted_reads": sum(m.reads for m in moved), "predicted_writes": sum(m.writes for m in moved),
            "flops": {"matmul": self.flops.matmul, "elementwise": self.flops.elementwise, "exp": self.flops.exp},
            "peak_sram": self.peak_sram, "peak_hbm": max(made.peak_hbm for made in self.reports),
            "overflow": max(made.overflow for made in self.reports), **timing, "passes": records,
        }  # fmt: skip

    def __repr__(self) -> str:
        return "\n\n\n".join([*map(repr, self.reports), self._summary()])

    def _summary(self) -> str:
        rows = [_row(made.pass_, made, None if made.time is None else made.time.seconds) for made in self.reports]
        both = _row("both", self, self.seconds)
        head = ["pass", "words", "bytes", "peak SRAM", "peak HBM, bytes", *(["ms"] if self.seconds is not None else [])]
        bound = [f"{made.pass_} {binding(made.time)}" for made in self.reports if made.time is not None]
        return "\n".join([table(head, [*rows, both]), *(["", "; ".join(bound)] if bound else [])])


def _row(name: str, made: Report | Passes, seconds: float | None) -> list[Cell]:
    time = [] if seconds is None else [seconds * 1e3]
    return [name, made.total, made.bytes, made.peak_sram, made.peak_hbm_bytes, *time]


def plans(
    name: Named,
    problem: Attention,
    sram: Capacity | int | str,
    blocks: BlockChoice,
    overflow: Overflow | None,
    given: Given,
    asked: Pass | None,
) -> tuple[Plan, ...]:
    """A plan for every kernel of the pass; an option applies to those that have it.

    Where the kernel brings its own mask, its blocks are those that the backward pass, which needs more room, would choose.
    """
    names, brings = kernels_of(name, asked), kernel(name).brings
    check_some_have(names, given)
    if brings is not None and asked != "forward" and problem.block_mask is None:
        blocks = make_plan(names[-1], problem, sram, blocks, overflow, options_of(names[-1], given)).blocks
        problem = replace(problem, block_mask=brings(problem, blocks))
    return tuple(make_plan(one, problem, sram, blocks, overflow, options_of(one, given)) for one in names)


def both(
    name: Named,
    problem: Attention,
    *,
    sram: Capacity | int | str | None = None,
    blocks: BlockChoice = "fit",
    overflow: Overflow | None = None,
    execute: bool | None = None,
    inputs: Sequence[ArrayLike] | None = None,
    seed: int = 0,
    device: Device | str | None = None,
    **options: Value | None,
) -> Passes:
    """Run a forward kernel and its backward pass on one problem; an option applies to the kernels that have it.

    The arguments are those of :func:`iosim.simulate`, with ``inputs`` ``(q, k, v, do)``. ``device``: a name or one of
    :func:`iosim.core.hardware.device`, for times; without ``sram``, M is the shared memory of one of its SMs, else 100 KiB. Raises
    :class:`BadInput` for an option that neither pass has, and :class:`SramOverflow` where a value finds no room.

    >>> found = both("flash", Attention(n=1024, d=64), sram=10**6, blocks=(64, 256), first_pass="create", execute=False)
    >>> [made.kernel for made in found.reports], found.total == sum(made.total for made in found.reports)
    (['flash', 'flash-backward'], True)
    """
    chip = find(device) if isinstance(device, str) else device
    size = sram if sram is not None else "100KiB" if chip is None else chip.sram
    given = (None, None) if inputs is None else (inputs[:3], inputs)
    asked = zip(plans(name, problem, size, blocks, overflow, options, "both"), given, strict=True)
    return Passes(tuple(report(plan, execute=execute, inputs=own, seed=seed, device=chip) for plan, own in asked))
