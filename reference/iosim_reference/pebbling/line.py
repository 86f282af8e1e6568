"""The moves behind a line of states: what a search has skipped over, spelled out so that it can be played."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iosim_reference.pebbling.game import Game
from iosim_reference.pebbling.rules import Move
from iosim_reference.pebbling.states import States, renumbered, vertices

Frame = tuple[int, ...]


def moves(game: Game, line: States) -> Iterator[Move]:
    """The moves that lead from each state of ``line`` to the next; the first is the start of the game."""
    frame = tuple(range(len(game.graph.names)))
    for number in range(len(line) - 1):
        here, there = line.at(slice(number, number + 1)), line.at(slice(number + 1, number + 2))
        raw = _step(game, here, there)
        end = here
        for before, after in _path(game, here, raw):
            yield from (_in_frame(move, frame) for move in _explained(game, before, after))
            end = game.settled(after)
        frame = _next_frame(game, frame, end, there)


def _step(game: Game, here: States, there: States) -> States:
    """The cheapest untidied step from ``here`` that tidies up to ``there``."""
    raw = game.steps(here, int(there.spent[0] + game.floor(there)[0]) + 1)
    tidied = game.tidied(raw)
    rows = np.nonzero((tidied.red == there.red) & (tidied.blue == there.blue) & (tidied.spent == there.spent))[0]
    return raw.at(rows[:1])


def _path(game: Game, here: States, raw: States) -> Iterator[tuple[States, States]]:
    """The step and the forced ones after it, one by one, each with the settled state before it."""
    yield here, raw
    before = game.settled(raw)
    for after, states in game.forcing(before):
        yield before, after
        before = states


def _explained(game: Game, before: States, after: States) -> Iterator[Move]:
    """One computation with its drops, stores and loads, and the drops of what it has made useless."""
    v, reads = int(after.vertex[0]), int(game.reads[int(after.vertex[0])])
    red, blue, left = int(before.red[0]), int(before.blue[0]), int(after.red[0])
    stored, dropped, loaded = int(after.blue[0]) & ~blue, red & ~left & ~reads, reads & ~red
    for x in vertices(dropped):
        yield from [Move("store", x)] * (stored >> x & 1)
        yield Move("drop", x)
    yield from (Move("load", x) for x in vertices(loaded))
    paid = int(after.spent[0] - before.spent[0]) - (stored & dropped).bit_count() - loaded.bit_count() - (stored >> v & 1)
    gone = vertices(reads & ~left)
    yield from (Move("store", u) for u in gone[:paid])
    full = (red & ~dropped | reads).bit_count() == game.memory
    yield Move("compute", v, gone[0] if full else None)
    yield from [Move("store", v)] * (stored >> v & 1)
    useless = left & ~int(game.settled(after).red[0])
    for x in (*([] if full else gone), *([v] if v in game.finals else []), *vertices(useless)):
        yield Move("drop", x)


def _in_frame(move: Move, frame: Frame) -> Move:
    return Move(move.kind, frame[move.vertex], None if move.over is None else frame[move.over])


def _next_frame(game: Game, frame: Frame, end: States, there: States) -> Frame:
    """Which vertex each number means from now on: the search has gone on with a symmetric state."""
    for to in (tuple(range(len(frame))), *game.symmetries.renumberings):
        if all(renumbered(int(a[0]), to) == int(b[0]) for a, b in ((end.red, there.red), (end.blue, there.blue))):
            return tuple(frame[to.index(v)] for v in range(len(frame)))
    raise AssertionError("a line must lead from each state to one that is symmetric to what follows it")
