"""Pictures: how often each tile of each HBM array moved, as text that reads without colour, and as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from iosim.core.events import Event
from iosim.course.spec import Trial

Int = NDArray[np.int64]
WIDTH, HEIGHT = 60, 5  # cells of one array across and down; what has more is drawn with fewer, larger ones
LINES = 20
BEFORE = 30  # columns for the name, the way and the passes
SIGNS = "·123456789"
WAYS = {"load": "read", "store": "written", "init": "written"}


@dataclass(frozen=True, slots=True)
class Panel:
    """How often each tile of an array was read, or written: ``times[row, column]``; and the words that moved, in passes over it."""

    name: str
    way: str
    times: Int
    passes: float

    @property
    def told(self) -> str:
        """The passes in words."""
        if self.passes < 1:
            return f"{100 * self.passes:.0f} % of it" if self.passes >= 0.01 else "< 1 % of it"
        return "1 pass" if self.passes == 1 else f"{self.passes:.3g} passes"


def panels(asked: Trial, moves: Sequence[Event]) -> list[Panel]:
    """One for each array and way that is moved at all, in the order of the parameters."""
    shapes = {**asked.inputs, **asked.outputs, **asked.scratch}
    shapes |= {event.name: _extent(moves, event.name) for event in moves if event.name not in shapes}
    return [
        _panel(name, way, shape, mine)
        for name, shape in shapes.items()
        for way in ("read", "written")
        if (mine := [event for event in moves if event.name == name and WAYS[event.kind] == way])
    ]


def picture(asked: Trial, moves: Sequence[Event]) -> str:
    """At most 20 lines of at most 100 columns: a cell is a tile, its digit how often it moved (· never, + ten times or more)."""
    lines = [line for panel in panels(asked, moves) for line in _lines(panel)]
    if not lines:
        return f"No tile moved ({asked.label})"
    title = f"Tiles that moved ({asked.label}); a digit says how often{_other_signs(lines)}"
    return "\n".join([title, *lines[: LINES - 2], *(["..."] if len(lines) > LINES - 2 else [])])


def picture_html(asked: Trial, moves: Sequence[Event]) -> str:
    """The same as an HTML table of tables, darker where a tile moved more often."""
    drawn = panels(asked, moves)
    most = max((int(panel.times.max()) for panel in drawn), default=1)
    cells = ([f"<b>{escape(panel.name)}</b>", panel.way, panel.told, _cells(panel, most)] for panel in drawn)
    rows = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in cells)
    return f"<table><caption>Tiles that moved ({escape(asked.label)})</caption>{rows}</table>"


def _cells(panel: Panel, most: int) -> str:
    rows = ("".join(f"<td style='{_shade(int(count), most)}'>{count or ''}</td>" for count in row) for row in panel.times)
    return f"<table style='border-collapse:collapse'>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _shade(count: int, most: int) -> str:
    depth = 0.15 + 0.75 * count / most if count else 0
    return f"border:1px solid #888;min-width:1em;text-align:center;background:rgba(70,130,220,{depth:.2f})"


def _panel(name: str, way: str, shape: tuple[int, int], moves: Sequence[Event]) -> Panel:
    """A narrow array, cut by rows only, lies on its side, so that its tiles stand in a line."""
    rows, cols = (_cuts([event.box[axis] for event in moves], shape[axis]) for axis in (0, 1))
    times = np.zeros((len(rows) - 1, len(cols) - 1), np.int64)
    for event in moves:
        (top, bottom), (left, right) = (np.searchsorted(cut, span) for cut, span in zip((rows, cols), event.box, strict=True))
        times[top:bottom, left:right] += event.times
    return Panel(
        name, way, times.T if times.shape[1] == 1 else times, sum(event.words * event.times for event in moves) / (shape[0] * shape[1])
    )


def _cuts(spans: Sequence[tuple[int, int]], length: int) -> Int:
    """The edges of the tiles along an axis."""
    return np.unique([0, length, *(edge for span in spans for edge in span)])


def _extent(moves: Sequence[Event], name: str) -> tuple[int, int]:
    """The shape of an array that the trial does not know, as far as it moved."""
    rows, cols = (max(event.box[axis][1] for event in moves if event.name == name) for axis in (0, 1))
    return rows, cols


def _lines(panel: Panel) -> list[str]:
    before = f"{panel.name[:8]:<8} {panel.way:<7} {panel.told:<12} "
    cells = _fewer(_fewer(panel.times, WIDTH).T, HEIGHT).T
    rows = ["".join(SIGNS[count] if count < len(SIGNS) else "+" for count in row) for row in cells.tolist()]
    return [(before if place == 0 else " " * len(before)) + row for place, row in enumerate(rows)]


def _other_signs(lines: Sequence[str]) -> str:
    """What the signs that are no digits mean, where there are such."""
    cells = "".join(line[BEFORE:] for line in lines)
    return "".join(f", {sign} {meaning}" for sign, meaning in (("·", "never"), ("+", "10 times or more")) if sign in cells)


def _fewer(times: Int, most: int) -> Int:
    """At most so many columns: neighbours are drawn as one, with the most that any of them moved."""
    cells = times.shape[1]
    return times if cells <= most else np.maximum.reduceat(times, range(0, cells, -(-cells // most)), axis=1)
