"""``iosim tiles --best`` at one M: the fewest words of all blocks that fit, and what a narrower choice of blocks costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from iosim import predict
from iosim.attention.catalogue import kernel as kernel_of
from iosim.attention.plan import BlockChoice, Plan
from iosim.attention.report import Report
from iosim.cli.options import Given
from iosim.cli.output import Record
from iosim.cli.pages.tiles_tries import Try, tried
from iosim.cli.plans import plan_of
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Blocks
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity
from iosim.predict.blocks.frontier_search import Sides, allowed
from iosim.predict.blocks.planes import plane
from iosim.predict.formulas import formula

Accountings = Literal["honest", "ideal", "both"]
NAMES: dict[Sides, str] = {"all": "best", "powers": "powers of two", "divisors": "divisors"}
NARROW: tuple[Sides, ...] = ("powers", "divisors")


@dataclass(frozen=True, slots=True)
class Row:
    """One choice of blocks for a kernel: what it needs and moves, all heads together, or in ``fits`` why there is none."""

    kernel: str
    rule: str
    accounting: str
    blocks: Blocks | None
    peak: int | None
    words: int | None
    fits: str
    known: Record
    made: Report | None = None


def searched(given: Given, problem: Attention, accounting: Accountings) -> tuple[list[list[Row]], list[str]]:
    """The choices of all kernels, the best first, and why the ideal accounting has none; raises :class:`BadInput` if none has any."""
    found: list[list[Row]] = []
    why: list[str] = []
    for kernel in [one.name for one in given["kernels"]]:
        rows = [] if accounting == "ideal" else list(honest(kernel, given, problem))
        try:
            rows += ideals(kernel, given, problem, accounting)
        except BadInput as error:
            why.append(str(error))
        found += [rows] if rows else []
    if not found:
        raise BadInput("; ".join(dict.fromkeys(why)))
    return found, list(dict.fromkeys(why))


def ideals(kernel: str, given: Given, problem: Attention, accounting: Accountings) -> Iterator[Row]:
    """What the ideal accounting has to say where it is asked for; raises :class:`BadInput` under any mask."""
    if accounting != "honest" and formula(kernel).fused is not None:
        if given["block_mask"] is not None:
            raise BadInput(f"the ideal accounting is known without a mask, not for {kernel} under --block-mask")
        yield from ideal(kernel, problem, given["sram"], sides=("all", *NARROW) if accounting == "ideal" else ("all",))


def honest(kernel: str, given: Given, problem: Attention) -> Iterator[Row]:
    """All that the listing names occupies SRAM: the blocks of every rule, counted on the machine."""
    plain, size = roomy(kernel, given, problem), given["sram"]
    if (needs := predict.smallest_sram(kernel, problem, plain.options, size.unit)) > size.amount:
        why = f"does not fit, needs {needs:,} {size.unit}"
        yield Row(kernel, "best", "honest", None, None, None, why, {"error": why, "needs": needs, "fits": False})
        return
    yield counted(tried(kernel, "best", "best", given, problem))
    yield from (counted(narrowed(plain, sides, given, problem)) for sides in NARROW)
    rules: tuple[BlockChoice, ...] = ("fit", "paper")
    yield from (counted(tried(kernel, str(rule), rule, given, problem)) for rule in rules)


def narrowed(plain: Plan, sides: Sides, given: Given, problem: Attention) -> Try:
    """The best blocks among those with such sides."""
    try:
        blocks = narrow(plain, problem, sides)
    except BadInput as error:
        return Try(plain.kernel.name, NAMES[sides], None, str(error))
    if blocks is None:
        return Try(plain.kernel.name, NAMES[sides], None, f"no blocks of {plain.kernel} fit whose sides are {NAMES[sides]}")
    return tried(plain.kernel.name, NAMES[sides], blocks, given, problem)


def roomy(kernel: str, given: Given, problem: Attention) -> Plan:
    """The plan in blocks of 1x1, which names the variant that the size of the SRAM decides."""
    asked: Given = {**given, "blocks": Blocks(1, 1), "overflow": "record", "block_mask": None}
    return plan_of(kernel_of(kernel), asked, problem)


def narrow(plain: Plan, problem: Attention, sides: Sides) -> Blocks | None:
    """The blocks with such sides that move the fewest words, for a problem without its block mask."""
    rows = problem.n * (problem.group if plain.options.pack else 1)
    found = plane(plain.kernel.name, problem, allowed(rows, sides), allowed(problem.nk, sides), plain.options, plain.sram.unit)
    return found.least(plain.sram.amount)


def counted(one: Try) -> Row:
    """A try as a row."""
    known, made = {**one.record(), "accounting": "honest"}, one.made
    if made is None:
        return Row(one.kernel, one.rule, "honest", None, None, None, "none", known)
    return Row(one.kernel, one.rule, "honest", made.blocks, made.peak_sram, made.total, one.fits, known, made)


def ideal(kernel: str, problem: Attention, size: Capacity, sides: Sequence[Sides]) -> Iterator[Row]:
    """Q, K, V, O, S and P in tiles and nothing else, in words: what mapping tools compute."""
    amount = size.words(problem.itemsize)
    for which in sides:
        found = predict.frontier(kernel, problem, sides=which, accounting="ideal")
        step, rule = int(found.at(amount)), f"{NAMES[which]}, ideal"
        if step < 0:
            why = f"does not fit, needs {int(found.sram[0]):,} words"
            yield Row(kernel, rule, "ideal", None, None, None, why, {"error": why, "needs": int(found.sram[0]), "fits": False})
            return
        blocks, words = Blocks(int(found.rows[step]), int(found.cols[step])), int(found.words[step]) * problem.instances
        peak = int(found.sram[step]) * (1 if size.unit == "words" else problem.itemsize)
        yield Row(kernel, rule, "ideal", blocks, peak, words, "yes", {"total": words, "fits": True})


def penalty(row: Row, best: Row) -> float | None:
    """How much more than the best a row moves, in percent; None where the two have masks of their own."""
    if row.words is None or best.words is None or (row.made is not None and row.made.problem.block_mask is not None):
        return None
    return 100 * (row.words / best.words - 1)


def record(row: Row, best: Row, problem: Attention, size: Capacity) -> Record:
    """A row as a record; what is unknown is None."""
    rows, cols = (None, None) if row.blocks is None else (row.blocks.rows, row.blocks.cols)
    asked = {
        "kernel": row.kernel, "rule": row.rule, "accounting": row.accounting, "error": None, **sizes_of(problem),
        "sram": size.amount, "sram_unit": size.unit, "block_rows": rows, "block_cols": cols, "peak_sram": row.peak,
    }  # fmt: skip
    return {**asked, **row.known, "penalty_percent": penalty(row, best)}


def sizes_of(p: Attention) -> Record:
    """The problem, as records have it."""
    return {
        "n": p.n, "nk": p.nk, "d": p.d, "dv": p.dv, "batch": p.batch, "heads": p.heads, "kv_heads": p.kv_heads, "dtype": p.dtype,
    }  # fmt: skip


def text_of(given: Given, problem: Attention, kernels: Sequence[Sequence[Row]]) -> str:
    """The rows as a table, and the reasons of those that found nothing."""
    size = given["sram"]
    head = ["kernel", "blocks", "Br x Bc", f"peak SRAM ({size.unit})", "words moved", "beside best", "fits"]
    lines = [_line(row, rows[0], named=row is rows[0]) for rows in kernels for row in rows]
    every = [row for rows in kernels for row in rows]
    reasons = dict.fromkeys(f"note: {row.known['error']}" for row in every if row.fits == "none")
    masks = [row.kernel for row in every if row.rule == "best" and row.made is not None and row.made.problem.block_mask is not None]
    notes = [f"note: {name} has another mask in other blocks, so that their words are not compared" for name in masks]
    title = f"tiles: {described(problem)}, SRAM {size}: the fewest words of all blocks that fit"
    return "\n".join([title, "", table(head, lines, right=["Br x Bc", "beside best"]), *reasons, *notes])


def _line(row: Row, best: Row, *, named: bool) -> list[Cell]:
    blocks = None if row.blocks is None else str(row.blocks)
    beside = "" if row is best else percent(penalty(row, best))
    return [row.kernel if named else "", row.rule, blocks, row.peak, row.words, beside, row.fits]


def percent(value: float | None) -> str | None:
    """A penalty as people read it.

    >>> percent(13.249), percent(0.0), percent(-0.26), percent(112.3), percent(0.004)
    ('+13.2 %', '0 %', '-0.26 %', '+112 %', '+0.004 %')
    """
    if value is None:
        return None
    if value == 0:
        return "0 %"
    digits = f"{value:+,.0f}" if abs(value) >= 100 else f"{value:+.3g}"
    return f"{digits} %"
