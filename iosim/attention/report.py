"""The result of a run: exact numbers as attributes, and the table that people read."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from iosim.attention.plan import Plan
from iosim.core.counts import Counts, Flops, Traffic
from iosim.core.described import described
from iosim.core.problem import Attention, Blocks
from iosim.core.tables import Cell, html, spell, table
from iosim.core.units import Capacity
from iosim.predict import Moved

if TYPE_CHECKING:
    from iosim.core.hardware import Device
    from iosim.predict.bounds import Bound
    from iosim.predict.roofline import Time

_HEAD = ["array", "reads", "writes", "predicted", "bytes"]


@dataclass(frozen=True, slots=True, repr=False)
class Report:
    """What one kernel moved on one problem, all heads together; words are array elements.

    ``arrays[name].reads / .writes / .init_writes`` (initialisation is included in writes) and ``predicted[name]``, the closed form of
    each; ``flops.matmul / .elementwise / .exp``; ``values``: the tensors that were computed (O and LSE, or dQ, dK, dV) in the layout of the
    inputs; ``errors`` of each against the float64 oracle, with the ``bounds`` that they must keep (empty where nothing was executed, or no
    bound is stated for the dtype). ``floors``: the lower bounds on the words of one head, compulsory first, for the SRAM really used: M, or
    the peak where that is more. ``agreed`` names the roads to the counts and whether each gave the same; ``counts`` holds those of one
    head. ``time``: the roofline time on ``device``, None without one.
    """

    plan: Plan
    counts: Counts
    predicted: dict[str, Moved]
    floors: tuple[Bound, ...]
    agreed: dict[str, bool]
    notes: tuple[str, ...] = ()
    values: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    device: Device | None = None

    def __post_init__(self) -> None:
        times = self.plan.problem.instances
        scaled = {name: Moved(m.reads * times, m.writes * times, m.init_writes * times) for name, m in self.predicted.items()}
        object.__setattr__(self, "predicted", scaled)

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.plan.kernel.name

    @property
    def pass_(self) -> str:
        """forward or backward."""
        return self.plan.kernel.pass_

    @property
    def problem(self) -> Attention:
        """The problem, with the block mask that the kernel brought itself."""
        return self.plan.problem

    @property
    def blocks(self) -> Blocks:
        """The blocks that were chosen."""
        return self.plan.blocks

    @property
    def sram(self) -> Capacity:
        """M."""
        return self.plan.sram

    @property
    def arrays(self) -> dict[str, Traffic]:
        """Words moved per HBM array, all heads."""
        return {name: array * self.problem.instances for name, array in self.counts.arrays.items()}

    @property
    def flops(self) -> Flops:
        """Operations by class, all heads."""
        return self.counts.flops * self.problem.instances

    @property
    def peak_sram(self) -> int:
        """The most that was occupied at once, in the unit of ``sram``."""
        return self.counts.peak_sram

    @property
    def overflow(self) -> int:
        """How far the peak lies above M; 0 if it fits."""
        return self.counts.overflow

    @property
    def peak_hbm(self) -> int:
        """Words of HBM that all arrays of all heads take."""
        return self.counts.peak_hbm * self.problem.instances

    @property
    def peak_hbm_bytes(self) -> int:
        """The same in bytes."""
        return self.counts.peak_hbm_bytes * self.problem.instances

    @property
    def reads(self) -> int:
        """Words read from HBM."""
        return sum(array.reads for array in self.arrays.values())

    @property
    def writes(self) -> int:
        """Words written to HBM, initialisation included."""
        return sum(array.writes for array in self.arrays.values())

    @property
    def total(self) -> int:
        """Words moved."""
        return self.reads + self.writes

    @property
    def read_bytes(self) -> int:
        """Bytes read from HBM."""
        return sum(array.reads * array.itemsize for array in self.arrays.values())

    @property
    def write_bytes(self) -> int:
        """Bytes written to HBM."""
        return sum(array.writes * array.itemsize for array in self.arrays.values())

    @property
    def floor(self) -> Bound | None:
        """The largest of ``floors``, of one head; None for a kernel that computes no attention."""
        return max(self.floors, key=lambda bound: bound.words, default=None)

    @property
    def lower_bound(self) -> int:
        """A lower bound on the words that any schedule of this pass must move in an SRAM like the one really used; 0 where none is
        known."""
        return 0 if self.floor is None else self.floor.words * self.problem.instances

    @property
    def compulsory(self) -> int:
        """Words that must move in an SRAM of any size: every input that is used in, every output out; 0 where none is known."""
        return self.floors[0].words * self.problem.instances if self.floors else 0

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.read_bytes + self.write_bytes

    @property
    def grid(self) -> int | None:
        """How many thread blocks a GPU is asked to run; None for a sequence of many kernels."""
        grid = self.plan.kernel.grid
        with self.plan.told():
            return None if grid is None else grid(self.plan)

    @property
    def time(self) -> Time | None:
        """How long the run takes on ``device``, by the roofline; None without a device, and where it has no rate for the type."""
        return None if self.device is None else self.time_on(self.device)

    def time_on(self, device: Device) -> Time | None:
        """The same on any device."""
        if self.problem.dtype == "float64":
            return None
        from iosim.predict.roofline import roofline  # with the devices, which few runs ask for

        return roofline(
            device,
            read_bytes=self.read_bytes,
            write_bytes=self.write_bytes,
            matmul_flops=self.flops.matmul,
            other_flops=self.flops.elementwise + self.flops.exp,
            dtype=self.problem.dtype,
            grid=self.grid,
        )

    @property
    def output(self) -> NDArray[np.generic] | None:
        """O, where a forward kernel was executed."""
        return self.values.get("O")

    @property
    def lse(self) -> NDArray[np.generic] | None:
        """The log-sum-exp, where a kernel that makes it was executed."""
        return self.values.get("LSE")

    @property
    def worst(self) -> str | None:
        """The tensor, O or a gradient, whose error is the largest against its bound; None where nothing was executed."""
        found = [name for name in self.errors if name != "LSE"]
        return max(found, key=self._share, default=None)

    @property
    def max_error(self) -> float | None:
        """The error of the worst tensor."""
        return None if self.worst is None else self.errors[self.worst]

    @property
    def error_bound(self) -> float | None:
        """The bound that it must keep."""
        return None if self.worst is None else self.bounds.get(self.worst)

    @property
    def max_lse_error(self) -> float | None:
        """The error of the log-sum-exp."""
        return self.errors.get("LSE")

    @property
    def lse_error_bound(self) -> float | None:
        """The bound that it must keep."""
        return self.bounds.get("LSE")

    @property
    def broken(self) -> tuple[str, ...]:
        """The tensors that are not finite, or further from the oracle's than rounding explains."""
        return tuple(name for name, error in self.errors.items() if not _kept(error, self.bounds.get(name)))

    @property
    def sound(self) -> bool:
        """Whether every road agreed and the values kept their bounds."""
        return all(self.agreed.values()) and not self.broken

    def _share(self, name: str) -> float:
        share = self.errors[name] / self.bounds.get(name, 1.0)
        return inf if isnan(share) else share

    def record(self) -> dict[str, object]:
        """The numbers as one flat JSON-ready record, exact integers."""
        p, moved = self.problem, self.predicted.values()
        return {
            "kernel": self.kernel, "n": p.n, "nk": p.nk, "d": p.d, "dv": p.dv, "batch": p.batch, "heads": p.heads, "kv_heads": p.kv_heads,
            "dtype": p.dtype, "dropout": p.dropout, "pass": self.pass_, "sram": self.sram.amount, "sram_unit": self.sram.unit,
            "block_rows": self.blocks.rows, "block_cols": self.blocks.cols,
            "reads": self.reads, "writes": self.writes, "total": self.total,
            "read_bytes": self.read_bytes, "write_bytes": self.write_bytes, "total_bytes": self.bytes,
            "arrays": {name: {"reads": a.reads, "writes": a.writes, "init_writes": a.init_writes} for name, a in self.arrays.items()},
            "flops": {"matmul": self.flops.matmul, "elementwise": self.flops.elementwise, "exp": self.flops.exp},
            "peak_sram": self.peak_sram, "peak_hbm": self.peak_hbm, "overflow": self.overflow,
            "max_error": self.max_error, "error_bound": self.error_bound, "errors": dict(self.errors), "error_bounds": dict(self.bounds),
            "max_lse_error": self.max_lse_error, "lse_error_bound": self.lse_error_bound,
            "predicted_reads": sum(m.reads for m in moved) if moved else None,
            "predicted_writes": sum(m.writes for m in moved) if moved else
            None, "predicted_peak_sram": self.plan.predicted_peak(),
            "compulsory": self.floor and self.compulsory,
            "lower_bound": self.floor and self.lower_bound,
            "lower_bound_name": self.floor and self.floor.name, "agreed": dict(self.agreed), "notes": list(self.notes), **self._timing(),
        }  # fmt: skip

    def _timing(self) -> dict[str, object]:
        if self.device is None:
            return {}
        time = self.time
        return {"device": self.device.key, "seconds": time and time.seconds, "bound": time and time.bound}

    def __repr__(self) -> str:
        return "\n".join([self._title(), "", table(_HEAD, self._rows()), "", *self._footer(), *self._remarks()])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        footer = [" ".join(line.split()) for line in self._footer()]
        return html(self._title(), _HEAD, self._rows(), [*footer, *self._remarks()])

    def _remarks(self) -> list[str]:
        return [f"note: {note}" for note in self.notes]

    def _title(self) -> str:
        return f"{self.kernel}: {described(self.problem)}, SRAM {self.sram}, blocks {self.blocks} (Br x Bc)"

    def _rows(self) -> list[list[Cell]]:
        rows: list[list[Cell]] = []
        for name, array in self.arrays.items():
            moved = self.predicted.get(name)
            words = None if moved is None else moved.reads + moved.writes
            rows.append([name, array.reads, array.writes, words, (array.reads + array.writes) * array.itemsize])
            if array.init_writes:
                init = None if moved is None else moved.init_writes
                rows.append(["  of which init", None, array.init_writes, init, array.init_writes * array.itemsize])
        moved_in_all = sum(m.reads + m.writes for m in self.predicted.values()) if self.predicted else None
        return [*rows, ["total", self.reads, self.writes, moved_in_all, self.bytes]]

    def _footer(self) -> list[str]:
        lines = [f"words moved {self.total:,}" + self._against_bound()]
        lines.append(f"peak SRAM   {self.peak_sram:,} of {self.sram.amount:,} {self.sram.unit}" + self._over())
        lines.append(f"peak HBM    {self.peak_hbm:,} words ({self.peak_hbm_bytes:,} bytes)")
        lines.append(f"flops       {self.flops.matmul:,} matmul, {self.flops.elementwise:,} elementwise, {self.flops.exp:,} exp")
        lines.append(f"counts      {', '.join(f'{road} {_verdict(equal)}' for road, equal in self.agreed.items())}")
        lines += [] if self.device is None else [_time_line(self.device, self.time, self.problem.dtype), *self._waves()]
        return lines + [_value_line(name, error, self.bounds.get(name), self.problem.dtype) for name, error in self.errors.items()]

    def _waves(self) -> list[str]:
        if self.grid is None or self.device is None:
            return []
        many = "thread block runs" if self.grid == 1 else "thread blocks run"
        return [f"            {self.grid:,} {many} on {self.device.sms} SMs, one an SM at a time"]

    def _against_bound(self) -> str:
        if self.floor is None:
            return ""
        if self.lower_bound == self.compulsory:
            return f", {self.total / self.lower_bound:.2f} times the {self.lower_bound:,} that must move"
        where = "in the SRAM that it takes" if self.overflow else "in this SRAM"
        return f", {self.total / self.lower_bound:.2f} times the {self.lower_bound:,} that must move {where}"

    def _over(self) -> str:
        return f", {self.overflow:,} more than there are: overflow recorded" if self.overflow else ""


def _kept(error: float, bound: float | None) -> bool:
    return isfinite(error) and (bound is None or error <= bound)


def _value_line(name: str, error: float, bound: float | None, dtype: str) -> str:
    known = f"no bound is stated for {dtype}" if bound is None else f"bound {bound:.1e}"
    return f"{name:<11} largest error {error:.1e} against the float64 oracle, {known}"


def _time_line(device: Device, time: Time | None, dtype: str) -> str:
    if time is None:
        return f"time        no rate of {dtype} is known for {device.key}"
    return f"time        {milliseconds(time.seconds)} on {device.key}, {binding(time)}"


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, to three digits."""
    return f"{spell(seconds * 1e3)} ms"


def binding(time: Time) -> str:
    """Which side binds, and how long the other takes."""
    sides = {"memory": time.memory, "compute": time.compute}
    other = next(side for side in sides if side != time.bound)
    return f"bound by {time.bound} ({other} takes {milliseconds(sides[other])})"


def _verdict(equal: bool) -> str:
    return "equal" if equal else "DIFFER"
