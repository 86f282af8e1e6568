"""Copies of a kernel that differ in their source: what a race hunt takes away, and what a deliberately wrong kernel does."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterator, Sequence
from hashlib import sha256
from inspect import getsource
from types import ModuleType

from iosim.core.errors import BadInput
from iosim_gpu.declaration import Step

Edit = tuple[str, str]


def source(step: Step) -> str:
    """The module that ``step`` is declared in, as text."""
    return getsource(sys.modules[step.factory.__module__])


def own(step: Step, text: str) -> list[ast.FunctionDef]:
    """The functions of ``step``'s kernel in its module's ``text``: its factory, and what this calls of the same module."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    found, asked = {}, [step.factory.__name__]
    while asked:
        if (name := asked.pop()) in functions and name not in found:
            found[name] = functions[name]
            asked += [node.id for node in ast.walk(ast.Module(functions[name].body, [])) if isinstance(node, ast.Name)]
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
    """The step of this name in a module made of ``text``."""
    found: Step = getattr(loaded(step.factory.__module__, text), step.factory.__name__)
    return found


def loaded(name: str, text: str) -> ModuleType:
    """A module that is in no file; its lines are kept for whoever prints or inspects them."""
    name = f"{name}__{sha256(text.encode()).hexdigest()[:12]}"
    if name not in sys.modules:
        made, file = ModuleType(name), f"<{name}>"
        made.__file__ = file
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), made.__dict__)
        sys.modules[name] = made
    return sys.modules[name]


def swapped(steps: Sequence[Step], new: Step) -> list[Step]:
    """``steps`` with the one of ``new``'s name exchanged for it."""
    return [new if step.name == new.name else step for step in steps]
