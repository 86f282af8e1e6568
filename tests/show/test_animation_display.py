"""What the moving picture shows: every text and every stroke of sampled steps, read back and compared with the run's events."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations, pairwise, takewhile
from math import ceil, inf, isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from iosim import Attention, BlockMask, MovingPicture, animate, random_inputs, simulate
from iosim.attention.plan import make_plan
from iosim.core.events import Event
from iosim.memory import Machine
from iosim.show.animation.moving import picture as picture_of
from iosim.show.animation.recording import Recording
from iosim.show.animation.steps import KINDS, Steps

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser
SMALL, BLOCKS, SRAM = Attention(n=16, d=4), (4, 4), 128
MOVES = ("load", "store", "init")
SIGNS = dict(zip(KINDS, "[]▼+▲▲ƒ", strict=True))
Open = Callable[..., "Page"]
Held = dict[str, list[float]]
STATISTICS, GRADIENTS = ("m", "l", "O", "LSE"), ("dO", "dQ", "D")
Box = tuple[float, float, float, float]

# Everything that is drawn on a canvas since it was last cleared, in order.
SPY = """
const colour = style => typeof style === "string" ? style : "hatch";
const wrap = (kind, name, before) => {
  const real = kind.prototype[name];
  kind.prototype[name] = function (...given) { before(this, ...given); return real.apply(this, given); };
};
const [Context, note] = [CanvasRenderingContext2D, (c, ...what) => (c.canvas.drawn ??= []).push(what)];
wrap(Context, "clearRect", c => {
  if (c.canvas.film) c.canvas.film.push(c.canvas.drawn);
  [c.canvas.drawn, c.zoom] = [[], c.getTransform().a];
});
wrap(Context, "fillRect", (c, x, y, w, h) => note(c, "fill", [x, y, w, h], colour(c.fillStyle), c.globalAlpha));
wrap(Context, "strokeRect", (c, x, y, w, h) => note(c, "frame", [x, y, w, h], c.strokeStyle, c.lineWidth));
wrap(Context, "fillText", (c, text, x, y) => {
  const at = c.getTransform().transformPoint({x, y});
  const weight = +c.font.match(/^(\\d+) /)?.[1] || (c.font.startsWith("bold") ? 700 : 400), turned = c.getTransform().b !== 0;
  note(c, "text", text, at.x / c.zoom, at.y / c.zoom, c.textAlign, weight,
    parseFloat(c.font.match(/([\\d.]+)px/)[1]), c.fillStyle, c.globalAlpha, c.measureText(text).width, turned);
});
wrap(Context, "beginPath", c => c.way = []);
for (const kind of [Context, Path2D]) for (const name of ["moveTo", "lineTo"])
  wrap(kind, name, (c, x, y) => (c.way ??= []).push([name, x, y]));
for (const name of ["rect", "roundRect"]) wrap(Context, name, (c, x, y, w, h) => c.way.push([name, x, y, w, h]));
wrap(Context, "stroke", (c, path) => note(c, "line", (path ?? c).way, c.strokeStyle,
  Math.round(100 * c.lineWidth) / 100, c.getLineDash().length > 0));
wrap(Context, "fill", (c, path) => note(c, "area", (path ?? c).way, colour(c.fillStyle), c.globalAlpha));
"""

# What people see of every run after each deed: a position to scrub to, or the id of a button.
SEEN = """deeds => {
  const read = root => {
    const text = name => root.querySelector(name).innerText, box = one => one.getBoundingClientRect();
    const cells = row => [...row.children].map(cell => cell.innerText);
    const marked = one => getComputedStyle(one).backgroundColor !== "rgba(0, 0, 0, 0)";
    const striped = one => getComputedStyle(one).backgroundImage !== "none";
    const bars = row => [...row.querySelectorAll(".bar")].map(
      bar => [box(bar).width, box(bar.firstChild).width, box(row.querySelector(".scale")).width, striped(bar.firstChild)]);
    const frame = box(root.querySelector(".listing")), canvas = root.querySelector("canvas");
    const inside = ({top, bottom}) => top >= frame.top && bottom <= frame.bottom;
    return {
      name: text("h1"), told: text(".told"), sign: text(".sign"), event: text(".event"), label: canvas.getAttribute("aria-label"),
      listed: [...root.querySelectorAll(".listing li")].map((one, place) => [place, one]).filter(([, one]) => marked(one)).map(
        ([place, one]) => [place, one.innerText, getComputedStyle(one, "::before").content, inside(box(one))]),
      counters: [...root.querySelectorAll(".counters tr")].slice(1).map(row => [...cells(row).slice(0, 3), bars(row)]),
      sram: [...root.querySelectorAll(".sram tr")].map(cells), unit: text(".sram caption"),
      warned: getComputedStyle(root.querySelector(".overflow")).fontWeight === "700",
      kept: text(".kept"), row: [...root.querySelectorAll(".row tbody tr")].map(row => [...cells(row), marked(row)]),
      digits: Object.fromEntries([...root.querySelectorAll(".row tbody tr")].map(
        ({children: [name, chip, memory]}) => [name.innerText, [chip.title, memory.title]])),
      chosen: root.querySelector(".chosen").value, where: text(".where"), drawn: canvas.drawn,
    };
  };
  const scrub = document.getElementById("scrub");
  return JSON.stringify(deeds.map(deed => {
    if (typeof deed === "string") document.getElementById(deed).click();
    else { scrub.value = deed; scrub.dispatchEvent(new Event("input")); }
    const position = document.getElementById("position").innerText;
    return {position, slider: +scrub.value, runs: [...document.querySelectorAll(".run")].map(read)};
  }));
}"""


@pytest.fixture
def open_page(open_page: Open) -> Open:
    """Open a picture's page, its canvases spied on."""
    return partial(open_page, script=f"{{{SPY}}}")


# What the run did, from its steps alone.


@dataclass
class Resident:
    """A block on chip: its rows and columns, where it lies in SRAM and what it holds; the page's step that touched it last."""

    name: str
    rows: tuple[int, int]
    cols: tuple[int, int]
    start: int
    cost: int
    words: int
    at: int
    loaded: bool
    since: int


@dataclass
class Moment:
    """A run after ``place`` of its steps."""

    place: int = 0
    sram: int = 0
    peak: int = 0
    residents: list[Resident] = field(default_factory=list)
    scopes: list[tuple[str, int, int]] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    words: Counter[tuple[str, str]] = field(default_factory=Counter)
    moves: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    written: set[tuple[str, int, int]] = field(default_factory=set)
    visits: Counter[tuple[int, int]] = field(default_factory=Counter)
    awaited: list[tuple[int, int]] = field(default_factory=list)
    contents: dict[str, np.ndarray] = field(default_factory=dict)

    def copy(self) -> Moment:
        return replace(
            self, residents=list(self.residents), scopes=list(self.scopes), marks=list(self.marks), words=Counter(self.words),
            moves=Counter(self.moves), written=set(self.written), visits=Counter(self.visits),
            contents={name: data.copy() for name, data in self.contents.items()},
        )  # fmt: skip


class Film:
    """Every moment of a run; for runs all of whose numbers are kept."""

    def __init__(self, run: Recording) -> None:
        self.run, self.things = run, list(run.steps.things)
        self.numbers = np.frombuffer(run.pool.bytes(), run.pool.dtype)
        moved = [self.things[thing] for kind, _, thing, *_ in run.steps.rows if KINDS[kind] in MOVES]
        self.edges: dict[str, tuple[list[int], list[int]]] = {}
        start = Moment()
        for name, role, rows, cols in run.steps.arrays:
            down = {0, rows}.union(*(thing[1:3] for thing in moved if thing[0] == name))
            across = {0, cols}.union(*(thing[3:5] for thing in moved if thing[0] == name))
            self.edges[name] = (sorted(down), sorted(across))
            held = run.held.get(name)
            start.contents[name] = np.full((rows, cols), np.nan) if held is None else self.block(held, rows, cols)
            assert (held is not None) == (role == "input")
        self.moments = [start]
        for place in range(len(run.steps.rows)):
            self.moments.append(self.after(self.moments[-1].copy(), place))

    def block(self, at: int, rows: int, cols: int) -> np.ndarray:
        return self.numbers[at : at + rows * cols].reshape(rows, cols)

    def held(self, block: Resident) -> np.ndarray:
        rows = block.rows[1] - block.rows[0]
        return self.block(block.at, rows, block.words // rows)

    def after(self, now: Moment, place: int) -> Moment:
        number, _, thing, sram, at = self.run.steps.rows[place]
        kind, now.place = KINDS[number], place + 1
        if kind not in ("begin", "end", "load"):  # the first thing that is made of a tile of pairs
            now.visits.update(now.awaited)
            now.awaited = []
        if kind == "compute":
            now.residents[thing] = replace(now.residents[thing], at=at, since=now.place)
        else:
            self.done(now, kind, self.things[thing], sram, at)
        now.sram, now.peak = sram, max(now.peak, sram)
        return now

    def done(self, now: Moment, kind: str, thing: tuple[str, int, int, int, int, int], sram: int, at: int) -> None:
        name, top, bottom, left, right, words = thing
        if kind == "begin":
            now.marks.append(len(now.residents))
            now.scopes.append((name, top, bottom))
            if name in ("i", "j"):
                now.awaited = self.pairs(now)
        elif kind == "end":
            del now.residents[now.marks.pop() :]
            if now.scopes.pop()[0] in ("i", "j"):
                now.awaited = []
        elif kind in ("load", "alloc"):
            block = Resident(name, (top, bottom), (left, right), now.sram, sram - now.sram, words, at, kind == "load", now.place)
            now.residents.append(block)
        if kind in MOVES:
            now.words[name, "read" if kind == "load" else "written"] += words
            tiles = self.tiles(name, top, bottom, left, right)
            now.moves.update(tiles)
            if kind != "load":
                now.written |= set(tiles)
                now.contents[name][top:bottom, left:right] = self.block(at, bottom - top, right - left)

    def tiles(self, name: str, top: int, bottom: int, left: int, right: int) -> list[tuple[str, int, int]]:
        down, across = self.edges[name]
        return [
            (name, row, col)
            for row in range(down.index(top), down.index(bottom)) for col in range(across.index(left), across.index(right))
        ]  # fmt: skip

    def pairs(self, now: Moment) -> list[tuple[int, int]]:
        """The tiles of pairs that the open tiles stand for."""
        open_tiles = {name: (start, stop) for name, start, stop in now.scopes}
        if not {"i", "j"} <= set(open_tiles) or self.run.blocks is None:
            return []
        down, across = (
            range(start // side, ceil(stop / side))
            for (start, stop), side in zip((open_tiles["i"], open_tiles["j"]), self.run.blocks, strict=True)
        )
        return [(row, col) for row in down for col in across]

    @cached_property
    def final(self) -> Moment:
        return self.moments[-1]

    def step(self, place: int) -> tuple[str, int, int]:
        """The kind of a step, the line of the listing and the thing, by its place."""
        kind, line, thing, *_ = self.run.steps.rows[place - 1]
        return KINDS[kind], line, thing

    def words_after(self) -> list[int]:
        return [sum(moment.words.values()) for moment in self.moments[1:]]


def together(films: Sequence[Film]) -> list[tuple[int, ...]]:
    """At every position of a page, how many steps each run has made: the runs move words at one pace."""
    order = sorted((words, run, place) for run, film in enumerate(films) for place, words in enumerate(film.words_after()))
    places, counts = [(0,) * len(films)], [0] * len(films)
    for _, run, _ in order:
        counts[run] += 1
        places.append(tuple(counts))
    return places


# How numbers and steps are written.


def rounded(value: float, digits: int) -> str:
    return f"{value + 0.0:.{digits}f}".replace("-", "−")


def power(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{'' if digits == 0 and int(exponent) >= 0 else '+' if int(exponent) >= 0 else ''}{int(exponent)}".replace("-", "−")


def endless(value: float) -> str:
    return "NaN" if isnan(value) else "∞" if value > 0 else "−∞"


def brief(value: float) -> str:
    """A number in a cell of SRAM."""
    size = abs(value)
    if not isfinite(value):
        return endless(value)
    return power(value, 0) if size >= 1000 or 0 < size < 0.005 else rounded(value, 2 if size < 10 else 1 if size < 100 else 0)


def four(value: float) -> str:
    """A number of the chosen row."""
    size = abs(value)
    if not isfinite(value):
        return endless(value)
    return power(value, 2) if size >= 1e4 or 0 < size < 1e-3 else rounded(value, 3 if size < 10 else 1)


def row_text(values: np.ndarray | None, most: float = 8) -> str:
    if values is None:
        return "–"
    if np.isnan(values).all():
        return "not written yet"
    cut = f" … {most} of {len(values)}" if len(values) > most else ""
    return " ".join(four(float(value)) for value in values[: int(min(most, len(values)))]) + cut


def plain(text: str) -> str:
    return " ".join(text.split())


def event_text(film: Film, now: Moment) -> str:
    if now.place == 0:
        return "before the first step: all inputs lie in HBM, SRAM is empty"
    kind, _, thing = film.step(now.place)
    if kind == "compute":
        return f"computed on chip: {now.residents[thing].name} is overwritten, no word moves"
    name, top, bottom, left, right, words = film.things[thing]
    return {
        "begin": f"a tile begins: {name or 'rows'} = rows {top} to {bottom - 1}",
        "end": f"the tile {name + ' ' if name else ''}ends: what was made in it is released, {now.sram:,} {film.run.unit} stay",
        "alloc": f"{name} gets room: {words:,} words, none moves",
        "load": f"load {name}[{top}:{bottom}, {left}:{right}]: {words:,} words, HBM to SRAM",
        "store": f"store {name}[{top}:{bottom}, {left}:{right}]: {words:,} words, SRAM to HBM",
        "init": f"store {name}[{top}:{bottom}, {left}:{right}]: {words:,} words, SRAM to HBM, to initialise",
    }[kind]


# The panels.


def check_panels(seen: dict[str, Any], film: Film, now: Moment, row: int, longest: int) -> None:
    run, told = film.run, event_text(film, now)
    assert (seen["name"], seen["told"]) == (run.name, f"{run.told}; M = {run.capacity:,} {run.unit}")
    assert (seen["event"], seen["sign"]) == (told, SIGNS[film.step(now.place)[0]] if now.place else "")
    assert seen["label"] == f"{told}. SRAM holds {', '.join(block.name for block in now.residents) or 'nothing'}."
    line = film.step(now.place)[1] if now.place else -1
    assert seen["listed"] == ([[line, run.lines[line], '"▶"', True]] if line >= 0 else [])
    over = max(0, now.peak - run.capacity)
    assert seen["unit"] == f"On chip, in {run.unit}"
    assert seen["sram"] == [
        ["used", f"{now.sram:,}"], ["peak so far", f"{now.peak:,}"], ["capacity M", f"{run.capacity:,}"],
        ["overflow", f"{over:,} too many" if over else "0"],
    ]  # fmt: skip
    assert seen["warned"] == (over > 0)
    check_counters(seen["counters"], film, now, longest)
    check_row(seen, film, now, row)


def words_of(film: Film, now: Moment) -> list[tuple[int, ...]]:
    """Words read and written of each array, and of all."""
    rows = [(now.words[name, "read"], now.words[name, "written"]) for name, *_ in film.run.steps.arrays]
    return [*rows, tuple(map(sum, zip(*rows, strict=True)))]


def check_counters(shown: list[Any], film: Film, now: Moment, longest: int) -> None:
    """Words so far, and bars of which the longest, of any run, stands for ``longest`` words."""
    names = [name for name, *_ in film.run.steps.arrays]
    now_all, end_all = words_of(film, now), words_of(film, film.final)
    assert [row[:3] for row in shown] == [
        [name, f"{reads:,}", f"{writes:,}"] for name, (reads, writes) in zip([*names, "all"], now_all, strict=True)
    ]
    for (*_, bars), moved, ends in zip(shown, now_all, end_all, strict=True):
        assert [bar[3] for bar in bars] == [False, True]
        for (frame, bar, room, _), so_far, end in zip(bars, moved, ends, strict=True):
            assert frame == pytest.approx(room * end / longest, abs=0.6)
            assert bar == pytest.approx(frame * so_far / end if end else 0, abs=0.1)


def quantity(name: str) -> str:
    return name if "[" in name else re.sub(r"_(i|acc|iy|ix)$", "", name)


def told_of(film: Film, name: str) -> bool:
    """Whether a run has a quantity of query rows: in HBM, or in a block."""
    return any(name == quantity(other) for other in [*film.edges, *(thing[0] for thing in film.things)])


def check_row(seen: dict[str, Any], film: Film, now: Moment, row: int) -> None:
    """Every quantity of the chosen row, on chip and in HBM, all digits in the titles; touched ones are marked."""
    assert seen["chosen"] == str(row)
    names, front = [name for name, *_ in seen["row"]], [*STATISTICS, *GRADIENTS]
    assert [name for name in names if name in front] == [name for name in front if told_of(film, name)]
    for name, chip, memory, marked in seen["row"]:
        blocks = [one for one in now.residents if quantity(one.name) == name and one.rows[0] <= row < one.rows[1]]
        block = blocks[-1] if blocks else None
        values = None if block is None else film.held(block)[row - block.rows[0]]
        stored = now.contents[name][row] if name in now.contents else None
        assert [plain(chip), plain(memory)] == [row_text(values), row_text(stored)], name
        assert marked == (block is not None and block.since == now.place)
        for text, exact in zip(seen["digits"][name], (values, stored), strict=True):
            shown = [] if exact is None or np.isnan(exact).all() else exact[:8]
            assert np.array_equal([float(value.replace("Infinity", "inf")) for value in text.split()], shown, equal_nan=True)
    covered = any(one.rows[0] <= row < one.rows[1] for one in now.residents if one.name.lstrip("d")[0] not in "KV" and "_j" not in one.name)
    assert seen["where"] == ("is on chip" if covered else "is not on chip")


# The drawing.


@dataclass
class Text:
    """Words on the canvas."""

    words: str
    x: float
    y: float
    align: str
    weight: int
    size: float
    colour: str
    alpha: float
    width: float
    turned: bool

    @property
    def box(self) -> Box4:
        """What it covers, from its capitals down to its baseline."""
        high = 0.72 * self.size
        if self.turned:
            return Box4(self.x, self.y, high, self.width)
        return Box4(self.x - {"left": 0, "center": 0.5, "right": 1}[self.align] * self.width, self.y - high, self.width, high)


class Drawing:
    """What is on a canvas."""

    def __init__(self, drawn: list[list[Any]]) -> None:
        kinds: dict[str, list[list[Any]]] = {kind: [] for kind in ("fill", "frame", "text", "line", "area")}
        for kind, *what in drawn:
            kinds[kind].append(what)
        self.drawn, self.fills, self.frames, self.lines, self.areas = drawn, kinds["fill"], kinds["frame"], kinds["line"], kinds["area"]
        self.texts = [Text(*what) for what in kinds["text"]]
        zones = [Box4(*way[0][1:]) for way, *_ in self.areas if way[0][0] == "roundRect"]
        assert len(zones) == 2
        self.hbm, self.sram = zones

    def fills_in(self, box: Box4) -> list[Any]:
        """The filled rectangles that lie inside a box, in the order of drawing."""
        return [fill for fill in self.fills if box.holds(*fill[0][:2]) and box.holds(fill[0][0] + fill[0][2], fill[0][1] + fill[0][3])]

    def title(self, start: str) -> Text:
        (found,) = [text for text in self.texts if text.words.startswith(start)]
        return found

    @property
    def ink(self) -> str:
        return self.title("SRAM: ").colour

    def lines_of(self, colour: str) -> list[tuple[list[Any], float]]:
        """The drawn lines of a colour, dashed ones apart, and their widths."""
        return [(way, width) for way, other, width, dashed in self.lines if other == colour and not dashed]

    def has(self, start: str) -> bool:
        return any(text.words.startswith(start) for text in self.texts)


@dataclass(frozen=True)
class Box4:
    """A rectangle."""

    x: float
    y: float
    w: float
    h: float

    def holds(self, x: float, y: float) -> bool:
        return self.x - 0.01 <= x <= self.x + self.w + 0.01 and self.y - 0.01 <= y <= self.y + self.h + 0.01

    def encloses(self, other: Box4) -> bool:
        """Whether all of the other lies in it."""
        return self.holds(other.x, other.y) and self.holds(other.x + other.w, other.y + other.h)

    def apart(self, other: Box4) -> bool:
        """Whether they have no point in common but of their edges."""
        beside = self.x + self.w <= other.x + 0.01 or other.x + other.w <= self.x + 0.01
        return beside or self.y + self.h <= other.y + 0.01 or other.y + other.h <= self.y + 0.01

    def part(self, down: float, downs: float, across: float, acrosses: float) -> list[float]:
        """The rectangle of these shares of its height and of its width."""
        return [self.x + across * self.w, self.y + down * self.h, (acrosses - across) * self.w, (downs - down) * self.h]


def close(found: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]) -> None:
    """The same rectangles or lines, in the same order, to a hundredth of a pixel."""
    assert len(found) == len(wanted)
    assert np.allclose(found, wanted, rtol=0, atol=0.01)


def check_drawing(drawn: list[list[Any]], film: Film, now: Moment) -> dict[str, str]:
    """Compare all of a frame; returns the colour of every tensor seen in it."""
    picture = Drawing(drawn)
    hues: dict[str, set[str]] = {}
    boxes = {name: check_array(picture, film, now, name, hues) for name, *_ in film.run.steps.arrays}
    check_sizes(film, boxes)
    check_target(picture, film, now, boxes)
    check_bus(picture, now)
    check_sram(picture, film, now, hues)
    check_pairs(picture, film, now)
    check_strip(picture, film, now)
    assert all(len(colours) == 1 for colours in hues.values())
    return {name: next(iter(colours)) for name, colours in hues.items()}


def tensor(name: str) -> str:
    return re.sub(r"^d(?=[A-Z])", "", name.split("[", maxsplit=1)[0].split("_", maxsplit=1)[0])


def box_of(picture: Drawing, name: str) -> Box4:
    """The frame under an array's name."""
    (title,) = [text for text in picture.texts if text.words == name and text.align == "center" and text.weight == 700]
    under = [Box4(*frame) for frame, _, width in picture.frames if width == 1 and abs(frame[0] + frame[2] / 2 - title.x) < 0.01]
    (box,) = [box for box in under if 0 < box.y - title.y < 10]
    assert picture.hbm.holds(box.x, box.y)
    assert picture.hbm.holds(box.x + box.w, box.y + box.h)
    return box


def check_array(picture: Drawing, film: Film, now: Moment, name: str, hues: dict[str, set[str]]) -> Box4:
    """Pale tiles are in HBM, hatched ones not written yet, solid ones on chip; numbers say how often each has moved."""
    box = box_of(picture, name)
    down, across = film.edges[name]
    kind, rows, cols = next((kind, rows, cols) for other, kind, rows, cols in film.run.steps.arrays if other == name)
    tiles = [(name, row, col) for row in range(len(down) - 1) for col in range(len(across) - 1)]
    places = [box.part(down[r] / rows, down[r + 1] / rows, across[c] / cols, across[c + 1] / cols) for _, r, c in tiles]
    inside = picture.fills_in(box)
    pale, solid = [fill for fill in inside if fill[2] == 0.33], [fill for fill in inside if fill[2] == 1]
    close([fill[0] for fill in pale], places)
    assert [fill[1] == "hatch" for fill in pale] == [kind != "input" and tile not in now.written for tile in tiles]
    here = [block for block in now.residents if block.loaded and block.name == name]
    close([fill[0] for fill in solid], [box.part(*np.divide(block.rows, rows), *np.divide(block.cols, cols)) for block in here])
    for _, colour, _ in [*pale, *solid]:
        if colour != "hatch":
            hues.setdefault(tensor(name), set()).add(colour)
    assert all(fill[1] != "hatch" for fill in solid)
    told = [(int(text.words), text.x, text.y - 4) for text in picture.texts if text.words.isdigit() and box.holds(text.x, text.y)]
    room = box.h / (len(down) - 1) >= 12 and box.w / (len(across) - 1) >= 11
    moved = [(now.moves[tile], x + w / 2, y + h / 2) for tile, (x, y, w, h) in zip(tiles, places, strict=True) if now.moves[tile] and room]
    close(told, moved)
    return box


def check_sizes(film: Film, boxes: dict[str, Box4]) -> None:
    """Heights are in proportion to rows."""
    each = [boxes[name].h / rows for name, _, rows, _ in film.run.steps.arrays if boxes[name].h > 4]
    assert each == pytest.approx([each[0]] * len(each))


def check_target(picture: Drawing, film: Film, now: Moment, boxes: dict[str, Box4]) -> None:
    """The region that moved last is framed, and no other."""
    framed = [frame for frame, _, width in picture.frames if width == 2.5]
    kind, _, thing = film.step(now.place) if now.place else ("", 0, 0)
    if kind in MOVES:
        name, top, bottom, left, right, _ = film.things[thing]
        rows, cols = film.edges[name][0][-1], film.edges[name][1][-1]
        close(framed, [boxes[name].part(top / rows, bottom / rows, left / cols, right / cols)])
    else:
        assert framed == []


def check_bus(picture: Drawing, now: Moment) -> None:
    for sign, way in (("▼", "read"), ("▲", "written")):
        words = sum(count for (_, other), count in now.words.items() if other == way)
        assert picture.title(f"{sign} ").words == f"{sign} {words:,} words {way}"


def check_sram(picture: Drawing, film: Film, now: Moment, hues: dict[str, set[str]]) -> None:
    """Cells, blocks as long as their words, their names, their numbers, their outlines, and the line at M."""
    run, zone, peak = film.run, picture.sram, film.final.peak
    title = picture.title("SRAM: ").words
    found = re.fullmatch(r"SRAM: ([\d,]+) of ([\d,]+) (words|bytes)(?:, ([\d,]+) too many)?(?:, a cell is (\d+) \3)?", title)
    assert found is not None, title
    beyond = now.sram - run.capacity
    assert found.groups()[:4] == (f"{now.sram:,}", f"{run.capacity:,}", run.unit, f"{beyond:,}" if beyond > 0 else None)
    each = int(found[5] or 1)
    fills = picture.fills_in(zone)
    number, inside = ceil(max(run.capacity, peak) / each), run.capacity // each
    cells = [Box4(*fill[0]) for fill in fills[:number]]
    assert [fill[1] == "hatch" for fill in fills[:number]] == [place >= inside for place in range(number)]
    across = sum(cell.y == cells[0].y for cell in cells)
    close(
        [[cell.x, cell.y, cell.w, cell.h] for cell in cells],
        [[cells[0].x + p % across * cells[0].w, cells[0].y + p // across * cells[0].h, cells[0].w, cells[0].h] for p in range(number)],
    )
    spans = [span(block, each) for block in now.residents]
    close([fill[0] for fill in fills[number:]], [[cells[p].x, cells[p].y, cells[p].w, cells[p].h] for places in spans for p in places])
    assert all(fill[2] == 1 for fill in fills)
    colours = iter(fills[number:])
    for block, places in zip(now.residents, spans, strict=True):
        for _ in places:
            hues.setdefault(tensor(block.name), set()).add(next(colours)[1])
    check_labels(picture, film, now, cells, spans, each)
    check_outlines(picture, now, cells, spans, across)
    assert picture.has("beyond M") == (peak > run.capacity)
    check_capacity(picture, cells, inside, across, peak > run.capacity)


def span(block: Resident, each: int) -> range:
    first = block.start // each
    return range(first, max(first + 1, ceil((block.start + block.cost) / each)))


def check_labels(picture: Drawing, film: Film, now: Moment, cells: list[Box4], spans: list[range], each: int) -> None:
    texts = [text for text in picture.texts if picture.sram.holds(text.x, text.y) and text.weight in (400, 700) and text.align != "right"]
    names = [text for text in texts if text.weight == 700]
    assert len(names) == len(now.residents)
    for text, block, places in zip(names, now.residents, spans, strict=True):
        assert cells[places[0]].holds(text.x, text.y)
        assert text.words
        assert block.name.startswith(text.words)
        assert text.words == block.name or len(places) * cells[0].w < 30 + 8 * len(block.name) or cells[places[0]].y != cells[places[-1]].y
    found = [(text.words, text.x, text.y + 5) for text in texts if text.weight == 400]
    wanted = []
    for block, places in zip(now.residents, spans, strict=True):
        if block.cost == each * block.words and cells[0].w >= 30 and cells[0].h >= 24:
            values = film.numbers[block.at : block.at + block.words]
            wanted += [(brief(float(v)), cells[p].x + cells[p].w / 2, cells[p].y + cells[p].h) for v, p in zip(values, places, strict=True)]
    assert [words for words, *_ in found] == [words for words, *_ in wanted]
    close([at for _, *at in found], [at for _, *at in wanted])


def check_outlines(picture: Drawing, now: Moment, cells: list[Box4], spans: list[range], across: int) -> None:
    """Around each block, and thick around what the last step touched."""
    lines = [(way, width) for way, width in picture.lines_of(picture.ink) if on_cells(way, cells)]
    assert len(lines) == len(now.residents)
    for (way, width), block, places in zip(lines, now.residents, spans, strict=True):
        assert width == (3 if block.since == now.place else 1.2)
        assert segments(way) == edges_around(cells, set(places), across)


def on_cells(way: list[Any], cells: list[Box4]) -> bool:
    xs = {round(x, 3) for cell in cells for x in (cell.x, cell.x + cell.w)}
    return bool(way) and all(step[0] in ("moveTo", "lineTo") and round(step[1], 3) in xs for step in way)


def segments(way: list[Any]) -> set[tuple[float, ...]]:
    """The straight pieces of a path."""
    pieces = [(one[1:3], other[1:3]) for one, other in pairwise(way) if other[0] == "lineTo"]
    return {tuple(round(at, 2) for end in sorted(piece) for at in end) for piece in pieces}


def edges_around(cells: list[Box4], places: set[int], across: int) -> set[tuple[float, ...]]:
    wanted = set()
    for place in places:
        box, col = cells[place], place % across
        x, y, right, bottom = box.x, box.y, box.x + box.w, box.y + box.h
        for piece, beside in (
            ((x, y, x, bottom), place - 1 if col else -1), ((right, y, right, bottom), place + 1 if col < across - 1 else -1),
            ((x, y, right, y), place - across), ((x, bottom, right, bottom), place + across),
        ):  # fmt: skip
            if beside not in places:
                wanted.add(tuple(round(at, 2) for at in piece))
    return wanted


def check_capacity(picture: Drawing, cells: list[Box4], inside: int, across: int, over: bool) -> None:
    """The line at M parts the cells inside from those beyond it."""
    (warning,) = {colour for _, colour, _, dashed in picture.lines if dashed}
    drawn = [way for way, width in picture.lines_of(warning) if width == 3]
    assert len(drawn) == over
    if over:
        last, right = cells[inside - 1], cells[across - 1].x + cells[across - 1].w
        bottom, edge = last.y + last.h, last.x + last.w
        corners = [(cells[0].x, bottom), (edge, bottom), (edge, last.y), *([(right, last.y)] if edge < right - 1 else [])]
        close([step[1:3] for step in drawn[0]], corners)


def check_pairs(picture: Drawing, film: Film, now: Moment) -> None:
    """Visited tiles of pairs are filled and numbered, others hatched, or crossed where they never will be; the one at hand is framed."""
    assert film.run.blocks is not None
    rows, cols = (next(rows for name, _, rows, _ in film.run.steps.arrays if name.split("[")[0] == asked) for asked in ("Q", "K"))
    down, across = ceil(rows / film.run.blocks[0]), ceil(cols / film.run.blocks[1])
    corner = picture.title("keys")

    def on_map(x: float, y: float) -> bool:
        return x >= corner.x - 0.01 and 4 < y - corner.y < 160 and not picture.sram.holds(x, y) and not picture.hbm.holds(x, y)

    fills = [fill for fill in picture.fills if on_map(*fill[0][:2]) and fill[0][2] == fill[0][3]]
    assert len(fills) == down * across
    visited = [now.visits[row, col] for row in range(down) for col in range(across)]
    ever = [film.final.visits[row, col] > 0 for row in range(down) for col in range(across)]
    wanted = ["solid" if count else "hatch" if some else "blank" for count, some in zip(visited, ever, strict=True)]
    ground = picture.areas[0][1]
    assert [{"hatch": "hatch", ground: "blank"}.get(fill[1], "solid") for fill in fills] == wanted
    check_crosses(picture, [Box4(*fill[0]) for fill, kind in zip(fills, wanted, strict=True) if kind == "blank"])
    first, gap = Box4(*fills[0][0]), 1
    side = first.w + gap
    assert [round(fill[0][0] + fill[0][1] * 1000, 1) for fill in fills] == [
        round(first.x + col * side + (first.y + row * side) * 1000, 1) for row in range(down) for col in range(across)
    ]
    numbers = [(int(text.words), text.x, text.y - 4) for text in picture.texts if text.words.isdigit() and on_map(text.x, text.y)]
    middles = [(fill[0][0] + side / 2, fill[0][1] + side / 2) for fill in fills]
    close(numbers, [(count, *middle) for count, middle in zip(visited, middles, strict=True) if count and side >= 14])
    framed = [frame for frame, _, width in picture.frames if on_map(frame[0], frame[1])]
    here = film.pairs(now)
    if here:
        (top, left), (bottom, right) = here[0], here[-1]
        close(framed, [[first.x + left * side, first.y + top * side, (right - left + 1) * side - gap, (bottom - top + 1) * side - gap]])
    else:
        assert framed == []


def check_crosses(picture: Drawing, blank: list[Box4]) -> None:
    """Two diagonals in the middle of each tile that is never visited."""
    drawn = [way for way, _, width, _ in picture.lines if width == 1 and way and all(step[0] in ("moveTo", "lineTo") for step in way)]
    ends = [step[1:] for way in drawn for step in way]
    assert len(ends) == 4 * len(blank)
    for box, four_ends in zip(blank, (ends[at : at + 4] for at in range(0, len(ends), 4)), strict=True):
        assert all(box.holds(*end) for end in four_ends)
        (a, b, c, d) = four_ends
        assert [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2] == pytest.approx([box.x + box.w / 2, box.y + box.h / 2])
        assert [a[0], d[1]] == pytest.approx([c[0], a[1]])


def check_strip(picture: Drawing, film: Film, now: Moment) -> None:
    """What is occupied over the run, in proportion to M; where M is; where we are."""
    title, steps, capacity = picture.title("SRAM over the run"), film.run.steps.rows, film.run.capacity
    (history,) = [way for way, *_ in picture.areas if way[0][0] == "moveTo"]
    (limit,) = [way for way, _, _, dashed in picture.lines if dashed]
    base, left, right = history[0][2], history[0][1], history[-1][1]
    tall = base - limit[0][2]
    assert (limit[0][1], limit[1][1]) == (left, right)
    assert limit[0][2] == limit[1][2] < base
    columns = (len(history) - 2) // 2
    assert columns == min(len(steps), ceil(right - left))
    levels = [max(row[3] for row in steps[c * len(steps) // columns : (c + 1) * len(steps) // columns]) for c in range(columns)]
    close(
        [[(base - y) / tall * 100, x] for _, x, y in history[1:-1:2]],
        [[level / capacity * 100, left + c / columns * (right - left)] for c, level in enumerate(levels)],
    )
    assert [y for _, _, y in history[1:-1:2]] == [y for _, _, y in history[2:-1:2]]
    (mark,) = [fill[0] for fill in picture.fills if fill[0][2] == 2 and abs(fill[0][1] - title.y - 3) < 0.01]
    assert mark[0] + 1 == pytest.approx(min(max(left + now.place / len(steps) * (right - left), left + 1), right - 1))


# Pictures of many kinds, at sampled steps.


def sampled(length: int, seed: int, number: int = 5) -> list[int]:
    """Onward, back, and to and fro."""
    onward = np.linspace(0, length, number).astype(int).tolist()
    anywhere = np.random.default_rng(seed).permutation(length + 1)[: 2 * number].tolist()
    return [*onward, length, *sorted(anywhere[:number], reverse=True), *anywhere[number:], length]


def seen_after(page: Page, deeds: Sequence[int | str]) -> list[dict[str, Any]]:
    found = json.loads(page.evaluate(SEEN, list(deeds)))
    assert isinstance(found, list)
    return found


def check_everything(
    page: Page, picture: MovingPicture, positions: Sequence[int], row: int = 0, deeds: Sequence[int | str] | None = None
) -> dict[str, str]:
    """All that is shown at the positions, scrubbed to unless other deeds lead there; returns the colour of every tensor."""
    films, hues = [Film(run) for run in picture.runs], dict[str, str]()
    longest = max(max(words_of(film, film.final)[-1]) for film in films)
    order = together(films)
    for position, seen in zip(positions, seen_after(page, deeds or positions), strict=True):
        assert (seen["position"], seen["slider"]) == (f"{position:,} / {len(order) - 1:,}", position)
        for shown, film, place in zip(seen["runs"], films, order[position], strict=True):
            check_panels(shown, film, film.moments[place], row, longest)
            found = check_drawing(shown["drawn"], film, film.moments[place])
            assert all(hues.setdefault(name, colour) == colour for name, colour in found.items())
    return hues


def choose(page: Page, row: int) -> None:
    page.locator(".chosen").first.fill(str(row))
    page.locator(".chosen").first.blur()


def overflowing() -> MovingPicture:
    return picture_of([make_plan("flash", SMALL, 96, "paper", None, {})])


PICTURES: dict[str, Callable[[], MovingPicture]] = {
    "flash2": lambda: animate("flash2", sram=SRAM),
    "flash": lambda: animate("flash", sram=SRAM),
    "standard": lambda: animate("standard"),
    "backward": lambda: animate("flash2-backward"),
    "causal ragged": lambda: animate("flash2", Attention(n=14, nk=18, d=3, dv=5, causal=True)),
    "one group of heads": lambda: animate("flash2", Attention(n=8, d=4, heads=4, kv_heads=2)),
    "square tiles": lambda: animate("square-tiles", Attention(n=8, d=7), blocks=(3, 3), sram=512),
    "overflow": overflowing,
    "overflow in whole rows": lambda: picture_of([make_plan("standard", SMALL, 128, BLOCKS, None, {"reuse": "ideal"})]),
    "bytes": lambda: animate("flash2", Attention(n=16, d=4, dtype="float16"), sram="1KiB"),
    "wide": lambda: animate("flash2", Attention(n=8, d=64)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_all_that_is_shown_is_what_the_run_did(open_page: Open, name: str) -> None:
    picture = PICTURES[name]()
    page = open_page(picture)
    choose(page, 5)
    hues = check_everything(page, picture, sampled(len(picture.runs[0].steps.rows), seed=len(name)), row=5)
    assert len({hues[one] for one in "QKVO"}) == 4


def test_a_narrow_screen_shows_the_same(open_page: Open) -> None:
    picture = overflowing()
    check_everything(open_page(picture, width=390), picture, sampled(len(picture.runs[0].steps.rows), seed=3, number=4))


def test_large_shows_the_same(open_page: Open) -> None:
    picture = animate("flash2", Attention(n=16, d=4, causal=True))
    page = open_page(picture, height=800)
    page.locator("#large").click()
    assert page.evaluate("iosim.stages[0].ratio") > 1.2
    check_everything(page, picture, sampled(len(picture.runs[0].steps.rows), seed=4, number=3))


BESIDE: dict[str, Callable[[], MovingPicture]] = {
    "another kernel": lambda: animate("flash2", SMALL, beside="flash", sram=SRAM),
    "causal": lambda: animate("flash2", SMALL, beside=Attention(n=16, d=4, causal=True), sram=SRAM),
}


@pytest.mark.parametrize("name", BESIDE)
def test_two_runs_show_what_each_did_at_one_pace(open_page: Open, name: str) -> None:
    picture = BESIDE[name]()
    page = open_page(picture, width=1600)
    choose(page, 9)
    check_everything(page, picture, sampled(sum(len(run.steps.rows) for run in picture.runs), seed=1), row=9)


def test_stepping_shows_what_scrubbing_does(open_page: Open) -> None:
    picture = animate("flash2", beside="flash")
    page = open_page(picture, width=1600, reduced_motion="reduce")
    length = sum(len(run.steps.rows) for run in picture.runs)
    deeds: list[int | str] = ["start", *["forward"] * 9, *["back"] * 3, "end", *["back"] * 7, 201, *["forward"] * 3, "start", "back"]
    positions = [0, *range(1, 10), 8, 7, 6, length, *range(length - 1, length - 8, -1), 201, 202, 203, 204, 0, 0]
    check_everything(page, picture, positions, deeds=deeds)


# Where things are.


def around(boxes: Sequence[Box4]) -> Box4:
    left, top = min(box.x for box in boxes), min(box.y for box in boxes)
    return Box4(left, top, max(box.x + box.w for box in boxes) - left, max(box.y + box.h for box in boxes) - top)


def map_of(drawn: list[list[Any]]) -> list[Box4]:
    """The tiles of pairs, which are filled one after the other after the turned text beside them."""
    start = next(place for place, (kind, *what) in enumerate(drawn) if kind == "text" and what[0].startswith("queries"))
    return [Box4(*what[0]) for kind, *what in takewhile(lambda one: one[0] == "fill", drawn[start + 1 :])]


def outlines(picture: Drawing) -> dict[str, Box4]:
    """The parts of a picture that may not cover each other: boxes, arrays, the grid of pairs, the strip, and texts outside of tiles."""
    arrays = [Box4(*frame) for frame, _, width in picture.frames if width == 1 and picture.hbm.holds(frame[0], frame[1])]
    names = [text for text in picture.texts if picture.hbm.holds(text.x, text.y) and text.weight == 700]
    titles = [text for text in picture.texts if text.words.startswith(("HBM: ", "SRAM: ", "beyond M"))]
    others = [text for text in picture.texts if not picture.hbm.holds(text.x, text.y) and not picture.sram.holds(text.x, text.y)]
    signs = [text for text in others if text.words.startswith(("▼", "▲", "tiles of", "keys", "queries", "SRAM over"))]
    assert len(arrays) == len(names) > 4
    assert len(signs) == 6
    (history,) = [way for way, *_ in picture.areas if way[0][0] == "moveTo"]
    return {
        **{f"array {place}": box for place, box in enumerate(arrays)},
        **{text.words: text.box for text in (*names, *titles, *signs)},
        "pairs": around(map_of(picture.drawn)),
        "strip": around([Box4(x, y, 0, 0) for _, x, y in history]),
    }


def check_apart(drawn: list[list[Any]], size: tuple[float, float]) -> None:
    picture = Drawing(drawn)
    parts, whole = outlines(picture), Box4(0, 0, *size)
    for (name, one), (other, two) in combinations([*parts.items(), ("HBM", picture.hbm), ("SRAM", picture.sram)], 2):
        inside = name.startswith(("SRAM: ", "beyond")) if other == "SRAM" else other == "HBM" and picture.hbm.holds(one.x, one.y)
        assert two.encloses(one) if inside else two.apart(one), (name, other, one, two)
    assert all(map(whole.encloses, parts.values()))


SHAPES: dict[str, Callable[[], MovingPicture]] = {
    "few rows": lambda: animate("flash2", Attention(n=4, d=4)),
    "64 x 64": lambda: animate("flash2", Attention(n=64, d=64)),
    "200 x 64": lambda: animate("flash2", Attention(n=200, d=64)),
    "many keys": lambda: animate("flash", Attention(n=4, nk=200, d=8)),
    "many queries": lambda: animate("standard", Attention(n=96, nk=4, d=32)),
    "backward": lambda: animate("flash-backward", Attention(n=32, d=16)),
    "heads": lambda: animate("flash2", Attention(n=8, d=16, heads=4, kv_heads=1)),
    "overflow": overflowing,
}
WINDOWS = [(320, 700), (390, 844), (480, 700), (700, 900), (1024, 768), (1280, 800), (1900, 1000)]
LAID_OUT = "(canvas => JSON.stringify([canvas.drawn, [iosim.stages[0].width, iosim.stages[0].height]]))(document.querySelector('canvas'))"


@pytest.mark.parametrize("name", SHAPES)
def test_nothing_covers_anything_at_any_size(open_page: Open, name: str) -> None:
    page = open_page(SHAPES[name]())
    page.locator("#end").click()
    for width, height in WINDOWS:
        page.set_viewport_size({"width": width, "height": height})
        for _ in ("large", "not any more"):
            page.locator("#large").click()
            page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            drawn, size = json.loads(page.evaluate(LAID_OUT))
            check_apart(drawn, size)


ROWS = """() => [...document.querySelectorAll(".counters")].flatMap(table => [...table.rows].slice(1).flatMap(row => {
  const words = one => +one.title.match(/^of ([\\d,]+)/)[1].replaceAll(",", ""), widths = [...row.querySelectorAll(".bar")].map(
    bar => bar.getBoundingClientRect().width);
  return [[words(row.children[1]), widths[0]], [words(row.children[2]), widths[1]]];
}))"""


@pytest.mark.parametrize("width", [390, 1024, 1280, 1900])
def test_bars_of_two_runs_can_be_compared(open_page: Open, width: int) -> None:
    """Of all arrays, and of all of them together: as long as there are words, in both runs."""
    picture = animate("flash2", beside="flash")
    page = open_page(picture, width=width)
    page.locator("#end").click()
    films = [Film(run) for run in picture.runs]
    found = page.evaluate(ROWS)
    assert [words for words, _ in found] == [words for film in films for row in words_of(film, film.final) for words in row]
    assert {576, 768, 256} <= {words for words, _ in found}
    each = max(bar for _, bar in found) / max(words for words, _ in found)
    assert [bar for _, bar in found] == pytest.approx([words * each for words, _ in found], abs=0.1)


LOWER = BlockMask.from_dense(np.tri(4, dtype=bool), 16, 16, 4, 4)


@pytest.mark.parametrize("problem", [Attention(n=16, d=4, causal=True), Attention(n=16, d=4, block_mask=LOWER)], ids=["causal", "blocks"])
def test_what_is_skipped_is_known_from_the_start(open_page: Open, problem: Attention) -> None:
    """Above the diagonal, all other tiles are hatched; a tile is solid when its scores are there, and not while K and V are loaded."""
    page = open_page(animate("flash2", problem))
    seen = seen_after(page, [0, *range(1, 10)])
    kinds = []
    for moment in seen:
        ((drawing, event),) = [(Drawing(run["drawn"]), run["event"]) for run in moment["runs"]]
        colours = [what[1] for kind, *what in drawing.drawn if kind == "fill" and Box4(*what[0]) in map_of(drawing.drawn)]
        kinds.append((event, ["hatch" if one == "hatch" else "blank" if one == drawing.areas[0][1] else "solid" for one in colours]))
    start = ["blank" if col > row else "hatch" for row in range(4) for col in range(4)]
    made = next(place for place, (event, _) in enumerate(kinds) if event.startswith("S_ij gets room"))
    assert any(event.startswith("load V") for event, _ in kinds[:made])
    assert all(found == start for _, found in kinds[:made])
    assert all(found == ["solid", *start[1:]] for _, found in kinds[made:])


def test_a_tile_in_which_nothing_is_made_is_no_visit(open_page: Open) -> None:
    """As no kernel has one: K is loaded, and the tile ends; what is stored after it is not its."""
    steps = Steps()
    for name, kind in (("Q", "input"), ("K", "input"), ("O", "output")):
        steps.add(Event(kind, name, ((0, 2), (0, 1)), 2, 4, 1, 0))  # type: ignore[arg-type]  # one of the kinds
    for kind, name, box, variable, sram in (
        ("begin", "tile", ((0, 2),), "i", 0), ("begin", "tile", ((0, 2),), "j", 0), ("load", "K", ((0, 2), (0, 1)), "", 2),
        ("end", "tile", (), "", 0), ("store", "O", ((0, 2), (0, 1)), "", 0), ("end", "tile", (), "", 0),
    ):  # fmt: skip
        steps.add(Event(kind, name, box, 2, 4, 1, sram), variable=variable)  # type: ignore[arg-type]  # one of the kinds
    page = open_page(MovingPicture((Recording("none", "", 2, "words", steps, (2, 2)),)))
    page.locator("#end").click()
    drawing = Drawing(json.loads(page.evaluate(LAID_OUT))[0])
    assert [what[1] for kind, *what in drawing.drawn if kind == "fill" and Box4(*what[0]) in map_of(drawing.drawn)] == [drawing.areas[0][1]]


# The numbers of a machine that nobody records.


def spied(kernel: str, problem: Attention, row: int) -> list[tuple[Held, Held]]:
    """What a run that is no recording holds of a query row after each event that moves or makes something: on chip, and in HBM."""
    states: list[tuple[Held, Held]] = []
    tile = [0, 0]
    depth = 0

    def look(event: Event) -> None:
        nonlocal depth
        if event.kind in ("input", "output", "scratch", "use"):
            return
        depth += {"begin": 1, "end": -1}.get(event.kind, 0)
        if event.kind == "begin" and (depth == 1 if kernel == "flash2" else depth in (1, 2)):
            tile[:] = event.box[0]
        chip = {block.label.removesuffix("_i"): block._data for block in m.residents if block.label in ("m", "l", "O", "m_i", "l_i", "O_i")}
        here = tile[0] <= row < tile[1]
        on_chip = {name: data[row - tile[0]].tolist() for name, data in chip.items() if here and data is not None}
        arrays = {name: m.arrays[name]._data for name in STATISTICS if name in m.arrays}
        in_hbm = {name: data[row].tolist() for name, data in arrays.items() if data is not None and not np.isnan(data[row]).all()}
        states.append((on_chip, in_hbm))

    plan = make_plan(kernel, problem, SRAM, BLOCKS, None, {})
    m: Machine = plan.machine("execute", [look])
    plan.run(m, random_inputs(problem))
    return states


def written(held: Held, name: str, without: str) -> str:
    return row_text(np.array(held[name])) if name in held else without


@pytest.mark.parametrize("kernel", ["flash2", "flash"])
def test_m_l_and_o_are_those_of_the_run_and_sram_holds_at_most_m(open_page: Open, kernel: str) -> None:
    picture = animate(kernel, SMALL, sram=SRAM)
    page = open_page(picture)
    for row in (6, 15):
        choose(page, row)
        check_statistics(page, picture.runs[0], kernel, row)


def check_statistics(page: Page, run: Recording, kernel: str, row: int) -> None:
    rows, names = run.steps.rows, [name for name, *_ in run.steps.arrays]
    events = [position for position, (kind, *_) in enumerate(rows, start=1) if KINDS[kind] != "compute"]
    states = spied(kernel, SMALL, row)
    assert len(events) == len(states)
    places = [place for place, at in enumerate(events) if KINDS[rows[at - 1][0]] != "alloc"]  # where a block may be filled only later
    places = [*places[::-9], *places[2::11]]
    chips = 0
    for place, seen in zip(places, seen_after(page, [events[place] for place in places]), strict=True):
        (shown,), (on_chip, in_hbm) = seen["runs"], states[place]
        for name, chip, memory, _ in shown["row"]:
            if name in STATISTICS:
                assert plain(chip) == written(on_chip, name, "–")
                assert plain(memory) == written(in_hbm, name, "not written yet" if name in names else "–")
                exact = [[float(value) for value in text.replace("Infinity", "inf").split()] for text in shown["digits"][name]]
                assert exact == [on_chip.get(name, []), in_hbm.get(name, [])]
        assert int(shown["sram"][0][1]) == rows[events[place] - 1][3] <= SRAM
        chips += len(on_chip)
    assert chips > 3


def output_row(page: Page, position: int) -> tuple[str, list[float], dict[str, Any]]:
    """The row of O in HBM, its digits, and all that is shown."""
    ((shown,),) = [seen["runs"] for seen in seen_after(page, [position])]
    (memory,) = [plain(memory) for name, _, memory, _ in shown["row"] if name == "O"]
    return memory, [float(value) for value in shown["digits"]["O"][1].split()], shown


def test_a_long_row_says_how_much_of_it_is_shown_and_shows_all_when_asked(open_page: Open) -> None:
    picture = animate("flash2", Attention(n=8, d=64), beside="flash")
    page = open_page(picture, width=390)
    page.locator("#large").click()  # of two runs, a phone shows the rows only when asked
    output = simulate("flash2", Attention(n=8, d=64), blocks=BLOCKS).output
    assert output is not None
    length = sum(len(run.steps.rows) for run in picture.runs)
    few, all_of_it = row_text(output[3]), row_text(output[3], inf)
    choose(page, 3)
    for ticked in (False, True, False):
        page.locator(".all").first.set_checked(ticked)
        ((first, second),) = [seen["runs"] for seen in seen_after(page, [length])]
        for shown in (first, second):
            (memory,) = [plain(memory) for name, _, memory, _ in shown["row"] if name == "O"]
            assert memory.count(" … 8 of 64") == (not ticked)
        assert plain(next(memory for name, _, memory, _ in first["row"] if name == "O")) == (all_of_it if ticked else few)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not open_page(animate("flash2")).locator(".all").is_visible()


def test_the_row_follows_the_tiles_when_asked(open_page: Open) -> None:
    picture = animate("flash", sram=SRAM)
    page, film = open_page(picture), Film(picture.runs[0])
    page.locator(".follow").check()
    row = 0
    for position in sampled(len(picture.runs[0].steps.rows), seed=2):
        tiles = [(top, bottom) for name, top, bottom in film.moments[position].scopes if name == "i"]
        row = next((row if top <= row < bottom else top for top, bottom in reversed(tiles)), row)
        ((shown,),) = [seen["runs"] for seen in seen_after(page, [position])]
        check_row(shown, film, film.moments[position], row)


def test_a_sampled_run_shows_the_rows_that_it_kept_and_says_so(open_page: Open) -> None:
    problem = Attention(n=1024, d=64)
    picture = animate("flash2", problem, blocks=(64, 64), sram=10**5)
    page, stride = open_page(picture), picture.runs[0].pool.sample.stride
    assert stride > 1
    choose(page, 101)
    row = int(page.locator(".chosen").input_value())
    assert row % stride == 0
    assert abs(row - 101) < stride
    output = simulate("flash2", problem, sram=10**5, blocks=(64, 64)).output
    assert output is not None
    memory, exact, shown = output_row(page, len(picture.runs[0].steps.rows))
    assert (memory, exact) == (row_text(output[row]), output[row, :8].tolist())
    assert shown["kept"] == f"; kept of a run this large: every {stride} rows one, the first 8 columns"
    assert not page.locator(".all").is_visible()


def test_a_row_written_in_pieces_is_shown_whole(open_page: Open) -> None:
    problem = Attention(n=8, d=7)
    picture = animate("square-tiles", problem, blocks=(3, 3), sram=512)
    page = open_page(picture)
    choose(page, 5)
    output = simulate("square-tiles", problem, blocks=(3, 3), sram=512).output
    assert output is not None
    assert output_row(page, len(picture.runs[0].steps.rows))[:2] == (row_text(output[5]), output[5].tolist())


# On the way, and to the eye.


def frames_of_a_step(page: Page, before: int) -> list[Drawing]:
    """The frames that are drawn while a step is seen to happen."""
    page.evaluate(f"iosim.seek({before}), document.querySelector('canvas').film = []")
    page.locator("#forward").click()
    for _ in range(100):
        if page.evaluate("iosim.moving === null"):
            break
        page.wait_for_timeout(20)
    film = page.evaluate("(canvas => JSON.stringify([...canvas.film.slice(1), canvas.drawn]))(document.querySelector('canvas'))")
    return [Drawing(drawn) for drawn in json.loads(film)]


@pytest.mark.parametrize("kind", ["load", "store", "init"])
def test_a_tile_travels_between_its_place_and_sram(open_page: Open, kind: str) -> None:
    picture = animate("flash", sram=SRAM)
    film = Film(picture.runs[0])
    place = [place for place, (number, *_) in enumerate(picture.runs[0].steps.rows) if KINDS[number] == kind][-2]
    name, top, bottom, *_ = film.things[film.step(place + 1)[2]]
    *frames, last = frames_of_a_step(open_page(picture), place)
    check_drawing(last.drawn, film, film.moments[place + 1])
    flights = [Box4(*fill[0]) for frame in frames for fill in frame.fills if fill[2] == 0.92]
    assert len(flights) == len(frames) > 2
    assert all(frame.has(f"{'▼' if kind == 'load' else '▲'} {name}") for frame in frames)
    home = Box4(*box_of(last, name).part(top / 16, bottom / 16, 0, 1))
    start, *rest = flights if kind == "load" else [home, *reversed(flights)]
    close([[start.x, start.y, start.w, start.h]], [[home.x, home.y, home.w, home.h]])
    away = [box.y - home.y for box in rest]
    assert away == sorted(away)
    far = max(flights, key=lambda box: box.y)
    assert far.y > home.y
    assert kind == "load" or last.sram.holds(far.x, far.y)
    for box in flights:  # on one straight line
        assert (box.x - home.x) * (far.y - home.y) == pytest.approx((far.x - home.x) * (box.y - home.y), abs=1)


COPY = """() => {
  const shown = document.querySelector("canvas"), copy = document.createElement("canvas");
  [copy.width, copy.height] = [shown.width, shown.height];
  window.copy = copy.getContext("2d", {willReadFrequently: true});
  window.copy.drawImage(shown, 0, 0);
}"""


def test_what_is_drawn_is_on_the_screen(open_page: Open) -> None:
    """Pixels of solid, pale and hatched tiles, and of blocks on chip: the canvas is what was drawn."""
    picture = animate("flash2", sram=SRAM)
    page, film = open_page(picture), Film(picture.runs[0])
    place = next(place for place, moment in enumerate(film.moments) if moment.words["O", "written"] and len(moment.residents) > 4)
    (seen,) = seen_after(page, [place])
    drawing = Drawing(seen["runs"][0]["drawn"])
    page.evaluate(COPY)
    pixels = "([x, y, w, h]) => [...window.copy.getImageData(x, y, w, h).data]"

    def colours(box: Box, side: float = 6) -> set[tuple[int, ...]]:
        data = page.evaluate(pixels, [round(box[0] + 3), round(box[1] + box[3] - side - 2), side, side])
        return {tuple(data[at : at + 3]) for at in range(0, len(data), 4)}

    first, *_, last = [fill[0] for fill in drawing.fills if box_of(drawing, "O").holds(*fill[0][:2]) and fill[2] == 0.33]
    assert len(colours(first)) == 1 < len(colours(last))
    held = [(fill[0], fill[1]) for fill in drawing.fills if box_of(drawing, "K").holds(*fill[0][:2]) and fill[2] == 1]
    assert held
    for box, colour in held:
        assert colours(box) == {tuple(bytes.fromhex(colour[1:]))}


READABLE = """() => {
  const bright = css => css.match(/[\\d.]+/g).map(Number);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const home = node.parentElement;
    if (!node.data.trim() || !home.checkVisibility() || ["SCRIPT", "TEMPLATE"].includes(home.tagName)) continue;
    let under = home;
    while (under.parentElement && bright(getComputedStyle(under).backgroundColor)[3] === 0) under = under.parentElement;
    const colours = [getComputedStyle(home).color, getComputedStyle(under).backgroundColor];
    found.push([node.data.trim(), ...colours.map(colour => bright(colour).slice(0, 3))]);
  }
  return JSON.stringify(found);
}"""


def light(colour: Sequence[float]) -> float:
    """The relative luminance of sRGB in 0 to 255, as the WCAG defines it."""
    parts = [value / 255 for value in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def rgb(colour: str) -> list[float]:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    return [float(value) for value in bytes.fromhex(digits)]


def under(drawn: list[list[Any]], text: Text, paper: list[float]) -> list[float]:
    """The colour behind a text on the canvas: what was filled there before, one over the other."""
    found, hatched = paper, False
    x, y = text.x + {"left": 3, "center": 0, "right": -3}[text.align], text.y - 3
    for kind, *what in drawn:
        if kind == "text" and Text(*what) == text:
            break
        box = what[0] if kind == "fill" else what[0][0][1:] if kind == "area" and what[0][0][0] == "roundRect" else None
        if box and Box4(*box).holds(x, y):
            hatched = what[1] == "hatch"
            over = found if hatched else rgb(what[1])
            found = [old + (new - old) * what[2] for old, new in zip(found, over, strict=True)]
    assert not hatched, f"{text.words} stands on a hatch"
    return found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["overflow", "backward"])
def test_every_text_can_be_read(open_page: Open, scheme: str, name: str) -> None:
    """A contrast of at least 4.5, the WCAG's AA for small text: panels and canvas, light and dark."""
    picture = PICTURES[name]()
    page = open_page(picture, color_scheme=scheme)
    page.locator(".help summary").click()
    steps = len(picture.runs[0].steps.rows)
    for seen in seen_after(page, np.linspace(0, steps, 5).astype(int).tolist()):
        texts = json.loads(page.evaluate(READABLE))
        assert len(texts) > 40
        for words, ink, ground in texts:
            assert contrast(ink, ground) >= 4.5, words
        drawn = seen["runs"][0]["drawn"]
        paper = page.evaluate("getComputedStyle(document.querySelector('.run')).backgroundColor.match(/\\d+/g).map(Number)")
        for text in Drawing(drawn).texts:
            assert text.alpha == 1
            assert contrast(rgb(text.colour), under(drawn, text, paper)) >= 4.5, text
