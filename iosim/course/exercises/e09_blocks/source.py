"""Exercise 9: the blocks with which FlashAttention-2's order moves the fewest words in an SRAM of M words."""

from __future__ import annotations

import numpy as np

from iosim import predict
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.course.predicted import predicted
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong


def best_blocks(n: int, nk: int, d: int, dv: int, M: int) -> tuple[int, int]:
    """Blocks (Br, Bc) with which FlashAttention-2's order moves the fewest words of all that fit in an SRAM of M words.

    Q (n, d), K (nk, d), V (nk, dv), O (n, dv), no mask. Queries are outside: each tile of Br queries loads its Q, then all of K and V in
    tiles of Bc keys, and stores its O and one number a query. So the words are n (d + dv + 1) + ceil(n / Br) nk (d + dv).
    SRAM holds, all at once and one word an element: Q_i (Br, d), O_i (Br, dv), four columns of Br (l, m, the new m, and the factor
    exp(m - m_new)), K_j (Bc, d), V_j (Bc, dv), and one tile (Br, Bc) for S and then P. Together they may take M words, not more.
    1 <= Br <= n and 1 <= Bc <= nk; both are whole numbers. Where several blocks are best, any of them will do.
    All arguments are integers >= 1, and M has room for one query beside one key. Plain Python integers are all that is needed.
    """
    most = (M - d - dv) // (d + dv + 5)  # queries beside a single key: a row of Q and of O, four columns, and one of S
    tiles = -(-n // most)
    Br = -(-n // tiles)  # as few tiles, but even ones: what they leave is room for keys
    Bc = min(nk, (M - Br * (d + dv + 4)) // (d + dv + Br))
    return Br, Bc


def draw(rng: np.random.Generator) -> list[Given]:
    """Many query tiles of which any taller one would not fit, and any lower one would be one more; SRAM for everything, and for 1 x 1."""
    d, dv = (int(size) for size in rng.permutation(np.arange(2, 6))[:2])
    best = d + dv + int(rng.integers(4, 16))
    tiles, spare = best + int(rng.integers(0, 6)), int(rng.integers(1, d + dv + 4))
    n, nk = best * tiles - 1, int(rng.integers(30, 60))
    tight = best * (d + dv + 5) + d + dv + spare
    roomy = n * (d + dv + 4) + nk * (d + dv) + n * nk
    wide = int(rng.choice([64, 80, 128]))
    return [
        Given("many query tiles", (n, nk, d, dv, tight)),
        Given("many query tiles, few keys", (n, 2, d, dv, tight)),
        Given("room for all queries and some keys", (n, nk, d, dv, roomy - nk)),
        Given("room for more than everything", (n, nk, d, dv, 2 * roomy)),
        Given("room for one query and one key", (n, nk, d, dv, 2 * (d + dv) + 5)),
        Given("a real head", (int(rng.integers(1000, 2000)), int(rng.integers(1000, 2000)), wide, wide, 25_000)),
    ]


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """Blocks that are no blocks, blocks that do not fit, blocks that move more than the best."""
    n, nk, d, dv, M = (int(size) for size in given.args)
    if any(result.shape != () for result in results):
        return Wrong(f"the results have shapes {[result.shape for result in results]} but should be two whole numbers, Br and Bc")
    Br, Bc = (int(result) for result in results)
    if not (1 <= Br <= n and 1 <= Bc <= nk):
        return Wrong(f"Br = {Br}, Bc = {Bc}, but 1 <= Br <= {n} and 1 <= Bc <= {nk} must hold")
    problem = Attention(n, d, nk=nk, dv=dv)
    needed = predict.residents("flash2", problem, Blocks(Br, Bc))
    if needed > M:
        return Wrong(f"Br = {Br}, Bc = {Bc} need {needed:,} words but the SRAM holds {M:,}", (), needed, M)
    found, least = words(problem, Blocks(Br, Bc)), words(problem, predict.choose_blocks("flash2", problem, Capacity(M), "best"))
    says = f"Br = {Br}, Bc = {Bc} need {needed:,} of {M:,} words of SRAM and move {found:,} words, but {least:,} would do"
    return None if found == least else Wrong(says, (), found, least)


def words(problem: Attention, cut: Blocks) -> int:
    """What FlashAttention-2's order moves."""
    return predicted("flash2", problem, cut)


FIRST = ("(d + dv + 5)", "(d + dv + 1)")  # the four columns of a query left out
HEAD, SRAM = Attention(4096, 64), Capacity(49_152)  # 192 KiB of float32
PAPER, BEST = (predict.choose_blocks("flash2", HEAD, SRAM, rule) for rule in ("paper", "best"))

EXERCISE = Exercise(
    number=9,
    name="blocks",
    title="Choose the blocks for an SRAM of M words",
    solution=best_blocks,
    header="",
    learn="M words of SRAM can be spent on tall query tiles or on tall key tiles, and the two are not worth the same: only the block of "
    "the outer loop decides how often K and V are read. And everything that is on chip takes room, S and the columns of l and m too.",
    formula="minimise ceil(n / Br),  subject to  Br (d + dv + 4) + Bc (d + dv) + Br Bc <= M,  1 <= Br <= n,  1 <= Bc <= nk",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), Algorithm 1, line 1, sets Bc = ceil(M / 4d) and Br = min(Bc, d), keys "
    "outside; right up to a constant, but S, l and m are given no room. FlashAttention-2 (Dao 2023, arXiv 2307.08691) has queries outside.",
    why=f"At N = 4096, d = 64 and M = {SRAM.amount:,} words, blocks of {PAPER} (the printed rule with the loops exchanged) move "
    f"{words(HEAD, PAPER):,} words and the best ones, {BEST}, {words(HEAD, BEST):,}: {words(HEAD, PAPER) / words(HEAD, BEST):.2f} times "
    "fewer.",
    hints=(
        "Which of Br and Bc occurs in the number of words, and which does not? How small may the other one be?",
        "K and V are read once for each query tile, so Br should be as large as it can be, beside tiles of a single key. Write down what "
        "Br queries and one key need, solve for Br, and round down. Then spend what is left on Bc.",
        "With Bc = 1 the room is Br (d + dv + 4) + (d + dv) + Br, at most M. Let `most` be the largest such Br: there are ceil(n / most) "
        "tiles; make them even, so that Br is at most n, and give Bc the rest, divided by (d + dv + Br) and rounded down, at most nk.",
    ),
    check=FunctionCheck(draw, judge, arrays=2, dtypes=("int64", "int64")),
    mistakes=(
        Mistake(
            "S has no room",
            "Q, K, V, O and the columns fit, but the tile of scores has no room. It is Br x Bc words, the only term that grows with both.",
            (("(d + dv + 5)", "(d + dv + 4)"), ("(d + dv + Br)", "(d + dv)")),
        ),
        Mistake(
            "l and m have no room",
            "Four columns of Br words stand beside the tiles: l, m, the new m, and the factor. Add up once more what one query takes.",
            (("(d + dv + 5)", "(d + dv + 1)"), ("(d + dv + 4)", "(d + dv)")),
        ),
        Mistake(
            "four columns forgotten, a single key",
            "Br is as large as it can be beside one key, but the columns l, m, the new m and the factor are forgotten: each query takes "
            "four words more.",
            (FIRST, ("return Br, Bc", "return min(n, (M - d - dv) // (d + dv + 1)), 1")),
        ),
        Mistake(
            "O has no room",
            "O_i stays on chip until its query tile is done, so that each query takes a row of Q and a row of O.",
            (("(d + dv + 5)", "(d + 5)"), ("(d + dv + 4)", "(d + 4)")),
        ),
        Mistake(
            "bytes for words",
            "M is divided by 4 as if it were bytes of float32, and three quarters of the SRAM stay empty. M counts words, one an element.",
            (("(M - d - dv) // (d + dv + 5)", "max(1, (M // 4 - d - dv) // (d + dv + 5))"),),
        ),
        Mistake(
            "keys first",
            "The SRAM is spent on key tiles, and K and V are read once for every query. The height of a key tile changes no word at all: "
            "look for Bc in the formula.",
            (("(M - d - dv) // (d + dv + 5)", "1"),),
        ),
        Mistake(
            "square tiles",
            "Br and Bc are made alike, so that half of the SRAM holds keys that could as well come one by one. Compare the words for the "
            "same M with a lower Bc.",
            (("(M - d - dv) // (d + dv + 5)", "max(b for b in range(1, n + 1) if b * (2 * d + 2 * dv + 4 + b) <= M)"),),
        ),
        Mistake(
            "the paper's rule",
            "Bc = ceil(M / 4d) and Br = min(Bc, d) is meant for keys outside, and gives S, l and m no room. Here queries are outside, and "
            "Br need not stop at d.",
            (("return Br, Bc", "return min(n, d, -(-M // (4 * d))), min(nk, -(-M // (4 * d)))"),),
        ),
        Mistake(
            "rounded up",
            "The number of queries that fit is rounded up, so that the last one does not fit any more. Room is rounded down.",
            (("(M - d - dv) // (d + dv + 5)", "-((d + dv - M) // (d + dv + 5))"), ("Bc = min(nk, (M", "Bc = min(nk, 1 + (M")),
        ),
        Mistake(
            "ceil dropped",
            "With n // tiles queries in each, the tiles do not reach the last queries, and one more tile must read K and V again. Try n = "
            "11 in 3 tiles.",
            (("Br = -(-n // tiles)", "Br = n // tiles"),),
        ),
        Mistake(
            "larger than the problem",
            "A block is not larger than what it cuts. Where SRAM has room for more than all keys, Bc stops at nk.",
            (("min(nk, (M - Br * (d + dv + 4)) // (d + dv + Br))", "(M - Br * (d + dv + 4)) // (d + dv + Br)"),),
        ),
    ),
)
