"""The red-blue pebble game: a red pebble is a word of fast memory, a blue pebble a copy in slow memory.

========== ============================== =========================================================== ====
move       needs                          does                                                        cost
========== ============================== =========================================================== ====
load v     v blue, a free red pebble      v is red too                                                1
store v    v red                          v is blue too                                               1
compute v  all operands red, a free red   v is red                                                    0
compute v  all operands red, u red        the red pebble of u slides to v: v is written over u, which  0
over u                                    must be one of ``graph.over[v]``
drop v     v red                          v is not red any more                                       0
========== ============================== =========================================================== ====

Inputs start blue, outputs must end blue, at most M vertices are red at any time. Source: Hong & Kung 1981, "I/O complexity: the
red-blue pebble game", who allow a vertex to be computed any number of times; ``recompute=False`` allows it once. Their game has no
sliding: a graph whose ``over`` is empty is theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from iosim_reference.pebbling.graphs import Graph

Kind = Literal["load", "store", "compute", "drop"]


class Move(NamedTuple):
    """One move; ``over`` is the operand that a computed vertex is written over, if any."""

    kind: Kind
    vertex: int
    over: int | None = None


def play(graph: Graph, moves: Iterable[Move], memory: int, *, recompute: bool = True) -> int:
    """The cost of ``moves``, loads plus stores in words, on ``memory`` red pebbles.

    Raises ``ValueError`` with the number of the first move that the rules forbid, counted from 1, or for an output that is not
    in slow memory at the end.

    >>> from iosim_reference.pebbling.graphs import product
    >>> load, compute, store = Move("load", 0), Move("compute", 2), Move("store", 2)
    >>> play(product(1, 1, 1), [load, Move("load", 1), compute, store], 3)
    3
    >>> play(product(1, 1, 1), [load, compute], 3)
    Traceback (most recent call last):
    ValueError: move 2, compute C[0,0,0]: its operand B[0,0] is not in fast memory
    """
    board, cost = _Board(graph, memory, recompute), 0
    for number, move in enumerate(moves, start=1):
        fault = board.fault(move)
        if fault:
            raise ValueError(f"move {number}, {_said(graph, move)}: {fault}")
        board.make(move)
        cost += move.kind in {"load", "store"}
    for v in sorted(graph.outputs - board.blue):
        raise ValueError(f"after the last move the output {graph.names[v]} is not in slow memory")
    return cost


def _said(graph: Graph, move: Move) -> str:
    names = dict(enumerate(graph.names))
    over = "" if move.over is None else f" over {names.get(move.over, move.over)}"
    return f"{move.kind} {names.get(move.vertex, move.vertex)}{over}"


@dataclass
class _Board:
    graph: Graph
    memory: int
    recompute: bool
    red: set[int] = field(default_factory=set)
    computed: set[int] = field(default_factory=set)
    blue: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.blue = set(self.graph.inputs)

    def make(self, move: Move) -> None:
        match move.kind:
            case "load":
                self.red.add(move.vertex)
            case "store":
                self.blue.add(move.vertex)
            case "drop":
                self.red.remove(move.vertex)
            case "compute":
                self.red -= {move.over}
                self.red.add(move.vertex)
                self.computed.add(move.vertex)

    def fault(self, move: Move) -> str:
        """What the rules have against a move; empty if nothing."""
        if not {move.vertex, move.over} <= {None, *range(len(self.graph.names))}:
            return "the graph has no such vertex"
        match move.kind:
            case "load":
                return "it is not in slow memory" if move.vertex not in self.blue else self._no_room(move)
            case "store" | "drop":
                return "" if move.vertex in self.red else "it is not in fast memory"
            case "compute":
                return self._operands(move) or self._target(move)

    def _operands(self, move: Move) -> str:
        if move.vertex in self.graph.inputs:
            return "it is an input"
        if move.vertex in self.computed and not self.recompute:
            return "it has been computed before"
        missing = [u for u in self.graph.reads[move.vertex] if u not in self.red]
        return f"its operand {self.graph.names[missing[0]]} is not in fast memory" if missing else ""

    def _target(self, move: Move) -> str:
        if move.over is None:
            return self._no_room(move)
        return "" if move.over in self.graph.over[move.vertex] else "the graph does not let it be written over that"

    def _no_room(self, move: Move) -> str:
        if move.vertex in self.red:
            return "it is in fast memory already"
        return "" if len(self.red) < self.memory else f"fast memory is full, {self.memory} of {self.memory} words"
