"""Exercise 6: standard attention on the machine, with S and P through HBM."""

from __future__ import annotations

import numpy as np

from iosim.course.exercises.scores import weight_answers
from iosim.course.predicted import in_a_head
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import attention_trials
from iosim.memory import Hbm, Machine, exp


def standard(m: Machine, Q: Hbm, K: Hbm, V: Hbm, S: Hbm, P: Hbm, O: Hbm, *, Br: int, Bc: int, scale: float) -> None:
    """O = P V with P = softmax(S) and S = scale Q K^T, in three passes, each of which reads from HBM what the one before has stored.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; S and P (N_q, N_k) and O (N_q, d_v) are filled, each written once.
    The first pass stores S in tiles of Br queries by Bc keys, with Q_i on chip while the keys pass by. The second reads S once, a whole row
    at a time (its query tiles are of one query, and S[i] is all keys of these), and stores P. The third sums O_i over tiles of P and V,
    with queries outside, and stores it when its last key tile is done.
    SRAM holds what a pass needs: Q_i, K_j and a tile of S; a row of S, which P replaces; or O_i, V_j and a tile of P.
    """
    (N_q, N_k), d_v = S.shape, V.shape[1]
    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        for j in m.tiles(N_k, Bc):
            s = m.let(scale * (q @ m.load(K[j]).T), "S_ij")
            m.store(S[i, j], s)
    for i in m.tiles(N_q, 1):
        s = m.load(S[i])
        s[...] = exp(s - s.rowmax())
        m.store(P[i], s / s.rowsum())
    for i in m.tiles(N_q, Br):
        o = m.full(0.0, i.size, d_v, name="O_i")
        for j in m.tiles(N_k, Bc):
            o += m.load(P[i, j]) @ m.load(V[j])
        m.store(O[i], o)


def trials(rng: np.random.Generator) -> list[Trial]:
    """The usual problems; S and P are judged too."""
    return attention_trials(standard, rng, outputs=("S", "P", "O"), expected=weight_answers)


PAIRS = 4096**2

EXERCISE = Exercise(
    number=6,
    name="standard",
    title="Standard attention: S and P through HBM",
    solution=standard,
    header="from iosim.memory import Hbm, Machine, exp",
    learn="Done one step after the other, attention stores every score, reads it, stores every weight and reads that: four words a pair, "
    "whatever the size of the SRAM, and more than everything else together.",
    formula="S = scale Q K^T;  P_ij = exp(S_ij - max_j S_ij) / sum_j exp(S_ij - max_j S_ij);  O = P V",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), Algorithm 0: S is computed by blocks and stored; S is read, and P stored; P "
    "and V are read by blocks, and O stored. It counts K and V once; with a bounded SRAM they pass by once for every query tile.",
    why=f"At N = 4096, d = 64 in tiles of 64 x 64 this moves {in_a_head('standard'):,} words, {4 * PAIRS:,} of them for S and P, which "
    f"also take {2 * 4 * PAIRS // 2**20} MiB of HBM a head in float32. Exercise 8 moves {in_a_head('flash2'):,}, and stores neither.",
    hints=(
        "Three passes, one after the other, each a nest of loops of its own. What does each read from HBM, and what does it store? Nothing "
        "on chip outlives its loop.",
        "First pass: Q_i is loaded before the loop over key tiles, and S[i, j] stored inside it. Second pass: a softmax needs a whole row, "
        "so loop over the queries one at a time, m.tiles(N_q, 1), where S[i] is a row. Third pass: O_i begins at zero before the loop over "
        "key tiles, and is stored after it.",
        "Second pass: s = m.load(S[i]), then s[...] = exp(s - s.rowmax()) writes the weights over the scores, in the same room, and "
        "s / s.rowsum() can be stored as it is. Third pass: o = m.full(0.0, i.size, d_v, name='O_i'), and inside it adds up m.load(P[i, "
        "j]) @ m.load(V[j]) with +=.",
    ),
    check=KernelCheck(trials, "4 N_q N_k + N_q (d + d_v) + Tr N_k (d + d_v)"),
    mistakes=(
        Mistake(
            "maximum not subtracted",
            "In float32 exp overflows above 88.7, and inf / inf is NaN: take the largest score of the row off first.",
            (("exp(s - s.rowmax())", "exp(s)"),),
        ),
        Mistake(
            "weights not normalised",
            "exp(S - max) are not weights yet: the weights of a query add up to 1, so divide by their sum before P is stored.",
            (("m.store(P[i], s / s.rowsum())", "m.store(P[i], s)"),),
        ),
        Mistake(
            "scale missing",
            "The scores are scale Q K^T, and the softmax of other scores is another one: multiply by scale before S is stored.",
            (("scale * (q @ m.load(K[j]).T)", "q @ m.load(K[j]).T"),),
        ),
        Mistake(
            "P normalised per tile",
            "The maximum and the sum are those of a tile, so that the weights of a query add up to 1 in every key tile. A softmax is over "
            "all keys: take a whole row of S.",
            (
                (
                    "    for i in m.tiles(N_q, 1):\n        s = m.load(S[i])\n        s[...] = exp(s - s.rowmax())\n"
                    "        m.store(P[i], s / s.rowsum())\n",
                    "    for i in m.tiles(N_q, Br):\n        for j in m.tiles(N_k, Bc):\n            s = m.load(S[i, j])\n"
                    "            s[...] = exp(s - s.rowmax())\n            m.store(P[i, j], s / s.rowsum())\n",
                ),
            ),
        ),
        Mistake(
            "O of the last key tile alone",
            "O_i is the sum over all key tiles; yours is overwritten by each of them. Add with +=.",
            (("o += m.load(P[i, j])", "o[...] = m.load(P[i, j])"),),
        ),
        Mistake(
            "tail keys dropped",
            "The last key tile may be short, but its keys have weights too: loop over all of N_k when you sum O.",
            (
                (
                    'name="O_i")\n        for j in m.tiles(N_k, Bc):',
                    'name="O_i")\n        for j in (j for j in m.tiles(N_k, Bc) if j.size == Bc):',
                ),
            ),
        ),
        Mistake(
            "S read once for every step",
            "The maximum, the sum and the division each read S from HBM again. A row of N_k words fits in SRAM: read it once and do all "
            "three there.",
            (
                (
                    "        s = m.load(S[i])\n        s[...] = exp(s - s.rowmax())\n        m.store(P[i], s / s.rowsum())\n",
                    '        m_i, l_i = m.full(float("-inf"), 1, 1, name="m_i"), m.full(0.0, 1, 1, name="l_i")\n'
                    "        for j in m.tiles(N_k, Bc):\n            m_i[...] = maximum(m_i, m.load(S[i, j]).rowmax())\n"
                    "        for j in m.tiles(N_k, Bc):\n            l_i += exp(m.load(S[i, j]) - m_i).rowsum()\n"
                    "        for j in m.tiles(N_k, Bc):\n            m.store(P[i, j], exp(m.load(S[i, j]) - m_i) / l_i)\n",
                ),
                ("Machine, exp\n", "Machine, exp, maximum\n"),
            ),
            fails="words",
        ),
        Mistake(
            "Q loaded for every pair of tiles",
            "Q_i is the same for every key tile: load it once, before the loop over key tiles.",
            (("        q = m.load(Q[i])\n", ""), ("scale * (q @", "scale * (m.load(Q[i]) @")),
            fails="words",
        ),
        Mistake(
            "K and V read for every query",
            "The first and the third pass go over single queries, so that K and V are read once a row, N_q times. A tile of Br queries "
            "reads them once for all of its rows: only the softmax needs single rows.",
            (
                ("m.tiles(N_q, Br):\n        q = ", "m.tiles(N_q, 1):\n        q = "),
                ("m.tiles(N_q, Br):\n        o = ", "m.tiles(N_q, 1):\n        o = "),
            ),
            fails="words",
        ),
        Mistake(
            "K read for every query",
            "The first pass goes over single queries, so that K is read once a row, N_q times. A tile of Br queries reads it once for all "
            "of its rows: only the softmax needs single rows.",
            (("m.tiles(N_q, Br):\n        q = ", "m.tiles(N_q, 1):\n        q = "),),
            fails="words",
        ),
        Mistake(
            "V read for every query",
            "The third pass goes over single queries, so that V is read once a row, N_q times. A tile of Br queries reads it once for all "
            "of its rows: only the softmax needs single rows.",
            (("m.tiles(N_q, Br):\n        o = ", "m.tiles(N_q, 1):\n        o = "),),
            fails="words",
        ),
        Mistake(
            "O stored for every key tile",
            "Only the last sum is O_i, and it stays on chip: store it once, after the loop over key tiles.",
            (("        m.store(O[i], o)", "            m.store(O[i], o)"),),
            fails="words",
        ),
        Mistake(
            "keys outside",
            "With keys outside, O_i is not done when its first key tile is, and must be stored and read again for every other one. Let the "
            "queries be outside.",
            (
                (
                    '        o = m.full(0.0, i.size, d_v, name="O_i")\n        for j in m.tiles(N_k, Bc):\n'
                    "            o += m.load(P[i, j]) @ m.load(V[j])\n        m.store(O[i], o)\n",
                    '        m.store(O[i], m.full(0.0, i.size, d_v, name="O_i"))\n    for j in m.tiles(N_k, Bc):\n'
                    "        for i in m.tiles(N_q, Br):\n            o = m.load(O[i])\n"
                    "            o += m.load(P[i, j]) @ m.load(V[j])\n            m.store(O[i], o)\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "S kept on chip",
            "A softmax over S on chip needs Br whole rows of it there at once, and all of K beside them; and S is asked for in HBM. How to "
            "do without S altogether is the matter of the next exercises.",
            (
                (
                    "        for j in m.tiles(N_k, Bc):\n"
                    '            s = m.let(scale * (q @ m.load(K[j]).T), "S_ij")\n            m.store(S[i, j], s)\n'
                    "    for i in m.tiles(N_q, 1):\n        s = m.load(S[i])\n",
                    '        s = m.let(scale * (q @ m.load(K[:]).T), "S_i")\n',
                ),
            ),
            fails="rules",
        ),
        Mistake(
            "all of S at once",
            "M has room for one row of S, not for all of them. The rows of a softmax have nothing to do with each other: take one at a "
            "time.",
            (("m.tiles(N_q, 1)", "m.tiles(N_q, N_q)"),),
            fails="rules",
        ),
        Mistake(
            "all keys in one tile",
            "M has room for Bc keys, not for all of K: loop over m.tiles(N_k, Bc) when you compute S.",
            (("q = m.load(Q[i])\n        for j in m.tiles(N_k, Bc):", "q = m.load(Q[i])\n        for j in m.tiles(N_k, N_k):"),),
            fails="rules",
        ),
        Mistake(
            "weights used twice without a name",
            "An unnamed value is gone once it was used, and the weights are needed twice, for their sum and for P: write them over S, as "
            "in s[...] = exp(...).",
            (("s[...] = exp(s - s.rowmax())", "p = exp(s - s.rowmax())"), ("s / s.rowsum()", "p / p.rowsum()")),
            fails="rules",
        ),
        Mistake(
            "tail queries dropped",
            "The last query tile may be short, but every row of S must be written: loop over all of N_q.",
            (
                (
                    "for i in m.tiles(N_q, Br):\n        q = m.load(Q[i])",
                    "for i in (i for i in m.tiles(N_q, Br) if i.size == min(Br, N_q)):\n        q = m.load(Q[i])",
                ),
            ),
            fails="rules",
        ),
    ),
)
