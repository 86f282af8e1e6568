"""Signs of life on standard error while work is long, where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 0.5  # seconds of silence before a bar appears


def working(what: str) -> AbstractContextManager[object]:
    """A spinner while a block of work runs."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(what)


def steps(items: Iterable[T], of: int, what: str) -> Iterator[T]:
    """The items one by one, with a bar once they turn out to take long."""
    started, left = time.monotonic(), iter(items)
    done = 0
    for item in left:
        yield item
        done += 1
        if sys.stderr.isatty() and time.monotonic() - started > PATIENCE:
            break
    else:
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(left, what, total=of, completed=done, console=Console(stderr=True), transient=True)
