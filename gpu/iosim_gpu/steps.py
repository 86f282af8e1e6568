"""The launches that make up a kernel: which factory, which arrays, which grid, how much shared memory. Needs no Numba."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module

from iosim_gpu.case import Case
from iosim_gpu.tiling import Tiling

Room = Callable[[Tiling], tuple[int, ...]]

LISTED = 3
"""Words in which block-sparse hands on where a list begins and ends, and an entry of it. Static whatever the tiling says."""

ROOMS: dict[str, Room] = {
    "scores": lambda t: (t.rows * t.dp, t.cols * t.dp),
    "softmax": lambda t: (t.rows * t.cp, t.rows, t.rows),
    "weighted": lambda t: (t.rows * t.cp, t.cols * t.dp, t.rows * t.dp),
    "flash": lambda t: (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows, t.rows),
    "flash2": lambda t: (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows * t.dp, t.rows, t.rows, t.rows),
    "block-sparse": lambda t: (t.rows * t.dp, t.cols * t.dp, t.cols * t.dp, t.rows * t.cp, t.rows, t.rows),
    "delta": lambda t: (t.rows * t.dp,),
    "fill": lambda t: (),
    "keys-outside": lambda t: (*[t.cols * t.dp] * 4, *[t.rows * t.dp] * 2, *[t.rows * t.cp] * 2, t.rows, t.rows),
    "queries-outside": lambda t: (*[t.rows * t.dp] * 3, *[t.cols * t.dp] * 2, t.rows * t.cp, t.rows, t.rows),
}
"""Words of each array in shared memory, in the order in which a kernel lays them out."""


@dataclass(frozen=True, slots=True)
class Step:
    """One launch.

    ``factory``: ``module:function``, which takes a :class:`Tiling` and gives the kernel's Python function. ``arrays``: its array
    arguments in order; ``scale`` (float32) and ``counts`` (int64) follow. ``slots``: what each in-kernel counter counts, such as
    ``Q.loads``. ``grid``: blocks of threads along x; along y there is one for each of the B H heads. ``beside``: words of shared memory
    beside those of ``ROOMS``, which are static whatever the tiling says.
    """

    name: str
    factory: str
    arrays: tuple[str, ...]
    slots: tuple[str, ...]
    grid: Callable[[Case], int]
    beside: int = 0

    def make(self, tiling: Tiling) -> Callable[..., None]:
        """The kernel's Python function for ``tiling``; raises :class:`iosim.core.errors.BadInput` where Numba is missing."""
        module, _, name = self.factory.partition(":")
        found: Callable[..., None] = getattr(import_module(module), name)(tiling)
        return found

    def shared_bytes(self, tiling: Tiling) -> int:
        """Bytes of shared memory that a block of threads needs in all."""
        return self.room_bytes(tiling) + 4 * self.beside

    def room_bytes(self, tiling: Tiling) -> int:
        """Bytes of ``ROOMS``, which a launch must bring where the tiling is ``dynamic``; 0 for a step that is not listed there."""
        return 4 * sum(ROOMS[self.name](tiling)) if self.name in ROOMS else 0


def query_tiles(case: Case) -> int:
    """One block of threads for each query tile."""
    return -(-case.n // case.rows)


def key_tiles(case: Case) -> int:
    """One block of threads for each key tile."""
    return -(-case.nk // case.cols)


def one_block(case: Case) -> int:
    """One block of threads for a whole head."""
    return 1


_FLASH = ("Q.loads", "K.loads", "V.loads", "O.loads", "O.stores", "l.loads", "l.stores", "m.loads", "m.stores")
_BACKWARD = "iosim_gpu.kernels.backward"
_GIVEN = ("Q", "K", "V", "dO", "LSE", "D")
_GIVEN_LOADS = tuple(f"{name}.loads" for name in _GIVEN)
_DELTA = Step("delta", f"{_BACKWARD}:make_delta", ("O", "dO", "D"), ("O.loads", "dO.loads", "D.stores"), query_tiles)
_KEYS_OUTSIDE = Step(
    "keys-outside", f"{_BACKWARD}:make_keys_outside", (*_GIVEN, "dQ", "dK", "dV"),
    (*_GIVEN_LOADS, "dK.stores", "dV.stores", "dQ.atomics"), key_tiles,
)  # fmt: skip

STEPS: dict[str, tuple[Step, ...]] = {
    "standard": (
        Step("scores", "iosim_gpu.kernels.standard:make_scores", ("Q", "K", "S"), ("Q.loads", "K.loads", "S.stores"), query_tiles),
        Step("softmax", "iosim_gpu.kernels.standard:make_softmax", ("S", "P"), ("S.loads", "P.stores"), query_tiles),
        Step("weighted", "iosim_gpu.kernels.standard:make_weighted", ("P", "V", "O"), ("P.loads", "V.loads", "O.stores"), query_tiles),
    ),
    "flash": (Step("flash", "iosim_gpu.kernels.flash:make_flash", ("Q", "K", "V", "O", "l", "m"), _FLASH, one_block),),
    "flash2": (
        Step(
            "flash2", "iosim_gpu.kernels.flash2:make_flash2", ("Q", "K", "V", "O", "LSE"),
            ("Q.loads", "K.loads", "V.loads", "O.stores", "LSE.stores"), query_tiles,
        ),
    ),
    "block-sparse": (
        Step(
            "block-sparse", "iosim_gpu.kernels.block_sparse:make_block_sparse",
            ("Q", "K", "V", "O", "l", "m", "indptr", "indices"), (*_FLASH, "indptr.loads", "indices.loads"), one_block, LISTED,
        ),
    ),
    "flash2-backward": (
        _DELTA,
        Step("fill", f"{_BACKWARD}:make_fill", ("dQ",), ("dQ.stores",), query_tiles),
        _KEYS_OUTSIDE,
    ),
    "flash2-backward-own": (
        _DELTA,
        replace(_KEYS_OUTSIDE, factory=f"{_BACKWARD}:make_keys_outside_alone"),
        Step("queries-outside", f"{_BACKWARD}:make_queries_outside", (*_GIVEN, "dQ"), (*_GIVEN_LOADS, "dQ.stores"), query_tiles),
    ),
}  # fmt: skip
"""Every kernel's launches in order."""


def steps_of(case: Case) -> tuple[Step, ...]:
    """The launches of the kernel that ``case`` names."""
    return STEPS[f"{case.kernel}-own" if case.dq_pass == "own" else case.kernel]
