"""Exercise 13: decoding, the keys split into parts that do not wait for each other, and the parts merged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim.core.hardware.files import device
from iosim.core.masks.block import BlockMask
from iosim.core.problem import Attention, Blocks
from iosim.course.exercises import mistakes as common
from iosim.course.exercises.excerpt import excerpt
from iosim.course.exercises.scores import statistic_answers
from iosim.course.predicted import predicted
from iosim.course.spec import Array, Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import HUGE_LOGITS, LABELS, Data, Expected, best_known, output_answers, pick, random_data, trial
from iosim.memory import Hbm, Machine, Mask, exp, maximum
from iosim.predict.bounds import least_words


def decoding(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, M_p: Hbm, L_p: Hbm, O_p: Hbm, *, Br: int, Bc: int, scale: float, mask: Mask
) -> None:
    """O = softmax(scale Q K^T) V for a few queries and many keys, which are split into T parts that could all be computed at once.

    Q (N_q, d), K (N_k, d) and V (N_k, d_v) are read; O (N_q, d_v), M_p and L_p (T Br, 1) and O_p (T Br, d_v) are filled, and all four are
    judged. All queries are one tile, Q[:], and Br = N_q. A part is some of the tiles of Bc keys, at least one:
    ``for p in m.tiles(O_p.shape[0], Br)`` is a loop over the parts, M_p[p], L_p[p] and O_p[p] are the Br rows of part p, and
    ``m.tiles(N_k, Bc, seen=mask.grid.row(p))`` visits its key tiles.
    First every part, by itself, loads Q and goes over its key tiles as in exercise 8, and stores its m, l and O: those of its own keys
    alone, and O not divided by l. Then a second loop reads what the parts have stored, each once, and merges it; only then O is divided
    by l, and stored once.
    SRAM holds Q, O, K_j, V_j, one tile of Br x Bc for S and then P, and four columns of Br words; the merge takes less.
    """
    rows, (N_k, d_v) = O_p.shape[0], V.shape
    for p in m.tiles(rows, Br):
        q = m.load(Q[:])
        o = m.full(0.0, Br, d_v, name="O_i")
        l_i = m.full(0.0, Br, 1, name="l_i")
        m_i = m.full(-np.inf, Br, 1, name="m_i")
        for j in m.tiles(N_k, Bc, seen=mask.grid.row(p)):
            k, v = m.load(K[j]), m.load(V[j])
            s = m.let(scale * (q @ k.T), "S_ij")
            m_new = m.let(maximum(m_i, s.rowmax()), "m_new")
            s[...] = exp(s - m_new)  # P_ij takes the room of S_ij
            alpha = m.let(exp(m_i - m_new), "alpha")
            l_i[...] = alpha * l_i + s.rowsum()
            o[...] = alpha * o + s @ v
            m_i[...] = m_new
        m.store(M_p[p], m_i)
        m.store(L_p[p], l_i)
        m.store(O_p[p], o)
    o_all = m.full(0.0, Br, d_v, name="O")
    l_all = m.full(0.0, Br, 1, name="l")
    m_all = m.full(-np.inf, Br, 1, name="m")
    for p in m.tiles(rows, Br):
        m_p = m.load(M_p[p])
        m_new = m.let(maximum(m_all, m_p), "m_new")
        alpha, beta = m.let(exp(m_all - m_new), "alpha"), m.let(exp(m_p - m_new), "beta")
        l_all[...] = alpha * l_all + beta * m.load(L_p[p])
        o_all[...] = alpha * o_all + beta * m.load(O_p[p])
        m_all[...] = m_new
    m.store(O[:], o_all / l_all)


def trials(rng: np.random.Generator) -> list[Trial]:
    """One query; a few, with ragged tails, d != d_v and another scale; and a last part of a single key. There are three parts or four."""
    return [
        problem(label, asked, blocks, part_sizes(-(-asked.nk // blocks.cols), pick(rng, 3, 4), rng), rng)
        for label, (asked, blocks) in (
            ("one query", one_query(rng)),
            ("a few queries, ragged tails", few_queries(rng)),
            ("a part of one key", one_key(rng)),
        )
    ]


def one_query(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """A query against whole tiles of keys."""
    cols = pick(rng, 4, 6)
    return Attention(1, pick(rng, 7, 9), nk=cols * pick(rng, 7, 9)), Blocks(1, cols)


def few_queries(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """The last key tile is short; d, d_v, Br and Bc all differ; a scale of its own."""
    n, cols, d, dv = (int(size) for size in rng.permutation([3, 4, 5, 6]))
    nk = cols * pick(rng, 7, 9) + pick(rng, 1, cols - 1)
    return Attention(n, d, nk=nk, dv=dv, scale=float(rng.uniform(0.2, 0.9))), Blocks(n, cols)


def one_key(rng: np.random.Generator) -> tuple[Attention, Blocks]:
    """Of the last key tile a single key is left; d_v = 1."""
    n, cols = pick(rng, 2, 4), pick(rng, 5, 7)
    return Attention(n, pick(rng, 2, 4), nk=cols * pick(rng, 4, 5) + 1, dv=1), Blocks(n, cols)


def problem(label: str, asked: Attention, blocks: Blocks, sizes: list[int], rng: np.random.Generator) -> Trial:
    """A forward problem as a trial, its keys split into parts of so many key tiles."""
    rows = len(sizes) * blocks.rows
    found = trial(
        decoding, label, inputs={"Q": (asked.n, asked.d), "K": (asked.nk, asked.d), "V": (asked.nk, asked.dv)},
        outputs={"O": (asked.n, asked.dv), "M_p": (rows, 1), "L_p": (rows, 1), "O_p": (rows, asked.dv)},
        params={"Br": blocks.rows, "Bc": blocks.cols, "scale": asked.softmax_scale},
        data=[ordered(random_data(asked, rng), 1), ordered(random_data(asked, rng, HUGE_LOGITS), -1)], data_labels=LABELS,
        expected=lambda data: output_answers(asked, data), mask=parts(asked, blocks, sizes),
    )  # fmt: skip
    found = replace(found, expected=lambda data: {**partial_answers(found, data), **output_answers(asked, data)})
    return replace(found, best=best_known(asked, found), least=least_words(asked, found.sram))


def ordered(data: Data, step: int) -> dict[str, Array]:
    """The same keys in another order: for the first query the maximum rises from tile to tile (``step`` 1) or falls (-1)."""
    order = np.argsort(data["K"] @ data["Q"][0])[::step]
    return {**data, "K": data["K"][order]}


def part_sizes(tiles: int, count: int, rng: np.random.Generator) -> list[int]:
    """How many key tiles each of ``count`` parts gets: one at least, in the last part no more, and more in some other."""
    inner = np.sort(rng.choice(np.arange(1, tiles - 1), count - 2, replace=False))
    return [int(size) for size in np.diff([0, *inner, tiles - 1, tiles])]


def parts(asked: Attention, blocks: Blocks, sizes: list[int]) -> Attention:
    """Which key tiles are those of which part, as a block mask: one query tile a part, which attends to them alone."""
    seen = np.repeat(np.eye(len(sizes), dtype=bool), sizes, axis=1)
    rows = len(sizes) * blocks.rows
    mask = BlockMask.from_dense(seen, rows, asked.nk, blocks.rows, blocks.cols)
    return replace(asked, n=rows, scale=asked.softmax_scale, block_mask=mask)


def partial_answers(found: Trial, data: Data) -> Expected:
    """M_p, L_p and O_p: the statistics of every part under the mask of the parts, and its O times its l.

    If o is off by at most b, and l by at most c, their product is off by (|o| + b) c + l b.
    """
    rows = found.outputs["O_p"][0]
    right = statistic_answers(found, {**data, "Q": np.tile(data["Q"], (rows // len(data["Q"]), 1))})
    (l, c), (o, b) = right["l"], right["O"]
    return {"M_p": right["m"], "L_p": (l, c), "O_p": (o * l, float(((np.abs(o) + b) * c + l * b).max()))}


CACHE, CHIP = Attention(n=1, d=128, nk=65_536), device("a100-40gb")


def words(count: int) -> int:
    """What the solution moves for one query and a cache of many keys in ``count`` parts."""
    return count * CACHE.d + CACHE.nk * (CACHE.d + CACHE.dv) + 2 * count * (CACHE.dv + 2) + CACHE.dv


ONE = predicted("flash2", CACHE, Blocks(1, 128))

BEGUN = excerpt(decoding, "q = m.load(Q[:])", 'name="m_i"')
CARRIED = """    o = m.full(0.0, Br, d_v, name="O_i")
    l_i = m.full(0.0, Br, 1, name="l_i")
    m_i = m.full(-np.inf, Br, 1, name="m_i")
"""
STORED = excerpt(decoding, "m.store(M_p[p]", "m.store(O_p[p]")
MERGED = excerpt(decoding, "o_all = m.full", "m.store(O[:]")
EACH_MERGED = excerpt(decoding, "m_p = m.load", "m_all[...] =")
CARRIED_ON = (
    (BEGUN, "        q = m.load(Q[:])\n"),
    ("    for p in m.tiles(rows, Br):\n        q = m.load(Q[:])", CARRIED + "    for p in m.tiles(rows, Br):\n        q = m.load(Q[:])"),
)

EXERCISE = Exercise(
    number=13,
    name="decoding",
    title="Decoding: split the keys, then merge the parts",
    solution=decoding,
    header="import numpy as np\n\nfrom iosim.memory import Hbm, Machine, Mask, exp, maximum",
    learn="What is known of a softmax over some keys, (m, l, O), can be merged with what is known of it over others, in any order. So "
    "parts of the keys need not wait for each other, and many processors can work on a single query. It costs the few words that wait in "
    "HBM in between.",
    formula="for each part p: m_p = max S,  l_p = rowsum exp(S - m_p),  O_p = exp(S - m_p) V;  then m = max_p m_p, "
    "O = sum_p exp(m_p - m) O_p / sum_p exp(m_p - m) l_p",
    paper="Flash-Decoding (Dao, Haziza, Massa and Sizov 2023), three steps: the keys are split without a copy, FlashAttention runs over "
    "each part, and a second kernel reduces over the parts. It stores each part's O divided by l, with its log-sum-exp; the merge is the "
    "same.",
    why=f"A model that writes has one query a head and a cache of, say, {CACHE.nk:,} keys. FlashAttention-2 cuts only queries, so that one "
    f"of the {CHIP.sms} SMs of an A100 would read the whole cache of a head. With {CHIP.sms} parts all of them read, and for d = {CACHE.d} "
    f"{words(CHIP.sms):,} words move instead of {ONE:,}, {100 * (words(CHIP.sms) / ONE - 1):.2f} % more.",
    hints=(
        "The first loop is exercise 8 without its last two lines: what a part knows is stored as it is. The second loop is exercise 3: "
        "where a merge of two parts needs m1, l1, O1, those are what has been merged so far.",
        "The state of the merge is three blocks, made after the first loop: m = -inf, l = 0, O = 0. For every part, the new maximum is "
        "that of m and m_p; what was merged so far is worth exp(m - m_new) now, and the part exp(m_p - m_new). Both weights go with l and "
        "with O.",
        "In the second loop: m_p = m.load(M_p[p]), m_new = m.let(maximum(m_all, m_p), ...), alpha = m.let(exp(m_all - m_new), ...), beta = "
        "m.let(exp(m_p - m_new), ...); l_all[...] = alpha * l_all + beta * m.load(L_p[p]), the same for O, last m_all[...] = m_new. After "
        "it, m.store(O[:], o_all / l_all).",
    ),
    check=KernelCheck(trials, "T N_q d + N_k (d + d_v) + 2 T N_q (d_v + 2) + N_q d_v"),
    mistakes=(
        Mistake(
            "parts added as they are",
            "Each part counts from a maximum of its own, so that the same exp stands for other weights in every part. Before they can be "
            "added, l_p and O_p must be multiplied by exp(m_p - m).",
            (("beta * m.load(L_p[p])", "m.load(L_p[p])"), ("beta * m.load(O_p[p])", "m.load(O_p[p])")),
        ),
        Mistake(
            "inverse factor",
            "The weight of a part is upside down. The maximum of all parts is no less than that of one, so a part can only lose weight: "
            "the factor is exp(m_p - m), at most 1.",
            (("exp(m_p - m_new)", "exp(m_new - m_p)"),),
        ),
        Mistake(
            "merged parts not rescaled",
            "When a part raises the maximum, what was merged before it is worth less: multiply O, like l, by exp(m_old - m_new).",
            (("alpha * o_all + beta", "o_all + beta"),),
        ),
        Mistake(
            "l merged without weights",
            "l_p sums the same exp as O_p, below the same maximum: it needs the same weights, or O / l is no average.",
            (("alpha * l_all + beta * m.load(L_p[p])", "l_all + m.load(L_p[p])"),),
        ),
        Mistake(
            "l of the last part",
            "O is merged from all parts and divided by the l of the last one. The weights of a query add up to 1 over all keys: merge l as "
            "you merge O.",
            (("alpha * l_all + beta * m.load(L_p[p])", "m.load(L_p[p])"),),
        ),
        Mistake(
            "maximum of the merge not carried",
            "m still holds what it held before the first part, -inf, so that everything merged so far weighs 0 and only the last part "
            "counts. Each turn of the second loop has to leave the new maximum in m.",
            (("        m_all[...] = m_new\n", ""),),
        ),
        Mistake(
            "parts averaged",
            "Each part is normalised, and then they all count alike. But a part with larger scores, or more keys, deserves more: its "
            "weight is exp(m_p - m) l_p.",
            (
                ("m.store(O_p[p], o)", "m.store(O_p[p], o / l_i)"),
                ("l_all[...] = alpha * l_all + beta * m.load(L_p[p])", "l_all += 1.0"),
                ("o_all[...] = alpha * o_all + beta * m.load(O_p[p])", "o_all += m.load(O_p[p])"),
            ),
        ),
        Mistake(
            "normalised twice",
            "O_p is divided by l_p, and the merged O by l once more. Store O_p as it is; one division, after the merge, is enough.",
            (("m.store(O_p[p], o)", "m.store(O_p[p], o / l_i)"),),
        ),
        Mistake(
            "not normalised",
            "O is a sum of exp(S - m) V, and the exp add up to l, not to 1: divide by l when all parts are merged.",
            (("m.store(O[:], o_all / l_all)", "m.store(O[:], o_all)"),),
        ),
        Mistake(
            "rescale missing within a part",
            "A part has several key tiles, and its maximum may grow from one to the next: then multiply what O has summed so far by "
            "exp(m_old - m_new), as in exercise 8.",
            (("alpha * o + s @ v", "o + s @ v"),),
        ),
        common.SCALE_MISSING,
        Mistake(
            "every part reads all keys",
            "Each part has gone over all keys: the merge then averages equal things, and O is right, but nothing was split, and K and V "
            "were read T times. Limit the loop to the key tiles of the part, with seen=mask.grid.row(p).",
            (("for j in m.tiles(N_k, Bc, seen=mask.grid.row(p))", "for j in m.tiles(N_k, Bc)"),),
        ),
        Mistake(
            "nothing is split",
            "O is right, but M_p, L_p and O_p hold nothing: no part has left what it knows in HBM, so that one after the other has to wait "
            "for the state on chip. Begin m, l and O anew for every part and store them; merge in a second loop.",
            (
                ("    for p in m.tiles(rows, Br):\n        q = m.load(Q[:])", "    for _ in m.tiles(1, 1):\n        q = m.load(Q[:])"),
                ("for j in m.tiles(N_k, Bc, seen=mask.grid.row(p))", "for j in m.tiles(N_k, Bc)"),
                (STORED, "        m.store(O[:], o / l_i)\n"),
                (MERGED, ""),
            ),
            fails="rules",
        ),
        Mistake(
            "parts go on from one another",
            "m, l and O are those of all keys so far: each part goes on where the one before it ended, and has to wait for it. A part "
            "begins with m = -inf, l = 0 and O = 0 of its own; what the parts know is put together in the second loop alone.",
            (*CARRIED_ON, (MERGED, "    m.store(O[:], o / l_i)\n")),
        ),
        Mistake(
            "parts go on from one another, and are merged",
            "m, l and O are made once for all parts, so that each part holds the keys of those before it too, and the merge counts these "
            "again. A part begins with m = -inf, l = 0 and O = 0 of its own.",
            CARRIED_ON,
        ),
        Mistake(
            "Q loaded for every key tile",
            "Q is the same for all key tiles of a part: load it once, before the loop over them.",
            (("        q = m.load(Q[:])\n", ""), ("k, v = m.load(K[j])", "q, k, v = m.load(Q[:]), m.load(K[j])")),
            fails="words",
        ),
        Mistake(
            "O_p stored for every key tile",
            "While a part is at work, its O stays on chip: store it once, when its last key tile is done.",
            (
                ("            m_i[...] = m_new\n", "            m_i[...] = m_new\n            m.store(O_p[p], o)\n"),
                ("        m.store(L_p[p], l_i)\n        m.store(O_p[p], o)\n", "        m.store(L_p[p], l_i)\n"),
            ),
            fails="words",
        ),
        Mistake(
            "maxima read in a loop of their own",
            "The maximum of all parts is found first, and then M_p is read once more for the weights. The merge is online, too: m may grow "
            "from part to part, as it does from tile to tile.",
            (
                (
                    EACH_MERGED,
                    "        m_all[...] = maximum(m_all, m.load(M_p[p]))\n"
                    "    for p in m.tiles(rows, Br):\n"
                    '        beta = m.let(exp(m.load(M_p[p]) - m_all), "beta")\n'
                    "        l_all += beta * m.load(L_p[p])\n"
                    "        o_all += beta * m.load(O_p[p])\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "O stored for every part",
            "Only when the last part is merged O is the answer, and until then it stays on chip: store it once, after the loop.",
            (("    m.store(O[:], o_all / l_all)", "        m.store(O[:], o_all / l_all)"),),
            fails="words",
        ),
        Mistake(
            "parts kept in a list",
            "What a part has on chip is released when it ends, and a Python list has no room there. What is to be merged later must wait "
            "in HBM: M_p, L_p and O_p are there for it.",
            (
                ("    for p in m.tiles(rows, Br):\n        q =", "    kept = []\n    for p in m.tiles(rows, Br):\n        q ="),
                (STORED, "        kept.append((m_i, l_i, o))\n"),
                ("    for p in m.tiles(rows, Br):\n        m_p = m.load(M_p[p])\n", "    for m_p, l_p, o_p in kept:\n"),
                ("m.load(L_p[p])", "l_p"),
                ("beta * m.load(O_p[p])", "beta * o_p"),
            ),
            fails="rules",
        ),
    ),
)
