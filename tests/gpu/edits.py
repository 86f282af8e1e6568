"""Copies of a kernel that differ in their source: what a race hunt takes away, and what a deliberately wrong kernel does."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from importlib import import_module
from inspect import getsource
from types import ModuleType

from iosim.core.errors import BadInput
from iosim_gpu.steps import Step

Edit = tuple[str, str]


def source(step: Step) -> str:
    """The module that ``step``'s factory lies in, as text."""
    return getsource(import_module(step.factory.partition(":")[0]))


def own(step: Step, text: str) -> list[ast.FunctionDef]:
    """The functions of ``step``'s kernel in its module's ``text``: its factory, and what this calls of the same module."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    found, asked = {}, [step.factory.partition(":")[2]]
    while asked:
        if (name := asked.pop()) in functions and name not in found:
            found[name] = functions[name]
            asked += [node.id for node in ast.walk(functions[name]) if isinstance(node, ast.Name)]
    return list(found.values())


def edited(step: Step, *edits: Edit) -> Step:
    """``step`` with ``old`` replaced, for every edit ``(old, new)``; its kernel's source must hold ``old`` exactly once."""
    text = source(step)
    for old, new in edits:
        places = list(_places(step, text, old))
        if len(places) != 1:
            raise BadInput(f"an edit needs a text that the source of {step.name} holds once; it holds {old!r} {len(places)} times")
        text = text[: places[0]] + new + text[places[0] + len(old) :]
    return rewritten(step, text)


def _places(step: Step, text: str, old: str) -> Iterator[int]:
    lines = text.splitlines(keepends=True)
    for function in own(step, text):
        begin = len("".join(lines[: function.lineno - 1]))
        body = "".join(lines[function.lineno - 1 : function.end_lineno])
        yield from (begin + at for at in range(len(body)) if body.startswith(old, at))


def rewritten(step: Step, text: str) -> Step:
    """``step`` made by ``text`` in place of its module's source."""
    module, _, factory = step.factory.partition(":")
    name = f"{module}__{sha256(text.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        _load(name, text)
    return replace(step, factory=f"{name}:{factory}")


def _load(name: str, text: str) -> None:
    """A module that is in no file; its lines are kept for whoever prints or inspects them."""
    made, file = ModuleType(name), f"<{name}>"
    made.__file__ = file
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), made.__dict__)
    sys.modules[name] = made


def swapped(steps: Sequence[Step], new: Step) -> list[Step]:
    """``steps`` with the one of ``new``'s name exchanged for it."""
    return [new if step.name == new.name else step for step in steps]
