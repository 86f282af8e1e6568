"""What a submission's process gives up before a line of it is read. Standard library only; loaded by path, never with iosim.

Each layer stops something that the others might let through. A layer that was asked for and cannot be had raises: nothing is run then.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from dataclasses import dataclass

from iosim.course.grading import landlock, libc, namespaces, seccomp

LAYERS = ("rlimits", "own uid", "Landlock", "namespaces", "seccomp", "subreaper")
"""Every layer by name. "namespaces" stands in for Landlock; "subreaper" is the fork server's, who ends what a submission leaves behind."""

_PARENT_DEATH_SIGNAL = 1
_CAPABILITIES_VERSION = 0x20080522


@dataclass(frozen=True, slots=True)
class Box:
    """How a child is protected: ``layers`` by name, the ``uid`` it takes, seconds of ``cpu`` and bytes of ``memory`` (address space)."""

    layers: tuple[str, ...]
    uid: int
    cpu: int
    memory: int


def protect(box: Box, parent: int, rules: int) -> None:
    """Apply the layers of ``box`` to this process. ``parent``: the process to die with; ``rules``: a descriptor of Landlock's rules."""
    if "namespaces" in box.layers:
        namespaces.leave_files()
    if "own uid" in box.layers:
        become(box.uid)
    if box.layers:
        drop_capabilities()
    die_with(parent)  # after the change of uid, which forgets it
    if "rlimits" in box.layers:
        limit(box.cpu, box.memory)
    if "Landlock" in box.layers:
        landlock.restrict(rules)
    os.close(rules)
    if "seccomp" in box.layers:
        seccomp.restrict()


def limit(cpu: int, memory: int) -> None:
    """Bound processor time, address space and descriptors; forbid growing files, new processes (for anyone but root), locks and queues."""
    import resource  # Unix only; this module can be loaded elsewhere

    sizes = {"CPU": cpu, "AS": memory, "NOFILE": 16, "CORE": 0, "FSIZE": 0, "NPROC": 0, "MEMLOCK": 0, "MSGQUEUE": 0}
    for name, size in sizes.items():
        if (number := getattr(resource, f"RLIMIT_{name}", None)) is not None:
            # A second more of CPU: the soft limit ends a loop with a signal of its own, the hard one whoever is deaf to that.
            resource.setrlimit(number, (size, size + (name == "CPU")))


def become(uid: int) -> None:
    """Take a user and group of that number and no other group, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_capabilities() -> None:
    """Give up what a user namespace, or root, may do beyond its files."""
    if sys.platform == "linux":
        libc.call("capset", struct.pack("<Ii", _CAPABILITIES_VERSION, 0), bytes(24))


def die_with(parent: int) -> None:
    """End when ``parent`` does, and at once where it already has."""
    if sys.platform == "linux":
        libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
