"""The import diet: what loads with each package, and what works where an optional package is absent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iosim.core.dtypes import NAMES

LOADED = """
import importlib, pkgutil, sys
before = set(sys.modules)
package = importlib.import_module({package!r})
if {whole}:
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
print(*{{name.partition(".")[0] for name in set(sys.modules) - before}} - sys.stdlib_module_names)
"""

ABSENT = """
import sys
names = ["numba", "cupy", "greenlet", "matplotlib", "ml_dtypes", "click"]
sys.modules.update(dict.fromkeys(names))  # None: importing it raises ImportError
"""


def python(code: str, folder: Path) -> str:
    """What ``code`` prints in an interpreter of its own, started where nothing lies about to be imported."""
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_iosim_loads_numpy_alone(tmp_path: Path) -> None:
    loaded = set(python(LOADED.format(package="iosim", whole=False), tmp_path).split())
    assert {"iosim", "numpy"} <= loaded <= {"iosim", "numpy", "iosim_reference"}


def test_the_whole_oracle_loads_numpy_alone(tmp_path: Path) -> None:
    assert set(python(LOADED.format(package="iosim_reference", whole=True), tmp_path).split()) == {"iosim_reference", "numpy"}


def test_iosim_gpu_loads_nothing_by_itself(tmp_path: Path) -> None:
    assert python(LOADED.format(package="iosim_gpu", whole=False), tmp_path).split() == ["iosim_gpu"]


WITHOUT_NUMBA = (
    "baseline",
    "case",
    "catalogue",
    "check",
    "checks",
    "defaults",
    "environment",
    "judge",
    "kernels.flash2",
    "meters.nsight",
    "ptx",
)


@pytest.mark.parametrize("module", WITHOUT_NUMBA)
def test_what_needs_no_numba_of_iosim_gpu_loads_without_it(tmp_path: Path, module: str) -> None:
    loaded = set(python(ABSENT + LOADED.format(package=f"iosim_gpu.{module}", whole=False), tmp_path).split())
    assert {"iosim_gpu", "numpy"} <= loaded <= {"iosim", "iosim_gpu", "iosim_reference", "numpy"}


def test_a_cuda_kernel_without_numba_says_what_to_install(tmp_path: Path) -> None:
    ask = """
import iosim.core.errors
try:
    from iosim_gpu.case import Case
    case = Case("flash2", 4, 2, 2, 2, 2)
    case.steps[0].make(case.tiling)
except iosim.core.errors.IosimError as error:
    print(error)
"""
    assert python(ABSENT + ask, tmp_path).splitlines()[0].endswith('pip install "iosim[gpu]"')


def test_counting_needs_no_optional_package(tmp_path: Path) -> None:
    count = 'import iosim; print(iosim.simulate("flash2", iosim.Attention(n=64, d=16), sram=4096, execute=False).total)'
    assert int(python(ABSENT + count, tmp_path)) > 4 * 64 * 16  # at least Q, K, V in and O out


@pytest.mark.parametrize("name", [name for name in NAMES if not hasattr(np, name)])
def test_a_dtype_whose_package_is_absent_says_what_to_install(tmp_path: Path, name: str) -> None:
    ask = f"""
import iosim.core.dtypes, iosim.core.errors
try:
    iosim.core.dtypes.storage({name!r})
except iosim.core.errors.MissingExtra as error:
    print(error)
"""
    assert python(ABSENT + ask, tmp_path).splitlines() == [f'{name} needs ml_dtypes: pip install "iosim[dtypes]"']
