"""Exercise 12: the backward pass, with P made again from one number a query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iosim import predict
from iosim.attention.catalogue import KERNELS
from iosim.attention.judge import truth
from iosim.attention.plan import Plan
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.course.predicted import predicted
from iosim.course.spec import Array, Exercise, KernelCheck, Mistake, Trial
from iosim.course.trials import (
    HUGE_LOGITS,
    LABELS,
    USUAL_PROBLEMS,
    Data,
    Expected,
    best_known,
    forward_answers,
    random_data,
    shape_of,
    trial,
)
from iosim.memory import Hbm, Machine, exp
from iosim.predict.bounds import least_backward_words


def backward(
    m: Machine, Q: Hbm, K: Hbm, V: Hbm, O: Hbm, LSE: Hbm, dO: Hbm, dQ: Hbm, dK: Hbm, dV: Hbm, D: Hbm, *, Br: int, Bc: int, scale: float
) -> None:
    """dQ, dK and dV: how a number that depends on O = softmax(scale Q K^T) V changes with Q, K and V, where dO says how it does with O.

    Q (N_q, d), K (N_k, d), V (N_k, d_v), O and dO (N_q, d_v) and LSE (N_q, 1), each query's log-sum-exp, are read; dQ, dK and dV, in the
    shapes of Q, K and V, are filled. D (N_q, 1) lies in HBM too, for what waits between the loops. Tiles are Br queries by Bc keys.
    First D_i, the row sums of dO_i * O_i (element by element), and zeros for dQ_i are stored for every query tile. Then keys are outside
    and queries inside: dK_j and dV_j stay on chip until the last query tile and are stored once; dQ_i is read from HBM by every key tile,
    grows by the share of that tile, and is written back. P_ij is made again from Q_i, K_j and LSE_i; dS_ij takes its room.
    SRAM holds K_j, V_j, dK_j, dV_j, Q_i, dO_i, dQ_i, one tile of Br x Bc for P and then dS, and two columns of Br words, LSE_i and D_i.
    """
    (N_q, d), (N_k, d_v) = Q.shape, V.shape
    for i in m.tiles(N_q, Br):
        m.store(D[i], (m.load(dO[i]) * m.load(O[i])).rowsum())
        m.store(dQ[i], m.full(0.0, i.size, d, name="dQ_i"))
    for j in m.tiles(N_k, Bc):
        k, v = m.load(K[j]), m.load(V[j])
        dk, dv = m.full(0.0, j.size, d, name="dK_j"), m.full(0.0, j.size, d_v, name="dV_j")
        for i in m.tiles(N_q, Br):
            q, do = m.load(Q[i]), m.load(dO[i])
            p = m.let(exp(scale * (q @ k.T) - m.load(LSE[i])), "P_ij")
            dv += p.T @ do
            p *= do @ v.T - m.load(D[i])  # dS_ij takes the room of P_ij
            dq = m.load(dQ[i])
            dq += scale * (p @ k)
            m.store(dQ[i], dq)
            dk += scale * (p.T @ q)
        m.store(dK[j], dk)
        m.store(dV[j], dv)


def trials(rng: np.random.Generator) -> list[Trial]:
    """The usual problems, each with a random dO, and with the O and the LSE that a forward pass has left."""
    return [problem(label, *draw(rng), rng) for label, draw in USUAL_PROBLEMS]


def problem(label: str, asked: Attention, blocks: Blocks, rng: np.random.Generator) -> Trial:
    """A backward problem as a trial, in the room that the solution needs."""
    found = trial(
        backward, label,
        inputs={name: shape_of(name, asked) for name in ("Q", "K", "V", "O", "LSE", "dO")},
        outputs={name: shape_of(name, asked) for name in ("dQ", "dK", "dV")}, scratch={"D": (asked.n, 1)},
        params={"Br": blocks.rows, "Bc": blocks.cols, "scale": asked.softmax_scale},
        data=[passed_forward(asked, random_data(asked, rng, spread), rng) for spread in (None, HUGE_LOGITS)], data_labels=LABELS,
        expected=lambda data: gradients(asked, data),
    )  # fmt: skip
    best = best_known(asked, found, ("flash-backward", "flash2-backward"))
    return replace(found, best=best, least=least_backward_words(asked, found.sram))


def passed_forward(asked: Attention, data: Data, rng: np.random.Generator) -> dict[str, Array]:
    """Q, K and V with what a forward pass makes of them, and standard normal numbers for dO."""
    left = {name: value.astype(np.float32) for name, (value, _) in forward_answers(asked, data).items()}
    return {**data, **left, "dO": rng.standard_normal((asked.n, asked.dv)).astype(np.float32)}


def gradients(asked: Attention, data: Data) -> Expected:
    """dQ, dK and dV from the oracle, with the bounds that hold for tiles of any size, one query and one key among them."""
    right = truth(Plan(KERNELS["flash2-backward"], asked, Blocks(1, 1), Options(), Capacity(1), "record"), dict(data))
    return {name: (right.values[name], right.bounds[name]) for name in ("dQ", "dK", "dV")}


HEAD, SRAM = Attention(n=4096, d=64), Capacity(49_152)  # 192 KiB of float32


def words(kernel: str) -> int:
    """What a kernel moves for the head in its best blocks."""
    return predicted(kernel, HEAD, predict.choose_blocks(kernel, HEAD, SRAM, "best"))


EXERCISE = Exercise(
    number=12,
    name="backward",
    title="The backward pass, with P made again",
    solution=backward,
    header="from iosim.memory import Hbm, Machine, exp",
    learn="The backward pass needs P, but P need not have been stored: each query's log-sum-exp is enough to make its weights again, tile "
    "by tile. What the gradient of a softmax needs of a whole row is one number too, D, and O gives it away.",
    formula="P = exp(scale Q K^T - LSE),  D = rowsum(dO * O);  dV = P^T dO,  dP = dO V^T,  dS = P * (dP - D),  dQ = scale dS K,  "
    "dK = scale dS^T Q, where * is element by element",
    paper="FlashAttention-2 (Dao 2023, arXiv 2307.08691), Algorithm 2: D is stored first; then key tiles outside and query tiles inside, "
    "dK_j and dV_j on chip, and dQ_i read from HBM, updated and written back. It loads O_i beside D_i once more, which nothing needs.",
    why=f"At N = {HEAD.n}, d = {HEAD.d} the forward pass would have to store P, {4 * HEAD.n**2 // 2**20} MiB a head in float32, instead of "
    f"an LSE of {4 * HEAD.n // 2**10} KiB. And making P again, a fifth product beside four, moves fewer words, not more: in "
    f"{SRAM.amount:,} words of SRAM {words('flash2-backward'):,}, where the backward pass of standard attention moves "
    f"{words('standard-backward'):,}, {words('standard-backward') / words('flash2-backward'):.1f} times as many.",
    hints=(
        "exp(S - LSE) is the weight itself, already divided by l, whatever tile it stands in. So no running maximum is needed, no l, and "
        "no rescaling: every tile of P can be made by itself. Which of dQ, dK and dV can stay on chip while queries pass by, and which "
        "cannot?",
        "A loop over query tiles comes first, which stores D_i and fills dQ_i with zeros. Then a loop over key tiles makes room for dK_j "
        "and dV_j; inside it, for every query tile: P_ij, its share of dV_j, dS_ij in the place of P_ij, its shares of dQ_i and of dK_j. "
        "dV needs P and the others dS, so the order matters.",
        "p = m.let(exp(scale * (q @ k.T) - m.load(LSE[i])), 'P_ij'); dv += p.T @ do; p *= do @ v.T - m.load(D[i]); dq = m.load(dQ[i]); "
        "dq += scale * (p @ k); m.store(dQ[i], dq); dk += scale * (p.T @ q). After the loop over queries, store dk and dv.",
    ),
    check=KernelCheck(trials, "N_q (d + 2 d_v + 1) + 2 N_k (d + d_v) + Tc N_q (3 d + d_v + 2)"),
    mistakes=(
        Mistake(
            "dV from a constant dO",
            "The rows of dV are sums of the weights alone, as if dO were 1 everywhere, and they would be right if O were merely summed. "
            "Each weight goes with the dO of its query: P^T dO. A gradient should never be tried with a constant dO.",
            (("dv += p.T @ do", "dv += p.T.rowsum()"),),
        ),
        Mistake(
            "dV from dS",
            "dV is P^T dO, but dS stands in the room of P by then: add to dV before P is overwritten.",
            (
                ("            dv += p.T @ do\n", ""),
                ("# dS_ij takes the room of P_ij\n", "# dS_ij takes the room of P_ij\n            dv += p.T @ do\n"),
            ),
        ),
        Mistake(
            "D forgotten",
            "The weights of a query add up to 1, so that one can only grow as the others shrink. That is what D stands for: dS is "
            "P * (dP - D), not P * dP.",
            (("do @ v.T - m.load(D[i])", "do @ v.T"),),
        ),
        Mistake(
            "dS without P",
            "dP is the gradient of the weights, and dS that of the scores: between them lies the softmax, so dP - D has to be multiplied "
            "by P, element by element.",
            (("p *= do @ v.T - m.load(D[i])", "p[...] = do @ v.T - m.load(D[i])"),),
        ),
        Mistake(
            "D of dO alone",
            "D is the row sum of dO * O, element by element; yours is that of dO. It is the same only where O is 1.",
            (("(m.load(dO[i]) * m.load(O[i])).rowsum()", "m.load(dO[i]).rowsum()"),),
        ),
        Mistake(
            "scale missing in dQ",
            "S is scale Q K^T, so that a change of Q reaches S multiplied by scale: dQ = scale dS K.",
            (("scale * (p @ k)", "p @ k"),),
        ),
        Mistake(
            "scale missing in dK",
            "S is scale Q K^T, so that a change of K reaches S multiplied by scale: dK = scale dS^T Q.",
            (("scale * (p.T @ q)", "p.T @ q"),),
        ),
        Mistake(
            "scale missing in dQ and dK",
            "S is scale Q K^T, so that a change of Q or of K reaches S multiplied by scale: dQ = scale dS K, and dK = scale dS^T Q.",
            (("scale * (p @ k)", "p @ k"), ("scale * (p.T @ q)", "p.T @ q")),
        ),
        Mistake(
            "scale missing in S",
            "The LSE is that of scale Q K^T, and P must be made from the same scores: multiply by scale before LSE is taken off.",
            (("scale * (q @ k.T) - m", "q @ k.T - m"),),
        ),
        Mistake(
            "P without its sum",
            "exp(S - m) is not P yet: it is l times as large, and the m of a tile is not that of the row. LSE = m + log l holds both, so "
            "exp(S - LSE) is the weight.",
            (
                (
                    'p = m.let(exp(scale * (q @ k.T) - m.load(LSE[i])), "P_ij")\n',
                    'p = m.let(scale * (q @ k.T), "P_ij")\n            p[...] = exp(p - p.rowmax())\n',
                ),
            ),
        ),
        Mistake(
            "P normalised in every tile",
            "The weights of a query add up to 1 over all keys, not in every key tile. The l and the m of the whole row are in its LSE: "
            "P = exp(S - LSE).",
            (
                (
                    'p = m.let(exp(scale * (q @ k.T) - m.load(LSE[i])), "P_ij")\n',
                    'p = m.let(scale * (q @ k.T), "P_ij")\n            p[...] = exp(p - p.rowmax())\n            p /= p.rowsum()\n',
                ),
            ),
        ),
        Mistake(
            "dQ overwritten",
            "Every key tile has a share in dQ_i, and yours holds that of the last one alone: read what is there, add to it, and write it "
            "back.",
            (
                (
                    "            dq = m.load(dQ[i])\n            dq += scale * (p @ k)\n            m.store(dQ[i], dq)\n",
                    "            m.store(dQ[i], scale * (p @ k))\n",
                ),
            ),
        ),
        Mistake(
            "dK of the last query tile alone",
            "dK_j is the sum over all query tiles; yours is overwritten by each of them. Add with +=.",
            (("dk += scale", "dk[...] = scale"),),
        ),
        Mistake(
            "D made again for every pair of tiles",
            "D_i is the same for every key tile, and O_i serves for nothing else: one pass stores D, one word a query, and nobody needs to "
            "read O again.",
            (("m.load(D[i])", "(do * m.load(O[i])).rowsum()"),),
            fails="words",
        ),
        Mistake(
            "K and V loaded for every pair of tiles",
            "K_j and V_j are the same for every query tile: load them once, before the inner loop.",
            (
                ("        k, v = m.load(K[j]), m.load(V[j])\n", ""),
                ("q, do = m.load(Q[i]), m.load(dO[i])", "k, v, q, do = m.load(K[j]), m.load(V[j]), m.load(Q[i]), m.load(dO[i])"),
            ),
            fails="words",
        ),
        Mistake(
            "dK and dV stored for every pair of tiles",
            "Only the last values of dK_j and dV_j are the answer, and they stay on chip anyway: store them once, after the inner loop.",
            (
                (
                    "        m.store(dK[j], dk)\n        m.store(dV[j], dv)\n",
                    "            m.store(dK[j], dk)\n            m.store(dV[j], dv)\n",
                ),
            ),
            fails="words",
        ),
        Mistake(
            "dQ not begun",
            "An output holds nothing before it is written, not even zeros: store zeros in dQ before the first key tile adds to it.",
            (('        m.store(dQ[i], m.full(0.0, i.size, d, name="dQ_i"))\n', ""),),
            fails="rules",
        ),
        Mistake(
            "P used twice without a name",
            "An unnamed value is gone once it was used, and P is needed for dV and for dS: give it room with m.let.",
            (('p = m.let(exp(scale * (q @ k.T) - m.load(LSE[i])), "P_ij")', "p = exp(scale * (q @ k.T) - m.load(LSE[i]))"),),
            fails="rules",
        ),
        Mistake(
            "all queries in one tile",
            "M has room for Br queries beside a key tile, not for all of Q, dO and dQ: loop over m.tiles(N_q, Br) inside too.",
            (("m.tiles(N_q, Br):\n            q, do", "m.tiles(N_q, N_q):\n            q, do"),),
            fails="rules",
        ),
        Mistake(
            "tail keys dropped",
            "The last key tile may be short, but its rows of dK and dV must be written too: loop over m.tiles(N_k, Bc).",
            (("m.tiles(N_k, Bc)", "(j for j in m.tiles(N_k, Bc) if j.size == Bc)"),),
            fails="rules",
        ),
    ),
)
