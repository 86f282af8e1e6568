"""The wheel holds the three packages, whole, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from email import message_from_bytes
from pathlib import Path
from zipfile import ZipFile

import pytest

PACKAGES = {"iosim": "iosim", "iosim_reference": "reference/iosim_reference", "iosim_gpu": "gpu/iosim_gpu"}


@pytest.fixture(scope="module")
def wheel(source_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=source_tree, check=True, capture_output=True)
    return ZipFile(next(folder.glob("*.whl")))


def dist_info(source_tree: Path) -> str:
    project = tomllib.loads((source_tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['name']}-{project['version']}.dist-info"


def test_top_level_names(wheel: ZipFile, source_tree: Path) -> None:
    assert {name.partition("/")[0] for name in wheel.namelist()} == {*PACKAGES, dist_info(source_tree)}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_of_a_package_is_there_and_no_other(wheel: ZipFile, source_tree: Path, package: str) -> None:
    folder = source_tree / PACKAGES[package]
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    kept = {path.as_posix() for path in files if not any(part.startswith((".", "__pycache__")) for part in path.parts)}
    packed = {name for name in wheel.namelist() if name.startswith(f"{package}/")}
    assert packed == {f"{package}/{name}" for name in kept}
    assert f"{package}/py.typed" in packed


def test_metadata(wheel: ZipFile, source_tree: Path) -> None:
    info = dist_info(source_tree)
    metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
    needed = {line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line}
    assert needed == {"click", "matplotlib", "numpy>=2"}
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert wheel.read(f"{info}/entry_points.txt").decode().split("\n")[:2] == ["[console_scripts]", "iosim = iosim.cli:main"]
