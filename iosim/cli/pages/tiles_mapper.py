"""A mapping tool's published points beside the frontiers, on the problem that they were found for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

from iosim.cli.output import Record
from iosim.cli.wrapping import wrapped
from iosim.core.problem import Attention
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity
from iosim.study import mapper, published
from iosim.study.mapper import Row


def points(problem: Attention, reach: Sequence[Capacity]) -> list[Row]:
    """The points of the range, and the one that holds where it begins; none for another problem, or where M is in bytes."""
    asked = published.mapper_frontier()
    one_head = problem.batch * problem.heads == 1 and not problem.masked and not problem.dropout
    if (problem.n, problem.nk, problem.d, problem.dv) != (asked.n, asked.n, asked.d, asked.d) or not one_head or reach[0].unit != "words":
        return []
    rows = [row for row in mapper.rows() if row.sram <= reach[-1].amount]
    before = sum(row.sram <= reach[0].amount for row in rows)
    return rows[max(0, before - 1) :]


def records(rows: Sequence[Row], problem: Attention) -> list[Record]:
    """The points as records; ``total`` is the tool's."""
    return [
        {
            "kernel": "mapper", "accounting": "mapper", "n": problem.n, "nk": problem.nk, "d": problem.d, "dv": problem.dv,
            "sram": row.sram, "sram_unit": "words", "total": row.mapper, "ideal_total": row.ideal, "ideal_schedule": row.schedule,
            "honest_total": row.honest, "honest_kernel": row.kernel, "block_rows": row.blocks.rows, "block_cols": row.blocks.cols,
            "reason": row.reason,
        }
        for row in rows
    ]  # fmt: skip


def text_of(rows: Sequence[Row], width: int) -> str:
    """The points as a table, where they are from, and why the honest words are more."""
    source = published.mapper_frontier().source
    title = (
        f"The same problem by a mapping tool: {source}. Words; ideal and honest are the best schedules of iosim, honest ones its kernels."
    )
    letters = dict(zip(dict.fromkeys(gap.why for row in rows for gap in row.gaps), ascii_lowercase, strict=False))
    head = ["M", "mapper", "ideal", "honest", "by", "honest over ideal"]
    lines: list[list[Cell]] = [
        [row.sram, row.mapper, row.ideal, row.honest, f"{row.kernel} {row.blocks}", gaps(row, letters)] for row in rows
    ]
    reasons = (wrapped(why, width, f"{letter}: ", indent=3) for why, letter in letters.items())
    return "\n".join([wrapped(title, width, indent=0), "", table(head, lines), *reasons])


def gaps(row: Row, letters: Mapping[str, str]) -> str:
    """The gaps of a row, each with its letter."""
    return ", ".join(f"{letters[gap.why]} {gap.words:+,}" for gap in row.gaps)
