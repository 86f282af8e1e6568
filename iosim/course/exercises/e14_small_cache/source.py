"""Exercise 14: attention where SRAM is small, M < d^2, in blocked products."""

from __future__ import annotations

import numpy as np

from iosim import predict
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.course.predicted import predicted
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import attention_trial, output_answers, pick
from iosim.memory import Hbm, Machine, exp, maximum
from iosim.predict.bounds import least_words


def small_cache(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, S: Hbm, *, Br: int, Bc: int, scale: float) -> None:
    """O = softmax(scale Q K^T) V in an SRAM that is too small for a tile of whole rows of Q and K to pay.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read, O (N_q, d_v) is filled. S (N_q, N_k) lies in HBM too, for what waits between loops.
    For every tile of Br queries: first S_ij in tiles of Br x Bc, each summed on chip over single columns of Q_i and K_j and stored once,
    while m_i and l_i, the row maximum and the sum of exp(S - m_i), are kept online and never leave the chip. Then O_i in tiles of Br rows
    by Bc columns: each stays on chip while the keys pass by one by one, a column of S_i and a row of V, is divided by l_i, and stored once.
    The listing of exercise 8 fits too, but moves at least one and a half times as many words as are allowed, whatever its tiles.
    SRAM holds one tile of Br x Bc, of S or of O, a column of Br words and a row of Bc beside it, and two columns of Br words, m_i and l_i.
    """
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    for i in m.tiles(N_q, Br):
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc):
            s = m.full(0.0, i.size, j.size, name="S_ij")
            for x in m.tiles(d, 1):
                s += m.load(Q[i, x]) @ m.load(K[j, x]).T
            s *= scale
            m.store(S[i, j], s)
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            l_i[...] = exp(m_i - m_new) * l_i + exp(s - m_new).rowsum()
            m_i[...] = m_new
        for y in m.tiles(d_v, Bc):
            o = m.full(0.0, i.size, y.size, name="O_iy")
            for j in m.tiles(N_k, 1):
                o += exp(m.load(S[i, j]) - m_i) @ m.load(V[j, y])
            m.store(O[i, y], o / l_i)


def trials(rng: np.random.Generator) -> list[Trial]:
    """Problems in an SRAM of less than d^2 words, in which FlashAttention-2 fits, but moves more."""
    return [
        problem(label, *draw(rng), rng)
        for label, draw in (("whole tiles", even_tiles), ("ragged tails", uneven_tiles), ("few, long tiles", one_tile))
    ]


def even_tiles(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """Tiles that divide every axis but d."""
    rows, cols = pick(rng, 7, 8), pick(rng, 6, 7)
    return Attention(2 * rows, pick(rng, 14, 16), nk=2 * cols, dv=2 * cols), Blocks(rows, cols)


def uneven_tiles(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """No tile divides its axis, that of d_v included; a scale of its own."""
    rows, cols = (int(size) for size in rng.permutation([7, 8]))
    n, nk = rows + pick(rng, 1, rows - 2), 2 * cols + pick(rng, 1, cols - 1)
    return Attention(n, pick(rng, 12, 14), nk=nk, dv=2 * cols + pick(rng, 1, 3), scale=float(rng.uniform(0.2, 0.9))), Blocks(rows, cols)


def one_tile(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """A few queries in one tile that is higher than they are many, and fewer columns of O than a tile has."""
    n = pick(rng, 3, 5)
    return Attention(n, pick(rng, 14, 15), nk=pick(rng, 25, 35), dv=pick(rng, 9, 10)), Blocks(n + pick(rng, 1, 3), 12)


def problem(label: str, asked: Attention, blocks: Blocks, rng: np.random.Generator) -> Trial:
    """A forward problem as a trial, in the room that the solution needs."""
    return attention_trial(small_cache, label, asked, blocks, rng, scratch=("S",), expected=lambda _, data: output_answers(asked, data))


HEAD, SRAM, TILES = Attention(n=4096, d=64), Capacity(512), Blocks(19, 22)  # d^2 / 8 words, and tiles that fit


def flash2_words() -> int:
    """What FlashAttention-2 moves for the head in its best blocks."""
    return predicted("flash2", HEAD, predict.choose_blocks("flash2", HEAD, SRAM, "best"))


def words() -> int:
    """What the solution moves for the head: as much as square-tiles, but that l and m never leave the chip."""
    moved = predict.predict("square-tiles", HEAD, TILES)
    return sum(array.reads + array.writes for name, array in moved.items() if name not in ("l", "m"))


EXERCISE = Exercise(
    number=14,
    name="small-cache",
    title="Beat flash below M = d^2",
    solution=small_cache,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, exp, maximum",
    learn="FlashAttention keeps whole rows of Q, K, V and O on chip. Where a row is long and SRAM small, few rows fit, and K and V are "
    "read again for every few queries. Then it pays to store S after all, and to make both products in tiles that are bounded both ways.",
    formula="S_ij = scale sum_x Q_ix K_jx^T,  m = max(m, rowmax S_ij),  l = exp(m_old - m) l + rowsum exp(S_ij - m);  then "
    "O_iy = sum_j exp(S_ij - m) V_jy / l",
    paper="Saha and Ye (2024, arXiv 2402.07443), Algorithm 1, SquareTilingAttention: S in square tiles with its row sums, then O in square "
    "tiles; Theorem 3.1 says that nothing is better by more than a constant factor while M < d^2. It stores exp(S), which may overflow, "
    "and its sums; S with m and l is safe, and with both products done for one query tile after the other l and m need not be stored.",
    why=f"At N = {HEAD.n}, d = {HEAD.d} and M = {SRAM.amount} words, an eighth of d^2, FlashAttention-2 has room for two queries and moves "
    f"{flash2_words():,} words at best. Blocked products in tiles of {TILES} move {words():,}, S included: "
    f"{flash2_words() / words():.1f} times fewer. No order of the same products needs less than {least_words(HEAD, SRAM.amount):,}.",
    hints=(
        "S_ij = Q_i K_j^T is a product as in exercise 5: the tile of S stays, and thin slices of Q and K pass by. How thin can they be? "
        "And how often is S read, if O is made in tiles of Bc columns?",
        "For one query tile i: a loop over key tiles, in it a loop over single columns x of m.tiles(d, 1), which adds up S_ij; then S_ij "
        "is scaled, stored, and gives its share to m_i and l_i, online. After that a loop over tiles y of columns of O, in it a loop over "
        "single keys, m.tiles(N_k, 1). By then m_i and l_i are those of the whole row.",
        "s += m.load(Q[i, x]) @ m.load(K[j, x]).T inside the loop over columns; l_i[...] = exp(m_i - m_new) * l_i + exp(s - "
        "m_new).rowsum(). In the second part o += exp(m.load(S[i, j]) - m_i) @ m.load(V[j, y]) for every key, and m.store(O[i, y], o / "
        "l_i).",
    ),
    check=KernelCheck(trials, "N_q N_k (1 + ceil(d_v / Bc)) + Tc N_q d + Tr N_k (d + d_v) + N_q d_v"),
    mistakes=(
        Mistake(
            "maximum not subtracted",
            "exp(S) itself overflows above 88.7 in float32, and then its row is NaN. The maximum of a row is known before O is begun: take "
            "it off in both places.",
            (('m.let(maximum(m_i, s.rowmax()), "m_new")', 'm.let(0.0 * s.rowmax(), "m_new")'),),
        ),
        Mistake(
            "exp stored before the maximum is known",
            "What is stored counts from the maximum so far, which later key tiles may raise: tiles of one row then do not fit together. "
            "Store S, and take exp when you read it, with the maximum of the whole row.",
            (
                ("            m.store(S[i, j], s)\n", ""),
                ("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.store(S[i, j], exp(s - m_new))\n"),
                ("exp(m.load(S[i, j]) - m_i) @", "m.load(S[i, j]) @"),
            ),
        ),
        Mistake(
            "S taken for P",
            "What is read back is S, and S is no weight: its weight is exp(S - m), with the maximum of the whole row.",
            (("exp(m.load(S[i, j]) - m_i) @", "m.load(S[i, j]) @"),),
        ),
        Mistake(
            "P not exponentiated",
            "S - m is no weight yet, and never positive: the weight is its exp.",
            (("exp(m.load(S[i, j]) - m_i) @", "(m.load(S[i, j]) - m_i) @"),),
        ),
        Mistake(
            "maximum not subtracted in the second part",
            "l_i sums exp(S - m), and O has to be made of the same: take m_i off when S is read back, or exp overflows above 88.7 in "
            "float32.",
            (("exp(m.load(S[i, j]) - m_i) @", "exp(m.load(S[i, j])) @"),),
        ),
        Mistake(
            "maximum not carried",
            "m_i still holds what it held before the first key tile, -inf. Each turn of the loop has to leave the new maximum in it.",
            (("            m_i[...] = m_new\n", ""),),
        ),
        Mistake(
            "l not rescaled",
            "When the maximum grows, what l has summed so far was taken below the old one: multiply it by exp(m_old - m_new).",
            (("exp(m_i - m_new) * l_i + exp", "l_i + exp"),),
        ),
        Mistake(
            "l of the last key tile",
            "O is a sum over all keys and is divided by the sum of the last tile. l_i has to keep what earlier tiles gave.",
            (("exp(m_i - m_new) * l_i + exp(s - m_new)", "exp(s - m_new)"),),
        ),
        Mistake(
            "weights not normalised",
            "exp(S - m) adds up to l in every row, not to 1: divide each tile of O by l_i before it is stored.",
            (("m.store(O[i, y], o / l_i)", "m.store(O[i, y], o)"),),
        ),
        Mistake(
            "scale missing",
            "The scores are scale Q K^T; multiply S_ij by scale when its last column is added.",
            (("            s *= scale\n", ""),),
        ),
        Mistake(
            "scaled with every column",
            "S_ij is multiplied by scale again for every column that is added, so that the first ones vanish. Scale it once, after the "
            "loop.",
            (("            s *= scale\n", "                s *= scale\n"),),
        ),
        Mistake(
            "every column overwrites the last",
            "S_ij is the sum over all d columns, and yours is the product of the last ones: add with +=.",
            (("s += m.load(Q", "s[...] = m.load(Q"),),
        ),
        Mistake(
            "O of the last key alone",
            "O is a sum over all keys; yours is overwritten by each of them. Add with +=.",
            (("o += exp", "o[...] = exp"),),
        ),
        Mistake(
            "single columns of O",
            "S is read once for every tile of columns of O. With single columns that is d_v times; SRAM has room for Bc.",
            (("m.tiles(d_v, Bc)", "m.tiles(d_v, 1)"),),
            fails="words",
        ),
        Mistake(
            "single queries",
            "K and V are read once for every query tile. With single queries that is N_q times; SRAM has room for Br.",
            (("m.tiles(N_q, Br)", "m.tiles(N_q, 1)"),),
            fails="words",
        ),
        Mistake(
            "S stored for every column",
            "Only the last sum is S_ij, and it stays on chip until then: store it once, after the loop over columns.",
            (("            s *= scale\n", "                m.store(S[i, j], s)\n            s *= scale\n"),),
            fails="words",
        ),
        Mistake(
            "O stored for every key",
            "Only the last sum is O, and it stays on chip until then: store it once, after the loop over keys.",
            (("            m.store(O[i, y], o / l_i)", "                m.store(O[i, y], o / l_i)"),),
            fails="words",
        ),
        Mistake(
            "whole rows of Q and K",
            "That is how FlashAttention does it, and for its rows of d words there is no room here: cut d too, and let single columns of Q "
            "and K pass by a tile of S.",
            (
                (
                    "            for x in m.tiles(d, 1):\n                s += m.load(Q[i, x]) @ m.load(K[j, x]).T\n",
                    "            s += m.load(Q[i]) @ m.load(K[j]).T\n",
                ),
            ),
            fails="rules",
        ),
        Mistake(
            "whole rows of O",
            "M has room for Bc columns of O, not for all d_v of them: cut d_v too, and read S once for each tile of columns.",
            (("m.tiles(d_v, Bc)", "m.tiles(d_v, d_v)"),),
            fails="rules",
        ),
        Mistake(
            "whole rows of S",
            "M has no room for Br rows of S. Let its columns pass by, one key at a time, beside the tile of O.",
            (("m.tiles(N_k, 1)", "m.tiles(N_k, N_k)"),),
            fails="rules",
        ),
        Mistake(
            "tail columns dropped",
            "The last tile of columns of O may be narrow, but it must be written too: loop over all of d_v.",
            (("m.tiles(d_v, Bc)", "(y for y in m.tiles(d_v, Bc) if y.size == min(Bc, d_v))"),),
            fails="rules",
        ),
    ),
)
