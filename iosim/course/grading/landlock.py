"""Landlock (Linux 5.13 or newer): a process gives up every file but a few. Standard library only; also loaded by path, without iosim.

A ruleset is made once, by the process that forks, and costs a submission one system call. See landlock(7) for the numbers.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from iosim.course.grading import libc

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_BENEATH = 1
_READ_FILE, _READ_FOLDER = 1 << 2, 1 << 3
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights over files each version knows; 16 from the fifth on
_TCP, _SIGNALS_AND_SOCKETS = 3, 3  # bind and connect (version 4); abstract sockets and signals (version 6)
_PACKAGES = {"site-packages", "dist-packages"}


def version() -> int:
    """The version of Landlock that the system has; OSError where it has none."""
    libc.machine()
    return libc.call("syscall", _CREATE, None, 0, 1)


def ruleset(library: str, package: str) -> int:
    """A descriptor of the rules: the standard library in ``library``, without installed packages, and ``package`` may be read, no more."""
    rules = libc.call("syscall", _CREATE, _handled(version()), len(_handled(version())), 0)
    _allow(rules, library, _READ_FOLDER)  # names alone: the import system lists a folder before it opens a file
    for path in (*_own(library), package):
        _allow(rules, path, _READ_FILE | _READ_FOLDER if os.path.isdir(path) else _READ_FILE)
    return rules


def restrict(rules: int) -> None:
    """Hold this process and all its children to the rules, for good."""
    libc.prctl(_NO_NEW_PRIVILEGES, 1)
    libc.call("syscall", _RESTRICT, rules, 0)


def _handled(known: int) -> bytes:
    rights = (1 << _RIGHTS.get(known, 16)) - 1
    words = (rights, _TCP, _SIGNALS_AND_SOCKETS)[: 1 + (known >= 4) + (known >= 6)]
    return struct.pack(f"<{len(words)}Q", *words)


def _allow(rules: int, path: str, rights: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        libc.call("syscall", _ADD, rules, _BENEATH, struct.pack("<Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _own(library: str) -> Iterator[str]:
    """What lies in the folder of the standard library and is no installed package, nor a link to somewhere else."""
    for entry in os.scandir(library):
        if entry.name not in _PACKAGES and not entry.is_symlink():
            yield entry.path
