"""Exercise 5: a matrix product tile by tile, within an SRAM that holds neither factor."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import Data, Expected, pick, trial
from iosim.memory import Hbm, Machine
from iosim.predict.bounds import product_bounds

Sizes = tuple[int, int, int]


def tiled_product(m: Machine, A: Hbm, B: Hbm, C: Hbm, *, Bi: int, Bj: int, Bk: int) -> None:
    """C = A B, one tile of C after the other.

    A (I, K) and B (K, J) are read, C (I, J) is filled. A tile C_ij has Bi rows and Bj columns. It stays on chip while all its products
    A_ik B_kj are added up, K being cut into slices of Bk, and is then stored, once. Nothing need divide anything: every last tile may be
    short, and Bi, Bj and Bk may exceed I, J and K.
    SRAM holds C_ij and, at any moment, one A_ik of Bi x Bk and one B_kj of Bk x Bj.
    """
    (I, K), J = A.shape, B.shape[1]
    for i in m.tiles(I, Bi):
        for j in m.tiles(J, Bj):
            c = m.full(0.0, i.size, j.size, name="C_ij")
            for k in m.tiles(K, Bk):
                c += m.load(A[i, k]) @ m.load(B[k, j])
            m.store(C[i, j], c)


def trials(rng: np.random.Generator) -> list[Trial]:
    """Square matrices that the tiles divide, ragged ones of three sizes, and a column that is one long sum."""
    return [
        problem(label, *draw(rng), rng)
        for label, draw in (("whole tiles", whole_tiles), ("ragged tails", ragged_tails), ("one column, long sums", one_column))
    ]


def whole_tiles(rng: np.random.Generator) -> tuple[Sizes, Sizes]:
    """Square matrices that the tiles divide, the slices as deep as C_ij is wide."""
    Bi, Bj = pick(rng, 3, 5), pick(rng, 3, 5)
    return (Bi * Bj, Bi * Bj, Bi * Bj), (Bi, Bj, Bj)


def ragged_tails(rng: np.random.Generator) -> tuple[Sizes, Sizes]:
    """No tile divides its axis."""
    Bi, Bj, Bk = (int(size) for size in rng.permutation([3, 4, 5, 6])[:3])
    I, J, K = (size * pick(rng, 2, 3) + pick(rng, 1, size - 1) for size in (Bi, Bj, Bk))
    return (I, J, K), (Bi, Bj, Bk)


def one_column(rng: np.random.Generator) -> tuple[Sizes, Sizes]:
    """Fewer rows and columns than a tile has, and many slices."""
    I = pick(rng, 3, 6)
    return (I, 1, 8 * pick(rng, 2, 3) + pick(rng, 1, 7)), (I + pick(rng, 1, 3), 2, 8)


def problem(label: str, sizes: Sizes, tiles: Sizes, rng: np.random.Generator) -> Trial:
    """A product of (I, K) by (K, J) as a trial, in the room that the solution needs."""
    I, J, K = sizes
    sram = room(sizes, tiles)
    return trial(
        tiled_product, label, inputs={"A": (I, K), "B": (K, J)}, outputs={"C": (I, J)},
        params=dict(zip(("Bi", "Bj", "Bk"), tiles, strict=True)), data=[random_numbers(sizes, rng), whole_numbers(sizes, rng)],
        data_labels=("random numbers", "whole numbers"), expected=product, sram=sram,
        best=best_known(I, J, K, sram), least=max(bound.words for bound in product_bounds(I, K, J, sram)),
    )  # fmt: skip


def room(sizes: Sizes, tiles: Sizes) -> int:
    """The words of one tile of each matrix."""
    i, j, k = map(min, sizes, tiles)
    return i * j + i * k + k * j


def random_numbers(sizes: Sizes, rng: np.random.Generator) -> Data:
    """Standard normal A and B."""
    I, J, K = sizes
    return {"A": rng.standard_normal((I, K)).astype(np.float32), "B": rng.standard_normal((K, J)).astype(np.float32)}


def whole_numbers(sizes: Sizes, rng: np.random.Generator) -> Data:
    """Whole numbers of 1 to 9, whose products float32 sums without rounding, in any order."""
    I, J, K = sizes
    return {"A": rng.integers(1, 10, (I, K)).astype(np.float32), "B": rng.integers(1, 10, (K, J)).astype(np.float32)}


def product(data: Data) -> Expected:
    """A B in float64; a sum of K products in any order is off by at most K roundings of the sum of their absolute values."""
    A, B = (data[name].astype(np.float64) for name in ("A", "B"))
    exact = all(np.array_equal(x, np.round(x)) for x in (A, B))
    bound = 0.0 if exact else 1.01 * A.shape[1] * 2.0**-24 * float((np.abs(A) @ np.abs(B)).max())
    return {"C": (A @ B, bound)}


def best_known(I: int, J: int, K: int, sram: int) -> int:
    """The fewest words of three loop nests: a tile of C stays, or whole rows of A, or whole columns of B, beside a column and a row."""
    a, b, c = I * K, K * J, I * J
    whole = (sram - K) // (K + 1)  # so many rows of A, or columns of B
    stays = [a + -(-I // whole) * b + c, b + -(-J // whole) * a + c] if whole > 0 else []
    return min([*stays, *(c + -(-J // wide) * a + -(-I // high) * b for high, wide in tiles_of_c(I, J, sram))])


def tiles_of_c(I: int, J: int, sram: int) -> Iterator[tuple[int, int]]:
    """For every height the widest tile that fits with a column of A and a row of B."""
    return ((high, min(J, (sram - high) // (high + 1))) for high in range(1, I + 1) if 2 * high + 1 <= sram)


def words(size: int, tile: int) -> int:
    """What the solution moves for square matrices in square tiles that divide them."""
    return size**2 + 2 * size**3 // tile


SIZE, TILE = 4096, 128
ROOM = TILE**2 + 2 * TILE
LEAST = max(bound.words for bound in product_bounds(SIZE, SIZE, SIZE, ROOM))

EXERCISE = Exercise(
    number=5,
    name="tiled-product",
    title="A product tile by tile",
    solution=tiled_product,
    header="from iosim.memory import Hbm, Machine",
    learn="What stays on chip is read once, and what passes by it is read again for every tile that stays. The larger the tile of C, the "
    "fewer the words; how deep the slices are that pass by costs room and saves nothing.",
    formula="C_ij = sum over k of A_ik B_kj, in I J + ceil(J / Bj) I K + ceil(I / Bi) K J words",
    paper="Attention is two such products, S = Q K^T and O = P V, with a softmax between them: FlashAttention (Dao et al. 2022, arXiv "
    "2205.14135), Algorithm 0, lines 1 and 3. That no order of the sums needs much less than 2 I J K / sqrt(M) words was found by Hong and "
    "Kung (1981), and this constant by Smith et al. (2019, arXiv 1702.02017).",
    why=f"With one element of C at a time, two matrices of {SIZE} x {SIZE} take {words(SIZE, 1):,} words. With tiles of {TILE} x {TILE} "
    f"and slices of depth 1, for which {ROOM:,} words of SRAM suffice, it is {words(SIZE, TILE):,}, "
    f"{words(SIZE, 1) / words(SIZE, TILE):.0f} times fewer, and no order of the same sums could do with less than {LEAST:,} in that room.",
    hints=(
        "Which of the three matrices should stay on chip while the others pass by? One of them is written; written once, it need never be "
        "read.",
        "Two loops choose a tile of C, and make room for it, filled with zeros. A third loop inside runs over the slices of K: it loads a "
        "tile of A and a tile of B, and adds their product to what stays. A tile of two axes is A[i, k].",
        "c = m.full(0.0, i.size, j.size, name='C_ij') stands between the second loop and the third. Inside the third, c += m.load(...) @ "
        "m.load(...) adds in place; c = c + ... would make a value without room, which ends with the slice. Store c after the third loop.",
    ),
    check=KernelCheck(trials, "I J + ceil(J / Bj) I K + ceil(I / Bi) K J"),
    mistakes=(
        Mistake(
            "every slice overwrites the last",
            "C_ij is the sum of the products of all slices, and yours is the product of the last one alone: add with +=.",
            (("c += m.load", "c[...] = m.load"),),
        ),
        Mistake(
            "tail of the sums dropped",
            "The last slice of K may be thinner than Bk, but its products belong to the sum: loop over all of K.",
            (("m.tiles(K, Bk)", "(k for k in m.tiles(K, Bk) if k.size == Bk)"),),
        ),
        Mistake(
            "rows and columns of B exchanged",
            "B has K rows and J columns: its tile beside A_ik is B_kj, and the first index is that of the rows. Only where the matrices "
            "are square does the other way round run at all.",
            (("m.load(B[k, j])", "m.load(B[j, k])"),),
        ),
        Mistake(
            "C stored for every slice",
            "Between the slices C_ij is not done, and it stays on chip anyway: store it once, after the loop over k.",
            (("            m.store(C[i, j], c)", "                m.store(C[i, j], c)"),),
            fails="words",
        ),
        Mistake(
            "sums kept in HBM",
            "C is written and read again for every slice, since the loop over k is outside. Whatever the innermost loop adds to should "
            "stay on chip: make that loop the one over k.",
            (
                (
                    '            c = m.full(0.0, i.size, j.size, name="C_ij")\n            for k in m.tiles(K, Bk):\n'
                    "                c += m.load(A[i, k]) @ m.load(B[k, j])\n            m.store(C[i, j], c)\n",
                    '            m.store(C[i, j], m.full(0.0, i.size, j.size, name="C_ij"))\n    for k in m.tiles(K, Bk):\n'
                    "        for i in m.tiles(I, Bi):\n            for j in m.tiles(J, Bj):\n"
                    "                c = m.load(C[i, j])\n                c += m.load(A[i, k]) @ m.load(B[k, j])\n"
                    "                m.store(C[i, j], c)\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "one row of C at a time",
            "All of B passes by for every tile of C along the rows. A tile of a single row makes that I times; SRAM has room for Bi rows.",
            (("m.tiles(I, Bi)", "m.tiles(I, 1)"),),
            fails="words",
        ),
        Mistake(
            "one column of C at a time",
            "All of A passes by for every tile of C along the columns. A tile of a single column makes that J times; SRAM has room for Bj.",
            (("m.tiles(J, Bj)", "m.tiles(J, 1)"),),
            fails="words",
        ),
        Mistake(
            "sum without room",
            "c = c + ... makes a new value that has no room, and it ends with the slice in which it was made. Add to what has room: c += "
            "...",
            (("c += m.load", "c = c + m.load"),),
            fails="rules",
        ),
        Mistake(
            "whole rows of C at once",
            "M has room for Bj columns of C and of B, not for all of them: cut J into tiles too.",
            (("m.tiles(J, Bj)", "m.tiles(J, J)"),),
            fails="rules",
        ),
        Mistake(
            "slices not cut",
            "M has room for tiles of A and B that are Bk deep, not for whole rows of A and whole columns of B: cut K too.",
            (("m.tiles(K, Bk)", "m.tiles(K, K)"),),
            fails="rules",
        ),
        Mistake(
            "tiles of A kept in a list",
            "What is loaded in a turn of a loop is released when that turn ends, and a Python list has no room on chip. Load A_ik where it "
            "is used: that it is read again for every j is what the budget allows for.",
            (
                (
                    "        for j in m.tiles(J, Bj):\n",
                    "        kept = [m.load(A[i, k]) for k in m.tiles(K, Bk)]\n        for j in m.tiles(J, Bj):\n",
                ),
                (
                    "for k in m.tiles(K, Bk):\n                c += m.load(A[i, k])",
                    "for k, a in zip(m.tiles(K, Bk), kept):\n                c += a",
                ),
            ),
            fails="rules",
        ),
        Mistake(
            "tail rows dropped",
            "The last tile of rows may be short, but C has these rows too, and every element of an output must be written: loop over all "
            "of I.",
            (("m.tiles(I, Bi)", "(i for i in m.tiles(I, Bi) if i.size == min(Bi, I))"),),
            fails="rules",
        ),
    ),
)
