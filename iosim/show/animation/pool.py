"""Numbers for the page: contents of blocks and regions, each kept once."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Sample:
    """Which elements the page keeps: rows whose index in their array is a multiple of ``stride``, and the first ``cols`` columns."""

    stride: int = 1
    cols: float = inf

    def size(self, rows: int, cols: int) -> int:
        """About how many elements of a block are kept."""
        return -(-rows // self.stride) * int(min(cols, self.cols))


@dataclass(slots=True)
class Pool:
    """The kept elements of all contents, one after the other, in the accumulator's type; equal contents are kept once."""

    dtype: np.dtype[np.generic]
    sample: Sample
    chunks: list[bytes] = field(default_factory=list)
    size: int = 0
    known: dict[bytes, int] = field(default_factory=dict)

    def put(self, data: Array, top: int, left: int = 0) -> int:
        """Keep what ``sample`` keeps of ``data``, whose first element is ``[top, left]`` of its array; returns where it begins."""
        cols = None if self.sample.cols == inf else max(0, int(self.sample.cols) - left)
        kept = np.ascontiguousarray(data[-top % self.sample.stride :: self.sample.stride, :cols], self.dtype)
        content = kept.tobytes()
        if content not in self.known:
            self.known[content] = self.size
            self.size += kept.size
            self.chunks.append(content)
        return self.known[content]

    def bytes(self) -> bytes:
        """All of them, little-endian."""
        joined = np.frombuffer(b"".join(self.chunks), self.dtype)
        return joined.astype(self.dtype.newbyteorder("<")).tobytes()
