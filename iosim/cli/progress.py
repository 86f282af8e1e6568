"""Signs of life on standard error while work is long, where that is a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click

T = TypeVar("T")

PATIENCE = 0.5  # seconds before the first count of steps


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show one line while a block of work runs, and clear it at the end."""
    _show(f"{what} ...")
    try:
        yield
    finally:
        _show("")


def steps(items: Iterable[T], of: int, what: str) -> Iterator[T]:
    """Hand out the items one by one; once they take long, show how many of them are done."""
    started = time.monotonic()
    try:
        for done, item in enumerate(items):
            if time.monotonic() - started > PATIENCE:
                _show(f"{what}: {done:,} of {of:,}")
            yield item
    finally:
        _show("")


def _show(text: str) -> None:
    """Write ``text`` over the last line of a terminal; nothing anywhere else."""
    if sys.stderr.isatty():
        room = shutil.get_terminal_size().columns - 1
        click.echo(f"\r{text[:room]:<{room}}\r", nl=False, err=True)
