"""Plain text tables: aligned columns, numbers to the right, thousands apart."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from itertools import zip_longest

Cell = str | int | float | None
NARROWEST = 16  # a column that wraps is never cut shorter


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, rule: str = "─", right: Collection[str] = (), width: int = 0) -> str:
    """The rows under their head; integers get thousands separators, None is a dash.

    Args:
        head: The name of each column.
        rows: One cell for each column. Columns with a number in them stand to the right.
        rule: The character of the line under the head.
        right: Names of other columns that stand to the right.
        width: Where given, the last column wraps to keep the table within so many characters.

    >>> print(table(["array", "words"], [["Q", 65536], ["mask", None]]))
    array   words
    ─────  ──────
    Q      65,536
    mask        –
    """
    shown = [[spell(cell) for cell in row] for row in rows]
    if width:
        before = sum(2 + max(map(len, column)) for column in list(zip_longest(head, *shown, fillvalue=""))[:-1])
        shown = [line for row in shown for line in _wrapped(row, max(NARROWEST, width - before))]
    widths = [max(map(len, column)) for column in zip_longest(head, *shown, fillvalue="")]
    lines = [list(head), [rule * widest for widest in widths], *shown]
    to_right = _to_right(head, rows, right)
    return "\n".join(_line(line, widths, to_right) for line in lines)


def html(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], lines: Sequence[str] = (), *, right: Collection[str] = ()) -> str:
    """The same for a notebook: a title, the table, and lines below it; every text is escaped.

    Args:
        title: Stands above the table.
        head: The name of each column.
        rows: One cell for each column.
        lines: Stand below the table.
        right: Names of columns of text that stand to the right.

    >>> html("1 < 2", ["array", "words"], [["Q", 65536]])[-60:]
    '<td style="text-align: right">65,536</td></tr></table></div>'
    """
    from html import escape

    sides = ["right" if to_right else "left" for to_right in _to_right(head, rows, right)]

    def row(kind: str, cells: Sequence[str]) -> str:
        shown = zip(cells, sides, strict=True)
        return "<tr>" + "".join(f'<{kind} style="text-align: {side}">{escape(cell)}</{kind}>' for cell, side in shown) + "</tr>"

    body = row("th", head) + "".join(row("td", [spell(cell) for cell in line]) for line in rows)
    below = f"<p>{'<br/>'.join(map(escape, lines))}</p>" if lines else ""
    return f"<div><p><b>{escape(title)}</b></p><table>{body}</table>{below}</div>"


def spell(cell: Cell) -> str:
    """A cell as people read it: whole numbers whole, others to three digits.

    >>> spell(65536), spell(20.0), spell(1234.5), spell(2.45e-7), spell(None)
    ('65,536', '20.0', '1,234', '2.45e-07', '–')
    """
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if 999.5 <= abs(cell) < 1e15 else digits(cell)
    return f"{cell:,}" if isinstance(cell, int) else cell


def digits(value: float) -> str:
    """A number to three significant digits.

    >>> digits(1), digits(0.98765), digits(123.4)
    ('1.00', '0.988', '123')
    """
    return f"{value:#.3g}".removesuffix(".")


def _to_right(head: Sequence[str], rows: Sequence[Sequence[Cell]], right: Collection[str]) -> list[bool]:
    """Whether each column stands to the right: one with a number in it, or named in ``right``."""
    columns = list(zip_longest(*rows)) or [()] * len(head)
    return [name in right or any(isinstance(cell, int | float) for cell in cells) for name, cells in zip(head, columns, strict=True)]


def _wrapped(row: Sequence[str], width: int) -> list[list[str]]:
    """The row as lines that keep its last cell within ``width``."""
    first, *rest = textwrap.wrap(row[-1], width, break_on_hyphens=False) or [""]
    return [[*row[:-1], first], *([""] * (len(row) - 1) + [line] for line in rest)]


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()


def words(count: float) -> str:
    """A count in three digits and a power of 1000, for curves.

    >>> words(11014144), words(999_999), words(512)
    ('11.0 M', '1.00 M', '512')
    """
    for power, suffix in ((18, "E"), (15, "P"), (12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if round(count / 10**power, 3) >= 1:
            return f"{digits(count / 10**power)} {suffix}"
    return f"{count:.0f}"
