"""The kernels by name: which arrays a listing fills and which options it has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from iosim.errors import BadInput
from iosim.kernels.block_sparse import block_sparse
from iosim.kernels.flash import flash
from iosim.kernels.flash2 import flash2
from iosim.kernels.standard import standard


@dataclass(frozen=True, slots=True)
class Kernel:
    """A listing and what it asks for.

    ``outputs``: the HBM arrays it fills, in the order of its parameters after Q, K and V. ``options``: the :class:`Options` it has beside
    ``skip``. ``outside``: the axis of its outer loop, whose block is the one kept on chip.
    """

    name: str
    listing: Callable[..., None]
    outputs: tuple[str, ...]
    options: tuple[str, ...]
    outside: Literal["queries", "keys"]


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel("standard", standard, ("S", "P", "O"), ("reuse", "softmax"), "queries"),
        Kernel("flash", flash, ("O", "l", "m"), ("first_pass",), "keys"),
        Kernel("flash2", flash2, ("O", "LSE"), (), "queries"),
        Kernel("block-sparse", block_sparse, ("O", "l", "m"), ("first_pass", "skip_empty"), "keys"),
    )
}


def kernel(name: str) -> Kernel:
    """The kernel called ``name``; raises :class:`BadInput` naming those that exist."""
    if not isinstance(name, str) or name not in KERNELS:
        raise BadInput(f"unknown kernel {name!r}; known: {', '.join(KERNELS)}")
    return KERNELS[name]
