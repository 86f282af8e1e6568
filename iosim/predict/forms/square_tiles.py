"""Attention in square tiles, forward (Saha and Ye 2024, arXiv 2402.07443, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import ONE, Int, Passes, Shape, Size, ceil_div, once, smaller
from iosim.predict.term import Term, read, write


def terms(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """N_q N_k (1 + ceil(d_v / Bc)) + Tc N_q d + Tr N_k (d + d_v) + N_q d_v + 4 N_q, whatever the depth of the products."""
    yield read(
        "Q", visits.queries, s.d, "for S = QK^T every query tile loads its Q for each key tile that it visits, some columns at a time"
    )
    yield read("K", visits.keys, s.d, "and the K of that key tile")
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, "a tile that is partly hidden loads its mask, one word a pair")
    yield write("S", visits.pairs, ONE, "the scores of every tile that is visited are stored")
    for statistic in ("l", "m"):
        yield write(statistic, once(s.Nq), ONE, f"each query tile stores its {statistic} once")
        yield read(statistic, once(s.Nq), ONE, f"and loads its {statistic} for O = PV")
    yield read("S", for_each_tile(visits.pairs, s.dv, s, visits), ONE, "every tile of columns of O loads the scores of its queries")
    yield read("V", visits.keys, s.dv, "and the V of the key tiles that they visit")
    yield write("O", once(s.Nq), s.dv, "each query tile stores its O once")


def for_each_tile(passes: Passes, width: Size, s: Shape, visits: Visits) -> Passes:
    """``passes``, once for each of the tiles of Bc columns, clipped to N_k, that ``width`` columns are cut into."""
    tiles = Size(f"⌈{width.symbol}/Bc⌉", ceil_div(width.value, smaller(visits.cols, s.Nk.value)))
    return Passes(passes.times * tiles, passes.rows)


def peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """S_ij beside some columns of Q and K, or beside its mask, or beside m_new; then O_iy beside some keys of S and V; always l and m."""
    wide, deep = np.minimum(kinds.cols, s.dv.value), depth_of(kinds, s.d.value, options)
    yield kinds.rows * (2 + wide) * room.made
    for rows, cols, full, _ in kinds.visited:
        yield rows * 2 * room.made + made_scores(rows, cols, deep, room, full=full)
        yield rows * (3 + cols) * room.made + (0 if full else rows * cols * room.mask)
        yield rows * 2 * room.made + streamed(rows, wide, met(cols, options), room)


def depth_of(kinds: Kinds, width: Int, options: Options) -> Int:
    """How many of ``width`` columns of both factors a product has on chip at once."""
    return 1 if options.depth == "one" else np.minimum(kinds.cols, width)


def met(rows: Int, options: Options) -> Int:
    """How many of the ``rows`` of a tile a product has on chip at once."""
    return 1 if options.depth == "one" else rows


def made_scores(rows: Int, cols: Int, deep: Int, room: Room, *, full: bool) -> Int:
    """A tile of scores, beside ``deep`` columns of Q and K, or beside its mask where it is not ``full``."""
    return rows * cols * room.made + np.maximum((rows + cols) * deep * room.given, 0 if full else rows * cols * room.mask)


def streamed(rows: Int, wide: Int, deep: Int, room: Room) -> Int:
    """A tile of ``rows`` and ``wide`` columns of P B, beside ``deep`` columns of P, or S, and rows of B."""
    return rows * wide * room.made + rows * deep * room.scores + deep * wide * room.given


FORMS = {
    "square-tiles": Formula(
        terms, peaks, ("depth",), "queries", "Θ(N² + N²d/√M)", both=lambda options: True, falls=True, cut=("dv",), square=True
    )
}
