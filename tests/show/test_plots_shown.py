"""What a figure shows: every text, colour and place is that of the number beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.colors import to_hex, to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.text import Annotation, Text
from numpy.typing import ArrayLike, NDArray

from iosim import FORWARD, KERNELS, Attention, Blocks, Capacity, Report, capacity, regime_map, simulate, sweep
from iosim.attention.sweep import Record
from iosim.core.described import described
from iosim.core.tables import words
from iosim.predict import predict
from iosim.predict.regimes import floors
from iosim.show.plots import Figure, bars, bounds, curves, tile_map
from iosim.show.plots import cliff as cliffs
from iosim.show.plots import paper as papers
from iosim.show.plots.bounds import SHADES
from iosim.show.plots.cliff import cliff
from iosim.show.plots.curves import APART
from iosim.show.plots.figures import INK, QUIET, style
from iosim.study.cache import CacheReplay, replay_cache
from iosim.study.paper import Figure2, figure2, load
from iosim.study.regimes import RegimeMap

Floats = NDArray[np.float64]
OKABE_ITO = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
CLEAR = 20.0  # of CIELAB: ten times what the eye tells apart side by side
LIGHTEST = 75.0  # of 100: what is lighter can hardly be read on white


def numbers(data: ArrayLike) -> list[float]:
    return [float(number) for number in np.asarray(data)]


def same_colour(one: object, other: object) -> bool:
    return to_hex(one) == to_hex(other)  # type: ignore[arg-type]  # matplotlib's word for a colour is long


def drawn(figure: Figure) -> Figure:
    """With its final layout."""
    figure.draw_without_rendering()
    return figure


def ticked(axis: Axis) -> dict[float, str]:
    """The ticks that are seen: where each stands, and what is written there."""
    low, high = sorted(axis.get_view_interval())
    labels = [(tick.get_loc(), tick.label1.get_text()) for tick in axis.get_major_ticks()]
    return {float(at): text for at, text in labels if low * 0.999 <= at <= high * 1.001 and text}


def texts(axes: Axes) -> dict[str, Text]:
    """Everything written in or beside a panel, by what it says; nothing is said twice."""
    found = {text.get_text(): text for text in axes.texts}
    assert len(found) == len(axes.texts)
    return found


def share(axes: Axes, y: float) -> float:
    """How high a number stands in a panel, from 0 to 1."""
    return float(axes.transAxes.inverted().transform(axes.transData.transform((axes.get_xlim()[1], y)))[1])


def edge(region: PolyCollection) -> tuple[dict[float, float], dict[float, float]]:
    """The upper and the lower edge of a shaded region."""
    (path,) = region.get_paths()
    corners = np.asarray(path.vertices, dtype=float).tolist()
    upper = {x: max(y for at, y in corners if at == x) for x, _ in corners}
    return upper, {x: min(y for at, y in corners if at == x) for x, _ in corners}


# Colours.


def lab(colour: str) -> Floats:
    """A colour of sRGB in CIELAB, under D65."""
    value = np.array(to_rgb(colour))
    linear = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
    part = to_xyz @ linear / to_xyz.sum(axis=1)
    root = np.where(part > (6 / 29) ** 3, np.cbrt(part), part / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def apart(one: str, other: str) -> float:
    return float(np.linalg.norm(lab(one) - lab(other)))


def test_the_distance_of_colours_is_known() -> None:
    assert apart("#000000", "#ffffff") == pytest.approx(100)
    assert lab("#ff0000") == pytest.approx([53.24, 80.09, 67.20], abs=0.02)


KERNEL_STYLES = {name: style(name) for name, kernel in KERNELS.items() if kernel.paper}


@pytest.mark.parametrize("styles", [KERNEL_STYLES, cliffs.STYLES], ids=["kernels", "orders"])
def test_colours_can_be_told_apart(styles: dict[str, object]) -> None:
    colours = [found.colour for found in styles.values()]  # type: ignore[attr-defined]  # both are styles
    assert {colour.upper() for colour in colours} <= set(OKABE_ITO)
    for one, other in combinations([*dict.fromkeys(colours), style("fmha").colour, INK, "#ffffff"], 2):
        assert apart(one, other) > CLEAR, (one, other)
    assert all(apart(colour, QUIET) > CLEAR for colour in colours)
    assert all(lab(colour)[0] < LIGHTEST for colour in colours)
    assert papers.BYTES != papers.TIME


# Bars.

PROBLEM = Attention(n=512, d=16)
HEADS = Attention(n=200, d=24, nk=300, batch=2, heads=3)


def counted(kernel: str, problem: Attention = PROBLEM, sram: int = 8192) -> Report:
    return simulate(kernel, problem, sram=sram, execute=False)


def bars_of(axes: Axes, *, hatched: bool) -> list[Rectangle]:
    found = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    return [bar for bar in found if bool(bar.get_hatch()) is hatched]


def high(axes: Axes, y: float) -> float:
    """The pixel of a height, from below."""
    return float(axes.transData.transform((0, y))[1])


def middle(bar: Rectangle) -> float:
    return bar.get_y() + bar.get_height() / 2


@pytest.fixture(scope="module", params=[PROBLEM, HEADS], ids=["one head", "heads"])
def reports(request: pytest.FixtureRequest) -> list[Report]:
    return [counted(kernel, request.param) for kernel in ("standard", "flash", "flash2-backward")]


@pytest.fixture(scope="module")
def panels(reports: list[Report]) -> list[tuple[Axes, Report]]:
    return list(zip(drawn(bars(reports)).axes, reports, strict=True))


def test_a_bar_begins_at_0_and_ends_in_the_panel(panels: list[tuple[Axes, Report]]) -> None:
    for axes, report in panels:
        for bar in bars_of(axes, hatched=False) + bars_of(axes, hatched=True):
            assert bar.get_x() == axes.get_xlim()[0] == 0
            assert bar.get_width() <= axes.get_xlim()[1]
            ends = [axes.bbox.y0, high(axes, bar.get_y()), high(axes, bar.get_y() + bar.get_height()), axes.bbox.y1]
            assert ends[0] < min(ends[1:3]) < max(ends[1:3]) < ends[3]
        assert len(bars_of(axes, hatched=False)) == len(bars_of(axes, hatched=True)) == len(report.arrays)
    assert len({axes.get_xlim() for axes, _ in panels}) == 1  # all panels have one axis


def test_arrays_stand_from_above_in_their_order_each_beside_its_name(panels: list[tuple[Axes, Report]]) -> None:
    for axes, report in panels:
        named = {text: high(axes, at) for at, text in ticked(axes.yaxis).items()}
        heights = [named[name] for name in report.arrays]
        assert [above > below for above, below in pairwise(heights)] == [True] * (len(heights) - 1)
        for height, array, read, written in zip(
            heights, report.arrays.values(), bars_of(axes, hatched=False), bars_of(axes, hatched=True), strict=True
        ):
            assert (read.get_width(), written.get_width()) == (array.reads, array.writes)
            both = [high(axes, middle(bar)) for bar in (read, written) if bar.get_width()]
            assert np.mean(both) == pytest.approx(height)
            assert len(both) == 1 or both[0] > both[1]  # read above written


def test_a_number_stands_at_the_end_of_its_bar(panels: list[tuple[Axes, Report]]) -> None:
    for axes, report in panels:
        ends = {(round(middle(bar), 6), bar.get_width()) for bar in bars_of(axes, hatched=False) + bars_of(axes, hatched=True)}
        wanted = {(y, width): words(width) for y, width in ends if width}
        assert len(wanted) == sum((array.reads > 0) + (array.writes > 0) for array in report.arrays.values())
        room = axes.get_xlim()[1] / 50
        for text in axes.texts:
            ((end, said),) = [(end, said) for end, said in wanted.items() if end[0] == round(text.get_position()[1], 6)]
            assert text.get_text() == said
            assert 0 < text.get_position()[0] - end[1] < room
            del wanted[end]
        assert wanted == {}


def test_the_legend_means_what_is_drawn(reports: list[Report]) -> None:
    figure = bars(reports)
    (legend,) = figure.legends
    handles = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
    assert set(handles) == {"read", "written"}
    for axes, report in zip(figure.axes, reports, strict=True):
        for name, of in (("read", "reads"), ("written", "writes")):
            handle = handles[name]
            assert isinstance(handle, Patch)
            alike = [bar for bar in axes.patches if bar.get_hatch() == handle.get_hatch() and isinstance(bar, Rectangle)]
            assert [bar.get_width() for bar in alike] == [getattr(array, of) for array in report.arrays.values()]
            filled = same_colour(handle.get_facecolor(), "white")
            assert {same_colour(bar.get_facecolor(), "white") for bar in alike} == {filled}


def test_titles_and_axis_of_bars_say_what_was_run(reports: list[Report], panels: list[tuple[Axes, Report]]) -> None:
    first, last = reports[0], panels[-1][0]
    title = bars(reports).get_suptitle()
    assert described(first.problem) in title
    assert str(first.sram) in title
    assert last.get_xlabel() == "words (array elements)" + (", all heads together" if first.problem.instances > 1 else "")
    assert len(ticked(last.xaxis)) > 2
    assert all(text == words(at) for at, text in ticked(last.xaxis).items())
    for axes, report in panels:
        assert axes.get_title(loc="left") == f"{report.kernel}: {words(report.total)} words, blocks {report.blocks}"
        colour = style(report.kernel).colour
        assert all(same_colour(bar.get_facecolor(), colour) for bar in bars_of(axes, hatched=False))
        assert all(same_colour(bar.get_edgecolor(), colour) for bar in bars_of(axes, hatched=True))


def test_a_bar_chart_says_where_overflow_was_recorded() -> None:
    fits, over = (simulate("flash2", PROBLEM, sram=2048, blocks=(rows, rows), overflow="record", execute=False) for rows in (16, 64))
    assert (over.overflow > 0, fits.overflow) == (True, 0)
    titles = [axes.get_title(loc="left").partition(", overflow")[1] for axes in bars([fits, over]).axes]
    assert titles == ["", ", overflow"]


# Curves.

LENGTHS = [256, 300, 512, 700, 1024, 1500, 2048, 3000, 4096, 6000]
CAPACITIES = [4096 * step for step in range(1, 17)]
WIDE = Attention(n=1024, d=48)


@pytest.fixture(scope="module")
def swept() -> tuple[list[Record], list[Record]]:
    return sweep(WIDE, n=LENGTHS, sram="64KiB"), sweep(WIDE, sram=[f"{size}B" for size in CAPACITIES[8:]])


@pytest.fixture(scope="module")
def both(swept: tuple[list[Record], list[Record]]) -> list[tuple[Axes, list[Record], str]]:
    over_n, over_m = drawn(curves(*swept)).axes
    return [(over_n, swept[0], "n"), (over_m, swept[1], "sram")]


def totals(records: list[Record], axis: str, kernel: str) -> tuple[list[float], list[float]]:
    known = [record for record in records if record["kernel"] == kernel and record["total"] is not None]
    return tuple(numbers([record[field] for record in known]) for field in (axis, "total"))  # type: ignore[return-value, arg-type]


def marked(axes: Axes, places: list[float], moved: list[float]) -> list[Line2D]:
    """The marks that stand at these numbers."""
    found = [line for line in axes.lines if line.get_marker() != "None"]
    return [line for line in found if (numbers(line.get_xdata()), numbers(line.get_ydata())) == (places, moved)]


def test_a_label_stands_at_the_end_of_the_curve_of_its_kernel(both: list[tuple[Axes, list[Record], str]]) -> None:
    for axes, records, axis in both:
        ends = {kernel: totals(records, axis, kernel)[1][-1] for kernel in FORWARD}
        ends["lower bound for all pairs"] = bound_of(records, axis)[max(bound_of(records, axis))]
        places = {name: share(axes, end) for name, end in ends.items()}
        labels = texts(axes)
        written = sorted(ends, key=lambda name: labels[name].get_position()[1])
        assert written == sorted(ends, key=ends.__getitem__)
        assert all(abs(labels[name].get_position()[1] - places[name]) < 2 * APART for name in ends)


@pytest.mark.parametrize(("axis", "over"), [("n", {"n": [4096, 5000]}), ("sram", {"sram": [6144, 8192]})])
def test_a_label_with_room_around_it_stands_exactly_there(axis: str, over: dict[str, list[int]]) -> None:
    kernels, rest = ["standard", "flash", "flash2"], {"sram": 6144} if axis == "n" else {}
    records = sweep(Attention(n=2048, d=32), kernels, **over, **rest)  # type: ignore[arg-type]  # as a user would
    axes = drawn(curves(records)).axes[0]
    floors = bound_of(records, axis)
    places = {kernel: share(axes, totals(records, axis, kernel)[1][-1]) for kernel in kernels} | {
        "lower bound": share(axes, floors[max(floors)])
    }
    assert min(abs(one - other) for one, other in combinations(places.values(), 2)) > APART
    assert {texts(axes)[name].get_position()[0] for name in places} == {1.02}
    assert [texts(axes)[name].get_position()[1] for name in places] == pytest.approx(list(places.values()))


def test_a_label_has_the_colour_of_the_curve_of_its_kernel(both: list[tuple[Axes, list[Record], str]]) -> None:
    for axes, records, axis in both:
        for kernel in FORWARD:
            (marks,) = marked(axes, *totals(records, axis, kernel))
            assert same_colour(texts(axes)[kernel].get_color(), marks.get_color())
            assert same_colour(marks.get_color(), style(kernel).colour)
            assert marks.get_marker() == style(kernel).marker


@pytest.mark.parametrize("places", [LENGTHS, LENGTHS[:7], LENGTHS[:3]], ids=len)
def test_a_tick_over_n_says_where_it_stands(places: list[int]) -> None:
    axes = drawn(curves(sweep(WIDE, ["flash2"], n=places))).axes[0]
    found = {int(text.replace(",", "")): at for at, text in ticked(axes.xaxis).items()}
    assert all(named == at for named, at in found.items())
    assert set(found) == set(places[:: 1 if len(places) <= 7 else 2])
    assert len(axes.xaxis.get_minorticklocs()) == 0


@pytest.mark.parametrize("unit", ["words", "bytes"])
def test_a_tick_over_m_says_where_it_stands(unit: str) -> None:
    sizes = [size if unit == "words" else f"{size}B" for size in CAPACITIES[7:]]
    axes = drawn(curves(sweep(WIDE, ["flash2"], sram=sizes))).axes[0]
    assert axes.get_xlabel() == f"SRAM capacity M ({unit})"
    found = ticked(axes.xaxis)
    assert sorted(found) == numbers(CAPACITIES[7:][::2])
    for at, text in found.items():
        assert capacity(text if unit == "bytes" else int(text.replace(",", ""))) == Capacity(int(at), unit)  # type: ignore[arg-type]  # one


def bound_of(records: list[Record], axis: str) -> dict[float, float]:
    """The largest lower bound at each place: all kernels here run forward, and only block-sparse skips pairs, so its own is smaller."""
    found: dict[float, float] = {}
    for record in records:
        at, bound = record[axis], record["lower_bound"]
        assert isinstance(at, int)
        assert isinstance(bound, int)
        found[at] = max(bound, found.get(at, 0))
    return found


def test_what_is_shaded_lies_below_the_bound_and_no_curve_in_it(both: list[tuple[Axes, list[Record], str]]) -> None:
    for axes, records, axis in both:
        wanted = bound_of(records, axis)
        (region,) = (part for part in axes.collections if isinstance(part, PolyCollection))
        upper, lower = edge(region)
        assert upper == wanted
        assert set(lower.values()) == {axes.get_ylim()[0]}
        assert all(low < bound for low, bound in zip(lower.values(), wanted.values(), strict=True))
        for kernel in FORWARD[:3]:
            assert all(moved >= wanted[at] for at, moved in zip(*totals(records, axis, kernel), strict=True))


@pytest.mark.parametrize(
    ("problem", "over", "wanted"),
    [
        (Attention(n=768, d=48), {"n": [256, 512], "sram": "96KiB"}, "d = 48, float32, SRAM 96 KiB"),
        (Attention(n=768, d=48, dtype="float16"), {"n": [256, 512], "sram": 20000}, "d = 48, float16, SRAM 20000 words"),
        (Attention(n=768, d=48), {"sram": [9000, 20000]}, "N = 768, d = 48, float32"),
    ],
)
def test_what_a_panel_holds_fixed_is_said_below_its_title(problem: Attention, over: dict[str, object], wanted: str) -> None:
    (axes,) = curves(sweep(problem, ["flash2"], **over)).axes  # type: ignore[arg-type]  # as a user would
    (below,) = (text for text in axes.texts if text.get_position() == (0, 1.025))
    assert below.get_text() == wanted
    assert axes.get_title(loc="left") == f"HBM accesses over {'N' if 'n' in over else 'M'}"
    assert axes.get_xlabel().startswith("sequence length N" if "n" in over else "SRAM capacity M")


def test_a_panel_says_that_overflow_is_dashed_where_there_is_any() -> None:
    sizes = [2048, 16384]
    said = []
    for blocks in ((8, 8), (32, 32)):
        records = sweep(PROBLEM, ["flash2"], sram=sizes, blocks=blocks, overflow="record")
        said += [(any(record["overflow"] for record in records), any("dashed" in text for text in texts(curves(records).axes[0])))]
    assert said == [(False, False), (True, True)]


# Bounds.


@pytest.fixture(scope="module", params=[False, True], ids=["forward", "backward"])
def mapped(request: pytest.FixtureRequest) -> tuple[RegimeMap, Axes, Axes]:
    found = regime_map(Attention(256, 16), backward=request.param)
    top, bottom = drawn(bounds(found)).axes
    return found, top, bottom


def largest(found: RegimeMap, m: float) -> int:
    return int(max(bound.words for bound in floors(found.problem, int(m), backward=found.backward)))


def test_a_label_stands_at_the_end_of_the_curve_of_its_rival(mapped: tuple[RegimeMap, Axes, Axes]) -> None:
    found, top, bottom = mapped
    last = max(row.sram for row in found.rows)
    floor = largest(found, last)
    for axes, unit in ((top, 1), (bottom, floor)):
        ends = {"largest bound": floor / unit}
        for one, who in zip(found.curves, found.rivals, strict=True):
            name = who.name + (" (dashed)" if who.options.get("depth") == "square" else "")
            ends[name] = int(one.words_at(last)) / unit
            assert same_colour(texts(axes)[name].get_color(), style(who.kernel).colour)
        written = sorted(ends, key=lambda name: texts(axes)[name].get_position()[1])
        assert [ends[name] for name in written] == sorted(ends.values())
        assert all(abs(texts(axes)[name].get_position()[1] - share(axes, end)) < 0.15 for name, end in ends.items())
        assert all(texts(axes)[name].get_position()[0] > 1 for name in ends)


def test_what_is_shaded_is_the_largest_bound(mapped: tuple[RegimeMap, Axes, Axes]) -> None:
    found, top, bottom = mapped
    for axes in (top, bottom):
        (region,) = (part for part in axes.collections if isinstance(part, PolyCollection))
        upper, lower = edge(region)
        assert upper == {m: largest(found, m) if axes is top else 1 for m in upper}
        assert set(lower.values()) == {axes.get_ylim()[0]}
        assert (min(upper), max(upper)) == axes.get_xlim()


def test_the_lower_panel_is_in_units_of_the_largest_bound(mapped: tuple[RegimeMap, Axes, Axes]) -> None:
    found, _, bottom = mapped
    for at, text in ticked(bottom.yaxis).items():
        assert text == f"{at:,.0f}"
    for line in (line for line in bottom.lines if line.get_linestyle() == "None"):
        whose = [
            one for one, who in zip(found.curves, found.rivals, strict=True) if same_colour(line.get_color(), style(who.kernel).colour)
        ]
        for m, times in zip(numbers(line.get_xdata()), numbers(line.get_ydata()), strict=True):
            near = [abs(times * largest(found, m) / int(one.words_at(int(m))) - 1) for one in whose]
            assert min(near) < 0.02  # the bound is a line between 300 of its points


def test_regimes_are_shaded_where_they_hold_and_named_there(mapped: tuple[RegimeMap, Axes, Axes]) -> None:
    found, top, bottom = mapped
    low, high = top.get_xlim()
    for axes in (top, bottom):
        spans = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        ends = [(span.get_x(), span.get_x() + span.get_width(), to_hex(span.get_facecolor())) for span in spans]
        seen = [one for one in found.regimes if max(low, one.start) < min(high, one.stop or high)]
        assert ends == [(max(low, one.start), min(high, one.stop or high), SHADES[one.name]) for one in seen]
        assert len(seen) == 3
    names = [text for text in top.texts if text.get_text().partition("\n")[0] in SHADES and "\n" in text.get_text()]
    assert len(names) > 1
    for text in names:
        (one,) = (one for one in found.regimes if text.get_text() == f"{one.name}\n{one.condition}\n{one.theta}")
        assert max(low, one.start) <= text.get_position()[0] <= min(high, one.stop or high)


def test_the_axis_of_m_has_words_and_the_bytes_that_they_are() -> None:
    for dtype, size in (("float32", 4), ("float16", 2)):
        axes = drawn(bounds(regime_map(Attention(256, 16, dtype=dtype)))).axes[1]
        found = ticked(axes.xaxis)
        assert len(found) > 3
        for at, text in found.items():
            count, below = text.split("\n")
            assert int(count.replace(",", "")) == at
            assert capacity(below.removesuffix(" bytes") + "B" * below.endswith(" bytes")) == Capacity(int(at) * size, "bytes")
        assert axes.get_xlabel() == f"SRAM capacity M (words; below: bytes of {dtype})"


def test_the_titles_of_bounds_say_what_was_mapped(mapped: tuple[RegimeMap, Axes, Axes]) -> None:
    found, top, _ = mapped
    which = "backward" if found.backward else "forward"
    assert f"{described(found.problem)}, {which}, best blocks" in texts(top)
    assert all(text == words(at) for at, text in ticked(top.yaxis).items())


# Caches.

SIZES = [200, 300, 400, 500]


@pytest.fixture(scope="module")
def replays() -> list[CacheReplay]:
    problem = Attention(n=64, d=8)
    return [replay_cache("flash", problem, sram=2048, blocks=(8, 8), order=order, ways=4) for order in ("first-use", "listing")]


def test_orders_are_named_in_the_colours_of_their_curves(replays: list[CacheReplay]) -> None:
    axes = drawn(cliff(replays, SIZES, "the run")).axes[0]
    written = texts(axes)
    for replay in replays:
        said = f"{cliffs.NAMES[replay.order]}: as the scratchpad from {replay.enough:,} words on"
        moved = [replay.set_associative(size).reads for size in SIZES]
        (marks,) = marked(axes, numbers(SIZES), numbers(moved))
        assert same_colour(written[said].get_color(), marks.get_color())
        assert to_hex(marks.get_markerfacecolor()) == "#ffffff"
        steps = [line for line in axes.lines if line.get_drawstyle() == "steps-post" and same_colour(line.get_color(), marks.get_color())]
        assert [numbers(line.get_ydata()) for line in steps] == [[replay.lru(int(x)).reads for x in numbers(steps[0].get_xdata())]]
    named = [text.get_text() for text in sorted(axes.texts, key=lambda text: -text.get_position()[1]) if " words on" in text.get_text()]
    assert [name.partition(":")[0] for name in named] == [cliffs.NAMES[replay.order] for replay in replays]
    assert {"the run", "line: fully associative; hollow: 4 ways"} <= set(written)
    assert replays[0].enough != replays[1].enough


def test_the_axes_of_caches_begin_at_0_and_say_where_their_ticks_stand(replays: list[CacheReplay]) -> None:
    axes = drawn(cliff(replays, SIZES)).axes[0]
    assert axes.get_ylim()[0] == 0
    assert axes.get_xlim() == (200, 500)
    assert {at: text for at, text in ticked(axes.xaxis).items() if text != f"{at:,.0f}"} == {}
    assert {at: text for at, text in ticked(axes.yaxis).items() if text != words(at)} == {}


@pytest.mark.parametrize("sizes", [SIZES, [200, 220]], ids=["inside", "beyond"])
def test_the_scratchpad_is_named_where_it_stands(replays: list[CacheReplay], sizes: list[int]) -> None:
    axes = drawn(cliff(replays, sizes)).axes[0]
    reads, held = replays[0].scratchpad.reads, replays[0].held
    inside = sizes[0] <= held <= sizes[-1]
    (beside,) = (text for text in axes.texts if text.get_text().startswith("the scratchpad\nreads"))
    assert isinstance(beside, Annotation)
    assert beside.xy == (1, reads)
    assert beside.get_text() == f"the scratchpad\nreads {words(reads)}" + ("" if inside else f",\nholds {held:,}")
    level = [line for line in axes.lines if numbers(line.get_ydata()) == [reads, reads]]
    assert len(level) == 1
    upright = [numbers(line.get_xdata()) for line in axes.lines if line.get_gid() == cliffs.HELD]
    assert upright == [[held, held]] * inside
    above = [text for text in axes.texts if f"holds {held:,} words" in text.get_text()]
    assert [text.xy[0] for text in above if isinstance(text, Annotation)] == [held] * inside


# The map of blocks.


def test_a_cell_of_the_map_has_the_words_of_its_blocks() -> None:
    problem = Attention(n=96, d=16, nk=40)
    axes, side = drawn(tile_map([counted("flash", problem, sram=3000)])).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("Br, query rows a tile", "Bc, key rows a tile")
    (mesh,) = (part for part in axes.collections if isinstance(part, QuadMesh))
    corners, array = np.asarray(mesh.get_coordinates(), dtype=float), mesh.get_array()
    assert array is not None
    assert numbers(corners[0, 0]) == pytest.approx([axes.get_xlim()[0], axes.get_ylim()[0]])
    for rows, cols in ((1, 1), (3, 40), (8, 5), (20, 12)):
        column = int(np.searchsorted(corners[0, :, 0], rows)) - 1
        line = int(np.searchsorted(corners[:, 0, 1], cols)) - 1
        assert array[line, column] == sum(moved.reads + moved.writes for moved in predict("flash", problem, Blocks(rows, cols)).values())
    assert side.get_ylim() == pytest.approx((mesh.norm.vmin, mesh.norm.vmax))


def test_ticks_of_the_map_and_its_bar_say_where_they_stand() -> None:
    made = [counted("flash", Attention(n=96, d=16), sram=3000), counted("flash2", Attention(n=96, d=16), sram=4000)]
    *two, side = drawn(tile_map(made)).axes
    for axes, report in zip(two, made, strict=True):
        assert axes.get_title(loc="left") == report.kernel
        assert f"{described(report.problem)}, SRAM {report.sram}" in texts(axes)
        for axis in (axes.xaxis, axes.yaxis):
            assert {1.0, 2.0, 64.0} <= set(ticked(axis))
            assert {at: text for at, text in ticked(axis).items() if text != f"{at:,.0f}"} == {}
    found = ticked(side.yaxis)
    assert len(found) > 1
    for at, text in found.items():
        number, _, power = text.partition(" ")
        assert float(number) * {"": 1, "k": 1e3, "M": 1e6}[power] == pytest.approx(at)


# Figure 2 of the paper.


@pytest.fixture(scope="module")
def made() -> Figure2:
    return figure2(load())


@pytest.fixture(scope="module")
def five(made: Figure2) -> Figure:
    return drawn(papers.figure(made))


def cells(axes: Axes) -> Iterator[tuple[str, str, str]]:
    """Column, row and text of every number in the table, by where it stands."""
    head = max(text.get_position()[1] for text in axes.texts if text.get_position()[1] < 1)
    columns = {text.get_position()[0]: text.get_text() for text in axes.texts if text.get_position()[1] == head}
    rows = {round(text.get_position()[1], 6): text.get_text() for text in axes.texts if text.get_position()[0] == 0}
    name = ""
    for height in sorted(rows, reverse=True):
        name = name if rows[height] == "ours" else rows[height]
        for text in axes.texts:
            x, y = text.get_position()
            if round(y, 6) == height and x > 0:
                yield columns[x], f"{name}{' ours' if rows[height] == 'ours' else ''}", text.get_text()


def test_the_table_has_each_number_in_its_row_and_column(made: Figure2, five: Figure) -> None:
    found = {(column, row): text for column, row, text in cells(five.axes[0]) if row != "Attention"}
    first = [column for column in made.left if column.row.version == made.left[0].row.version]
    assert len(found) == 6 * len(first) == 12
    for column in first:
        one, work = column.row, column.work
        assert work is not None
        published = {"GFLOPs": one.gflops, "HBM R/W (GB)": one.gigabytes, "Runtime (ms)": one.milliseconds}
        assert {row: float(found[one.method, row]) for row in published} == published
        alone = [row for finding in made.findings if len(finding.rows) == 1 for row in finding.rows]
        mine = [row for row in alone if (row.labels.get("version"), row.labels["method"]) == (one.version, one.method)]
        ours = {row.labels["quantity"]: row.ours for row in mine}
        for quantity, row in (("FLOPs", "GFLOPs"), ("HBM", "HBM R/W (GB)"), ("time", "Runtime (ms)")):
            assert float(found[one.method, f"{row} ours"]) == pytest.approx(ours[quantity], rel=1e-3)


def test_the_panels_of_figure_2_say_their_problem_and_measure(made: Figure2, five: Figure) -> None:
    left, middle, right, time, traffic = five.axes
    setups = made.data.left.setup, made.data.middle.setup, made.data.right.setup
    for axes, setup, name in zip((left, middle, right), setups, ("Left", "Middle", "Right"), strict=True):
        assert f"N = {setup.n:,}, d = {setup.d}" in {text.get_text() for text in axes.texts}
        assert axes.get_title(loc="left").startswith(name)
    for axes, measure, colour in (
        (middle, "GB", papers.BYTES),
        (time, "ms", papers.TIME),
        (right, "ms", papers.TIME),
        (traffic, "GB", papers.BYTES),
    ):
        assert f"({measure})" in axes.get_ylabel()
        assert same_colour(axes.yaxis.label.get_color(), colour)
        assert all(same_colour(line.get_color(), colour) for line in axes.lines)
        assert axes.get_ylim()[0] == 0
        assert max(max(numbers(line.get_ydata())) for line in axes.lines) < axes.get_ylim()[1]


def test_points_of_figure_2_stand_over_their_block_size_and_density(made: Figure2, five: Figure) -> None:
    _, middle, right, time, traffic = five.axes
    sizes = [str(point.published.block_cols) for point in made.middle]
    assert list(ticked(middle.xaxis).values()) == sizes == ["64", "128", "256", "512"]
    for axes in (middle, time):
        assert all(numbers(line.get_xdata()) == list(ticked(middle.xaxis)) for line in axes.lines)
    ours = [point.percent for point in made.right.points]
    for axes, marker, places in (
        (right, ".", ours), (traffic, ".", ours), (right, "s", [point.published.percent for point in made.right.sparse]),
    ):  # fmt: skip
        assert [numbers(line.get_xdata()) for line in axes.lines if line.get_marker() == marker] == [places]
    assert right.get_xlim() == (0, 100)


def test_the_dotted_line_of_figure_2_is_the_one_that_is_spelled(made: Figure2, five: Figure) -> None:
    right = five.axes[2]
    fit = made.right.time
    (said,) = (text for text in texts(right) if text.startswith("dotted: "))
    slope, intercept = said.removeprefix("dotted: ").removesuffix(" ms").split(" ms a percent + ")
    assert float(slope) == pytest.approx(fit.slope, abs=0.005)
    assert float(intercept) == pytest.approx(fit.intercept, abs=0.05)
    (dotted,) = (
        line
        for line in right.lines
        if line.get_linestyle() == ":" or (line.get_marker() == "None" and numbers(line.get_xdata()) == [0, 100])
    )
    assert numbers(dotted.get_ydata()) == pytest.approx([fit.intercept, 100 * fit.slope + fit.intercept])
    (dense,) = (text for text in right.texts if text.get_text() == "dense FlashAttention")
    (level,) = {point.published.milliseconds for point in made.right.points if point not in made.right.sparse}
    assert dense.get_position()[1] == pytest.approx(level, rel=0.03)


def test_the_legend_of_figure_2_has_published_hollow_and_ours_a_line(five: Figure) -> None:
    (legend,) = five.legends
    handles = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
    ((_, theirs), (name, ours)) = handles.items()
    assert next(iter(handles)) == "published"
    assert name.startswith("ours")
    assert isinstance(theirs, Line2D)
    assert isinstance(ours, Line2D)
    assert (theirs.get_linestyle(), to_hex(theirs.get_markerfacecolor())) == ("None", "#ffffff")
    assert (ours.get_linestyle(), ours.get_marker()) == ("-", "None")
