"""A TOML file as records that know their lines; the standard library's parser does not keep them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from iosim.core.errors import BadInput
from iosim.study.published.records import Record

HEADER = re.compile(r"\[+\s*([\w.-]+)\s*\]+\s*(?:#.*)?")
KEY = re.compile(r"([\w-]+)\s*=")


@dataclass(slots=True)
class _Place:
    line: int
    lines: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Document:
    """One TOML file: the values at its top as a record, and those under its headers."""

    path: Path
    top: Record
    _places: Mapping[str, list[_Place]]

    def table(self, name: str) -> Record:
        """What stands under the header ``[name]``; raises :class:`BadInput` where there is none."""
        found = self.top.value(name)
        if not isinstance(found, dict) or len(self._places.get(name, [])) != 1:
            raise self.top.fault(name, f"{name} must be a table under a header [{name}]")
        return self._record(name, 0, found)

    def entries(self, name: str) -> list[Record]:
        """What stands under each header ``[[name]]``; raises :class:`BadInput` where there is none."""
        found = self.top.value(name)
        if not isinstance(found, list) or not found or len(found) != len(self._places.get(name, [])):
            raise self.top.fault(name, f"every {name} needs a header [[{name}]] of its own")
        return [self._record(name, index, entry) for index, entry in enumerate(found)]

    def _record(self, name: str, index: int, values: Mapping[str, object]) -> Record:
        place = self._places[name][index]
        return Record(self.top.file, place.line, values, place.lines)


def read_text(path: Path) -> str:
    """The text of a data file; raises :class:`BadInput` when it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as fault:
        line = fault.object[: fault.start].count(b"\n") + 1
        raise BadInput(f"{named(path)}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise BadInput(f"the data file {named(path)} cannot be read: {why}; give the path of a .toml file") from None


def read_document(path: Path) -> Document:
    """Read one TOML file; raises :class:`BadInput`, which names file and line, when it is not TOML."""
    text = read_text(path)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise BadInput(f"{named(path)}, line 1: nested too deeply; write tables and entries under headers") from None
    except ValueError as fault:
        raise BadInput(f"{named(path)}, line {_line_of(fault, text)}: not TOML: {fault}") from None
    places = _places(text)
    return Document(path, Record(named(path), 1, values, places[""][0].lines), places)


def named(path: Path) -> str:
    """The path as messages name it: on one line, whatever it holds."""
    return ascii(str(path))[1:-1]


def _places(text: str) -> dict[str, list[_Place]]:
    """Where each header stands, and each key below it; keys before the first header are under the name ""."""
    current = _Place(1)
    places = {"": [current]}
    for number, line in enumerate(text.split("\n"), 1):
        if header := HEADER.fullmatch(line.strip()):
            current = _Place(number)
            places.setdefault(header[1], []).append(current)
        elif key := KEY.match(line.lstrip()):
            current.lines.setdefault(key[1], number)
    return places


def _line_of(fault: ValueError, text: str) -> int:
    found = re.search(r"at line (\d+)", str(fault))
    return int(found[1]) if found else text.count("\n") + 1
