"""A cell of a table, in words and for programs."""

from __future__ import annotations

from iosim.study.published import Cell


def name_of(cell: Cell) -> str:
    """A cell in words."""
    return f"Table {cell.table}, {cell.method}, {cell.pass_}, N = {cell.n}"


def labels_of(cell: Cell) -> dict[str, object]:
    """A cell for programs."""
    return {
        "quantity": "memory" if cell.unit == "MiB" else "time", "table": cell.table, "pass": cell.pass_, "dropout": cell.dropout,
        "mask": cell.mask, "method": cell.method, "n": cell.n,
    }  # fmt: skip
