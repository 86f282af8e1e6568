"""What a child writes, read without ever waiting for it alone: so many seconds, so many bytes, and no more."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from dataclasses import dataclass, field

_PIECE = 1 << 18


@dataclass(slots=True)
class Inlet:
    """What came out of one descriptor, how many bytes may, and what to say of more."""

    descriptor: int
    most: int
    flood: str
    data: bytearray = field(default_factory=bytearray)

    def read(self) -> bool:
        """Take what is there, a byte more than may be at most; False at the end of the stream. BlockingIOError where nothing is there."""
        piece = os.read(self.descriptor, min(_PIECE, self.most + 1 - len(self.data)))
        self.data += piece
        return bool(piece)

    @property
    def flooded(self) -> bool:
        """Whether more came than may."""
        return len(self.data) > self.most

    def rest(self) -> bytes:
        """All that came and may, with what nobody has read yet."""
        with contextlib.suppress(BlockingIOError):
            while not self.flooded and self.read():
                pass
        return bytes(self.data[: self.most])


@dataclass(slots=True)
class Outlet:
    """What is still to be fed to one descriptor."""

    descriptor: int
    data: memoryview

    def write(self) -> bool:
        """Feed what the pipe takes; False once all is fed, or nobody reads."""
        try:
            self.data = self.data[os.write(self.descriptor, self.data[:_PIECE]) :]
        except BrokenPipeError:
            return False
        return bool(self.data)


def collect(feed: Outlet, stream: Inlet, said: Inlet, lost: int, until: float) -> str:
    """Read until the stream ends (""), or why it was stopped. ``lost``: a descriptor that can be read once nobody runs the child."""
    with selectors.DefaultSelector() as selector:
        for end in (feed, stream, said):
            os.set_blocking(end.descriptor, False)
            selector.register(end.descriptor, selectors.EVENT_WRITE if end is feed else selectors.EVENT_READ, end)
        selector.register(lost, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.data is None:
                    return "lost"
                if (why := _turn(selector, key.data)) or stream.descriptor not in selector.get_map():
                    return why
    return "time"


def _turn(selector: selectors.BaseSelector, end: Inlet | Outlet) -> str:
    """Move what can be moved through one descriptor; what to say where it is flooded."""
    going = end.write() if isinstance(end, Outlet) else end.read()
    if not going:
        selector.unregister(end.descriptor)
    return end.flood if isinstance(end, Inlet) and end.flooded else ""
