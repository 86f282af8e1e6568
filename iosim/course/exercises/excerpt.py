"""Lines of a solution, for the mistakes that change or repeat several of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

source_of = cache(inspect.getsource)
"""The text of a solution, which is read once."""


def excerpt(solution: Callable[..., None], first: str, last: str) -> str:
    """The lines from the first one that holds ``first`` to the next one that holds ``last``; raises ValueError where there are none."""
    source = source_of(solution)
    start = source.rindex("\n", 0, source.index(first)) + 1
    return source[start : source.index("\n", source.index(last, start)) + 1]
