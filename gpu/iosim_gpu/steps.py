"""The launches that make up a kernel: which factory, which arrays, which grid, how much shared memory. Needs no Numba."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from iosim_gpu.case import Case
from iosim_gpu.tiling import Tiling

Room = Callable[[Tiling], tuple[int, ...]]

ROOMS: dict[str, Room] = {
    "flash2": lambda t: (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows * t.dp, t.rows, t.rows, t.rows),
}
"""Words of each array in shared memory, in the order in which a kernel lays them out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One launch.

    ``factory``: ``module:function``, which takes a :class:`Tiling` and gives the kernel's Python function. ``arrays``: its array
    arguments in order; ``scale`` (float32) and ``counts`` (int64) follow. ``slots``: what each in-kernel counter counts, such as
    ``Q.loads``. ``grid``: blocks of threads along x; along y there is one for each of the B H heads.
    """

    name: str
    factory: str
    arrays: tuple[str, ...]
    slots: tuple[str, ...]
    grid: Callable[[Case], int]

    def make(self, tiling: Tiling) -> Callable[..., None]:
        """The kernel's Python function for ``tiling``; raises :class:`iosim.errors.BadInput` where Numba is missing."""
        module, _, name = self.factory.partition(":")
        found: Callable[..., None] = getattr(import_module(module), name)(tiling)
        return found

    def shared_bytes(self, tiling: Tiling) -> int:
        """Bytes of shared memory that a block of threads needs."""
        return 4 * sum(ROOMS[self.name](tiling))


def query_tiles(case: Case) -> int:
    """One block of threads for each query tile."""
    return -(-case.n // case.rows)


STEPS: dict[str, tuple[Step, ...]] = {
    "flash2": (
        Step(
            "flash2", "iosim_gpu.kernels.flash2:make_flash2", ("Q", "K", "V", "O", "LSE"),
            ("Q.loads", "K.loads", "V.loads", "O.stores", "LSE.stores"), query_tiles,
        ),
    ),
}  # fmt: skip
"""Every kernel's launches in order."""


def steps_of(case: Case) -> tuple[Step, ...]:
    """The launches of the kernel that ``case`` names."""
    return STEPS[f"{case.kernel}-own" if case.dq_pass == "own" else case.kernel]
