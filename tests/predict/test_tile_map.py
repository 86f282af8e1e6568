"""The plane of blocks, and its picture: every point is what the closed forms say of it, and what is drawn is the plane."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LogNorm, to_hex
from matplotlib.contour import ContourSet
from numpy.typing import ArrayLike

from iosim import KERNELS, Attention, BadInput, BlockMask, Blocks, Capacity, Report, predict
from iosim.attention.plan import BlockChoice, make_plan
from iosim.attention.run import report
from iosim.core import tables
from iosim.core.options import Options
from iosim.core.units import Unit
from iosim.predict.blocks.planes import Plane, plane
from iosim.show import plots
from iosim.show.plots.figures import INK
from iosim.show.plots.labels import MARGIN, Boxes, tries
from iosim.show.plots.tile_map import Cells, boundary, edges, heights, levels, short
from iosim.testing import random_case

PLAIN = Options()
RULES: tuple[BlockChoice, ...] = ("best", "fit", "paper")
PROBLEM, SRAM = Attention(n=512, d=32), 6000
sides = st.lists(st.integers(1, 26), min_size=1, max_size=3, unique=True)


def words(kernel: str, problem: Attention, blocks: Blocks, options: Options) -> int:
    return sum(array.reads + array.writes for array in predict.predict(kernel, problem, blocks, options).values())


def drawn_from(seed: int, kernel: str) -> tuple[Attention, Options]:
    """A small problem without a block mask, of one head or of two groups, with options of the kernel."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, kernel, most=22, widest=7, dtype=str(rng.choice(["float32", "float16", "float8_e5m2"])))
    problem, pack = replace(case.problem, block_mask=None), bool(rng.random() < 0.5)
    if rng.random() < 0.3:
        problem = replace(problem, heads=6, kv_heads=2)
    options = dict(case.options)
    if "pack" in options:
        options["pack"] = pack and problem.mask is None
    return problem, Options(**options)


# the plane


@pytest.mark.parametrize("kernel", KERNELS)
@given(st.integers(0, 2**32 - 1), sides, sides, st.sampled_from(["words", "bytes"]))
def test_every_point_is_what_is_predicted_of_it(kernel: str, seed: int, rows: list[int], cols: list[int], unit: Unit) -> None:
    problem, options = drawn_from(seed, kernel)
    found = plane(kernel, problem, rows, cols, options, unit)
    assert found.words.shape == found.room.shape == (len(rows), len(cols))
    for (i, j), moved in np.ndenumerate(found.words):
        blocks = Blocks(rows[i], cols[j])
        assert moved == words(kernel, problem, blocks, options)
        assert found.room[i, j] == predict.residents(kernel, problem, blocks, options, unit)


@given(st.integers(1, 30), st.integers(1, 30), st.booleans(), st.integers(20, 900))
def test_the_least_of_all_blocks_is_the_best_rule(n: int, nk: int, causal: bool, amount: int) -> None:
    problem = Attention(n=n, d=3, nk=nk, dv=2, causal=causal)
    for kernel in ("flash2", "flash", "square-tiles", "standard"):
        found = plane(kernel, problem, np.arange(1, n + 1), np.arange(1, nk + 1))
        least = found.least(amount)
        assert (least is None) == (not found.fits(amount).any()) == (predict.smallest_sram(kernel, problem) > amount)
        if least is not None:
            best = predict.choose_blocks(kernel, problem, Capacity(amount), "best")
            assert words(kernel, problem, least, PLAIN) == words(kernel, problem, best, PLAIN)
            assert predict.residents(kernel, problem, least) <= amount


def test_of_equals_the_largest_blocks_are_the_least() -> None:
    found = Plane(np.array([2, 3]), np.array([5, 7]), np.array([[4, 4], [4, 9]]), np.array([[8, 8], [8, 1]]))
    assert found.least(8) == Blocks(3, 5)  # fewer residents, but more words, has 3x7
    assert found.least(7) == Blocks(3, 7)
    assert found.least(0) is None


def test_blocks_beyond_the_end_count_as_clipped() -> None:
    found = plane("flash2", Attention(n=20, d=4, nk=10), [20, 1000], [10, 99])
    assert len(set(found.words.ravel().tolist())) == len(set(found.room.ravel().tolist())) == 1
    assert found.rows.tolist() == [20, 1000]


def test_a_first_visit_may_be_full_and_a_later_one_partial() -> None:
    mask = np.array([[True, True, True, False], [True, True, True, True]])
    problem, create = Attention(n=2, d=3, nk=4, dtype="float16", mask=mask), Options(first_pass="create")
    at_first, later = (2 * 2 * 2 * 3 + 2 * (2 * 3 + o * 3 + 8 * 4) for o in (4, 2))  # K, V, Q and the statistics; O made, and loaded
    found = plane("flash", problem, [2], [2], create, "bytes").room[0, 0]
    assert found == max(at_first + 4 * 4, later + 4 * (4 + 1)) < at_first + 4 * (4 + 1)
    assert found == predict.residents("flash", problem, Blocks(2, 2), create, "bytes")


def test_a_plane_that_makes_no_sense_is_refused() -> None:
    mask = BlockMask.from_dense(np.ones((2, 2), dtype=bool), 8, 8, 4, 4)
    for what, kernel, problem, rows, cols in (
        ("4x4", "flash", Attention(n=8, d=2, block_mask=mask), [1], [1]),
        ("Br", "flash2", Attention(n=8, d=2), [0], [1]),
        ("Bc", "flash2", Attention(n=8, d=2), [1], [1.5]),
        ("flsh", "flsh", Attention(n=8, d=2), [1], [1]),
        ("64 bits", "flash2", Attention(n=2**24, d=2**20), [1], [1]),
    ):
        with pytest.raises(BadInput, match=what):
            plane(kernel, problem, rows, cols)


# the picture


def counted(kernel: str, problem: Attention = PROBLEM, sram: int = SRAM, blocks: BlockChoice = "fit") -> Report:
    """The report of one kernel, which is counted alone."""
    return report(make_plan(kernel, problem, sram, blocks, "record", {}), execute=False, replay=False)


def drawn(*kernels: str, problem: Attention = PROBLEM, sram: int = SRAM) -> tuple[list[Report], list[Axes]]:
    """The reports and the panels of their map, without the colour bar."""
    reports = [counted(kernel, problem, sram) for kernel in kernels]
    return reports, list(plots.tile_map(reports).axes[: len(kernels)])


def numbers(data: ArrayLike) -> list[float]:
    return [float(number) for number in np.asarray(data)]


def names(axes: Axes) -> list[str]:
    """What is written in a panel."""
    return [text.get_text() for text in axes.texts]


def test_the_colours_are_the_words_of_what_fits() -> None:
    reports, panels = drawn("flash", "square-tiles")
    norms = set()
    for made, axes in zip(reports, panels, strict=True):
        (mesh,) = (part for part in axes.collections if isinstance(part, QuadMesh))
        array = mesh.get_array()
        assert isinstance(array, np.ma.MaskedArray)
        at = heights(512, 240)
        found = plane(made.kernel, PROBLEM, at, at)
        assert np.array_equal(np.ma.getmaskarray(array).T, found.room > SRAM)
        assert np.array_equal(array.compressed(), found.words.T[(found.room <= SRAM).T])
        norms.add((mesh.norm.vmin, mesh.norm.vmax))
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert mesh.get_cmap().name == "viridis_r"
    assert len(norms) == 1  # the panels share the scale


def test_heads_multiply() -> None:
    (made,), (axes,) = drawn("flash2", problem=Attention(n=64, d=8, batch=3, heads=4, kv_heads=2))
    (mesh,) = (part for part in axes.collections if isinstance(part, QuadMesh))
    array = mesh.get_array()
    assert array is not None
    at = heights(64, 240)
    assert array.min() == plane("flash2", made.problem, at, at).words.min() * 6
    label = axes.figure.axes[1].get_ylabel()
    assert label == "words moved between HBM and SRAM, all heads together"


@given(st.integers(2, 7), st.integers(2, 7), st.integers(0, 2**49 - 1))
def test_the_line_parts_what_fits_from_what_does_not(n: int, m: int, bits: int) -> None:
    fits = np.array([bits >> place & 1 for place in range(n * m)], dtype=bool).reshape(n, m)
    x, y = np.arange(n + 1.0), np.arange(m + 1.0)
    sides = {tuple(map(tuple, side)) for side in boundary(Cells(x, y, np.zeros_like(fits, dtype=np.int64), fits))}
    upright = {((i + 1, j), (i + 1, j + 1)) for i in range(n - 1) for j in range(m) if fits[i, j] != fits[i + 1, j]}
    level = {((i, j + 1), (i + 1, j + 1)) for i in range(n) for j in range(m - 1) if fits[i, j] != fits[i, j + 1]}
    assert sides == upright | level


def test_a_cell_is_around_its_height() -> None:
    for rows, points in ((1, 9), (2, 9), (100, 9), (1000, 240), (4096, 240)):
        at = heights(rows, points)
        assert (at[0], at[-1]) == (1, rows)
        found = edges(at)
        assert len(found) == len(at) + 1
        assert (found[:-1] < at).all()
        assert (at < found[1:]).all()


def test_the_line_is_where_the_residents_are_m() -> None:
    _, (axes,) = drawn("flash2")
    (line,) = (part for part in axes.collections if isinstance(part, LineCollection) and not isinstance(part, ContourSet))
    at = heights(512, 240)
    x = edges(at)
    level = {(low[0], low[1]) for low, high in line.get_segments() if low[1] == high[1]}
    for rows in (1, 7, 32, 60):
        most = max(cols for cols in at.tolist() if predict.residents("flash2", PROBLEM, Blocks(rows, cols)) <= SRAM)
        i, j = int(np.flatnonzero(at == rows)[0]), int(np.flatnonzero(at == most)[0])
        assert (x[i], x[j + 1]) in level


def test_the_rules_are_marked_where_their_blocks_are() -> None:
    reports, panels = drawn("standard", "flash")
    for made, axes in zip(reports, panels, strict=True):
        for rule in RULES:
            one = counted(made.kernel, blocks=rule)
            found = [lines for lines in map(str.splitlines, names(axes)) if len(lines) > 1 and "words" in lines[1]]
            ((first, second, *more),) = (lines for lines in found if rule in lines[0].split(" "))
            assert first.endswith(f" {one.blocks}")
            assert second == f"{tables.words(one.total)} words"
            assert more == (["does not fit"] if one.overflow else [])
            at = (one.blocks.rows, one.blocks.cols)
            (mark,) = (line for line in axes.lines if (*numbers(line.get_xdata()), *numbers(line.get_ydata())) == at)
            assert (to_hex(mark.get_markerfacecolor()) != to_hex(INK)) == bool(one.overflow)
    assert any("does not fit" in name for axes in panels for name in names(axes))


def test_rules_that_agree_share_a_mark() -> None:
    _, (axes,) = drawn("flash2", problem=Attention(n=16, d=8), sram=10**6)
    assert "best = fit = paper" not in " ".join(names(axes))  # best is 16x16, the others 16x8
    assert any(name.startswith("fit = paper 16x8") for name in names(axes))
    assert not any("residents" in name for name in names(axes))  # all blocks fit: there is no line


@pytest.mark.parametrize(("kernels", "sram"), [(["square-tiles"], 1500), (["flash"], 12288), (["flash2-backward", "flash2"], 4000)])
def test_names_keep_apart_and_within_the_panel(kernels: list[str], sram: int) -> None:
    reports = [counted(kernel, sram=sram) for kernel in kernels]
    figure = plots.tile_map(reports)
    figure.draw_without_rendering()
    for axes in figure.axes[: len(kernels)]:
        panel = axes.get_window_extent()
        boxes = [text.get_window_extent() for text in axes.texts if "\n" in text.get_text()]
        assert "fit line:\nresidents = M" in names(axes)
        assert len(boxes) > 2
        assert all(panel.contains(*box.min) and panel.contains(*box.max) for box in boxes)
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_the_layout_is_final_before_names_are_placed() -> None:
    figure = plots.tile_map([counted("flash", Attention(n=64, d=16), 10**6)])  # its best blocks lie at the end of both axes
    panel = figure.axes[0].get_position().bounds
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().bounds == panel


def test_boxes_know_what_they_share_and_how_far_they_are_apart() -> None:
    one, others = Boxes(*np.array([[[0.0, 0]], [[4, 2]]])), Boxes(np.array([[3.0, 1], [7, 6]]), np.array([[9.0, 9], [8, 8]]))
    assert one.shared(others).tolist() == [[1, 0]]
    assert one.apart(others).tolist() == [[0, 5]]
    assert one.padded().low.tolist() == [[-MARGIN, -MARGIN]]
    found = tries(np.array([[100.0, 100.0]]), np.array([30.0, 10.0]))
    assert (found.boxes.apart(Boxes(found.places[:1], found.places[:1]))[:, 0] > 0).all()  # no label stands on what it names


def test_levels_and_counts_are_short() -> None:
    assert levels(LogNorm(900, 22000)) == [1000, 2000, 5000, 10000, 20000]
    assert levels(LogNorm(1000, 1500)) == []
    assert [short(count) for count in (10, 2000, 2_229_248, 10**9)] == ["10", "2 k", "2.23 M", "1 G"]


def test_the_same_map_gives_the_same_file() -> None:
    def stored() -> bytes:
        file = io.BytesIO()
        plots.write(plots.tile_map([counted("flash2")]), file, "svg")
        return file.getvalue()

    assert stored() == stored()


def test_masks_are_drawn_and_what_cannot_be_is_refused() -> None:
    made = counted("flash2")
    masked = Attention(n=48, d=4, mask=np.random.default_rng(1).random((48, 48)) < 0.03)
    assert len(plots.tile_map([counted("flash2", masked, 400)]).axes) == 2
    assert len(plots.tile_map([counted("flash2", Attention(n=1, d=4, nk=1), 400)]).axes) == 2
    with pytest.raises(BadInput, match="nothing to draw"):
        plots.tile_map([])
    with pytest.raises(BadInput, match="nothing to draw"):
        plots.tile_map([counted("flash2", sram=20, blocks=(1, 1))])
    with pytest.raises(BadInput, match="block mask"):
        plots.tile_map([counted("block-sparse")])
    wide = Attention(n=2, d=1, nk=2**24, mask=np.zeros((2, 2**24), dtype=bool))
    with pytest.raises(BadInput, match="minutes"):
        plots.tile_map([replace(made, plan=replace(made.plan, problem=wide))])
