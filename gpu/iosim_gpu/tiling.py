"""Compile-time constants of a CUDA kernel: every distinct tiling is a kernel of its own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Tiling:
    """What a factory bakes into a kernel.

    ``rows`` x ``cols`` pairs make a tile (Br x Bc), ``d`` is the head dimension, ``threads`` the threads of a block. ``causal`` compiles
    the causal rule in, ``counting`` the in-kernel counters. With ``dynamic`` the shared memory is sized at the launch, which lifts the
    48 KB of a static array.
    """

    rows: int
    cols: int
    d: int
    threads: int
    causal: bool = False
    counting: bool = False
    dynamic: bool = False

    @property
    def dp(self) -> int:
        """The pitch of a tile of d columns in shared memory: one word of padding keeps its columns in different banks."""
        return self.d + 1

    @property
    def cp(self) -> int:
        """The pitch of a tile of scores."""
        return self.cols + 1

    def counted(self) -> Tiling:
        """The same kernel with its counters compiled in."""
        return replace(self, counting=True)

    def __str__(self) -> str:
        return f"{self.rows}x{self.cols} d={self.d} T={self.threads}"


def offsets(sizes: Iterable[int]) -> tuple[int, ...]:
    """Where arrays of ``sizes`` words begin when they lie one after the other; the last number is where they end.

    >>> offsets([6, 2])
    (0, 6, 8)
    """
    return tuple(accumulate(sizes, initial=0))
