"""Figures: what is drawn is what was counted, styles that need no colour, and files that need no display."""

from __future__ import annotations

import io
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from iosim import FORWARD, KERNELS, Attention, BadInput, simulate, sweep
from iosim.cli import main
from iosim.show.plots import Figure, bars, curves, write
from iosim.show.plots.curves import APART, spread
from iosim.show.plots.figures import QUIET, style

PROBLEM = Attention(n=512, d=16)
SIZES = [60, 2048, 4096, 8192]


def numbers(data: ArrayLike) -> list[float]:
    return [float(number) for number in np.asarray(data)]


def lines(axes: Axes, kernel: str) -> list[tuple[list[float], list[float], str, str]]:
    """What is drawn of a kernel: x, y, line style and marker face."""
    drawn = [line for line in axes.lines if to_hex(line.get_color()) == style(kernel).colour.lower()]
    places = [(numbers(line.get_xdata()), numbers(line.get_ydata())) for line in drawn]
    styles = [(str(line.get_linestyle()), to_hex(line.get_markerfacecolor())) for line in drawn]
    return [(*place, *style) for place, style in zip(places, styles, strict=True)]


def test_one_panel_a_sweep_on_logarithmic_axes() -> None:
    figure = curves(sweep(PROBLEM, n=[256, 512]), sweep(PROBLEM, sram=["16KiB", "32KiB"]), subtitles=["one", "two"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["sequence length N", "SRAM capacity M (bytes)"]
    assert {axes.get_xscale() for axes in figure.axes} == {axes.get_yscale() for axes in figure.axes} == {"log"}
    assert "words" in figure.axes[0].get_ylabel()
    for axes, subtitle in zip(figure.axes, ("one", "two"), strict=True):
        written = {text.get_text() for text in axes.texts}
        assert {*FORWARD, "lower bound for all pairs", subtitle} == written


def test_the_points_are_the_counts_and_a_gap_where_nothing_fits() -> None:
    records = sweep(PROBLEM, ["flash2"], sram=SIZES)
    axes = curves(records).axes[0]
    counted = [(record["sram"], record["total"]) for record in records if record["total"] is not None]
    assert len(counted) == 3
    drawn = lines(axes, "flash2")
    assert [list(zip(x, y, strict=True)) for x, y, _, _ in drawn if len(x) == 3] == [counted]
    assert len([x for x, *_ in drawn if len(x) == 2]) == 2


def test_overflow_is_dashed_and_hollow() -> None:
    records = sweep(PROBLEM, ["flash2"], sram=[2048, 4096, 8192, 16384], blocks=(32, 32), overflow="record")
    over = [bool(record["overflow"]) for record in records]
    assert True in over
    assert False in over
    drawn = lines(curves(records).axes[0], "flash2")
    segments = [(x, style) for x, _, style, _ in drawn if len(x) == 2 and x[0] != x[1]]
    dashed = {x[0] for x, style in segments if style == "--"}
    assert dashed == {float(size) for size, *near in zip([2048, 4096, 8192], over, over[1:], strict=False) if any(near)}
    hollow = [x for x, _, _, face in drawn if face == "#ffffff"]
    assert hollow == [[float(size) for size, too_much in zip([2048, 4096, 8192, 16384], over, strict=True) if too_much]]


@pytest.mark.parametrize("axis", ["n", "sram"])
def test_the_envelope_is_the_lower_bound_over_either_axis(axis: str) -> None:
    problem, places = Attention(n=2048, d=4), [256, 512, 1024]
    records = sweep(problem, ["flash2"], n=places, sram=400) if axis == "n" else sweep(problem, ["flash2"], sram=places)
    axes = curves(records).axes[0]
    bound = [record["lower_bound"] for record in records]
    assert len(set(bound)) == 3
    assert [numbers(line.get_xdata()) for line in axes.lines if numbers(line.get_ydata()) == bound] == [places]
    assert axes.get_ylim()[0] < min(number for number in bound if isinstance(number, int))
    assert "lower bound" in {text.get_text() for text in axes.texts}


def test_a_bound_is_drawn_only_where_some_kernel_fits() -> None:
    records = sweep(Attention(n=512, d=16), ["flash2"], sram=SIZES)
    drawn = [numbers(line.get_xdata()) for line in curves(records).axes[0].lines if to_hex(line.get_color()) == QUIET]
    assert drawn == [SIZES[1:]]


def test_styles_need_no_colour() -> None:
    for backward in (False, True):
        drawn = [style(name) for name, kernel in KERNELS.items() if kernel.paper and (kernel.forward is not None) == backward]
        assert len({one.marker for one in drawn}) == len(drawn)
        assert len({one.colour for one in drawn}) == len(drawn)


def test_labels_stand_apart() -> None:
    assert spread([0.1, 0.5, 0.9]) == [0.1, 0.5, 0.9]
    crowded = spread([0.5, 0.5, 0.51, 0.56, 0.9])
    assert [b - a > 0.999 * APART for a, b in pairwise(crowded)] == [True] * 4
    assert abs(sum(crowded) - sum([0.5, 0.5, 0.51, 0.56, 0.9])) < 1e-9


def test_nothing_to_draw_is_said() -> None:
    for nothing in ([], [sweep(PROBLEM, ["flash2"], sram=[10, 20])]):
        with pytest.raises(BadInput, match="nothing to draw"):
            curves(*nothing)
    with pytest.raises(BadInput, match="nothing to draw"):
        bars([])


def test_a_bar_is_as_long_as_its_array() -> None:
    reports = [simulate(kernel, PROBLEM, sram=8192, execute=False) for kernel in ("flash", "flash2")]
    figure = bars(reports)
    assert len(figure.axes) == 2
    for axes, report in zip(figure.axes, reports, strict=True):
        drawn = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
        full, hatched = ([bar.get_width() for bar in drawn if bool(bar.get_hatch()) == flag] for flag in (False, True))
        assert full == [array.reads for array in report.arrays.values()]
        assert hatched == [array.writes for array in report.arrays.values()]
        assert [label.get_text() for label in axes.get_yticklabels()] == list(report.arrays)


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_same_figure_gives_the_same_file(kind: str, magic: bytes) -> None:
    def stored() -> bytes:
        file = io.BytesIO()
        write(curves(sweep(PROBLEM, ["flash", "flash2"], n=[256, 512])), file, kind)
        return file.getvalue()

    assert stored().startswith(magic)
    assert stored() == stored()


@pytest.mark.parametrize("line", ["run flash2 --n 64", "compare --n 64", "curve --n 64,128 --kernels flash,flash2"])
def test_commands_draw_to_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str) -> None:
    target = tmp_path / "figure.svg"
    assert main([*line.split(), "--json", "--plot", str(target)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(("{", "["))
    assert err == f"iosim: wrote {target}\n"
    assert b"</svg>" in target.read_bytes()
    assert list(tmp_path.iterdir()) == [target]


def test_no_window_and_no_global_state(tmp_path: Path) -> None:
    code = """
import sys
from iosim import Attention, sweep
from iosim.show import plots
with open("curve.png", "wb") as file:
    plots.write(plots.curves(sweep(Attention(n=64, d=4), ["flash2"], n=[64, 128])), file, "png")
print("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_figures_are_matplotlib_figures() -> None:
    assert isinstance(curves(sweep(PROBLEM, ["flash2"], n=[256, 512])), Figure)
