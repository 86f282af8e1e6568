"""A submission's file: its bytes, and nothing else is ever done with them here."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from iosim.core.errors import BadInput
from iosim.course.grading.results import printable

MOST = 256 << 10
"""Bytes of a submission; the longest solution has less than 2 % of that."""

# A link may lead out of the folder that is graded, and a pipe that nobody writes to would hold up whoever opens it.
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link, and links are not followed",
}  # fmt: skip


def read_submission(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file; raises :class:`BadInput` for one that is missing, unreadable, too long, or no regular file (a link is none)."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:
        raise BadInput(f"{shown(path)}: {_why(path, error)}") from None
    try:
        return _read(descriptor, path)
    except OSError as error:
        raise BadInput(f"{shown(path)}: cannot be read: {(error.strerror or type(error).__name__).lower()}") from None
    finally:
        os.close(descriptor)


def shown(path: str | os.PathLike[str]) -> str:
    """A path on one line of a terminal, whatever characters the name has."""
    return printable(os.fsencode(path))


def _read(descriptor: int, path: str | os.PathLike[str]) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise BadInput(f"{shown(path)}: {_no_file(found.st_mode)}")
    with open(descriptor, "rb", closefd=False) as file:
        source = file.read(MOST + 1)  # it may have grown since
    if len(source) > MOST:
        raise BadInput(f"{shown(path)}: longer than {MOST >> 10} KiB, which is the most that is graded")
    return source


def _why(path: str | os.PathLike[str], error: OSError | ValueError) -> str:
    """Why a file could not be opened: in the system's words, or, where it is no file, what it is."""
    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR, errno.EACCES):
        mode = _mode(path)
        if mode and not stat.S_ISREG(mode):
            return _no_file(mode)
    return (error.strerror or "it cannot be read").lower() if isinstance(error, OSError) else str(error)


def _mode(path: str | os.PathLike[str]) -> int:
    try:
        return Path(path).lstat().st_mode
    except OSError:
        return 0


def _no_file(mode: int) -> str:
    return f"{_KINDS.get(stat.S_IFMT(mode), 'a device')}; a submission is a .py file"
