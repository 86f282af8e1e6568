"""Exercise 3: two partial softmaxes become one, in any order and any grouping."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iosim.course.answers import first_wrong
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong

Float = NDArray[np.float64]
Part = tuple[Float, Float, Float]


def merge(m1: Float, l1: Float, O1: Float, m2: Float, l2: Float, O2: Float) -> tuple[Float, Float, Float]:
    """What is known of the softmax over two sets of keys, from what is known of each: m (rows, 1), l (rows, 1) and O (rows, dv).

    A part that saw, for each query, the logits s and the values v of some keys, knows m = max s, l = sum exp(s - m) and
    O = sum exp(s - m) v, not divided by l. The first set of keys gave m1, l1, O1, the second m2, l2, O2, in the same shapes; the result
    is what a part that saw both sets would know.
    A query that saw no key of a set has m = -inf, l = 0 and O = 0 there. If it saw none of either, that is its result too.
    All are float64, and never NaN.
    """
    m = np.maximum(m1, m2)
    shift = np.where(np.isneginf(m), 0.0, m)  # or (-inf) - (-inf) would be NaN
    a, b = np.exp(m1 - shift), np.exp(m2 - shift)
    return m, a * l1 + b * l2, a * O1 + b * O2


def draw(rng: np.random.Generator) -> list[Given]:
    """Either part has the larger maximum; some saw nothing. Sizes are drawn too."""
    rows, dv = int(rng.integers(4, 9)), int(rng.integers(2, 6))
    one, other = pair(rng, rows, dv)
    return [
        Given("either part has the larger maximum", (*one, *other)),
        Given("huge logits", (*raised(one, 1e4), *raised(other, 1e4))),
        Given("huge negative logits", (*raised(one, -1e4), *raised(other, -1e4))),
        Given("maxima 20000 apart", (*raised(one, -1e4), *raised(other, 1e4))),
        Given("every second query saw nothing in the first part", (*blank(one, 2), *other)),
        Given("no query saw anything in the second part", (*one, *blank(other, 1))),
        Given("every second query saw nothing at all", (*blank(one, 2), *blank(other, 2))),
        Given("one query, one value", tuple(array[:1, :1] for array in (*one, *other))),
    ]


def pair(rng: np.random.Generator, rows: int, dv: int) -> tuple[Part, Part]:
    """Two parts: their maxima are negative and 1/2 to 3 apart, the larger one in turn in the second part and in the first.

    The second l is the larger by 1 or more, every |O| is between 1/2 and 2, of one sign in a column; so no mistake escapes by chance.
    """
    low, apart = rng.uniform(-12.0, -8.0, (rows, 1)), rng.uniform(0.5, 3.0, (rows, 1))
    turn = np.arange(rows)[:, None] % 2
    signs = np.where(np.arange(dv) % 2, -1.0, 1.0)
    l1, l2 = rng.uniform(1.0, 2.0, (rows, 1)), rng.uniform(3.0, 4.0, (rows, 1))
    O1, O2 = rng.uniform(0.5, 2.0, (2, rows, dv)) * signs
    return (low + turn * apart, l1, O1), (low + (1 - turn) * apart, l2, O2)


def raised(part: Part, by: float) -> Part:
    """The part with all logits larger by ``by``."""
    return part[0] + by, part[1], part[2]


def blank(part: Part, every: int) -> Part:
    """The part with each ``every``-th query having seen nothing."""
    unseen = (np.arange(len(part[0])) % every == 0)[:, None]
    m, l, O = part
    return np.where(unseen, -np.inf, m), np.where(unseen, 0.0, l), np.where(unseen, 0.0, O)


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """m first, which is exact, then l and O, sums of two products.

    In units of 2^-53 rounding moves a product by at most 745 for the argument of exp (below -745 it is 0), 8 for an exp, 4 for products and
    sums, and 4 max|m| where one goes by way of m + log l. The truth is as far off again.
    """
    m, l, O = (np.stack([np.asarray(given.args[at]), np.asarray(given.args[at + 3])]) for at in range(3))
    both = m.max(axis=0)
    weights = np.exp(m - np.where(np.isneginf(both), 0.0, both))
    rounding = 2 * 2.0**-53 * (757 + 4 * float(np.abs(m[np.isfinite(m)]).max(initial=0.0)))
    bounds = [rounding * float((weights * np.abs(x)).sum(axis=0).max()) for x in (l, O)]
    wanted = zip("mlO", results, (both, (weights * l).sum(axis=0), (weights * O).sum(axis=0)), (0.0, *bounds), strict=True)
    return next((wrong for told in wanted if (wrong := first_wrong(*told))), None)


KEYS, DIM, SPLITS = 65_536, 128, 16
HANDED_OVER = SPLITS * (DIM + 2)  # m, l and O of one query, by each part
CACHE = 2 * KEYS * DIM

EXERCISE = Exercise(
    number=3,
    name="merge",
    title="Merging two partial softmaxes",
    solution=merge,
    header="import numpy as np\nfrom numpy.typing import NDArray\n\nFloat = NDArray[np.float64]",
    learn="Three things, m, l and O, say all that attention must remember of the keys it has seen. Two such memories merge without a look "
    "at any key, in any order and any grouping: tiles, keys split over processors, and rings of machines rest on this.",
    formula="m = max(m1, m2),  l = exp(m1 - m) l1 + exp(m2 - m) l2,  O = exp(m1 - m) O1 + exp(m2 - m) O2;  attention is O / l, once at the "
    "end",
    paper="Milakov and Gimelshein 2018 (arXiv 1805.02867): the merge of (m, l) is associative and commutative. With O it is the step from "
    "one key tile to the next in FlashAttention-2 (Dao 2023, arXiv 2307.08691), Algorithm 1; that line prints the factor of O with an "
    "exponent -1 that does not belong there.",
    why=f"When one new query meets {KEYS:,} cached keys (d = {DIM}) split into {SPLITS} parts, the parts hand over m, l and O, "
    f"{HANDED_OVER:,} words in all. They are written and read once: {100 * 2 * HANDED_OVER / CACHE:.3f} % of the {CACHE:,} words of K and "
    "V.",
    hints=(
        "The terms of the two parts are exp(s - m1) and exp(s - m2). They can be added only below the same maximum. Which one is it, and "
        "what happens to l1 and O1 when they move there?",
        "Find the larger m, and one factor for each part: exp(its own m - the larger m). The part that holds the maximum gets 1. The same "
        "two factors correct l and O. Where both parts have -inf, subtract 0 instead of it.",
        "shift is m, but 0 where m is -inf (np.where, np.isneginf). a, b = np.exp(m1 - shift), np.exp(m2 - shift). Then l and O are each a "
        "times the first part's plus b times the second's.",
    ),
    check=FunctionCheck(draw, judge, arrays=3, dtypes=("float64", "float64", "float64")),
    mistakes=(
        Mistake(
            "rescale missing",
            "The parts are added as they are, though their terms are taken below different maxima. Merge (0, 2, 4) and (ln 3, 4/3, 32/3), "
            "which are two tiles of two keys: O / l is 6, yours is 4.4.",
            (("a * l1 + b * l2, a * O1 + b * O2", "l1 + l2, O1 + O2"),),
        ),
        Mistake(
            "inverse factor",
            "Both factors are upside down: a part below the smaller maximum must shrink, yours grows. Merge (0, 2, 4) and (ln 3, 4/3, "
            "32/3): O / l is 6, yours is 3.0909.",
            (("np.exp(m1 - shift), np.exp(m2 - shift)", "np.exp(shift - m1), np.exp(shift - m2)"),),
        ),
        Mistake(
            "inverse factor where a part saw keys",
            "Where both parts saw keys, both factors are upside down: a part below the smaller maximum must shrink, yours grows. Merge (0, "
            "2, 4) and (ln 3, 4/3, 32/3): O / l is 6, yours is 3.0909.",
            (("np.exp(m1 - shift), np.exp(m2 - shift)", "(np.where(np.isneginf(x), 0.0, np.exp(shift - x)) for x in (m1, m2))"),),
        ),
        Mistake(
            "l not rescaled",
            "O is corrected, l is not, so that the weights no longer add up to 1. Merge (0, 2, 4) and (ln 3, 4/3, 32/3): O / l is 6, yours "
            "is 3.6.",
            (("a * l1 + b * l2", "l1 + l2"),),
        ),
        Mistake(
            "O not rescaled",
            "l is corrected, O is not, so that the weights no longer add up to 1. Try values that are all 1: then O and l are the same "
            "number before the merge, and must be after it.",
            (("a * O1 + b * O2", "O1 + O2"),),
        ),
        Mistake(
            "second part not rescaled",
            "Only the first part is corrected, as if the second always held the larger maximum. Merge the same parts the other way round: "
            "nothing may change.",
            (("np.exp(m2 - shift)\n", "np.where(np.isneginf(m2), 0.0, 1.0)\n"),),
        ),
        Mistake(
            "factor on wrong side",
            "Each part gets the factor of the other. The part that holds the maximum is the one that stays as it is.",
            (("a, b = ", "b, a = "),),
        ),
        Mistake(
            "max not carried",
            "The result is taken below the second part's maximum even where the first one's is larger. Merge a part with m = 1000 into one "
            "with m = 0: a factor is then exp(1000).",
            (("np.maximum(m1, m2)", "np.array(m2)"),),
        ),
        Mistake(
            "divided too early",
            "O comes out divided by l, but the parts that went in were not. The next merge would take it for an undivided one: divide "
            "once, after the last merge.",
            (("a * O1 + b * O2", "(a * O1 + b * O2) / (a * l1 + b * l2)"),),
        ),
        Mistake(
            "-inf minus -inf",
            "Where neither part saw a key both maxima are -inf, and their difference is NaN. Subtract something finite there: exp(-inf) is "
            "then the 0 that you want.",
            (("np.where(np.isneginf(m), 0.0, m)", "m"),),
        ),
    ),
)
