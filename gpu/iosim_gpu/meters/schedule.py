"""A scheduler for Numba's simulator that shows a missing barrier: the threads of a block run one by one, each to its next barrier.

Blocks run in either order, which shows a kernel whose blocks depend on each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from iosim.core.errors import IosimError, MissingExtra
from iosim_gpu.meters.internals import exchanged, simulator

Order = Literal["forward", "reversed"]
ORDERS: tuple[Order, ...] = ("forward", "reversed")


class Diverged(IosimError, RuntimeError):
    """Some threads of a block wait at a barrier that others do not reach; on a GPU what follows is undefined."""


@contextmanager
def scheduled(order: Order = "forward") -> Iterator[None]:
    """Inside the context, simulated launches run their blocks in ``order`` and the threads of a block one by one, to their next barrier.

    Threads are greenlets: launches are much faster than with the simulator's own threads, and equal from run to run. Shared memory is NaN
    when a block begins. A launch raises :class:`Diverged` at a barrier that not all threads of a block reach. Raises
    :class:`iosim.core.errors.MissingExtra` without greenlet, and :class:`iosim.core.errors.BadInput` where the simulator is off or has
    changed inside.
    """
    inside = simulator()
    switches = _greenlet()

    def manager(f: Callable[..., None], grid_dim: Any, block_dim: Any, debug: bool) -> _Block:
        return _Block(f, grid_dim, block_dim, order, inside, switches)

    with exchanged(inside.kernel, BlockManager=manager):
        yield


@contextmanager
def preferred() -> Iterator[None]:
    """:func:`scheduled` where greenlet is installed, and the simulator's own threads where it is not: the counts are the same."""
    with nullcontext() if find_spec("greenlet") is None else scheduled():
        yield


def _greenlet() -> Any:
    try:
        import greenlet
    except ImportError as error:
        raise MissingExtra('the scheduler needs greenlet; pip install "iosim[races]"') from error
    return greenlet


class _Thread:
    """What a kernel knows of its own thread, and the barrier at which it waits."""

    def __init__(self, block: _Block, block_at: Any, at: Any, number: int) -> None:
        self.blockIdx, self.threadIdx, self.thread_id = block_at, at, number
        self.line, self._block = 0, block

    def syncthreads(self) -> None:
        """Wait: the next thread goes on."""
        self.line = sys._getframe(2).f_lineno  # the simulated module's syncthreads lies between
        self._block.hub.switch()


class _Block:
    """Stands in for the simulator's manager of one block of threads."""

    def __init__(
        self, f: Callable[..., None], grid_dim: Sequence[int], block_dim: tuple[int, int, int], order: Order, inside: Any, switches: Any,
    ) -> None:  # fmt: skip
        self.f, self.grid_dim, self.block_dim, self.order, self.inside, self.switches = f, grid_dim, block_dim, order, inside, switches
        self.hub = switches.getcurrent()
        self.current: _Thread | None = None

    def run(self, grid_point: tuple[int, ...], *args: Any) -> None:
        """The whole block; called by the simulator's launch."""
        self._poison()
        waiting = [(thread, self.switches.greenlet(self.f)) for thread in self._threads(self._place(grid_point))]
        started = list(waiting)
        module = SimpleNamespace(current_thread=lambda: self.current)
        with exchanged(self.inside.kernelapi, threading=module):
            try:
                self._round(waiting, args)
                while waiting := self._still(started):
                    self._round(waiting, ())
            finally:
                for self.current, lane in started:
                    lane.throw()  # after a fault the others must not be left inside the kernel; a dead greenlet lets it pass

    def _round(self, lanes: list[tuple[_Thread, Any]], args: tuple[Any, ...]) -> None:
        for self.current, lane in lanes:
            lane.switch(*args)

    def _still(self, started: list[tuple[_Thread, Any]]) -> list[tuple[_Thread, Any]]:
        """All threads, or none, where all wait at one barrier or have all ended."""
        waiting = [(thread, lane) for thread, lane in started if not lane.dead]
        lines = sorted({thread.line for thread, _ in waiting})
        if waiting and (len(waiting) < len(started) or len(lines) > 1):
            where = " and ".join(f"line {line}" for line in lines)
            ended = f"{len(started) - len(waiting)} of {len(started)} have ended"
            raise Diverged(f"{self.f.__name__}: {len(waiting)} threads wait at the barrier in {where}, and {ended}")
        return waiting

    def _place(self, grid_point: tuple[int, ...]) -> tuple[int, ...]:
        """Which block runs now; the simulator asks for the first one first."""
        if self.order == "forward":
            return grid_point
        return tuple(size - 1 - at for size, at in zip(self.grid_dim, grid_point, strict=True))

    def _threads(self, grid_point: tuple[int, ...]) -> list[_Thread]:
        dim, block_at = self.inside.kernelapi.Dim3, self.inside.kernelapi.Dim3(*grid_point)
        places = [tuple(int(i) for i in at) for at in np.ndindex(*self.block_dim)]
        width, height, _ = self.block_dim
        threads = [_Thread(self, block_at, dim(*at), at[0] + width * (at[1] + height * at[2])) for at in places]
        return threads if self.order == "forward" else threads[::-1]

    def _poison(self) -> None:
        """What an earlier block left in shared memory must not serve this one."""
        shared = self.inside.kernel._get_kernel_context()._shared
        shared._allocations = _Poisoned()
        shared._dynshared.fill(-1)


class _Poisoned(dict[Any, Any]):
    """New shared arrays by the line that makes them, every bit of them set: NaN where they are floats."""

    def __setitem__(self, line: Any, array: Any) -> None:
        array.view(np.uint8).fill(0xFF)
        super().__setitem__(line, array)
