"""Exercise 8: FlashAttention-2's order of the loops, the same answer for fewer words."""

from __future__ import annotations

import numpy as np

from iosim.course.exercises import mistakes as common
from iosim.course.predicted import in_a_head
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import attention_trials
from iosim.memory import Hbm, Machine, exp, log, maximum


def flash2(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, *, Br: int, Bc: int, scale: float) -> None:
    """O = softmax(scale Q K^T) V and each query's log-sum-exp, with queries outside and keys inside.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; O (N_q, d_v) and LSE (N_q, 1) are filled. Tiles are Br queries by Bc keys.
    O_i stays on chip, unnormalised, until its last key tile; then it is divided by l_i and stored once, and LSE_i = m_i + log l_i with it.
    SRAM holds Q_i, O_i, K_j, V_j, one tile of Br x Bc for S and then P, and four columns of Br words.
    """
    (N_q, _), (N_k, d_v) = Q.shape, V.shape
    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        o = m.full(0.0, i.size, d_v, name="O_i")
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "S_ij")
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            alpha = m.let(exp(m_i - m_new), "alpha")
            l_i[...] = alpha * l_i + s.rowsum()
            o[...] = alpha * o + s @ v
            m_i[...] = m_new
        m.store(O[i], o / l_i)
        m.store(LSE[i], m_i + log(l_i))


def trials(rng: np.random.Generator) -> list[Trial]:
    """The usual problems, with the room and the words of the solution."""
    return attention_trials(flash2, rng, outputs=("O", "LSE"))


EXERCISE = Exercise(
    number=8,
    name="flash2",
    title="FlashAttention-2's order: the same answer for fewer words",
    solution=flash2,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, exp, log, maximum",
    learn="Which loop is outside decides what stays on chip. With queries outside, O, l and m never leave it: O is stored once, and of l "
    "and m only one number a query.",
    formula="m_new = max(m, rowmax S),  P = exp(S - m_new),  l = exp(m - m_new) l + rowsum P,  O = exp(m - m_new) O + P V;  "
    "in the end O / l and LSE = m + log l",
    paper="FlashAttention-2 (Dao 2023, arXiv 2307.08691), Algorithm 1. Its line for O prints the factor exp(m - m_new) with an exponent "
    "-1; the factor itself is right.",
    why=f"At N = 4096, d = 64 in tiles of 64 x 64, the first paper's order moves {in_a_head('flash'):,} words and this one "
    f"{in_a_head('flash2'):,}: {in_a_head('flash') / in_a_head('flash2'):.2f} times fewer, for the same numbers.",
    hints=(
        "Start from exercise 7 and turn the loops around. What belongs to query tile i (Q_i, O_i, l_i, m_i) is made or loaded before the "
        "loop over key tiles and stored after it.",
        "O_i is a sum of P_ij V_j. When the maximum grows from m to m_new, everything summed so far is too large by exp(m_new - m): "
        "multiply l and O by alpha = exp(m - m_new) before you add the new tile's share, and divide by l only in the end.",
        "Inside: s = m.let(scale * (q @ k.T), ...), m_new = m.let(maximum(m_i, s.rowmax()), ...), s[...] = exp(s - m_new), "
        "alpha = m.let(exp(m_i - m_new), ...), then l_i[...] and o[...] with alpha, last m_i[...] = m_new. A value that is used twice "
        "needs m.let; P is written over S, since there is room for one such tile.",
    ),
    check=KernelCheck(trials, "N_q (d + d_v + 1) + Tr N_k (d + d_v)"),
    mistakes=(
        common.RESCALE_OF_O_MISSING,
        Mistake(
            "inverse factor",
            "The factor on the old O is exp(m_old - m_new), which is at most 1; the paper's line prints its inverse, and at the first tile "
            "that divides 0 by 0.",
            (("alpha * o + s @ v", "o / alpha + s @ v"),),
        ),
        Mistake(
            "maximum not carried",
            "m_i still holds what it held before the tile: the next tile must begin with the maximum that this one ended with.",
            (("            m_i[...] = m_new\n", ""),),
        ),
        Mistake(
            "maximum of the tile alone",
            "m_new must never fall, or exp(m_old - m_new) overflows: take maximum(m_i, s.rowmax()).",
            (("maximum(m_i, s.rowmax())", "s.rowmax()"),),
        ),
        Mistake(
            "l not rescaled",
            "l sums the same weights as O, against the same maximum: it needs the same factor exp(m_old - m_new).",
            (("alpha * l_i + s.rowsum()", "l_i + s.rowsum()"),),
        ),
        Mistake(
            "P normalised in every tile",
            "The l of a tile is not yet that of the row: add P V as it is, and divide by l once, after the last key tile.",
            (("s @ v", "(s / l_i) @ v"), ("m.store(O[i], o / l_i)", "m.store(O[i], o)")),
        ),
        Mistake(
            "O never divided by l",
            "O_i is a sum of exp(S - m) V, and the exp of a row add up to l, not to 1: divide by l_i once, when the last key tile is done.",
            (("m.store(O[i], o / l_i)", "m.store(O[i], o)"),),
        ),
        common.SCALE_MISSING,
        Mistake(
            "LSE without the maximum",
            "log l is the log-sum-exp of S - m; that of S itself is larger by the maximum m.",
            (("m_i + log(l_i)", "log(l_i)"),),
        ),
        common.TAIL_KEYS_DROPPED,
        common.q_loaded_again("Q re-read for every pair of tiles"),
        Mistake(
            "O stored for every pair of tiles",
            "Only the last value of O_i is the answer: store it once, after the inner loop.",
            (
                ("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.store(O[i], o / l_i)\n"),
                ("        m.store(O[i], o / l_i)\n        m.store(LSE", "        m.store(LSE"),
            ),
            fails="words",
        ),
        Mistake(
            "K and V kept in a list",
            "What was loaded in a tile is released when that tile ends; a Python list has no room on chip. Load K_j and V_j where they "
            "are used.",
            (
                (
                    "    for i in m.tiles(N_q, Br):\n",
                    "    kept = [(m.load(K[j]), m.load(V[j])) for j in m.tiles(N_k, Bc)]\n    for i in m.tiles(N_q, Br):\n",
                ),
                ("        for j in m.tiles(N_k, Bc):\n", "        for _, (k, v) in zip(m.tiles(N_k, Bc), kept, strict=True):\n"),
                ("            k, v = m.load(K[j]), m.load(V[j])\n", ""),
            ),
            fails="rules",
        ),
        common.S_WITHOUT_ROOM,
        common.p_used_twice(),
        Mistake(
            "all keys in one tile",
            "M has room for tiles of Bc keys, not for all of K and V: loop over m.tiles(N_k, Bc).",
            (("m.tiles(N_k, Bc)", "m.tiles(N_k, N_k)"),),
            fails="rules",
        ),
        Mistake(
            "tail queries dropped",
            "The last query tile may be short, but its rows of O must be written too: loop over m.tiles(N_q, Br).",
            (("m.tiles(N_q, Br)", "(i for i in m.tiles(N_q, Br) if i.size == min(Br, N_q))"),),
            fails="rules",
        ),
    ),
)
