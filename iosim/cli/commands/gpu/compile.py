"""Compile a CUDA kernel: PTX, registers, spills, shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Unpack

import click

from iosim.cli.files import whole_file
from iosim.cli.gpu_cases import check_room, options_of, refuse
from iosim.cli.gpu_options import GpuGiven, takes
from iosim.cli.options import Command
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.progress import steps
from iosim.cli.wrapping import wrapped
from iosim.core.errors import BadInput
from iosim.core.tables import Cell, table
from iosim_gpu import defaults, environment
from iosim_gpu.calls import Call, calls, prepared
from iosim_gpu.catalogue import KERNELS, OPTIONS
from iosim_gpu.catalogue import kernel as declared
from iosim_gpu.checks import check_tiling
from iosim_gpu.compiling import Usage, to_ptx, usage
from iosim_gpu.fitting import STATIC_LIMIT

HEAD = ["launch", "registers", "spilled", "stack", "local", "shared", "float64", "PTX lines"]


def _kernel(context: click.Context, argument: click.Parameter, text: str | None) -> str:
    if text is None:
        raise BadInput(f"compile needs a kernel: {', '.join(KERNELS)}")
    return declared(text).name


@dataclass(frozen=True, slots=True)
class Built:
    """One launch, compiled, and the variants of its kernel in which it is launched."""

    call: Call
    variants: Sequence[Mapping[str, str]]
    ptx: str
    usage: Usage

    def record(self) -> Record:
        """The launch as JSON has it."""
        tiling, usage = self.call.tiling, self.usage
        return {
            "step": self.call.step.name,
            **{name: self._value(name) for name in OPTIONS},
            "block_rows": tiling.rows, "block_cols": tiling.cols, "d": tiling.d, "threads": tiling.threads, "causal": tiling.causal,
            "registers": usage.registers, "spill_stores": usage.spill_stores, "spill_loads": usage.spill_loads,
            "stack_bytes": usage.stack_bytes, "local_bytes": usage.local_bytes, "shared_bytes": usage.shared_bytes,
            "float64": usage.double, "ptx_lines": self.ptx.count("\n"),
        }  # fmt: skip

    def _value(self, option: str) -> str | None:
        """The value of an option with which it is launched, or "both"; None where the kernel has no such option."""
        values = {one[option] for one in self.variants if option in one}
        return "both" if len(values) > 1 else next(iter(values), None)

    def line(self, indent: int = 0) -> list[Cell]:
        """The launch as a line of the table."""
        usage = self.usage
        spilled, double = usage.spill_stores + usage.spill_loads, "yes" if usage.double else "no"
        memory = [spilled, usage.stack_bytes, usage.local_bytes, usage.shared_bytes]
        return [f"{' ' * indent}{self.call.step.name}", usage.registers, *memory, double, self.ptx.count("\n")]


@click.command("compile", cls=Command)
@click.argument("kernel", metavar="KERNEL", required=False, callback=_kernel)
@takes("arch", "own_d", "tiles", "threads", "causal", *OPTIONS, "ptx", "json", "csv")
def command(kernel: str, **given: Unpack[GpuGiven]) -> None:
    """Compile a CUDA KERNEL to PTX and machine code, without a GPU, a driver or nvcc: one line for each launch it is made of.

    Registers and spills are of a thread, as the assembler reports them; shared memory is of a thread block. Where they are not given, tiles
    are the kernel's own, which leave room in 48 KB, d = 64, and a block has 128 threads. A kernel with variants is compiled in each of
    them, unless one is given.

    \b
    iosim gpu compile flash2
    iosim gpu compile flash2-backward --blocks 16x16 --arch sm_80 --ptx back.ptx
    """
    environment.installed()
    environment.needs("compile")
    environment.needs("assemble")
    launches = launches_of(kernel, given)
    made = [built(call, variants, given["arch"]) for call, variants in steps(launches, len(launches), "compiling")]
    path = given.get("ptx")
    if path is not None:
        with whole_file(path) as file:
            file.write("\n".join(one.ptx for one in made).encode())
    rows = [one.record() for one in made]
    document = {"kernel": kernel, "arch": given["arch"], "ptx": path, "steps": rows}
    deliver(given, Answer(text_of(kernel, given["arch"], made), document, rows))


def launches_of(kernel: str, given: GpuGiven) -> list[tuple[Call, list[Mapping[str, str]]]]:
    """Each launch of the variants of ``kernel`` that are asked for, once, with the variants it is part of."""
    refuse(kernel, given)
    asked, tiles = options_of(given), given.get("tiles")
    rows, cols = (0, 0) if tiles is None else (tiles.rows, tiles.cols)
    sizes = given.get("own_d") or defaults.D, given.get("threads") or defaults.THREADS
    cases = [
        case for case in defaults.compiled(kernel, rows, cols, *sizes, causal=given["causal"]) if asked.items() <= case.options.items()
    ]
    found = {call.step: call for case in cases for call in calls(case, prepared(case))}
    return [(call, [case.options for case in cases if step in case.steps]) for step, call in found.items()]


def built(call: Call, variants: Sequence[Mapping[str, str]], arch: str) -> Built:
    """Compile a launch; raises :class:`BadInput` for tiles that a thread block has no room for, with those that would fit."""
    check_room(call.step, call.tiling)
    check_tiling(call.step, call.tiling)
    ptx = to_ptx(call, arch)
    return Built(call, variants, ptx, usage(ptx, arch))


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


def grouped(made: Sequence[Built]) -> Iterator[str]:
    """The lines of the table under the names of the variants; a launch of several variants stands in each."""
    variants = dict.fromkeys(tuple(variant.items()) for one in made for variant in one.variants)
    listed = [(variant, one) for variant in variants for one in made if dict(variant) in one.variants]
    head, rule, *lines = table(HEAD, [one.line(indent=2 * bool(variant)) for variant, one in listed]).split("\n")
    yield from (head, rule)
    group: tuple[tuple[str, str], ...] = ()
    for (variant, _), line in zip(listed, lines, strict=True):
        if variant != group:
            yield ", ".join(f"{name}={value}" for name, value in variant)
            group = variant
        yield line
