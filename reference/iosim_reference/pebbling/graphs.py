"""What is computed, as a graph: one vertex a scalar, and for each the scalars that it is computed from.

The granularity is one multiply-add a vertex, sums in the order of the loops. ``k`` products that are summed are a chain of ``k``
vertices; each but the first may be written *over* the one before, as an accumulator is. A graph is one order of summation, so its
least traffic is that of the algorithms that sum in that order; a lower bound for every order holds for it all the more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from itertools import product as every
from typing import Literal

Softmax = Literal["plain", "two-pass", "online"]
Slide = Literal["accumulator", "none"]
Key = tuple[str | int, ...]

MOST_VERTICES = 100_000  # to be played; what can be searched is far less
MOST_SYMMETRIES = 720
MOST_WITH_SYMMETRIES = 64  # beyond that nothing is searched, and nobody needs them


@dataclass(frozen=True)
class Graph:
    """Scalars in an order in which they can be computed; vertices are numbered from 0, and inputs are those that read nothing.

    ``reads[v]`` are the operands of v, ``over[v]`` those of them that v may be written over, ``outputs`` must reach slow memory.
    ``symmetries`` are renumberings that change nothing: they are checked here, and a search may take them or leave them.
    Raises ``ValueError`` for an operand that comes later, a vertex that nobody needs, an output that is an input, or none.

    >>> Graph(("a", "b", "a*b"), ((), (), (0, 1)), ((), (), ()), frozenset({2})).compulsory
    3
    """

    names: tuple[str, ...]
    reads: tuple[tuple[int, ...], ...]
    over: tuple[tuple[int, ...], ...]
    outputs: frozenset[int]
    symmetries: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        if not self.outputs or not len(self.names) == len(self.reads) == len(self.over):
            raise ValueError(f"a graph has an output and one name, reads and over a vertex; found {len(self.outputs)} outputs")
        for v, name in enumerate(self.names):
            self._check(v, name)
        for renumbering in self.symmetries:
            if not self._is_symmetry(renumbering):
                raise ValueError(f"{renumbering} is no symmetry: it changes who reads whom")

    @cached_property
    def inputs(self) -> frozenset[int]:
        """The vertices that are not computed: they start in slow memory."""
        return frozenset(v for v, reads in enumerate(self.reads) if not reads)

    @cached_property
    def readers(self) -> tuple[tuple[int, ...], ...]:
        """For every vertex, the vertices that are computed from it."""
        readers: list[list[int]] = [[] for _ in self.names]
        for w, reads in enumerate(self.reads):
            for u in reads:
                readers[u].append(w)
        return tuple(map(tuple, readers))

    @property
    def compulsory(self) -> int:
        """Every input in and every output out, once: no schedule moves less, whatever its memory."""
        return len(self.inputs) + len(self.outputs)

    @property
    def least_memory(self) -> int:
        """The fewest words of fast memory with which every vertex can be computed: its operands, and room for it."""
        return max(len(reads) + (not over) for reads, over in zip(self.reads, self.over, strict=True) if reads)

    def _check(self, v: int, name: str) -> None:
        if not all(0 <= u < v for u in self.reads[v]) or len(set(self.reads[v])) < len(self.reads[v]):
            raise ValueError(f"{name} (vertex {v}) must read distinct vertices before it, not {self.reads[v]}")
        if not set(self.over[v]) <= set(self.reads[v]):
            raise ValueError(f"{name} (vertex {v}) may be written over what it reads, {self.reads[v]}, not {self.over[v]}")
        if v in self.outputs and not self.reads[v]:
            raise ValueError(f"{name} (vertex {v}) cannot be an output: it is an input")
        if v not in self.outputs and not self.readers[v]:
            raise ValueError(f"{name} (vertex {v}) is neither an output nor read by any vertex")

    def _is_symmetry(self, to: tuple[int, ...]) -> bool:
        if sorted(to) != list(range(len(self.names))) or {to[v] for v in self.outputs} != self.outputs:
            return False
        pairs = ((side[v], side[to[v]]) for side in (self.reads, self.over) for v in range(len(to)))
        return all({to[u] for u in mine} == set(theirs) for mine, theirs in pairs)


def product(n: int, k: int, m: int, *, slide: Slide = "accumulator") -> Graph:
    """C = A B for A ``(n, k)`` and B ``(k, m)``: n m chains of k multiply-adds, ``C[i,j,l] = C[i,j,l-1] + A[i,l] B[l,j]``.

    ``slide="none"`` forbids to write a partial sum over the one before: Hong and Kung's game as they wrote it.
    Raises ``ValueError`` for a size below 1, or a graph of more than 100000 vertices.

    >>> graph = product(2, 2, 2)
    >>> len(graph.names), graph.compulsory, graph.least_memory
    (16, 12, 3)
    """
    _require(n=n, k=k, m=m)
    draft = _Draft(slide)
    for key in (*every("A", range(n), range(k)), *every("B", range(k), range(m))):
        draft.add(key)
    for l, i, j in every(range(k), range(n), range(m)):
        draft.chain(("C", i, j, l), ("C", i, j, l - 1), ("A", i, l), ("B", l, j))
    outputs = every("C", range(n), range(m), [k - 1])
    return draft.graph(outputs, {"A": "i.", "B": ".j", "C": "ij."}, {"i": n, "j": m})


def attention(n: int, d: int, *, nk: int | None = None, softmax: Softmax = "plain", slide: Slide = "accumulator") -> Graph:
    """O = softmax(Q K^T) V for Q ``(n, d)``, K and V ``(nk, d)``, ``nk = n`` unless given; no scale, which would be no vertex.

    Scores are chains over d as in :func:`product`. Sums run over the keys in their order; the first term of a sum of loaded
    values is that value itself. ``O[i,t] = o / l`` goes over the last ``o``.

    ========== =========================================================================================================
    softmax    vertices a pair (i, j) after the d of its score s
    ========== =========================================================================================================
    plain      exp is part of the last multiply-add, so that s is p; l += p; o += p v, d times (Saha and Ye's graph)
    two-pass   m = max(m, s) over all keys; then p = exp(s - m) over s, l += p, o += p v
    online     m = max(m, s), a = exp(m_before - m), p = exp(s - m) over s, l = a l + p, o = a o + p v; the first m is s
    ========== =========================================================================================================

    Raises ``ValueError`` for a size below 1, an unknown softmax, or a graph of more than 100000 vertices.

    >>> [len(attention(2, 1, softmax=softmax).names) for softmax in ("plain", "two-pass", "online")]
    [18, 24, 26]
    """
    keys = n if nk is None else nk
    _require(n=n, d=d, nk=keys)
    draft = _Draft(slide)
    for key in (*every("Q", range(n), range(d)), *every("KV", range(keys), range(d))):
        draft.add(key)
    for i in range(n):
        _row(draft, i, keys, d, softmax)
    axes = {"Q": "i.", "K": "..", "V": ".t", "s": "i..", "m": "i.", "a": "i.", "p": "i.", "l": "i.", "o": "i.t", "O": "it"}
    return draft.graph(every("O", range(n), range(d)), axes, {"i": n, "t": d})


def _row(draft: _Draft, i: int, keys: int, d: int, softmax: Softmax) -> None:
    rows = {"plain": _plain, "two-pass": _two_pass, "online": _online}
    if softmax not in rows:
        raise ValueError(f"softmax must be one of {', '.join(rows)}, not {softmax!r}")
    l = rows[softmax](draft, i, keys, d)
    for t in range(d):
        draft.add(("O", i, t), ("o", i, keys - 1, t), l, over=("o", i, keys - 1, t))


def _score(draft: _Draft, i: int, j: int, d: int) -> Key:
    for t in range(d):
        draft.chain(("s", i, j, t), ("s", i, j, t - 1), ("Q", i, t), ("K", j, t))
    return ("s", i, j, d - 1)


def _plain(draft: _Draft, i: int, keys: int, d: int) -> Key:
    return _weigh(draft, i, d, [_score(draft, i, j, d) for j in range(keys)])


def _two_pass(draft: _Draft, i: int, keys: int, d: int) -> Key:
    scores = [_score(draft, i, j, d) for j in range(keys)]
    m = _running(draft, "m", i, scores)
    for j, s in enumerate(scores):
        draft.add(("p", i, j), *dict.fromkeys((s, m)), over=s)
    return _weigh(draft, i, d, [("p", i, j) for j in range(keys)])


def _weigh(draft: _Draft, i: int, d: int, weights: list[Key]) -> Key:
    for j, p in enumerate(weights):
        for t in range(d):
            draft.chain(("o", i, j, t), ("o", i, j - 1, t), p, ("V", j, t))
    return _running(draft, "l", i, weights)


def _running(draft: _Draft, name: str, i: int, terms: list[Key]) -> Key:
    """The chain of a sum or a maximum over terms that exist already; the first of them is its own partial result."""
    before = terms[0]
    for j, term in enumerate(terms[1:], start=1):
        draft.add((name, i, j), before, term, over=before)
        before = (name, i, j)
    return before


def _online(draft: _Draft, i: int, keys: int, d: int) -> Key:
    m = l = _score(draft, i, 0, d)
    for j in range(keys):
        # Nothing is known of exp(s - s) in advance: the first p is computed, and m stays.
        factors = _rescale(draft, i, j, d, m) if j else [draft.add(("p", i, 0), m)]
        m, l = (("m", i, j), draft.add(("l", i, j), l, *factors, over=l)) if j else (m, factors[-1])
        for t in range(d):
            draft.chain(("o", i, j, t), ("o", i, j - 1, t), *factors, ("V", j, t))
    return l


def _rescale(draft: _Draft, i: int, j: int, d: int, m: Key) -> list[Key]:
    s, largest = _score(draft, i, j, d), ("m", i, j)
    draft.add(largest, m, s, over=m)
    return [draft.add(("a", i, j), m, largest, over=m), draft.add(("p", i, j), s, largest, over=s)]


def _require(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, not {size}")


@dataclass
class _Draft:
    slide: Slide
    number: dict[Key, int] = field(default_factory=dict)
    reads: list[tuple[int, ...]] = field(default_factory=list)
    over: list[tuple[int, ...]] = field(default_factory=list)

    def add(self, key: Key, *reads: Key, over: Key | None = None) -> Key:
        if len(self.reads) == MOST_VERTICES:
            raise ValueError(
                f"the graph has more than {MOST_VERTICES} vertices, one a multiply-add: it is not built, and so the states of a search "
                "are not estimated; smaller sizes would work"
            )
        self.number[key] = len(self.reads)
        self.reads.append(tuple(self.number[u] for u in reads))
        self.over.append((self.number[over],) if over and self.slide == "accumulator" else ())
        return key

    def chain(self, key: Key, before: Key, *reads: Key) -> Key:
        return self.add(key, before, *reads, over=before) if before in self.number else self.add(key, *reads)

    def graph(self, outputs: Iterator[Key], axes: Mapping[str, str], sizes: Mapping[str, int]) -> Graph:
        names = tuple(f"{key[0]}[{','.join(map(str, key[1:]))}]" for key in self.number)
        finals = frozenset(self.number[key] for key in outputs)
        return Graph(names, tuple(self.reads), tuple(self.over), finals, tuple(self._symmetries(axes, sizes)))

    def _symmetries(self, axes: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[tuple[int, ...]]:
        """Every exchange of indices along the axes that no sum runs over; the longer axis stays as it is where they are too many."""
        free = dict(sizes) if len(self.number) <= MOST_WITH_SYMMETRIES else {}
        while math.prod(map(math.factorial, free.values())) > MOST_SYMMETRIES:
            free.pop(max(free, key=free.__getitem__))
        for images in every(*(permutations(range(size)) for size in free.values())):
            to = dict(zip(free, images, strict=True))
            yield tuple(self.number[_renamed(key, axes[str(key[0])], to)] for key in self.number)


def _renamed(key: Key, axes: str, to: Mapping[str, tuple[int, ...]]) -> Key:
    # An axis string may be shorter than the index: what it does not name is an index of a chain, and stays.
    moved = (to[axis][int(x)] if axis in to else x for axis, x in zip(axes.ljust(len(key) - 1, "."), key[1:], strict=True))
    return (key[0], *moved)
