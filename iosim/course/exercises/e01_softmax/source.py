"""Exercise 1: softmax that cannot overflow, and the one number a row that the backward pass needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iosim.course.answers import first_wrong, softmax_bounds, softmax_rows
from iosim.course.spec import Array, Exercise, FunctionCheck, Given, Mistake, Wrong

Float = NDArray[np.float64]


def softmax(x: Float) -> tuple[Float, Float]:
    """The softmax of each row, and each row's log-sum-exp: P (rows, cols) and LSE (rows,).

    P_ij = exp(x_ij - m_i) / l_i and LSE_i = m_i + log l_i, with m_i = max_j x_ij and l_i = sum_j exp(x_ij - m_i).
    Every row of x has a finite element; others may be -inf, and weigh 0.
    """
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    l = e.sum(axis=1, keepdims=True)
    return e / l, (m + np.log(l))[:, 0]


def draw(rng: np.random.Generator) -> list[Given]:
    """Rows of several kinds; sizes are drawn too, and no two axes are equal."""
    rows, cols = int(rng.integers(3, 9)), int(rng.integers(10, 30))
    plain = rng.standard_normal((rows, cols))
    hidden = np.where(rng.random((rows, cols)) < 0.4, -np.inf, plain)
    hidden[:, int(rng.integers(cols))] = 1.0
    levels = np.linspace(-3000.0, 3000.0, rows)[:, None]
    return [
        Given("random numbers", (plain,)),
        Given("huge logits", (1000.0 + 300.0 * plain,)),
        Given("rows far apart", (plain + levels,)),
        Given("some logits are -inf", (hidden,)),
        Given("a single column", (100.0 * plain[:, :1],)),
    ]


def judge(given: Given, results: tuple[Array, ...]) -> Wrong | None:
    """P first, then the LSE."""
    x = np.asarray(given.args[0])
    pairs = zip(("P", "LSE"), results, softmax_rows(x), softmax_bounds(x), strict=True)
    return next((wrong for name, found, wanted, bound in pairs if (wrong := first_wrong(name, found, wanted, bound))), None)


EXERCISE = Exercise(
    number=1,
    name="softmax",
    title="Softmax that cannot overflow",
    solution=softmax,
    header="import numpy as np\nfrom numpy.typing import NDArray\n\nFloat = NDArray[np.float64]",
    learn="Subtracting a row's maximum changes no weight and keeps exp from overflowing; one number a row, the log-sum-exp, is enough to "
    "compute every weight of the row again.",
    formula="m_i = max_j x_ij,  l_i = sum_j exp(x_ij - m_i),  P_ij = exp(x_ij - m_i) / l_i,  LSE_i = m_i + log l_i",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), section 3.1, the softmax of one vector: m(x), f(x), l(x).",
    why=f"exp overflows above {np.log(np.finfo(np.float64).max):.1f} in float64, above {np.log(np.finfo(np.float32).max):.1f} in float32 "
    f"and above {np.log(np.finfo(np.float16).max):.1f} in float16: without the maximum a single larger logit turns its whole row into NaN.",
    hints=(
        "exp(x - c) / sum exp(x - c) is the same for every c. Which c makes the largest argument of exp 0?",
        "Every row has a maximum of its own: x.max(axis=1, keepdims=True) has shape (rows, 1) and broadcasts against x. The same holds for "
        "the sum l.",
        "m = x.max(axis=1, keepdims=True); e = np.exp(x - m); l = e.sum(axis=1, keepdims=True). P is e / l; the LSE adds to log l the m "
        "that was taken off, and drops the axis of length 1.",
    ),
    check=FunctionCheck(draw, judge, arrays=2),
    mistakes=(
        Mistake(
            "maximum not subtracted",
            "exp(x) overflows as soon as a logit exceeds 709; take each row's maximum off first.",
            (("np.exp(x - m)", "np.exp(x)"), ("(m + np.log(l))", "np.log(l)")),
        ),
        Mistake(
            "one maximum for all rows",
            "x.max() is the maximum of the whole array: rows far below it underflow to 0 / 0. Every row needs its own, x.max(axis=1, ...).",
            (("x.max(axis=1, keepdims=True)", "np.full((len(x), 1), x.max())"),),
        ),
        Mistake(
            "sums down the columns",
            "The weights of a row add up to 1; axis=0 adds up a column. Sum over axis=1.",
            (
                ("e.sum(axis=1, keepdims=True)", "e.sum(axis=0, keepdims=True)"),
                ("(m + np.log(l))", "(m + np.log(e.sum(axis=1, keepdims=True)))"),
            ),
        ),
        Mistake("weights not normalised", "exp(x - m) are not weights yet: divide by their sum l.", (("return e / l", "return e"),)),
        Mistake(
            "LSE without the maximum",
            "log l is the log-sum-exp of x - m; that of x is larger by m.",
            (("(m + np.log(l))", "np.log(l)"),),
        ),
        Mistake(
            "LSE as a column",
            "The numbers are right, but the LSE has shape (rows, 1): it is asked for as one number a row, (rows,). Drop the axis of length "
            "1.",
            (("(m + np.log(l))[:, 0]", "m + np.log(l)"),),
        ),
        Mistake(
            "LSE of the weights",
            "The weights add up to 1, so that the log of their sum is 0; the LSE is that of the logits: m + log l.",
            (("(m + np.log(l))", "np.log((e / l).sum(axis=1, keepdims=True))"),),
        ),
    ),
)
