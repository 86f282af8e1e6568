"""The child that runs a function submission: fresh arrays in, plain bytes out. NumPy and the standard library only; loaded by path."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from iosim.course.grading import results, submission

_NUMBERS = (bool, int, float, *(np.dtype(name).type for name in results.CODES.values()))
_WHOLE = (np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32)  # what an int64 holds
_NAMES = {name: code for code, name in results.CODES.items()}


def main(out: int, job: dict[str, Any], source: bytes, protect: Callable[[], None]) -> None:
    """Call the function of ``source`` once for each of the job's ``calls``, and write what it returns, or what it raised, to ``out``.

    ``protect`` is called first; what it raises passes through.
    """
    calls = [[argument(given) for given in call] for call in job["calls"]]
    protect()
    try:
        function = submission.load(source, job["function"])
        for arguments in calls:
            send(out, results.RESULT, packed(function(*arguments)))
        send(out, results.DONE, b"")
    except BaseException as error:  # SystemExit too: a submission that leaves has not answered
        send(out, results.FAILURE, failure(error))


def argument(given: Any) -> Any:
    """A number as it is; an array, from its dtype, shape and bytes in hexadecimal, of its own and writable."""
    if not isinstance(given, dict):
        return given
    return np.frombuffer(bytes.fromhex(given["data"]), given["dtype"]).reshape(given["shape"]).copy()


def packed(returned: object) -> bytes:
    """What a function returned, one array or a tuple of them; TypeError or OverflowError, in one line, for anything else."""
    items = returned if type(returned) is tuple else (returned,)
    if len(items) > 255:
        raise TypeError(f"the function returned {len(items)} things")
    return results.COUNT.pack(len(items)) + b"".join(map(one, items))


def one(item: object) -> bytes:
    """One array or number: code of the dtype, axes, sizes, bytes. No subclass: its methods would be the submission's own."""
    if not any(type(item) is allowed for allowed in (np.ndarray, *_NUMBERS, *_WHOLE)):
        raise TypeError(f"the function returned {_article(type(item).__name__)}; a NumPy array or a number is wanted")
    array = np.asarray(item, np.int64) if any(type(item) is whole for whole in _WHOLE) else np.asarray(item)
    if array.dtype.name not in _NAMES:
        raise TypeError(f"the function returned an array of {array.dtype}; one of {', '.join(_NAMES)} is wanted")
    plain = array.astype(array.dtype.newbyteorder("<"), order="C")
    sizes = b"".join(size.to_bytes(8, "little") for size in plain.shape)
    return results.ARRAY.pack(_NAMES[array.dtype.name], plain.ndim) + sizes + plain.tobytes()


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in tuple('aeio') else 'a'} {name}"


def failure(error: BaseException) -> bytes:
    """An exception in a few bytes, each part cut to what is read of it."""
    kind, message, lines = submission.told(error)
    words = [word.encode("utf-8", "backslashreplace")[:most] for word, most in ((kind, results.MOST_TYPE), (message, results.MOST_MESSAGE))]
    last = [line & 0xFFFFFFFF for line in lines[-results.MOST_LINES :]]
    told = b"".join(line.to_bytes(4, "little") for line in last)
    return results.WORDS.pack(len(words[0]), len(words[1]), len(last)) + told + b"".join(words)


def send(out: int, kind: int, body: bytes) -> None:
    """Write one message, all of it."""
    left = memoryview(results.MESSAGE.pack(kind, len(body)) + body)
    while left:
        left = left[os.write(out, left) :]
