"""Exercise 2: the maximum and the sum of a softmax in one pass over tiles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iosim.course.answers import first_wrong
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong

Float = NDArray[np.float64]


def online_softmax(x: Float, Bc: int) -> tuple[Float, Float]:
    """The maximum and the sum of each row in one pass over tiles of Bc columns: m (rows, 1) and l (rows, 1).

    x is (rows, cols) and holds at least one logit, each of them finite, or -inf where it is masked.
    m_i = max_j x_ij and l_i = sum_j exp(x_ij - m_i). A row of nothing but -inf has m_i = -inf and l_i = 0.
    Read x in tiles x[:, 0:Bc], x[:, Bc:2 * Bc], ..., each once; that it is one pass is not checked, only m and l are. The last tile is
    narrower where Bc does not divide cols, and Bc may exceed cols. A tile may hold nothing but -inf in a row that has other logits before
    or after it.
    Both results are float64, and never NaN.
    """
    m = np.full((len(x), 1), -np.inf)
    l = np.zeros((len(x), 1))
    for start in range(0, x.shape[1], Bc):
        tile = x[:, start : start + Bc]
        m_new = np.maximum(m, tile.max(axis=1, keepdims=True))
        shift = np.where(np.isneginf(m_new), 0.0, m_new)  # or (-inf) - (-inf) would be NaN
        l = np.exp(m - shift) * l + np.exp(tile - shift).sum(axis=1, keepdims=True)
        m = m_new
    return m, l


def draw(rng: np.random.Generator) -> list[Given]:
    """Rows whose maximum rises, falls and wanders, in tiles of which the last one is short; sizes are drawn too."""
    Bc = int(rng.integers(3, 6))
    cols = Bc * int(rng.integers(2, 5)) + int(rng.integers(1, Bc))
    masked = staircases(rng, cols)
    masked[0, :Bc] = masked[1, Bc : 2 * Bc] = masked[2] = masked[3, ::2] = -np.inf
    return [
        Given("the maximum rises in row 0 and falls in row 1", (staircases(rng, cols), Bc)),
        Given("huge logits", (staircases(rng, cols) + np.array([[1e4], [-1e4], [1e4], [-1e4]]), Bc)),
        Given("masked logits, masked tiles, a masked row", (masked, Bc)),
        Given("tiles of one column", (staircases(rng, cols), 1)),
        Given("a tile wider than the row", (staircases(rng, cols), cols + int(rng.integers(1, 4)))),
        Given("one logit", (rng.uniform(-3.0, -1.0, (1, 1)), 1)),
    ]


def staircases(rng: np.random.Generator, cols: int) -> Float:
    """Four rows of negative logits: rising, falling, in random order, and rising again.

    Any two logits of a row are 1/4 apart or more, and so are the maxima of any two rows; hence no mistake escapes by chance.
    """
    stairs = (np.arange(cols) + rng.uniform(0.0, 0.5, cols)) / 2 - cols
    return np.stack([stairs, stairs[::-1] - 1.0, rng.permutation(stairs) - 2.0, stairs - 3.0])


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """m first, which is exact, then l, a sum of positive addends.

    In units of 2^-53 rounding moves an addend by at most 745 for the arguments of its exponentials (they telescope; below -745 exp is 0),
    8 for an exp, 11 for each of N rescalings and sums, and 4 max|x| where one goes by way of m + log l. The truth is as far off again.
    """
    x = np.asarray(given.args[0])
    m = x.max(axis=1, keepdims=True)
    l = np.exp(x - np.where(np.isneginf(m), 0.0, m)).sum(axis=1, keepdims=True)
    largest = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    bound = 2 * 2.0**-53 * (753 + 11 * x.shape[1] + 4 * largest) * float(l.max())
    return first_wrong("m", results[0], m, 0.0) or first_wrong("l", results[1], l, bound)


SCORES = 4096 * 4096

EXERCISE = Exercise(
    number=2,
    name="online-softmax",
    title="Online softmax: the maximum and the sum in one pass",
    solution=online_softmax,
    header="import numpy as np\nfrom numpy.typing import NDArray\n\nFloat = NDArray[np.float64]",
    learn="The sum of a softmax can be found while its maximum is still rising: whenever the maximum changes, one factor corrects the sum "
    "so far. So a row of scores can be read tile by tile, once, and forgotten.",
    formula="m = -inf and l = 0 before the first tile; then for each tile  m_new = max(m, max tile),  "
    "l_new = exp(m - m_new) l + sum exp(tile - m_new)",
    paper="Milakov and Gimelshein 2018 (arXiv 1805.02867), the softmax with an online normaliser, one element at a time; tile by tile it "
    "is the update of m and l in FlashAttention-2 (Dao 2023, arXiv 2307.08691), Algorithm 1.",
    why=f"Softmax in three loops (maximum, sum, division) loads every score three times and stores it once, 4 words a score. With m and l "
    f"from one pass it is 3: for 4096 x 4096 scores {SCORES:,} words fewer, {4 * SCORES // 2**20} MiB in float32. And since m and l are "
    "known tile by tile, attention need not store the scores at all.",
    hints=(
        "So far l is a sum of terms exp(x - m). Now a tile raises the maximum to m_new. By what must l be multiplied so that each of its "
        "terms becomes exp(x - m_new)? Can that factor exceed 1?",
        "Loop over the starts 0, Bc, 2 Bc, ...; NumPy cuts a slice off at the end of the row. In each turn find m_new from m and the row "
        "maxima of the tile (keepdims=True keeps them a column), then update l, and only then m. Where m_new is still -inf, subtract 0.",
        "shift is m_new, but 0 where m_new is -inf (np.where, np.isneginf). The new l is np.exp(m - shift) * l, plus the row sums of "
        "np.exp(tile - shift).",
    ),
    check=FunctionCheck(draw, judge, arrays=2, dtypes=("float64", "float64")),
    mistakes=(
        Mistake(
            "rescale missing",
            "What earlier tiles added to l was taken below an older maximum, and stays as it is. Compare a row that rises with the same "
            "row backwards: l should be the same, but the rising one gives too much.",
            (("np.exp(m - shift) * l + ", "l + "),),
        ),
        Mistake(
            "inverse factor",
            "The correction of l is upside down. The maximum can only rise, so old terms can only shrink: the factor is at most 1, and 0 "
            "before the first tile. Yours is at least 1, and infinite there.",
            (("np.exp(m - shift) * l", "np.exp(shift - m) * l"),),
        ),
        Mistake(
            "max not carried",
            "Each tile starts from its own maximum and forgets a larger one before it. Look at a row that falls: in the end m is the "
            "maximum of its last tile.",
            (("np.maximum(m, tile.max(axis=1, keepdims=True))", "tile.max(axis=1, keepdims=True)"),),
        ),
        Mistake(
            "tile summed below its own maximum",
            "The terms of a tile are taken below the maximum of that tile, while l counts from the largest so far. In a row that falls, "
            "every later tile then weighs as much as the first.",
            (("np.exp(tile - shift)", "np.exp(tile - np.maximum(tile.max(axis=1, keepdims=True), -1e300))"),),
        ),
        Mistake(
            "maximum starts at 0",
            "A running maximum that begins at 0 never sees that all logits are negative. Try the single logit -5: m is -5 and l is 1. Any "
            "finite beginning fails for logits below it.",
            (("np.full((len(x), 1), -np.inf)", "np.zeros((len(x), 1))"),),
        ),
        Mistake(
            "tail dropped",
            "The last, narrower tile is never read. Try 5 columns and Bc = 2, and print the columns of each turn.",
            (("range(0, x.shape[1], Bc)", "range(0, x.shape[1] - Bc + 1, Bc)"),),
        ),
        Mistake(
            "tail keys counted",
            "The last tile is filled up to Bc columns with zeros, and these count: each adds exp(0 - m) to l, and may even be the maximum. "
            "A column that does not exist must weigh nothing, as -inf does.",
            (("x[:, start : start + Bc]", "np.pad(x, ((0, 0), (0, Bc)))[:, start : start + Bc]"),),
        ),
        Mistake(
            "-inf minus -inf",
            "While a row has shown nothing but -inf, its maximum is -inf too, and the difference of the two is NaN, which no later tile "
            "mends. Subtract something finite there: exp(-inf) is then the 0 that you want.",
            (("np.where(np.isneginf(m_new), 0.0, m_new)", "m_new"),),
        ),
        Mistake(
            "one maximum for all rows",
            "The maximum is taken over the whole tile. The rows of a tile have nothing to do with each other: each has an m of its own.",
            (("tile.max(axis=1, keepdims=True)", "tile.max()"),),
        ),
    ),
)
