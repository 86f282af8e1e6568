"""The accesses of softmax, counted: three listings of one row that does not fit on chip."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from iosim.machine import Hbm, Machine, exp, maximum
from iosim.study.paper.claims import EXACTLY
from iosim.study.paper.compared import NO_KERNEL, Check, Compared, Finding
from iosim.study.paper.data import Data
from iosim.study.published import Accesses

Listing = Callable[[Machine, Hbm, Hbm, int], None]

N, B = 4096, 64  # any row that is longer than a tile, which divides it

SECTION, UNIT = "Softmax of one row, accesses an element", "an element"
COMMAND = "python -c 'from iosim.study.paper.softmax import *; print(accesses({}))'"
WHY = {
    "naive": "one pass for the sum, one for the result; overflows where an x is large",
    "safe": "a pass more, for the largest x",
    "online": "maximum and sum in one pass, a quarter fewer accesses than safe; FlashAttention stands on it",
}


def naive(m: Machine, X: Hbm, Y: Hbm, b: int) -> None:
    """y = e^x / sum e^x in two passes; e^x overflows where x is large. Milakov and Gimelshein 2018, arXiv 1805.02867, Algorithm 1."""
    n = X.shape[1]
    l = m.full(0.0, 1, 1, name="l")
    for j in m.tiles(n, b):
        l += exp(m.load(X[:, j])).rowsum()
    for j in m.tiles(n, b):
        m.store(Y[:, j], exp(m.load(X[:, j])) / l)


def safe(m: Machine, X: Hbm, Y: Hbm, b: int) -> None:
    """The same with the largest x subtracted, which takes a pass of its own to find (Algorithm 2)."""
    n = X.shape[1]
    largest, l = m.full(-np.inf, 1, 1, name="m"), m.full(0.0, 1, 1, name="l")
    for j in m.tiles(n, b):
        largest[...] = maximum(largest, m.load(X[:, j]).rowmax())
    for j in m.tiles(n, b):
        l += exp(m.load(X[:, j]) - largest).rowsum()
    for j in m.tiles(n, b):
        m.store(Y[:, j], exp(m.load(X[:, j]) - largest) / l)


def online(m: Machine, X: Hbm, Y: Hbm, b: int) -> None:
    """Maximum and sum in one pass: the sum is rescaled whenever the maximum rises (Algorithm 3)."""
    n = X.shape[1]
    largest, l = m.full(-np.inf, 1, 1, name="m"), m.full(0.0, 1, 1, name="l")
    for j in m.tiles(n, b):
        x = m.load(X[:, j])
        risen = m.let(maximum(largest, x.rowmax()), "m_new")
        l *= exp(largest - risen)
        l += exp(x - risen).rowsum()
        largest[...] = risen
    for j in m.tiles(n, b):
        m.store(Y[:, j], exp(m.load(X[:, j]) - largest) / l)


LISTINGS: dict[str, Listing] = {"naive": naive, "safe": safe, "online": online}


def accesses(listing: Listing, n: int = N, b: int = B) -> tuple[int, int]:
    """Words loaded and stored for a row of ``n`` elements in tiles of ``b``, counted.

    >>> accesses(safe), accesses(online, n=1000)
    ((12288, 4096), (2000, 1000))
    """
    m = Machine(sram=2 * b + 4, mode="count")
    X, Y = m.input("X", (1, n)), m.output("Y", (1, n))
    listing(m, X, Y, b)
    moved = m.finish().arrays
    return moved["X"].reads, moved["Y"].writes


def findings(data: Data) -> list[Finding]:
    """Loads and stores of an element in each listing, published and counted."""
    return [_finding(row, data.softmax.source) for row in data.softmax]


def _finding(row: Accesses, source: str) -> Finding:
    listing = LISTINGS.get(row.method)
    labels = {"quantity": "accesses", "method": row.method, "published_loads": row.loads, "published_stores": row.stores}
    name, why = f"accesses of {row.method} softmax", WHY.get(row.method, "")
    if listing is None:
        return Finding("softmax", SECTION, row.method, (Compared(name, row.total, UNIT, None, source, labels, word=NO_KERNEL),))
    loads, stores = (_an_element(words) for words in accesses(listing))
    made = f"words loaded and stored for a row of {N:,} in tiles of {B}, over {N:,}"
    found = Compared(
        name, row.total, UNIT, loads + stores, source, {**labels, "loads": loads, "stores": stores}, EXACTLY,
        made=made, counted_by=COMMAND.format(row.method),
    )  # fmt: skip
    split = f"{loads:g} loaded and {stores:g} stored, published {row.loads} and {row.stores}"
    return Finding("softmax", SECTION, row.method, (found,), why, (Check(split, (loads, stores) == (row.loads, row.stores)),))


def _an_element(words: int) -> int | float:
    return words // N if words % N == 0 else words / N
