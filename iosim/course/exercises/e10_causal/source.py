"""Exercise 10: causal attention that skips the tiles it does not see."""

from __future__ import annotations

import numpy as np

from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.course.exercises import mistakes as common
from iosim.course.exercises.excerpt import excerpt
from iosim.course.predicted import predicted
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import attention_trial, long_tiles, pick, replace_rule, whole_tiles
from iosim.memory import Hbm, Machine, Mask, exp, finite, log, maximum, nonzero


def causal(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """O and each query's log-sum-exp, where query i attends to the keys j <= i + N_k - N_q alone, and the words of other tiles do not move.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; O (N_q, d_v) and LSE (N_q, 1) are filled, as in exercise 8: queries outside, tiles of
    Br queries by Bc keys. ``m.tiles(N_k, Bc, seen=mask.grid.row(i))`` visits only the key tiles in which some query of tile i attends to
    some key. ``j.full`` says of such a tile that every pair of it attends; in any other, ``mask.hide(m, s, i, j)`` sets the scores of the
    pairs that do not to -inf, and moves no words. A query that attends to nothing (there are some where N_q > N_k) has O = 0, LSE = -inf.
    SRAM holds what it holds in exercise 8: Q_i, O_i, K_j, V_j, one tile of Br x Bc for S and then P, and four columns of Br words.
    """
    (N_q, _), (N_k, d_v) = Q.shape, V.shape
    for i in m.tiles(N_q, Br):
        q = m.load(Q[i])
        o = m.full(0.0, i.size, d_v, name="O_i")
        l_i = m.full(0.0, i.size, 1, name="l_i")
        m_i = m.full(-np.inf, i.size, 1, name="m_i")
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "S_ij")
            if not j.full:
                mask.hide(m, s, i, j)
            m_new = m.let(finite(maximum(m_i, s.rowmax())), "m_new")  # or (-inf) - (-inf) would be NaN
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            alpha = m.let(exp(m_i - m_new), "alpha")
            l_i[...] = alpha * l_i + s.rowsum()
            o[...] = alpha * o + s @ v
            m_i[...] = m_new
        m.store(O[i], o / nonzero(l_i))
        m.store(LSE[i], m_i + log(l_i))


def trials(rng: np.random.Generator) -> list[Trial]:
    """As many queries as keys, more of them, so that some attend to nothing, and fewer; all causal."""
    return [
        attention_trial(causal, label, replace_rule(problem, causal=True), blocks, rng, outputs=("O", "LSE"))
        for label, (problem, blocks) in (
            ("whole tiles", whole_tiles(rng)),
            ("queries that see nothing", more_queries(rng)),
            ("few queries, many keys", long_tiles(rng)),
        )
    ]


def more_queries(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """Ragged everywhere; the first query tile sees nothing, and some, but not all, of the second do."""
    rows, cols, d, dv = (int(size) for size in rng.permutation([5, 6, 7, 8]))
    n = 4 * rows + pick(rng, 1, rows - 1)
    nk = int(rng.choice([nk for nk in range(n - 2 * rows + 1, n - rows) if nk % cols]))
    return Attention(n, d, nk=nk, dv=dv, scale=float(rng.uniform(0.2, 0.9))), Blocks(rows, cols)


def words(skip: bool) -> int:
    """What causal FlashAttention-2 moves at N = 8192, d = 128 in tiles of 128 x 128, with and without skipping."""
    return predicted("flash2", Attention(n=8192, d=128, causal=True), Blocks(128, 128), Options(skip=skip))


TILES = 8192 // 128
HIDING = excerpt(causal, "            if not j.full:", "mask.hide(m")

EXERCISE = Exercise(
    number=10,
    name="causal",
    title="Causal attention: skip what no query sees",
    solution=causal,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, Mask, exp, finite, log, maximum, nonzero",
    learn="Exercise 15, which tiles are empty, partial or full, is best done before this one. A mask saves words only "
    "by tiles: what no query of a tile sees is never loaded, what all of them see needs no mask, and only along the edge are single pairs "
    "hidden. And rows that have seen nothing must not divide 0 by 0.",
    formula="S_ij = -inf where j > i + N_k - N_q;  m_new = max(m, rowmax S),  P = exp(S - m_new),  l = exp(m - m_new) l + rowsum P,  "
    "O = exp(m - m_new) O + P V;  in the end O / l and LSE = m + log l, or 0 and -inf where l = 0",
    paper="FlashAttention-2 (Dao 2023, arXiv 2307.08691), section 3.1, causal masking: tiles whose keys all come after their queries are "
    "skipped, about half of them, and only about one tile a row needs the mask. Aligned to the last key, as in its released code since "
    "2.1; PyTorch's is_causal is aligned to the first.",
    why=f"At N = 8192, d = 128 in tiles of 128 x 128, {TILES * (TILES + 1) // 2:,} of {TILES**2:,} tiles are visited and {TILES} of them "
    f"masked. That moves {words(True):,} words; the same listing with every tile visited moves {words(False):,}, "
    f"{words(False) / words(True):.2f} times as many, for the same numbers.",
    hints=(
        "Start from exercise 8. Which key tiles does a query tile not see at all, which does it see whole, and what must happen to the "
        "scores of the others before their maximum is taken?",
        "The inner loop is m.tiles(N_k, Bc, seen=mask.grid.row(i)). Hide the scores right after they are computed, and only where the tile "
        "is not full. Then think of a query that has seen nothing yet: its maximum is -inf, and -inf - (-inf) is NaN; its sum is 0, and 0 "
        "/ 0 is NaN.",
        "if not j.full: mask.hide(m, s, i, j). Of finite(x), exp(-inf - finite(-inf)) is 0, which is what you want: take it of the new "
        "maximum, once for all. Divide O by nonzero(l_i); the LSE of a row with l = 0 comes out as -inf by itself, since log 0 is -inf.",
    ),
    check=KernelCheck(trials, "N_q (d + d_v + 1) + N_seen (d + d_v), where N_seen adds up the keys of every query tile's visited tiles"),
    mistakes=(
        Mistake(
            "all tiles visited",
            "The answer is right, since what does not attend is hidden. But K and V of tiles that no query sees were loaded for nothing: "
            "ask the mask which tiles to visit.",
            (
                ("for j in m.tiles(N_k, Bc, seen=mask.grid.row(i))", "for j in m.tiles(N_k, Bc)"),
                (HIDING, "            mask.hide(m, s, i, j)\n"),
            ),
            fails="words",
        ),
        Mistake(
            "partial tiles not hidden",
            "A visited tile may hold pairs that do not attend: unless the tile is full, set their scores to -inf with mask.hide.",
            ((HIDING, ""),),
        ),
        Mistake(
            "every tile taken for a full one",
            "Without seen= the loop visits all tiles and calls each of them full, so that nothing is hidden: this is attention without a "
            "mask.",
            (("for j in m.tiles(N_k, Bc, seen=mask.grid.row(i))", "for j in m.tiles(N_k, Bc)"),),
        ),
        Mistake(
            "hidden scores set to 0",
            "exp(0 - m) is not 0: a score of 0 still has a weight. A pair that does not attend has the score -inf, whose exp is 0.",
            (
                ("    mask.hide(m, s, i, j)", "    s[...] = where(m.pairs(mask.rule, i, j), s, 0.0)"),
                ("maximum, nonzero\n", "maximum, nonzero, where\n"),
            ),
        ),
        Mistake(
            "hidden after the softmax began",
            "The scores are hidden once P is computed, which sets weights, not scores, to -inf. Hide them before the maximum is taken.",
            (
                (HIDING, ""),
                ("            alpha = m.let", HIDING + "            alpha = m.let"),
            ),
        ),
        Mistake(
            "-inf minus -inf",
            "While a query has seen nothing its maximum is -inf, and the difference of two of these is NaN, which no later tile mends. "
            "Make the maximum finite before it is subtracted.",
            (("finite(maximum(m_i, s.rowmax()))", "maximum(m_i, s.rowmax())"),),
        ),
        Mistake(
            "exercise 8 and hide",
            "Hiding is not enough. While a query has seen nothing its maximum is -inf, and -inf - (-inf) is NaN; and if it never sees "
            "anything its l is 0, and 0 / 0 is NaN. Make the maximum finite before it is subtracted, and what divides O not 0.",
            (("finite(maximum(m_i, s.rowmax()))", "maximum(m_i, s.rowmax())"), ("o / nonzero(l_i)", "o / l_i")),
        ),
        Mistake(
            "rows that see nothing divide by zero",
            "A query that attends to nothing has l = 0, and 0 / 0 is NaN; its O is 0. Divide by something that is not 0 there.",
            (("o / nonzero(l_i)", "o / l_i"),),
        ),
        common.RESCALE_OF_O_MISSING,
        Mistake(
            "maximum not carried",
            "m_i still holds what it held before the tile, so that nothing before it seems to weigh anything: write the new maximum into "
            "it.",
            (("            m_i[...] = m_new\n", ""),),
        ),
        common.q_loaded_again("Q loaded for every pair of tiles"),
        Mistake(
            "LSE stored for every pair of tiles",
            "Only the last m_i + log l_i is the answer, and that of a tile that visits nothing is needed too: store it after the inner "
            "loop, once.",
            (("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.store(LSE[i], m_i + log(l_i))\n"),),
            fails="words",
        ),
        Mistake(
            "queries that see nothing never written",
            "Where O is stored inside the loop over key tiles, a query tile that visits none is never stored. Its O is 0, and must be "
            "written too: store after the loop.",
            (
                ("        m.store(O[i], o / nonzero(l_i))\n", ""),
                ("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.store(O[i], o / nonzero(l_i))\n"),
            ),
            fails="rules",
        ),
        common.S_WITHOUT_ROOM,
        common.p_used_twice(),
        Mistake(
            "K and V kept in a list",
            "A Python list has no room on chip: what was loaded in a turn of a loop is released when that turn ends. Load K_j and V_j "
            "where they are used.",
            (
                (
                    "    for i in m.tiles(N_q, Br):\n",
                    "    kept = [(m.load(K[j]), m.load(V[j])) for j in m.tiles(N_k, Bc)]\n    for i in m.tiles(N_q, Br):\n",
                ),
                (
                    "        for j in m.tiles(N_k, Bc, seen=mask.grid.row(i)):\n            k, v = m.load(K[j]), m.load(V[j])\n",
                    "        for j, (k, v) in zip(m.tiles(N_k, Bc, seen=mask.grid.row(i)), kept):\n",
                ),
            ),
            fails="rules",
        ),
        Mistake(
            "all keys in one tile",
            "M has room for Bc keys, not for all of K and V; and a single tile of all keys is one that can never be skipped. Loop over key "
            "tiles.",
            (
                ("for j in m.tiles(N_k, Bc, seen=mask.grid.row(i))", "for j in m.tiles(N_k, N_k)"),
                (HIDING, "            mask.hide(m, s, i, j)\n"),
            ),
            fails="rules",
        ),
    ),
)
