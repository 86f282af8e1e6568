"""The roofline, on which each run stands where its flops and bytes put it, and the timeline of what SRAM holds."""

from __future__ import annotations

import numpy as np
import pytest

from iosim import Attention, BadInput, simulate
from iosim.core.hardware import device
from iosim.core.tables import spell, words
from iosim.show.plots import roofline, timeline
from iosim.show.plots.figures import style


def numbers(data: object) -> list[float]:
    return [float(number) for number in np.asarray(data, dtype=float)]


def test_a_roofline_shows_each_run_where_its_flops_and_bytes_put_it() -> None:
    a100, problem = device("a100-40gb"), Attention(n=1024, d=64, heads=8, batch=16, dtype="float16")
    reports = [simulate(name, problem, execute=False) for name in ("standard", "flash", "flash2")]
    (axes,) = roofline(reports, a100).axes
    roof, _, *marks = axes.lines
    for mark, report in zip(marks, reports, strict=True):
        time = report.time_on(a100)
        assert time is not None
        expected = report.flops.matmul / report.bytes, report.flops.matmul / time.seconds
        assert (*numbers(mark.get_xdata()), *numbers(mark.get_ydata())) == pytest.approx(expected)
        assert (mark.get_color(), mark.get_marker()) == style(report.kernel)
        assert expected[1] <= np.interp(expected[0], numbers(roof.get_xdata()), numbers(roof.get_ydata())) * (1 + 1e-2)
        assert f"{report.kernel}, {spell(time.seconds * 1e3)} ms" in {text.get_text() for text in axes.texts}
    bandwidth, rate = 0.65 * a100.bandwidth, 110 / 312 * a100.fp16_tensor_rate
    x, y = numbers(roof.get_xdata()), numbers(roof.get_ydata())
    assert y == pytest.approx(np.minimum(rate, bandwidth * np.array(x)))
    assert {f"{words(bandwidth)}B/s", f"{words(rate)}flop/s", f"balance: {rate / bandwidth:.0f} flops a byte"} < {
        text.get_text() for text in axes.texts
    }
    assert axes.get_xlim()[0] < x[0] * (1 + 1e-9)
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert all(low < at < high for at, (low, high) in ((numbers(marks[0].get_ydata())[0], axes.get_ylim()), (rate, axes.get_ylim())))


def test_a_roofline_needs_runs_of_one_type_that_has_a_rate() -> None:
    a100 = device("a100-40gb")
    half, double = (simulate("flash2", Attention(n=64, d=8, dtype=dtype), execute=False) for dtype in ("float16", "float64"))
    single = simulate("flash2", Attention(n=64, d=8), execute=False)
    for reports in ([], [double], [half, double], [half, single]):
        with pytest.raises(BadInput, match="one element type"):
            roofline(reports, a100)


@pytest.mark.parametrize("kernel", ["standard", "flash", "flash2", "flash2-backward"])
def test_a_timeline_is_the_room_after_every_move(kernel: str) -> None:
    report = simulate(kernel, Attention(n=40, d=4), sram=300, blocks=(8, 8), overflow="record")
    (axes,) = timeline([report]).axes
    held, limit = axes.lines
    moved, used = [0], [0]
    for event in report.plan.trace():
        moved.append(moved[-1] + (event.words if event.kind in ("load", "store", "init") else 0))
        used.append(event.sram)
    assert numbers(held.get_xdata()) == moved
    assert numbers(held.get_ydata()) == used
    assert (moved[-1], max(used)) == (report.total, report.peak_sram)
    assert set(numbers(limit.get_ydata())) == {300}
    assert f"at most {report.peak_sram:,} of 300 words" in axes.get_title(loc="left")
    assert ("overflow recorded" in axes.get_title(loc="left")) == (report.overflow > 0)
    assert axes.get_ylim()[1] > max(300, report.peak_sram)


def test_timelines_share_their_axes_and_their_unit() -> None:
    problem = Attention(n=32, d=4)
    reports = [simulate(name, problem, sram=256, blocks=(8, 8)) for name in ("flash", "flash2")]
    upper, lower = timeline(reports).axes
    assert (upper.get_xlim(), upper.get_ylim()) == (lower.get_xlim(), lower.get_ylim())
    assert upper.get_xlim()[1] >= max(report.total for report in reports)
    with pytest.raises(BadInput, match="one unit"):
        timeline([*reports, simulate("flash2", problem, sram="1KiB")])
    with pytest.raises(BadInput, match="no report"):
        timeline([])


def test_a_timeline_of_too_many_events_is_refused() -> None:
    report = simulate("flash2", Attention(n=1200, d=4), sram=4096, blocks=(8, 8), execute=False, replay=False)
    with pytest.raises(BadInput, match=r"226,205 events, .* 200,000"):
        timeline([report])
