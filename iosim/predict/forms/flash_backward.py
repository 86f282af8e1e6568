"""FlashAttention, backward (Dao et al. 2022, arXiv 2205.14135, Algorithm 4)."""

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
    """6 N_k d + Tc (5 N_q d + 2 N_q) + N_q d where d = d_v: keys outside; dQ lives in HBM, P is made again from l and m.

    ``first_pass="create"``: 4 N_k d + Tc (4 N_q d + 3 N_q); nothing is filled, O is read once, to make D, and dQ one time less.
    """
    if options.first_pass == "load":
        yield write("dQ", once(s.Nq), s.d, "dQ is filled with zeros in HBM before the first tile", init=True)
        yield write("dK", once(s.Nk), s.d, "and so is dK", init=True)
        yield write("dV", once(s.Nk), s.dv, "and dV", init=True)
    yield read("K", once(s.Nk), s.d, "each key tile loads its K once")
    yield read("V", once(s.Nk), s.dv, "each key tile loads its V once")
    yield read("Q", visits.queries, s.d, "every key tile loads the Q of each query tile that it visits")
    yield read("dO", visits.queries, s.dv, "every key tile loads the dO of each query tile that it visits")
    for array in ("l", "m"):
        yield read(array, visits.queries, ONE, f"every visit loads {array}, to make P again")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield from _created(s, visits, options) if options.first_pass == "create" else _loaded(s, visits)
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once, when its column of tiles is done")
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once, when its column of tiles is done")


def _loaded(s: Shape, visits: Visits) -> Iterator[Term]:
    """O and dQ as printed."""
    yield read("O", visits.queries, s.dv, "every visit loads O, to make D = rowsum(dO O) again")
    yield read("dQ", visits.queries, s.d, "every visit loads the dQ of the visit before")
    yield write("dQ", visits.queries, s.d, "every visit stores the new dQ")


def _created(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """O, D and dQ where the first visit makes D and dQ on chip."""
    yield read("O", visits.queries_met, s.dv, "a query tile's first visit loads O, to make D = rowsum(dO O)")
    yield write("D", visits.queries_met, ONE, "and stores D")
    yield read("D", visits.queries_again, ONE, "every visit but the first loads D")
    if options.accumulator == "float32":
        yield read("dQ_acc", visits.queries_again, s.d, "every visit but the first loads the dQ_acc of the visit before")
        yield write("dQ_acc", visits.queries_again, s.d, "every visit but the last stores the new dQ_acc")
        yield write("dQ", once(s.Nq), s.d, "each query tile stores its dQ once: in its last visit, or zeros where it is never visited")
        return
    yield read("dQ", visits.queries_again, s.d, "every visit but the first loads the dQ of the visit before")
    yield write("dQ", visits.queries, s.d, "every visit stores the new dQ")
    if visits.queries_unmet is not None:
        yield write("dQ", visits.queries_unmet, s.d, "query tiles that are never visited store zeros")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 4 (Br + Bc) d + 2 Br Bc + 3 Br as printed, where d = d_v.

    K, V, dK and dV stand as long as their column; Q, dO, O and dQ, S (later P and dS) and dP, and l, m and D as long as their tile.
    """
    d, dv = s.d.value, s.dv.value
    create, apart = options.first_pass == "create", options.accumulator == "float32"
    for rows in kinds.unmet if create else (kinds.rows,):
        yield rows * d * room.made
    yield kinds.cols * (d + dv) * (room.given + room.made)
    for rows, cols, full, first in kinds.visited:
        o = 0 if create and not first else dv * room.given
        dq = d * (room.made if apart or (create and first) else room.given)
        score = 2 * room.made + (0 if full else room.mask)
        column = cols * (d + dv) * (room.given + room.made)
        yield column + rows * ((d + dv) * room.given + o + dq + 3 * room.made) + rows * cols * score


FORMS = {"flash-backward": Formula(terms, peaks, ("first_pass", "accumulator"), "keys", "Θ(N²d²/M)", falls=True, shares=True)}
