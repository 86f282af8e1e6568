"""What of CUDA this machine has and, for what it has not, the one line that says what to do about it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Literal

from iosim.core.errors import BadInput

GPU = 'pip install "iosim[gpu]"'
REMEDIES = {
    **dict.fromkeys(("numba", "numba-cuda", "NVVM", "NVRTC", "nvJitLink", "simulator"), GPU),
    "driver": "install NVIDIA's driver, of CUDA 13.0 or newer (only to run on a GPU)",
    "device": "use a machine with a GPU (only for what runs on one; the other meters do not)",
    "cupy": 'pip install "iosim[cupy]" (only for baselines on a GPU)',
    "greenlet": 'pip install "iosim[races]" (makes the simulator faster, and its schedule fixed)',
    "ncu": "install Nsight Compute (only for hardware counters on a GPU)",
}
NEEDS = {
    "simulate": ("numba", "numba-cuda"),
    "compile": ("numba", "numba-cuda", "NVVM", "NVRTC"),
    "assemble": ("nvJitLink",),
    "run on a GPU": ("numba", "numba-cuda", "NVVM", "NVRTC", "nvJitLink", "driver", "device"),
}
WHEELS = {"NVVM": ("nvvm", "nvidia-nvvm"), "NVRTC": ("nvrtc", "nvidia-cuda-nvrtc"), "nvJitLink": ("nvJitLink", "nvidia-nvjitlink")}


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that the CUDA side may need: whether it works here, its version or why not, and what to do where it is missing.

    ``numbers`` are those of a device: bytes, compute capability, SMs.
    """

    name: str
    found: bool
    detail: str
    numbers: dict[str, int | str] = field(default_factory=dict)

    @property
    def remedy(self) -> str:
        """What to do; nothing for what works."""
        return "" if self.found else REMEDIES[self.name]


@dataclass(frozen=True, slots=True)
class Backend:
    """Where kernels that are launched in this process run, and how that is known."""

    kind: Literal["device", "simulator", "none"]
    reason: str


def parts() -> tuple[Part, ...]:
    """Everything, each tried out in this process; never raises for what is absent or broken."""
    return tuple(part(name) for name in REMEDIES)


def part(name: str) -> Part:
    """One of them by its name; whatever it raises when it is tried makes it absent."""
    try:
        return PROBES[name](name)
    except (Exception, SystemExit) as error:  # a broken installation may raise anything
        return Part(name, False, told(error))


def needs(what: str) -> None:
    """Raise :class:`iosim.core.errors.BadInput`, in one line that says what to install, where this process lacks something to do ``what``.

    ``what`` is a key of ``NEEDS``.
    """
    for name in NEEDS[what]:
        found = part(name)
        if not found.found:
            raise BadInput(f"to {what} needs {name}, which does not work here ({found.detail}): {found.remedy}")
    if what in ("compile", "run on a GPU") and simulated():
        raise BadInput(f"to {what} needs a process without Numba's simulator, which is on here: unset NUMBA_ENABLE_CUDASIM")


def installed() -> None:
    """Raise :class:`iosim.core.errors.BadInput` where Numba's packages are not there at all, without loading any."""
    for name in NEEDS["simulate"]:
        try:
            there = find_spec(name.replace("-", "_")) is not None
        except ValueError:  # of a module that is loaded and has no spec
            there = False
        if not there:
            raise BadInput(f"the CUDA kernels need {name}, which is not installed here: {REMEDIES[name]}")


def simulated() -> bool:
    """Whether this process runs kernels in Numba's simulator, where Numba says that there is a GPU."""
    return bool(import_module("numba").config.ENABLE_CUDASIM)


def backend() -> Backend:
    """Where kernels would run in this process. In the simulator ``numba.cuda.is_available()`` is true, so that it is asked last.

    >>> backend().kind in ("device", "simulator", "none")
    True
    """
    for name in NEEDS["simulate"]:
        if not (found := part(name)).found:
            return Backend("none", f"{name} does not work here ({found.detail}): {found.remedy}")
    if simulated():
        return Backend("simulator", "NUMBA_ENABLE_CUDASIM is set in this process")
    device = part("device")
    return Backend("device" if device.found else "none", device.detail)


def told(error: BaseException) -> str:
    """An exception in one line."""
    words, name = " ".join(str(error).split()).rstrip(" :."), type(error).__name__
    if words and isinstance(error, ModuleNotFoundError | FileNotFoundError):
        return words
    return f"{name}: {words}" if words else name


def _package(name: str) -> Part:
    return Part(name, True, f"{getattr(import_module(name), '__version__', None) or released(name)}")


def _numba_cuda(name: str) -> Part:
    """Numba has a CUDA target of its own, no longer developed; the package replaces it where both are sound."""
    place = import_module("numba.cuda").__file__ or ""
    if "numba_cuda" not in place:
        raise ImportError("numba.cuda is Numba's own, not that of numba-cuda")
    return Part(name, True, released(name))


def _library(name: str) -> Part:
    library, wheel = WHEELS[name]
    found = import_module("cuda.pathfinder").load_nvidia_dynamic_lib(library)
    place = f"wheel {wheel}" if found.found_via == "site-packages" else f"found by {found.found_via}"
    return Part(name, True, f"{released(wheel)}, {place}" if found.found_via == "site-packages" else place)


def _simulator(name: str) -> Part:
    if simulated():
        return Part(name, True, "on: nothing is compiled in this process, and no GPU is used")
    return Part(name, True, "off in this process; the meters that need it run in another")


def _driver(name: str) -> Part:
    binding = import_module("cuda.bindings.driver")
    error, number = binding.cuDriverGetVersion()
    if int(error):
        raise RuntimeError(f"cuDriverGetVersion says {error.name}")
    return Part(name, True, f"CUDA {number // 1000}.{number % 1000 // 10}")


def _device(name: str) -> Part:
    if simulated():
        raise RuntimeError("the simulator is on, in which Numba shows a GPU that is none")
    if not part("driver").found:
        raise FileNotFoundError("no driver, so no device")
    cuda = import_module("numba.cuda")
    device = cuda.get_current_device()
    numbers = device_numbers(device, cuda.current_context().get_memory_info().total)
    told_ = [f"{numbers[key]:,} {unit}" for key, unit in (("sms", "SMs"), ("memory", "bytes"), ("l2", "bytes of L2")) if key in numbers]
    return Part(name, True, ", ".join([f"{numbers['device']}, compute capability {numbers['compute_capability']}", *told_]), numbers)


def device_numbers(device: Any, memory: int) -> dict[str, int | str]:
    """What a device says of itself; memory and caches in bytes."""
    name = device.name.decode() if isinstance(device.name, bytes) else str(device.name)
    return {
        "device": name,
        "compute_capability": ".".join(map(str, device.compute_capability)),
        "sms": device.MULTIPROCESSOR_COUNT,
        "shared_memory_per_block": device.MAX_SHARED_MEMORY_PER_BLOCK,
        "shared_memory_per_block_optin": device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        "shared_memory_per_sm": device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        "l2": device.L2_CACHE_SIZE,
        "memory": memory,
    }


def _ncu(name: str) -> Part:
    place = shutil.which("ncu")
    if place is None:
        raise FileNotFoundError("no ncu on the PATH")
    return Part(name, True, place)


def released(distribution: str, unknown: str = "of unknown version") -> str:
    """The version of an installed package; ``unknown`` where that does not say."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return unknown


PROBES: dict[str, Callable[[str], Part]] = {
    **dict.fromkeys(("numba", "cupy", "greenlet"), _package),
    **dict.fromkeys(WHEELS, _library),
    "numba-cuda": _numba_cuda,
    "simulator": _simulator,
    "driver": _driver,
    "device": _device,
    "ncu": _ncu,
}
