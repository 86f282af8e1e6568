"""What caches would move: an event trace replayed, word by word, under least-recently-used replacement.

The cache holds words of HBM arrays, one a line, and nothing else: computed blocks are taken to live elsewhere, and reads of them are no
events. It is written back: a word that was stored to goes to HBM when it is replaced, or at the end. A store brings no word in from
HBM, since it overwrites whole words. Words of a region are touched row by row. Arrays lie one after the other in HBM, in the order of
their declaration.

============= ========================================================================================================================
order         what touches the cache
============= ========================================================================================================================
"listing"     every load, use, store and init, in the order of the trace
"first-use"   the same, but a region is fetched where it is first used after its load, and of the uses between two other events those of
              regions that are on chip already come before those that fetch: operands of one computation may be read in any order
============= ========================================================================================================================
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Literal

from iosim_reference.replay import ReplayError

Order = Literal["listing", "first-use"]
Box = tuple[tuple[int, int], ...]
Span = tuple[int, int]  # addresses, from the first to before the last
ORDERS: tuple[Order, ...] = ("listing", "first-use")

_DECLARE, _MOVE, _OTHER = ("input", "output", "scratch"), ("load", "use", "store", "init"), ("begin", "end", "alloc")


@dataclass(frozen=True, slots=True)
class Moved:
    """Words read from HBM and written to it."""

    reads: int
    writes: int

    @property
    def words(self) -> int:
        """Both together."""
        return self.reads + self.writes


@dataclass(frozen=True, slots=True)
class Touch:
    """One region of an array that is read or written on chip, all its words in a row."""

    name: str
    box: Box
    writes: bool


@dataclass(frozen=True, slots=True)
class _Array:
    start: int
    shape: tuple[int, ...]

    @property
    def cols(self) -> int:
        return math.prod(self.shape[1:])


@dataclass
class Touches:
    """A trace as a cache sees it.

    ``scratchpad`` is what its loads and stores move, ``held`` the most words of loaded regions that stand on chip at once.
    """

    arrays: Mapping[str, _Array]
    touches: list[Touch]
    scratchpad: Moved
    held: int
    known: dict[tuple[int, int], Moved] = field(default_factory=dict, init=False, repr=False, compare=False)

    def lru(self) -> Profile:
        """What fully associative caches of every size move, from one pass (stack distances; Mattson et al. 1970)."""
        return _Stack(_Atoms(self)).profile()

    def set_associative(self, size: int, ways: int = 8) -> Moved:
        """What a cache of ``size`` words moves that keeps address a in one of the ``ways`` places of set a mod (size // ways).

        Raises :class:`ValueError` where the cache has no set.
        """
        sets = self._sets(size, ways)
        if (size, ways) not in self.known:
            for touch in self.touches:
                for span in self.spans(touch):
                    sets.touch(span, touch.writes)
            self.known[size, ways] = sets.end()
        return self.known[size, ways]

    def lookups(self, size: int, ways: int = 8) -> int:
        """What that takes: how often some set is looked into. Sets that fare alike count as one."""
        return self._sets(size, ways).lookups(self.counted)

    @cached_property
    def counted(self) -> Mapping[Span, int]:
        """How often each span is touched."""
        regions = Counter((touch.name, touch.box) for touch in self.touches)
        counted: Counter[Span] = Counter()
        for (name, box), times in regions.items():
            for span in self.spans(Touch(name, box, writes=False)):
                counted[span] += times
        return counted

    def _sets(self, size: int, ways: int) -> _Sets:
        if ways < 1 or size < ways:
            raise ValueError(f"a cache of {size} words has no set of {ways} ways")
        return _Sets(size // ways, ways, self.counted)

    def spans(self, touch: Touch) -> Iterator[Span]:
        """The addresses of a region, as (start, stop), row by row."""
        array, (rows, cols) = self.arrays[touch.name], _sides(touch.box)
        if cols == (0, array.cols):
            yield array.start + rows[0] * array.cols, array.start + rows[1] * array.cols
            return
        for row in range(*rows):
            yield array.start + row * array.cols + cols[0], array.start + row * array.cols + cols[1]


@dataclass(frozen=True)
class Profile:
    """What a fully associative cache moves, as a function of its size: a read from HBM wherever a word's stack distance is larger.

    ``read_at`` and ``written_at`` say how many words each distance costs; ``cold`` and ``last`` are moved by every cache.
    """

    read_at: Mapping[int, int]
    written_at: Mapping[int, int]
    cold: int
    last: int

    def moved(self, size: int) -> Moved:
        """What a cache of ``size`` words moves."""
        return Moved(self.cold + self._reads.beyond(size), self.last + self._writes.beyond(size))

    @property
    def steps(self) -> list[int]:
        """The sizes from which a cache moves less than one that is a word smaller."""
        return sorted({*self.read_at, *self.written_at})

    @cached_property
    def _reads(self) -> _Tail:
        return _Tail(self.read_at)

    @cached_property
    def _writes(self) -> _Tail:
        return _Tail(self.written_at)


class _Tail:
    """Sums of a histogram from some place on."""

    def __init__(self, words: Mapping[int, int]) -> None:
        self.places = sorted(words)
        self.sums = [0, *accumulate(words[place] for place in self.places)]

    def beyond(self, size: int) -> int:
        return self.sums[-1] - self.sums[bisect_right(self.places, size)]


def touches(events: Iterable[Mapping[str, object]], order: Order = "listing") -> Touches:
    """Read a trace in which every tile is enumerated (the mappings of :func:`iosim_reference.replay`, which checks them thoroughly).

    Raises :class:`iosim_reference.ReplayError` for an event that no cache can follow, and :class:`ValueError` for an unknown order.

    >>> moves = [("input", "X", 8), ("load", "X", 8), ("use", "X", 8), ("use", "X", 8)]
    >>> trace = [{"kind": kind, "name": name, "box": [[0, rows]], "times": 1} for kind, name, rows in moves]
    >>> found = touches(trace).lru()
    >>> found.moved(7), found.moved(8)
    (Moved(reads=24, writes=0), Moved(reads=8, writes=0))
    """
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; known: {', '.join(map(repr, ORDERS))}")
    reader = _Reader(order == "first-use")
    for number, event in enumerate(events, start=1):
        reader.see(number, event)
    reader.flush()
    return Touches(reader.arrays, reader.found, Moved(reader.loaded, reader.stored), reader.peak)


@dataclass(slots=True)
class _Reader:
    late: bool
    arrays: dict[str, _Array] = field(default_factory=dict)
    found: list[Touch] = field(default_factory=list)
    waiting: set[tuple[str, Box]] = field(default_factory=set)  # loaded, not yet fetched
    held_first: list[Touch] = field(default_factory=list)
    fetched_last: list[Touch] = field(default_factory=list)
    scopes: list[int] = field(default_factory=lambda: [0])
    loaded: int = 0
    stored: int = 0
    peak: int = 0

    def see(self, number: int, event: Mapping[str, object]) -> None:
        kind, name, box = str(event["kind"]), str(event["name"]), _box(number, event)
        if kind != "use":
            self.flush()
        if kind in _DECLARE:
            self.arrays[name] = _Array(sum(math.prod(array.shape) for array in self.arrays.values()), tuple(stop for _, stop in box))
        elif kind in _MOVE:
            self.move(number, kind, name, box)
        elif kind == "begin":
            self.scopes.append(0)
        elif kind == "end":
            self.end(number)
        elif kind not in _OTHER:
            raise ReplayError(f"event {number} has the unknown kind {kind!r}; known: {', '.join((*_DECLARE, *_MOVE, *_OTHER))}")

    def move(self, number: int, kind: str, name: str, box: Box) -> None:
        self.check(number, name, box)
        words = math.prod(stop - start for start, stop in box)
        touch = Touch(name, box, kind in ("store", "init"))
        if kind == "use":
            self.use(touch)
        elif touch.writes:
            self.stored += words
            self.found.append(touch)
        else:
            self.load(touch, words)

    def load(self, touch: Touch, words: int) -> None:
        self.loaded += words
        self.scopes[-1] += words
        self.peak = max(self.peak, sum(self.scopes))
        if self.late:
            self.waiting.add((touch.name, touch.box))
        else:
            self.found.append(touch)

    def use(self, touch: Touch) -> None:
        region = touch.name, touch.box
        (self.fetched_last if region in self.waiting else self.held_first).append(touch)
        self.waiting.discard(region)

    def flush(self) -> None:
        """Touch what was used since the last other event; unless fetches are late, that is one list."""
        self.found += self.held_first
        self.found += self.fetched_last
        self.held_first, self.fetched_last = [], []

    def end(self, number: int) -> None:
        if len(self.scopes) == 1:
            raise ReplayError(f"event {number} ends a tile, but none is open")
        self.scopes.pop()

    def check(self, number: int, name: str, box: Box) -> None:
        array = self.arrays.get(name)
        if array is None:
            raise ReplayError(f"event {number}: {name} was never declared; declared: {', '.join(self.arrays) or 'nothing'}")
        if len(box) != len(array.shape) or any(stop > size for (_, stop), size in zip(box, array.shape, strict=True)):
            raise ReplayError(f"event {number}: {box} lies outside {name}, which has shape {array.shape}")


def _box(number: int, event: Mapping[str, object]) -> Box:
    box, times = event["box"], event["times"]
    if times != 1:
        raise ReplayError(f"event {number} stands for {times!r} visits, but only a trace in which each tile is visited can be replayed")
    if not isinstance(box, list | tuple) or len(box) > 2 or not all(0 <= start < stop for start, stop in box):
        raise ReplayError(f"event {number}: a box is [start, stop] with 0 <= start < stop for one axis or two, not {box!r}")
    return tuple((start, stop) for start, stop in box)


def _sides(box: Box) -> Box:
    """Rows and columns; an array of one axis has one column."""
    return box if len(box) == 2 else (*box, (0, 1))


class _Atoms:
    """The words of each array cut into runs that every region holds whole or not at all, so that each has one stack distance.

    Where all regions of an array are as wide as it, a run is some of its rows; else it is a part of one row.
    """

    def __init__(self, found: Touches) -> None:
        self.touches, self.sizes = found.touches, list[int]()
        self.rows: dict[str, list[int]] = {}
        self.cols: dict[str, list[int]] = {}
        self.numbers: dict[str, list[list[int]]] = {}
        self.known: dict[tuple[str, Box], list[int]] = {}
        regions = {(touch.name, touch.box): None for touch in found.touches}
        for name, array in found.arrays.items():
            self.cut(name, array, [_sides(box) for owner, box in regions if owner == name])

    def cut(self, name: str, array: _Array, boxes: list[Box]) -> None:
        cols = sorted({end for _, ends in boxes for end in ends})
        whole = cols in ([], [0, array.cols])
        rows = sorted({end for ends, _ in boxes for end in ends}) if whole else list(range(array.shape[0] + 1))
        self.rows[name], self.cols[name] = rows, cols
        self.numbers[name] = [
            [self.new((below - above) * (right - left)) for left, right in pairwise(cols)] for above, below in pairwise(rows)
        ]

    def new(self, words: int) -> int:
        self.sizes.append(words)
        return len(self.sizes) - 1

    def of(self, touch: Touch) -> list[int]:
        """The runs of a region, in the order in which its words are touched."""
        region = touch.name, touch.box
        if region not in self.known:
            rows, cols = _sides(touch.box)
            first, last = (bisect_right(self.rows[touch.name], end) - 1 for end in rows)
            left, right = (bisect_right(self.cols[touch.name], end) - 1 for end in cols)
            self.known[region] = [number for line in self.numbers[touch.name][first:last] for number in line[left:right]]
        return self.known[region]


class _Stack:
    """The stack of all words by their last touch, as sums over time in a binary indexed tree."""

    def __init__(self, atoms: _Atoms) -> None:
        self.order = [(atom, touch.writes) for touch in atoms.touches for atom in atoms.of(touch)]
        self.sizes, self.live = atoms.sizes, 0
        self.tree = [0] * (len(self.order) + 1)
        self.last = [0] * len(self.sizes)  # when each was touched last; 0 = never
        self.widest: dict[int, int] = {}  # of what was written: the largest distance since

    def profile(self) -> Profile:
        """Touch everything, and say what that costs at each size."""
        read_at: Counter[int] = Counter()
        written_at: Counter[int] = Counter()
        cold = 0
        for now, (atom, writes) in enumerate(self.order, start=1):
            distance = self.touch(atom, now)
            if atom in self.widest and distance is not None:
                self.widest[atom] = max(self.widest[atom], distance)
            if writes:
                written_at[self.widest.get(atom, 0)] += self.sizes[atom]
                self.widest[atom] = 0
            elif distance is None:
                cold += self.sizes[atom]
            else:
                read_at[distance] += self.sizes[atom]
        del written_at[0]  # the first store to a word evicts no earlier one
        return Profile(read_at, written_at, cold, sum(self.sizes[atom] for atom in self.widest))

    def touch(self, atom: int, now: int) -> int | None:
        """The words touched since ``atom`` was, itself included; None where it never was."""
        size, before = self.sizes[atom], self.last[atom]
        self.last[atom] = now
        distance = None if before == 0 else self.live - self.until(before) + size
        if before:
            self.add(before, -size)
        self.add(now, size)
        self.live += size if before == 0 else 0
        return distance

    def add(self, place: int, words: int) -> None:
        while place < len(self.tree):
            self.tree[place] += words
            place += place & -place

    def until(self, place: int) -> int:
        total = 0
        while place:
            total += self.tree[place]
            place &= place - 1
        return total


class _Sets:
    """A set-associative cache. Sets are independent, and those between the ends of two regions fare alike: one stands for all of them."""

    def __init__(self, sets: int, ways: int, spans: Mapping[Span, int]) -> None:
        self.sets, self.ways, self.reads, self.writes = sets, ways, 0, 0
        self.cuts = sorted({0, sets, *(end % sets for span in spans for end in span)})
        self.alike = [after - before for before, after in pairwise(self.cuts)]
        self.places = [OrderedDict[int, bool]() for _ in self.alike]  # tags, the one touched last behind the others, and whether dirty
        self.turns: dict[Span, list[tuple[int, int, int]]] = {}

    def lookups(self, spans: Mapping[Span, int]) -> int:
        """How often a set that stands for others is looked into when every span is touched as many times as is said."""
        return sum(times * self.looks(*span) for span, times in spans.items())

    def looks(self, start: int, stop: int) -> int:
        (full, end), (before, first) = divmod(stop, self.sets), divmod(start, self.sets)
        return (full - before) * len(self.alike) + bisect_left(self.cuts, end) - bisect_left(self.cuts, first)

    def touch(self, span: Span, writes: bool) -> None:
        """Touch the addresses of ``span``, in rising order, a turn of the sets at a time."""
        if span not in self.turns:
            self.turns[span] = list(self.turns_of(*span))
        for first, last, tag in self.turns[span]:
            self.turn(first, last, tag, writes)

    def turns_of(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """The sets that share a tag, from the first to before the last, and that tag."""
        while start < stop:
            end = min(stop, (start // self.sets + 1) * self.sets)
            first = start % self.sets
            yield bisect_left(self.cuts, first), bisect_left(self.cuts, first + end - start), start // self.sets
            start = end

    def turn(self, first: int, last: int, tag: int, writes: bool) -> None:
        """Touch the address of ``tag`` in each of some sets."""
        for number in range(first, last):
            places = self.places[number]
            if tag in places:
                places.move_to_end(tag)
                places[tag] |= writes
            else:
                self.miss(number, places, tag, writes)

    def miss(self, number: int, places: OrderedDict[int, bool], tag: int, writes: bool) -> None:
        """Put a word in place of the one that was touched longest ago."""
        self.reads += 0 if writes else self.alike[number]
        if len(places) == self.ways and places.popitem(last=False)[1]:
            self.writes += self.alike[number]
        places[tag] = writes

    def end(self) -> Moved:
        """What was moved, with what is still to be written."""
        still = sum(alike * sum(places.values()) for alike, places in zip(self.alike, self.places, strict=True))
        return Moved(self.reads, self.writes + still)
