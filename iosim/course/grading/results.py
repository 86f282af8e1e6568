"""How a function's results travel as bytes, and how to read them without believing any.

Both sides know this format; it needs NumPy and the standard library only. A stream is a row of messages: a kind, a length, a body. What a
submission can do to it at worst is to write it itself, and then it still has to know the right numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]

MESSAGE = struct.Struct("<BI")
RESULT, FAILURE, DONE = 1, 2, 3
COUNT = struct.Struct("<B")
ARRAY = struct.Struct("<BB")
CODES = {1: "bool", 2: "int64", 3: "float32", 4: "float64"}
WORDS = struct.Struct("<BHB")
MOST_AXES, MOST_SIZE = 4, 2**24
MOST_TYPE, MOST_MESSAGE, MOST_LINES = 60, 500, 8


@dataclass(frozen=True, slots=True)
class Failure:
    """The exception that ended a submission, as it was told: type, message, and the submission's lines, outermost first."""

    type: str
    message: str
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """The arrays of each call that gave some; ``error``, the exception that ended it; ``broken``, why the bytes are not to be believed.

    Where neither is given, every call gave what was asked for: so many arrays, each of a dtype that is allowed.
    """

    calls: tuple[tuple[Array, ...], ...]
    error: Failure | None = None
    broken: str = ""


class _Broken(Exception):
    pass


class _Reader:
    """Bytes that are handed out once, and never more than there are."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """The next bytes, exactly so many."""
        if size > len(self._data) - self._at:
            raise _Broken("what came back is cut short")
        self._at += size
        return self._data[self._at - size : self._at]

    def numbers(self, form: struct.Struct) -> tuple[int, ...]:
        """The next numbers of that form."""
        return form.unpack(self.take(form.size))

    @property
    def empty(self) -> bool:
        """Whether all is handed out."""
        return self._at == len(self._data)


def parse(stream: bytes, calls: int, arrays: int, dtypes: Sequence[str]) -> Results:
    """The results of ``calls`` calls, each of which should have given ``arrays`` arrays of one of ``dtypes``; raises nothing."""
    got: list[tuple[Array, ...]] = []
    try:
        for kind, body in _messages(stream, calls):
            if kind == FAILURE:
                return Results(tuple(got), error=_failure(_Reader(body)))
            if kind == RESULT:
                got.append(_result(_Reader(body), len(got) + 1, arrays, dtypes))
    except _Broken as why:
        return Results(tuple(got), broken=str(why))
    return Results(tuple(got))


def _messages(stream: bytes, calls: int) -> Iterator[tuple[int, bytes]]:
    """One result for each call and then the end, or fewer and then one failure; nothing after either."""
    reader, given, kind = _Reader(stream), 0, RESULT
    while not reader.empty:
        kind, size = reader.numbers(MESSAGE)
        body = reader.take(size)
        if kind not in ({RESULT, FAILURE} if given < calls else {DONE}):
            raise _Broken(f"a message of kind {kind} after {given} of {calls} results")
        if kind != RESULT and not reader.empty:
            raise _Broken("something follows the end")
        yield kind, body
        given += kind == RESULT
    if kind == RESULT:
        raise _Broken(f"it ended after {given} of {calls} calls without a word (exit, kill or crash)")


def _result(body: _Reader, call: int, arrays: int, dtypes: Sequence[str]) -> tuple[Array, ...]:
    (count,) = body.numbers(COUNT)
    if count != arrays:
        raise _Broken(f"call {call} returned {_several(count)}, not {_several(arrays)}")
    got = tuple(_array(body, dtypes) for _ in range(count))
    if not body.empty:
        raise _Broken("a result is longer than its arrays")
    return got


def _several(count: int) -> str:
    return "one array" if count == 1 else f"{count} arrays"


def _array(body: _Reader, dtypes: Sequence[str]) -> Array:
    code, axes = body.numbers(ARRAY)
    dtype = CODES.get(code, f"code {code}")
    if dtype not in dtypes:
        raise _Broken(f"a result has dtype {dtype}, not {' or '.join(dtypes)}")
    if axes > MOST_AXES:
        raise _Broken(f"a result has {axes} axes, at most {MOST_AXES} are read")
    shape = body.numbers(struct.Struct(f"<{axes}Q"))
    if math.prod(filter(None, shape)) > MOST_SIZE:  # NumPy has no array of sizes too large to multiply, though one of them is 0
        raise _Broken(f"a result of shape {shape}")
    raw = body.take(math.prod(shape) * np.dtype(dtype).itemsize)
    if dtype == "bool":  # a byte may hold 2, which is no truth value
        return np.not_equal(np.frombuffer(raw, np.uint8).reshape(shape), 0)
    return np.frombuffer(raw, np.dtype(dtype).newbyteorder("<")).reshape(shape).astype(dtype)


def _failure(body: _Reader) -> Failure:
    type_length, message_length, count = body.numbers(WORDS)
    if type_length > MOST_TYPE or message_length > MOST_MESSAGE or count > MOST_LINES:
        raise _Broken("a failure told at too great length")
    lines = body.numbers(struct.Struct(f"<{count}I"))
    told = printable(body.take(type_length)), printable(body.take(message_length))
    if not body.empty:
        raise _Broken("a failure is longer than its words")
    return Failure(*told, lines)


def printable(raw: bytes) -> str:
    """Text on one line: nothing that moves a cursor, ends a line or turns the direction of writing."""
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
