"""The commands by name; the module of a command loads when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import click

from iosim import __version__
from iosim.cli.options import Command

HOME = "iosim.cli.commands"


class Group(click.Group):
    """Commands that are found, one file each, in the folder that is called like the group; each is imported when it is asked for."""

    @property
    def home(self) -> str:
        """The package of its commands."""
        return HOME if self.name == "iosim" else f"{HOME}.{self.name}"

    @cached_property
    def known(self) -> Mapping[str, str]:
        """Every command by name, with what its file says of it in its first line; none is imported."""
        folder = Path(__file__).parent.joinpath("commands", *self.home.split(".")[3:])
        files = sorted([*folder.glob("[a-z]*.py"), *folder.glob("*/__init__.py")], key=_named)
        return {_named(file): _summary(file) for file in files}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the help text."""
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command; None where there is none."""
        if cmd_name not in self.known:
            return None
        command = importlib.import_module(f"{self.home}.{cmd_name}").command
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


def _named(file: Path) -> str:
    """The command of a file: ``run.py``, or ``gpu/__init__.py`` for one with commands of its own."""
    return file.parent.name if file.stem == "__init__" else file.stem


def _summary(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return next(lines).strip().strip('"')


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
