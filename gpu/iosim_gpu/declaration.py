"""What a CUDA kernel declares in its own file: its launches, what it is given, its options. Needs no Numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from iosim.core.errors import BadInput
from iosim_gpu.tiling import Tiling

Function = Callable[..., None]
Room = Callable[[Tiling], tuple[int, ...]]
Grid = Literal["head", "queries", "keys"]

SHAPES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Q", "O", "dO", "dQ"), ("n", "d")),
    **dict.fromkeys(("K", "V", "dK", "dV"), ("nk", "d")),
    **dict.fromkeys(("S", "P"), ("n", "nk")),
    **dict.fromkeys(("l", "m", "LSE", "D"), ("n",)),
}
"""The float32 arrays of the papers, each with its axes behind that of the heads."""


def no_room(_: Tiling) -> tuple[int, ...]:
    """No tile lies in shared memory."""
    return ()


@dataclass(frozen=True, slots=True)
class Step:
    """One launch.

    Args:
        factory: makes the kernel's Python function, whose constants are those of a tiling.
        arrays: the array arguments of the kernel, in order; ``scale`` (float32) and ``counts`` (int64) follow.
        slots: what each in-kernel counter counts, such as ``Q.loads``.
        grid: thread blocks along x: one, one a query tile, or one a key tile. Along y there is one for each of the B H heads.
        room: words of each tile in shared memory, in the order in which the kernel lays them out.
        beside: words of shared memory beside the room, which are always static.
    """

    factory: Callable[[Tiling], Function]
    arrays: tuple[str, ...]
    slots: tuple[str, ...]
    grid: Grid
    room: Room = no_room
    beside: int = 0

    @property
    def name(self) -> str:
        """The factory's name, with dashes."""
        return self.factory.__name__.replace("_", "-")

    def make(self, tiling: Tiling) -> Function:
        """The kernel's Python function for ``tiling``; raises :class:`iosim.core.errors.BadInput` where Numba is missing."""
        from iosim_gpu.cuda import cuda

        self.factory.__globals__["cuda"] = cuda  # a global, as Numba needs; set here, so that files load without it
        return self.factory(tiling)

    def shared_bytes(self, tiling: Tiling) -> int:
        """Bytes of shared memory that a thread block needs in all."""
        return self.room_bytes(tiling) + 4 * self.beside

    def room_bytes(self, tiling: Tiling) -> int:
        """Bytes of the room, which a launch must bring where the tiling is ``dynamic``."""
        return 4 * sum(self.room(tiling))


def launch(arrays: str, slots: str, grid: Grid, room: Room = no_room, beside: int = 0) -> Callable[[Callable[[Tiling], Function]], Step]:
    """Declare the factory below as a launch.

    Args:
        arrays, slots: names with blanks between them; see :class:`Step`.
        grid, room, beside: see :class:`Step`.
    """
    return lambda factory: Step(factory, tuple(arrays.split()), tuple(slots.split()), grid, room, beside)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a CUDA kernel: its name, its choices with the default first, and one line of help."""

    name: str
    choices: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A CUDA kernel.

    Args:
        name: the listing whose words it moves.
        steps: returns its launches in order for the values of its options, which are keywords.
        options: its options.
        reads: the arrays that it is given.
        masked: whether it visits the tiles of a block mask, which it needs then.
        listing: the options with which the listing moves the same words.
        shapes: the axes of arrays that :data:`SHAPES` does not have.
        tiles: default Br and Bc, which fit the 48 KB of any thread block at d = 64.
        timed: whether it is timed and profiled on a GPU.
        baseline: whether CuPy takes the same steps and is timed beside it.
        place: where it stands in lists.
    """

    name: str
    steps: Callable[..., tuple[Step, ...]]
    options: tuple[Option, ...] = ()
    reads: tuple[str, ...] = ("Q", "K", "V")
    masked: bool = False
    listing: Mapping[str, str] = field(default_factory=dict)
    shapes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tiles: tuple[int, int] = (32, 32)
    timed: bool = False
    baseline: bool = False
    place: int = 1000

    @property
    def variants(self) -> list[dict[str, str]]:
        """Every combination of the values of its options."""
        names = [option.name for option in self.options]
        return [dict(zip(names, values, strict=True)) for values in product(*(option.choices for option in self.options))]

    def asked(self, given: Mapping[str, str]) -> list[dict[str, str]]:
        """The variants with the ``given`` values."""
        return [one for one in self.variants if all(given.get(name, value) == value for name, value in one.items())]

    def chosen(self, given: Mapping[str, str]) -> dict[str, str]:
        """The values of all its options, ``given`` or by default; raises :class:`BadInput` for an option that it does not have."""
        known = {option.name: option.choices for option in self.options}
        for name, value in given.items():
            if name not in known:
                raise BadInput(f"{self.name} has no option {name!r} in CUDA; it has: {', '.join(known) or 'none'}")
            if value not in known[name]:
                raise BadInput(f"{name} must be {' or '.join(map(repr, known[name]))}, not {value!r}")
        return {name: given.get(name, choices[0]) for name, choices in known.items()}

    def axes(self, array: str) -> tuple[str, ...]:
        """The axes of an array behind the one of the heads; raises :class:`BadInput` for an array that nobody declares."""
        shapes = {**SHAPES, **self.shapes}
        if array not in shapes:
            raise BadInput(f"{self.name} declares no shape for {array!r}; known: {', '.join(shapes)}")
        return shapes[array]
