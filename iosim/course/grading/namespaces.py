"""Where Landlock is not to be had: a mount namespace in which there is no file at all. Standard library only; also loaded by path."""

from __future__ import annotations

import os

from iosim.course.grading import libc

_MOUNTS, _IPC, _USERS = 0x00020000, 0x08000000, 0x10000000
_READ_ONLY, _NO_SETUID, _NO_DEVICES, _NO_PROGRAMS, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
_BARE = _NO_SETUID | _NO_DEVICES | _NO_PROGRAMS
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}  # the C library has no function for it
_ROOT_IS_COVERED = b"/proc"  # any folder that every system has


def leave_files() -> None:
    """See an empty root that cannot be written; only what is loaded already can be imported. Anyone but root needs user namespaces."""
    uid, gid = os.getuid(), os.getgid()
    libc.call("unshare", _MOUNTS | _IPC | (_USERS if uid else 0))
    if uid:
        _keep_identity(uid, gid)
    libc.call("mount", None, b"/", None, _RECURSIVE | _PRIVATE, None)
    libc.call("mount", b"none", _ROOT_IS_COVERED, b"tmpfs", _BARE, b"size=4k,mode=555")
    os.chdir(_ROOT_IS_COVERED)
    libc.call("syscall", _PIVOT_ROOT[libc.machine()], b".", b".")
    libc.call("umount2", b".", _DETACH)
    os.chdir("/")
    libc.call("mount", None, b"/", None, _REMOUNT | _BIND | _READ_ONLY | _BARE, None)


def _keep_identity(uid: int, gid: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
