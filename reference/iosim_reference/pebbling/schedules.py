"""Schedules written by hand: an order of computations, and room made by dropping what is needed again last.

Orders are those of the loops in the papers, for every size of their tiles. They are played by the rules, so that what they cost is
an upper bound on the optimum, as the formulas in :mod:`iosim_reference.pebbling.bounds` are lower ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product as every

from iosim_reference.pebbling.graphs import Graph
from iosim_reference.pebbling.rules import Move, play

Order = tuple[str, list[int]]
Place = Callable[[str, int, int, int], tuple[int, ...]]


def product_orders(graph: Graph, n: int, m: int) -> Iterator[Order]:
    """One tile of C after the other, of every size a x b: inside it the sum over l outside, so that it grows by outer products.

    It takes a b + min(a, b) + 1 words to move n k ceil(m / b) + k m ceil(n / a) + n m, or fewer where operands survive a tile.
    """
    for a, b in every(range(1, n + 1), range(1, m + 1)):
        yield f"tile {a}x{b}", _sorted(graph, _tile(a, b))


def attention_orders(graph: Graph, n: int, nk: int) -> Iterator[Order]:
    """Three loops for every tile of a queries and b keys.

    ``queries`` outside, as in FlashAttention-2; ``keys`` outside, as in FlashAttention; ``scores`` first, all of them, tile by tile,
    and the output afterwards. A softmax in two passes goes over the keys twice.
    """
    letters = {name[0] for name in graph.names}
    second = {"p", "l", "o"} if "m" in letters and "a" not in letters else set()
    for a, b in every(range(1, n + 1), range(1, nk + 1)):
        for loops in (_queries, _keys, _scores):
            yield f"{loops.__name__[1:]} {a}x{b}", _sorted(graph, loops(a, b, second))


def _tile(a: int, b: int) -> Place:
    # The shorter side of the tile is the inner loop: its operands stay while those of the longer one pass.
    return lambda _, i, j, l: (i // a, j // b, l, j, i) if a <= b else (i // a, j // b, l, i, j)


def _queries(a: int, b: int, second: set[str]) -> Place:
    return lambda x, i, j, _: (i // a, x == "O", x in second, j // b, i, j)


def _keys(a: int, b: int, second: set[str]) -> Place:
    return lambda x, i, j, _: (x == "O", x in second, j // b, i // a, i, j)


def _scores(a: int, b: int, second: set[str]) -> Place:
    first = {"s", "m"} if second else {"s"}
    return lambda x, i, j, _: (x == "O", x not in first, i // a, j // b, i, j)


def cheapest(graph: Graph, orders: Iterable[Order], memory: int) -> tuple[str, int]:
    """The name of the cheapest order and its words, as played.

    >>> from iosim_reference.pebbling.graphs import product
    >>> graph = product(2, 2, 2)
    >>> cheapest(graph, product_orders(graph, 2, 2), 4)
    ('tile 1x1', 16)
    """
    costs = ((name, play(graph, schedule(graph, order, memory), memory, recompute=False)) for name, order in orders)
    return min(costs, key=lambda cost: cost[1])


def schedule(graph: Graph, order: Iterable[int], memory: int) -> list[Move]:
    """Moves that compute the vertices of ``order``, each once, in that order.

    Operands are loaded when they are needed. What is dropped for them is what is needed again last, and stored before if it must be.
    """
    desk = _Desk(graph, memory, list(order))
    for now, v in enumerate(desk.order):
        desk.compute(now, v)
    return desk.moves


def _sorted(graph: Graph, place: Place) -> list[int]:
    # Vertices that share a place keep their order in the graph, in which each can be computed.
    computed = (v for v in range(len(graph.names)) if v not in graph.inputs)
    return sorted(computed, key=lambda v: (*place(*_index(graph.names[v])), v))


def _index(name: str) -> tuple[str, int, int, int]:
    """The letter of a vertex, and its three indices; those that it has not are 0."""
    index = [int(x) for x in name[2:-1].split(",")]
    i, j, l = (*index, 0, 0)[:3]
    return name[0], i, j, l


@dataclass
class _Desk:
    graph: Graph
    memory: int
    order: list[int]
    red: set[int] = field(default_factory=set)
    moves: list[Move] = field(default_factory=list)
    blue: set[int] = field(init=False)
    uses: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.blue = set(self.graph.inputs)
        self.uses = {v: [] for v in range(len(self.graph.names))}
        for now, v in reversed(list(enumerate(self.order))):
            for u in self.graph.reads[v]:
                self.uses[u].append(now)  # the next use is last, and is popped

    def compute(self, now: int, v: int) -> None:
        reads = self.graph.reads[v]
        for u in reads:
            self._fetch(u, reads)
            self.uses[u].pop()
        self._write(v, reads)
        if v in self.graph.outputs:
            self._store(v)
        for u in (*reads, v):
            if u in self.red and not self.uses[u]:
                self._drop(u)

    def _fetch(self, u: int, keep: tuple[int, ...]) -> None:
        if u not in self.red:
            self._make_room(keep)
            self.moves.append(Move("load", u))
            self.red.add(u)

    def _write(self, v: int, reads: tuple[int, ...]) -> None:
        over = next((u for u in self.graph.over[v] if not self.uses[u]), None)
        if over is None and self.red <= set(reads) and len(self.red) == self.memory:
            over = self.graph.over[v][0]  # nothing else can make room
            self._store(over)
        if over is None:
            self._make_room(reads)
        self.moves.append(Move("compute", v, over))
        self.red = self.red.difference([over]) | {v}

    def _make_room(self, keep: tuple[int, ...]) -> None:
        if len(self.red) == self.memory:
            x = max(self.red.difference(keep), key=self._next_use)
            if self.uses[x]:
                self._store(x)
            self._drop(x)

    def _next_use(self, x: int) -> tuple[int, bool, int]:
        return (self.uses[x][-1] if self.uses[x] else len(self.order), x in self.blue, x)

    def _store(self, v: int) -> None:
        if v not in self.blue:
            self.moves.append(Move("store", v))
            self.blue.add(v)

    def _drop(self, v: int) -> None:
        self.moves.append(Move("drop", v))
        self.red.remove(v)
