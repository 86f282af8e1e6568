"""``iosim gpu``: the commands for the CUDA kernels. Their modules import :mod:`iosim_gpu` when they run, and nothing else of iosim does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import click

from iosim.cli.group import Group

PAGES = {
    "check": "Measure the CUDA kernels' global-memory traffic, and ask for equality with the model.",
    "info": "What of CUDA this machine has, and what to install for the rest.",
    "compile": "Compile a CUDA kernel: PTX, registers, spills, shared memory.",
}


class Pages(Group):
    """The commands under ``iosim gpu``."""

    known: ClassVar[Mapping[str, str]] = PAGES
    home: ClassVar[str] = "iosim.cli.gpu_"


@click.group("gpu", cls=Pages, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Attention kernels in CUDA, and what they really move.

    They are written in Python, with Numba, in the tiles and loop orders of the listings that iosim counts. None of this needs a GPU: what
    they move is measured in Numba's simulator, by counters in the kernels, and by executing the compiled PTX. Their tiles are compiled in,
    so that --blocks takes the place of --sram.

    Start with: iosim gpu check
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
