"""Standard attention, backward (Dao et al. 2022, arXiv 2205.14135, Algorithm 3)."""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import ONE, Int, Passes, Shape, Size, once
from iosim.predict.term import Term, read, write


def terms(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """7 N_q N_k + 4 (N_q + N_k) d where d = d_v and ``reuse="ideal"``; else dO and Q Tc times, V and K Tr times, in the products.

    dV = P^T dO, dP = dO V^T, dS from P and dP, dQ = dS K, dK = dS^T Q. Only products skip tiles in which no pair attends.
    """
    ideal = options.reuse == "ideal"
    queries, keys = (once(s.Nq), once(s.Nk)) if ideal else (visits.queries, visits.keys)
    column = "once, for all keys together" if ideal else "by every key tile, for each query tile that it visits"
    row = "once and kept whole" if ideal else "by every query tile, for each key tile that it visits"
    yield read("P", visits.pairs, ONE, "dV = P^T dO loads the weights of the tiles that it visits")
    yield read("dO", queries, s.dv, f"and dO {column}")
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once")
    yield read("dO", once(s.Nq), s.dv, "for dP = dO V^T each query tile loads its dO once")
    yield read("V", keys, s.dv, f"and V is loaded {row}")
    yield write("dP", once(s.Nq), s.Nk, "every element of dP is stored, a skipped one as 0")
    yield from _softmax(s, options)
    yield read("dS", visits.pairs, ONE, "dQ = dS K loads dS in the tiles that it visits")
    yield read("K", keys, s.d, f"and K {row}")
    yield write("dQ", once(s.Nq), s.d, "each query tile stores its dQ once")
    yield read("dS", visits.pairs, ONE, "dK = dS^T Q loads dS in the tiles that it visits")
    yield read("Q", queries, s.d, f"and Q {column}")
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once")
    if visits.elements is not None:
        yield read("mask", Passes(Size("0", 0), s.Nq), s.Nk, "no pass needs the mask: what it hides has a weight of 0 in P")


def _softmax(s: Shape, options: Options) -> Iterator[Term]:
    """The pass dS = scale P (dP - rowsum(P dP)), which knows no mask."""
    streamed = options.softmax == "streamed"
    times = Passes(Size("2", 2), s.Nq) if streamed else once(s.Nq)
    how = "twice, for the row sums and for dS" if streamed else "once, row by row"
    yield read("P", times, s.Nk, f"softmax loads the weights {how}")
    yield read("dP", times, s.Nk, f"and dP {how}")
    yield write("dS", once(s.Nq), s.Nk, "and stores dS")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile of the five passes."""
    d, dv, ideal = s.d.value, s.dv.value, options.reuse == "ideal"
    wide = s.Nk.value if ideal else kinds.cols
    dq = 0 if ideal else d * room.made  # with K whole on chip a tile's dQ goes straight to HBM
    yield wide * dv * room.made
    yield wide * d * room.made
    yield kinds.rows * dq
    for rows, cols, _, _ in kinds.visited:
        weights = rows * cols * room.scores
        yield cols * dv * room.made + rows * dv * room.given + weights
        yield (rows + cols) * dv * room.given
        yield rows * dq + cols * d * room.given + weights
        yield cols * d * room.made + rows * d * room.given + weights
    for rows, cols, _, _ in kinds.unseen:
        yield rows * dv * room.given + rows * cols * room.made
    if options.softmax == "rows":
        yield 2 * s.Nk.value * room.scores
    else:
        yield kinds.rows * room.made + 2 * kinds.rows * kinds.cols * room.scores  # D beside a tile of P and one of dP


FORMS = {
    "standard-backward": Formula(
        terms, peaks, ("reuse", "softmax"), "queries", "Θ(Nd + N²)", both=lambda options: options.reuse == "tiled", falls=True, shares=True
    )
}
