"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO


@contextmanager
def whole_file(path: str) -> Iterator[BinaryIO]:
    """A file to write, which takes the name ``path`` when it is complete; until then, and after an error, ``path`` stays as it was.

    A pipe, a terminal or /dev/null is written directly. Raises :class:`OSError`.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with _naming(path), open(path, "wb") as file:
            yield file
        return
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    temporary = f"{target}.{os.getpid()}.part"
    try:
        with _naming(path), _opened(temporary, path) as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.remove(temporary)
        raise


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the file in an error of writing, as errors of opening do; a closed pipe stays as it is."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None or isinstance(error, BrokenPipeError):
            raise
        raise type(error)(error.errno, error.strerror, path) from None


def _opened(temporary: str, path: str) -> BinaryIO:
    try:
        return open(temporary, "xb")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None
