"""Exercise 11: block-sparse attention, whose cost is that of the tiles that are kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim import predict
from iosim.core.masks.block import BlockMask, grid_shape
from iosim.core.masks.patterns import butterfly
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.course.exercises import mistakes as common
from iosim.course.exercises.e07_flash.source import ENDS, FILLING, KEPT, TURNED, scalable
from iosim.course.exercises.excerpt import excerpt
from iosim.course.exercises.scores import statistic_answers
from iosim.course.predicted import predicted
from iosim.course.spec import Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import USUAL_PROBLEMS, attention_trial, pick
from iosim.memory import Hbm, Machine, Mask, exp, maximum


def block_sparse(m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, L: Hbm, M: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask) -> None:
    """O and the statistics l and m, where only the pairs of some tiles of Br queries by Bc keys attend, and all pairs of these do.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; O (N_q, d_v), L and M (N_q, 1), which are l and m, are filled: keys outside, as in
    exercise 7. What m.tiles gets as ``seen=`` limits its loop: ``mask.grid.columns(skip_empty=True)`` to the key tiles that some query
    attends to, ``mask.grid.col(j)`` to the query tiles that attend to key tile j, ``mask.grid.unvisited_rows()`` to those that attend to
    nothing. No word of any other tile moves. With ``mask.grid.col(j)``, ``i.first`` says that no key tile before this one has met query
    tile i: there O, l and m begin on chip, and are not read. A query that attends to nothing has O = 0, l = 0, m = -inf, written once too.
    SRAM holds what it holds in exercise 7: K_j, V_j, Q_i, O_i, one tile of Br x Bc for S and then P, and eight columns of Br words. In one
    of the problems that are judged rows of Q and K are long and query tiles low, and queries outside move more than is allowed.
    """
    (N_q, d_v), N_k = O.shape, K.shape[0]
    for j in m.tiles(N_k, Bc, seen=mask.grid.columns(skip_empty=True)):
        k, v = m.load(K[j]), m.load(V[j])
        for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):
            q = m.load(Q[i])
            if i.first:
                o, l_i = m.full(0.0, i.size, d_v, name="O_i"), m.full(0.0, i.size, 1, name="l_i")
                m_i = m.full(-np.inf, i.size, 1, name="m_i")
            else:
                o, l_i, m_i = m.load(O[i]), m.load(L[i]), m.load(M[i])
            s = m.let(scale * (q @ k.T), "S_ij")
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            l_i *= exp(m_i - m_new)
            l_new = m.let(l_i + s.rowsum(), "l_new")
            m.store(O[i], (l_i * o + s @ v) / l_new)
            m.store(L[i], l_new)
            m.store(M[i], m_new)
    for i in m.tiles(N_q, Br, seen=mask.grid.unvisited_rows()):
        m.store(O[i], m.full(0.0, i.size, d_v, name="O_i"))
        m.store(L[i], m.full(0.0, i.size, 1, name="l_i"))
        m.store(M[i], m.full(-np.inf, i.size, 1, name="m_i"))


def trials(rng: np.random.Generator) -> list[Trial]:
    """The usual problems, each under a block mask of its own."""
    drawn = [(label, draw(rng)) for label, draw in (*USUAL_PROBLEMS, ("long rows", long_rows))]
    return [masked_trial(label, problem, blocks, rng) for label, (problem, blocks) in drawn]


def long_rows(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """Low query tiles, long rows of Q and K, and d_v = 1: a kept tile has many more words of K than of Q, O, l and m."""
    return Attention(2 * pick(rng, 8, 10) + 1, pick(rng, 18, 22), nk=3 * 8 + pick(rng, 1, 7), dv=1), Blocks(2, 8)


def masked_trial(label: str, problem: Attention, blocks: Blocks, rng: np.random.Generator) -> Trial:
    """A problem under a block mask, in the room that exercise 7 has, so that its listing fits."""
    asked = replace(problem, block_mask=some_tiles(problem, blocks, rng))
    sram = predict.residents("flash", problem, Blocks(min(blocks.rows, problem.n), min(blocks.cols, problem.nk)))
    return scalable(
        attention_trial(block_sparse, label, asked, blocks, rng, outputs=("O", "l", "m"), sram=sram, expected=statistic_answers)
    )


def some_tiles(problem: Attention, blocks: Blocks, rng: np.random.Generator) -> BlockMask:
    """About half the tiles; the first of several query tiles sees nothing, the last one all key tiles but one, which nobody sees."""
    keep = rng.random(grid_shape(problem.n, problem.nk, blocks.rows, blocks.cols)) < 0.5
    keep[0] = False
    keep[-1] = True
    keep[:, rng.integers(keep.shape[1] - 1)] = False
    return BlockMask.from_dense(keep, problem.n, problem.nk, blocks.rows, blocks.cols)


BUTTERFLY = butterfly(4096, 4096, 64, 64)
FEWEST = Options(first_pass="create", skip_empty=True)


def words(mask: BlockMask | None, options: Options = FEWEST) -> int:
    """What block-sparse attention moves at N = 4096, d = 64 in tiles of 64 x 64, the solution or another form of it."""
    return predicted("block-sparse", Attention(n=4096, d=64, block_mask=mask), Blocks(64, 64), options)


SPARSE, DENSE, PRINTED = words(BUTTERFLY), words(None), words(BUTTERFLY, Options())
LOOPS = excerpt(block_sparse, "for j in m.tiles", "o, l_i, m_i = m.load")
STORES = excerpt(block_sparse, "m.store(O[i], (l_i", "m.store(M[i], m_new)")
UNVISITED = FILLING.replace("Br)", "Br, seen=mask.grid.unvisited_rows())")
FILLED_FIRST = ("    for j in m.tiles(N_k, Bc, seen", FILLING + "    for j in m.tiles(N_k, Bc, seen")
EVERY_QUERY_TILE = ("for i in m.tiles(N_q, Br, seen=mask.grid.col(j))", "for i in m.tiles(N_q, Br)")
ALWAYS_READ = ("            if i.first:\n", "            if False:\n")
UNVISITED_LEFT_OUT = (UNVISITED, "")

EXERCISE = Exercise(
    number=11,
    name="block-sparse",
    title="Block-sparse attention: pay for the tiles that are kept",
    solution=block_sparse,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, Mask, exp, maximum",
    learn="Under a block mask words move for the tiles that are kept, and for nothing else. What a dense loop gets for free has to be "
    "thought of: who is met for the first time, who is never met, and which keys nobody wants.",
    formula="m_new = max(m, rowmax S),  P = exp(S - m_new),  l_new = exp(m - m_new) l + rowsum P,  "
    "O_new = (l exp(m - m_new) O + P V) / l_new, over the kept tiles; 0, 0 and -inf for a query without any",
    paper="FlashAttention (Dao et al. 2022, arXiv 2205.14135), Algorithm 5 (appendix D.1): Algorithm 1 with a guard around the inner body. "
    "As printed it fills O, l and m in HBM first and loads K and V of empty columns too. Proposition 4: the words grow with the fraction "
    "of tiles kept.",
    why=f"A butterfly mask keeps {BUTTERFLY.nnz} of {64 * 64:,} tiles of 64 x 64 at N = 4096, which is {100 * BUTTERFLY.density:.0f} %. "
    f"With d = 64 that moves {SPARSE:,} words, {100 * SPARSE / DENSE:.0f} % of the {DENSE:,} that all tiles take in the same order. "
    f"Algorithm 5 as printed, which fills O, l and m in HBM before it begins, moves {PRINTED:,}: {100 * (PRINTED / SPARSE - 1):.0f} % "
    "more.",
    hints=(
        "Start from exercise 7 and put a seen= into both loops. Which of the words that exercise 7 moves are then moved for a tile that is "
        "not kept, or for a query that will be met again anyway?",
        "In the inner loop, where i.first holds, make O_i = 0, l_i = 0 and m_i = -inf on chip with m.full, else load them; so nothing need "
        "be filled in HBM beforehand. After both loops, a third one stores what the unvisited query tiles have.",
        "for j in m.tiles(N_k, Bc, seen=mask.grid.columns(skip_empty=True)), inside it for i in m.tiles(N_q, Br, seen=mask.grid.col(j)), "
        "and in the end for i in m.tiles(N_q, Br, seen=mask.grid.unvisited_rows()). All pairs of a kept tile attend, so that no score is "
        "-inf and nothing has to be hidden or guarded.",
    ),
    check=KernelCheck(
        trials,
        "K_0 (d + d_v) + R (2 d_v + d + 4) + (2 N_0 - N_q) (d_v + 2); K_0 keys in tiles that are met, R rows of all kept tiles, "
        "N_0 queries that see nothing",
    ),
    mistakes=(
        Mistake(
            "rescale missing",
            "When the maximum grows, what l and O hold was weighted against the old one: both need the factor exp(m - m_new).",
            (("            l_i *= exp(m_i - m_new)\n", ""),),
        ),
        Mistake(
            "inverse factor",
            "The factor on the old l is exp(m - m_new), which is at most 1, and 0 at a first visit. Yours is its inverse, and infinite "
            "there.",
            (("l_i *= exp(m_i - m_new)", "l_i *= exp(m_new - m_i)"),),
        ),
        common.old_o_without_its_l(("l_i * o + s @ v", "exp(m_i - m_new) * o + s @ v")),
        Mistake(
            "maximum not carried",
            "What is stored as m is the maximum before this key tile, -inf to begin with, so that nothing before it ever weighs anything: "
            "store the new one.",
            (("m.store(M[i], m_new)", "m.store(M[i], m_i)"),),
        ),
        Mistake(
            "O not divided by l",
            "What is stored is a plain sum, and the next visit takes it for one that has been divided by l, and multiplies it by l again.",
            (("(l_i * o + s @ v) / l_new", "l_i * o + s @ v"),),
        ),
        common.SCORES_NOT_SCALED,
        Mistake(
            "the listing of exercise 7",
            "Without seen= the loops visit every tile, kept or not, and every pair attends: this is attention without a mask. Give the "
            "loop over keys seen=mask.grid.columns(skip_empty=True), and the one over queries seen=mask.grid.col(j).",
            (
                ("    for j in m.tiles(N_k, Bc, seen=mask.grid.columns(skip_empty=True))", FILLING + "    for j in m.tiles(N_k, Bc)"),
                EVERY_QUERY_TILE,
                ALWAYS_READ,
                UNVISITED_LEFT_OUT,
            ),
        ),
        Mistake(
            "query tiles visited that are not kept",
            "Without seen= the inner loop visits every query tile, also those that do not attend to key tile j, and these attend to it "
            "then. Give it seen=mask.grid.col(j).",
            (FILLED_FIRST, EVERY_QUERY_TILE, ALWAYS_READ, UNVISITED_LEFT_OUT),
        ),
        Mistake(
            "empty key tiles loaded",
            "K_j and V_j are loaded before it is known whether any query tile wants them. Visit the key tiles that are met: "
            "skip_empty=True.",
            (("seen=mask.grid.columns(skip_empty=True)", "seen=mask.grid.columns()"),),
            fails="words",
        ),
        Mistake(
            "O, l and m filled in HBM first",
            "This is Algorithm 5 as printed: every query's 0, 0 and -inf are stored, and read back at its first visit. Begin on chip "
            "there, and store them for those alone that are never visited.",
            (FILLED_FIRST, ALWAYS_READ, UNVISITED_LEFT_OUT),
            fails="words",
        ),
        Mistake(
            "zeros stored for every query",
            "A query that some key tile meets is stored then; the 0, 0 and -inf that you stored for it are never read. Store them for the "
            "unvisited query tiles alone.",
            (FILLED_FIRST, UNVISITED_LEFT_OUT),
            fails="words",
        ),
        common.k_and_v_loaded_again(("            q = m.load(Q[i])\n", "            q, k, v = m.load(Q[i]), m.load(K[j]), m.load(V[j])\n")),
        Mistake(
            "queries outside",
            "This is the order of exercise 8: O, l and m stay on chip, but K_j and V_j are read again for every query tile that meets "
            "them. Here keys are to be outside, so that each is loaded once.",
            (
                (LOOPS, TURNED.replace("m.tiles(N_k, Bc)", "m.tiles(N_k, Bc, seen=mask.grid.row(i))")),
                (
                    STORES,
                    "            o[...] = (l_i * o + s @ v) / l_new\n            l_i[...] = l_new\n            m_i[...] = m_new\n" + ENDS,
                ),
                UNVISITED_LEFT_OUT,
            ),
            fails="words",
        ),
        Mistake(
            "queries that see nothing never written",
            "A query tile that no key tile meets is not stored by the loops over kept tiles. Its O = 0, l = 0 and m = -inf must be written "
            "too.",
            (UNVISITED_LEFT_OUT,),
            fails="rules",
        ),
        common.S_WITHOUT_ROOM,
        common.p_used_twice(),
        Mistake(
            "every query tile visited",
            "Without seen= the inner loop visits every query tile, kept or not, and knows of no first visit, so that it reads an O that "
            "nobody has stored. Give it seen=mask.grid.col(j).",
            (EVERY_QUERY_TILE,),
            fails="rules",
        ),
        Mistake(
            "O, l and m read at the first visit",
            "At the first visit nobody has stored O, l and m yet. Where i.first holds they begin on chip: 0, 0 and -inf.",
            (ALWAYS_READ,),
            fails="rules",
        ),
        common.state_in_a_list(
            ("    for j in m.tiles(N_k, Bc, seen", KEPT + "    for j in m.tiles(N_k, Bc, seen"),
            (
                "for i in m.tiles(N_q, Br, seen=mask.grid.col(j)):",
                "for i, (o, l_i, m_i) in zip(m.tiles(N_q, Br, seen=mask.grid.col(j)), kept):",
            ),
            ALWAYS_READ,
            ("                o, l_i, m_i = m.load(O[i]), m.load(L[i]), m.load(M[i])\n", "                pass\n"),
        ),
    ),
)
