"""Words over M as step functions, and the exact M at which two of them cross, found by merging their steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from iosim.predict.blocks.staircase import step_at
from iosim.predict.sizes import Ints

FAR = np.iinfo(np.int64).max  # the words of whoever does not fit


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What ``name`` moves over M: from ``sram[i]`` words on, ``words[i]``, in blocks ``rows[i]`` x ``cols[i]``.

    ``sram`` rises strictly; below its first nothing fits. ``variant[i]`` says which of the variants that were merged it is.
    """

    name: str
    sram: Ints
    words: Ints
    rows: Ints
    cols: Ints
    variant: Ints

    def at(self, sram: ArrayLike) -> Ints:
        """The step that holds at each SRAM, as an index into the arrays; -1 where nothing fits."""
        return step_at(self.sram, np.asarray(sram))

    def words_at(self, sram: ArrayLike) -> Ints:
        """The words at each SRAM; ``FAR`` where nothing fits."""
        places = self.at(sram)
        return np.where(places < 0, FAR, self.words[places]) if len(self.words) else np.full(np.shape(sram), FAR)


class Win(NamedTuple):
    """From ``sram`` words on, and until the next of a list, ``name`` moves the fewest words; None where two move as many."""

    sram: int
    name: str | None


def lowest(name: str, variants: Sequence[Steps]) -> Steps:
    """The fewest words of some variants of one kernel at every M; of equals the first."""
    if len(variants) == 1:
        return variants[0]
    sram, words = _merged(variants)
    which = np.argmin(words, axis=0)
    places = np.array([one.at(sram) for one in variants])[which, np.arange(len(sram))]
    rows, cols = (
        np.concatenate([getattr(one, field) for one in variants])[places + _offsets(variants)[which]] for field in ("rows", "cols")
    )
    return Steps(name, sram, words.min(axis=0), rows, cols, which)


def versus(first: Steps, second: Steps) -> tuple[Win, ...]:
    """Which of two curves moves fewer words, from the least M at which one of them fits; one that does not fit loses.

    >>> made = [Steps(name, *map(np.array, (sram, words)), *[np.ones(2, int)] * 3) for name, sram, words in (
    ...     ("a", [4, 9], [8, 3]), ("b", [6, 7], [8, 5]))]
    >>> [tuple(win) for win in versus(*made)]
    [(4, 'a'), (6, None), (7, 'b'), (9, 'a')]
    """
    sram, (one, other) = _merged([first, second])
    return _changes(sram, np.sign(one - other) if len(sram) else sram, {-1: first.name, 0: None, 1: second.name})


def crossovers(first: Steps, second: Steps) -> tuple[Win, ...]:
    """Every M at which the sign of the difference of two changes, and who moves fewer words from there on.

    The M at which the second of them begins to fit is no crossing where it moves more there; :func:`versus` holds the beginning.
    """
    return versus(first, second)[1:]


def leaders(curves: Sequence[Steps]) -> tuple[Win, ...]:
    """Which curve moves the fewest words of all, from the least M at which one fits; of equals the first."""
    sram, words = _merged(curves)
    return _changes(sram, np.argmin(words, axis=0), dict(enumerate(one.name for one in curves)))


def _merged(curves: Sequence[Steps]) -> tuple[Ints, Ints]:
    """Every M at which one of the curves takes a step, and the words of each from there on."""
    sram = np.unique(np.concatenate([one.sram for one in curves]))
    return sram, np.array([one.words_at(sram) for one in curves])


def _offsets(curves: Iterable[Steps]) -> Ints:
    """Where each curve begins in the concatenation of all."""
    return np.cumsum([0, *(len(one.sram) for one in curves)])[:-1]


def _changes(sram: Ints, codes: Ints, names: dict[int, str | None]) -> tuple[Win, ...]:
    """Where ``codes`` change, and the name of what they change to."""
    new = np.flatnonzero(np.append(True, np.diff(codes) != 0)[: len(sram)])
    return tuple(Win(int(sram[place]), names[int(codes[place])]) for place in new)
