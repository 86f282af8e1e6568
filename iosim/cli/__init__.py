"""The command line: ``iosim COMMAND``, one module a command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from iosim.cli.group import iosim
from iosim.cli.output import CheckFailed
from iosim.core.errors import IosimError

__all__ = ["main"]


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    0: done, also where the reader of standard output went away. 1: a check failed. 2: the command, its input or a file made no
    sense. 130: interrupted or told to end. Whatever is not 0 says why in one line on standard error.
    """
    for name in ("SIGTERM", "SIGHUP"):
        with suppress(ValueError, AttributeError):  # not in another thread, nor where there is no such signal
            signal.signal(getattr(signal, name), signal.default_int_handler)
    try:
        return invoke(sys.argv[1:] if args is None else args)
    except BrokenPipeError:
        _silence_stdout()
        return 0
    except (Exception, KeyboardInterrupt) as error:
        status, message = told(error)
        with suppress(OSError):
            click.echo(f"iosim: {' '.join(message.split())}", err=True)
        return status


def invoke(args: Sequence[str]) -> int:
    """Run one command; whatever goes wrong is raised."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed before Python began
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for as long as the process lives
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
    sys.stdout.flush()
    return status


def told(error: BaseException) -> tuple[int, str]:
    """The exit status and the line for whatever went wrong; what nobody foresaw is raised again in Python's development mode."""
    match error:
        case KeyboardInterrupt():
            return 130, "interrupted"
        case CheckFailed():
            return 1, str(error)
        case click.ClickException():
            message = _usage(error)
        case IosimError():
            message = str(error)
        case OSError():
            if error.filename is None:
                _silence_stdout()  # Python would try to write it once more when it ends
            message = f"{error.filename or 'standard output'}: {error.strerror or error}"
        case MemoryError():
            message = "this needs more memory than there is; ask for a smaller problem, or count it with --no-execute"
        case _ if sys.flags.dev_mode:
            raise error
        case _:
            message = f"this is a bug of iosim: {type(error).__name__}: {error}; python -X dev -m iosim shows where"
    return 2, message


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    help_ = "" if context is None else f"; see {context.command_path} --help"
    return message[:1].lower() + message[1:] + help_


def _silence_stdout() -> None:
    """Let what standard output still holds go nowhere."""
    with suppress(OSError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
