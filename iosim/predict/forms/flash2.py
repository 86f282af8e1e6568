"""FlashAttention-2, forward (Dao 2023, arXiv 2307.08691, Algorithm 1)."""

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
    """N_q (d + d_v + 1) + Tr N_k (d + d_v): queries outside; O stays on chip until it is done."""
    yield read("Q", once(s.Nq), s.d, "each query tile loads its Q once")
    yield read("K", visits.keys, s.d, "every query tile loads the K of each key tile that it visits")
    yield read("V", visits.keys, s.dv, "every query tile loads the V of each key tile that it visits")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("O", once(s.Nq), s.dv, "each query tile stores its O once, when its row of tiles is done")
    yield write("LSE", once(s.Nq), ONE, "and of l and m only the log-sum-exp")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 2 (Br + Bc) d + Br Bc + 4 Br where d = d_v.

    The four columns of Br are l and m, which stand as long as Q and O, and m_new and alpha.
    """
    d, dv = s.d.value, s.dv.value
    yield kinds.rows * (d * room.given + (dv + 2) * room.made)
    for rows, cols, full, _ in kinds.visited:
        score = room.made + (0 if full else room.mask)
        yield rows * (d * room.given + (dv + 4) * room.made) + cols * (d + dv) * room.given + rows * cols * score


FORMS = {"flash2": Formula(terms, peaks, (), "queries", "Θ(N²d²/M)", falls=True, fused=("queries", "QO"))}
