"""Hardware counters, by Nsight Compute: what a GPU itself says a kernel asked for, and what of it each level of the hierarchy saw.

Only the first level can equal the model: bytes that the threads asked for are 4 for each element. Below it come transactions and caches,
so every level is a row of its own, and only what is meant to be exact is compared:

requested bytes   == 4 x the model's elements
L1 sectors        == those of the emulated PTX, for arrays that are loaded and stored and not updated atomically
L2 sectors        shown: what L1 answers for the blocks of one SM does not get there
DRAM bytes        shown: an L2 of tens of MB answers the re-reads of every problem that fits into it, and keeps what was written
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from iosim.core.errors import BadInput
from iosim_gpu import profile_target
from iosim_gpu.calls import prepared
from iosim_gpu.case import Case
from iosim_gpu.environment import REMEDIES
from iosim_gpu.moved import Measured

WORD = 4
REQUESTED = "smsp__sass_data_bytes_mem_global_op_{}.sum"
L1 = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
L2 = "lts__t_sectors_srcunit_tex_op_{}.sum"
DRAM = "dram__bytes_{}.sum"

BYTES, SECTORS = "byte", "sector"
QUANTITIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "requested bytes read": (BYTES, tuple(REQUESTED.format(op) for op in ("ld", "atom", "red"))),
    "requested bytes written": (BYTES, tuple(REQUESTED.format(op) for op in ("st", "atom", "red"))),
    "L1 sectors": (SECTORS, tuple(L1.format(op) for op in ("ld", "st"))),
    "L1 sectors of atomics": (SECTORS, tuple(L1.format(op) for op in ("atom", "red"))),
    "L2 sectors": (SECTORS, tuple(L2.format(op) for op in ("read", "write", "atom", "red"))),
    "DRAM bytes read": (BYTES, (DRAM.format("read"),)),
    "DRAM bytes written": (BYTES, (DRAM.format("write"),)),
}
"""Each row's unit and the counters that make it up, of all launches of a case together. An atomic update reads and writes."""

METRICS = tuple(dict.fromkeys(metric for _, metrics in QUANTITIES.values() for metric in metrics))
WHOLE = re.compile(r"\d+|\d{1,3}(,\d{3})+")
SECONDS = 60
REFUSED = {
    "ERR_NVGPUCTRPERM": "ncu may not read the GPU's counters (ERR_NVGPUCTRPERM); run it as root, or have the driver loaded with "
    "NVreg_RestrictProfilingToAdminUsers=0",
    "No kernels were profiled": "ncu saw no kernel; the program that it watched launched none",
}

Runner = Callable[[Sequence[str]], str]
"""Runs a command and gives everything that it said."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch as ncu reports it: the kernel's mangled or plain name, and the counters by name."""

    kernel: str
    counters: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One quantity of one case.

    Args:
        kernel, case: their names.
        quantity, unit: what is measured.
        measured: what ncu reports.
        expected: what it must be; None where nothing is claimed.
        beside: a number to compare it with, in words.
    """

    kernel: str
    case: str
    quantity: str
    unit: str
    measured: int
    expected: int | None = None
    beside: str = ""

    @property
    def equal(self) -> bool | None:
        """Whether what should be exact is; None where nothing is claimed."""
        return None if self.expected is None else self.measured == self.expected

    @property
    def failure(self) -> str | None:
        """In one line what is wrong; None where nothing is."""
        if self.equal is not False:
            return None
        return f"{self.kernel} {self.case}: {self.quantity} are {self.measured:,} by Nsight Compute, and {self.expected:,} are expected"

    def record(self) -> dict[str, str | int | bool | None]:
        """The row as JSON has it."""
        names = ("kernel", "case", "quantity", "unit", "measured", "expected", "equal", "beside")
        return {name: getattr(self, name) for name in names}


def profile(case: Case, run: Runner | None = None) -> list[Launch]:
    """The launches of ``case`` on the GPU of this machine, in order, as ncu sees them.

    Raises :class:`iosim.core.errors.BadInput`, in one line, where there is no ncu, it may not count, or its report is not as expected.
    """
    return launches((run or _run)(command(case)), case)


def command(case: Case) -> list[str]:
    """What is run: every launch of the target is profiled, with caches flushed before it and clocks left as they are."""
    options = ["--clock-control", "none", "--cache-control", "all", "--csv", "--page", "raw", "--print-units", "base"]
    target = [sys.executable, "-m", profile_target.NAME, profile_target.spelled(case)]
    return ["ncu", *options, "--metrics", ",".join(METRICS), *target]


def rows(case: Case, found: Sequence[Launch], emulated: Measured | None = None) -> list[Row]:
    """The quantities of ``case``, summed over its launches, beside what is expected of them."""
    expected, beside = _requested(case) | _sectors(emulated), _compulsory(case)
    made = []
    for quantity, (unit, metrics) in QUANTITIES.items():
        measured = sum(launch.counters[metric] for launch in found for metric in metrics)
        made.append(Row(case.kernel, case.name, quantity, unit, measured, expected.get(quantity), beside.get(quantity, "")))
    return made


def _requested(case: Case) -> dict[str, int]:
    words = case.predicted().values()
    return {
        "requested bytes read": WORD * sum(moved.reads for moved in words),
        "requested bytes written": WORD * sum(moved.writes for moved in words),
    }


def _sectors(emulated: Measured | None) -> dict[str, int]:
    """Sectors of the arrays that no launch updates atomically; nothing is claimed where the emulator gives none."""
    if emulated is None:
        return {}
    plain = [moved.sectors for moved in emulated.arrays.values() if not moved.atomics]
    mixed = any(moved.atomics and (moved.loads or moved.stores) for moved in emulated.arrays.values())
    return {} if mixed or None in plain else {"L1 sectors": sum(sectors for sectors in plain if sectors is not None)}


def _compulsory(case: Case) -> dict[str, str]:
    """What DRAM cannot do without: every array that is read or written, once."""
    sizes = {name: array.nbytes for name, array in prepared(case).items()}
    words = case.predicted()
    first_touch = sum(sizes[name] for name, moved in words.items() if moved.reads and not moved.writes)
    return {"DRAM bytes read": f"inputs are {first_touch:,} bytes", "L2 sectors": "at most L1's, 32 bytes each"}


def launches(text: str, case: Case) -> list[Launch]:
    """The launches in what ncu printed, one for each step of ``case``; raises :class:`iosim.core.errors.BadInput` for anything else."""
    found = parsed(text)
    steps = [step.name for step in case.steps]
    if len(found) != len(steps):
        raise BadInput(f"ncu saw {len(found)} launches, and {case.kernel} is made of {len(steps)}: {', '.join(steps)}")
    return found


def parsed(text: str) -> list[Launch]:
    """The raw page that ``ncu --csv`` prints: a line of names, one of units, one a launch; what else is printed begins otherwise.

    Raises :class:`iosim.core.errors.BadInput` for ncu's own errors, a missing counter, one without a value, a scaled unit, a foreign
    number.
    """
    table = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    start = next((at for at, line in enumerate(table) if line[0] == "ID"), None)
    if start is None or len(table) < start + 3:
        raise BadInput(refusal(text))
    names, units, *launched = table[start:]
    missing = [metric for metric in METRICS if metric not in names]
    if missing:
        raise BadInput(f"ncu does not report {missing[0]}; this version of it, or this GPU, has no such counter")
    for metric in METRICS:
        _base_unit(metric, units[names.index(metric)])
    return [_launch(dict(zip(names, line, strict=False))) for line in launched]


def _launch(line: Mapping[str, str]) -> Launch:
    return Launch(line.get("Kernel Name", ""), {metric: _whole(metric, line.get(metric, "")) for metric in METRICS})


def _base_unit(metric: str, unit: str) -> None:
    if unit not in ("", BYTES, SECTORS):
        raise BadInput(f"ncu reports {metric} in {unit!r}, which is rounded; --print-units base gives {BYTES} and {SECTORS}")


def _whole(metric: str, text: str) -> int:
    """A count, with commas between its thousands or without."""
    if not WHOLE.fullmatch(text):
        raise BadInput(f"ncu gives {metric} as {text!r}, which is no whole number; it writes 1,234 or 1234 where LC_ALL is C")
    return int(text.replace(",", ""))


def refusal(text: str) -> str:
    """Why ncu printed no table, in one line: what the target said, what ncu is known to say, the first of its errors."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    target = next((line for line in lines if line.startswith(f"{profile_target.NAME}:")), None)
    known = next((line for said, line in REFUSED.items() if said in text and said.startswith("ERR")), None)
    error = next((line for line in lines if line.startswith("==ERROR==")), None)
    nothing = next((line for said, line in REFUSED.items() if said in text), None)
    last = f"the last line is {lines[-1]!r}" if lines else "it printed nothing"
    return target or known or error or nothing or f"ncu printed no table; {last}"


def _run(asked: Sequence[str]) -> str:
    """Standard output and error of a command, whatever its status; numbers as LC_ALL=C has them."""
    if shutil.which(asked[0]) is None:
        raise BadInput(f"there is no {asked[0]} on the PATH; {REMEDIES['ncu']}")
    try:
        done = subprocess.run(
            asked, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False, env={**os.environ, "LC_ALL": "C"}
        )
    except subprocess.TimeoutExpired as late:
        raise BadInput(f"ncu took more than {SECONDS} s") from late
    return f"{done.stdout}\n{done.stderr}"
