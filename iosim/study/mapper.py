"""A mapping tool's frontier beside two of iosim's: in the tool's own accounting, and counted honestly, with the reason for each gap.

A mapper sees attention as products with an elementwise softmax between them. What it leaves out is put back here one thing at a time;
with each the blocks are chosen anew, and the words that this costs are the share of that thing in the gap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from iosim import predict
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.predict import Frontier, IdealFrontier, Term, ideal_frontier
from iosim.predict.blocks.fused_tiles import Schedule
from iosim.predict.blocks.staircase import smallest_blocks
from iosim.predict.case import case
from iosim.predict.formulas import formula
from iosim.predict.room import Room
from iosim.predict.sizes import Int, Ints
from iosim.study import published

KERNELS = {
    "flash2": ("flash2", Options()),
    "flash, first visit creates": ("flash", Options(first_pass="create")),
    "square-tiles, depth one": ("square-tiles", Options(depth="one")),
    "square-tiles": ("square-tiles", Options()),
    "standard": ("standard", Options()),
    "standard, streamed": ("standard", Options(softmax="streamed")),
}
STATISTICS = ("l", "m", "LSE")


class Gap(NamedTuple):
    """``words`` more, or fewer where below 0, and why."""

    words: int
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """One SRAM, all in words: what the ``mapper`` moves, the ``ideal`` frontier, and the ``honest`` one, by ``kernel`` in ``blocks``.

    ``schedule`` is that of the ideal frontier; the words of the ``gaps`` add up to ``honest - ideal``.
    """

    sram: int
    mapper: int
    ideal: int
    schedule: str
    honest: int
    kernel: str
    blocks: Blocks
    gaps: tuple[Gap, ...]

    @property
    def reason(self) -> str:
        """The gaps in one line."""
        return "; ".join(f"{gap.words:+,} {gap.why}" for gap in self.gaps) or "none"


def rows() -> tuple[Row, ...]:
    """The mapper's points beside the ideal and the honest frontier of the same problem, dense and without a mask.

    >>> [(row.mapper, row.ideal, row.honest, row.kernel) for row in rows() if row.sram == 2112]
    [(147456, 147456, 164096, 'flash2')]
    """
    points = published.mapper_frontier()
    problem = Attention(n=points.n, d=points.d)
    ideal = ideal_frontier(problem)
    honest = {name: predict.frontier(kernel, problem, options) for name, (kernel, options) in KERNELS.items()}
    return tuple(_row(problem, ideal, honest, point.sram, point.words) for point in points)


def _row(problem: Attention, ideal: IdealFrontier, honest: dict[str, Frontier], sram: int, mapper: int) -> Row:
    step = int(ideal.at(sram))
    words, schedule = int(ideal.words[step]), ideal.schedules[step]
    least, kernel, blocks = min(_fitting(honest, sram), key=lambda found: found[0])
    return Row(sram, mapper, words, schedule, least, kernel, blocks, tuple(_gaps(problem, kernel, sram, words)))


def _fitting(honest: dict[str, Frontier], sram: int) -> Iterator[tuple[int, str, Blocks]]:
    """What every kernel moves that fits, and in which blocks."""
    for name, found in honest.items():
        if (step := int(found.at(sram))) >= 0:
            yield int(found.words[step]), name, Blocks(int(found.rows[step]), int(found.cols[step]))


def _gaps(problem: Attention, kernel: str, sram: int, ideal: int) -> Iterator[Gap]:
    """The gaps of one kernel that are there, from the ideal words up."""
    before = ideal
    for why, room, words in _rungs(problem, *KERNELS[kernel]):
        least = int(np.where(room <= sram, words, np.iinfo(np.int64).max).min())
        if least != before:
            yield Gap(least - before, why)
        before = least


_Rung = tuple[str, Int, Ints]


def _rungs(problem: Attention, kernel: str, options: Options) -> Iterator[_Rung]:
    """From the ideal accounting of a kernel to the honest one, step by step: the reason, the room and the words of all blocks."""
    rows, cols = smallest_blocks(problem.n)[:, None], smallest_blocks(problem.nk, problem.d, problem.dv)
    room = case(kernel, problem, options).bound(rows, cols, Room())
    terms = predict.dense_terms(kernel, n=problem.n, nk=problem.nk, d=problem.d, dv=problem.dv, Br=rows, Bc=cols, options=options)
    words, without = _total(terms), _total(term for term in terms if term.array not in STATISTICS)
    form = formula(kernel)
    if form.fused is not None:
        queries = form.outside == "queries"
        yield from _fused(problem, Schedule(form.fused[0], frozenset(form.fused[1])), rows, cols, without)
        yield ("l, m, m_new and alpha of every row" if queries else "l, m and six values more of every row"), room, without
        yield ("LSE is stored" if queries else "l and m are loaded and stored"), room, words
    elif form.square:
        yield "S and O stay, neither Q, K nor V, in tiles of one size", _apart(problem, rows, cols), without
        yield "whole lines of both factors, l, m and m_new of every row", room, without
        yield "l and m are stored and loaded", room, words
    else:
        yield "softmax is a pass of its own", room, words


def _fused(problem: Attention, schedule: Schedule, rows: Ints, cols: Ints, words: Ints) -> Iterator[_Rung]:
    """A kernel that keeps the scores on chip: its own schedule, then P in the place of S, then whole tiles of the streamed operands."""
    width, queries = problem.d + problem.dv, schedule.outside == "queries"
    waits, streams = (rows, cols) if queries else (cols, rows)
    yield ("only Q and O wait on chip" if queries else "only K and V wait on chip, O in HBM"), schedule.room(problem, rows, cols), words
    yield "P takes the place of S", waits * width + rows * cols + 1, words
    yield ("whole tiles of K and V" if queries else "whole tiles of Q and O"), (waits + streams) * width + rows * cols, words


def _apart(problem: Attention, rows: Ints, cols: Ints) -> Ints:
    """Room for a tile of S, and then one of O, beside the lines that stream past it."""
    wide = np.minimum(cols, problem.dv)
    room: Ints = np.maximum(rows * cols + np.minimum(rows, cols), rows * wide + np.minimum(rows, wide)) + 1
    return room


def _total(terms: Iterable[Term]) -> Ints:
    words: Int = sum((term.total for term in terms), start=0)
    return np.asarray(words, dtype=np.int64)
