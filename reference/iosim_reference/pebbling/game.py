"""The normal pebblings of a graph, followed for many states at once.

Only *normal* pebblings are followed. Each rule below turns any pebbling into one that keeps it and costs no more.

- *Late.* A value is loaded for the computation that comes next, and dropped when room is lacking for it, no more values than room
  is lacking. It is stored, if at all, when it is dropped. So a *step* is: drop, load what is missing, compute one vertex.
- *Outputs* are stored as soon as they are computed: they must be stored once, whenever that is.
- *Once.* A computation whose value nobody uses can be left out. Without such, a vertex is computed at most as often as its readers
  together, and an output that nobody reads once. So a vertex from which one path leads to one output is computed once even where
  recomputation is allowed, and is never dropped without a copy while it is needed. Without recomputation this is every vertex.
- *Done.* A vertex is done when each of its readers is done or has been computed and is of the kind that is computed once; a vertex of
  that kind must have been computed itself. Nothing needs it any more, for an output among them was stored at once: its pebble is taken
  away and it is marked blue, so that states that differ in it are one.
- *Forced.* (1) u and v are computed once, u is red and not blue, v can be computed and is the last to need u, and fits over u or in
  free room: v is computed. From then on v stands wherever u would have stood, at u's price. (2) The same for an output that nobody
  reads, which need not stand anywhere; here u may be blue, and free room alone is enough.
- *Symmetric* states, equal after a renumbering that changes nothing, are one state.

The *floor* under what is still to be paid: a store for each unstored output, and a load for each input, and each blue vertex computed
once, that is needed and not red. *Needed* are the unstored outputs and the operands of what is needed and neither red nor blue: it
has to be placed again. A load or a store of an output takes at most one off the floor, everything else nothing. So words spent plus
floor never fall along a pebbling, and when they reach the cost of a pebbling in hand nothing cheaper lies ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from iosim_reference.pebbling.graphs import Graph
from iosim_reference.pebbling.states import ONE, Index, Small, States, Symmetries, Truth, Words, bit, distinct, joined, mask

_NONE = np.uint64(0)


def computed_once(graph: Graph) -> frozenset[int]:
    """The vertices that no pebbling without useless computations computes twice, though it may: one path to one output."""
    most = [0] * len(graph.names)
    for v in reversed(range(len(graph.names))):
        most[v] = (v in graph.outputs) + sum(most[w] for w in graph.readers[v])
    return frozenset(v for v, times in enumerate(most) if times == 1) - graph.inputs


class Game:
    """The rules of the normal game on ``graph`` with ``memory`` red pebbles."""

    def __init__(self, graph: Graph, memory: int, recompute: bool) -> None:
        self.graph, self.memory = graph, memory
        self.computed = [v for v in range(len(graph.names)) if v not in graph.inputs]
        self.once = computed_once(graph) if recompute else frozenset(self.computed)
        self.finals = frozenset(v for v in graph.outputs if not graph.readers[v])
        self.reads, self.readers = [mask(reads) for reads in graph.reads], [mask(readers) for readers in graph.readers]
        self.inputs, self.outputs, self.onces = mask(graph.inputs), mask(graph.outputs), mask(self.once)
        self.symmetries = Symmetries(graph.symmetries)

    def start(self) -> States:
        """The one state in which nothing has happened."""
        zero = np.zeros(1, np.uint64)
        return States(zero, zero | self.inputs, np.zeros(1, np.int16), np.full(1, -1, np.intp), np.full(1, -1, np.int8), zero)

    def finished(self, states: States) -> Truth:
        """Where every output is in slow memory."""
        ended: Truth = (states.blue & self.outputs) == self.outputs
        return ended

    def floor(self, states: States) -> Small:
        """The least that is still to be paid, in words; see the head of this module."""
        absent = ~states.red & ~states.blue
        needed = self.outputs & ~states.blue
        stores = np.bitwise_count(needed)
        for v in reversed(self.computed):
            needed = needed | self.reads[v] * bit(needed & absent, v)
        loads = np.bitwise_count(needed & ~states.red & (self.inputs | (self.onces & states.blue)))
        floor: Small = (stores + loads).astype(np.int16)
        return floor

    def after(self, states: States, below: int) -> States:
        """What one step leads to, forced steps included, where spent and floor stay below ``below``; ``parent`` is a row of ``states``."""
        return self.symmetries.smallest(self.forced(self.promising(distinct(self.settled(self.steps(states, below))), below)))

    def tidied(self, states: States) -> States:
        """Steps settled, forced on and numbered canonically, row by row: what :meth:`after` does, and nothing left out."""
        return self.symmetries.smallest(self.forced(self.settled(states)))

    def promising(self, states: States, below: int) -> States:
        """Those that may still end below ``below``."""
        return states.at(states.spent + self.floor(states) < below)

    def steps(self, states: States, below: int) -> States:
        """What one step leads to, before anything is tidied up."""
        dropping = states.numbered()
        found = [dropping.at(slice(0))]
        for count in range(max(map(len, self.graph.reads)) + 2):
            found.extend(step for v in self.computed for step in self._computed(dropping, v, count))
            dropping = self.promising(self._dropped(dropping), below)
        return joined(found)

    def settled(self, states: States) -> States:
        """Done vertices without a red pebble and marked blue."""
        done = self._done(states)
        return replace(states, red=states.red & ~done, blue=states.blue | done)

    def forced(self, states: States) -> States:
        """The states after every forced step."""
        after = states
        for _, after in self.forcing(states):  # noqa: B007 - the last is what all of them lead to
            pass
        return after

    def forcing(self, states: States) -> Iterator[tuple[States, States]]:
        """Forced steps until there is none: the rows that a step moved, not settled yet, and then all states."""
        moved = True
        while moved:
            moved = False
            for v in sorted(self.once):
                rows, after = self.force(states, v)
                if len(rows):
                    moved, states = True, _put(states, rows, self.settled(after))
                    yield after, states

    def force(self, states: States, v: int) -> tuple[Index, States]:
        """The rows in which v, computed once, is computed at once, and these states after it, before they are settled."""
        rows = np.nonzero(self._open(states, v) & ((self.reads[v] & ~states.red) == _NONE))[0]
        here = states.at(rows)
        forced, gone = self._replaced(here, v)
        after = replace(here, red=here.red & ~gone, blue=here.blue | gone)
        return rows[forced], self._placed(after.at(forced), v)

    def _replaced(self, states: States, v: int) -> tuple[Truth, Words]:
        """Where v is forced, and the operand whose place it takes, if any, as a word."""
        room, gone = np.bitwise_count(states.red) < self.memory, np.zeros_like(states.red)
        forced = room & (v in self.finals)
        for u in self.once.intersection(self.graph.reads[v]):
            others = self.readers[u] & ~ONE[v]
            last = ((states.red | states.blue) & others) == others
            takes = ~forced & last & (room | (u in self.graph.over[v])) & ((v in self.finals) | (bit(states.blue, u) == 0))
            forced, gone = forced | takes, np.where(takes, ONE[u], gone)
        return forced, gone

    def _done(self, states: States) -> Words:
        """The vertices that nothing needs any more."""
        there = states.red | states.blue
        done, closed = np.zeros_like(there), there & self.onces
        for v in reversed(range(len(self.graph.names))):
            over = (closed & self.readers[v]) == self.readers[v]
            over &= bit(there, v) == 1 if v in self.once else True
            done = done | (over.astype(np.uint64) << np.uint64(v))
            closed = closed | done
        return done

    def _computed(self, states: States, v: int, count: int) -> Iterator[States]:
        """v computed wherever that can follow the drops, ``count`` of them, and needed all of them."""
        rows = np.nonzero(self._open(states, v) & ((states.dropped & (self.reads[v] | ONE[v])) == _NONE))[0]
        if not len(rows):
            return
        states = states.at(rows)
        red, loads = states.red | self.reads[v], np.bitwise_count(self.reads[v] & ~states.red)
        loaded = replace(states, red=red, spent=states.spent + loads.astype(np.int16))
        total = np.bitwise_count(red)
        yield self._placed(loaded.at(total == self.memory - 1 if count else total < self.memory), v)
        full = loaded.at(total == self.memory)
        for u in self.graph.over[v] if len(full) else ():
            for rest in self._without(full, u, self.readers[u] & ~ONE[v]):
                yield self._placed(rest, v)

    def _open(self, states: States, v: int) -> Truth:
        """Where v may be computed next, after loads."""
        there = states.red | states.blue
        unknown: Truth = bit(there if v in self.once else states.red, v) == 0
        unknown &= (self.reads[v] & ~there) == _NONE
        return unknown

    def _placed(self, states: States, v: int) -> States:
        """v computed: red, or stored if it is an output, or both if it is an output that is read."""
        red = states.red if v in self.finals else states.red | ONE[v]
        new = ONE[v] & ~states.blue if v in self.graph.outputs else np.zeros_like(red)
        spent = states.spent + (new != _NONE).astype(np.int16)
        return replace(states, red=red, blue=states.blue | new, spent=spent, vertex=np.full(len(states), v, np.int8))

    def _without(self, states: States, u: int, others: np.uint64) -> Iterator[States]:
        """Red u taken away: lost if it has a copy, may be recomputed or is done (once ``others`` are), else stored before."""
        copied = bit(states.blue, u) == 1
        lost = replace(states, red=states.red & ~ONE[u])
        stored = replace(lost, blue=lost.blue | ONE[u], spent=lost.spent + np.int16(1))
        if u not in self.once:
            yield lost
            yield stored.at(~copied)
            return
        done = ((states.red | states.blue) & others) == others
        yield replace(lost, blue=stored.blue).at(copied | done)
        yield stored.at(~copied & ~done)

    def _dropped(self, states: States) -> States:
        """One more value dropped in every way, below those before, so that no set of drops comes up twice."""
        found = [states.at(slice(0))]
        for x in range(len(self.graph.names)):
            rows = np.nonzero((bit(states.red, x) == 1) & ((states.dropped & np.uint64((2 << x) - 1)) == _NONE))[0]
            if len(rows):
                chosen = states.at(rows)
                found.extend(self._without(replace(chosen, dropped=chosen.dropped | ONE[x]), x, self.readers[x]))
        return joined(found)


def _put(states: States, rows: Index, after: States) -> States:
    red, blue, spent = states.red.copy(), states.blue.copy(), states.spent.copy()
    red[rows], blue[rows], spent[rows] = after.red, after.blue, after.spent
    return replace(states, red=red, blue=blue, spent=spent)
