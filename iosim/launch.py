"""Launching: the HBM arrays of one head on a machine, and the listing that runs over them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iosim import dtypes
from iosim.kernels.masking import Mask
from iosim.kernels.registry import kernel
from iosim.masks.grid import check_grid, grid, index_rule
from iosim.memory import Hbm, Machine
from iosim.specs import Attention, Blocks, Options

Values = Mapping[str, NDArray[np.generic]]


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
