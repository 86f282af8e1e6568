"""Red-blue pebbling: the optimum against a plain search, between bounds and schedules, and in the documentation."""

from __future__ import annotations

import heapq
import math
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count, takewhile
from itertools import product as tries
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iosim_reference.pebbling import Graph, Move, Optimum, attention, frontier, least_io, play, product
from iosim_reference.pebbling.bounds import attention_bounds, product_bounds
from iosim_reference.pebbling.game import Game
from iosim_reference.pebbling.reach import expected_states, stages
from iosim_reference.pebbling.schedules import cheapest, product_orders
from iosim_reference.pebbling.table import QUICK, SLOW, Attention, Instance, Product, table

searched_once = cache(least_io)
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
    """Up to 3 inputs and 5 vertices of one or two operands each, the last of which reads the inputs that nobody else does."""
    inputs, computed = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    vertices = range(inputs, inputs + computed)
    operands = [draw(st.sets(st.integers(0, v - 1), min_size=1, max_size=2)) for v in vertices]
    operands[-1].update(set(range(inputs)).difference(*operands))
    slides = [draw(st.sets(st.sampled_from(sorted(reads)), max_size=2)) for reads in operands]
    outputs = draw(st.sets(st.sampled_from(vertices), max_size=2)) | set(vertices).difference(*operands)
    reads, over = ((*((),) * inputs, *map(tuple, sets)) for sets in (operands, slides))
    return Graph(tuple(f"v{v}" for v in range(inputs + computed)), reads, over, frozenset(outputs))


@settings(max_examples=30)
@given(graph=graphs(), spare=st.integers(0, 1), recompute=st.booleans())
def test_the_optimum_of_a_random_graph_is_that_of_a_plain_search(graph: Graph, spare: int, recompute: bool) -> None:
    memory = graph.least_memory + spare
    assert least_io(graph, memory, recompute=recompute).words == plain_search(graph, memory, recompute)


RARE = {
    "forcing what reads a copied value would cost a word": (
        ((), (), (0, 1), (0, 1), (2, 3), (0, 4), (2,), (0, 4), (4, 6), (5, 8), (4,)),
        ((), (), (), (), (), (), (2,), (), (4,), (5,), (4,)),
        {7, 9, 10},
        False,
    ),
    "a value is stored although it could be computed again": (
        ((), (0,), (0, 1), (0, 1, 2), (0, 1, 3), (2, 3), (0, 5)),
        ((), (0,), (), (2,), (0,), (2,), (5,)),
        {4, 6},
        True,
    ),
    "a value is stored and then written over": (
        ((), (0,), (1,), (0, 2), (0, 1), (2, 3, 4), (3, 5)),
        ((), (0,), (1,), (2,), (), (3,), (3,)),
        {6},
        False,
    ),
}


@pytest.mark.parametrize(("reads", "over", "outputs", "recompute"), RARE.values(), ids=RARE)
def test_what_random_graphs_rarely_hit_is_found_too(
    reads: tuple[tuple[int, ...], ...], over: tuple[tuple[int, ...], ...], outputs: set[int], recompute: bool
) -> None:
    graph = Graph(tuple(f"v{v}" for v in range(len(reads))), reads, over, frozenset(outputs))
    assert least_io(graph, 3, recompute=recompute).words == plain_search(graph, 3, recompute)


@given(graph=graphs(), spare=st.integers(0, 1), recompute=st.booleans())
def test_words_spent_plus_floor_never_fall(graph: Graph, spare: int, recompute: bool) -> None:
    game = Game(graph, graph.least_memory + spare, recompute)
    states = game.start()
    for _ in range(4):
        promised, after = states.spent + game.floor(states), game.after(states, 1000)
        assert (after.spent + game.floor(after) >= promised[after.parent]).all()
        states = after.at(slice(0, 200))
    assert game.floor(states)[game.finished(states)].sum() == 0


@pytest.mark.slow
@settings(max_examples=1000)
@given(graph=graphs(), spare=st.integers(0, 1), recompute=st.booleans())
def test_the_optima_of_many_random_graphs_are_those_of_a_plain_search(graph: Graph, spare: int, recompute: bool) -> None:
    memory = graph.least_memory + spare
    assert least_io(graph, memory, recompute=recompute).words == plain_search(graph, memory, recompute)


@pytest.mark.parametrize("memory", [3, 4, 5])
def test_recomputing_never_pays_in_a_product(memory: int) -> None:
    assert searched_once(product(2, 2, 2), memory, recompute=True).words == searched_once(product(2, 2, 2), memory, recompute=False).words


SMALL = [
    product(1, 2, 2),
    product(2, 1, 2),
    product(2, 2, 1, slide="none"),
    attention(1, 1, nk=2),
    attention(1, 1, nk=2, softmax="two-pass"),
]


@pytest.mark.parametrize("graph", SMALL)
@pytest.mark.parametrize("recompute", [False, True])
def test_the_optima_of_small_products_and_attention_are_those_of_a_plain_search(graph: Graph, recompute: bool) -> None:
    for memory, optimum in frontier(graph, recompute=recompute):
        assert optimum.words == plain_search(graph, memory, recompute)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "memory", "recompute"),
    [
        (product(2, 2, 2), 3, False),
        (product(2, 2, 2), 4, True),
        (attention(2, 1), 3, True),
        (attention(1, 1, nk=3), 4, False),
        (attention(1, 1, nk=3), 3, True),
        (attention(1, 2, nk=2), 3, True),
        (attention(1, 1, nk=2, softmax="online"), 4, False),
        (attention(1, 1, nk=2, softmax="online"), 4, True),
    ],
)
def test_larger_optima_are_those_of_a_plain_search(graph: Graph, memory: int, recompute: bool) -> None:
    assert least_io(graph, memory, recompute=recompute).words == plain_search(graph, memory, recompute)


@pytest.mark.slow
def test_recomputing_pays_where_a_plain_search_says_so() -> None:
    graph = attention(1, 2, nk=2)  # with two columns of V a score is cheaper to make twice than to keep
    assert least_io(graph, 4).words == plain_search(graph, 4, recompute=True) == 12
    assert least_io(graph, 4, recompute=False).words == 14


@pytest.mark.parametrize("graph", [product(3, 1, 3), product(2, 2, 2), attention(2, 1)])
@pytest.mark.parametrize("memory", [3, 4])
def test_symmetries_change_the_work_and_not_the_optimum(graph: Graph, memory: int) -> None:
    optimum, without = searched_once(graph, memory, recompute=True), least_io(replace(graph, symmetries=()), memory)
    assert without.words == optimum.words
    assert without.states > optimum.states > 0


def optima(instance: Instance, recompute: bool) -> list[tuple[int, Optimum]]:
    """The frontier, each optimum searched for only once in this file."""
    graph = instance.graph()
    found = ((memory, searched_once(graph, memory, recompute=recompute)) for memory in count(graph.least_memory))
    before = list(takewhile(lambda row: row[1].words > graph.compulsory, found))
    memory = graph.least_memory + len(before)
    return [*before, (memory, searched_once(graph, memory, recompute=recompute))]


GAMES = [(instance, again) for instance in QUICK for again in (False, True) if not again or isinstance(instance, Attention)]


@pytest.mark.parametrize(("instance", "recompute"), GAMES, ids=str)
def test_more_memory_never_costs_more_and_enough_of_it_leaves_the_compulsory_traffic(instance: Instance, recompute: bool) -> None:
    graph = instance.graph()
    words = [optimum.words for _, optimum in optima(instance, recompute)]
    assert words == sorted(words, reverse=True)
    assert words[-1] == graph.compulsory < words[0]


@pytest.mark.parametrize("instance", QUICK, ids=str)
def test_bound_optimum_and_schedule_stand_in_this_order(instance: Instance) -> None:
    graph = instance.graph()
    recomputing = dict(optima(instance, isinstance(instance, Attention)))  # in a product every sum has one reader
    for memory, once in optima(instance, False):
        again = recomputing.get(memory, once)  # it may need less memory to get by with the compulsory traffic
        by_hand = cheapest(graph, instance.orders(graph), memory)[1]
        assert max(published_bound(instance, memory), *instance.bounds(memory).values()) <= again.words <= once.words <= by_hand


def published_bound(instance: Instance, memory: int) -> float:
    """The formulas as they are published, or follow from what is, written down once more."""
    if isinstance(instance, Product):
        n, k, m = instance.n, instance.k, instance.m
        irony = n * k * m / (2 * math.sqrt(2 * memory)) - memory
        return max(n * k + k * m + n * m, smith(n, k, m, memory), irony)
    n, nk, d = instance.n, instance.nk, instance.d
    large = memory * (n * nk / (memory**2 / d**2 + 4 * memory) - 1)
    return max(2 * (n + nk) * d, large, smith(n, d, nk, memory) - n * nk)


def smith(n: int, k: int, m: int, memory: int) -> float:
    return 2 * n * k * m / math.sqrt(memory) - 2 * memory


@given(n=st.integers(1, 9), k=st.integers(1, 9), m=st.integers(1, 9), memory=st.integers(3, 40))
def test_cut_where_it_is_best_the_bound_by_segments_is_never_below_smith_et_al(n: int, k: int, m: int, memory: int) -> None:
    assert product_bounds(n, k, m, memory)["segments"] >= smith(n, k, m, memory) - 1e-9


def most_by_trying(sizes: tuple[int, int, int]) -> list[int]:
    """floor(sqrt(a b c)) at most over all a, b, c of at most the ``sizes``, by their sum."""
    a, b, c = np.ix_(*(np.arange(1, size + 1) for size in sizes))
    most = np.zeros(sum(sizes) + 1, np.int64)
    np.maximum.at(most, (a + b + c).ravel(), (a * b * c).ravel())
    return [max(1, math.isqrt(work)) for work in np.maximum.accumulate(most).tolist()]


@pytest.mark.parametrize(("n", "k", "m"), [*tries(range(1, 5), repeat=3), (1, 5, 1), (5, 1, 5), (1, 9, 2), (6, 2, 3)])
def test_the_bound_by_segments_is_that_of_a_plain_maximum(n: int, k: int, m: int) -> None:
    most = most_by_trying((n * k, k * m, n * m))
    for memory in range(3, 12):
        segments = [loads * (math.ceil(n * k * m / most[memory + loads]) - 1) for loads in range(1, len(most) - memory)]
        assert product_bounds(n, k, m, memory)["segments"] == max([0, *segments])


@pytest.mark.parametrize(
    ("n", "k", "m"), [(1, 1, 1), (1, 5, 1), (1, 4, 2), (2, 4, 1), (1, 2, 4), (4, 2, 1), (2, 2, 2), (3, 1, 3), (4, 1, 3), (1, 1, 6)]
)
def test_no_bound_on_a_tiny_product_is_above_its_optimum(n: int, k: int, m: int) -> None:
    for memory in (3, 4, 5):
        assert max(product_bounds(n, k, m, memory).values()) <= searched_once(product(n, k, m), memory).words


@given(n=st.integers(1, 30), d=st.integers(1, 4), memory=st.integers(1, 60))
def test_the_bounds_of_attention_are_never_below_their_published_forms(n: int, d: int, memory: int) -> None:
    bounds = attention_bounds(n, d, n, memory)
    assert bounds["Saha-Ye"] >= memory * (n * n / (memory**2 / d**2 + 4 * memory) - 1) - 1e-9
    assert bounds["scores"] == product_bounds(n, d, n, memory)["segments"] - n * n + 2 * n * d


@pytest.mark.slow
def test_where_the_bound_on_attention_is_more_than_compulsory_it_holds_too() -> None:
    bounds, optimum = attention_bounds(2, 2, 4, 3), least_io(attention(2, 2, nk=4), 3, recompute=False)
    assert bounds["compulsory"] < bounds["scores"] <= optimum.words == 84


@pytest.mark.parametrize(("n", "nk", "d", "memories"), [(2, 2, 1, (3, 4, 5)), (1, 2, 2, (3, 4)), (1, 3, 1, (3, 4))])
def test_attention_costs_the_product_of_its_scores_but_for_storing_them(n: int, nk: int, d: int, memories: tuple[int, ...]) -> None:
    for memory in memories:
        scores = least_io(product(n, d, nk), memory).words
        assert scores - n * nk + (n + nk) * d <= least_io(attention(n, d, nk=nk), memory).words


@pytest.mark.parametrize(("n", "k", "m", "memory"), [(1, 2, 2, 3), (1, 3, 2, 3), (2, 2, 2, 4), (2, 2, 2, 5)])
def test_sliding_is_worth_one_word_of_memory_at_most(n: int, k: int, m: int, memory: int) -> None:
    slides, never = product(n, k, m), product(n, k, m, slide="none")
    assert least_io(never, memory + 1).words <= least_io(slides, memory).words
    assert memory < never.least_memory or least_io(slides, memory).words <= least_io(never, memory).words


def one_tile(n: int, k: int, m: int, a: int, b: int) -> Iterator[Move]:
    """A tile of a x b sums stays, a column of A beside it, and B passes element by element."""
    left, right, sums = n * k, n * k + k * m, n * m
    for i0, j0, l in ((i, j, l) for i in range(0, n, a) for j in range(0, m, b) for l in range(k)):
        column, row = range(i0, min(i0 + a, n)), range(j0, min(j0 + b, m))
        yield from (Move("load", i * k + l) for i in column)
        for j in row:
            yield Move("load", left + l * m + j)
            for c in (right + l * sums + i * m + j for i in column):
                yield Move("compute", c, c - sums if l else None)
                yield from (Move("store", c), Move("drop", c)) if l == k - 1 else ()
            yield Move("drop", left + l * m + j)
        yield from (Move("drop", i * k + l) for i in column)


@given(n=st.integers(1, 5), k=st.integers(1, 4), m=st.integers(1, 5), a=st.integers(1, 3), b=st.integers(1, 3))
def test_the_one_tile_schedule_costs_what_its_formula_says_in_the_memory_that_it_needs(n: int, k: int, m: int, a: int, b: int) -> None:
    graph, memory = product(n, k, m), min(a, n) * min(b, m) + min(a, n) + 1
    words = n * k * -(-m // b) + k * m * -(-n // a) + n * m
    assert play(graph, one_tile(n, k, m, a, b), memory, recompute=False) == words
    assert cheapest(graph, product_orders(graph, n, m), memory)[1] <= words
    assert product_bounds(n, k, m, memory)["segments"] <= words


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("graph", [product(2, 2, 2), attention(2, 1), attention(1, 2, nk=2), attention(2, 1, softmax="two-pass")])
def test_the_moves_of_an_optimum_replay_to_its_words_and_none_can_be_left_out(graph: Graph, recompute: bool) -> None:
    optimum = least_io(graph, 4, recompute=recompute)
    assert play(graph, optimum.moves, 4, recompute=recompute) == optimum.words
    paid = [number for number, move in enumerate(optimum.moves) if move.kind in {"load", "store", "compute"}]
    for number in paid:
        with pytest.raises(ValueError, match=r"^(move \d+|after the last move)"):
            play(graph, [*optimum.moves[:number], *optimum.moves[number + 1 :]], 4, recompute=recompute)


LOAD_A, LOAD_B, COMPUTE, STORE = Move("load", 0), Move("load", 1), Move("compute", 2), Move("store", 2)


@pytest.mark.parametrize(
    ("moves", "fault"),
    [
        ([Move("load", 2)], "move 1, load C[0,0,0]: it is not in slow memory"),
        ([LOAD_A, LOAD_A], "move 2, load A[0,0]: it is in fast memory already"),
        ([LOAD_A, COMPUTE], "move 2, compute C[0,0,0]: its operand B[0,0] is not in fast memory"),
        ([LOAD_A, LOAD_B, Move("compute", 2, 0)], "compute C[0,0,0] over A[0,0]: the graph does not let it be written over that"),
        ([LOAD_A, LOAD_B, COMPUTE, COMPUTE], "move 4, compute C[0,0,0]: it is in fast memory already"),
        ([LOAD_A, LOAD_B, COMPUTE], "after the last move the output C[0,0,0] is not in slow memory"),
        ([Move("compute", 0)], "move 1, compute A[0,0]: it is an input"),
        ([Move("drop", 0)], "move 1, drop A[0,0]: it is not in fast memory"),
        ([STORE], "move 1, store C[0,0,0]: it is not in fast memory"),
        ([Move("load", 7)], "move 1, load 7: the graph has no such vertex"),
    ],
)
def test_a_forbidden_move_is_named(moves: list[Move], fault: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        play(product(1, 1, 1), moves, 3)
    assert fault in str(error.value)


def test_memory_is_full_where_it_is_full_and_a_vertex_is_computed_once_where_that_is_the_rule() -> None:
    twice = [LOAD_A, LOAD_B, COMPUTE, STORE, Move("drop", 2), COMPUTE]
    assert play(product(1, 1, 1), twice, 3) == 3
    with pytest.raises(ValueError, match=r"move 6, compute C\[0,0,0\]: it has been computed before"):
        play(product(1, 1, 1), twice, 3, recompute=False)
    with pytest.raises(ValueError, match=r"move 3, compute C\[0,0,0\]: fast memory is full, 2 of 2 words"):
        play(product(1, 1, 1), twice, 2)


@pytest.mark.parametrize(
    ("reads", "over", "outputs", "fault"),
    [
        (((), (0, 0)), ((), ()), {1}, "must read distinct vertices before it"),
        (((), (0,)), ((), (1,)), {1}, "may be written over what it reads"),
        (((), (), (0,)), ((), (), ()), {2}, r"v1 \(vertex 1\) is neither an output nor read by any vertex"),
        (((), (0,)), ((), ()), {0, 1}, "cannot be an output: it is an input"),
        (((), (0,)), ((), ()), (), "a graph has an output"),
    ],
)
def test_what_is_no_graph_is_refused(
    reads: tuple[tuple[int, ...], ...], over: tuple[tuple[int, ...], ...], outputs: set[int], fault: str
) -> None:
    with pytest.raises(ValueError, match=fault):
        Graph(tuple(f"v{v}" for v in range(len(reads))), reads, over, frozenset(outputs))


def test_what_is_no_symmetry_is_refused() -> None:
    with pytest.raises(ValueError, match="is no symmetry"):
        replace(product(1, 2, 1), symmetries=((1, 0, 2, 3, 4, 5),))


@pytest.mark.parametrize(
    ("graph", "memory", "limit", "fault"),
    [
        (product(2, 2, 2), 2, 1000, "2 words of fast memory are too few: one computation of this graph needs 3"),
        (product(8, 8, 8), 3, 1000, "at most, and this graph has 640 vertices; it can be computed in 3e+12 stages or more"),
        (attention(3, 2), 4, 1000, "64 at most, and this graph has 66 vertices"),
        (attention(4, 1), 4, 10**6, "beyond reach: 60 vertices, and"),
        (product(3, 2, 3), 3, 1000, "the limit is 1e+03; the optimum is 21 to 45 words"),
    ],
)
def test_what_is_beyond_reach_is_refused_at_once_in_one_line(graph: Graph, memory: int, limit: int, fault: str) -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        least_io(graph, memory, limit=limit)
    assert fault in str(error.value)
    assert time.process_time() - began < 5


def test_a_search_that_grows_beyond_its_limit_stops_and_says_what_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iosim_reference.pebbling.search.expected_states", lambda *_: 0)
    with pytest.raises(ValueError, match=r"^stopped at .* the optimum is \d+ to 45 words; raise the limit$") as error:
        least_io(product(3, 2, 3), 3, limit=500)
    assert 21 < int(str(error.value).split(" to ")[0].split()[-1]) <= 45


@pytest.mark.parametrize(("n", "nk", "d"), [(0, 1, 1), (1, 0, 1), (1, 1, -1), (4096, 4096, 64)])
def test_sizes_that_make_no_graph_are_refused(n: int, nk: int, d: int) -> None:
    with pytest.raises(ValueError, match=r"must be at least 1|has more than 100000 vertices"):
        attention(n, d, nk=nk)


def test_an_unknown_softmax_is_refused() -> None:
    with pytest.raises(ValueError, match="softmax must be one of plain, two-pass, online, not 'exact'"):
        attention(1, 1, softmax="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize(("instance", "recompute"), GAMES, ids=str)
def test_searches_follow_about_as_many_states_as_was_expected_and_no_more(instance: Instance, recompute: bool) -> None:
    graph, once = instance.graph(), dict(optima(instance, False))
    for memory, optimum in optima(instance, recompute):
        assert optimum.states <= expected_states(graph, once[memory].words - graph.compulsory, recompute), memory


@pytest.mark.parametrize(("graph", "again"), [(attention(1, 2, nk=2), 5), (attention(1, 1, nk=6), 6), (attention(1, 2, nk=3), 8)])
def test_every_vertex_that_may_be_computed_again_doubles_the_states_to_be_expected(graph: Graph, again: int) -> None:
    assert expected_states(graph, 10**4, recompute=False) == 60 * stages(graph)
    assert expected_states(graph, 10**4, recompute=True) == 2 ** (again + 1) * stages(graph)


def test_a_graph_too_large_to_be_built_says_why_it_has_no_estimate() -> None:
    with pytest.raises(ValueError, match=r"^the graph has more than 100000 vertices.* it is not built, and so .* not estimated; [^\n]*$"):
        product(50, 50, 50)


@pytest.mark.parametrize("instance", [*QUICK, *(pytest.param(instance, marks=pytest.mark.slow) for instance in SLOW)], ids=str)
def test_the_tables_in_the_documentation_are_what_the_code_prints(
    instance: Instance, source_tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iosim_reference.pebbling.table.least_io", searched_once)
    assert f"{table(instance)}\n" in (source_tree / "docs" / "pebbling.md").read_text(encoding="utf-8")


ROW = re.compile(
    r"^\| (\d+) \| (\d+) \| [\w-]+ \| (\d+|beyond reach|not searched) \| (\d+|beyond reach) \| (\d+) \| \w+ \dx\d \|$", re.MULTILINE
)


@pytest.mark.parametrize("instance", [*QUICK, *SLOW], ids=str)
def test_every_row_of_the_documentation_is_in_order(instance: Instance, source_tree: Path) -> None:
    text = (source_tree / "docs" / "pebbling.md").read_text(encoding="utf-8")
    rows = [row.groups() for row in ROW.finditer(text.split(f"### {instance}:")[1].split("\n#")[0])]
    assert [int(row[0]) for row in rows] == list(range(instance.graph().least_memory, instance.graph().least_memory + len(rows)))
    for _, bound, again, once, by_hand in rows:
        known = [int(bound), *(int(words) for words in (again, once) if words.isdigit()), int(by_hand)]
        assert known == sorted(known)
    for column in range(1, 5):
        words = [int(row[column]) for row in rows if row[column].isdigit()]
        assert words == sorted(words, reverse=True)
