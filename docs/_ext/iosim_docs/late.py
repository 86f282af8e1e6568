"""Types that a module names but loads late: here they are loaded, so that signatures on the site can link to them."""

from __future__ import annotations

import ast
import inspect
from importlib import import_module
from types import ModuleType

_ATTENTION = ("report", "run", "sweep", "random_problems")
MODULES = ("iosim", *(f"iosim.attention.{name}" for name in _ATTENTION), "iosim.predict")


def load() -> None:
    """Do in each of ``MODULES`` the imports that stand under ``if TYPE_CHECKING``."""
    for module in map(import_module, MODULES):
        exec(compile(ast.Module(_hidden(module), []), str(module.__file__), "exec"), vars(module))  # our own source


def _hidden(module: ModuleType) -> list[ast.stmt]:
    """The statements that only a type checker would see."""
    tests = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.If)]
    return [each for node in tests if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" for each in node.body]
