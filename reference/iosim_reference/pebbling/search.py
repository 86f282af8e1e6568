"""The least traffic of a graph, exactly: the cheapest of its normal pebblings.

First a beam, which keeps the most promising states after each computation, finds a cheap pebbling. Then every state is followed, in
the order of words spent plus floor (A*, its queue cut into one bucket a word), that could still lead to a cheaper one. Where there is
none the pebbling in hand is proved to be the cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from iosim_reference.pebbling.game import Game
from iosim_reference.pebbling.graphs import Graph
from iosim_reference.pebbling.line import moves
from iosim_reference.pebbling.reach import MOST_STATES, expected_states, stages
from iosim_reference.pebbling.rules import Move, play
from iosim_reference.pebbling.states import BITS, States, distinct, joined, keys

_BATCH = 20_000
_WIDTH = 50
_WAITING = 5  # for each state that may be followed, so many may wait: some 400 bytes in all
_ANY_COST = 30_000  # words are counted in 16 bits; graphs of 64 vertices spend a few hundred


class BeyondReach(ValueError):
    """A graph that is too large to be searched, or was; the message says how large and between which words the optimum lies."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """The least traffic in words, moves that attain it, and how many states were followed to prove that nothing is cheaper."""

    words: int
    moves: tuple[Move, ...]
    states: int


@dataclass(frozen=True, slots=True)
class _Pebbling:
    game: Game
    line: States

    @property
    def words(self) -> int:
        return int(self.line.spent[-1])


def least_io(graph: Graph, memory: int, *, recompute: bool = True, limit: int = MOST_STATES) -> Optimum:
    """The fewest loads and stores with ``memory`` red pebbles, proved; ``limit`` is the most states that are followed.

    Raises ``ValueError`` where memory is too small for any pebbling, and :class:`BeyondReach`, which is one, for a graph of more than
    64 vertices (at once), where more states than ``limit`` must be expected (after the beam, in a few seconds), and where they turn
    out to be more.

    >>> from iosim_reference.pebbling.graphs import product
    >>> [least_io(product(2, 2, 2), memory).words for memory in (3, 4, 5, 6)]
    [20, 14, 13, 12]
    """
    _require(graph, memory)
    best, followed = _beam(Game(graph, memory, recompute=False), _WIDTH), 0
    if best.words > graph.compulsory:
        _require_reach(graph, best, recompute, limit)
        cheaper, followed = _Search(Game(graph, memory, recompute), best.words, limit).run()
        best = cheaper or best
    found = tuple(moves(best.game, best.line))
    if play(graph, found, memory, recompute=recompute) != best.words:
        raise AssertionError(f"the moves found for {best.words} words cost something else")
    return Optimum(best.words, found, followed)


def frontier(graph: Graph, *, recompute: bool = True, limit: int = MOST_STATES) -> Iterator[tuple[int, Optimum]]:
    """The optimum for every memory, from the least that there is to the first whose traffic is compulsory.

    >>> from iosim_reference.pebbling.graphs import product
    >>> [(memory, optimum.words) for memory, optimum in frontier(product(2, 1, 2))]
    [(3, 9), (4, 8)]
    """
    words, memory = graph.compulsory + 1, graph.least_memory
    while words > graph.compulsory:
        optimum = least_io(graph, memory, recompute=recompute, limit=limit)
        yield memory, optimum
        words, memory = optimum.words, memory + 1


def _require(graph: Graph, memory: int) -> None:
    if len(graph.names) > BITS:
        raise BeyondReach(
            f"beyond reach: a state has one bit a vertex, {BITS} at most, and this graph has {len(graph.names)} vertices; "
            f"it can be computed in {stages(graph):.0e} stages or more"
        )
    if memory < graph.least_memory:
        raise ValueError(f"{memory} words of fast memory are too few: one computation of this graph needs {graph.least_memory}")


def _require_reach(graph: Graph, best: _Pebbling, recompute: bool, limit: int) -> None:
    gap = best.words - graph.compulsory
    about = expected_states(graph, gap, recompute)
    if about > limit:
        raise BeyondReach(
            f"beyond reach: {len(graph.names)} vertices, and {gap} words between compulsory and best known, may take {about:.0e} states; "
            f"the limit is {limit:.0e}; the optimum is {graph.compulsory} to {best.words} words"
        )


def _beam(game: Game, width: int) -> _Pebbling:
    """A good pebbling: of the states that as many steps lead to, only the ``width`` most promising are followed."""
    layers, below, best = [game.start()], _ANY_COST, [game.start()]
    while len(layers[-1]):
        after = distinct(game.after(layers[-1], below))
        ended = after.at(game.finished(after))
        if len(ended):
            below = int(ended.spent.min())
            best = [*layers, ended.at(np.argsort(ended.spent, kind="stable")[:1])]
        rest = after.at(~game.finished(after))
        layers.append(rest.at(np.argsort(rest.spent + game.floor(rest), kind="stable")[:width]))
    return _Pebbling(game, _traced(best))


def _traced(layers: list[States]) -> States:
    """The one state of the last layer and, in each layer before, the one it came from."""
    line = [layers[-1]]
    for layer in reversed(layers[:-1]):
        line.append(layer.at(line[-1].parent))
    return joined(reversed(line))


class _Search:
    """Every state that may lead to less than ``below`` words, cheapest first."""

    def __init__(self, game: Game, below: int, limit: int) -> None:
        self.game, self.below, self.limit = game, below, limit
        self.followed, self.waiting = _Followed(), _Waiting()
        self.end: States | None = None

    def run(self) -> tuple[_Pebbling | None, int]:
        """The cheapest pebbling below, if there is one, and the number of states followed."""
        self._file(self.game.start())
        while self.waiting.count and (words := self.waiting.least) < self.below:
            first = self.followed.count
            wave = self.followed.new(self.waiting.taken(words))
            self._require_room(words)
            for start in range(0, len(wave), _BATCH):
                self._follow(wave.at(slice(start, start + _BATCH)), first + start)
                self._require_room(words)
        return (None if self.end is None else _Pebbling(self.game, self.followed.line(self.end))), self.followed.count

    def _require_room(self, words: int) -> None:
        if self.followed.count > self.limit or self.waiting.count > _WAITING * self.limit:
            states = f"{self.followed.count:.0e} states followed and {self.waiting.count:.0e} waiting, at a limit of {self.limit:.0e}"
            raise BeyondReach(f"stopped at {states}: the optimum is {words} to {self.below} words; raise the limit")

    def _follow(self, batch: States, first: int) -> None:
        after = distinct(self.game.after(batch, self.below))
        after = replace(after, parent=after.parent + first)
        ended = after.at(self.game.finished(after))
        if len(ended):
            self.below = int(ended.spent.min())
            self.end = ended.at(np.argsort(ended.spent, kind="stable")[:1])
        self._file(after.at(~self.game.finished(after)))

    def _file(self, states: States) -> None:
        words = states.spent + self.game.floor(states)
        for total in np.unique(words[words < self.below]):
            self.waiting.add(int(total), states.at(words == total))


class _Waiting:
    """The states to be followed, by words spent plus floor; each bucket is sorted out whenever it has doubled."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[States]] = {}
        self._sorted: dict[int, int] = {}

    @property
    def count(self) -> int:
        """All states in all buckets."""
        return sum(len(batch) for bucket in self._buckets.values() for batch in bucket)

    @property
    def least(self) -> int:
        """The cheapest bucket."""
        return min(self._buckets)

    def add(self, words: int, states: States) -> None:
        """More states for one bucket."""
        bucket = self._buckets.setdefault(words, [])
        bucket.append(states)
        if sum(map(len, bucket)) > 2 * self._sorted.get(words, _BATCH):
            bucket[:] = [distinct(joined(bucket))]
            self._sorted[words] = max(_BATCH, len(bucket[0]))

    def taken(self, words: int) -> States:
        """One bucket, each state once, which is empty from now on."""
        self._sorted.pop(words, None)
        return distinct(joined(self._buckets.pop(words)))


class _Followed:
    """The states that were followed, numbered in that order."""

    def __init__(self) -> None:
        self.batches: list[States] = []
        self.count = 0
        self._keys = np.zeros(0, "S16")

    def new(self, states: States) -> States:
        """Those not followed before; they are from now on."""
        mine = keys(states)
        rows = np.searchsorted(self._keys, mine)
        known = np.append(self._keys, np.zeros(1, "S16"))[rows] == mine
        fresh = states.at(~known | (rows == len(self._keys)))
        self._keys = np.sort(np.concatenate([self._keys, keys(fresh)]))
        self.batches.append(fresh)
        self.count += len(fresh)
        return fresh

    def line(self, end: States) -> States:
        """The states from the start to ``end``."""
        everything, line = joined(self.batches), [end]
        while line[-1].parent[0] >= 0:
            line.append(everything.at(line[-1].parent))
        return joined(reversed(line))
