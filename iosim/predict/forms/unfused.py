"""Attention as frameworks run it, one kernel a step: PyTorch and Megatron-LM (Dao et al. 2022, arXiv 2205.14135, Appendix E).

Whatever the mask hides, every step moves whole arrays: words depend on the sizes and the blocks, on whether there is a mask at all,
and on whether there is dropout, which adds passes over R (which pairs are kept, a byte each) and over the weights after it.
"""

from __future__ import annotations

from collections.abc import Iterator

from iosim.core.options import Options
from iosim.predict.census.tiles import Kinds
from iosim.predict.census.visits import Visits
from iosim.predict.formula import Formula
from iosim.predict.room import Room
from iosim.predict.sizes import ONE, Int, Passes, Shape, Size, once
from iosim.predict.term import Term, read, write

_KEPT = 1  # what an element of R takes on chip, in words and in bytes


def pytorch(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """4 N_q N_k + N_q (d + d_v) + N_k (d + d_v), the last part Tr times unless ``reuse="ideal"``.

    A mask adds 2 N_q N_k, an element mask another N_q N_k (of a byte each), dropout 3 N_q N_k.
    """
    yield from _scores(s, visits, options)
    if s.masked:
        yield _loads(s, "S", "a pass of its own loads every score to hide some")
        yield from _mask(visits, "and loads the whole mask, one word a pair")
        yield _stores(s, "S", "and stores every score again, a hidden one as -inf")
    yield _loads(s, "S", "softmax loads each row of scores once")
    yield from _outputs(s, visits, options)


def megatron(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """As ``pytorch``, but the softmax hides what the mask hides, so that a mask adds its elements at most."""
    yield from _scores(s, visits, options)
    yield _loads(s, "S", "masked softmax loads each row of scores once")
    yield from _mask(visits, "and its row of the mask, one word a pair")
    yield from _outputs(s, visits, options)


def backward(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """7 N_q N_k + 3 N_q d_v + N_q d + N_k (2 d_v + 2 d), with one dO and Q Tc times, V and K Tr times unless ``reuse="ideal"``.

    For d = d_v that is 7 N_q N_k + 4 (N_q + N_k) d where all moves once. Dropout adds 3 N_q N_k, a mask nothing.
    """
    queries, keys = _passes(s, visits, options)
    weights, gradients = ("Pd", "dPd") if s.dropout else ("P", "dP")
    yield _loads(s, weights, "dV needs every weight that went into O")
    yield read("dO", queries, s.dv, _who("key", "dO", options))
    yield write("dV", once(s.Nk), s.dv, "each key tile stores its dV once")
    yield read("dO", once(s.Nq), s.dv, "each query tile loads its dO once to make the gradient of its weights")
    yield read("V", keys, s.dv, _who("query", "V", options))
    yield _stores(s, gradients, "the gradient of every weight is stored")
    if s.dropout:
        yield _loads(s, "dPd", "dropout's own pass loads the gradient of every weight after it")
        yield _loads(s, "R", "and which pairs were kept")
        yield _stores(s, "dP", "and stores the gradient of every weight before it")
    yield _loads(s, "P", "softmax backward loads each row of weights once")
    yield _loads(s, "dP", "and their gradients")
    yield _stores(s, "dS", "and stores the gradient of every score")
    yield _loads(s, "dS", "dQ needs the gradient of every score")
    yield read("K", keys, s.d, _who("query", "K", options))
    yield write("dQ", once(s.Nq), s.d, "each query tile stores its dQ once")
    yield _loads(s, "dS", "dK needs the gradient of every score again")
    yield read("Q", queries, s.d, _who("key", "Q", options))
    yield write("dK", once(s.Nk), s.d, "each key tile stores its dK once")
    if visits.elements is not None:
        yield read("mask", Passes(Size("0", 0), s.Nq), s.Nk, "nobody loads the mask: P is 0 where it hides")


def pytorch_peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each pass: two products, one row of the softmax, and tiles of the passes that hide and drop."""
    yield from _peaks(s, kinds, room, options)
    yield kinds.rows * kinds.cols * (room.scores + room.mask)
    yield s.Nk.value * room.scores


def megatron_peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """The same, with a row of the mask beside the row of the softmax."""
    yield from _peaks(s, kinds, room, options)
    yield s.Nk.value * (room.scores + room.mask)


def backward_peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """What stands on chip in each pass; making the gradient of the weights never takes more than making dV."""
    d, dv, ideal = s.d.value, s.dv.value, options.reuse == "ideal"
    dq = 0 if ideal else d * room.made  # with K whole on chip a tile's dQ goes straight to HBM
    for rows, cols, _, _ in kinds.visited:
        pairs = rows * cols * room.scores
        yield cols * dv * room.made + rows * dv * room.given + pairs
        yield cols * d * room.made + rows * d * room.given + pairs
        yield rows * dq + cols * d * room.given + pairs
    if s.dropout:
        yield kinds.rows * kinds.cols * (room.scores + _KEPT)
    yield 2 * s.Nk.value * room.scores  # a row of P beside one of dP


def _scores(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """S = QK^T of every pair."""
    yield read("Q", once(s.Nq), s.d, "each query tile loads its Q once")
    yield read("K", _passes(s, visits, options)[1], s.d, _who("query", "K", options))
    yield _stores(s, "S", "every score is stored, a hidden one too")


def _outputs(s: Shape, visits: Visits, options: Options) -> Iterator[Term]:
    """P, dropout, and O = PV."""
    yield _stores(s, "P", "and stores every weight")
    if s.dropout:
        yield _stores(s, "R", "dropout's own pass stores which pairs it keeps")
        yield _loads(s, "P", "loads every weight")
        yield _stores(s, "Pd", "and stores every weight after dropout")
    yield _loads(s, "Pd" if s.dropout else "P", "the product with V loads every weight")
    yield read("V", _passes(s, visits, options)[1], s.dv, _who("query", "V", options))
    yield write("O", once(s.Nq), s.dv, "each query tile stores its O once")


def _peaks(s: Shape, kinds: Kinds, room: Room, options: Options) -> Iterator[Int]:
    """The two products of the forward pass, and dropout's own pass."""
    d, dv = s.d.value, s.dv.value
    o = 0 if options.reuse == "ideal" else dv * room.made  # with V whole on chip a tile's O goes straight to HBM
    for rows, cols, _, _ in kinds.visited:
        yield (rows + cols) * d * room.given + rows * cols * room.made
        yield rows * o + cols * dv * room.given + rows * cols * room.scores
    if s.dropout:
        yield kinds.rows * kinds.cols * (room.scores + room.made)  # R_ij is computed


def _mask(visits: Visits, why: str) -> Iterator[Term]:
    if visits.elements is not None:
        yield read("mask", visits.elements, ONE, why)


def _passes(s: Shape, visits: Visits, options: Options) -> tuple[Passes, Passes]:
    """How often a product that streams query rows, or key rows, past the tiles of the other axis loads them."""
    return (once(s.Nq), once(s.Nk)) if options.reuse == "ideal" else (visits.queries, visits.keys)


def _who(outside: str, array: str, options: Options) -> str:
    return f"{array} is loaded once" if options.reuse == "ideal" else f"every {outside} tile loads all of {array}"


def _loads(s: Shape, array: str, why: str) -> Term:
    return read(array, once(s.Nq), s.Nk, why)


def _stores(s: Shape, array: str, why: str) -> Term:
    return write(array, once(s.Nq), s.Nk, why)


FORMS = {
    "pytorch": Formula(pytorch, pytorch_peaks, ("reuse",), "queries", "Θ(Nd + N²)", falls=True, skips=False),
    "megatron": Formula(megatron, megatron_peaks, ("reuse",), "queries", "Θ(Nd + N²)", falls=True, skips=False),
    **dict.fromkeys(
        ("pytorch-backward", "megatron-backward"),
        Formula(
            backward, backward_peaks, ("reuse",), "queries", "Θ(Nd + N²)", both=lambda options: options.reuse == "tiled", falls=True,
            skips=False, shares=True,
        ),
    ),
}  # fmt: skip
