"""CUDA kernels are found by their declarations, and nobody else knows their names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import iosim_gpu
from iosim.cli import gpu_cases
from iosim_gpu import catalogue, kernels
from iosim_gpu.catalogue import KERNELS, found
from iosim_gpu.declaration import Kernel

ONE_MORE = """
from iosim_gpu.declaration import Kernel, launch

@launch("Q O", "Q.loads O.stores", "queries")
def copied(tiling):
    def kernel(Q, O, scale, counts):
        O[0, 0, 0] = Q[0, 0, 0]
    return kernel

KERNEL = Kernel("one-more", lambda: (copied,))
"""


def test_a_file_with_a_declaration_is_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one_more.py").write_text(ONE_MORE, encoding="utf-8")
    (tmp_path / "no_kernel.py").write_text("KERNEL = 3", encoding="utf-8")
    monkeypatch.setattr(kernels, "__path__", [*kernels.__path__, str(tmp_path)])
    more = {kernel.name: kernel for kernel in found()}
    assert more.keys() == {*KERNELS, "one-more"}
    (step,) = more["one-more"].steps()
    assert (step.name, step.arrays, step.slots) == ("copied", ("Q", "O"), ("Q.loads", "O.stores"))


def test_kernels_stand_in_the_order_that_they_declare() -> None:
    assert [kernel.place for kernel in KERNELS.values()] == sorted(kernel.place for kernel in KERNELS.values())
    assert all(isinstance(kernel, Kernel) and catalogue.kernel(name) is kernel for name, kernel in KERNELS.items())


def outside() -> list[Path]:
    """The modules that run, measure and show kernels, without those that are kernels."""
    package, shown = Path(iosim_gpu.__file__).parent, Path(gpu_cases.__file__).parent
    own = [file for file in package.rglob("*.py") if file.parent.name != "kernels"]
    return [*own, *shown.glob("gpu_*.py"), *(shown / "commands" / "gpu").glob("*.py")]


@pytest.mark.parametrize("module", outside(), ids=lambda file: file.name)
def test_no_module_outside_names_a_kernel(module: Path) -> None:
    texts = {node.value for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)}
    assert not texts & {*KERNELS, "-backward"}
