"""Every module of iosim lies in a room that pyproject.toml gives a floor, or is a thin public one; and there are few rooms."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import iosim

HOUSE = Path(iosim.__path__[0])
FRONT = {"__init__.py", "__main__.py"}
MOST_NAMES = 12


def floors(source_tree: Path) -> set[str]:
    """The names in the contract that gives every room of iosim its floor."""
    [layers] = [
        contract["layers"]
        for contract in tomllib.loads((source_tree / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
        if contract.get("containers") == ["iosim"]
    ]
    return {name.strip() for floor in layers for name in floor.split("|")}


def is_thin(file: Path) -> bool:
    """Whether a module only hands on what others define."""
    said, *rest = ast.parse(file.read_text(encoding="utf-8")).body
    named = [node for node in rest if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]]
    assert isinstance(said, ast.Expr), f"{file.name} has no docstring"
    return len(named) == 1 and all(isinstance(node, ast.Import | ast.ImportFrom) or node in named for node in rest)


def astray(house: Path, known: set[str]) -> set[str]:
    """The modules that lie in no known room and are not thin."""
    rooms = {path.parent.name for path in house.glob("*/__init__.py")} & known
    outside = [path.relative_to(house) for path in house.rglob("*.py") if path.relative_to(house).parts[0] not in rooms | FRONT]
    return {path.as_posix() for path in outside if len(path.parts) > 1 or path.stem not in known or not is_thin(house / path)}


def test_every_module_lies_in_its_room_or_is_thin(source_tree: Path) -> None:
    assert astray(HOUSE, floors(source_tree)) == set()


def test_every_folder_of_modules_is_a_package() -> None:
    """Python finds modules in others too, but the import floors would not be held there."""
    assert {path.parent for path in HOUSE.rglob("*.py") if not (path.parent / "__init__.py").is_file()} == set()


def test_few_names_lie_directly_in_the_house() -> None:
    names = {path.name for path in HOUSE.iterdir() if path.name != "__pycache__"}
    assert len({name for name in names if name in FRONT or not name.endswith(".py")}) <= MOST_NAMES


@pytest.mark.parametrize(("place", "code"), [
    ("extra.py", '"""Something."""\n\n\ndef made() -> int:\n    return 1\n'),
    ("attic/__init__.py", '"""A room that has no floor."""\n'),
    ("thin.py", '"""Thin, but without a floor."""\n\nfrom iosim.core.units import Capacity\n\n__all__ = ["Capacity"]\n'),
    ("memory.py", '"""No longer thin."""\n\nfrom iosim.core.units import Capacity\n\n__all__ = ["Capacity"]\nSIZE = 1\n'),
])  # fmt: skip
def test_a_module_outside_its_room_is_found(place: str, code: str, tmp_path: Path, source_tree: Path) -> None:
    house = tmp_path / "iosim"
    (house / "core").mkdir(parents=True)
    (house / place).parent.mkdir(exist_ok=True)
    for name in ("__init__.py", "core/__init__.py", "core/units.py"):
        (house / name).write_text('"""Right."""\n\nSIZE = 1\n')
    assert astray(house, floors(source_tree)) == set()
    (house / place).write_text(code)
    assert astray(house, floors(source_tree)) == {place}
