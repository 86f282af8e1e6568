"""FlashAttention-2, backward (Dao 2023, arXiv 2307.08691, Algorithm 2)."""

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
    """3 N_q d + N_q + 4 N_k d + Tc (4 N_q d + 2 N_q) where d = d_v: D first, then keys outside; dQ lives in HBM.

    ``dq_pass="own"``: 5 N_q d + 3 N_q + 4 N_k d + Tc (2 N_q d + 2 N_q) + 2 Tr N_k d; dQ is made by a pass of its own, queries outside.
    An accumulator of its own adds 2 N_q d: a last pass reads it and stores dQ.
    """
    yield read("dO", once(s.Nq), s.dv, "a first pass loads dO")
    yield read("O", once(s.Nq), s.dv, "and O")
    yield write("D", once(s.Nq), ONE, "and stores D = rowsum(dO O)")
    if options.dq_pass == "shared":
        waits = "dQ_acc" if options.accumulator == "float32" else "dQ"
        yield write(waits, once(s.Nq), s.d, f"{waits} is filled with zeros in HBM before the first tile", init=True)
    yield from _keys_outside(s, visits)
    if options.dq_pass == "own":
        yield from _queries_outside(s, visits)
        if options.accumulator == "float32":
            yield write("dQ_acc", Passes(Size("0", 0), s.Nq), s.d, "nothing is accumulated in HBM where dQ has a pass of its own")
        return
    yield read(waits, visits.queries, s.d, f"every visit loads the {waits} of the visit before")
    yield write(waits, visits.queries, s.d, f"every visit stores the new {waits}")
    if waits != "dQ":
        yield read(waits, once(s.Nq), s.d, f"a last pass loads {waits}")
        yield write("dQ", once(s.Nq), s.d, "and stores it as dQ")


def _keys_outside(s: Shape, visits: Visits) -> Iterator[Term]:
    """The pass that makes dK and dV, but for dQ."""
    yield read("K", once(s.Nk), s.d, "each key tile loads its K once")
    yield read("V", once(s.Nk), s.dv, "each key tile loads its V once")
    yield read("Q", visits.queries, s.d, "every key tile loads the Q of each query tile that it visits")
    yield read("dO", visits.queries, s.dv, "every key tile loads the dO of each query tile that it visits")
    yield read("LSE", visits.queries, ONE, "every visit loads the log-sum-exp, to make P again")
    yield read("D", visits.queries, ONE, "every visit loads D")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once, when its column of tiles is done")
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once, when its column of tiles is done")


def _queries_outside(s: Shape, visits: Visits) -> Iterator[Term]:
    """The pass that makes dQ alone."""
    for array, width in (("Q", s.d), ("dO", s.dv), ("LSE", ONE), ("D", ONE)):
        yield read(array, once(s.Nq), width, f"in the pass for dQ each query tile loads its {array} once")
    yield read("K", visits.keys, s.d, "there every query tile loads the K of each key tile that it visits")
    yield read("V", visits.keys, s.dv, "there every query tile loads the V of each key tile that it visits")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "and a tile that is partly hidden its mask once more")
    yield write("dQ", once(s.Nq), s.d, "each query tile stores its dQ once, when its row of tiles is done")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile; in full tiles and words 3 Br d + 4 Bc d + Br Bc + 2 Br where d = d_v.

    K, V, dK and dV stand as long as their column; Q, dO and dQ, S (later P and dS), the log-sum-exp and D as long as their tile. In a
    pass for dQ alone, Q, dO, dQ, the log-sum-exp and D stand as long as their row; K, V and S as long as their tile.
    """
    d, dv, shared = s.d.value, s.dv.value, options.dq_pass == "shared"
    dq = d * (room.made if options.accumulator == "float32" else room.given) if shared else 0
    row = (d + dv) * room.given + 2 * room.made
    yield kinds.rows * 2 * dv * room.given
    yield kinds.cols * (d + dv) * (room.given + room.made)
    yield kinds.rows * (d * room.made + (0 if shared else row))
    for rows, cols, full, _ in kinds.visited:
        scores = rows * cols * (room.made + (0 if full else room.mask))
        yield cols * (d + dv) * (room.given + room.made) + rows * (row + dq) + scores
        if not shared:
            yield rows * (row + d * room.made) + cols * (d + dv) * room.given + scores


FORMS = {
    "flash2-backward": Formula(
        terms,
        peaks,
        ("accumulator", "dq_pass"),
        "keys",
        "Θ(N²d²/M)",
        both=lambda options: options.dq_pass == "own",
        falls=True,
        shares=True,
    )
}
