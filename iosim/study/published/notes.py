"""Known misprints, doubts and conditions of the published numbers, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from iosim.core.errors import BadInput
from iosim.study.published.cells import Cell
from iosim.study.published.datasets import Given, entries, located, stated
from iosim.study.published.documents import Document
from iosim.study.published.records import Record

Kind = Literal["misprint", "doubt", "condition"]

KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Note:
    """One remark: what it is ``about`` (names of data files), what it says, and the ``numbers`` that it works out.

    ``misprint``: the number cannot be right. ``doubt``: it fits badly with others. ``condition``: it was measured in a way that
    matters. ``tables``, ``methods`` and ``up_to_n`` narrow the cells that it concerns; empty means all of them.
    """

    name: str
    kind: Kind
    about: tuple[str, ...]
    text: str
    numbers: Mapping[str, float]
    tables: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()
    up_to_n: int | None = None

    def concerns(self, cell: Cell) -> bool:
        """Whether this remark is about ``cell``; one about a figure concerns no cell."""
        method = not self.methods or cell.method in self.methods
        return cell.table in self.tables and method and (self.up_to_n is None or cell.n <= self.up_to_n)


def notes(about: str | None = None, *, kind: Kind | None = None, path: Given = None) -> list[Note]:
    """The remarks ``about`` one data file and of one ``kind``, or all; from the .toml file at ``path`` where that is given.

    Raises :class:`BadInput` for a kind or a data file without a remark, and, naming file and line, for data that does not parse.

    >>> [note.name for note in notes(kind="misprint")]
    ['megatron-table-9']
    """
    found = list(stated(located(path, "notes.toml"), "note", _notes))
    files = sorted({name for note in found for name in note.about})
    if about is not None and about not in files:
        raise BadInput(f"no note is about {about!r}; notes are about: {', '.join(files)}")
    if kind is not None and kind not in KINDS:
        raise BadInput(f"there is no note of the kind {kind!r}; kinds are: {', '.join(KINDS)}")
    return [note for note in found if about in (None, *note.about) and kind in (None, note.kind)]


def _notes(document: Document) -> tuple[Note, ...]:
    return entries(document, "note", _note, "name")


def _note(record: Record) -> Note:
    found = record.build(Note, kind=lambda key: record.choice(key, KINDS))
    if not found.about:
        raise record.fault("about", "about is missing; name the data files that the note is about")
    return found
