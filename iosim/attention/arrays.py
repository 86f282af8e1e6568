"""Launching: the HBM arrays of one KV head and its group on a machine, and the listing that runs over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.attention.catalogue import Extra, Kernel, kernel
from iosim.attention.kernels.backward.grouped import sum_over_heads
from iosim.attention.kernels.masking import Mask
from iosim.core import dtypes
from iosim.core.masks.dropout import Keep
from iosim.core.masks.grid import check_grid, grid, index_rule
from iosim.core.problem import Attention, Blocks, Options
from iosim.machine import Hbm, Machine

Values = Mapping[str, NDArray[np.generic]]
SHARED = ("K", "V", "mask")  # by all query heads of a group
SUMMED = ("dK", "dV")  # over them


def launch(
    name: str, m: Machine, problem: Attention, blocks: Blocks, options: Options, values: Values | None = None, head: int = 0
) -> dict[str, Hbm]:
    """Declare the HBM arrays of one KV head and its group on ``m`` and run the listing ``name``; returns all arrays by name.

    ``values``: the inputs of the listing by name, needed in execute mode: Q ``(n, d)``, K ``(nk, d)``, V ``(nk, dv)``, and for a backward
    kernel dO ``(n, dv)`` and what its forward kernel stored; in a group all but K and V have a first axis of query heads. ``head``:
    which of the problem's query heads comes first here, for its dropout mask. Heads that are not packed run one after the other; each
    has arrays of its own, such as ``Q[0]``, but for K, V and mask, and their shares of dK and dV are summed in the end.
    """
    one = Launch(m, kernel(name), problem, blocks, options)
    if problem.group == 1 or options.pack:
        one.run(None if values is None else {array: packed(array, data) for array, data in values.items()}, head)
        return dict(m.arrays)
    for place in range(problem.group):
        own = None if values is None else {array: data if array in SHARED else data[place] for array, data in values.items()}
        one.run(own, head + place, f"[{place}]")
    for array in SUMMED:
        if f"{array}[0]" in m.arrays:
            sum_over_heads(m, [m.arrays[f"{array}[{place}]"] for place in range(problem.group)], one.output(array), Bc=blocks.cols)
    return dict(m.arrays)


@dataclass(frozen=True, slots=True)
class Launch:
    """A listing on a machine, to be run for one query head, or for a whole group whose queries are packed."""

    m: Machine
    asked: Kernel
    problem: Attention
    blocks: Blocks
    options: Options

    @property
    def group(self) -> int:
        """How many rows a query has."""
        return self.problem.group if self.options.pack else 1

    @property
    def wide(self) -> bool:
        """Whether K and V stand whole on chip, so that a tile holds all keys."""
        return self.asked.wide or (self.options.reuse == "ideal" and "reuse" in self.asked.options)

    def run(self, values: Values | None, head: int, suffix: str = "") -> None:
        """Declare the arrays, each with ``suffix`` to its name where it is not shared, and run the listing."""
        if self.problem.block_mask is not None and not self.wide:
            check_grid(self.problem.block_mask, self.blocks)
        inputs = self.with_extras(self.asked.inputs, self.asked.extra_inputs, lambda array: self.input(array, suffix, values))
        mask = self.mask(head)
        outputs = self.with_extras(self.asked.outputs, self.asked.extras, lambda array: self.output(array, suffix))
        variants = {name: getattr(self.options, name) for name in self.asked.options if name not in ("skip", "accumulator", "pack")}
        sizes = {"Br": self.blocks.rows, "Bc": self.blocks.cols, "scale": self.problem.softmax_scale}
        self.asked.listing(self.m, *inputs, *outputs, **sizes, mask=mask, **variants)

    def with_extras(self, names: tuple[str, ...], extras: tuple[Extra, ...], make: Callable[[str], Hbm]) -> list[Hbm | None]:
        """The arrays ``names``, and the ``extras`` that there are; what stands in for the others."""
        there = {name: make(name) for name in names}
        asked = [make(extra.name) if extra.when(self.problem, self.options) else there.get(extra.instead or "") for extra in extras]
        return [*there.values(), *asked]

    def mask(self, head: int) -> Mask:
        """What the listing asks about who may attend."""
        p, skip = self.problem, self.options.skip and "skip" in self.asked.options and not self.wide
        tiles = grid(p, Blocks(self.blocks.rows, p.nk) if self.wide else self.blocks, skip=skip, group=self.group)
        elements = None if p.mask is None else self.m.arrays.get("mask") or self.m.input("mask", (p.n, p.nk), p.mask, dtype="bool")
        kept = Keep(p.dropout, p.dropout_seed, head, self.group) if p.dropout else None
        return Mask(tiles, index_rule(p, with_blocks=not skip, group=self.group), elements, kept, 1.0 if kept is None else kept.scale)

    def input(self, array: str, suffix: str, values: Values | None) -> Hbm:
        """The HBM array of an input, which is declared once where heads share it."""
        name = array if array in SHARED else array + suffix
        if name in self.m.arrays:
            return self.m.arrays[name]
        data = None if values is None else values[array]
        return self.m.input(name, self.shape(array), data, dtype=self.dtype(array), infinite=array in ("m", "LSE"))

    def output(self, array: str, suffix: str = "") -> Hbm:
        """The HBM array of an output; one that only waits between tiles, or holds what dropout adds, need not be written whole."""
        return self.m.output(array + suffix, self.shape(array), dtype=self.dtype(array), whole=array in self.asked.outputs)

    def shape(self, array: str) -> tuple[int, int]:
        """Rows and columns of an array."""
        n, nk, d, dv = self.problem.n * self.group, self.problem.nk, self.problem.d, self.problem.dv
        shapes = {"Q": (n, d), "K": (nk, d), "V": (nk, dv), "O": (n, dv)} | dict.fromkeys(("S", "P", "Pd", "R"), (n, nk))
        return shapes.get(_tensor(array), (n, 1))

    def dtype(self, array: str) -> str:
        """The type of its elements in HBM."""
        if array == "R":
            return "bool"
        if _tensor(array) in ("S", "P", "Pd"):
            return dtypes.intermediate(self.problem.dtype)
        return self.problem.dtype if array.removeprefix("d") in ("Q", "K", "V", "O") else dtypes.accumulator(self.problem.dtype)


def packed(array: str, data: NDArray[np.generic]) -> NDArray[np.generic]:
    """Numbers ``(group, n, x)`` as rows of one matrix, the heads of a query side by side; others as they are."""
    return data if data.ndim == 2 or array in SHARED else data.swapaxes(0, 1).reshape(-1, data.shape[2])


def numbers(arrays: Mapping[str, Hbm], array: str, group: int) -> NDArray[np.generic]:
    """What ``array`` holds after the run: ``(rows, columns)``, or ``(group, rows, columns)`` where each query head has its own."""
    if f"{array}[0]" in arrays and array not in arrays:
        return np.stack([arrays[f"{array}[{place}]"].data for place in range(group)])
    data = arrays[array].data
    per_head = group > 1 and array not in (*SHARED, *SUMMED)
    return data.reshape(-1, group, data.shape[1]).swapaxes(0, 1) if per_head else data


def _tensor(array: str) -> str:
    return array.removeprefix("d").removesuffix("_acc")
