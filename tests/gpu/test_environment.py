"""What is absent or broken is told, never raised, and the simulator is never taken for a GPU."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from iosim.core.errors import BadInput
from iosim_gpu import environment
from iosim_gpu.environment import NEEDS, REMEDIES, Part, backend, installed, needs, part, parts, told

Broken = Callable[[str, BaseException], None]


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    """A module that raises when it is imported, or a name that raises when it is asked for."""

    def make(name: str, error: BaseException) -> None:
        real = importlib.import_module

        def load(wanted: str) -> ModuleType:
            if wanted.partition(".")[0] == name:
                raise error
            return real(wanted)

        monkeypatch.setattr(environment, "import_module", load)

    return make


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine on which everything works; tests take away from it."""
    device = SimpleNamespace(
        name=b"NVIDIA H200", compute_capability=(9, 0), MULTIPROCESSOR_COUNT=132, MAX_SHARED_MEMORY_PER_BLOCK=49152,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=232448, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=233472, L2_CACHE_SIZE=62914560,
    )  # fmt: skip
    context = SimpleNamespace(get_memory_info=lambda: SimpleNamespace(total=150_000_000_000))
    loaded = SimpleNamespace(found_via="site-packages", abs_path="here")
    modules: dict[str, Any] = {
        "numba": SimpleNamespace(__version__="0.68.1", config=SimpleNamespace(ENABLE_CUDASIM=0)),
        "numba.cuda": SimpleNamespace(
            __file__="numba_cuda/numba/cuda/__init__.py", get_current_device=lambda: device, current_context=lambda: context
        ),
        "cuda.pathfinder": SimpleNamespace(load_nvidia_dynamic_lib=lambda _: loaded),
        "cuda.bindings.driver": SimpleNamespace(cuDriverGetVersion=lambda: (0, 13000)),
        "cupy": SimpleNamespace(__version__="14.2.0"),
        "greenlet": SimpleNamespace(__version__="3.5.6"),
    }
    monkeypatch.setattr(environment, "import_module", modules.__getitem__)
    monkeypatch.setattr(shutil, "which", lambda _: "ncu")
    return modules


def test_parts_are_told_whatever_is_here() -> None:
    found = parts()
    assert [part.name for part in found] == list(REMEDIES)
    assert all(part.detail and "\n" not in part.detail for part in found)
    assert all(bool(part.remedy) != part.found for part in found)


def test_every_need_is_a_part() -> None:
    assert {name for needed in NEEDS.values() for name in needed} <= set(REMEDIES)


ERRORS = [
    RuntimeError("boom\nat length"),
    ImportError("half installed"),
    OSError("libllvm"),
    SystemExit(3),
    AttributeError(),
    ValueError("x"),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_what_is_broken_counts_as_absent(broken: Broken, error: BaseException) -> None:
    broken("numba", error)
    for name in ("numba", "numba-cuda", "simulator", "device"):
        found = part(name)
        assert not found.found
        assert type(error).__name__ in found.detail or name == "device"
    assert backend().kind == "none"
    with pytest.raises(BadInput, match=r'^to simulate needs numba, which does not work here \([^\n]+\): pip install "iosim\[gpu\]"$'):
        needs("simulate")


def test_an_interrupt_is_not_taken_for_a_broken_package(broken: Broken) -> None:
    broken("numba", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        part("numba")


def test_a_whole_machine(whole: dict[str, Any]) -> None:
    assert [one.name for one in parts() if not one.found] == []
    assert backend().kind == "device"
    for what in NEEDS:
        needs(what)
    numbers = part("device").numbers
    assert numbers["device"] == "NVIDIA H200"
    assert numbers["compute_capability"] == "9.0"
    assert (numbers["shared_memory_per_block"], numbers["shared_memory_per_block_optin"]) == (49152, 232448)
    assert numbers["memory"] == 150_000_000_000
    assert "NVIDIA H200, compute capability 9.0" in part("device").detail
    assert part("driver").detail == "CUDA 13.0"


def test_the_simulator_is_no_gpu(whole: dict[str, Any]) -> None:
    whole["numba"].config.ENABLE_CUDASIM = 1
    assert backend().kind == "simulator"
    assert not part("device").found
    for what in ("compile", "run on a GPU"):
        with pytest.raises(BadInput, match="simulator"):
            needs(what)
    needs("simulate")


def test_without_a_driver_there_is_no_device(whole: dict[str, Any]) -> None:
    del whole["cuda.bindings.driver"]
    assert not part("driver").found
    assert part("device").detail == "no driver, so no device"
    assert backend() == environment.Backend("none", "no driver, so no device")
    needs("compile")
    with pytest.raises(BadInput, match="needs driver"):
        needs("run on a GPU")


def test_a_device_that_cannot_be_had_is_absent(whole: dict[str, Any]) -> None:
    """Numba's CudaSupportError is an ImportError: it must not read as if a package were missing."""

    class CudaSupportError(ImportError):
        pass

    def refuse() -> None:
        raise CudaSupportError("the driver is too old")

    whole["numba.cuda"].get_current_device = refuse
    assert part("device").detail == "CudaSupportError: the driver is too old"
    assert backend().kind == "none"
    assert part("numba").found


def test_numbas_own_cuda_is_not_that_of_numba_cuda(whole: dict[str, Any]) -> None:
    whole["numba.cuda"].__file__ = "numba/cuda/__init__.py"
    assert "Numba's own" in part("numba-cuda").detail
    with pytest.raises(BadInput, match="to compile needs numba-cuda"):
        needs("compile")


@pytest.mark.parametrize("name", ["NVVM", "NVRTC", "nvJitLink"])
def test_each_library_is_named(whole: dict[str, Any], name: str) -> None:
    library, wheel = environment.WHEELS[name]

    def load(wanted: str) -> Any:
        if wanted == library:
            raise RuntimeError(f"Failure finding {library}")
        return SimpleNamespace(found_via="CUDA_PATH", abs_path="there")

    whole["cuda.pathfinder"].load_nvidia_dynamic_lib = load
    assert [one.name for one in parts() if not one.found] == [name]
    what = "assemble" if name == "nvJitLink" else "compile"
    with pytest.raises(BadInput, match=rf'to {what} needs {name}, .*Failure finding {library}.*pip install "iosim\[gpu\]"'):
        needs(what)
    assert part("NVRTC" if name == "NVVM" else "NVVM").detail == "found by CUDA_PATH"
    assert wheel not in part(name).detail


def test_an_old_driver_says_what_is_wrong(whole: dict[str, Any]) -> None:
    class Code(int):
        name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"

    whole["cuda.bindings.driver"].cuDriverGetVersion = lambda: (Code(803), 0)
    assert "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" in part("driver").detail


@pytest.mark.parametrize("name", ["numba", "numba_cuda"])
def test_what_is_not_installed_is_found_without_loading_it(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(environment, "find_spec", lambda wanted: None if wanted == name else object())
    with pytest.raises(BadInput, match=rf'need {name.replace("_", "-")}, which is not installed here: pip install "iosim\[gpu\]"'):
        installed()


def test_told_is_one_line() -> None:
    assert told(ModuleNotFoundError("No module named 'numba'")) == "No module named 'numba'"
    assert told(RuntimeError("two\n  lines: ")) == "RuntimeError: two lines"
    assert told(KeyError()) == "KeyError"
    assert Part("numba", False, "why").remedy == REMEDIES["numba"]


def test_it_loads_nothing_of_cuda_by_itself(tmp_path: Path) -> None:
    code = "import sys, iosim_gpu.environment; print({'numba', 'cuda', 'cupy', 'greenlet'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
