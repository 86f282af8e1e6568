"""Red-blue pebbling: the least words that any schedule can move, known exactly for tiny products and tiny attention.

A *pebbling* computes a graph of scalars (:mod:`~iosim_reference.pebbling.graphs`) by the moves of
:mod:`~iosim_reference.pebbling.rules`; its cost is its loads and stores. :func:`least_io` finds the cheapest and proves it.

>>> graph = product(2, 2, 2)
>>> optimum = least_io(graph, 4)
>>> optimum.words, play(graph, optimum.moves, 4)
(14, 14)
"""

from iosim_reference.pebbling.graphs import Graph, attention, product
from iosim_reference.pebbling.rules import Move, play
from iosim_reference.pebbling.search import BeyondReach, Optimum, frontier, least_io

__all__ = ["BeyondReach", "Graph", "Move", "Optimum", "attention", "frontier", "least_io", "play", "product"]
