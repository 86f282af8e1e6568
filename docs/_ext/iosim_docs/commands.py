"""The usage text of a command, from click."""

from __future__ import annotations

from collections.abc import Iterator

import click

from iosim.cli.group import Group, iosim

WIDTH = 80


def usage(name: str) -> str:
    """What ``iosim NAME --help`` prints, and below it the same of its own commands, as Markdown."""
    return "\n\n".join(f"```text\n{text}\n```" for text in helps(iosim, name, click.Context(iosim, info_name="iosim")))


def helps(group: Group | click.Group, name: str, above: click.Context) -> Iterator[str]:
    """The help text of a command, and of the commands below it."""
    command = group.get_command(above, name)
    if command is None:
        raise click.UsageError(f"there is no command {name!r}")
    context = click.Context(command, info_name=name, parent=above, terminal_width=WIDTH, max_content_width=WIDTH, show_default=True)
    context.help_option_names = ["-h", "--help"]
    yield command.get_help(context).rstrip()
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            yield from helps(command, below, context)
