"""No file imports itself by way of others, not even for its types: so each can be read after those that it imports."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import iosim
import iosim_gpu
import iosim_reference

PACKAGES = [Path(package.__path__[0]) for package in (iosim, iosim_gpu, iosim_reference)]


def modules(package: Path) -> dict[str, Path]:
    """The files of a package by the names of their modules."""
    files = {path: path.relative_to(package.parent).with_suffix("").parts for path in package.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in files.items()}


def imported(file: Path) -> set[str]:
    """Every module that a file may import, wherever the import stands; what is not a module is the name of something in one."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return found


def graph(*packages: Path) -> dict[str, set[str]]:
    """What each file imports of these packages. A package whose modules are taken one by one is not itself used."""
    files = {name: path for package in packages for name, path in modules(package).items()}
    needs = {name: files.keys() & imported(path) - {name} for name, path in files.items()}
    return {name: {one for one in found if not any(other.startswith(f"{one}.") for other in found)} for name, found in needs.items()}


def circle(*packages: Path) -> list[str]:
    """The modules of one circle, first and last the same; empty without one."""
    try:
        TopologicalSorter(graph(*packages)).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def test_files_form_no_circle() -> None:
    assert len(graph(*PACKAGES)) > 200
    assert circle(*PACKAGES) == []


PLANTED = {
    "a module": "import planted.room.first",
    "a module of a package": "from planted.room import first",
    "a name of a module": "from planted.room.first import FIRST",
    "types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.room.first import FIRST",
    "in a function": "def late():\n    from planted.room.first import FIRST\n    return FIRST",
}


@pytest.mark.parametrize("closing", [pytest.param(code, id=name) for name, code in PLANTED.items()])
def test_a_planted_circle_is_found(closing: str, tmp_path: Path) -> None:
    room = tmp_path / "planted" / "room"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("from planted.room.first import FIRST\n")
    (room / "first.py").write_text("from planted.room.second import SECOND\nFIRST = 1\n")
    (room / "second.py").write_text("from planted.room import third\nSECOND = 2\n")
    (room / "third.py").write_text("THIRD = 3\n")
    assert circle(tmp_path / "planted") == []
    (room / "third.py").write_text(f"{closing}\n")
    assert set(circle(tmp_path / "planted")) == {f"planted.room.{name}" for name in ("first", "second", "third")}


def test_a_file_that_asks_its_own_package_is_in_a_circle(tmp_path: Path) -> None:
    room = tmp_path / "planted"
    room.mkdir()
    (room / "__init__.py").write_text("from planted.first import FIRST\n")
    (room / "first.py").write_text("from planted import FIRST\n")
    assert set(circle(room)) == {"planted", "planted.first"}
