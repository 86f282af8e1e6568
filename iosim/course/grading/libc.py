"""The system's C library, for what the standard library does not offer. Standard library only; also loaded by path, without iosim."""

from __future__ import annotations

import ctypes
import functools
import os
import platform


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments: int | bytes | None) -> int:
    """What the C function answers; OSError with its name where it answers -1. Integers are passed as longs, bytes as pointers."""
    passed = [ctypes.c_long(given) if isinstance(given, int) else given for given in arguments]
    answer = int(getattr(_library(), name)(*passed))
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return answer


def prctl(option: int, *arguments: int) -> int:
    """``prctl`` with the arguments that are not given set to zero, as newer options insist on."""
    return call("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


def machine() -> str:
    """``x86_64`` or ``aarch64``; OSError for a machine whose system calls have other numbers."""
    found = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine())
    if platform.system() != "Linux" or found not in {"x86_64", "aarch64"}:
        raise OSError(f"no sandbox for {platform.system()} on {found}")
    return found
