"""The published numbers to compare with: the shipped ones, or a user's files in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iosim.core.errors import BadInput
from iosim.study import published
from iosim.study.published import Accesses, BlockPoint, Cell, Dataset, DensityPoint, Measured, Traffic
from iosim.study.published.documents import named, read_document

READERS: dict[str, Callable[[Path], Any]] = {
    "left": published.figure2_left, "middle": published.figure2_middle, "right": published.figure2_right,
    "softmax": published.softmax_accesses,
}  # fmt: skip
FIELDS = {"gflops": "left", "block_cols": "middle", "percent": "right", "loads": "softmax"}


@dataclass(frozen=True, slots=True)
class Data:
    """Figure 2, the tables, and the accesses of softmax."""

    left: Measured[Traffic]
    middle: Measured[BlockPoint]
    right: Measured[DensityPoint]
    tables: tuple[Measured[Cell], ...]
    softmax: Dataset[Accesses]

    def cells(self) -> Iterator[tuple[Measured[Cell], Cell]]:
        """Every cell of the tables, with the set that says how it was measured."""
        for found in self.tables:
            for cell in found:
                yield found, cell


def load(files: Sequence[str] = ()) -> Data:
    """The shipped numbers; each of ``files`` replaces the panel, the tables or the softmax listings of its form.

    Raises :class:`BadInput`, which names file and line, for a file that does not parse.

    >>> len(load().left), sum(1 for _ in load().cells())
    (4, 1231)
    """
    figures = published.figure2_left(), published.figure2_middle(), published.figure2_right()
    data = Data(*figures, tuple(published.tables()), published.softmax_accesses())
    for file in files:
        data = _replaced(data, Path(file))
    return data


def _replaced(data: Data, path: Path) -> Data:
    form = _form(path)
    if form == "tables":
        return replace(data, tables=_other_tables(data, published.tables(path)))
    return replace(data, **{form: READERS[form](path)})


def _form(path: Path) -> str:
    """Which data a file holds: the name of a field of :class:`Data`."""
    values = read_document(path).top.values
    rows = values.get("row")
    first = rows[0] if isinstance(rows, list) and rows else None
    found = [form for field, form in FIELDS.items() if isinstance(first, dict) and field in first]
    if "rows" in values or found:
        return "tables" if "rows" in values else found[0]
    forms = f'rows = "FILE.csv" as in tables_9_21.toml, or [[row]] with {", ".join(FIELDS)}'
    raise BadInput(f"{named(path)}, line 1: neither tables nor a figure; give it one of the forms of iosim/study/published/data: {forms}")


def _other_tables(data: Data, given: list[Measured[Cell]]) -> tuple[Measured[Cell], ...]:
    """The tables of ``data`` but for those that are given anew."""
    numbers = {cell.table for found in given for cell in found}
    kept = (replace(found, rows=tuple(cell for cell in found if cell.table not in numbers)) for found in data.tables)
    return (*(found for found in kept if found.rows), *given)
