"""The runtime and memory tables of the FlashAttention paper, cell by cell."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast, get_args

from iosim.core.errors import BadInput
from iosim.study.published.datasets import DATA, Given, Measured, measured, unique
from iosim.study.published.documents import Document, named, read_text
from iosim.study.published.records import Record, shown

Pass = Literal["fwd", "bwd", "fwd+bwd"]
Unit = Literal["ms", "MiB"]

PASSES: tuple[str, ...] = get_args(Pass)
UNITS: tuple[str, ...] = get_args(Unit)
COLUMNS = ("table", "pass", "dropout", "mask", "method", "unit")
PLACE = ("table", "pass_", "dropout", "mask", "method", "n")
SHIPPED = ("table_7.toml", "tables_9_21.toml")
WHOLE = re.compile(r"[0-9]{1,15}")
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf)")


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a table: what ``method`` took for sequences of ``n``, in milliseconds or MiB."""

    table: int
    pass_: Pass
    dropout: bool
    mask: bool
    method: str
    n: int
    value: float
    unit: Unit


def tables(path: Given = None) -> list[Measured[Cell]]:
    """Tables 7 and 9 to 21, each set with its source and setup; or the one set whose .toml file is at ``path``.

    Raises :class:`BadInput`, which names file and line, for data that does not parse.

    >>> [(found.name, len(found), found.setup.instances) for found in tables()]
    [('Table 7', 18, 1024), ('Tables 9 to 21', 1213, 128)]
    """
    return list(_shipped()) if path is None else [measured(Path(path), "rows", _rows)]


@cache
def _shipped() -> tuple[Measured[Cell], ...]:
    return tuple(measured(DATA / name, "rows", _rows) for name in SHIPPED)


def table(number: int) -> Measured[Cell]:
    """One table of the paper with its source and setup; raises :class:`BadInput` for a number that is not there.

    >>> [cell.value for cell in table(7) if cell.pass_ == "fwd+bwd" and cell.n == 512]
    [2.95, 2.81]
    """
    for found in tables():
        kept = tuple(cell for cell in found if cell.table == number)
        if kept:
            return Measured(found.name, found.source, found.read, kept, found.setup, found.error)
    raise BadInput(f"there is no table {number!r} here; there are 7 and 9 to 21")


def cells(table: int | None = None, *, method: str | None = None, pass_: Pass | None = None, path: Given = None) -> list[Cell]:
    """The cells of one ``table``, ``method`` and pass, or of all; empty cells of the paper (out of memory) are left out.

    With ``path`` they come from that .toml file. Raises :class:`BadInput` for a table, method or pass that the data does not have.

    >>> cells(18, method="Megatron")[-1]
    Cell(table=18, pass_='fwd', dropout=False, mask=False, method='Megatron', n=2048, value=4.28, unit='ms')
    """
    found = [cell for each in tables(path) for cell in each]
    wanted = {"table": table, "method": method, "pass_": pass_}
    for field, value in wanted.items():
        known = sorted({getattr(cell, field) for cell in found})
        if value is not None and value not in known:
            raise BadInput(f"the data has no {field.strip('_')} {value!r}; it has: {', '.join(map(str, known))}")
        found = [cell for cell in found if value in (None, getattr(cell, field))]
    return found


def _rows(document: Document) -> tuple[Cell, ...]:
    """The cells of the CSV file that the document names; it lies beside the document."""
    name = document.top.text("rows")
    if name in {".", ".."} or re.search(r"[/\\\0]", name):
        raise document.top.fault("rows", f"rows must be the name of a .csv file beside this one, not {shown(name)}")
    path = document.path.with_name(name)
    if not path.is_file():
        raise document.top.fault("rows", f"rows names {shown(name)}, but there is no such file beside this one")
    found = unique(((record, cell) for record in _lines(path) for cell in _cells(record)), *PLACE)
    if not found:
        raise BadInput(f"{named(path)}, line 1: no cell below the head; add a line")
    return found


def _lines(path: Path) -> Iterator[Record]:
    """Each line of the CSV file as a record of its columns."""
    file, reader = named(path), csv.reader(read_text(path).split("\n"), strict=True)
    try:
        head = _head(file, next(reader))
        for fields in reader:
            if fields:
                yield Record(file, reader.line_num, _values(file, reader.line_num, head, fields))
    except csv.Error as fault:
        raise BadInput(f"{file}, line {reader.line_num}: not CSV: {fault}") from None


def _head(file: str, head: list[str]) -> list[str]:
    """The names of the columns: those of a cell's place, then one sequence length each."""
    record = Record(file, 1, dict.fromkeys(head))
    for column in COLUMNS:
        record.value(column)
    for column in head:
        if column not in COLUMNS and not (WHOLE.fullmatch(column) and int(column)):
            raise record.fault(column, f"a column must be {', '.join(COLUMNS)} or a sequence length, not {shown(column)}")
    if len(record.values) < len(head):
        raise record.fault("table", f"two columns have the same name in {shown(','.join(head))}")
    if len(head) == len(COLUMNS):
        raise record.fault("table", "no column is a sequence length; add at least one, named 128 for example")
    return head


def _values(file: str, line: int, head: list[str], fields: list[str]) -> dict[str, object]:
    if len(fields) != len(head):
        raise BadInput(f"{file}, line {line}: {len(fields)} fields under {len(head)} columns; an empty cell needs its comma, too")
    found = zip(head, (field.strip() for field in fields), strict=True)
    return {name: field if name in {"pass", "method", "unit"} else _number(field) for name, field in found if field}


def _number(field: str) -> object:
    """The field as a number, or as it is where it is none."""
    if WHOLE.fullmatch(field):
        return int(field)
    return float(field) if NUMBER.fullmatch(field) else field


def _cells(record: Record) -> Iterator[Cell]:
    where = record.whole("table"), cast(Pass, record.choice("pass", PASSES)), _flag(record, "dropout"), _flag(record, "mask")
    method, unit = record.text("method"), cast(Unit, record.choice("unit", UNITS))
    for column in record.values:
        if column not in COLUMNS:
            yield Cell(*where, method, int(column), record.number(column), unit)


def _flag(record: Record, key: str) -> bool:
    found = record.value(key)
    if found not in (0, 1):
        raise record.fault(key, f"{key} must be 0 or 1, not {shown(found)}")
    return bool(found)
