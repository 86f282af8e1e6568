"""What a notebook shows: tables of reports, grids of tiles, a bar while work is long, and errors in two lines."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosim import Attention, BadInput, BlockMask, Blocks, Machine, compare, simulate, sweep
from iosim.core import progress
from iosim.core.errors import LoopMisuse
from iosim.core.masks import drawn, patterns
from iosim.core.masks.grid import grid
from iosim.core.tables import html

SMALL = Attention(n=64, d=8)


def cells(shown: str) -> list[list[str]]:
    """The rows of the one table in it."""
    return [[cell.text or "" for cell in row] for row in ElementTree.fromstring(shown).iter("tr")]


def below(shown: str) -> list[str]:
    """The lines below the table."""
    last = list(ElementTree.fromstring(shown).iter("p"))[-1]
    return [last.text or "", *(line.tail or "" for line in last)]


def test_a_report_is_the_table_that_it_prints() -> None:
    report = simulate("flash", SMALL, sram=2048)
    head, *rows = cells(report._repr_html_())
    assert head == ["array", "reads", "writes", "predicted", "bytes"]
    printed = repr(report).splitlines()
    assert [" ".join(row).replace("  ", " ").strip() for row in rows] == [" ".join(line.split()) for line in printed[4 : 4 + len(rows)]]
    assert rows[-1][:3] == ["total", f"{report.reads:,}", f"{report.writes:,}"]
    assert below(report._repr_html_()) == [" ".join(line.split()) for line in printed[5 + len(rows) :]]
    assert printed[0] in report._repr_html_()


def test_a_report_tells_its_notes() -> None:
    report = simulate("standard", Attention(n=512, d=8), sram=300, execute=False)
    assert [f"note: {note}" for note in report.notes] == below(report._repr_html_())[-len(report.notes) :]
    assert report.notes


def test_a_comparison_is_the_table_that_it_prints() -> None:
    found = compare(SMALL, ["flash", "flash2", "fmha"], sram=600)
    head, *rows = cells(found._repr_html_())
    assert (head[0], [row[0] for row in rows]) == ("kernel", [report.kernel for report in found])
    assert [row[2] for row in rows] == [f"{report.total:,}" for report in found]
    assert [line.partition(":")[0] for line in below(found._repr_html_())] == [*found.refused]
    assert found.refused


def test_texts_are_escaped_and_numbers_stand_to_the_right() -> None:
    shown = html("<b>", ["a&b", "n"], [["<script>", 1000], ["x", None]], ['"&'])
    assert cells(shown) == [["a&b", "n"], ["<script>", "1,000"], ["x", "–"]]
    assert [cell.get("style") for cell in ElementTree.fromstring(shown).iter("td")] == ["text-align: left", "text-align: right"] * 2


def squares(shown: str) -> dict[tuple[int, int], tuple[bool, float]]:
    """Whether each square that is drawn is solid, and how dark it is, by row and column."""
    rects = [rect for rect in ElementTree.fromstring(shown).iter("rect") if rect.get("opacity")]
    place = [(int(rect.attrib["y"]) // drawn.SIDE, int(rect.attrib["x"]) // drawn.SIDE) for rect in rects]
    assert len(set(place)) == len(place)
    return {at: (rect.attrib["fill"] == "currentColor", float(rect.attrib["opacity"])) for at, rect in zip(place, rects, strict=True)}


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(1, 12))
def test_a_small_mask_shows_every_tile(seed: int, down: int, across: int) -> None:
    keep = np.random.default_rng(seed).random((2 * down, 3 * across)) < 0.4
    mask = BlockMask.from_elements(keep, rows=2, cols=3)
    tiles = keep.reshape(down, 2, across, 3).transpose(0, 2, 1, 3).reshape(down, across, 6)
    expected = {(i, j): (bool(tiles[i, j].all()), 1.0) for i in range(down) for j in range(across) if tiles[i, j].any()}
    assert squares(mask._repr_html_()) == expected


@given(st.integers(0, 2**32), st.integers(1, 160), st.integers(1, 160), st.floats(0, 1))
def test_a_large_mask_shows_shares(seed: int, down: int, across: int, density: float) -> None:
    keep = np.random.default_rng(seed).random((down, across)) < density
    step = -(-max(down, across) // drawn.MOST)
    shares = {
        (i, j): part.mean()
        for i in range(-(-down // step))
        for j in range(-(-across // step))
        if (part := keep[i * step : (i + 1) * step, j * step : (j + 1) * step]).any()
    }
    shown = BlockMask.from_dense(keep, down, across, 1, 1)._repr_html_()
    assert {at: share for at, (_, share) in squares(shown).items()} == pytest.approx(shares, rel=5e-3)
    assert all(solid for solid, _ in squares(shown).values())
    assert (f"A square is {step} x {step} tiles" in shown) == (step > 1)


def test_a_mask_says_what_it_is() -> None:
    mask = patterns.local_band(64, 64, 8, 8, 1)
    assert repr(mask) in mask._repr_html_()


def test_the_tiles_that_a_loop_visits_are_shown_full_or_partial() -> None:
    found = grid(Attention(n=50, d=8, causal=True), Blocks(10, 5))
    expected = {(i, j): (5 * j + 4 <= 10 * i, 1.0) for i in range(5) for j in range(10) if 5 * j <= 10 * i + 9}
    assert squares(found._repr_html_()) == expected
    partial = sum(not full for full, _ in expected.values())
    assert repr(found) == f"Grid(5x10 tiles of 10x5 over 50x50 pairs: {len(expected)} visited, {partial} partial)"


def test_a_grid_of_billions_of_tiles_is_drawn_without_listing_them() -> None:
    found = grid(Attention(n=10**6, d=8, causal=True), Blocks(16, 16))
    assert len(found._repr_html_()) < 200_000
    assert "1,953,156,250 visited" in repr(found)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A stand-in for IPython in a kernel; everything that is displayed, in order, as (display, its text)."""
    shown: list[Any] = []

    class Handle:
        def update(self, text: str) -> None:
            shown.append((self, text))

    def display(text: str, *, display_id: bool) -> Handle:
        assert display_id
        handle = Handle()
        handle.update(text)
        return handle

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    vars(ipython).update(get_ipython=lambda: SimpleNamespace(kernel=True))
    vars(module).update(display=display, HTML=str)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return shown


def test_long_work_shows_one_bar_and_clears_it(kernel: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1)
    records = sweep(SMALL, ["flash", "flash2"], sram=[1024, 2048])
    assert len(records) == 4
    assert len({id(handle) for handle, _ in kernel}) == 1
    assert [re.findall("[0-9]+", text) for _, text in kernel] == [[str(done), "4"] * 2 for done in (1, 2, 3)] + [[]]


def test_short_work_shows_none(kernel: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 1000)
    sweep(SMALL, ["flash2"], sram=[1024, 2048])
    assert kernel == []


def test_outside_of_a_kernel_nothing_is_shown(kernel: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1)
    vars(sys.modules["IPython"])["get_ipython"] = lambda: None
    sweep(SMALL, ["flash2"], sram=[1024, 2048])
    assert kernel == []


def test_an_error_is_its_message_and_the_line_that_asked() -> None:
    with pytest.raises(BadInput) as caught:
        simulate("flash2", SMALL, sram=3)
    where, message = caught.value._render_traceback_()
    assert re.fullmatch(r'line [0-9]+: simulate\("flash2", SMALL, sram=3\)', where)
    assert message == f"BadInput: {caught.value}"


def test_an_error_in_a_listing_names_the_line_of_the_listing() -> None:
    def listing(m: Machine) -> None:
        for _ in m.tiles(8, 4):
            break
        m.finish()

    with pytest.raises(LoopMisuse) as caught:
        listing(Machine(64))
    assert caught.value._render_traceback_()[0].endswith(": m.finish()")


def test_in_a_real_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mime types, the bar and the traceback as a front end gets them."""
    client, make = pytest.importorskip("nbclient", reason="needs the extra notebooks"), pytest.importorskip("nbformat").v4
    pytest.importorskip("ipykernel")
    sources = [
        "from iosim import *; from iosim.core import progress; progress.PATIENCE = -1; simulate('flash2', Attention(n=64, d=8))",
        "found = sweep(Attention(n=64, d=8), ['flash2'], sram=[2048, 4096])",
        "simulate('flash2', Attention(n=64, d=8), sram=3)",
    ]
    book = make.new_notebook(cells=[make.new_code_cell(source) for source in sources])
    client.NotebookClient(book, allow_errors=True, startup_timeout=120, timeout=120).execute()
    shown, bar, error = (cell["outputs"] for cell in book["cells"])
    assert {"text/html", "text/plain"} <= set(shown[0]["data"])
    assert [output["data"]["text/html"] for output in bar] == [""]  # what is left of it
    assert len(error[0]["traceback"]) == 2
    assert "sram=3" in error[0]["traceback"][0]
