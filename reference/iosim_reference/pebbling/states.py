"""Many states of the game at once: for each, a word of red pebbles and a word of blue ones, one bit a vertex."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
Small = NDArray[np.int16]
Index = NDArray[np.intp]
Truth = NDArray[np.bool_]
Rows = Truth | Index | slice

BITS = 64
_BYTE = np.uint64(255)
_SHIFT = [np.uint64(v) for v in range(BITS)]


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """A batch of states.

    ``red`` and ``blue`` are the pebbles, ``spent`` the words moved so far, ``parent`` the row or number of the state before,
    ``vertex`` what was computed last, ``dropped`` what the step under way has dropped.
    """

    red: Words
    blue: Words
    spent: Small
    parent: Index
    vertex: NDArray[np.int8]
    dropped: Words

    def __len__(self) -> int:
        return len(self.red)

    def at(self, rows: Rows) -> States:
        """Some of the batch."""
        return States(self.red[rows], self.blue[rows], self.spent[rows], self.parent[rows], self.vertex[rows], self.dropped[rows])

    def columns(self) -> tuple[Words, Words, Small, Index, NDArray[np.int8], Words]:
        """All columns, in order."""
        return self.red, self.blue, self.spent, self.parent, self.vertex, self.dropped

    def numbered(self) -> States:
        """The same, each its own parent and with nothing dropped: what comes of them can tell from which row it came."""
        return replace(self, parent=np.arange(len(self)), dropped=np.zeros_like(self.red))


def joined(batches: Iterable[States]) -> States:
    """All batches as one; there must be one at least."""
    return States(*map(np.concatenate, zip(*(part.columns() for part in batches), strict=True)))


ONE = [np.uint64(1 << v) for v in range(BITS)]
"""The word of each vertex."""


def mask(vertices: Iterable[int]) -> np.uint64:
    """The word whose bits are ``vertices``."""
    return np.uint64(sum(1 << v for v in vertices))


def vertices(word: np.uint64 | int) -> list[int]:
    """The vertices whose bits are in ``word``, lowest first."""
    return [v for v in range(BITS) if int(word) >> v & 1]


def bit(words: Words, v: int) -> Words:
    """Bit v of every word, as 0 or 1."""
    return (words >> _SHIFT[v]) & ONE[0]


def keys(states: States) -> NDArray[Any]:
    """One value for each state that sorts and compares, equal only for equal pebbles."""
    # 16 bytes as one string: NumPy strips zeros at the end when it compares, which is harmless at equal lengths.
    return np.column_stack([states.red, states.blue]).view("S16")[:, 0]


def distinct(states: States) -> States:
    """Each state once, with the fewest words spent, in a fixed order."""
    order = np.lexsort((states.spent, states.blue, states.red))
    states = states.at(order)
    new = np.ones(len(states), dtype=np.bool_)
    new[1:] = (states.red[1:] != states.red[:-1]) | (states.blue[1:] != states.blue[:-1])
    return states.at(new)


class Symmetries:
    """Renumberings of the vertices that change nothing, applied to words by tables of bytes."""

    def __init__(self, renumberings: Iterable[tuple[int, ...]]) -> None:
        self.renumberings = [to for to in renumberings if to != tuple(range(len(to)))]
        self._tables = [_tables(to) for to in self.renumberings]

    def smallest(self, states: States) -> States:
        """Every state by the symmetric one whose words are smallest, red first."""
        red, blue = states.red, states.blue
        reds, blues = _bytes(red), _bytes(blue)
        for tables in self._tables:
            other_red, other_blue = _looked_up(tables, reds), _looked_up(tables, blues)
            less = (other_red < red) | ((other_red == red) & (other_blue < blue))
            red, blue = np.where(less, other_red, red), np.where(less, other_blue, blue)
        return replace(states, red=red, blue=blue)


def renumbered(word: int, to: tuple[int, ...]) -> int:
    """One word after a renumbering."""
    return sum(1 << to[v] for v in vertices(word))


def _tables(to: tuple[int, ...]) -> list[Words]:
    full = (*to, *range(len(to), BITS))
    return [_table(full[first : first + 8]) for first in range(0, len(to), 8)]


def _table(images: tuple[int, ...]) -> Words:
    return np.array([sum(1 << images[k] for k in range(8) if byte >> k & 1) for byte in range(256)], dtype=np.uint64)


def _bytes(words: Words) -> list[Index]:
    return [((words >> np.uint64(shift)) & _BYTE).astype(np.intp) for shift in range(0, BITS, 8)]


def _looked_up(tables: list[Words], parts: list[Index]) -> Words:
    found = tables[0][parts[0]]
    for table, part in zip(tables[1:], parts[1:], strict=False):
        found = found | table[part]
    return found
