"""The kernels by name: which arrays a listing needs, which options it has, and how to run it on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from iosim import dtypes
from iosim.errors import BadInput
from iosim.kernels.block_sparse import block_sparse
from iosim.kernels.flash import flash
from iosim.kernels.flash2 import flash2
from iosim.kernels.masking import Mask
from iosim.kernels.standard import standard
from iosim.masks.grid import check_grid, grid, index_rule
from iosim.memory import Hbm, Machine
from iosim.specs import OPTION_NAMES, Attention, Blocks, Options

Values = Mapping[str, NDArray[np.generic]]


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


def check_options(name: str, given: Mapping[str, object]) -> None:
    """Raise :class:`BadInput` for an option that the kernel ``name`` does not have."""
    has = ("skip", *kernel(name).options)
    for option in given:
        if option not in OPTION_NAMES:
            raise BadInput(f"unknown option {option!r}; known: {', '.join(OPTION_NAMES)}")
        if option not in has:
            raise BadInput(f"{name} has no option {option!r}; it has: {', '.join(has)}")


def launch(name: str, m: Machine, problem: Attention, blocks: Blocks, options: Options, values: Values | None = None) -> dict[str, Hbm]:
    """Declare the HBM arrays of one head on ``m`` and run the listing ``name``; returns all arrays by name.

    ``values``: Q ``(n, d)``, K ``(nk, d)``, V ``(nk, dv)``, needed in execute mode.
    """
    asked = kernel(name)
    arrays = {array: _declare_input(m, array, problem, values) for array in ("Q", "K", "V")}
    ideal = options.reuse == "ideal" and "reuse" in asked.options
    if problem.block_mask is not None and not ideal:
        check_grid(problem.block_mask, blocks)
    mask = _mask(m, problem, Blocks(blocks.rows, problem.nk) if ideal else blocks, skip=options.skip and not ideal)
    arrays |= {array: m.output(array, _shape(array, problem), dtype=_dtype(array, problem)) for array in asked.outputs}
    extras = {option: getattr(options, option) for option in asked.options}
    asked.listing(m, *arrays.values(), Br=blocks.rows, Bc=blocks.cols, scale=problem.softmax_scale, mask=mask, **extras)
    return arrays


def _mask(m: Machine, problem: Attention, blocks: Blocks, *, skip: bool) -> Mask:
    tiles = grid(problem, blocks, skip=skip)
    elements = None
    if problem.mask is not None:
        elements = m.input("mask", (problem.n, problem.nk), problem.mask, dtype="bool")
    return Mask(tiles, index_rule(problem, with_blocks=not skip), elements)


def _declare_input(m: Machine, name: str, problem: Attention, values: Values | None) -> Hbm:
    return m.input(name, _shape(name, problem), None if values is None else values[name], dtype=problem.dtype)


def _shape(name: str, problem: Attention) -> tuple[int, int]:
    n, nk, d, dv = problem.n, problem.nk, problem.d, problem.dv
    return {"Q": (n, d), "K": (nk, d), "V": (nk, dv), "O": (n, dv), "S": (n, nk), "P": (n, nk)}.get(name, (n, 1))


def _dtype(name: str, problem: Attention) -> str:
    if name in ("S", "P"):
        return dtypes.intermediate(problem.dtype)
    return problem.dtype if name == "O" else dtypes.accumulator(problem.dtype)
