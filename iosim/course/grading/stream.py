"""The bytes that a kernel submission left, checked as a whole before any of them is believed: frames, fields, handles, one end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import IosimError
from iosim.course.grading import records as r
from iosim.course.grading.results import printable

Bool = NDArray[np.bool_]
Int = NDArray[np.int64]
Table = NDArray[np.void]

LAYOUT = np.dtype(
    [("op", "u1"), ("flags", "u1"), ("line", "<u2"), *((name, "<u4") for name in r.FIELDS[3:9]), ("scalar", "<u8"), ("name", "V16")]
)
MOST_FLAGS = {r.NEXT: 7, r.STORE: 1, r.SEEN: r.UNVISITED_ROWS, r.PAIRS: r.KEPT, r.FAIL: r.WHERE_IT_WAS}


class Refused(IosimError):
    """A stream that no listing leaves, or that asks for more than it may; ``says`` why, ``line``: of the submission, where one is known."""

    def __init__(self, says: str, line: int | None = None) -> None:
        super().__init__(says)
        self.says, self.line = says, line or None


class Failed(Refused):
    """The listing ended with an exception: its type and message as it told them, and the ``lines`` that it passed, outermost first."""

    def __init__(self, kind: str, message: str, lines: tuple[int, ...]) -> None:
        super().__init__(f"{kind}: {message}" if message else kind, lines[-1] if lines else None)
        self.kind, self.message, self.lines = kind, message, lines


@dataclass(frozen=True, slots=True)
class Records:
    """Records that are sound one by one. ``made``: which of them made each handle, from 1. ``failed``: how it ended, if not well."""

    data: bytes
    table: Table
    made: Int
    failed: Failed | None

    def __iter__(self) -> Iterator[tuple[int, int, int, int, int, int, int, int, int, float, bytes]]:
        return r.RECORD.iter_unpack(self.data)

    def maker(self, handle: int) -> dict[str, int]:
        """The fields of the record that made ``handle``."""
        row = self.table[self.made[handle - 1]]
        return {name: int(row[name]) for name in r.FIELDS[:9]}

    def label(self, handle: int) -> str:
        """The label that the record gave it."""
        return label(self.table[self.made[handle - 1]]["name"].tobytes())

    def uses(self, handle: int) -> Int:
        """The records that name ``handle``, in order."""
        ops = self.table["op"]
        return np.sort(np.concatenate([np.flatnonzero(HANDLES[name][ops] & (self.table[name] == handle)) for name in HANDLES]))

    def crossed(self, handle: int, at: int) -> bool:
        """Whether a tile began or ended after ``handle`` was made and before record ``at``."""
        steps = np.flatnonzero(self.table["op"][:at] == r.NEXT)
        loops, out = self.table["a"][steps], self.table["out"][steps]
        moves = np.isin(loops, loops[out != 0])  # an empty loop opens and closes nothing
        return bool((steps[moves] > self.made[handle - 1]).any())


def parse(stream: bytes, most: int) -> Records:
    """The records of a stream, of which there are at most ``most``; raises :class:`Refused` for anything else, before it is read."""
    if len(stream) > most * (r.RECORD.size + r.LENGTH.size):
        raise Refused(f"it does more than {most:,} operations")
    data = b"".join(frames(stream))
    if len(data) // r.RECORD.size > most:
        raise Refused(f"it does more than {most:,} operations")
    table = np.frombuffer(data, LAYOUT)
    body = check_end(table)
    check_fields(table)
    made = check_handles(table)
    return Records(data[: body * r.RECORD.size], table, made, failure(table[body:]) if body < len(table) else None)


def frames(stream: bytes) -> Iterator[memoryview]:
    """The bytes of every frame; a length is checked before it is believed."""
    view, at = memoryview(stream), 0
    while at < len(view):
        if len(view) - at < r.LENGTH.size:
            raise Refused("the stream is cut short")
        (size,) = r.LENGTH.unpack_from(view, at)
        at += r.LENGTH.size
        if not 0 < size <= r.FRAME or size % r.RECORD.size:
            raise Refused(f"the stream has a frame of {size:,} bytes, which is no row of records")
        if size > len(view) - at:
            raise Refused("the stream is cut short")
        yield view[at : at + size]
        at += size


def check_end(table: Table) -> int:
    """How many records come before FAIL, which ends the stream, or stand before END and with it; one of them ends it, once."""
    ops = table["op"]
    ends = np.flatnonzero(ops >= r.END)
    if not len(ends):
        raise Refused("it ended without finishing (exit, kill or crash)")
    first = int(ends[0])
    more = first + 1 < len(ops) if ops[first] == r.END else bool((ops[first:] != r.FAIL).any())
    if more:
        raise Refused("something follows the end of the stream")
    return len(ops) if ops[first] == r.END else first


def check_fields(table: Table) -> None:
    """Raise :class:`Refused` unless every operation exists and leaves the fields that it does not use 0."""
    ops = table["op"]
    refuse_first(table, (ops == 0) | (ops > r.FAIL), "operation {op} does not exist")
    for name in ("flags", *r.FIELDS[3:10]):
        refuse_first(table, ~USES[name][ops] & (table[name] != 0), f"operation {{op}} has no field {name}")
    named = np.ascontiguousarray(table["name"]).view("<u8").reshape(-1, 2).any(axis=1)
    refuse_first(table, ~USES["name"][ops] & named, "operation {op} has no field name")
    refuse_first(table, table["flags"] > FLAGS[ops], "operation {op} has no such flags")


def check_handles(table: Table) -> Int:
    """Which records make handles, each the next number; raises :class:`Refused` where one is not, or is named before it is made."""
    ops = table["op"]
    makes = USES["out"][ops] & ((ops != r.NEXT) | (table["out"] != 0))
    count = np.cumsum(makes)
    refuse_first(table, makes & (table["out"] != count), "handles are not in a row")
    for name, used in HANDLES.items():
        refuse_first(table, used[ops] & (table[name] > count - makes), "a handle is named before it was made")
    return np.flatnonzero(makes)


def failure(table: Table) -> Failed:
    """The exception that FAIL records tell of, each part within its bounds."""
    which = table["flags"]
    for part, most in ((r.KIND, r.MOST_KIND), (r.SAYS, r.MOST_SAYS), (r.WHERE_IT_WAS, r.MOST_TRACE)):
        if (which == part).sum() > most:
            raise Refused("the stream tells of an exception at too great length")
    if (table["a"] > r.LABEL).any():
        raise Refused("the stream tells of an exception in too long pieces")
    kind, says = (b"".join(row["name"].tobytes()[: row["a"]] for row in table[which == part]) for part in (r.KIND, r.SAYS))
    lines = tuple(int(line) for line in table["line"][which == r.WHERE_IT_WAS])
    return Failed(printable(kind) or "an exception without a name", printable(says), lines)


def label(raw: bytes) -> str:
    """The label in a name field."""
    return printable(raw.rstrip(b"\0"))


def refuse_first(table: Table, bad: Bool, says: str) -> None:
    """Raise :class:`Refused` for the first record that is bad."""
    if bad.any():
        row = table[bad.argmax()]
        raise Refused("the stream is malformed: " + says.format(op=row["op"]), int(row["line"]))


def _of_ops(has: dict[int, str], name: str) -> Bool:
    return np.array([name in has.get(op, "").split() for op in range(256)])


_HANDLES = {op: " ".join({"a", "b"} & set(uses.split())) for op, uses in r.USES.items()}
_HANDLES |= {r.LOAD: "b c", r.STORE: "b c rows", r.FAIL: ""}  # there a is the array's place, or a number of bytes
HANDLES = {name: _of_ops(_HANDLES, name) for name in ("a", "b", "c", "rows")}
USES = {name: _of_ops(r.USES, name) for name in r.FIELDS}
FLAGS = np.array([MOST_FLAGS.get(op, 0) for op in range(256)])
