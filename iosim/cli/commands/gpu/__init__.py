"""Real CUDA kernels, and what they really move beside the model's counts; no GPU needed."""

from __future__ import annotations

import click

from iosim.cli.group import Group


@click.group("gpu", cls=Group, invoke_without_command=True)
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
