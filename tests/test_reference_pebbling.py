"""Red-blue pebbling: the optimum against a plain search, between bounds and schedules, and in the documentation."""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosim_reference.pebbling import Graph, Move, attention, frontier, least_io, play, product
from iosim_reference.pebbling.bounds import attention_bounds, product_bounds
from iosim_reference.pebbling.reach import expected_states
from iosim_reference.pebbling.schedules import attention_orders, cheapest, product_orders
from iosim_reference.pebbling.table import QUICK, SLOW, Instance, Product, table

Position = tuple[frozenset[int], frozenset[int], frozenset[int]]


def plain_search(graph: Graph, memory: int, recompute: bool) -> int:
    """Dijkstra over every move of the game, on sets: no normal form, no symmetry, no bound."""
    start: Position = (frozenset(), frozenset(v for v, reads in enumerate(graph.reads) if not reads), frozenset())
    queue, cost, pushed = [(0, 0, start)], {start: 0}, 0
    while queue:
        paid, _, position = heapq.heappop(queue)
        if paid > cost[position]:
            continue
        if graph.outputs <= position[1]:
            return paid
        for words, following in plain_moves(graph, memory, recompute, position):
            if paid + words < cost.get(following, 10**9):
                cost[following], pushed = paid + words, pushed + 1
                heapq.heappush(queue, (paid + words, pushed, following))
    raise AssertionError("no pebbling")


def plain_moves(graph: Graph, memory: int, recompute: bool, position: Position) -> Iterator[tuple[int, Position]]:
    red, blue, computed = position
    for v in red:
        yield 0, (red - {v}, blue, computed)
        yield 1, (red, blue | {v}, computed)
    room = len(red) < memory
    for v in blue - red if room else ():
        yield 1, (red | {v}, blue, computed)
    for v, reads in enumerate(graph.reads):
        if not reads or not red.issuperset(reads) or v in red or v in computed:
            continue
        now = computed if recompute else computed | {v}
        for gone in [set(), *({u} for u in graph.over[v])] if room else [{u} for u in graph.over[v]]:
            yield 0, (red - gone | {v}, blue, now)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to 7 vertices, of which the last reads whatever nobody else does."""
    size = draw(st.integers(2, 7))
    reads: list[tuple[int, ...]] = [()]
    for v in range(1, size - 1):
        reads.append(tuple(draw(st.sets(st.integers(0, v - 1), max_size=3))))
    unread = set(range(size - 1)).difference(*reads)
    reads.append(tuple(unread | draw(st.sets(st.integers(0, size - 2), max_size=1))))
    over = tuple(tuple(draw(st.sets(st.sampled_from(r), max_size=2))) if r else () for r in reads)
    outputs = {v for v in range(size) if reads[v] and draw(st.booleans())} | {size - 1}
    return Graph(tuple(f"v{v}" for v in range(size)), tuple(reads), over, frozenset(outputs))


@settings(max_examples=40)
@given(graph=graphs(), spare=st.integers(0, 2), recompute=st.booleans())
def test_the_optimum_of_a_random_graph_is_that_of_a_plain_search(graph: Graph, spare: int, recompute: bool) -> None:
    memory = graph.least_memory + spare
    assert least_io(graph, memory, recompute=recompute).words == plain_search(graph, memory, recompute)


SMALL = [product(1, 2, 2), product(2, 1, 2), product(2, 2, 1, slide="none"), attention(1, 1, nk=2), attention(1, 1, nk=2, softmax="online")]


@pytest.mark.parametrize("graph", SMALL)
@pytest.mark.parametrize("recompute", [False, True])
def test_the_optima_of_small_products_and_attention_are_those_of_a_plain_search(graph: Graph, recompute: bool) -> None:
    for memory, optimum in frontier(graph, recompute=recompute):
        assert optimum.words == plain_search(graph, memory, recompute)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize(
    ("graph", "memory"),
    [
        *((product(2, 2, 2), memory) for memory in (3, 4)),
        *((attention(2, 1), memory) for memory in (3, 4)),
        (attention(1, 2, nk=2), 4),
        (attention(1, 1, nk=3, softmax="two-pass"), 3),
    ],
)
def test_larger_optima_are_those_of_a_plain_search(graph: Graph, memory: int, recompute: bool) -> None:
    assert least_io(graph, memory, recompute=recompute).words == plain_search(graph, memory, recompute)
