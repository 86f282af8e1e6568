"""Visits: how many rows and pairs the tiles of a loop nest meet, all together. Every closed form is linear in these, for a given Bc."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.predict.census.tiles import Census
from iosim.predict.sizes import ONE, Int, Passes, Shape, Size, ceil_div, once


@dataclass(frozen=True, slots=True)
class Visits:
    """What is met, summed over the visited tiles; in brackets what that is without a mask.

    * ``queries``: query rows of every visited tile (Tc Nq);
    * ``queries_again``: the same without each query tile's first visit, or its last ((Tc - 1) Nq);
    * ``queries_met``: query rows whose tile visits anything (Nq);
    * ``queries_unmet``: query rows whose tile visits nothing; None when there are none;
    * ``keys``: key rows of every visited tile (Tr Nk);
    * ``keys_met``: key rows of the key tiles that some query tile visits (Nk);
    * ``pairs``: the area of the visited tiles (Nq Nk);
    * ``elements``: the area of the partial ones, where a mask is read; None when the problem has no element mask;
    * ``cols``: Bc, into tiles of which some listings cut columns too.
    """

    queries: Passes
    queries_again: Passes
    queries_met: Passes
    queries_unmet: Passes | None
    keys: Passes
    keys_met: Passes
    pairs: Passes
    elements: Passes | None
    cols: Int


def everywhere(s: Shape, Br: Int, Bc: Int, *, elements: bool) -> Visits:
    """The visits of a kernel that visits all T_r x T_c tiles, and reads a mask in all of them if there are ``elements``."""
    Tr, Tc = ceil_div(s.Nq.value, Br), ceil_div(s.Nk.value, Bc)
    return Visits(
        queries=Passes(Size("Tc", Tc), s.Nq), queries_again=Passes(Size("(Tc - 1)", Tc - 1), s.Nq),
        queries_met=once(s.Nq), queries_unmet=None,
        keys=Passes(Size("Tr", Tr), s.Nk), keys_met=once(s.Nk),
        pairs=once(s.Nq * s.Nk), elements=once(s.Nq * s.Nk) if elements else None, cols=Bc,
    )  # fmt: skip


def summed(
    *, queries: Int, queries_met: Int, queries_unmet: Int | None, keys: Int, keys_met: Int, pairs: Int, elements: Int | None, cols: Int
) -> Visits:  # fmt: skip
    """The visits in tiles of ``cols`` keys that amount to these numbers of rows and pairs, or to arrays of them for many grids at once."""
    return Visits(
        queries=_passes("(query rows visited)", queries),
        queries_again=_passes("(query rows visited again)", queries - queries_met),
        queries_met=_passes("(query rows met)", queries_met),
        queries_unmet=None if queries_unmet is None else _passes("(query rows never visited)", queries_unmet),
        keys=_passes("(key rows visited)", keys),
        keys_met=_passes("(key rows met)", keys_met),
        pairs=_passes("(pairs in visited tiles)", pairs),
        elements=None if elements is None else _passes("(pairs in partial tiles)", elements),
        cols=cols,
    )


def counted(census: Census, *, elements: bool) -> Visits:
    """The visits to the tiles of ``census``."""
    kinds = census.kinds()
    return summed(
        queries=sum(tile.rows * number for tile, number in kinds),
        queries_met=sum(tile.rows * number for tile, number in kinds if tile.first),
        queries_unmet=sum(rows * number for rows, number in zip(census.rows.sizes, census.unmet(), strict=True)) or None,
        keys=sum(tile.cols * number for tile, number in kinds),
        keys_met=sum(cols * number for cols, number in zip(census.cols.sizes, census.met, strict=True)),
        pairs=sum(tile.rows * tile.cols * number for tile, number in kinds),
        elements=sum(tile.rows * tile.cols * number for tile, number in kinds if not tile.full) if elements else None,
        cols=census.cols.block,
    )


def _passes(symbol: str, rows: Int) -> Passes:
    return Passes(Size(symbol, rows), ONE)
