"""One record of a trace as an event, after a check of its fields."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import get_args

from iosim.core.errors import BadInput
from iosim.core.events import Box, Event, Kind

FIELDS = Event.__slots__
LARGEST = 2**53  # what every reader of JSON keeps exact
LONGEST = 100
AXES = {"begin": 1, "end": 0}
SHOWN = 40  # characters of what is quoted


def event_of(record: Mapping[str, object]) -> Event:
    """The event; raises :class:`BadInput` naming the field that is wrong, and what it must be."""
    if set(record) != set(FIELDS):
        raise BadInput(f"its fields are {printable(' '.join(record), 2 * SHOWN)}, not {' '.join(FIELDS)}")
    kind, name = record["kind"], record["name"]
    if kind not in get_args(Kind):
        raise BadInput(f"its kind is {kind!r:.40}, not one of {' '.join(get_args(Kind))}")
    if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= LONGEST:
        raise BadInput(f"its name is {name!r:.40}, not a text of 1 to {LONGEST} printable characters")
    words, itemsize, times, sram = (whole(record, field) for field in FIELDS[3:])
    if times != 1:
        raise BadInput(f"it stands for {times} visits, but a trace has one line for each")
    event = Event(kind, name, box_of(kind, record["box"]), words, itemsize, times, sram)  # type: ignore[arg-type]  # one of the kinds
    _check_claims(event)
    return event


def unique(fields: list[tuple[str, object]]) -> dict[str, object]:
    """The fields of one JSON object; raises :class:`BadInput` for a field that is there twice, of which readers take either."""
    found = dict(fields)
    if len(found) < len(fields):
        names = [name for name, _ in fields]
        raise BadInput(f"it has the field {printable(next(name for name in names if names.count(name) > 1))} twice")
    return found


def printable(text: str, most: int = SHOWN) -> str:
    """The beginning of a text from a file, on one line and without control characters; "" for nothing but spaces."""
    words = " ".join(text.split())
    shown = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in words[:most])
    return f"{shown}…" if len(words) > most else shown


def whole(record: Mapping[str, object], field: str) -> int:
    """A field that is a whole number from 0; raises :class:`BadInput` for a fraction, a NaN, a truth value or a text."""
    found = record[field]
    if type(found) is not int or not 0 <= found < LARGEST:
        raise BadInput(f"its {field} is {found!r:.40}, not a whole number from 0 to below 2^53")
    return found


def box_of(kind: object, found: object) -> Box:
    """The box: for each axis of its kind [start, stop], 0 <= start < stop."""
    axes = AXES.get(str(kind), 2)
    if not isinstance(found, list) or len(found) != axes or not all(map(_is_span, found)):
        wanted = "[]" if axes == 0 else f"{axes} of [start, stop] with 0 <= start < stop"
        raise BadInput(f"its box is {found!r:.40}, not {wanted}")
    return tuple((start, stop) for start, stop in found)


def _is_span(found: object) -> bool:
    if not isinstance(found, list) or [type(end) for end in found] != [int, int]:
        return False
    start, stop = found
    return bool(0 <= start < stop < LARGEST)


def _check_claims(event: Event) -> None:
    """Raise where words and itemsize are not those of the box and the kind."""
    if event.kind in AXES:
        if event.words or event.itemsize or event.name != "tile":
            told = f"name {event.name!r:.40}, words {event.words}, itemsize {event.itemsize}"
            raise BadInput(f"it has {told}, but to {event.kind} a tile has the name 'tile' and no words")
        return
    held = math.prod(stop - start for start, stop in event.box)
    if event.words != held:
        raise BadInput(f"its words are {event.words:,}, but its box holds {held:,}")
    if event.itemsize not in (1, 2, 4, 8):
        raise BadInput(f"its itemsize is {event.itemsize}, not 1, 2, 4 or 8 bytes")
    if event.kind == "alloc" and any(start for start, _ in event.box):
        raise BadInput("its box does not begin at 0, but a computed value has no place in HBM")
