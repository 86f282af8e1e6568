"""The options of ``iosim gpu``; what is not given, the CUDA side chooses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

import click

from iosim.cli import reading
from iosim.cli.options import OPTIONS, Given, takes_of, valued
from iosim.core.errors import BadInput
from iosim.core.problem import Blocks
from iosim_gpu.catalogue import KERNELS
from iosim_gpu.catalogue import OPTIONS as VARIANTS
from iosim_gpu.compiling import ARCHES
from iosim_gpu.declaration import Option
from iosim_gpu.worker import METERS

F = TypeVar("F", bound=Callable[..., object])


class GpuGiven(Given, total=False):
    """What a command under ``iosim gpu`` was given."""

    own_n: int | None
    own_d: int | None
    tiles: Blocks | None
    threads: int | None
    meters: tuple[str, ...] | None
    own_kernels: tuple[str, ...] | None
    arch: str
    arrays: bool
    jobs: int
    ptx: str | None


def among(known: Collection[str]) -> Callable[[str, str], tuple[str, ...]]:
    """A reader of names joined by commas, each one of ``known``, in the order of ``known``.

    >>> among(METERS)("--meters", "emulator,simulator")
    ('simulator', 'emulator')
    """

    def read(option: str, text: str) -> tuple[str, ...]:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in known:
                raise BadInput(f"{option} {name!r} is none of {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return read


def threads(option: str, text: str) -> int:
    """Threads of a block: CUDA allows 1024."""
    return reading.whole(option, text, most=1024)


def variant(option: Option) -> Callable[[F], F]:
    """An option that CUDA kernels declare."""
    owners = [name for name, kernel in KERNELS.items() if option in kernel.options]
    told = f"{', '.join(owners)}: {option.help}; all of these, one after the other, where not given."
    return click.option(f"--{option.name.replace('_', '-')}", type=click.Choice(option.choices), help=told)


PROBLEM = ("own_n", "nk", "own_d", "batch", "heads", "causal", "block_mask", *VARIANTS, "tiles", "threads", "seed")
"""The options that describe a case."""
SHAPING = tuple(name for name in PROBLEM if name not in ("causal", "seed"))
"""With any of these, the case that is described is measured instead of the list."""

GPU_OPTIONS = {
    **{name: OPTIONS[name] for name in ("nk", "batch", "heads", "causal", "block_mask", "json", "csv")},
    "seed": valued("--seed", "SEED", reading.seed, "Seed of the random inputs.", default="0"),
    **{name: variant(option) for name, option in VARIANTS.items()},
    "own_n": valued("--n", "ROWS", reading.rows, "Query rows N.", "own_n"),
    "own_d": valued("--d", "WIDTH", reading.whole, "Columns of Q, K and V.", "own_d"),
    "tiles": valued("--blocks", "BRxBC", reading.explicit_blocks, "Tiles, which are compiled in.", "tiles"),
    "threads": valued("--threads", "COUNT", threads, "Threads of a block; compiled in, too."),
    "own_kernels": click.option(
        "--kernels", "--kernel", "own_kernels", metavar="NAMES", callback=reading.given(among(KERNELS), -1),
        help=f"Kernels, joined by commas, of {', '.join(KERNELS)}; all where not given.",
    ),
    "meters": click.option(
        "--meters", "--meter", "meters", metavar="NAMES", callback=reading.given(among(METERS), -1),
        help=f"Meters, joined by commas, of {', '.join(METERS)}; all but device, which needs a GPU, where not given.",
    ),
    "arch": click.option("--arch", type=click.Choice(ARCHES), default="sm_90", help="Compile for A100 (sm_80) or H100 and H200 (sm_90)."),
    "arrays": click.option("--arrays", is_flag=True, help="One line an array of every case, with warp requests and 32-byte sectors."),
    "jobs": valued("--jobs", "COUNT", reading.whole, "Processes that measure at the same time.", default="2"),
    "ptx": valued("--ptx", "FILE", reading.output, "Write the PTX to FILE, every step's."),
}  # fmt: skip


def takes(*names: str) -> Callable[[F], F]:
    """Give a command the options of these names."""
    return takes_of(GPU_OPTIONS, names)
