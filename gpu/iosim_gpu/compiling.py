"""From a kernel to PTX, and to what its machine code needs of an SM; without a GPU or a driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from iosim.core.errors import BadInput
from iosim_gpu.calls import Call
from iosim_gpu.declaration import Step
from iosim_gpu.environment import needs, told
from iosim_gpu.tiling import Tiling

Kinds = tuple[tuple[str, int], ...]

ARCHES = ("sm_80", "sm_90")
"""What the checks compile for: A100, and H100 or H200."""

ENTRY = re.compile(r"\.visible \.entry (_Z(\w+))\(")
ROOM = re.compile(r"\.(shared|local)\s+\.align\s+\d+\s+\.b8\s+\w+\[(\d+)\];")
REPORT = re.compile(
    r"(?P<stack_bytes>\d+) bytes stack frame, (?P<spill_stores>\d+) bytes spill stores, (?P<spill_loads>\d+) bytes spill loads\s"
    r".*?: Used (?P<registers>\d+) registers\b",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a compiled kernel takes of an SM.

    Args:
        registers, stack_bytes: of a thread, as the assembler reports.
        spill_stores, spill_loads: bytes of a thread, as the assembler reports.
        shared_bytes: static bytes of a thread block, as the PTX declares.
        local_bytes: bytes of a thread, as the PTX declares.
        double: whether anything in the PTX is float64.
    """

    registers: int
    stack_bytes: int
    spill_stores: int
    spill_loads: int
    shared_bytes: int
    local_bytes: int
    double: bool


def to_ptx(call: Call, arch: str = "sm_90") -> str:
    """The PTX of the kernel that ``call`` launches, as NVVM wrote it, with the name of the step in place of the mangled one.

    Every step, tiling and architecture is compiled once in a process. Raises :class:`iosim.core.errors.BadInput` for an architecture that
    NVVM does not know, in a process whose kernels are simulated, and where NVVM or NVRTC is missing.
    """
    kinds = tuple((value.dtype.name, np.ndim(value)) for _, value in call.args)
    return _compiled(call.step, call.tiling, kinds, arch)


def usage(ptx: str, arch: str = "sm_90") -> Usage:
    """What the machine code of ``ptx`` needs.

    Raises :class:`iosim.core.errors.BadInput` where no machine code can be made, and where the assembler's report cannot be read.
    """
    return reported(_assembled(ptx, arch), ptx)


def reported(report: str, ptx: str) -> Usage:
    """The numbers of an assembler's report on the one kernel in ``ptx``."""
    found = list(REPORT.finditer(report))
    if len(found) != 1:
        told = " ".join(report.split()) or "nothing"
        raise BadInput(f"the assembler should report the registers and spills of one kernel; it says: {told}")
    numbers = {name: int(number) for name, number in found[0].groupdict().items()}
    return Usage(**numbers, shared_bytes=declared(ptx, "shared"), local_bytes=declared(ptx, "local"), double=".f64" in ptx)


def declared(ptx: str, space: str) -> int:
    """Bytes that a kernel declares in "shared" or "local" memory."""
    return sum(int(size) for found, size in ROOM.findall(ptx) if found == space)


def instructions(ptx: str) -> Iterator[str]:
    """The instructions' names, with all their modifiers, in the order of the text: ``ld.global.f32`` and the like.

    >>> list(instructions("{ mov.u32 %r1, %tid.x;\\n@%p1 bra $L__BB0_2;\\n$L__BB0_2:\\n ret;\\n}"))
    ['mov.u32', 'bra', 'ret']
    """
    for line in ptx[ptx.find("{") + 1 :].splitlines():
        found = re.match(r"\s*(?:@!?%\w+\s+)?([a-z][\w.]*)[^:]*;", line)
        if found is not None:
            yield found[1]


@cache
def _compiled(step: Step, tiling: Tiling, kinds: Kinds, arch: str) -> str:
    capability = _capability(arch)
    needs("compile")
    from iosim_gpu.cuda import cuda, types

    signature = tuple(_type(types, name, rank) for name, rank in kinds)
    try:
        ptx = str(cuda.compile_ptx(step.make(tiling), signature, cc=capability)[0])
    except RuntimeError as error:  # of NVVM; what the kernel itself gets wrong is raised as it is
        raise BadInput(f"NVVM does not compile {step.name} for {arch}: {told(error)}") from error
    if f".target {arch}\n" not in ptx:  # NVVM takes the nearest architecture that it knows, and says nothing
        raise BadInput(f"NVVM does not know {arch}; ask for one of {', '.join(ARCHES)}")
    return renamed(ptx, step.factory.__name__)


def renamed(ptx: str, name: str) -> str:
    """The PTX with ``name`` for its kernel. A mangled name has hundreds of characters and differs between processes."""
    found = ENTRY.findall(ptx)
    if len(found) != 1:
        raise BadInput(f"the PTX of one kernel has one entry, this has {len(found)}")
    mangled, rest = found[0]
    return ptx.replace(mangled, name).replace(f"_ZN08NumbaEnv{rest[1:]}", f"{name}_environment")


def _type(types: Any, name: str, rank: int) -> Any:
    scalar = getattr(types, name)
    return scalar if rank == 0 else types.Array(scalar, rank, "C")


def _capability(arch: str) -> tuple[int, int]:
    found = re.fullmatch(r"sm_([0-9]+)([0-9])", arch)
    if found is None:
        raise BadInput(f"an architecture is written sm_80 or sm_90, not {arch!r}")
    return int(found[1]), int(found[2])


@cache
def _assembled(ptx: str, arch: str) -> str:
    """The assembler's report."""
    needs("assemble")
    from cuda.core import Linker, LinkerOptions, ObjectCode

    try:
        linker = Linker(ObjectCode.from_ptx(ptx.encode()), options=LinkerOptions(arch=arch, ptxas_options=["-v"]))
        linker.link("cubin")
        return str(linker.get_info_log())
    except Exception as error:
        raise BadInput(f"nvJitLink makes no machine code for {arch}: {told(error)}") from error
