"""What every published number comes with: its source, how it was read, and the problem that was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from iosim.study.published.documents import Document, read_document
from iosim.study.published.records import Record, shown

Row = TypeVar("Row")
Given = str | os.PathLike[str] | None

DATA = Path(__file__).with_name("data")


@dataclass(frozen=True, slots=True)
class Setup:
    """The problem that was measured: ``batch * heads`` heads of Q, K, V ``(n, d)`` on ``device``.

    ``n`` is None where every number has its own. ``dropout`` (a probability) and ``mask`` are what was used where a number says
    that there was dropout or a mask. ``assumed`` names the fields that the source does not state.
    """

    d: int
    batch: int
    heads: int
    dtype: str
    dropout: float
    mask: str
    device: str
    n: int | None = None
    assumed: tuple[str, ...] = ()

    @property
    def instances(self) -> int:
        """``batch * heads``, as :class:`iosim.core.problem.Attention` calls it."""
        return self.batch * self.heads


@dataclass(frozen=True, slots=True)
class Dataset(Generic[Row]):
    """Published rows with their ``source`` and how they were ``read``."""

    name: str
    source: str
    read: str
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Measured(Dataset[Row]):
    """Published rows of one measured problem; ``error`` is the reading error (plus or minus) of each digitised field."""

    setup: Setup
    error: Mapping[str, float]


Read = Callable[[Document], tuple[Row, ...]]


def located(path: Given, shipped: str) -> Path:
    """The data file at ``path``, or the ``shipped`` one where that is None."""
    return DATA / shipped if path is None else Path(path)


def stated(path: Path, key: str, rows: Read[Row]) -> Dataset[Row]:
    """The data file at ``path``; ``rows`` reads what stands under ``key``."""
    document = read_document(path)
    document.top.only("name", "source", "read", key)
    return Dataset(*_origin(document), rows(document))


def measured(path: Path, key: str, rows: Read[Row]) -> Measured[Row]:
    """The same for rows that were measured, whose file has a ``[setup]`` and, if digitised, an ``[error]``."""
    document = read_document(path)
    document.top.only("name", "source", "read", "setup", "error", key)
    setup, found = _setup(document.table("setup")), rows(document)
    error = document.table("error") if "error" in document.top.values else document.top.inner("error")
    for name in error.values:
        if not hasattr(found[0], name):
            raise error.fault(name, f"error names {shown(name)}, which is no field of a row")
    return Measured(*_origin(document), found, setup, error.numbers())


def unique(rows: Iterable[tuple[Record, Row]], *fields: str) -> tuple[Row, ...]:
    """The rows, each given with its record; raises :class:`BadInput` where two are the same in all ``fields``."""
    kept: list[Row] = []
    seen: dict[tuple[object, ...], int] = {}
    for record, row in rows:
        where = tuple(getattr(row, field) for field in fields)
        if where in seen:
            what = ", ".join(f"{field.strip('_')} {shown(value)}" for field, value in zip(fields, where, strict=True))
            raise record.fault(fields[0], f"{what} is given twice, first on line {seen[where]}; keep one of them")
        seen[where] = record.line
        kept.append(row)
    return tuple(kept)


def entries(document: Document, name: str, build: Callable[[Record], Row], *fields: str) -> tuple[Row, ...]:
    """What ``build`` makes of each entry ``[[name]]``; no two may be the same in all ``fields``."""
    return unique(((record, build(record)) for record in document.entries(name)), *fields)


def rows_of(form: type[Row], *fields: str) -> Read[Row]:
    """A reader of the entries ``[[row]]`` as dataclasses of one ``form``; no two may be the same in all ``fields``."""
    return lambda document: entries(document, "row", lambda record: record.build(form), *fields)


def _origin(document: Document) -> tuple[str, str, str]:
    top = document.top
    return top.text("name"), top.text("source"), top.text("read")


def _setup(record: Record) -> Setup:
    found = record.build(Setup, dropout=lambda key: record.number(key, least=0.0))
    if found.dropout >= 1:
        raise record.fault("dropout", f"dropout must be a probability below 1, not {found.dropout:g}")
    for name in found.assumed:
        if name not in record.values:
            raise record.fault("assumed", f"assumed names {name!r}, which the setup does not give")
    return found
