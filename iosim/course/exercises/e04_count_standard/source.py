"""Exercise 4: the words that standard attention moves, by hand."""

from __future__ import annotations

import numpy as np

from iosim import predict
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong


def count_standard(n: int, nk: int, d: int, dv: int, Br: int) -> int:
    """The words that standard attention moves between HBM and SRAM, reads and writes together: a whole number, exact.

    One head, without a mask: Q (n, d), K (nk, d), V (nk, dv), O (n, dv); the scores S and the weights P, both (n, nk), are stored in HBM
    too. A word is one element of any of these. All arguments are integers >= 1; plain Python integers are all that is needed. Queries are
    cut into tiles of Br rows; the last tile has fewer where Br does not divide n, and moves only the rows that it has. Three passes, each
    over all query tiles:

    1. S = Q K^T: a tile loads its rows of Q once, and for them all of K; it stores its rows of S.
    2. P = softmax(S): each row of S is loaded once, and its row of P stored.
    3. O = P V: a tile loads its rows of P once, and for them all of V; it stores its rows of O.
    """
    tiles = -(-n // Br)
    scores = n * d + tiles * nk * d + n * nk
    softmax = n * nk + n * nk
    output = n * nk + tiles * nk * dv + n * dv
    return scores + softmax + output


def draw(rng: np.random.Generator) -> list[Given]:
    """Ragged tails, N_q != N_k and d != d_v; a tile taller than the queries; one query; whole tiles; a single pair."""
    Br, d = int(rng.integers(3, 9)), int(rng.integers(2, 9))
    tail, tiles = int(rng.integers(1, Br)), int(rng.integers(2, 6))
    n, more = Br * tiles + tail, int(rng.integers(1, 30))
    dv, wide = d + int(rng.integers(1, 5)), int(rng.integers(16, 129))
    return [
        Given("a short last tile, more keys than queries", (n, n + Br + more, d, dv, Br)),
        Given("a short last tile, fewer keys than queries", (n + Br + more, n, dv, d, Br)),
        Given("one tile, taller than the queries", (tail, n, d, dv, Br)),
        Given("one query", (1, 1000 + n, wide, wide, 1)),
        Given("whole tiles, as many queries as keys", (64 * tiles, 64 * tiles, wide, wide, 64)),
        Given("one query and one key, d = 1", (1, 1, 1, 1, 1)),
    ]


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """The very number of the closed form."""
    n, nk, d, dv, Br = (int(size) for size in given.args)
    if results[0].shape != ():
        return Wrong(f"the result has shape {results[0].shape} but should be one whole number")
    wanted, found = standard_words(n, nk, d, dv, Br), int(results[0])
    return None if found == wanted else Wrong(f"the count is {found:,} words but should be {wanted:,}", (), found, wanted)


def standard_words(n: int, nk: int, d: int, dv: int, Br: int, arrays: str = "QKVSPO") -> int:
    """The words of these arrays in the closed form of ``standard``, K and V read once a query tile and each row of S once."""
    moved = predict.predict("standard", Attention(n, d, nk=nk, dv=dv), Blocks(Br, nk), Options(reuse="tiled", softmax="rows"))
    return sum(moved[name].reads + moved[name].writes for name in arrays)


ALL, SCORES = (standard_words(1024, 1024, 64, 64, 1024, arrays) for arrays in ("QKVSPO", "SP"))

EXERCISE = Exercise(
    number=4,
    name="count-standard",
    title="Count the words of standard attention by hand",
    solution=count_standard,
    header="",
    learn="Traffic can be counted before anything is run: go through the passes, and for each array ask how often each of its elements "
    "crosses between HBM and SRAM. The scores and weights, N_q x N_k each, cross twice each and outweigh everything else.",
    formula="words = sum over the passes and their arrays of (how often an element crosses) x (how many elements there are);  "
    "Tr = ceil(N_q / Br) query tiles",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), Algorithm 0: S is written, read, P is written, and read. Its Theta(N d + "
    "N^2) takes each operand of a product once, which is Tr = 1.",
    why=f"At N = 1024, d = 64 and Tr = 1 standard attention moves {ALL:,} words, and {SCORES:,} of them, {100 * SCORES / ALL:.0f} %, are S "
    f"and P. An algorithm that stores neither need move only {predict.compulsory(Attention(1024, 64)):,}: Q, K, V and O once.",
    hints=(
        "Make a table with one line for each array and pass. Which four lines grow with N_q times N_k? And which arrays are loaded again "
        "for every query tile?",
        "Q, O, S and P are cut along the queries: however they are cut, their rows move once a pass. K and V are loaded whole for each of "
        "Tr query tiles, and Tr counts the short last tile too (in whole numbers: -(-n // Br)).",
        "Pass 1 moves n * d + Tr * nk * d + n * nk words. Write the other two passes in the same way and add up the three.",
    ),
    check=FunctionCheck(draw, judge, dtypes=("int64",)),
    mistakes=(
        Mistake(
            "ceil dropped",
            "The short last tile is not counted, but it too loads all of K and V. Try n = 5 and Br = 2: there are 3 query tiles.",
            (("-(-n // Br)", "n // Br"),),
        ),
        Mistake(
            "bytes for words",
            "The result is four times too large: float32 elements have 4 bytes, but what is asked are words, one an element.",
            (("return scores + softmax + output", "return 4 * (scores + softmax + output)"),),
        ),
        Mistake(
            "softmax moves nothing",
            "The second pass is left out. In standard attention the softmax runs by itself: it loads S from HBM and stores P there. "
            "Without that, P could not be read in pass 3.",
            (("return scores + softmax + output", "return scores + output"),),
        ),
        Mistake(
            "K and V read once",
            "K and V do not stay on chip between query tiles: each tile loads them again. Yours is right for a single query tile only.",
            (("-(-n // Br)", "1"),),
        ),
        Mistake(
            "K and V read for every query",
            "A tile loads K and V once for all of its queries together; that is what a tile is for. Set Br = n: then each is read once.",
            (("-(-n // Br)", "n"),),
        ),
        Mistake(
            "tail counted as a whole tile",
            "The last tile is counted with Br rows, but it moves only the rows that it has. Set Br = 1000 and n = 1: a single row of Q is "
            "loaded.",
            (("tiles = -(-n // Br)\n", "tiles = -(-n // Br)\n    n = tiles * Br\n"),),
        ),
        Mistake(
            "rows of Q and O counted in whole tiles",
            "S and P are counted as they are, but Q and O as if the last tile had Br rows. It moves only the rows that it has, whatever "
            "array they belong to: over all tiles these are n.",
            (("scores = n * d", "scores = tiles * Br * d"), ("+ n * dv", "+ tiles * Br * dv")),
        ),
        Mistake(
            "three times the scores",
            "S and P cross four times, not three: S is stored in pass 1 and loaded in pass 2, P is stored in pass 2 and loaded in pass 3.",
            (("softmax = n * nk + n * nk", "softmax = n * nk"),),
        ),
        Mistake(
            "d for dv",
            "The rows of V and O have dv elements, not d. The two may differ: try d = 1 and dv = 100.",
            (("tiles * nk * dv + n * dv", "tiles * nk * d + n * d"),),
        ),
        Mistake(
            "tiles cut along the keys",
            "The number of passes over K and V is that of the query tiles, ceil(n / Br). Yours follows the number of keys: try one query "
            "and a thousand keys, where K is read once.",
            (("-(-n // Br)", "-(-nk // Br)"),),
        ),
    ),
)
