"""Standard attention, forward (Dao et al. 2022, arXiv 2205.14135, Algorithm 0)."""

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
    """4 N_q N_k + N_q (d + d_v) + N_k (d + d_v), the last part Tr times unless K and V are kept whole (``reuse="ideal"``)."""
    ideal, streamed = options.reuse == "ideal", options.softmax == "streamed"
    keys = once(s.Nk) if ideal else visits.keys
    who = "{0} is loaded once and kept whole" if ideal else "every query tile loads the {0} of each key tile that it visits"
    yield read("Q", once(s.Nq), s.d, "each query tile loads its Q once")
    yield read("K", keys, s.d, who.format("K"))
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("S", once(s.Nq), s.Nk, "every score is stored, a hidden one as -inf")
    yield read("S", Passes(Size("2", 2), s.Nq) if streamed else once(s.Nq), s.Nk, _SOFTMAX[options.softmax])
    yield write("P", once(s.Nq), s.Nk, "softmax stores every weight")
    yield read("P", visits.pairs, ONE, "the product with V loads the weights of the tiles that it visits")
    yield read("V", keys, s.dv, who.format("V"))
    yield write("O", once(s.Nq), s.dv, "each query tile stores its O once")


_SOFTMAX = {
    "rows": "softmax loads each row of scores once",
    "streamed": "softmax loads the scores twice, for the row sums and for the weights",
}


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile of the three passes, one pass after the other."""
    d, dv, ideal = s.d.value, s.dv.value, options.reuse == "ideal"
    o = 0 if ideal else dv * room.made  # with V whole on chip a tile's O goes straight to HBM
    yield kinds.rows * o
    for rows, cols, full, _ in kinds.visited:
        score = room.made + (0 if full else room.mask)
        yield (rows + cols) * d * room.given + rows * cols * score
        yield rows * o + cols * dv * room.given + rows * cols * room.scores
    for rows, cols, _, _ in kinds.unseen:
        yield rows * d * room.given + rows * cols * room.made
    if options.softmax == "rows":
        yield s.Nk.value * room.scores
    else:
        yield kinds.rows * 3 * room.made + kinds.rows * kinds.cols * room.scores  # l, m and m_new beside a tile of S


FORMS = {"standard": Formula(terms, peaks, ("reuse", "softmax"), "queries", "Θ(Nd + N²)", falls=True)}
