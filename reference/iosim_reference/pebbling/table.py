"""The table of optima in ``docs/pebbling.md``: bound, least traffic and best schedule by hand, for every memory within reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from iosim_reference.pebbling.bounds import Bounds, attention_bounds, in_force, product_bounds
from iosim_reference.pebbling.graphs import Graph, Softmax, attention, product
from iosim_reference.pebbling.schedules import Order, attention_orders, cheapest, product_orders
from iosim_reference.pebbling.search import least_io

COLUMNS = ("M", "bound", "which", "recomputed", "computed once", "schedule", "its order")


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
    """One attention of the table: Q ``(n, d)``, K and V ``(nk, d)``."""

    n: int
    nk: int
    d: int
    softmax: Softmax = "plain"

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

QUICK: tuple[Instance, ...] = (
    Product(2, 2, 2),
    Product(2, 4, 2),
    Product(3, 1, 3),
    Product(3, 2, 3),
    Attention(2, 2, 1),
    Attention(1, 4, 2),
)
"""What is searched through in a few seconds."""

SLOW: tuple[Instance, ...] = (
    Product(2, 8, 2),
    Product(3, 3, 3),
    Product(4, 2, 4),
    Attention(2, 2, 1, "two-pass"),
    Attention(2, 2, 1, "online"),
    Attention(2, 2, 2),
    Attention(2, 2, 2, "two-pass"),
    Attention(3, 3, 1),
    Attention(3, 3, 1, "two-pass"),
    Attention(3, 3, 1, "online"),
    Attention(2, 4, 2),
    Attention(4, 4, 1),
)
"""What takes up to some minutes each."""
from iosim_reference.pebbling.reach import expected_states
import time
def dump(inst):
    g=inst.graph()
    print(inst,len(g.names),g.compulsory,flush=True)
    for M in count(g.least_memory):
        b=in_force(inst.bounds(M)); c=cheapest(g,inst.orders(g),M)
        r=[]
        for rc in (False,True):
            t=time.process_time()
            try: o=least_io(g,M,recompute=rc);r.append((o.words,o.states,round(time.process_time()-t,1)))
            except ValueError as e: r.append(str(e)[-60:])
        print('  ',M,b,r,c,'est',expected_states(g,c[1]-g.compulsory,False),expected_states(g,c[1]-g.compulsory,True),flush=True)
        if r[0][0]==g.compulsory==c[1]: break
if __name__=="__main__":
    import sys
    for i in (QUICK if sys.argv[1]=='q' else SLOW): dump(i)
