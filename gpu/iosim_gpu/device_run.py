"""``python -m iosim_gpu.device_run --out FILE.json``: everything that only a GPU can say, in under three minutes.

Parts run one after the other, each in a process of its own with a time limit: a kernel that hangs or leaves its arrays ends its process
and no other. What a part found, or the one line that says why it found nothing, goes into the file, which appears when all are done, whole
or not at all. Exit status 0: every part that claims exactness holds; 1: one does not, or could not be tried; 2: there is no GPU, or the
arguments are wrong, and nothing was written.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from iosim.core.errors import BadInput, IosimError
from iosim_gpu import bench, defaults, environment
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.check import compare
from iosim_gpu.meters import device, nsight
from iosim_gpu.moved import Measured

NAME = "iosim_gpu.device_run"
FORMAT = 1
TESTS = Path("tests", "gpu")
PROFILED = tuple(defaults.large(kernel.name) for kernel in KERNELS.values() if kernel.timed)
"""Small, since the emulator says how many sectors L1 should see, and takes seconds."""

Json = dict[str, Any]
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a part found. ``exact``: whether its exact claims hold; None where it makes none. ``line``: the result for people."""

    exact: bool | None
    line: str
    found: Any = None

    def record(self) -> Json:
        """The outcome as JSON has it."""
        return {"exact": self.exact, "line": self.line, "found": finite(self.found)}


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to do.

    Args:
        name: its name on the command line.
        what: one line about it.
        seconds: its time limit.
        exact: whether it counts as a failure when it cannot be done.
        do: does it.
    """

    name: str
    what: str
    seconds: int
    exact: bool
    do: Callable[[], Outcome]


def versions() -> Outcome:
    """Python, NumPy, all that CUDA needs with the place it was found in, and the device."""
    parts = {part.name: {"found": part.found, "detail": part.detail, **part.numbers} for part in environment.parts()}
    iosim = environment.released("iosim", "from a source tree")
    found = {"python": platform.python_version(), "numpy": np.__version__, "iosim": iosim, **parts, "nvidia-smi": _smi()}
    return Outcome(None, f"Python {found['python']}, NumPy {found['numpy']}, {parts['device']['detail']}", found)


def _smi() -> str:
    """The driver's own version, which CUDA's is not."""
    try:
        asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return environment.told(error)


def tests() -> Outcome:
    """The tests that need a GPU, where skipping is failing."""
    root = Path(__file__).parents[2]
    if not (root / TESTS).is_dir():
        return Outcome(None, f"no {TESTS} here: the tests come with the source tree, not with the package")
    asked = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "needs_device", str(TESTS)]
    done = subprocess.run(asked, cwd=root, env={**os.environ, "IOSIM_REQUIRE_GPU": "1"}, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()] or done.stderr.splitlines()
    return Outcome(done.returncode == 0, lines[-1] if lines else f"pytest ended with status {done.returncode}", lines[-60:])


def counters(cases: Sequence[Case] | None = None, measure: Callable[[Case], Measured] = device.measure_counters_on_device) -> Outcome:
    """In-kernel counters on the device beside the model, to the element, and values beside the float64 oracle's."""
    rows, refused = _each(defaults.cases() if cases is None else cases, lambda case: compare(case, measure(case)))
    wrong = [*refused, *(row.failure for row in rows if row.failure is not None)]
    line = wrong[0] if wrong else f"{len(rows)} arrays: every count is the model's, every value within its bound"
    return Outcome(not wrong, line, {"rows": [row.record() for row in rows], "failures": wrong})


def timings(measure: Callable[[], list[bench.Timing]] = bench.timings) -> Outcome:
    """Standard attention by cuBLAS beside the kernels; nothing about time is exact, but what is timed must be right."""
    found = measure()
    wrong = [f"{one.by} {one.kernel} {one.case} errs by {one.max_error:.1e}" for one in found if not one.max_error <= one.bound]
    line = wrong[0] if wrong else "; ".join(f"{one.by} {one.kernel} {one.case}: {1e3 * one.median_seconds:.3g} ms" for one in found)
    return Outcome(False if wrong else None, line, [one.record() for one in found])


def profiles(cases: Sequence[Case] = PROFILED, profile: Callable[[Case], list[nsight.Launch]] = nsight.profile) -> Outcome:
    """Nsight Compute's counters; the requested bytes and the sectors of L1 are exact, L2 and DRAM are shown."""
    rows, refused = _each(cases, lambda case: nsight.rows(case, profile(case), _emulated(case)))
    wrong = [row.failure for row in rows if row.failure is not None]
    held = sum(row.equal is True for row in rows)
    line = [*wrong, *refused, f"{held} of {len(rows)} quantities are claimed to be exact, and are"][0]
    exact = not wrong if rows else None  # without permission to count, nothing is claimed
    return Outcome(exact, line, {"rows": [row.record() for row in rows], "failures": [*wrong, *refused]})


def _each(cases: Sequence[Case], measure: Callable[[Case], Sequence[Row]]) -> tuple[list[Row], list[str]]:
    """The rows of all cases that can be measured, and a line for each that cannot, for the others are still worth it."""
    rows: list[Row] = []
    refused: list[str] = []
    for case in cases:
        try:
            rows += measure(case)
        except Exception as error:
            refused.append(f"{case.kernel} {case.name}: {told(error)}")
    return rows, refused


def _emulated(case: Case) -> Measured | None:
    """The case by the emulator, compiled for the device; where it cannot be, no sectors are claimed."""
    capability = str(environment.part("device").numbers.get("compute_capability", "9.0"))
    try:
        found: Measured = import_module("iosim_gpu.meters.emulator").measure(case, arch=f"sm_{capability.replace('.', '')}")
    except BadInput:
        return None
    return found


PARTS = (
    Part("versions", "versions of everything, and the device", 15, False, versions),
    Part("tests", f"pytest -m needs_device {TESTS}, where skipping is failing", 65, True, tests),
    Part("counters", "in-kernel counters and values of every kernel, beside the model and the float64 oracle", 45, True, counters),
    Part("timings", "standard attention by CuPy beside the kernels", 25, False, timings),
    Part("nsight", "hardware counters by Nsight Compute", 30, False, profiles),
)
"""In order; their limits add up to three minutes."""

Attempt = Callable[[Part], Json]


def run(parts: Sequence[Part], attempt: Attempt, say: Callable[[str], object]) -> Json:
    """Try every part, whatever becomes of the others; ``say`` gets one line of each."""
    found: Json = {"format": FORMAT, "started": datetime.now(UTC).isoformat(timespec="seconds"), "parts": {}}
    for part in parts:
        begun = time.monotonic()
        outcome = attempt(part)
        found["parts"][part.name] = {**outcome, "seconds": round(time.monotonic() - begun, 1)}
        say(f"{part.name}: {outcome['line']}")
    found["exact"] = all(one["exact"] is not False for one in found["parts"].values())
    return found


def apart(part: Part, command: Sequence[str] | None = None) -> Json:
    """Do ``part`` in a process of its own; never raises for what happens there. ``command`` stands in for it."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "part.json")
        asked = [*(command or (sys.executable, "-P", "-m", NAME, "--part", part.name, "--out")), out]
        said, status = _within(asked, part.seconds)
        with suppress(OSError, json.JSONDecodeError):
            found: Json = json.loads(Path(out).read_text(encoding="utf-8"))
            return found
    return Outcome(False if part.exact else None, f"failed: {_fate(status, said, part.seconds)}").record()


def _within(asked: Sequence[str], seconds: float) -> tuple[str, int | None]:
    """What a command and its children said on standard error, and its status; None if they were ended for being late."""
    process = subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        return process.communicate(timeout=seconds)[1], process.returncode
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)  # its children too, such as pytest or ncu
        said = process.communicate()[1]
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return said, None


def _fate(status: int | None, said: str, seconds: int) -> str:
    if status is None:
        return f"ended after {seconds} s without an answer"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{lines[-1]} ({how})" if lines else how


def done(part: Part) -> Json:
    """Do ``part`` in this process; whatever it raises becomes its line."""
    try:
        return part.do().record()
    except Exception as error:
        return Outcome(False if part.exact else None, f"failed: {told(error)}").record()


def told(error: Exception) -> str:
    """An exception in one line; ours say by themselves what is wrong."""
    return str(error) if isinstance(error, IosimError) else environment.told(error)


def finite(value: Any) -> Any:
    """``value`` with texts for infinities and NaN, for which JSON has no word."""
    if isinstance(value, Mapping):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A file to write, which takes the name ``path`` when all went well."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def plan(parts: Sequence[Part]) -> str:
    """What would be run, one line a part."""
    lines = [f"{part.name:9} at most {part.seconds:2} s  {'exact  ' if part.exact else '       '}{part.what}" for part in parts]
    return "\n".join([*lines, f"together at most {sum(part.seconds for part in parts)} s"])


def main(
    arguments: Sequence[str], *, parts: Sequence[Part] = PARTS, absent: Callable[[], str] = device.absent, attempt: Attempt = apart
) -> int:
    """The program; ``parts``, ``absent`` and ``attempt`` can be others to try it without a GPU."""
    asked = _asked(arguments, parts)
    if asked.plan:
        _say(sys.stdout, plan(parts))
        return 0
    if asked.part:
        found, missing = done(next(part for part in parts if part.name == asked.part)), ""
    elif not (missing := absent()):
        found = run(parts, attempt, lambda line: _say(sys.stderr, line))
    if missing:
        _say(sys.stderr, f"{NAME}: {missing}")
        return 2
    with whole(Path(asked.out)) as draft:
        draft.write_text(json.dumps(found, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return 1 if found["exact"] is False else 0


def _asked(arguments: Sequence[str], parts: Sequence[Part]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {NAME}", description="Everything that only a GPU can say, as one JSON file.")
    parser.add_argument("--out", metavar="FILE.json", help="where to write it")
    parser.add_argument("--plan", action="store_true", help="say what would be run, and run nothing")
    parser.add_argument("--part", choices=[part.name for part in parts], help="only this one, in this process, GPU or not")
    asked = parser.parse_args(arguments)
    if not asked.plan and (wrong := _unwritable(asked.out)):
        parser.error(wrong)
    return asked


def _unwritable(out: str | None) -> str:
    """What is wrong with ``out``, before minutes are spent on what could not be written."""
    if not out:
        return "--out FILE.json is missing"
    folder = Path(out).resolve().parent
    writable = folder.is_dir() and os.access(folder, os.W_OK) and not Path(out).is_dir()
    return "" if writable else f"--out {out} cannot be written; give a file in a folder that exists"


def _say(where: Any, line: str) -> None:
    where.write(f"{line}\n")
    where.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
