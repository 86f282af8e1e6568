"""``iosim gpu compile KERNEL``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import click

from iosim.cli.files import whole_file
from iosim.cli.gpu_options import GpuGiven, takes
from iosim.cli.options import Command
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.progress import steps
from iosim.cli.wrapping import wrapped
from iosim.errors import BadInput
from iosim.tables import Cell, table
from iosim_gpu import defaults, environment
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import KERNELS
from iosim_gpu.checks import check_tiling
from iosim_gpu.compiling import Usage, to_ptx, usage
from iosim_gpu.fitting import STATIC_LIMIT


def _kernel(context: click.Context, argument: click.Parameter, text: str | None) -> str:
    if text is None:
        raise BadInput(f"compile needs a kernel: {', '.join(KERNELS)}")
    if text not in KERNELS:
        raise BadInput(f"no CUDA kernel is called {text!r}; there are {', '.join(KERNELS)}")
    return text


@dataclass(frozen=True, slots=True)
class Built:
    """One launch, compiled."""

    call: Call
    ptx: str
    usage: Usage

    @property
    def name(self) -> str:
        """The kernel's own name; two steps of one name are made by different factories."""
        return self.call.step.factory.partition(":")[2].removeprefix("make_").replace("_", "-")

    def record(self) -> Record:
        """The launch as JSON has it."""
        tiling, usage = self.call.tiling, self.usage
        return {
            "step": self.name,
            "block_rows": tiling.rows,
            "block_cols": tiling.cols,
            "d": tiling.d,
            "threads": tiling.threads,
            "causal": tiling.causal,
            "registers": usage.registers,
            "spill_stores": usage.spill_stores,
            "spill_loads": usage.spill_loads,
            "stack_bytes": usage.stack_bytes,
            "local_bytes": usage.local_bytes,
            "shared_bytes": usage.shared_bytes,
            "float64": usage.double,
            "ptx_lines": self.ptx.count("\n"),
        }

    def line(self) -> list[Cell]:
        """The launch as a line of the table."""
        usage = self.usage
        spilled, double = usage.spill_stores + usage.spill_loads, "yes" if usage.double else "no"
        memory = [spilled, usage.stack_bytes, usage.local_bytes, usage.shared_bytes]
        return [self.name, usage.registers, *memory, double, self.ptx.count("\n")]


@click.command("compile", cls=Command)
@click.argument("kernel", metavar="KERNEL", required=False, callback=_kernel)
@takes("arch", "own_d", "tiles", "threads", "causal", "dq_pass", "ptx", "json", "csv")
def command(kernel: str, **given: Unpack[GpuGiven]) -> None:
    """Compile a CUDA KERNEL to PTX and machine code, without a GPU, a driver or nvcc: one line for each launch it is made of.

    Registers and spills are of a thread, as the assembler reports them; shared memory is of a block of threads.

    \b
    iosim gpu compile flash2
    iosim gpu compile flash2-backward --blocks 32x16 --d 64 --threads 128 --arch sm_80 --ptx backward.ptx
    """
    environment.needs("compile")
    environment.needs("assemble")
    launches = launches_of(kernel, given)
    made = [built(call, given["arch"]) for call in steps(launches, len(launches), "compiling")]
    path = given.get("ptx")
    if path is not None:
        with whole_file(path) as file:
            file.write("\n".join(one.ptx for one in made).encode())
    rows = [one.record() for one in made]
    document = {"kernel": kernel, "arch": given["arch"], "ptx": path, "steps": rows}
    deliver(given, Answer(text_of(kernel, given["arch"], made), document, rows))


def launches_of(kernel: str, given: GpuGiven) -> list[Call]:
    """The launches of every variant of ``kernel`` that is asked for, each step once."""
    tiles, dq_pass = given.get("tiles"), given.get("dq_pass")
    if dq_pass and not kernel.endswith("-backward"):
        raise BadInput(f"{kernel} has no --dq-pass in CUDA")
    rows, cols = (0, 0) if tiles is None else (tiles.rows, tiles.cols)
    sizes = given.get("own_d") or defaults.D, given.get("threads") or defaults.THREADS
    cases = [case for case in defaults.compiled(kernel, rows, cols, *sizes, causal=given["causal"]) if dq_pass in (None, case.dq_pass)]
    return list({call.step: call for case in cases for call in calls(case, prepared(case))}.values())


def built(call: Call, arch: str) -> Built:
    """Compile a launch; raises :class:`BadInput` for tiles that a block of threads has no room for, with those that would fit."""
    check_tiling(call.step, call.tiling)
    ptx = to_ptx(call, arch)
    return Built(call, ptx, usage(ptx, arch))


def text_of(kernel: str, arch: str, made: Sequence[Built]) -> str:
    """A line a launch."""
    tiling = made[0].call.tiling
    causal = ", causal" if tiling.causal else ""
    title = f"{kernel} for {arch}: tiles {tiling.rows}x{tiling.cols}, d={tiling.d}, {tiling.threads} threads a block{causal}"
    head = ["launch", "registers", "spilled", "stack", "local", "shared", "float64", "PTX lines"]
    note = (
        "Registers, and bytes spilled, on the stack and local, are of a thread; shared bytes of a block, which may have "
        f"{STATIC_LIMIT:,} on any GPU. What is spilled or local lies in global memory, where no model counts it."
    )
    return "\n".join([title, "", table(head, [one.line() for one in made]), "", wrapped(note, width())])
