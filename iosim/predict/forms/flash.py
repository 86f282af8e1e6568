"""FlashAttention, forward, and its block-sparse variant (Dao et al. 2022, arXiv 2205.14135, Algorithms 1, 2 and 5)."""

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
    """N_k (d + d_v) + Tc (N_q (d + 2 d_v) + 4 N_q) + N_q (d_v + 2): keys outside; O, l and m live in HBM.

    ``first_pass="create"`` has no last part, and reads O, l and m one time less. With an accumulator of its own, O waits in O_acc between
    visits: as many words, of which O itself has but one pass.
    """
    apart = options.accumulator == "float32"
    state = ("O_acc" if apart else "O", s.dv), ("l", ONE), ("m", ONE)
    create = options.first_pass == "create"
    if not create:
        for array, width in state:
            yield write(array, once(s.Nq), width, f"{array} is filled in HBM before the first tile", init=True)
    keys = visits.keys_met if options.skip_empty else once(s.Nk)
    yield read("K", keys, s.d, "each key tile loads its K once")
    yield read("V", keys, s.dv, "each key tile loads its V once")
    yield read("Q", visits.queries, s.d, "every key tile loads the Q of each query tile that it visits")
    for array, width in state:
        if create:
            yield read(array, visits.queries_again, width, f"every visit but the first loads the {array} of the visit before")
        else:
            yield read(array, visits.queries, width, f"every visit loads the {array} of the visit before")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    if apart:
        yield write("O_acc", visits.queries_again, s.dv, "every visit but the last stores the new O_acc")
        yield write("O", once(s.Nq), s.dv, "each query tile stores its O once: in its last visit, or empty where it is never visited")
    stored = state[1:] if apart else state
    for array, width in stored:
        yield write(array, visits.queries, width, f"every visit stores the new {array}")
    if create and visits.queries_unmet is not None:
        for array, width in stored:
            yield write(array, visits.queries_unmet, width, f"query tiles that are never visited store an empty {array}")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 2 (Br + Bc) d + Br Bc + 8 Br where d = d_v.

    The eight columns of Br are l, m, their tile's m~ and l~, m_new, the two factors a and b, and l_new.
    """
    d, dv = s.d.value, s.dv.value
    create, apart = options.first_pass == "create", options.accumulator == "float32"
    for rows in kinds.unmet if create else (kinds.rows,):
        yield rows * (dv + 2) * room.made
    for cols in kinds.met if options.skip_empty else (kinds.cols,):
        yield cols * (d + dv) * room.given
    for rows, cols, full, first in kinds.visited:
        o = dv * (room.made if apart or (create and first) else room.given)
        score = room.made + (0 if full else room.mask)
        yield cols * (d + dv) * room.given + rows * (d * room.given + o + 8 * room.made) + rows * cols * score


FORMS = {
    "flash": Formula(terms, peaks, ("first_pass", "accumulator"), "keys", "Θ(N²d²/M)", falls=True, fused=("keys", "KV")),
    "block-sparse": Formula(terms, peaks, ("first_pass", "skip_empty", "accumulator"), "keys", "Θ(Nd + N²d²s/M)", falls=True, masks=True),
}
