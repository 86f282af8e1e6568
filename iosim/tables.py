"""Plain text tables: aligned columns, numbers to the right, thousands apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

Cell = str | int | float | None


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], *, rule: str = "─") -> str:
    """The rows under their head; integers get thousands separators, None is a dash.

    >>> print(table(["array", "words"], [["Q", 65536], ["mask", None]]))
    array   words
    ─────  ──────
    Q      65,536
    mask        –
    """
    shown = [[spell(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(head, *shown, fillvalue="")]
    right = [any(isinstance(cell, int | float) for cell in column) for column in zip_longest(*rows)] if rows else [False] * len(head)
    lines = [list(head), [rule * width for width in widths], *shown]
    return "\n".join(_line(line, widths, right) for line in lines)


def spell(cell: Cell) -> str:
    """A cell as people read it."""
    if cell is None:
        return "–"
    if isinstance(cell, float):
        return f"{cell:.3g}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    return "  ".join(
        cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in zip(cells, widths, right, strict=True)
    ).rstrip()


def bar(value: float, most: float, width: int = 24) -> str:
    """A bar of eighth blocks, ``width`` characters at ``most``.

    >>> bar(3, 8, width=4)
    '█▌'
    """
    eighths = round(8 * width * value / most) if most > 0 else 0
    return "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]


def words(count: float) -> str:
    """A count in three digits and a power of 1000, for curves.

    >>> words(11014144)
    '11.0 M'
    """
    for power, suffix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if count >= 10**power:
            return f"{count / 10**power:.3g} {suffix}" if count >= 100 * 10**power else f"{count / 10**power:#.3g} {suffix}"
    return f"{count:.0f}"
