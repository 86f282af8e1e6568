"""Launching: the HBM arrays of one KV head and its group on a machine, and the listing that runs over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.attention.declaration import AROUND, Array, Kernel
from iosim.attention.kernels.backward.grouped import sum_over_heads
from iosim.attention.kernels.masking import Mask
from iosim.core import dtypes
from iosim.core.expressions import evaluate
from iosim.core.masks.dropout import Keep
from iosim.core.masks.grid import check_grid, grid, index_rule
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.machine import Hbm, Machine

Values = Mapping[str, NDArray[np.generic]]
SHARED = "mask"  # by all query heads, beside the inputs of a KV head


def launch(
    asked: Kernel, m: Machine, problem: Attention, blocks: Blocks, options: Options, values: Values | None = None, head: int = 0
) -> dict[str, Hbm]:
    """Declare the HBM arrays of one KV head and its group on ``m`` and run the listing of ``asked``; returns all arrays by name.

    Heads that are not packed run one after the other. Each has arrays of its own, such as ``Q[0]``, but for inputs of the KV head.
    The shares of outputs of the KV head are summed in the end.

    Args:
        asked: the kernel.
        m: the machine.
        problem: the attention problem.
        blocks: the blocks.
        options: the options of the kernel.
        values: the inputs of the listing by name, needed in execute mode: Q ``(n, d)``, K ``(nk, d)``, V ``(nk, dv)``, and for a backward
            kernel dO ``(n, dv)`` and what its forward kernel stored. In a group all but those of the KV head have a first axis of query
            heads.
        head: which of the problem's query heads comes first here, for its dropout mask.
    """
    one = Launch(m, asked, problem, blocks, options)
    if problem.group == 1 or options.pack:
        one.run(None if values is None else {array: one.packed(array, data) for array, data in values.items()}, head)
        return dict(m.arrays)
    for place in range(problem.group):
        own = None if values is None else {array: data if one.shared(array) else data[place] for array, data in values.items()}
        one.run(own, head + place, f"[{place}]")
    for array in asked.arrays:
        if array.per_kv_head and array.role != "input":
            sum_over_heads(m, [m.arrays[f"{array.name}[{place}]"] for place in range(problem.group)], one.output(array), Bc=blocks.cols)
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

    def shared(self, array: str) -> bool:
        """Whether all query heads of the group read one ``array``."""
        return any(own.name == array and own.per_kv_head for own in self.asked.arrays)

    def packed(self, array: str, data: NDArray[np.generic]) -> NDArray[np.generic]:
        """Numbers ``(group, n, x)`` as rows of one matrix, the heads of a query side by side; others as they are."""
        return data if data.ndim == 2 or self.shared(array) else data.swapaxes(0, 1).reshape(-1, data.shape[2])

    def run(self, values: Values | None, head: int, suffix: str = "") -> None:
        """Declare the arrays, each with ``suffix`` to its name where it is not shared, and run the listing."""
        wide = self.asked.wide(self.options)
        if self.problem.block_mask is not None and not wide:
            check_grid(self.problem.block_mask, self.blocks)
        own = [array for array in self.asked.arrays if array.when(self.problem, self.options)]
        made = {array.name: self.input(array, suffix, values) for array in own if array.role == "input"}
        given = {"mask": self.mask(head, wide), "Br": self.blocks.rows, "Bc": self.blocks.cols, "scale": self.problem.softmax_scale}
        made |= {array.name: self.output(array, suffix) for array in own if array.role != "input"}
        asked = [made.get(array.name, made.get(array.instead or "")) for array in self.asked.arrays]
        inside = {name: value for name, value in self.values.items() if name not in AROUND or name in self.asked.parameters}
        self.asked.listing(self.m, *asked, **{name: value for name, value in (given | inside).items() if self.asked.takes(name)})

    @property
    def values(self) -> dict[str, object]:
        """The values of the kernel's options."""
        return {name: getattr(self.options, name) for name in self.asked.has}

    def mask(self, head: int, wide: bool) -> Mask:
        """What the listing asks about who may attend."""
        p, skip = self.problem, self.options.skip and "skip" in self.asked.has and not wide
        tiles = grid(p, Blocks(self.blocks.rows, p.nk) if wide else self.blocks, skip=skip, group=self.group)
        elements = None if p.mask is None else self.m.arrays.get(SHARED) or self.m.input(SHARED, (p.n, p.nk), p.mask, dtype="bool")
        kept = Keep(p.dropout, p.dropout_seed, head, self.group) if p.dropout else None
        return Mask(tiles, index_rule(p, with_blocks=not skip, group=self.group), elements, kept, 1.0 if kept is None else kept.scale)

    def input(self, array: Array, suffix: str, values: Values | None) -> Hbm:
        """The HBM array of an input, which is declared once where heads share it."""
        name = array.name if array.per_kv_head else array.name + suffix
        if name in self.m.arrays:
            return self.m.arrays[name]
        data = None if values is None else values[array.name] if array.name in values else self.drawn(array)
        return self.m.input(name, self.shape(array), data, dtype=self.dtype(array), infinite=array.infinite)

    def drawn(self, array: Array) -> NDArray[np.generic]:
        """Numbers for an input that no problem has: standard normal, or true for half of what is "bool"; by its name always the same."""
        rng, shape, dtype = np.random.default_rng([*array.name.encode()]), self.shape(array), self.dtype(array)
        return rng.random(shape) < 0.5 if dtype == "bool" else rng.standard_normal(shape, np.float32).astype(dtypes.storage(dtype))

    def output(self, array: Array, suffix: str = "") -> Hbm:
        """The HBM array of an output, or of scratch, which need not be written whole."""
        return self.m.output(array.name + suffix, self.shape(array), dtype=self.dtype(array), whole=array.role == "output")

    def shape(self, array: Array) -> tuple[int, int]:
        """Rows and columns of an array."""
        p = self.problem
        numbers = {name: value for name, value in self.values.items() if type(value) is int}
        sizes = {"n": p.n * self.group, "nk": p.nk, "d": p.d, "dv": p.dv, "Br": self.blocks.rows, "Bc": self.blocks.cols, **numbers}
        return evaluate(array.rows, sizes), evaluate(array.cols, sizes)

    def dtype(self, array: Array) -> str:
        """The type of its elements in HBM."""
        types = {"bool": "bool", "storage": self.problem.dtype}
        named = {"scores": dtypes.intermediate, "accumulator": dtypes.accumulator}
        return types.get(array.type) or named[array.type](self.problem.dtype)


def numbers(asked: Kernel, arrays: Mapping[str, Hbm], array: str, group: int) -> NDArray[np.generic]:
    """What ``array`` holds after the run: ``(rows, columns)``, or ``(group, rows, columns)`` where each query head has its own."""
    if f"{array}[0]" in arrays and array not in arrays:
        return np.stack([arrays[f"{array}[{place}]"].data for place in range(group)])
    data = arrays[array].data
    shared = array == SHARED or any(own.name == array and own.per_kv_head for own in asked.arrays)
    return data if group == 1 or shared else data.reshape(-1, group, data.shape[1]).swapaxes(0, 1)
