"""In a child: from a submission's bytes to its function, and from what it raised to a few words. Standard library only."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

FILE = "<submission>"
_MOST = 1000  # characters of a name or a message that are looked at


def load(source: bytes, function: str) -> Callable[..., Any]:
    """Run the source as a module and return the function of that name; raises what the source raises, or NameError."""
    tree = ast.parse(source, FILE)
    times = sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function for node in tree.body)
    if times > 1:
        raise NameError(f"{times} functions are named {function}: keep one")
    namespace: dict[str, Any] = {"__name__": "submission"}
    exec(compile(tree, FILE, "exec", dont_inherit=True), namespace)
    found = namespace.get(function)
    if not callable(found):
        raise NameError(f"no function named {function}")
    made: Callable[..., Any] = found
    return made


def told(error: BaseException) -> tuple[str, str, list[int]]:
    """Type, message and the submission's lines of an exception, outermost first; nothing that it defines itself can raise here."""
    return _word(lambda: type(error).__name__), _word(lambda: str(error)), list(_lines(error))


def _word(ask: Callable[[], str]) -> str:
    try:
        return str.__getitem__(ask(), slice(_MOST))  # a plain string, whatever class of string the submission made
    except BaseException:  # an exception class of the submission may raise in its own __str__
        return "(it cannot be said)"


def _lines(error: BaseException) -> Iterator[int]:
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == FILE:
            yield step.tb_lineno
        step = step.tb_next
    if isinstance(error, SyntaxError) and type(error.lineno) is int:
        yield error.lineno
