"""The commands by name; the module of a command loads when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import ClassVar

import click

from iosim import __version__
from iosim.cli.options import Command

COMMANDS = {
    "run": "One kernel on one problem: values checked against the oracle, words per array, formula beside the count.",
    "curve": "HBM accesses over N and over M, for several kernels.",
    "compare": "All kernels on one problem: counted, predicted, lower bound, error.",
    "bounds": "The regimes in M: lower bounds, best kernel, crossovers.",
    "explain": "One line per array and direction: the term in symbols, in numbers, and why.",
    "tiles": "What fits in M, who takes what, and what traffic follows.",
    "devices": "The GPUs that --device knows, with the source of every number.",
    "trace": "Every load, store and allocation as JSON lines.",
    "cache": "What least-recently-used caches would move in place of the scratchpad.",
    "paper": "Every published number of the FlashAttention paper, and ours.",
    "exercise": "Exercises that grade the traffic: a course for students, a grader for teachers.",
    "gpu": "Real CUDA kernels, and what they really move beside the model's counts; no GPU needed.",
}


class Group(click.Group):
    """Commands that are imported on demand, so that help answers at once: ``known`` says what they do, ``home`` where they are."""

    known: ClassVar[Mapping[str, str]] = COMMANDS
    home: ClassVar[str] = "iosim.cli."

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help text."""
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None where there is none."""
        if cmd_name not in self.known:
            return None
        command = importlib.import_module(f"{self.home}{cmd_name}").command
        assert isinstance(command, Command | Group)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but an unknown command names those that exist."""
        if args and args[0] not in self.known and not args[0].startswith("-"):
            ctx.fail(f"unknown command {args[0]!r}; known: {', '.join(self.known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of the commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.known.items()))


SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True}


@click.group(cls=Group, invoke_without_command=True, context_settings=SETTINGS)
@click.version_option(__version__, message="iosim %(version)s")
@click.pass_context
def iosim(context: click.Context) -> None:
    """Attention on a model of the HBM/SRAM hierarchy: every word that moves is counted, and checked.

    A size without a suffix is in words (array elements); with one of B KB MB GB KiB MiB GiB it is in bytes.

    Start with: iosim curve
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
