"""The source lines of the kernel functions that a run enters, and the line that runs now."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from iosim.attention import kernels

FOLDER = str(Path(kernels.__file__).parent)
LOOP = re.compile(r"\s*for (\w+) in ")
NOWHERE = -1


class Listing:
    """The lines of every kernel function that runs inside :meth:`followed`, in the order in which they are first entered.

    ``current`` is the index in ``lines`` of the line that runs now, -1 outside of all; ``boundary`` is called before each new line.
    Docstrings and marks for formatters are left out.
    """

    def __init__(self, boundary: Callable[[], None], file: str) -> None:
        self.boundary, self.own = boundary, (FOLDER, file)
        self.lines: list[str] = []
        self.places: dict[CodeType, dict[int, int]] = {}
        self.current = NOWHERE

    @contextmanager
    def followed(self) -> Iterator[None]:
        """Follow this thread line by line; a debugger or a coverage meter gets it back afterwards."""
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    @property
    def variable(self) -> str:
        """The loop variable of the line that runs now; "" where it is no loop."""
        found = LOOP.match(self.lines[self.current]) if self.current >= 0 else None
        return found[1] if found else ""

    def _enter(self, frame: FrameType, _: str, __: object) -> Callable[..., Any] | None:
        code = frame.f_code
        if not code.co_filename.startswith(self.own):
            return None
        if code not in self.places:
            self._append(code)
        return self._follow

    def _follow(self, frame: FrameType, what: str, _: object) -> Callable[..., Any]:
        if what in ("line", "return"):
            self.boundary()
            runs = frame if what == "line" else frame.f_back
            self.current = NOWHERE if runs is None else self.places.get(runs.f_code, {}).get(runs.f_lineno, NOWHERE)
        return self._follow

    def _append(self, code: CodeType) -> None:
        source, first = inspect.getsourcelines(code)
        hidden = _hidden(source)
        self.lines += [""] if self.lines else []
        places = self.places[code] = {}
        for offset, line in enumerate(textwrap.dedent("".join(source)).splitlines()):
            if offset not in hidden:
                places[first + offset] = len(self.lines)
                self.lines.append(line.partition("  # fmt:")[0])


def _hidden(source: list[str]) -> set[int]:
    """The lines of a function, from 0, that its declaration and its docstring take."""
    function = ast.parse(textwrap.dedent("".join(source))).body[0]
    assert isinstance(function, ast.FunctionDef)
    hidden = {*range(function.lineno - 1)}
    if ast.get_docstring(function) is not None:
        hidden |= {*range(function.body[0].lineno - 1, function.body[0].end_lineno or 0)}
    return hidden
