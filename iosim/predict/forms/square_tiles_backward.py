"""Attention in square tiles, backward: D, P and dS, then dV, dQ and dK, every product blocked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.forms.square_tiles import depth_of, for_each_tile, made_scores, met, streamed
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import ONE, Int, Shape, once
from iosim.predict.term import Term, read, write


def terms(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """N_q N_k (3 + ceil(d_v / Bc) + 2 ceil(d / Bc)) + Tc N_q (2 d + 2 d_v) + Tr N_k (2 d + d_v), and what moves once.

    That is N_q (d + 2 d_v) + N_k (d + d_v) + 4 N_q; with ``depth="one"`` 2 N_q N_k more.
    """
    yield read("dO", once(s.Nq), s.dv, "for D = rowsum(dO * O) each query tile loads its dO")
    yield read("O", once(s.Nq), s.dv, "and its O")
    yield write("D", once(s.Nq), ONE, "and stores its D once")
    yield from _weights(s, visits)
    yield from _score_gradients(s, visits, options)
    yield read(
        "P", for_each_tile(visits.pairs, s.dv, s, visits), ONE, "for dV = P^T dO every tile of columns of dV loads the P of its keys"
    )
    yield read("dO", visits.queries, s.dv, "and the dO of the query tiles that these visit")
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once")
    yield read(
        "dS", for_each_tile(visits.pairs, s.d, s, visits), ONE, "for dQ = dS K every tile of columns of dQ loads the dS of its queries"
    )
    yield read("K", visits.keys, s.d, "and the K of the key tiles that these visit")
    yield write("dQ", once(s.Nq), s.d, "each query tile stores its dQ once")
    yield read(
        "dS", for_each_tile(visits.pairs, s.d, s, visits), ONE, "for dK = dS^T Q every tile of columns of dK loads the dS of its keys"
    )
    yield read("Q", visits.queries, s.d, "and the Q of the query tiles that these visit")
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once")


def _weights(s: Shape, visits: Visits) -> Iterator[Term]:
    """P = exp(S - m) / l, with S made again."""
    for statistic in ("l", "m"):
        yield read(statistic, once(s.Nq), ONE, f"for P each query tile loads its {statistic}")
    yield read("Q", visits.queries, s.d, "and its Q for each key tile that it visits, some columns at a time")
    yield read("K", visits.keys, s.d, "and the K of that key tile")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("P", visits.pairs, ONE, "the weights of every tile that is visited are stored")


def _score_gradients(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """dS = scale P (dP - D), with dP = dO V^T."""
    yield read("dO", visits.queries, s.dv, "for dP = dO V^T every query tile loads its dO for each key tile that it visits")
    yield read("V", visits.keys, s.dv, "and the V of that key tile")
    if options.depth == "one":
        yield write("dS", visits.pairs, ONE, "dP is stored in the place of dS")
        yield read("dS", visits.pairs, ONE, "from where it is loaded key by key")
    yield read("D", once(s.Nq), ONE, "for dS each query tile loads its D")
    yield read("P", visits.pairs, ONE, "and the weights of the tiles that it visits")
    yield write("dS", visits.pairs, ONE, "and stores dS there")


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each kind of tile of the passes, one pass after the other."""
    wide, wide_v = (np.minimum(kinds.cols, width) for width in (s.d.value, s.dv.value))
    deep, deep_v = (depth_of(kinds, width, options) for width in (s.d.value, s.dv.value))
    yield kinds.rows * (room.made + 2 * deep_v * room.given)
    yield kinds.rows * np.maximum(2, wide) * room.made
    yield kinds.cols * np.maximum(wide, wide_v) * room.made
    for rows, cols, full, _ in kinds.visited:
        yield rows * 2 * room.made + made_scores(rows, cols, deep, room, full=full)
        yield _score_gradients_room(rows, cols, deep_v, room, options)
        yield streamed(cols, wide_v, met(rows, options), room)
        yield streamed(rows, wide, met(cols, options), room)
        yield streamed(cols, wide, met(rows, options), room)


def _score_gradients_room(rows: Int, cols: Int, deep: Int, room: Room, options: Options) -> Int:
    """A tile of dP beside some columns of dO and V, or beside D and a tile of P; single keys of both take less than that of P before."""
    tile, factors = rows * cols * room.made, (rows + cols) * deep * room.given
    if options.depth == "one":
        return tile + factors
    return rows * room.made + tile + np.maximum(factors, rows * cols * room.scores)


FORMS = {
    "square-tiles-backward": Formula(
        terms, peaks, ("depth",), "queries", "Θ(N² + N²d/√M)", both=lambda options: True, falls=True, cut=("d", "dv"), square=True,
        shares=True,
    )
}  # fmt: skip
