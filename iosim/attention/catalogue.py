"""The kernels by name: which arrays a listing reads and fills, and which options it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from iosim.attention.kernels.backward.flash2_backward import flash2_backward
from iosim.attention.kernels.backward.flash_backward import flash_backward
from iosim.attention.kernels.backward.standard_backward import standard_backward
from iosim.attention.kernels.block_sparse import block_sparse
from iosim.attention.kernels.flash import flash
from iosim.attention.kernels.flash2 import flash2
from iosim.attention.kernels.small_cache.square_tiles import square_tiles
from iosim.attention.kernels.small_cache.square_tiles_backward import square_tiles_backward
from iosim.attention.kernels.software.fmha import fmha, fmha_backward
from iosim.attention.kernels.software.released import released, released_backward
from iosim.attention.kernels.software.unfused import megatron, pytorch, unfused_backward
from iosim.attention.kernels.standard import standard
from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Options

When = Callable[[Attention, Options], bool]


@dataclass(frozen=True, slots=True)
class Extra:
    """An HBM array that a listing has only ``when`` something holds; else ``instead``, another array or nothing, takes its place.

    It holds what only waits between tiles, or what dropout adds, and need not be written whole.
    """

    name: str
    when: When
    instead: str | None = None


@dataclass(frozen=True, slots=True)
class Kernel:
    """A listing and what it asks for.

    ``inputs`` and ``outputs``: the HBM arrays that it reads and fills, in the order of its parameters; ``extra_inputs``, ``extras``
    follow them. ``options``: the :class:`Options` it has; unfused kernels have no ``skip``. ``outside``: the axis of its outer
    loop, whose block is the one kept on chip. ``forward``: for a backward kernel, the forward kernel whose outputs it reads.
    ``wide``: K and V stand whole on chip, so that a tile holds all keys. ``paper``: it is an algorithm of a paper, not a piece of software.
    ``usual``: comparisons and curves take it where no kernels are named.
    ``grid``: what a GPU runs as one thread block: a head, a query tile or a key tile of one; None where that is many kernels in a row.
    """

    name: str
    listing: Callable[..., None]
    outputs: tuple[str, ...]
    options: tuple[str, ...]
    outside: Literal["queries", "keys"]
    inputs: tuple[str, ...] = ("Q", "K", "V")
    extra_inputs: tuple[Extra, ...] = ()
    extras: tuple[Extra, ...] = ()
    forward: str | None = None
    wide: bool = False
    paper: bool = True
    usual: bool = True
    grid: Literal["heads", "queries", "keys"] | None = None


def _dropout(problem: Attention, _: Options) -> bool:
    return problem.dropout > 0


def _created(_: Attention, options: Options) -> bool:
    return options.first_pass == "create"


def _widened(_: Attention, options: Options) -> bool:
    return options.accumulator == "float32"


def _always(_: Attention, __: Options) -> bool:
    return True


LM, QKV, GRADIENTS = ("O", "l", "m"), ("Q", "K", "V"), ("dQ", "dK", "dV")
O_ACC, DQ_ACC = (Extra(f"{name}_acc", _widened, name) for name in ("O", "dQ"))
DROPPED = Extra("Pd", _dropout, "P"), Extra("R", _dropout)
UNFUSED: tuple[str, ...] = ("reuse",)
KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("standard", standard, ("S", "P", "O"), ("skip", "reuse", "softmax"), "queries"),
        Kernel("flash", flash, LM, ("skip", "first_pass", "accumulator", "pack"), "keys", extras=(O_ACC,), grid="heads"),
        Kernel("flash2", flash2, ("O", "LSE"), ("skip", "pack"), "queries", grid="queries"),
        Kernel(
            "block-sparse", block_sparse, LM, ("skip", "first_pass", "skip_empty", "accumulator"), "keys", extras=(O_ACC,), grid="heads"
        ),
        Kernel(
            "standard-backward", standard_backward, ("dP", "dS", *GRADIENTS), ("skip", "reuse", "softmax"), "queries",
            inputs=(*QKV, "P", "dO"), forward="standard",
        ),
        Kernel(
            "flash-backward", flash_backward, GRADIENTS, ("skip", "first_pass", "accumulator", "pack"), "keys",
            inputs=(*QKV, *LM, "dO"), extras=(Extra("D", _created), DQ_ACC), forward="flash", grid="heads",
        ),
        Kernel(
            "flash2-backward", flash2_backward, (*GRADIENTS, "D"), ("skip", "accumulator", "dq_pass", "pack"), "keys",
            inputs=(*QKV, "O", "LSE", "dO"), extras=(DQ_ACC,), forward="flash2", grid="keys",
        ),
        Kernel("square-tiles", square_tiles, LM, ("skip", "depth"), "queries", extras=(Extra("S", _always),), usual=False),
        Kernel(
            "square-tiles-backward", square_tiles_backward, (*GRADIENTS, "D"), ("skip", "depth"), "queries", inputs=(*QKV, *LM, "dO"),
            extras=(Extra("P", _always), Extra("dS", _always)), forward="square-tiles", usual=False,
        ),
        Kernel("pytorch", pytorch, ("S", "P", "O"), UNFUSED, "queries", extras=DROPPED, paper=False),
        Kernel("megatron", megatron, ("S", "P", "O"), UNFUSED, "queries", extras=DROPPED, paper=False),
        *(
            Kernel(
                f"{name}-backward", unfused_backward, ("dP", "dS", *GRADIENTS), UNFUSED, "queries", inputs=(*QKV, "P", "dO"),
                extra_inputs=DROPPED, extras=(Extra("dPd", _dropout, "dP"),), forward=name, paper=False,
            )
            for name in ("pytorch", "megatron")
        ),
        Kernel("fmha", fmha, ("P", "O"), (), "queries", wide=True, paper=False, grid="heads"),
        Kernel(
            "fmha-backward", fmha_backward, GRADIENTS, (), "queries", inputs=(*QKV, "P", "dO"), forward="fmha", wide=True, paper=False,
            grid="heads",
        ),
        Kernel("released", released, ("O", "LSE"), ("skip",), "keys", extras=(Extra("O_acc", _always),), paper=False, grid="heads"),
        Kernel(
            "released-backward", released_backward, GRADIENTS, ("skip",), "keys", inputs=(*QKV, "O", "LSE", "dO"),
            extras=(Extra("D", _always), Extra("dQ_acc", _always)), forward="released", paper=False, grid="heads",
        ),
    )
}  # fmt: skip
FORWARD = tuple(name for name, found in KERNELS.items() if found.forward is None and found.paper and found.usual)
BACKWARD = {
    **{found.forward: name for name, found in KERNELS.items() if found.forward is not None},
    "block-sparse": "flash-backward",  # with the forward kernel's block mask
}


def kernel(name: str) -> Kernel:
    """The kernel called ``name``; raises :class:`BadInput` naming those that exist."""
    if not isinstance(name, str) or name not in KERNELS:
        raise BadInput(f"unknown kernel {name!r}; known: {', '.join(KERNELS)}")
    return KERNELS[name]
