"""No file imports itself by way of others, not even for its types: so each can be read after those that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import iosim
import iosim_gpu
import iosim_reference


def modules(package: Path) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    files = {path: path.relative_to(package.parent).with_suffix("").parts for path in package.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in files.items()}


def imported(file: Path) -> Iterator[str]:
    """What a file may import, by name: those it names, and what it takes from them."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from inside
            yield node.module if not inside <= KNOWN.keys() else ""


KNOWN = {name: path for one in (iosim, iosim_gpu, iosim_reference) for name, path in modules(Path(one.__path__[0])).items()}


@pytest.mark.parametrize("package", [iosim, iosim_gpu, iosim_reference], ids=lambda package: package.__name__)
def test_files_form_no_circle(package: object) -> None:
    mine = modules(Path(package.__path__[0]))  # type: ignore[attr-defined]
    order = [*TopologicalSorter({name: KNOWN.keys() & set(imported(path)) - {name} for name, path in mine.items()}).static_order()]
    assert set(mine) <= set(order)
