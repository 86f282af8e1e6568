"""NVIDIA Apex's fused attention, which stores P for its backward pass (Dao et al. 2022, arXiv 2205.14135, Appendix E.4).

K and V stand whole on chip, so that every array moves once, whatever the blocks. The sign of P tells what dropout keeps.
"""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Passes, Shape, Size, once
from iosim.predict.term import Term, read, write


def terms(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """N_q N_k + N_q (d + d_v) + N_k (d + d_v), and an element mask once."""
    yield read("K", once(s.Nk), s.d, "K is loaded once and kept whole")
    yield read("V", once(s.Nk), s.dv, "V is loaded once and kept whole")
    yield read("Q", once(s.Nq), s.d, "each query tile loads its Q once")
    if visits.elements is not None:
        yield read("mask", once(s.Nq), s.Nk, "and its rows of the mask, one word a pair")
    yield write("P", once(s.Nq), s.Nk, "and stores its rows of weights for the backward pass")
    yield write("O", once(s.Nq), s.dv, "and its O")


def backward(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """N_q N_k + N_q (2 d + d_v) + 2 N_k (d + d_v): with dK and dV whole on chip too, everything moves once."""
    yield read("K", once(s.Nk), s.d, "K is loaded once and kept whole")
    yield read("V", once(s.Nk), s.dv, "V is loaded once and kept whole")
    yield read("Q", once(s.Nq), s.d, "each query tile loads its Q once")
    yield read("dO", once(s.Nq), s.dv, "and its dO")
    yield read("P", once(s.Nq), s.Nk, "and its rows of weights")
    yield write("dQ", once(s.Nq), s.d, "and stores its dQ")
    yield write("dK", once(s.Nk), s.d, "dK is summed on chip and stored once")
    yield write("dV", once(s.Nk), s.dv, "dV is summed on chip and stored once")
    if visits.elements is not None:
        yield read("mask", Passes(Size("0", 0), s.Nq), s.Nk, "nobody loads the mask: P is 0 where it hides")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """K and V, and beside them Q and the rows of S of one query tile; a tile holds all keys."""
    d, dv = s.d.value, s.dv.value
    for rows, cols, full, _ in kinds.visited:
        score = room.made + (0 if full else room.mask)
        yield cols * (d + dv) * room.given + rows * d * room.given + rows * cols * score


def backward_peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """K, V, dK and dV, and beside them Q, dO and the rows of P, dP and dS of one query tile."""
    width = s.d.value + s.dv.value
    for rows, cols, _, _ in kinds.visited:
        yield cols * width * (room.given + room.made) + rows * width * room.given + rows * cols * (room.scores + 2 * room.made)


FORMS = {
    "fmha": Formula(terms, peaks, (), "queries", "Θ(Nd + N²)", falls=True, skips=False, wide=True),
    "fmha-backward": Formula(backward, backward_peaks, (), "queries", "Θ(Nd + N²)", falls=True, skips=False, wide=True, shares=True),
}
