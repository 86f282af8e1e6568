"""The table of optima in ``docs/pebbling.md``: bound, least traffic and best schedule by hand, for every memory within reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from iosim_reference.pebbling.bounds import Bounds, attention_bounds, in_force, product_bounds
from iosim_reference.pebbling.graphs import Graph, Softmax, attention, product
from iosim_reference.pebbling.schedules import Order, attention_orders, cheapest, product_orders
from iosim_reference.pebbling.search import BeyondReach, least_io


@dataclass(frozen=True, slots=True)
class Product:
    """One product of the table: A ``(n, k)`` times B ``(k, m)``."""

    n: int
    k: int
    m: int

    def __str__(self) -> str:
        return f"product, n={self.n}, k={self.k}, m={self.m}"

    def graph(self) -> Graph:
        """Its graph."""
        return product(self.n, self.k, self.m)

    def bounds(self, memory: int) -> Bounds:
        """Lower bounds on its traffic."""
        return product_bounds(self.n, self.k, self.m, memory)

    def orders(self, graph: Graph) -> Iterator[Order]:
        """Orders by hand."""
        return product_orders(graph, self.n, self.m)


@dataclass(frozen=True, slots=True)
class Attention:
    """One attention of the table: Q ``(n, d)``, K and V ``(nk, d)``; ``again=False`` leaves the game with recomputing out."""

    n: int
    nk: int
    d: int
    softmax: Softmax = "plain"
    again: bool = True

    def __str__(self) -> str:
        return f"attention, {self.softmax} softmax, n={self.n}, nk={self.nk}, d={self.d}"

    def graph(self) -> Graph:
        """Its graph."""
        return attention(self.n, self.d, nk=self.nk, softmax=self.softmax)

    def bounds(self, memory: int) -> Bounds:
        """Lower bounds on its traffic."""
        return attention_bounds(self.n, self.d, self.nk, memory)

    def orders(self, graph: Graph) -> Iterator[Order]:
        """Orders by hand."""
        return attention_orders(graph, self.n, self.nk)


Instance = Product | Attention

QUICK: tuple[Instance, ...] = (Product(2, 2, 2), Product(2, 4, 2), Product(3, 1, 3), Attention(2, 2, 1), Attention(1, 2, 2))
"""What is searched through in a few seconds, all of it."""

SLOW: tuple[Instance, ...] = (
    Product(2, 8, 2),
    Product(3, 2, 3),
    Product(3, 3, 3),
    Attention(1, 4, 2),
    Attention(2, 2, 1, "two-pass"),
    Attention(2, 2, 1, "online"),
    Attention(2, 2, 2),
    Attention(2, 2, 2, "two-pass"),
    Attention(3, 3, 1, again=False),
    Attention(3, 3, 1, "two-pass", again=False),
)
"""What takes up to a minute or two each."""

_HEAD = "| M | bound | which | least, recomputing | least, computed once | schedule by hand | its order |"
_BEYOND, _NOT_SEARCHED = "beyond reach", "not searched"


def table(instance: Instance) -> str:
    """The table of one instance in Markdown, one row for every memory up to the first at which the compulsory traffic is enough."""
    graph = instance.graph()
    title = f"{instance}: {len(graph.names)} vertices, {graph.compulsory} words compulsory"
    return "\n".join([f"### {title}", "", _HEAD, "|" + "--:|--:|---|--:|--:|--:|---|", *_rows(instance, graph)])


def _rows(instance: Instance, graph: Graph) -> Iterator[str]:
    enough = str(graph.compulsory)
    once = ""
    for memory in count(graph.least_memory):
        if once == enough:
            return
        once = _least(graph, memory, recompute=False)
        again = once if once == enough else _again(instance, graph, memory, once)
        which, bound = in_force(instance.bounds(memory))
        order, words = cheapest(graph, instance.orders(graph), memory)
        yield f"| {memory} | {bound} | {which} | {again} | {once} | {words} | {order} |"


def _again(instance: Instance, graph: Graph, memory: int, once: str) -> str:
    if isinstance(instance, Product):
        return once  # each of its sums has one reader, so that recomputing never pays
    return _least(graph, memory, recompute=True) if instance.again else _NOT_SEARCHED


def _least(graph: Graph, memory: int, recompute: bool) -> str:
    try:
        return str(least_io(graph, memory, recompute=recompute).words)
    except BeyondReach:
        return _BEYOND
