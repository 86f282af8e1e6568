"""A bar in a notebook while work takes long, and nothing anywhere else; it needs no package."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 0.5  # seconds of silence before a bar appears


def bar(what: str) -> Callable[[int, int], None]:
    """A function to call with (done, of) after each step: it shows how much of ``what`` is done, and clears the bar at the end."""
    if not in_notebook():
        return lambda done, of: None
    from iosim.core.tables import words

    started, shown = time.monotonic(), list[Any]()

    def step(done: int, of: int) -> None:
        if done < of and time.monotonic() - started > PATIENCE:
            text = f'{what}: <progress value="{done}" max="{of}"></progress> {words(done)} of {words(of)}'
            shown.append(_display(text, shown[0] if shown else None))
        elif shown:
            _display("", shown[0])

    return step


def in_notebook() -> bool:
    """Whether this runs in a kernel, which shows what is displayed."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def _display(text: str, handle: Any) -> Any:
    """Show ``text``, in the place of the ``handle`` where there is one."""
    from importlib import import_module

    module: Any = import_module("IPython.display")
    if handle is None:
        return module.display(module.HTML(text), display_id=True)
    handle.update(module.HTML(text))
    return handle
