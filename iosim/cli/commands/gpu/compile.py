"""Compile a CUDA kernel: PTX, registers, spills, shared memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Unpack

import click

from iosim.cli.files import whole_file
from iosim.cli.gpu_cases import check_room
from iosim.cli.gpu_options import GpuGiven, takes
from iosim.cli.options import Command
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.progress import steps
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.core.tables import Cell, table
from iosim_gpu import defaults, environment
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.case import KERNELS
from iosim_gpu.checks import check_tiling
from iosim_gpu.compiling import Usage, to_ptx, usage
from iosim_gpu.fitting import STATIC_LIMIT
from iosim_gpu.steps import Step

HEAD = ["launch", "registers", "spilled", "stack", "local", "shared", "float64", "PTX lines"]
VARIANTS = {"shared": "added to in the pass that makes dK and dV", "own": "made in a pass of its own"}


def _kernel(context: click.Context, argument: click.Parameter, text: str | None) -> str:
    if text is None:
        raise BadInput(f"compile needs a kernel: {', '.join(KERNELS)}")
    if text not in KERNELS:
        raise BadInput(f"no CUDA kernel is called {text!r}; there are {', '.join(KERNELS)}")
    return text


@dataclass(frozen=True, slots=True)
class Built:
    """One launch, compiled; ``dq_pass`` says in which variant of its kernel: one of them, "both", or None where there is only one."""

    call: Call
    dq_pass: str | None
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
            "dq_pass": self.dq_pass,
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

    def line(self, indent: int = 0) -> list[Cell]:
        """The launch as a line of the table."""
        usage = self.usage
        spilled, double = usage.spill_stores + usage.spill_loads, "yes" if usage.double else "no"
        memory = [spilled, usage.stack_bytes, usage.local_bytes, usage.shared_bytes]
        return [f"{' ' * indent}{self.name}", usage.registers, *memory, double, self.ptx.count("\n")]


@click.command("compile", cls=Command)
@click.argument("kernel", metavar="KERNEL", required=False, callback=_kernel)
@takes("arch", "own_d", "tiles", "threads", "causal", "dq_pass", "ptx", "json", "csv")
def command(kernel: str, **given: Unpack[GpuGiven]) -> None:
    """Compile a CUDA KERNEL to PTX and machine code, without a GPU, a driver or nvcc: one line for each launch it is made of.

    Registers and spills are of a thread, as the assembler reports them; shared memory is of a block of threads. Tiles are 32x32, or
    32x16 for flash2-backward, d = 64 and a block has 128 threads, where not given; flash2-backward is compiled for both values of
    --dq-pass unless one is given.

    \b
    iosim gpu compile flash2
    iosim gpu compile flash2-backward --blocks 16x16 --arch sm_80 --ptx back.ptx
    """
    environment.installed()
    environment.needs("compile")
    environment.needs("assemble")
    launches = launches_of(kernel, given)
    made = [built(call, dq_pass, given["arch"]) for call, dq_pass in steps(launches, len(launches), "compiling")]
    path = given.get("ptx")
    if path is not None:
        with whole_file(path) as file:
            file.write("\n".join(one.ptx for one in made).encode())
    rows = [one.record() for one in made]
    document = {"kernel": kernel, "arch": given["arch"], "ptx": path, "steps": rows}
    deliver(given, Answer(text_of(kernel, given["arch"], made), document, rows))


def launches_of(kernel: str, given: GpuGiven) -> list[tuple[Call, str | None]]:
    """The launches of every variant of ``kernel`` that is asked for, each step once, and in which variants it is."""
    tiles, dq_pass = given.get("tiles"), given.get("dq_pass")
    if dq_pass and not kernel.endswith("-backward"):
        raise BadInput(f"{kernel} has no --dq-pass in CUDA")
    rows, cols = (0, 0) if tiles is None else (tiles.rows, tiles.cols)
    sizes = given.get("own_d") or defaults.D, given.get("threads") or defaults.THREADS
    cases = [case for case in defaults.compiled(kernel, rows, cols, *sizes, causal=given["causal"]) if dq_pass in (None, case.dq_pass)]
    found = [(call, case.dq_pass) for case in cases for call in calls(case, prepared(case))]
    passes: dict[Step, set[str]] = {}
    for call, one in found:
        passes.setdefault(call.step, set()).add(one)
    backward = kernel.endswith("-backward")
    return [(call, _told(passes[call.step]) if backward else None) for call in {call.step: call for call, _ in found}.values()]


def _told(passes: Collection[str]) -> str:
    return "both" if len(passes) > 1 else next(iter(passes))


def built(call: Call, dq_pass: str | None, arch: str) -> Built:
    """Compile a launch; raises :class:`BadInput` for tiles that a block of threads has no room for, with those that would fit."""
    check_room(call.step, call.tiling)
    check_tiling(call.step, call.tiling)
    ptx = to_ptx(call, arch)
    return Built(call, dq_pass, ptx, usage(ptx, arch))


def text_of(kernel: str, arch: str, made: Sequence[Built]) -> str:
    """A line a launch."""
    tiling = made[0].call.tiling
    causal = ", causal" if tiling.causal else ""
    title = f"{kernel} for {arch}: tiles {tiling.rows}x{tiling.cols}, d={tiling.d}, {tiling.threads} threads a block{causal}"
    note = (
        "Registers, and bytes spilled, on the stack and local, are of a thread; shared bytes of a block, which may have "
        f"{STATIC_LIMIT:,} on any GPU. What is spilled or local lies in global memory, where no model counts it."
    )
    return "\n".join([title, "", *grouped(made), "", wrapped(note, width())])


def grouped(made: Sequence[Built]) -> list[str]:
    """The table's lines, those of each variant under its name; what is launched in both stands in both."""
    groups: dict[str, list[Built]] = {name: [one for one in made if one.dq_pass in (name, "both")] for name in defaults.DQ_PASSES}
    listed = [(name, one) for name, ones in groups.items() for one in ones] or [("", one) for one in made]
    lines = table(HEAD, [one.line(indent=2 * bool(name)) for name, one in listed]).split("\n")
    shown, group = lines[:2], ""
    for (name, _), line in zip(listed, lines[2:], strict=True):
        if name != group:
            group = name
            shown.append(f"dQ {name}: {VARIANTS[name]}")
        shown.append(line)
    return shown
