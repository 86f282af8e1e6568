"""Traces from files: event lines as ``iosim trace`` writes them, checked one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from iosim.animation.limits import MOST_EVENTS, MOST_WORDS
from iosim.animation.steps import DECLARED
from iosim.errors import BadInput
from iosim.events import Event, Kind

REMEDY = "write one with: iosim trace KERNEL --out FILE"
LONGEST = 1000  # characters of a line
FIELDS = Event.__slots__


def read_trace(path: str) -> list[Event]:
    """The events of a file; raises :class:`BadInput`, in one line, for what is no trace, another version's or cut short."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = list(islice(_lines(file, path), 2 * MOST_EVENTS + 1))
    if len(lines) > 2 * MOST_EVENTS:
        raise BadInput(f"{path} has more than {2 * MOST_EVENTS:,} events, too many to animate; trace a smaller problem, as --n 32 --d 4")
    events = [_event(path, number, line) for number, line in enumerate(lines, start=1)]
    shown = sum(event.kind != "use" for event in events)
    if shown > MOST_EVENTS:
        raise BadInput(
            f"{path}: {shown:,} events are too many to animate, the limit is {MOST_EVENTS:,}; trace a smaller problem, as --n 32 --d 4"
        )
    _check_whole(path, events)
    return events


def _lines(file: Iterator[str], path: str) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if not line.endswith("\n"):
            raise BadInput(f"{path} is {'no trace' if number == 1 else f'cut short in line {number}'}; {REMEDY}")
        yield line


def _event(path: str, number: int, line: str) -> Event:
    try:
        record = json.loads(line) if len(line) <= LONGEST else None
    except ValueError:
        record = None
    if not isinstance(record, dict) or "kind" not in record:
        raise BadInput(f"{path}, line {number}, is no event of a trace; {REMEDY}")
    if tuple(record) != FIELDS or record["kind"] not in get_args(Kind):
        found = f"{record['kind']} with {' '.join(map(str, record))}"[:80]
        raise BadInput(f"{path} is a trace of another version: line {number} is {found}, not {' '.join(FIELDS)}; {REMEDY}")
    if not _sound(record):
        raise BadInput(f"{path}, line {number}, holds what no event does: {line.strip()[:60]}; {REMEDY}")
    return Event(**{**record, "box": tuple((start, stop) for start, stop in record["box"])})


def _sound(record: dict[str, object]) -> bool:
    """Whether every field has its type, and the box its axes and its words."""
    numbers, box = [record[name] for name in ("words", "itemsize", "times", "sram")], record["box"]
    axes = {"begin": 1, "end": 0}.get(str(record["kind"]), 2)
    if not all(type(number) is int and 0 <= number < 2**53 for number in numbers) or record["times"] != 1:
        return False
    if not isinstance(record["name"], str) or not isinstance(box, list) or len(box) != axes:
        return False
    if not all(isinstance(span, list) and len(span) == 2 and all(type(end) is int for end in span) for span in box):
        return False
    return all(0 <= start < stop for start, stop in box) and (axes != 2 or record["words"] == np.prod([b - a for a, b in box]))


def _check_whole(path: str, events: list[Event]) -> None:
    """Raise :class:`BadInput` unless every tile ends, every output is written whole and every input read: else the end is missing."""
    touched: dict[str, NDArray[np.bool_]] = {}
    kinds: dict[str, str] = {}
    depth = 0
    for number, event in enumerate(events, start=1):
        depth += {"begin": 1, "end": -1}.get(event.kind, 0)
        if event.kind in DECLARED:
            _declare(path, event, kinds, touched)
        elif event.kind in ("load", "store", "init"):
            _touch(path, number, event, touched)
        if depth < 0:
            raise BadInput(f"{path}, line {number}, ends a tile that never began; {REMEDY}")
    if depth or not touched:
        raise BadInput(f"{path} is cut short: {depth} tiles are open after line {len(events)}; {REMEDY}")
    for name, seen in touched.items():
        if kinds[name] != "scratch" and not seen.all():
            row, read = int(np.argmin(seen.all(axis=1))), kinds[name] == "input"
            masked = (
                ", or a mask leaves it out, which no trace tells: draw the run itself, with iosim trace KERNEL --html FILE" if read else ""
            )
            raise BadInput(f"{path} is cut short: row {row} of {name} is never {'read' if read else 'written'}{masked or f'; {REMEDY}'}")


def _declare(path: str, event: Event, kinds: dict[str, str], touched: dict[str, NDArray[np.bool_]]) -> None:
    words = event.words + sum(array.size for array in touched.values())
    if words > MOST_WORDS:
        raise BadInput(f"{path} has {words:,} words of HBM, too many to animate; the limit is {MOST_WORDS:,}: trace a smaller problem")
    kinds[event.name] = event.kind
    touched[event.name] = np.zeros((event.box[0][1], event.box[1][1]), np.bool_)


def _touch(path: str, number: int, event: Event, touched: dict[str, NDArray[np.bool_]]) -> None:
    (top, bottom), (left, right) = event.box
    array = touched.get(event.name)
    if array is None or bottom > array.shape[0] or right > array.shape[1]:
        raise BadInput(f"{path}, line {number}, moves {event.name}[{top}:{bottom}, {left}:{right}], which no line declares; {REMEDY}")
    array[top:bottom, left:right] = True
