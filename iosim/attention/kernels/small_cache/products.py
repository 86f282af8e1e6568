"""Blocked matrix products: a tile of the result stays on chip while both factors stream past it, in tiles or in single lines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim.attention.declaration import Asked
from iosim.attention.kernels.masking import Mask, dropped
from iosim.core.masks.runs import Runs
from iosim.core.problem import Blocks
from iosim.machine import Block, Hbm, Machine, Tile


def by_depth(plan: Asked) -> Blocks:
    """How many rows and keys one blocked product sums over."""
    return Blocks(1, 1) if plan.options.depth == "one" else plan.blocks


def cut_columns(plan: Asked) -> int:
    """In how many pieces a tile of the grid is visited, since columns are cut too."""
    p, wide = plan.problem, min(plan.blocks.cols, plan.problem.nk)
    deep = 1 if plan.options.depth == "one" else wide
    return -(-p.d // deep) + -(-p.dv // wide) * (wide // deep)


def product(m: Machine, A: Hbm, B: Hbm, i: Tile, j: Tile, *, deep: int, name: str) -> Block:
    """A_i B_j^T, as S_ij = Q_i K_j^T, summed over tiles of ``deep`` columns; takes room for Br x Bc words, and beside it for those."""
    s = m.full(0.0, i.size, j.size, name=name)
    for x in m.tiles(A.shape[1], deep):
        a, b = m.load(A[i, x]), m.load(B[j, x])
        s += a @ b.T
    return s


def by_rows(m: Machine, P: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, wide: int, mask: Mask, depth: str) -> None:
    """C = P B, as dQ = dS K: a tile of Br rows and ``wide`` columns of C on chip, P and B streamed past it."""
    (N_q, width), N_k = C.shape, B.shape[0]
    for i in m.tiles(N_q, Br):
        height, seen = inner(mask.grid.row(i), Bc, N_k, depth)
        for x in m.tiles(width, wide):
            c = m.full(0.0, i.size, x.size, name=f"{C.name}_ix")
            for j in m.tiles(N_k, height, seen=seen):
                p, b = m.load(P[i, j]), m.load(B[j, x])
                c += p @ b
            m.store(C[i, x], c)


def by_columns(
    m: Machine, P: Hbm, B: Hbm, C: Hbm, *, Br: int, Bc: int, wide: int, mask: Mask, depth: str, drop: bool = False
) -> None:  # fmt: skip
    """C = P^T B, as dV = P^T dO: a tile of Bc rows and ``wide`` columns of C on chip, as above; ``drop``: P after dropout."""
    (N_k, width), N_q = C.shape, B.shape[0]
    for j in m.tiles(N_k, Bc):
        height, seen = inner(mask.grid.col(j), Br, N_q, depth)
        for x in m.tiles(width, wide):
            c = m.full(0.0, j.size, x.size, name=f"{C.name}_jx")
            for i in m.tiles(N_q, height, seen=seen):
                p, b = m.load(P[i, j]), m.load(B[i, x])
                c += (dropped(m, p, i, j, mask) if drop else p).T @ b
            m.store(C[j, x], c)


def inner(seen: Runs, block: int, rows: int, depth: str) -> tuple[int, Runs]:
    """Heights and tiles of a product's inner loop: those ``seen``, of ``block`` out of ``rows`` rows, or their single rows."""
    if depth == "square":
        return block, seen
    return 1, replace(seen, first=seen.first * block, stop=np.minimum(seen.stop * block, rows))
