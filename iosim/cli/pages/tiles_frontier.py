"""``iosim tiles --best`` over a range of M: the staircase of the fewest words, and what powers of two and divisors cost beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from iosim import predict
from iosim.attention.catalogue import KERNELS
from iosim.cli.options import Given
from iosim.cli.output import Record
from iosim.cli.pages.tiles_best import NAMES, NARROW, Accountings, percent, roomy, sizes_of
from iosim.cli.wrapping import wrapped
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.options import SOFTMAX, Options
from iosim.core.problem import Attention
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity
from iosim.predict import Accounting, Frontier
from iosim.predict.blocks.frontier_search import Sides
from iosim.predict.blocks.staircase import lowest
from iosim.predict.formulas import formula
from iosim.predict.sizes import Ints

SIDES: tuple[Sides, ...] = ("all", *NARROW)
KINDS: dict[Accountings, tuple[Accounting, ...]] = {"honest": ("honest",), "ideal": ("ideal",), "both": ("honest", "ideal")}
MOST = 16  # steps of a kernel that the page shows


@dataclass(frozen=True, slots=True)
class Stairs:
    """The frontiers of a kernel in one accounting, by the sides that blocks may have, all heads together.

    ``first`` is where M begins; where nothing fits up to its end, ``needs`` is what would.
    """

    kernel: str
    accounting: Accounting
    of: dict[Sides, Frontier]
    first: int
    needs: int

    @property
    def all(self) -> Frontier:
        """That of all blocks."""
        return self.of["all"]

    def shown(self, sides: Sides) -> range:
        """The steps of the range: that which holds where it begins, and those that follow."""
        return range(max(0, int(self.of[sides].at(self.first))), len(self.of[sides].sram))

    def beside(self, sides: Sides, sram: Ints) -> list[float | None]:
        """How much more those sides move at each M, in percent; None where nothing fits."""
        other, best = self.of[sides], self.all
        pairs = zip(other.at(sram).tolist(), best.at(sram).tolist(), strict=True)
        return [None if i < 0 or j < 0 else 100 * (int(other.words[i]) / int(best.words[j]) - 1) for i, j in pairs]

    def worst(self, sides: Sides) -> tuple[float, int]:
        """The most that those sides cost, in percent, and the first M at which they do: one where the best improve."""
        places = np.maximum(self.all.sram[self.shown("all")], self.first)
        found = [(cost, at) for cost, at in zip(self.beside(sides, places), places.tolist(), strict=True) if cost is not None]
        return max(found, key=lambda pair: pair[0])

    def records(self, problem: Attention) -> Iterator[Record]:
        """Every step as a record."""
        known = {"kernel": self.kernel, "accounting": self.accounting, **sizes_of(problem)}
        if self.needs:
            yield {**known, "error": self.refusal}
        for sides, found in self.of.items():
            for step in self.shown(sides):
                at, rows, cols, words = (int(column[step]) for column in (found.sram, found.rows, found.cols, found.words))
                yield {**known, "sides": sides, "sram": at, "sram_unit": "words", "block_rows": rows, "block_cols": cols, "total": words}

    @property
    def refusal(self) -> str:
        """What is said where nothing fits."""
        return f"does not fit, needs {self.needs:,} words"


def searched(given: Given, problem: Attention, reach: Sequence[Capacity], accounting: Accountings) -> tuple[list[Stairs], list[str]]:
    """The frontiers of all kernels, and why some have none; raises :class:`BadInput` where none has any."""
    found: list[Stairs] = []
    why: list[str] = []
    for kernel in [one.name for one in given["kernels"]]:
        try:
            found += stairs(kernel, given, problem, reach, accounting)
        except BadInput as error:
            why.append(str(error))
    if not found:
        raise BadInput("; ".join(dict.fromkeys(why)))
    return found, list(dict.fromkeys(why))


def stairs(kernel: str, given: Given, problem: Attention, reach: Sequence[Capacity], accounting: Accountings) -> Iterator[Stairs]:
    """The frontiers of a kernel, one in each accounting that it has.

    Args:
        kernel: Its name.
        given: The command line, for the variants.
        problem: One problem.
        reach: The smallest and the largest M.
        accounting: Which accountings are asked for.
    """
    for kind in KINDS[accounting]:
        if kind == "honest" or formula(kernel).fused is not None:
            options = options_of(kernel, given, problem, reach[1]) if kind == "honest" else [Options()]
            found = {which: frontier(kernel, problem, options, reach[1].amount, which, kind) for which in SIDES}
            needs = 0 if len(found["all"].sram) else least(kernel, problem, options, kind)
            yield Stairs(kernel, kind, found, reach[0].amount, needs)


def least(kernel: str, problem: Attention, variants: Sequence[Options], accounting: Accounting) -> int:
    """The smallest SRAM in which any blocks fit."""
    if accounting == "honest":
        return min(predict.smallest_sram(kernel, problem, options) for options in variants)
    return int(predict.frontier(kernel, problem, accounting=accounting).sram[0])


def options_of(kernel: str, given: Given, problem: Attention, size: Capacity) -> list[Options]:
    """The variant that is asked for; two where the size of the SRAM decides whether a row of S stays on chip."""
    options = roomy(kernel, {**given, "sram": size}, problem).options
    if "softmax" not in KERNELS[kernel].has or "softmax" in given["variants"] or options.reuse == "ideal":
        return [options]
    return [options.but(softmax=softmax) for softmax in SOFTMAX.choices]


def frontier(kernel: str, problem: Attention, variants: Sequence[Options], upto: int, sides: Sides, accounting: Accounting) -> Frontier:
    """The fewest words in any of the variants, all heads together.

    Args:
        kernel: Its name.
        problem: One problem.
        variants: The options to try.
        upto: The largest M, in words.
        sides: Which sides blocks may have.
        accounting: "honest" or "ideal".
    """
    found = [predict.frontier(kernel, problem, options, upto=upto, sides=sides, accounting=accounting) for options in variants]
    sram, words, rows, cols = (np.concatenate([getattr(one, name) for one in found]) for name in ("sram", "words", "rows", "cols"))
    keep = lowest(sram, words)
    return Frontier(kernel, sram[keep], words[keep] * problem.instances, rows[keep], cols[keep])


def check_words(reach: Sequence[Capacity], problem: Attention) -> None:
    """Refuse a range in bytes."""
    if reach[0].unit == "bytes":
        low, high = (size.words(problem.itemsize) for size in reach)
        raise BadInput(f"tiles --best counts a range of M in words, not {reach[0]} to {reach[1]}; ask for --sram {max(1, low)}..{high}")


def text_of(problem: Attention, reach: Sequence[Capacity], made: Sequence[Stairs], width: int) -> str:
    """A table for each kernel and accounting."""
    title = f"tiles: {described(problem)}, SRAM {reach[0].amount:,} to {reach[1].amount:,} words: the fewest words of all blocks that fit"
    return "\n\n".join([wrapped(title, width), *("\n".join(page(one, width)) for one in made)])


def page(one: Stairs, width: int) -> Iterator[str]:
    """The steps of one kernel, or some of many, and the most that narrower sides cost."""
    named = f"{one.kernel}, {one.accounting} accounting"
    steps = one.shown("all")
    if not steps:
        yield f"{named}: {one.refusal}"
        return
    some = np.unique(np.linspace(steps[0], steps[-1], MOST).round().astype(int)) if len(steps) > MOST else np.array(steps)
    number = f"{len(steps):,} step{'s' if len(steps) > 1 else ''}"
    yield f"{named}: {number}" + (f", of which {len(some)} are shown; --csv and --json give all" if len(some) < len(steps) else "")
    head = ["M from", "words moved", "Br x Bc", *(NAMES[sides] for sides in NARROW)]
    yield table(head, [_line(one, step) for step in some.tolist()], right=head)
    worst = [f"{NAMES[sides]} {percent(cost)} at M = {at:,}" for sides, (cost, at) in ((which, one.worst(which)) for which in NARROW)]
    yield wrapped(f"at worst: {', '.join(worst)}", width)


def _line(one: Stairs, step: int) -> list[Cell]:
    found = one.all
    at = found.sram[[step]]
    beside = [percent(one.beside(sides, np.maximum(at, one.first))[0]) for sides in NARROW]
    return [int(at[0]), int(found.words[step]), f"{found.rows[step]}x{found.cols[step]}", *beside]
