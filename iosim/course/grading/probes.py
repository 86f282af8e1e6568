"""Whether a layer holds is found by trying what it should stop. Standard library only; loaded by path, never with iosim.

Every attempt is made in a throwaway child, under exactly the layers in question; True means that the attempt succeeded.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPEN, PRIVATE, GROWN = "open", "private", "grown"
"""The files of the folder that attempts are made on: everyone may read the first, its owner alone the second; all may write the third."""

_OUTLIVES = 5.0  # seconds for which an orphan that nobody ends is there to be found


@dataclass(frozen=True, slots=True)
class Target:
    """What is attacked: a folder, a secret of a process (where its bytes lie in memory), its user, and an amount of memory."""

    folder: str
    pid: int
    address: int
    uid: int
    memory: int


def read_open(target: Target) -> None:
    """Read a file that everyone may read."""
    Path(target.folder, OPEN).read_bytes()


def read_private(target: Target) -> None:
    """Read a file that only its owner may read."""
    Path(target.folder, PRIVATE).read_bytes()


def make_file(target: Target) -> None:
    """Make a file, empty as it may be."""
    Path(target.folder, f"made by {os.getpid()}").touch()


def grow_file(target: Target) -> None:
    """Write one byte to a file that exists."""
    with Path(target.folder, GROWN).open("ab", buffering=0) as file:
        file.write(b"x")


def hoard(target: Target) -> None:
    """Take as much memory as there is to be, and a byte more."""
    mmap.mmap(-1, target.memory + 1).close()


def fork(_: Target) -> None:
    """Start a process."""
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def connect(_: Target) -> None:
    """Make a socket."""
    socket.socket().close()


def send_signal(_: Target) -> None:
    """Send the parent a signal, the one that does nothing."""
    os.kill(os.getppid(), 0)


def open_memory(target: Target) -> None:
    """Read another process's memory as a file."""
    with Path(f"/proc/{target.pid}/mem").open("rb", buffering=0) as memory:
        memory.seek(target.address)
        memory.read(1)


def copy_memory(target: Target) -> None:
    """Read another process's memory by asking the system for it."""
    here = ctypes.create_string_buffer(1)
    mine, its = ((ctypes.c_size_t * 2)(address, 1) for address in (ctypes.addressof(here), target.address))
    if ctypes.CDLL(None, use_errno=True).process_vm_readv(target.pid, mine, 1, its, 1, 0) != 1:
        raise OSError(ctypes.get_errno(), "process_vm_readv")


def become(target: Target) -> None:
    """Become the user that the other process is."""
    os.setresuid(target.uid, target.uid, target.uid)


ATTEMPTS: dict[str, Callable[[Target], None]] = {
    attempt.__name__: attempt
    for attempt in (read_open, read_private, make_file, grow_file, hoard, fork, connect, send_signal, open_memory, copy_memory, become)
}

ALONE: dict[str, tuple[str, ...]] = {
    "rlimits": ("hoard", "grow_file"),
    "own uid": ("read_private", "become", "send_signal"),
    "Landlock": ("read_open", "make_file", "open_memory"),
    "namespaces": ("read_open", "make_file", "open_memory"),
    "seccomp": ("fork", "connect", "send_signal", "copy_memory", "become"),
}
"""What each layer stops with no other in force. The subreaper is asked in another way: see :func:`orphan`."""


def main(out: int, job: dict[str, Any], source: bytes, protect: Callable[[], None]) -> None:
    """Make the attempts named in ``job`` and write one byte for each: 1 where it succeeded, 0 where the system refused.

    With ``source``, which is then the word orphan, leave a process behind instead and write its number.
    """
    protect()
    target = Target(**job["target"])
    answers = orphan() if source == b"orphan" else bytes(_succeeds(ATTEMPTS[name], target) for name in job["attempts"])
    os.write(out, answers)


def orphan() -> bytes:
    """Start a process that leaves its session and its parent, and outlives both; its number in decimal."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if (pid := os.fork()) != 0:
            os.write(writer, str(pid).encode())
            os._exit(0)
        os.closerange(0, 64)
        time.sleep(_OUTLIVES)
        os._exit(0)
    os.close(writer)
    return os.read(reader, 20)


def _succeeds(attempt: Callable[[Target], None], target: Target) -> bool:
    try:
        attempt(target)
    except (OSError, MemoryError):
        return False
    return True
