"""Traces from files: JSON lines as ``iosim trace`` writes them, each checked against those before it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import chain
from typing import NoReturn

from iosim.attention.trace import VERSION, Seal
from iosim.core.errors import BadInput
from iosim.core.events import Event
from iosim.core.units import Unit
from iosim.show.animation import limits
from iosim.show.animation.event_fields import event_of, printable, unique
from iosim.show.animation.steps import DECLARED
from iosim.show.animation.trace_state import TraceState, open_tiles

REMEDY = "write one with: iosim trace KERNEL --out FILE"
AGAIN = "write it again with: iosim trace KERNEL --out FILE"
SMALLER = "--n 32 --d 4 --blocks 4x4"
LONGEST = 1000  # bytes of a line
EXTRAS = ("version", "last", "check")
SIGNS = {
    b"\x1f\x8b": "is compressed by gzip; unpack it first, with: gunzip FILE.gz",
    b"BZh": "is compressed by bzip2; unpack it first, with: bunzip2 FILE.bz2",
    b"\xfd7zXZ": "is compressed by xz; unpack it first, with: unxz FILE.xz",
    b"PK\x03\x04": "is a zip archive; unpack it first, with: unzip FILE.zip",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; unpack it first, with: unzstd FILE.zst",
    b"\xff\xfe": f"is UTF-16 text, as > writes in some shells, not UTF-8; {AGAIN}",
    b"\xfe\xff": f"is UTF-16 text, not UTF-8; {AGAIN}",
    b"\xef\xbb\xbf": f"begins with a byte order mark, which some editors add; save it as UTF-8 without one, or {AGAIN}",
    b"[\n": f"is one JSON document, not JSON lines; {AGAIN}, without --json",
    b"kind,name,": f"is a table, not JSON lines; {AGAIN}, without --csv",
}


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a file without ``use``, which moves nothing, and the unit in which they count SRAM."""

    events: list[Event]
    unit: Unit


def read_trace(path: str) -> Trace:
    """The trace in a file.

    Raises :class:`BadInput`, in one line that names the line of the file, for what is no trace, another version's, cut short, changed
    anywhere, or could not have happened; and for one that is too large to animate. Spaces, line ends, the order of the fields, letters
    written as \\u escapes and -0 for 0 change nothing; a field that is there twice does. Raises :class:`OSError`, with the path in it,
    where the file cannot be read.
    """
    with opened(path) as file:
        reader = Reader(path, file)
        events = [event for event in reader.events() if event.kind != "use"]
    if not any(event.kind in ("load", "store", "init") for event in events):
        raise BadInput(f"{reader.path} moves nothing, so that there is nothing to show; {REMEDY}")
    return Trace(events, reader.run.unit)


def opened(path: str) -> BufferedReader:
    """The file, if it can be read at all."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise BadInput(f"there is no file {named(path)}; {REMEDY}") from None
    except IsADirectoryError:
        raise BadInput(f"{named(path)} is a folder, not a trace; name a file in it, or {REMEDY}") from None
    except ValueError:
        raise BadInput(f"{named(path)} has a NUL character in its name; {REMEDY}") from None


def named(path: str) -> str:
    """A path on one line; control characters in it are escaped."""
    return path if path.isprintable() else ascii(path)


class Reader:
    """Reads a trace line by line, and checks that each event follows from those before it."""

    def __init__(self, path: str, file: BufferedReader) -> None:
        self.path, self.file = named(path), file
        self.seal, self.run = Seal(), TraceState()
        self.number = self.words = self.arrays = self.shown = 0
        self.before: dict[str, object] = {}

    def events(self) -> Iterator[Event]:
        """The events of a whole trace, each checked: its fields, what it does, and its seal."""
        for raw in self._lines():
            if "last" in self.before:
                self._refuse(f"comes after the end of the trace, in line {self.number - 1}; give every trace a file of its own")
            record = self._record(raw)
            event = self._event(record)
            self._check(record, event)
            self.before = record
            yield event
        if "last" not in self.before:
            self._cut()
        if self.run.missing():
            self._refuse(f"{self.run.missing()}; {AGAIN}")

    def _lines(self) -> Iterator[bytes]:
        """The lines, none longer than an event can be; the last may lack its end."""
        first = self._line()
        self._check_sign(first)
        for raw in chain((first,), iter(self._line, b"")):
            self.number += 1
            if self.number > limits.MOST_LINES:
                self._too_large(f"{limits.MOST_LINES:,} lines")
            if len(raw) > LONGEST:
                self._refuse(f"is no event of a trace: it has more than {LONGEST:,} characters; {REMEDY}")
            yield raw

    def _line(self) -> bytes:
        try:
            return self.file.readline(LONGEST + 1)
        except OSError as error:  # which does not know of what file it is
            raise OSError(error.errno, error.strerror, self.path) from None

    def _check_sign(self, first: bytes) -> None:
        if not first:
            raise BadInput(f"{self.path} is empty; {REMEDY}")
        told = next((told for sign, told in SIGNS.items() if first.startswith(sign)), None)
        if told is not None:
            raise BadInput(f"{self.path} {told}")

    def _record(self, raw: bytes) -> dict[str, object]:
        try:
            record = json.loads(raw.decode(), object_pairs_hook=unique)
        except BadInput as error:
            self._refuse(f"is no event of a trace: {error}; {REMEDY if self.number == 1 else AGAIN}")
        except (ValueError, RecursionError):
            if self.number > 1 and not raw.endswith(b"\n"):
                self._cut(f" in the middle of line {self.number}")
            self._refuse(f"is no JSON, but {shortened(raw)}; {REMEDY if self.number == 1 else AGAIN}")
        if not isinstance(record, dict):
            self._refuse(f"is no event of a trace, but {shortened(raw)}; {REMEDY if self.number == 1 else AGAIN}")
        if self.number == 1:
            self._check_version(record)
        return record

    def _check_version(self, record: dict[str, object]) -> None:
        version = record.get("version")
        if version == VERSION and type(version) is int:
            return
        if version is None and "check" in record:
            self._refuse(f"is not the first line of a trace: lines before it are missing; {AGAIN}")
        if version is None and not {"kind", "name", "box"} <= set(record):
            self._refuse(f"is JSON, but no event of a trace; {REMEDY}")
        told = "1" if version is None else json.dumps(version)
        raise BadInput(f"{self.path} is a trace of version {told:.20}, and this iosim reads version {VERSION}; {AGAIN}")

    def _event(self, record: dict[str, object]) -> Event:
        try:
            event = event_of({name: value for name, value in record.items() if name not in EXTRAS})
        except BadInput as error:
            self._refuse(f"is no event of a trace: {error}; {AGAIN}")
        self._check_size(event)
        return event

    def _check_size(self, event: Event) -> None:
        """Raise before anything is too much for this machine, or for a page."""
        self.words += event.words if event.kind in DECLARED else 0
        if self.words > limits.MOST_WORDS:
            self._too_large(f"{limits.MOST_WORDS:,} words of HBM")
        self.arrays += event.kind in DECLARED
        if self.arrays > limits.MOST_ARRAYS:
            self._too_large(f"{limits.MOST_ARRAYS:,} arrays")
        self.shown += event.kind != "use"
        if self.shown > limits.MOST_EVENTS:
            self._too_large(f"{limits.MOST_EVENTS:,} events")

    def _check(self, record: dict[str, object], event: Event) -> None:
        broken = self._broken(record, event)
        if broken and record == self.before:
            self._refuse(f"repeats line {self.number - 1}; {AGAIN}")
        try:
            self.run.follow(event)
        except BadInput as error:
            self._refuse(f"{error}; {AGAIN}")
        if broken:
            after = f" and line {self.number - 1}" if self.number > 1 else ""
            self._refuse(f"does not end in the check of its text{after}: a line was changed, moved or left out here; {AGAIN}")

    def _broken(self, record: dict[str, object], event: Event) -> bool:
        """Whether the seal of a line is not that of its text and the lines before it."""
        last = "last" in record
        self.seal.line(event, last=last)
        expected = {**({"version": VERSION} if self.number == 1 else {}), **({"last": True} if last else {}), "check": self.seal.check}
        return {name: record[name] for name in EXTRAS if name in record} != expected

    def _too_large(self, most: str) -> NoReturn:
        """Refuse at once, without reading the rest."""
        told = f"line {self.number}, is one too many: more than {most} are too large to animate"
        raise BadInput(f"{self.path}, {told}; trace a smaller problem, as with {SMALLER}")

    def _cut(self, where: str = "") -> NoReturn:
        inside = f", where {open_tiles(len(self.run.tiles))}" if self.run.tiles else ""
        raise BadInput(f"{self.path} is cut short{where or f' after line {self.number}'}{inside}; {AGAIN}")

    def _refuse(self, told: str) -> NoReturn:
        raise BadInput(f"{self.path}, line {self.number}, {told}")


def shortened(raw: bytes) -> str:
    """The beginning of a line, as people can read it."""
    return printable(raw.decode(errors="replace")) or "empty"
