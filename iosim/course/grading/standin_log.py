"""The log of the stand-in machine: what a listing does, as records, one way. Standard library only."""

from __future__ import annotations

import sys
from collections.abc import Callable
from operator import index
from types import FrameType

from iosim.core.errors import BadInput
from iosim.core.opaque import Shape
from iosim.course.grading import records as r
from iosim.course.grading.submission import FILE

Write = Callable[[bytes], object]
PACK = r.RECORD.pack


class Log:
    """Records as they are written down; ``write`` takes whole frames."""

    __slots__ = ("_buffer", "_made", "_write")

    def __init__(self, write: Write | None = None, **_: object) -> None:
        if not callable(write):
            raise BadInput("a listing gets its machine; it builds none")
        self._write, self._buffer, self._made = write, bytearray(), 0

    def _next(self) -> int:
        """The next handle."""
        self._made += 1
        return self._made

    def _make(self, op: int, shape: Shape, a: int = 0, b: int = 0, scalar: float = 0.0, name: bytes = b"", flags: int = 0) -> int:
        """Write down that something of ``shape`` is made; returns its handle."""
        self._made += 1
        self._put(op, self._made, a, b, shape[0], shape[1], scalar, name=name, flags=flags)
        return self._made

    def _put(
        self, op: int, out: int = 0, a: int = 0, b: int = 0, rows: int = 0, cols: int = 0, scalar: float = 0.0, c: int = 0,
        name: bytes = b"", flags: int = 0, line: int | None = None,
    ) -> None:  # fmt: skip
        """Write down one operation, with the line of the submission that asked for it."""
        if line is None:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename != FILE:
                frame = frame.f_back
            line = 0 if frame is None else frame.f_lineno
        if line > r.MOST_LINES:  # noqa: PLR1730  # calling min takes longer than looking
            line = r.MOST_LINES
        self._buffer += PACK(op, flags, line, out, a, b, c, rows, cols, scalar, name)
        if len(self._buffer) >= r.FRAME:
            self._flush()

    def _flush(self) -> None:
        """Hand what was written down so far to ``write``, as one frame."""
        if self._buffer:
            frame, self._buffer = r.LENGTH.pack(len(self._buffer)) + self._buffer, bytearray()
            self._write(frame)


def whole(name: str, value: object) -> int:
    """``value`` as an ``int`` of at least 1, and no more than a record holds; raises :class:`BadInput` for anything else."""
    try:
        size = 0 if isinstance(value, bool) else index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        size = 0
    if size < 1:
        raise BadInput(f"{name} must be a whole number >= 1, not {value!r}")
    return min(size, r.MOST)


def label(name: object) -> bytes:
    """The first bytes of a name."""
    return str(name)[: r.LABEL].encode("utf-8", "replace")[: r.LABEL]
