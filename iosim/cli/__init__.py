"""The command line: ``iosim COMMAND``, one module a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from iosim.cli.group import iosim
from iosim.cli.output import CheckFailed
from iosim.errors import IosimError

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done, also where the reader of standard output went away. 1: a check failed. 2: the command, its input or a file made no
    sense. 130: interrupted. Whatever is not 0 says why in one line on standard error.
    """
    try:
        return run(sys.argv[1:] if args is None else args)
    except BrokenPipeError:
        _silence(sys.stdout)
        return 0
    except KeyboardInterrupt:
        return _say("interrupted", 130)
    except CheckFailed as failure:
        return _say(str(failure), 1)
    except click.ClickException as error:
        return _say(_usage(error), 2)
    except IosimError as error:
        return _say(str(error), 2)
    except OSError as error:
        _silence(sys.stdout)  # it may be what cannot be written, and Python would try once more when it ends
        return _say(f"{error.filename or 'standard output'}: {error.strerror or error}", 2)
    except MemoryError:
        return _say("this needs more memory than there is; ask for a smaller problem, or count it with --no-execute", 2)
    except Exception as error:
        if sys.flags.dev_mode:
            raise
        return _say(f"this is a bug of iosim: {type(error).__name__}: {error}; python -X dev -m iosim ... shows where", 2)


def run(args: Sequence[str]) -> int:
    """Run one command; whatever goes wrong is raised."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that has no Θ still shows the numbers
    try:
        with iosim.make_context("iosim", list(args)) as context:
            iosim.invoke(context)
    except click.exceptions.Exit as done:
        status = done.exit_code
    else:
        status = 0
    if sys.stdout is not None:
        sys.stdout.flush()
    return status


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message}; see {context.command_path} --help"


def _say(message: str, status: int) -> int:
    click.echo(f"iosim: {' '.join(message.split())}", err=True)
    return status


def _silence(stream: object) -> None:
    """Let what a stream still holds go nowhere."""
    if stream is sys.__stdout__ and sys.__stdout__ is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())
