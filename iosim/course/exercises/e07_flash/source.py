"""Exercise 7: FlashAttention in the order of the first paper, keys outside."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim.core.problem import Attention, Blocks
from iosim.course.exercises import mistakes as common
from iosim.course.exercises.excerpt import excerpt
from iosim.course.exercises.scores import statistic_answers
from iosim.course.predicted import in_a_head
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import attention_trial, attention_trials, pick
from iosim.memory import Hbm, Machine, exp, maximum


def flash(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, *, Br: int, Bc: int, scale: float) -> None:
    """O = softmax(scale Q K^T) V with keys outside and queries inside; between key tiles O and the statistics l and m wait in HBM.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; O (N_q, d_v), L and M (N_q, 1), which are l and m, are filled. Tiles are Br queries by
    Bc keys. First O = 0, l = 0 and m = -inf are stored. Then each K_j and V_j is loaded once, and for every query tile Q_i, O_i, l_i
    and m_i are loaded, and O_i, l_i and m_i stored. After key tile j they are what attention to the keys so far gives: m the largest
    score, l the sum of exp(S - m), and O, divided by l already, its output.
    SRAM holds K_j, V_j, Q_i, O_i, one tile of Br x Bc for S and then P, and eight columns of Br words: l and m as they come, m~ and l~ of
    the tile, the new m and the new l, and the two factors exp(m - m_new) and exp(m~ - m_new). In one of the problems that are judged the
    rows of Q and K are long, those of V and O are single numbers, and SRAM holds half of the keys: queries outside move more than is
    allowed there.
    """
    (N_q, d_v), N_k = O.shape, K.shape[0]
    for i in m.tiles(N_q, Br):
        m.store(O[i], m.full(0.0, i.size, d_v, name="O_i"))
        m.store(L[i], m.full(0.0, i.size, 1, name="l_i"))
        m.store(M[i], m.full(-np.inf, i.size, 1, name="m_i"))
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        for i in m.tiles(N_q, Br):
            q, o, l_i, m_i = m.load(Q[i]), m.load(O[i]), m.load(L[i]), m.load(M[i])
            s = m.let(scale * (q @ k.T), "S_ij")
            m_t = m.let(s.rowmax(), "m_tilde")
            s[...] = exp(s - m_t)  # P_ij takes the room of S_ij
            l_t = m.let(s.rowsum(), "l_tilde")
            m_new = m.let(maximum(m_i, m_t), "m_new")
            a, b = m.let(exp(m_i - m_new), "a"), m.let(exp(m_t - m_new), "b")
            l_new = m.let(a * l_i + b * l_t, "l_new")
            m.store(O[i], (l_i * a * o + b * (s @ v)) / l_new)
            m.store(L[i], l_new)
            m.store(M[i], m_new)


def trials(rng: np.random.Generator) -> list[Trial]:
    """The usual problems, and one in which keys outside move fewer words; l and m are judged too."""
    usual = attention_trials(flash, rng, outputs=("O", "l", "m"), expected=statistic_answers)
    problem, blocks = long_rows(rng)
    long = attention_trial(flash, "long rows", problem, blocks, rng, outputs=("O", "l", "m"), expected=statistic_answers)
    return [*usual, scalable(long)]


def scalable(asked: Trial) -> Trial:
    """The trial with so many unnamed words that K_j may be multiplied by scale before the product, however long its rows are."""
    assert asked.registers is not None
    return replace(asked, registers=asked.registers + int(asked.params["Bc"]) * asked.inputs["K"][1])


def long_rows(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """A problem that queries outside cannot do in the words of keys outside, in whatever tiles.

    d is large, d_v = 1, and the keys are two tiles. In the same room fewer than half of the queries fit beside a single key, even if each
    takes only two columns; so that queries outside read K and V three times, N_q d + 3 N_k (d + 1) words, which is more than keys outside
    move, N_k (d + 1) + 2 N_q (d + 6).
    """
    d, cols = pick(rng, 18, 22), pick(rng, 8, 9)
    return Attention(2 * cols + 3, d, nk=2 * cols, dv=1), Blocks(2, cols)


FILLING = excerpt(flash, "for i in m.tiles", 'name="m_i"')
LOOPS = excerpt(flash, "for j in m.tiles", "q, o, l_i, m_i =")
TURNED = """    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        o, l_i = m.full(0.0, i.size, d_v, name="O_i"), m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc):
            k, v = m.load(K[j]), m.load(V[j])
"""
STORES = excerpt(flash, "m.store(O[i], (l_i", "m.store(M[i], m_new)")
ENDS = """        m.store(O[i], o)
        m.store(L[i], l_i)
        m.store(M[i], m_i)
"""
KEPT = """    kept = [
        (m.full(0.0, i.size, d_v, name="O_i"), m.full(0.0, i.size, 1, name="l_i"), m.full(-np.inf, i.size, 1, name="m_i"))
        for i in m.tiles(N_q, Br)
    ]
"""

EXERCISE = Exercise(
    number=7,
    name="flash",
    title="FlashAttention: no score leaves the chip",
    solution=flash,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, exp, maximum",
    learn="With two numbers a query, the output for the keys so far can be corrected when the next keys come. So S and P never go through "
    "HBM, and instead of N_k words a query it is O, l and m that come and go, once for every key tile.",
    formula="m~ = rowmax S,  P = exp(S - m~),  l~ = rowsum P;  m_new = max(m, m~),  l_new = exp(m - m_new) l + exp(m~ - m_new) l~,  "
    "O_new = (l exp(m - m_new) O + exp(m~ - m_new) P V) / l_new",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), Algorithm 1: O, l and m are filled in HBM; the outer loop loads K_j and "
    "V_j, the inner one Q_i, O_i, l_i and m_i, and stores the last three. Its appendix C shows that O in HBM is right for the keys so far.",
    why=f"At N = 4096, d = 64 in tiles of 64 x 64 standard attention moves {in_a_head('standard'):,} words and this "
    f"{in_a_head('flash'):,}. With 256 keys in a tile it is {in_a_head('flash', 256):,}: everything but K and V comes by once for every "
    "key tile, so that a larger SRAM moves fewer words, which does nothing for S and P in HBM.",
    hints=(
        "O_i in HBM is divided by the sum of the keys so far. By what must it be multiplied to be a plain sum of exp(S - m_new) V again, "
        "so that the new tile's can be added to it, and by what must all be divided then?",
        "One loop over query tiles stores O_i = 0, l_i = 0 and m_i = -inf (m.full makes them). Then the loop over key tiles loads K_j and "
        "V_j, and the loop inside it, over query tiles, does the rest. At the first key tile l = 0 and exp(m - m_new) = 0: the old O then "
        "weighs nothing, by itself.",
        "Inside: s = m.let(scale * (q @ k.T), ...), m_t and l_t from it with m.let, P written over S by s[...] = exp(s - m_t) before l_t. "
        "Then m_new = m.let(maximum(m_i, m_t), ...), a = exp(m_i - m_new) and b = exp(m_t - m_new), both with room, since both are used "
        "twice. O_i is l_i * a times the old one plus b times s @ v, all over l_new.",
    ),
    check=KernelCheck(trials, "N_k (d + d_v) + Tc (N_q (d + 2 d_v) + 4 N_q) + N_q (d_v + 2)"),
    mistakes=(
        Mistake(
            "rescale of O missing",
            "When the maximum grows, what O holds was weighted against the old one: multiply it by exp(m - m_new) as well as by l.",
            (("l_i * a * o +", "l_i * o +"),),
        ),
        Mistake(
            "inverse factor",
            "The factor on the old O is exp(m - m_new), which is at most 1, and 0 before the first key tile. Yours is its inverse, and 0 / "
            "0 there.",
            (("l_i * a * o +", "l_i / a * o +"),),
        ),
        common.old_o_without_its_l(("l_i * a * o +", "a * o +")),
        Mistake(
            "l not rescaled",
            "The old l is a sum of exp(S - m) with the old m: it needs the factor exp(m - m_new), as the old O does.",
            (("a * l_i + b * l_t", "l_i + b * l_t"),),
        ),
        Mistake(
            "factor of the tile missing",
            "P V of a tile is taken below the tile's own maximum, which may be smaller than that of the keys so far: it weighs exp(m~ - "
            "m_new).",
            (("b * (s @ v)", "s @ v"),),
        ),
        Mistake(
            "maximum not carried",
            "What is stored as m is the maximum of the last key tile, and a larger one before it is forgotten. Store that of all keys so "
            "far.",
            (("m.store(M[i], m_new)", "m.store(M[i], m_t)"),),
        ),
        Mistake(
            "P normalised per tile",
            "P V is divided by the sum of its own tile, and then added up as if all tiles weighed the same. Divide all of it by l_new, "
            "once.",
            (("(l_i * a * o + b * (s @ v)) / l_new", "l_i * a * o / l_new + (s @ v) / l_t"),),
        ),
        Mistake(
            "O not divided by l",
            "What is stored is a plain sum, and the next key tile takes it for one that has been divided by l, and multiplies it by l "
            "again.",
            (("(l_i * a * o + b * (s @ v)) / l_new", "l_i * a * o + b * (s @ v)"),),
        ),
        Mistake(
            "l not stored",
            "Every key tile finds the l = 0 of the beginning, so that all keys before it weigh nothing: store the new l beside O.",
            (("            m.store(L[i], l_new)\n", ""),),
        ),
        common.SCORES_NOT_SCALED,
        common.TAIL_KEYS_DROPPED,
        Mistake(
            "tail queries dropped",
            "The last query tile may be short, and still holds the zeros of the beginning: let the inner loop run over all of N_q, too.",
            (
                (
                    "        for i in m.tiles(N_q, Br):\n            q,",
                    "        for i in (i for i in m.tiles(N_q, Br) if i.size == min(Br, N_q)):\n            q,",
                ),
            ),
        ),
        common.k_and_v_loaded_again(("q, o, l_i, m_i = ", "k, v = m.load(K[j]), m.load(V[j])\n            q, o, l_i, m_i = ")),
        Mistake(
            "queries outside",
            "This is the order of exercise 8: O, l and m stay on chip, but K and V are read once for every query tile. Here keys are to be "
            "outside: K_j and V_j are loaded once, and O, l and m come and go.",
            (
                (FILLING + LOOPS, LOOPS),
                (LOOPS, TURNED),
                (
                    STORES,
                    "            o[...] = (l_i * a * o + b * (s @ v)) / l_new\n            l_i[...] = l_new\n            m_i[...] = m_new\n"
                    + ENDS,
                ),
            ),
            fails="words",
        ),
        Mistake(
            "loops exchanged as they are",
            "With queries outside K and V are read once for every query tile, and O, l and m still go through HBM for every pair of tiles. "
            "Let keys be outside, so that K_j and V_j are loaded once.",
            (
                (
                    LOOPS,
                    "    for i in m.tiles(N_q, Br):\n        q = m.load(Q[i])\n        for j in m.tiles(N_k, Bc):\n"
                    "            k, v = m.load(K[j]), m.load(V[j])\n            o, l_i, m_i = m.load(O[i]), m.load(L[i]), m.load(M[i])\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "division by l in a pass of its own",
            "O is kept as a plain sum and divided in the end, for which it is read and written once more. Here l is known at every key "
            "tile, and the division is free; with queries outside, in exercise 8, it can wait without another pass.",
            (
                ("(l_i * a * o + b * (s @ v)) / l_new", "a * o + b * (s @ v)"),
                (
                    "            m.store(M[i], m_new)\n",
                    "            m.store(M[i], m_new)\n    for i in m.tiles(N_q, Br):\n        m.store(O[i], m.load(O[i]) / "
                    "m.load(L[i]))\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "HBM not filled first",
            "The first key tile already loads O, l and m: before the loops store what attention to no key gives, 0, 0 and -inf.",
            ((FILLING, ""),),
            fails="rules",
        ),
        common.state_in_a_list(
            (FILLING, KEPT),
            (
                "        for i in m.tiles(N_q, Br):\n            q, o, l_i, m_i = m.load(Q[i]), m.load(O[i]), m.load(L[i]), m.load(M[i])\n",
                "        for i, (o, l_i, m_i) in zip(m.tiles(N_q, Br), kept):\n            q = m.load(Q[i])\n",
            ),
        ),
        common.S_WITHOUT_ROOM,
        common.p_used_twice("m_t"),
        Mistake(
            "all queries in one tile",
            "M has room for Br queries beside K_j and V_j, not for all of Q and O: cut the inner loop into tiles too.",
            (("        for i in m.tiles(N_q, Br):\n            q,", "        for i in m.tiles(N_q, N_q):\n            q,"),),
            fails="rules",
        ),
        Mistake(
            "all keys in one tile",
            "M has room for Bc keys, not for all of K and V. That each key tile costs a pass over Q, O, l and m is what the budget allows "
            "for.",
            (("m.tiles(N_k, Bc)", "m.tiles(N_k, N_k)"),),
            fails="rules",
        ),
    ),
)
