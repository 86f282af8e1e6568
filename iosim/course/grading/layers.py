"""Which layers protect submissions here: each is tried by itself, then all together, before the first submission runs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Container, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from iosim.core.errors import BadInput
from iosim.course.grading import probes

Ask = Callable[[tuple[str, ...], int, dict[str, object], bytes], bytes]
"""Run a probe in a child under layers, with a uid: its job, its source, its answer; empty where the layers could not be applied."""

_FILES = ("read_open", "make_file", "open_memory", "copy_memory")
_ALONE = "--unprotected grades without it"


@dataclass(frozen=True, slots=True)
class Found:
    """The layers that hold, in order, and the uid that children take (the grader's own where it cannot be changed)."""

    layers: tuple[str, ...]
    uid: int


class Prober:
    """Asks children what they can do under which layers. ``without``: layers that are left out, for tests of the others."""

    def __init__(self, ask: Ask, target: probes.Target, without: Container[str] = ()) -> None:
        self._ask, self._target, self._without = ask, target, without

    def find(self, uids: tuple[int, ...]) -> Found:
        """Try every layer; ``uids``: those a child may take, in order of preference."""
        layers = [name for name in ("rlimits", "Landlock", "seccomp") if self.holds(name, self._target.uid)]
        if "Landlock" not in layers and self.holds("namespaces", self._target.uid):
            layers.append("namespaces")
        uid = next((uid for uid in uids if self.holds("own uid", uid)), None)
        if uid is not None:
            layers.append("own uid")
        if self.holds_orphans():
            layers.append("subreaper")
        return Found(tuple(layers), self._target.uid if uid is None else uid)

    def holds(self, layer: str, uid: int) -> bool:
        """Whether a layer stops, with no other in force, what it is there to stop."""
        attempts = probes.ALONE[layer]
        return layer not in self._without and self.succeed(attempts, (layer,), uid) == ()

    def succeed(self, attempts: tuple[str, ...], layers: tuple[str, ...], uid: int) -> tuple[str, ...] | None:
        """The attempts that succeed under the layers; None where there is no answer, as where a layer cannot be had."""
        answer = self._ask(layers, uid, {"target": asdict(self._target), "attempts": attempts}, b"")
        if len(answer) != len(attempts):
            return None
        return tuple(name for name, succeeded in zip(attempts, answer, strict=True) if succeeded)

    def holds_orphans(self) -> bool:
        """Whether a process that left its session and its parent is ended with the child that started it."""
        if "subreaper" in self._without:
            return False
        answer = self._ask((), self._target.uid, {"target": asdict(self._target)}, b"orphan")
        return answer.isdigit() and _ended(int(answer))

    def require(self, found: Found) -> None:
        """BadInput, in one line, where files are not kept apart or root cannot become someone else."""
        if self.succeed(_FILES, found.layers, found.uid) != ():
            raise BadInput(
                "grading needs submissions kept from all files, and here neither Landlock (Linux 5.13) nor a mount namespace"
                f" does that: grade on such a system; {_ALONE}"
            )
        if self._target.uid == 0 and "own uid" not in found.layers:
            raise BadInput(f"grading as root needs another uid for submissions, and it cannot be changed here: grade as a user; {_ALONE}")


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):  # the latter where somebody else has got the number since
        return True
    return False


@contextlib.contextmanager
def target(memory: int) -> Iterator[probes.Target]:
    """A folder and a secret to attack, of this process; gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="iosim-probe-"))
    secret = ctypes.create_string_buffer(b"a secret of the grader's")
    try:
        folder.chmod(0o755)
        for name, mode in ((probes.OPEN, 0o644), (probes.PRIVATE, 0o600), (probes.GROWN, 0o666)):
            (folder / name).write_bytes(b"a secret of the grader's")
            (folder / name).chmod(mode)
        yield probes.Target(str(folder), os.getpid(), ctypes.addressof(secret), os.getuid(), memory)
    finally:
        shutil.rmtree(folder)
