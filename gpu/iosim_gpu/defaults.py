"""What the checks measure unless they are told otherwise, and the tiles that the kernels are compiled in."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from iosim.core.masks import BlockMask
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS, kernel
from iosim_gpu.declaration import Kernel

D, THREADS = 64, 128

SMALL = {"rows": 8, "cols": 12, "d": 16, "threads": 24}
"""Tiles that are simulated quickly. Neither side divides the other or any N below; the threads neither divide d nor equal it."""

SHAPES: tuple[dict[str, int | bool], ...] = (
    {"n": 37, "nk": 29, "heads": 2},
    {"n": 29, "nk": 29, "causal": True},
    {"n": 19, "nk": 37, "causal": True, "batch": 2},
    {"n": 37, "nk": 19, "causal": True},  # bottom-right: the first 18 queries attend to nothing
)


def cases(names: Iterable[str] = KERNELS) -> list[Case]:
    """Every variant of the kernels: ragged and causal, with more queries than keys and with fewer, with several heads, under a mask."""
    return [case for name in names for case in [*_small(kernel(name)), large(name)]]


def _small(asked: Kernel) -> list[Case]:
    made = []
    for variant in asked.variants:
        for shape in SHAPES:
            mask = striped(int(shape["n"]), int(shape["nk"])) if asked.masked else None
            made.append(Case(asked.name, mask=mask, options=variant, **SMALL, **shape))  # type: ignore[arg-type]  # bool only where it is one
    return made


def large(name: str) -> Case:
    """One case in the tiles that a GPU would be given, where a whole warp reads one row."""
    n, (rows, cols) = 64, kernel(name).tiles
    mask = BlockMask.from_dense(np.tri(n // rows, n // cols, dtype=bool), n, n, rows, cols) if kernel(name).masked else None
    return Case(name, n, D, rows, cols, THREADS, mask=mask)


def striped(n: int, nk: int) -> BlockMask:
    """Tiles on and beside the diagonal, less one empty row and one empty column of tiles."""
    rows, cols = SMALL["rows"], SMALL["cols"]
    i, j = np.indices((-(-n // rows), -(-nk // cols)))
    return BlockMask.from_dense((np.abs(i - j) != 1) & (i != 1) & (j != 1), n, nk, rows, cols)


def compiled(name: str, rows: int = 0, cols: int = 0, d: int = D, threads: int = THREADS, *, causal: bool = False) -> list[Case]:
    """One case for each variant of a kernel, to be compiled and not run.

    Args:
        name: the kernel.
        rows, cols: its tiles; its own where a side is 0.
        d: columns of Q, K and V.
        threads: threads of a block.
        causal: whether the causal rule is compiled in.
    """
    asked = kernel(name)
    rows, cols = rows or asked.tiles[0], cols or asked.tiles[1]
    mask = BlockMask.from_dense(np.ones((1, 1), bool), rows, cols, rows, cols) if asked.masked else None
    return [Case(name, rows, d, rows, cols, threads, nk=cols, causal=causal, mask=mask, options=one) for one in asked.variants]
