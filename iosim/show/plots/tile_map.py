"""Words over the two heights of the blocks, and the line up to which the blocks fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LogNorm
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from numpy.typing import NDArray

from iosim.attention.report import Report
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.problem import Blocks
from iosim.core.tables import words
from iosim.predict import choose_blocks
from iosim.predict.blocks.planes import Plane, plane
from iosim.predict.blocks.rules import Rule
from iosim.predict.sizes import Bools, Ints
from iosim.show.plots.figures import INK, QUIET, bare
from iosim.show.plots.labels import Label, place

POINTS, MASKED_POINTS = 240, 60  # heights an axis; with an element mask every pair of them reads the mask
MOST_PAIRS = 2**24  # of an element mask: about a minute
LETTERS = 54  # of a line as wide as a panel
COLOURS = "viridis_r"
MARKERS: dict[Rule, str] = {"best": "*", "fit": "o", "paper": "s"}
UNFIT, HATCH = "#ededed", "#d4d4d4"

Floats = NDArray[np.float64]


class Cells(NamedTuple):
    """What is drawn of one kernel: the edges of the cells on both axes, the words of all heads, and which cells fit."""

    x: Floats
    y: Floats
    words: Ints
    fits: Bools


@dataclass(frozen=True, slots=True)
class Mark:
    """Blocks that some rules choose alike: what they move, all heads together, and whether they fit."""

    rules: tuple[Rule, ...]
    blocks: Blocks
    words: int
    fits: bool

    @property
    def text(self) -> str:
        """The label: which rules, the blocks, the words."""
        return f"{' = '.join(self.rules)} {self.blocks}\n{words(self.words)} words" + ("" if self.fits else "\ndoes not fit")


def tile_map(reports: Sequence[Report]) -> Figure:
    """One panel for each report: the words of its kernel in all blocks, on its problem, in its SRAM.

    Colour is the words that all heads move, on a logarithmic scale that the panels share; grey and hatched is what does not fit, and the
    line around it is where the residents are M. The blocks that the rules choose are marked, hollow where they do not fit.
    Raises :class:`iosim.core.errors.BadInput` without reports, for a block mask, which leaves no blocks to choose, for an element mask of
    more than 2^24 pairs, and where no blocks fit.

    >>> from iosim import Attention, simulate
    >>> figure = tile_map([simulate("flash2", Attention(n=256, d=64), sram=12288, execute=False)])
    >>> [axes.get_xlabel() for axes in figure.axes][0]
    'Br, query rows a tile'
    """
    if not reports:
        raise BadInput("there is nothing to draw: no report was given")
    cells = [cells_of(report) for report in reports]
    fitting = [one.words[one.fits] for one in cells]
    least, most = min(int(part.min()) for part in fitting), max(int(part.max()) for part in fitting)
    norm = LogNorm(least, max(most, 2 * least))  # one colour is not stretched over the whole scale
    figure = Figure(figsize=(1.5 + 4.9 * len(reports), 5.2), layout="constrained")
    grid = list(figure.subplots(1, len(reports), squeeze=False)[0])
    meshes = [panel(axes, report, one, norm) for axes, report, one in zip(grid, reports, cells, strict=True)]
    bar(figure, meshes[-1], grid, heads=any(report.problem.instances > 1 for report in reports))
    figure.draw_without_rendering()  # labels keep clear of each other, which takes the panels' final sizes
    figure.set_layout_engine("none")
    for axes, report, one in zip(grid, reports, cells, strict=True):
        write_on(axes, one, marks(report), contours(axes, one, norm))
    return figure


def cells_of(report: Report) -> Cells:
    """The words at some heights of both axes, close enough to look like all of them."""
    p = report.problem
    if p.mask is not None and p.n * p.nk > MOST_PAIRS:
        raise BadInput(f"an element mask of {p.n:,} x {p.nk:,} pairs takes minutes in all blocks; draw a smaller problem")
    points = POINTS if p.mask is None else MASKED_POINTS
    found = asked(report, heights(p.n, points), heights(p.nk, points))
    if not (fits := found.fits(report.sram.amount)).any():
        raise BadInput(f"there is nothing to draw: no blocks of {report.kernel} fit in {report.sram}")
    return Cells(edges(found.rows), edges(found.cols), found.words * p.instances, fits)


def asked(report: Report, rows: Ints | int, cols: Ints | int) -> Plane:
    """Some blocks of the kernel, problem, variants and unit of a report."""
    return plane(report.kernel, report.problem, rows, cols, report.plan.options, report.sram.unit)


def heights(rows: int, points: int) -> Ints:
    """About ``points`` whole numbers up to ``rows``, evenly spaced on a logarithmic axis; all of them where there are fewer.

    >>> heights(100, 9).tolist()
    [1, 2, 3, 6, 10, 18, 32, 56, 100]
    """
    return np.unique(np.geomspace(1, rows, points).round().astype(np.int64))


def edges(at: Ints) -> Floats:
    """Where the cell of each height begins and ends: in the middle between neighbours, on a logarithmic axis."""
    inner = np.sqrt(at[:-1] * at[1:]) if len(at) > 1 else np.sqrt(2.0 * at)
    return np.concatenate([[at[0] ** 2 / inner[0]], inner[: len(at) - 1], [at[-1] ** 2 / inner[-1] if len(at) > 1 else inner[0]]])


def panel(axes: Axes, report: Report, cells: Cells, norm: LogNorm) -> QuadMesh:
    """Draw one kernel without labels."""
    x, y = cells.x, cells.y
    axes.set(xscale="log", yscale="log", xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    bare(axes)
    ticks(axes)
    axes.add_patch(Rectangle((x[0], y[0]), x[-1] - x[0], y[-1] - y[0], facecolor=UNFIT, edgecolor=HATCH, hatch="////", linewidth=0))
    mesh = axes.pcolormesh(x, y, np.ma.array(cells.words, mask=~cells.fits).T, norm=norm, cmap=COLOURS, rasterized=True)
    axes.add_collection(LineCollection(list(boundary(cells)), colors=INK, linewidths=1.6, capstyle="projecting"))
    head(axes, report)
    return mesh


def head(axes: Axes, report: Report) -> None:
    """The kernel, and below it the problem and the SRAM in as many lines as the panel is wide for."""
    lines = wrap(f"{described(report.problem)}, SRAM {report.sram}", LETTERS)
    axes.set_title(report.kernel, loc="left", fontsize=11, fontweight="bold", color=INK, pad=10 + 12 * len(lines))
    axes.text(0, 1.025, "\n".join(lines), transform=axes.transAxes, fontsize=9, color=QUIET).set_in_layout(False)


def ticks(axes: Axes) -> None:
    """Powers of two, and what the axes are."""
    for axis, name in ((axes.xaxis, "Br, query rows a tile"), (axes.yaxis, "Bc, key rows a tile")):
        axis.set_major_locator(LogLocator(2, numticks=12))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
        axis.set_label_text(name, color=INK)


def contours(axes: Axes, cells: Cells, norm: LogNorm) -> ContourSet | None:
    """Contour lines of the words, dark where the colours are light; None where there is no room for any."""
    inside = np.ma.array(cells.words, mask=~cells.fits).T
    if min(inside.shape) < 2 or not (found := levels(norm)):
        return None
    middle = [np.sqrt(at[:-1] * at[1:]) for at in (cells.x, cells.y)]
    for at, whole in zip(middle, (cells.x, cells.y), strict=True):
        at[[0, -1]] = whole[[0, -1]]  # to the sides of the panel
    colours = [INK if norm(level) < 0.4 else "white" for level in found]
    return axes.contour(*middle, inside, levels=found, colors=colours, linewidths=0.6, alpha=0.75)


def named(axes: Axes, lines: ContourSet, cells: Cells, found: Sequence[Mark]) -> list[Text]:
    """Name the contour lines whose name fits in the panel, clear of marks and of the line up to which blocks fit."""
    spots = axes.transData.transform([*(side[0] for side in boundary(cells)), *((mark.blocks.rows, mark.blocks.cols) for mark in found)])
    tried = list(axes.clabel(lines, fmt=short, fontsize=8, inline=False))
    boxes = {text.get_text(): text.get_window_extent().padded(4) for text in tried}
    for text in tried:
        text.remove()
    clear = {name for name, box in boxes.items() if axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max)}
    crossed = {name for name in clear if any(boxes[name].contains(*spot) for spot in spots)}
    kept = [level for level in lines.levels if short(level) in clear - crossed]
    return list(axes.clabel(lines, kept, fmt=short, fontsize=8, inline_spacing=2))[len(tried) :] if kept else []


def levels(norm: LogNorm) -> list[float]:
    """1, 2 and 5 times the powers of ten between the ends of the scale."""
    low, high = norm.vmin or 1, norm.vmax or 1
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [level for power in powers for step in (1, 2, 5) if low < (level := step * 10.0**power) < high]


def boundary(cells: Cells) -> Iterator[list[tuple[float, float]]]:
    """The sides between a cell that fits and one that does not."""
    x, y, fits = cells.x, cells.y, cells.fits
    for i, j in zip(*np.nonzero(fits[:-1] != fits[1:]), strict=True):
        yield [(x[i + 1], y[j]), (x[i + 1], y[j + 1])]
    for i, j in zip(*np.nonzero(fits[:, :-1] != fits[:, 1:]), strict=True):
        yield [(x[i], y[j + 1]), (x[i + 1], y[j + 1])]


def marks(report: Report) -> list[Mark]:
    """The blocks of the rules, each once."""
    rules: dict[Blocks, tuple[Rule, ...]] = {}
    for rule in MARKERS:
        try:
            blocks = choose_blocks(report.kernel, report.problem, report.sram, rule, report.plan.options)
        except BadInput:
            continue  # the printed rule asks for M >= 4d
        rules[blocks] = (*rules.get(blocks, ()), rule)
    found = {blocks: asked(report, blocks.rows, blocks.cols) for blocks in rules}
    return [
        Mark(names, blocks, int(found[blocks].words[0, 0]) * report.problem.instances, bool(found[blocks].fits(report.sram.amount)[0, 0]))
        for blocks, names in rules.items()
    ]


def write_on(axes: Axes, cells: Cells, found: Sequence[Mark], lines: ContourSet | None) -> None:
    """Mark the blocks of the rules and name them, and the line up to which blocks fit."""
    for mark in reversed(found):
        face, size = INK if mark.fits else UNFIT, 13 if mark.rules[0] == "best" else 7.5
        edge = ("white", 0.9) if mark.fits else (INK, 1.4)
        axes.plot(
            mark.blocks.rows, mark.blocks.cols, MARKERS[mark.rules[0]],
            color=face, markersize=size, markeredgecolor=edge[0], markeredgewidth=edge[1], clip_on=False, zorder=4,
        )  # fmt: skip
    limit = [((a + c) / 2, (b + d) / 2) for (a, b), (c, d) in boundary(cells)]
    outermost = sorted(found, key=lambda mark: -mark.blocks.rows * mark.blocks.cols)
    rules = [Label(mark.text, [(mark.blocks.rows, mark.blocks.cols)]) for mark in outermost]
    written = [] if lines is None else named(axes, lines, cells, found)
    place(axes, [*rules, *([Label("fit line:\nresidents = M", limit)] if limit else [])], limit, written)


def bar(figure: Figure, mesh: QuadMesh, grid: list[Axes], *, heads: bool) -> None:
    """The colour bar of all panels."""
    drawn = figure.colorbar(mesh, ax=grid, pad=0.02, aspect=32)
    drawn.outline.set_visible(False)
    drawn.set_label("words moved between HBM and SRAM" + (", all heads together" if heads else ""), color=INK)
    drawn.ax.yaxis.set_major_locator(LogLocator(10, subs=(1, 2, 5)))
    drawn.ax.yaxis.set_minor_locator(NullLocator())
    drawn.ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: short(at)))
    drawn.ax.tick_params(colors=INK, labelsize=9)


def short(count: float) -> str:
    """A count in three digits at most.

    >>> short(10_000_000), short(2_229_248)
    ('10 M', '2.23 M')
    """
    number, _, suffix = words(count).partition(" ")
    digits = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{digits} {suffix}".rstrip()
