"""Labels beside what they name, clear of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.text import Text
from numpy.typing import ArrayLike, NDArray

from iosim.show.plots.figures import INK, pixels_per_point

HALO = withStroke(linewidth=2.2, foreground="white", alpha=0.85)
SIDES = np.array([(1, 1), (1, 0), (1, -1), (0, 1), (0, -1), (-1, 1), (-1, 0), (-1, -1)])  # where a label stands: right first, and above
NEAR, RINGS = 8.0, 9  # points between a place and its label, and how many times as many are tried
MARGIN = 5.0  # points that a label keeps clear of others, and of what they name
MOST_PLACES = 24

Point = tuple[float, float]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Label:
    """A text, and the places it may stand beside, in data coordinates."""

    text: str
    places: Sequence[Point]


class Boxes(NamedTuple):
    """Lower left and upper right corners, one a row, in points from the lower left corner of the panel."""

    low: Floats
    high: Floats

    def padded(self) -> Boxes:
        """With a margin around them."""
        return Boxes(self.low - MARGIN, self.high + MARGIN)

    def shared(self, others: Boxes) -> Floats:
        """The area that each shares with each of the others."""
        sides = np.minimum(self.high[:, None], others.high) - np.maximum(self.low[:, None], others.low)
        return np.asarray(np.prod(np.maximum(sides, 0), axis=2))

    def apart(self, others: Boxes) -> Floats:
        """How far each is from each of the others."""
        sides = np.maximum(self.low[:, None] - others.high, others.low - self.high[:, None])
        return np.asarray(np.hypot(*np.moveaxis(np.maximum(sides, 0), 2, 0)))

    def __add__(self, others: Boxes) -> Boxes:  # type: ignore[override]  # boxes are no tuple to be lengthened
        return Boxes(np.concatenate([self.low, others.low]), np.concatenate([self.high, others.high]))


class Tries(NamedTuple):
    """Where a label could stand: the place that it names, its box, its distance in steps, and the cost of that."""

    places: Floats
    boxes: Boxes
    far: Floats
    price: Floats


def place(axes: Axes, labels: Sequence[Label], line: Sequence[Point] = (), written: Sequence[Text] = ()) -> None:
    """Write each label close to its place, inside the panel, clear of other labels and places, and of ``line`` where possible.

    The first labels choose first, after those ``written`` before. The figure must have its final layout.
    """
    panel, beside = points(axes, axes.bbox.size), spots(axes, line)
    named = spots(axes, [label.places[0] for label in labels if len(label.places) == 1])
    taken = Boxes(named, named).padded()
    for text in written:
        taken += boxed(axes, text).padded()
    for label in labels:
        text = axes.text(0, 0, label.text, fontsize=8.5, color=INK, path_effects=[HALO], linespacing=1.3, zorder=6)
        box, own = boxed(axes, text), spots(axes, some(label.places))
        found = tries(own, (box.high - box.low)[0])
        price = found.price + cost(found.boxes, panel, taken, beside)
        price += crowd(found.boxes, taken) if len(own) > 1 else mistaken(found, named)
        best = int(np.argmin(price))
        low, high, spot = found.boxes.low[best], found.boxes.high[best], found.places[best]
        text.set(transform=axes.transAxes, position=low / panel)
        if found.far[best] > 1:
            leader(axes, spot / panel, np.clip(spot, low, high) / panel)
        taken += Boxes(low[None], high[None]).padded()


def points(axes: Axes, pixels: ArrayLike) -> Floats:
    """Pixels as points."""
    return np.asarray(pixels, dtype=np.float64) / pixels_per_point(axes)


def boxed(axes: Axes, text: Text) -> Boxes:
    """The box of a text."""
    low, high = points(axes, text.get_window_extent().get_points() - axes.bbox.min)
    return Boxes(low[None], high[None])


def spots(axes: Axes, places: Sequence[Point]) -> Floats:
    """Places in points from the lower left corner of the panel."""
    return points(axes, axes.transData.transform(np.reshape(places, (-1, 2))) - axes.bbox.min)


def some(places: Sequence[Point]) -> Sequence[Point]:
    """The places; where there are many, some of them."""
    return places[:: max(1, -(-len(places) // MOST_PLACES))]


def tries(places: Floats, size: Floats) -> Tries:
    """A label of ``size`` on every side of each place, near and far."""
    far, side, which = (part.ravel() for part in np.indices((RINGS, len(SIDES), len(places))))
    low = places[which] + SIDES[side] * (far[:, None] + 1) * NEAR + (SIDES[side] - 1) / 2 * size
    return Tries(places[which], Boxes(low, low + size), far + 1.0, 0.3 * far + 0.03 * side)


def cost(tried: Boxes, panel: Floats, taken: Boxes, line: Floats) -> Floats:
    """The cost of a place: standing over others or outside is worst, on the line is bad."""
    inside = Boxes(np.zeros((1, 2)), panel[None])
    area = np.prod(tried.high - tried.low, axis=1)
    over, outside = tried.shared(taken).sum(axis=1), area - tried.shared(inside)[:, 0]
    on_line = (tried.apart(Boxes(line, line)) == 0).any(axis=1)
    return np.asarray(100 * (over + outside) / area + 3 * on_line)


def crowd(tried: Boxes, taken: Boxes) -> Floats:
    """How close the others are, for labels that have a choice of places."""
    return np.asarray((5 / (5 + tried.apart(taken))).sum(axis=1))


def mistaken(found: Tries, named: Floats) -> Floats:
    """Whether another place is nearer than the label's own."""
    every = found.boxes.apart(Boxes(named, named))
    own = np.hypot(*(found.places - np.clip(found.places, found.boxes.low, found.boxes.high)).T)
    return np.asarray(2.0 * (every < own[:, None] + 1e-6).sum(axis=1) - 2)


def leader(axes: Axes, start: Floats, end: Floats) -> None:
    """A thin line between two places, in shares of the panel."""
    axes.plot([start[0], end[0]], [start[1], end[1]], color=INK, linewidth=0.7, transform=axes.transAxes)
