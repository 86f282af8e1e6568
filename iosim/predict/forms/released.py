"""FlashAttention as its first code ran it (github.com/Dao-AILab/flash-attention, May 2022 to 1.0): LSE alone, wide accumulators.

Between a query tile's first visit and its last, O and dQ wait in arrays of the accumulator's type.
"""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import ONE, Int, Shape, once
from iosim.predict.term import Term, read, write


def terms(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """N_k (d + d_v) + Tc N_q d + N_q d_v + 2 (Tc - 1) N_q d_v + (2 Tc - 1) N_q: keys outside; O and LSE live in HBM."""
    yield read("K", once(s.Nk), s.d, "each key tile loads its K once")
    yield read("V", once(s.Nk), s.dv, "each key tile loads its V once")
    yield read("Q", visits.queries, s.d, "every key tile loads the Q of each query tile that it visits")
    yield read("O_acc", visits.queries_again, s.dv, "every visit but the first loads the O of the visit before")
    yield read("LSE", visits.queries_again, ONE, "and its log-sum-exp")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("O_acc", visits.queries_again, s.dv, "every visit but the last stores an O that waits for the next")
    yield write("O", once(s.Nq), s.dv, "the last visit stores O; a query tile that is never visited stores zeros")
    yield write("LSE", visits.queries, ONE, "every visit stores the new log-sum-exp")
    if visits.queries_unmet is not None:
        yield write("LSE", visits.queries_unmet, ONE, "query tiles that are never visited store -inf")


def backward(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """2 N_k (d + d_v) + Tc N_q (d + d_v) + N_q (d + d_v) + 2 (Tc - 1) N_q d + 2 Tc N_q: keys outside; dQ and D live in HBM."""
    yield read("K", once(s.Nk), s.d, "each key tile loads its K once")
    yield read("V", once(s.Nk), s.dv, "each key tile loads its V once")
    yield read("Q", visits.queries, s.d, "every key tile loads the Q of each query tile that it visits")
    yield read("dO", visits.queries, s.dv, "and its dO")
    yield read("LSE", visits.queries, ONE, "and its log-sum-exp")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield read("O", visits.queries_met, s.dv, "the first visit alone loads O, to make D = rowsum(dO O)")
    yield write("D", visits.queries_met, ONE, "and stores D for the others")
    yield read("D", visits.queries_again, ONE, "every visit but the first loads D")
    yield read("dQ_acc", visits.queries_again, s.d, "and the dQ of the visit before")
    yield write("dQ_acc", visits.queries_again, s.d, "every visit but the last stores a dQ that waits for the next")
    yield write("dQ", once(s.Nq), s.d, "the last visit stores dQ; a query tile that is never visited stores zeros")
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once")
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 2 (Br + Bc) d + Br Bc + 4 Br where d = d_v.

    The four columns of Br are LSE, m_new, the factor alpha, and l_new.
    """
    d, dv = s.d.value, s.dv.value
    for rows in kinds.unmet:
        yield rows * (dv + 1) * room.made
    yield kinds.cols * (d + dv) * room.given
    for rows, cols, full, _ in kinds.visited:
        score = room.made + (0 if full else room.mask)
        yield cols * (d + dv) * room.given + rows * (d * room.given + (dv + 4) * room.made) + rows * cols * score


def backward_peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 4 Bc d + 3 Br d + 2 Br Bc + 2 Br where d = d_v.

    The columns are LSE and D; S, whose room P and dS take, stands beside dP. A first visit holds O too.
    """
    d, dv = s.d.value, s.dv.value
    columns = kinds.cols * (d + dv) * (room.given + room.made)  # K, V, dK and dV
    for rows in kinds.unmet:
        yield rows * d * room.made
    yield columns
    for rows, cols, full, first in kinds.visited:
        o = dv * room.given if first else 0
        score = 2 * room.made + (0 if full else room.mask)
        keys = cols * (d + dv) * (room.given + room.made)
        yield keys + rows * ((d + dv) * room.given + o + (d + 2) * room.made) + rows * cols * score


FORMS = {
    "released": Formula(terms, peaks, (), "keys", "Θ(N²d²/M)", falls=True),
    "released-backward": Formula(backward, backward_peaks, (), "keys", "Θ(N²d²/M)", falls=True, shares=True),
}
