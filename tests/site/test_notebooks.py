"""The notebooks: equal to their reviewed sources, stored without outputs, run top to bottom, and broken by one wrong count.

The numbers that a notebook says at its end, and those of the answers of notebook 5, are computed here once more, in :data:`SAID` and
:data:`ANSWERS`: from sizes, closed forms and the reference. No machine runs for them.

All other numbers that a notebook prints, and what its pictures show, are kept in ``golden_notebooks``, without the words around them.
``python tests/site/test_notebooks.py`` writes them anew; read the difference before you keep it.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iosim.core.counts import Counts, Traffic
from iosim.core.masks import patterns
from iosim.core.options import Options
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.course import exercises as course
from iosim.memory import Machine
from iosim.predict import choose_blocks, frontier, predict, residents
from iosim.predict.bounds import bounds, least_words
from iosim_reference.bounds import output_bound
from iosim_reference.softmax import merge, safe, state

FOLDER = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted(FOLDER.glob("[0-9]*.py"))
WHY = 'needs the extra: pip install -e ".[notebooks]"'
CELL_SECONDS, NOTEBOOK_SECONDS, MOST_LINES = 60, 60, 100
START_SECONDS = 120  # for a kernel to answer, on a machine that has much else to do; its own time is not the notebook's
MARKER = re.compile(r"^# %%", re.MULTILINE)

each = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)

KEPT = Path(__file__).parent / "golden_notebooks"
ROUNDING = re.compile(r"\b\d\.\de[+-]\d\d\b")
"""Rounding errors and their bounds, which differ between versions of NumPy; nothing else is printed so."""

NUMBER = re.compile(r"(?:(?<=\s)-)?(?:\d[\d,.]*\d|\d)(?:e[+-]\d+)?")
VALUE = re.compile(rf"(?:\b\w+ += +)?{NUMBER.pattern}")
"""A number, with its name where it has one."""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def cells(source: Path) -> list[dict[str, Any]]:
    """The cells of the stored notebook."""
    found: list[dict[str, Any]] = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    return found


def text(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def prose(source: Path) -> str:
    return "\n\n".join(text(cell) for cell in cells(source) if cell["cell_type"] == "markdown")


def exercises() -> set[str]:
    """The names of the exercises, from the folders of the course."""
    folders = [Path(folder) for folder in course.__path__]
    return {found.name[4:].replace("_", "-") for folder in folders for found in folder.glob("e[0-9][0-9]_*")}


def test_there_are_notebooks(source_tree: Path) -> None:
    numbers = [int(source.stem[:2]) for source in SOURCES]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 10
    assert {path.stem for path in (source_tree / "notebooks").glob("*.ipynb")} == {source.stem for source in SOURCES}


@each
def test_a_notebook_is_what_its_source_makes(source: Path) -> None:
    for needed in ("jupytext", "nbformat"):
        pytest.importorskip(needed, reason=WHY)
    spec = importlib.util.spec_from_file_location("pairs", FOLDER / "pairs.py")
    assert spec is not None
    assert spec.loader is not None
    pairs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pairs)
    stored = source.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert pairs.paired(source) == stored, "run python notebooks/pairs.py"
    assert pairs.sources() == SOURCES


@each
def test_a_notebook_is_stored_without_outputs_and_with_ids_by_position(source: Path) -> None:
    book = json.loads(source.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert book["metadata"]["kernelspec"]["name"] == "python3"
    assert [cell["id"] for cell in book["cells"]] == [f"cell-{place:02}" for place in range(1, len(book["cells"]) + 1)]
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert not any(path in text(cell) for cell in book["cells"] for path in ("/home/", "/tmp/", "/work/", "C:\\"))


@each
def test_a_notebook_asks_first_lets_predict_and_checks(source: Path) -> None:
    found = cells(source)
    assert text(found[0]).startswith("# ")
    assert "?" in text(found[0])
    assert re.search("write down|predict", prose(source), re.IGNORECASE)
    checks = [text(cell) for cell in found if "check" in cell["metadata"].get("tags", [])]
    assert checks
    assert all("assert" in check for check in checks)
    assert any("==" in check for check in checks)


@each
def test_a_notebook_links_an_exercise_that_there_is(source: Path) -> None:
    start = prose(source).index("## Exercise")
    named = set(re.findall("`([a-z0-9-]+)`", prose(source)[start:]))
    assert named & exercises()


@dataclass(frozen=True)
class Run:
    """An executed notebook."""

    name: str
    cells: list[dict[str, Any]]
    pictures: list[list[list[str]]]
    """Cell of code by cell of code, what is drawn in each of its pictures."""

    @property
    def code(self) -> list[dict[str, Any]]:
        return [cell for cell in self.cells if cell["cell_type"] == "code"]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        return [output for cell in self.code for output in cell["outputs"]]

    @property
    def seconds(self) -> list[float]:
        """What each cell took, by the kernel's clock: from when it began to when it answered."""
        stamps = [cell["metadata"]["execution"] for cell in self.code]
        when = [[datetime.fromisoformat(one[key]) for key in ("iopub.execute_input", "shell.execute_reply")] for one in stamps]
        return [(end - begin).total_seconds() for begin, end in when]

    @property
    def summary(self) -> list[str]:
        """All that is printed below the heading of the summary."""
        heading = max(place for place, cell in enumerate(self.cells) if cell["cell_type"] == "markdown" and "## Summary" in text(cell))
        return [line for cell in self.cells[heading:] if cell["cell_type"] == "code" for line in lines(cell)]

    @property
    def answers(self) -> list[str]:
        """What opens under a question."""
        pages = [output.get("data", {}).get("text/html", "") for output in self.outputs]
        return [re.sub("<[^>]*>", " ", page).strip() for page in pages if page.startswith("<details>")]


def lines(cell: dict[str, Any]) -> list[str]:
    """What a cell says, on the screen of somebody who sees no pictures."""
    texts = [str(output.get("text", "") or output.get("data", {}).get("text/plain", "")) for output in cell["outputs"]]
    return "".join(texts).splitlines()


def executed(book: Any) -> list[dict[str, Any]]:
    """The cells of ``book``, run in a kernel of their own; a kernel that never answers is given up, and another one is tried."""
    try:
        return attempted(book)
    except RuntimeError:
        if any(cell.get("execution_count") for cell in book.cells):
            raise
        return attempted(book)


def attempted(book: Any) -> list[dict[str, Any]]:
    """The same, once. The client waits for twice as long as a cell may take, so that the cell's own time decides (:attr:`Run.seconds`)."""
    waits = {"timeout": 2 * CELL_SECONDS, "startup_timeout": START_SECONDS}
    client = pytest.importorskip("nbclient").NotebookClient(book, resources={"metadata": {"path": str(FOLDER)}}, **waits)
    # nbclient would answer widgets over the channel on which it waits, by a copy of the socket, and then now and then sleep through the
    # cell's own answer until its time is up. Nobody moves a slider here, and what a widget's function prints stays with the cell.
    client.comm_open_handlers = {"jupyter.widget": lambda message: None}
    client.execute()
    cells: list[dict[str, Any]] = book.cells
    return cells


def book_of(*sources: str) -> Any:
    """A notebook with such cells of code."""
    make = pytest.importorskip("nbformat", reason=WHY).v4
    return make.new_notebook(cells=[make.new_code_cell(source) for source in sources])


@pytest.fixture(scope="module", params=SOURCES, ids=lambda source: source.stem)
def run(request: pytest.FixtureRequest) -> Run:
    """A notebook, run top to bottom; an error in a cell ends the test."""
    for needed in ("ipykernel", "nbformat", "nbclient"):
        pytest.importorskip(needed, reason=WHY)
    return run_of(request.param)


def run_of(source: Path) -> Run:
    """A run of a stored notebook between two cells more: one that has pictures described, and one that hands the descriptions out."""
    nbformat = pytest.importorskip("nbformat")
    book = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    first, last = WATCHED.format(inspect.getsource(watch)), "print(__import__('json').dumps([[*found.values()] for found in watched.seen]))"
    book.cells = [nbformat.v4.new_code_cell(first), *book.cells, nbformat.v4.new_code_cell(last)]
    _, *cells, told = executed(book)
    return Run(source.stem, cells, json.loads("".join(lines(told))))


WATCHED = """\
watched = {{}}
exec(compile({!r}, "watch", "exec", __import__("__future__").annotations.compiler_flag), watched)
watched = watched["watch"]
watched()
"""
"""Begins a notebook, and leaves one name in it."""


def watch() -> None:
    """Describe every figure when it is shown. This runs in the notebook's kernel, where it has only what it imports itself."""
    from functools import wraps
    from importlib import import_module

    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.category import StrCategoryLocator
    from matplotlib.colors import to_hex
    from matplotlib.ticker import FixedLocator, FuncFormatter, StrMethodFormatter

    seen: list[dict[int, list[str]]] = []
    canvases: Any = FigureCanvasAgg
    right = canvases.print_png

    def short(numbers: Any) -> str:
        """Up to twelve numbers, the first and the last among them; of more, how many there are, and their sum."""
        flat: Any = np.ma.filled(np.ma.asarray(numbers, float), np.nan).ravel()
        some = flat[np.unique(np.linspace(0, len(flat) - 1, 12).round().astype(int))] if len(flat) > 12 else flat
        said = " ".join(f"{number:.4g}" for number in some)
        return said if len(some) == len(flat) else f"{said} ({len(flat)}, sum {np.nansum(flat):.4g})"

    def colours(given: Any) -> str:
        return "none" if not len(np.atleast_1d(given)) else " ".join(to_hex(one) for one in np.atleast_2d(given)[:1])

    def drawn(axes: Any) -> Iterable[str]:
        for side in ("left", "center", "right"):
            if axes.get_title(loc=side):
                yield f"title {axes.get_title(loc=side)!r}"
        for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
            yield f"{name} axis {axis.get_label_text()!r}, {axis.get_scale()}{', inverted' if axis.get_inverted() else ''}"
            if not getattr(axes, f"get_autoscale{name}_on")():
                yield f"{name} limits {short(axis.get_view_interval())}"
            if isinstance(axis.get_major_locator(), FixedLocator | StrCategoryLocator):
                labels = [label.get_text() for label in axis.get_ticklabels()]
                yield f"{name} ticks {short(axis.get_majorticklocs())} {labels}"
            elif isinstance(axis.get_major_formatter(), FuncFormatter | StrMethodFormatter):
                yield f"{name} ticks have {axis.get_major_formatter()(3e6, 0)!r} at 3e6"
        for line in axes.lines:
            style = f"{to_hex(line.get_color())} {line.get_linestyle()} {line.get_marker()} {line.get_drawstyle()}"
            yield f"line {style} x {short(line.get_xdata())} y {short(line.get_ydata())}"
        for patch in axes.patches:
            box = patch.get_path().get_extents(patch.get_patch_transform())
            yield f"patch {to_hex(patch.get_facecolor())} {short(box.extents)}"
        for many in axes.collections:
            shape = [path.get_extents().extents for path in many.get_paths()[:1]]
            yield f"{type(many).__name__} {colours(many.get_facecolor())} {short(shape)}" + (
                "" if many.get_array() is None else f" of {short(many.get_array())}"
            )
        for image in axes.images:
            yield f"image {short(image.get_extent())} of {short(image.get_array())}"
        for text in axes.texts:
            at = getattr(text, "xy", text.get_position())
            yield f"text {text.get_text()!r} {to_hex(text.get_color())} at {short(at)}"
        if axes.get_legend() is not None:
            yield f"legend {[text.get_text() for text in axes.get_legend().get_texts()]}"

    @wraps(right)  # matplotlib asks for the names of its arguments
    def described(canvas: Any, *given: Any, **named: Any) -> Any:
        figure = canvas.figure
        texts = [*figure.texts, *(legend for one in figure.legends for legend in one.get_texts())]
        said = [f"figure says {text.get_text()!r}" for text in texts if text.get_text()]
        for place, axes in enumerate(figure.axes):
            said += [f"axes {place}", *(f"  {line}" for line in drawn(axes))]
        seen[-1][id(figure)] = said
        return right(canvas, *given, **named)

    canvases.print_png = described  # the one place through which every shown picture passes
    import_module("IPython").get_ipython().events.register("pre_run_cell", lambda info: seen.append({}))
    mine: Any = watch
    mine.seen = seen  # for the last cell


def shown(run: Run) -> str:
    """The numbers that a notebook prints and draws, cell by cell."""
    said = []
    for number, (cell, pictures) in enumerate(zip(run.code, run.pictures, strict=False), start=1):
        if "ipywidgets" not in text(cell):  # sliders are there or not
            told = [values(line) for line in printed(cell)]
            said += [f"# cell {number} prints", *filter(None, told)] * any(told)
            said += [line for picture in pictures for line in (f"# cell {number} draws", *map(wordless, placed(picture, cell)))]
    return "\n".join(said) + "\n"


def values(line: str) -> str:
    """The numbers of a line."""
    return re.sub(" +", " ", " ".join(VALUE.findall(line)))


def wordless(line: str) -> str:
    """A line about a picture, with the numbers alone of what is more than a name."""
    return QUOTED.sub(lambda found: repr(values(found[0])) if re.search(r"\s|\\n", found[0]) else found[0], line)


def placed(picture: list[str], cell: dict[str, Any]) -> list[str]:
    """A picture without the places of its texts and the ends of its axes where iosim or matplotlib chose these, and not the notebook."""
    if not re.search(r"\b(bars|tile_map)\(", text(cell)):
        return picture
    return [re.sub("^(  text .*) at .*", r"\1", line) for line in picture if not re.match("  [xy] limits ", line)]


def printed(cell: dict[str, Any]) -> list[str]:
    """What a cell prints, but for sources, which change with iosim, and for meters that are not installed everywhere."""
    if re.search(r"getsource|print\((function\(|cuda\[)", text(cell)):
        return []
    found = [ROUNDING.sub("~", line.rstrip()) for line in lines(cell) if not line.startswith("<")]  # figures and answers
    return found[:3] if "environment.needs(" in text(cell) else found


def test_a_notebook_prints_and_draws_what_it_did(run: Run) -> None:
    kept = (KEPT / f"{run.name}.txt").read_text(encoding="utf-8")
    assert shown(run) == kept, "python tests/site/test_notebooks.py writes it down; read the difference"


def test_a_notebook_runs_in_time_and_says_little_at_a_time(run: Run) -> None:
    assert max(run.seconds) < CELL_SECONDS
    assert sum(run.seconds) < NOTEBOOK_SECONDS
    assert max(len(lines(cell)) for cell in run.code) <= MOST_LINES
    assert not [output for output in run.outputs if output["output_type"] == "stream" and output["name"] == "stderr"]


def test_a_notebook_shows_a_picture(run: Run) -> None:
    assert any("image/png" in output.get("data", {}) or "image/svg+xml" in output.get("data", {}) for output in run.outputs)


def matters(number: str) -> bool:
    return "." in number or sum(map(str.isdigit, number)) >= 3


def wrong_numbers(said: str, computed: str) -> list[str]:
    """The numbers of ``computed`` that are not said, and those of some length that are said and not computed."""
    printed, right = NUMBER.findall(said), NUMBER.findall(computed)
    return [one for one in right if one not in printed] + [one for one in printed if matters(one) and one not in right]


def test_a_notebook_runs_and_ends_with_three_lines_that_are_so(run: Run) -> None:
    assert [line[:3] for line in run.summary] == ["1. ", "2. ", "3. "]
    assert all(re.search("[0-9]", line[3:]) for line in run.summary)
    assert [wrong_numbers(*both) for both in zip(run.summary, SAID[run.name](), strict=True)] == [[]] * 3


def test_a_notebook_runs_and_gives_answers_that_are_so(run: Run) -> None:
    """Of a rounding error it is known how large it may be, not how large it is: it stands before its bound, and is below it."""
    answers = ANSWERS[run.name]() if run.name in ANSWERS else []
    roundings = [found for answer in run.answers if (found := ROUNDING.findall(answer))]
    said = [ROUNDING.sub("", answer, count=1) for answer in run.answers]
    assert [wrong_numbers(*both) for both in zip(said, answers, strict=True)] == [[] for _ in answers]
    assert [float(off) < float(bound) for off, bound in roundings] == [True] * (run.name in ANSWERS)


@pytest.mark.parametrize("wrong", ["1. 12,346 words, 2.5 times", "1. 12,345 words", "1. 12,345 words, 2.5 times in 100 KiB"])
def test_a_wrong_number_is_seen(wrong: str) -> None:
    assert wrong_numbers("1. 12,345 words, 2.5 times", "2.5 12,345") == []
    assert wrong_numbers(wrong, "2.5 12,345")


@each
def test_what_answers_is_folded_and_stands_behind_what_says_so(source: Path) -> None:
    """A cell that computes an answer, or checks one, is folded in JupyterLab, which shows its first line, and on the site; no other is."""
    found = cells(source)
    folded = [place for place, cell in enumerate(found) if cell["metadata"].get("jupyter", {}).get("source_hidden")]
    assert folded == [place for place, cell in enumerate(found) if "hide-input" in cell["metadata"].get("tags", [])]
    assert bool(folded) == (source.stem in ANSWERS)
    if folded:
        first, last = folded[0], folded[-1]
        assert folded == [*range(first, last + 1)]
        assert "**The answers are below this line.**" in text(found[first - 1])
        assert [place for place, cell in enumerate(found) if "answer(" in text(cell)] == folded[:-1]
        assert "check" in found[last]["metadata"]["tags"]
        assert all(text(found[place]).startswith("# ") for place in folded)


def test_the_code_of_the_answers_does_not_say_them() -> None:
    """What opens holds numbers and words that the code of an answer only computes."""
    for name, answers in ANSWERS.items():
        shut = "".join(text(cell) for cell in cells(FOLDER / f"{name}.py") if "answer(" in text(cell))
        numbers = {number for said in answers() for number in re.findall(r"\d[\d,]*\d{3}|\d\.\d{4}", said)}
        assert len(numbers) > 10
        assert not [number for number in numbers if number in shut or number.replace(",", "") in shut]
        assert "first 32" not in shut


def test_the_time_of_a_cell_is_what_the_kernel_took_for_it() -> None:
    pytest.importorskip("ipykernel", reason=WHY)
    quick, slow = Run("", executed(book_of("1 + 1", "import time; time.sleep(0.5)")), []).seconds
    assert quick < 0.5 <= slow


def test_a_widget_does_not_keep_a_cell_waiting() -> None:
    """nbclient's own answers to widgets take what is printed out of the cell, and stall about one such cell in fifty."""
    for needed in ("ipykernel", "ipywidgets"):
        pytest.importorskip(needed, reason=WHY)
    sliders = ["from ipywidgets import interact\ndef show(n=3): print(n)", *["interact(show, n=(1, 5))"] * 20]
    _, *shown = executed(book_of(*sliders))
    assert all("3" in lines(cell) for cell in shown)


@pytest.mark.parametrize("deaf", [1, 2])
def test_a_kernel_that_never_answers_is_tried_once_more(deaf: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ipykernel", reason=WHY)
    nbclient = pytest.importorskip("nbclient", reason=WHY)
    right, begun = nbclient.NotebookClient.async_start_new_kernel_client, []

    async def start(client: Any) -> Any:
        begun.append(client)
        if len(begun) > deaf:
            return await right(client)
        await client._async_cleanup_kernel()
        raise RuntimeError("Kernel didn't respond in 120 seconds")

    monkeypatch.setattr(nbclient.NotebookClient, "async_start_new_kernel_client", start)
    if deaf == 1:
        assert lines(executed(book_of("print(6 * 7)"))[0]) == ["42"]
    else:
        with pytest.raises(RuntimeError, match="didn't respond"):
            executed(book_of("print(6 * 7)"))
    assert len(begun) == 2


def test_a_kernel_that_dies_at_work_is_not_tried_again(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel", reason=WHY)
    begun = tmp_path / "begun"
    with pytest.raises(RuntimeError, match="died"):
        executed(book_of(f"with open({str(begun)!r}, 'a') as file: print('once', file=file)", "import os; os._exit(1)"))
    assert begun.read_text() == "once\n"


def total(kernel: str, problem: Attention, blocks: Blocks, **options: Any) -> int:
    """The words of the closed form."""
    return sum(moved.reads + moved.writes for moved in predict(kernel, problem, blocks, Options(**options)).values())


def flash_words(n: int, d: int, tiles: int) -> int:
    """K and V once; Q, O twice, l and m twice for each tile of keys; O, l and m filled once."""
    return 2 * n * d + tiles * (3 * n * d + 4 * n) + n * (d + 2)


def flash2_words(n: int, d: int, tiles: int) -> int:
    """Q and O once, K and V for each tile of queries, LSE once."""
    return 2 * n * d + tiles * 2 * n * d + n


def memory() -> list[str]:
    n, d, rate, bandwidth = 4096, 64, 312e12, 1555e9  # NVIDIA's data sheet of the A100 40GB SXM
    flops, moved = 4 * n * n * d, 2 * (4 * n * n + 4 * n * d)
    computing, crossing = (1e3 * 16 * 8 * time for time in (flops / rate, moved / bandwidth))  # ms, for 16 sequences of 8 heads
    return [
        f"A100 {rate / bandwidth:.0f}",
        f"{flops / moved:.1f} d/2 = {d // 2}",
        f"16.47 {computing:.2f} {crossing:.2f}",  # ms, the first of Table 18
    ]


def softmax() -> list[str]:
    naive, careful, online = 2 + 1, 3 + 1, 2 + 1  # reads and writes of an element (Milakov and Gimelshein 2018)
    limit = 128 * math.log(2)  # float32 ends just below 2^128
    two = merge(state([0.0, 0.0], [[1.0], [3.0]]), state([math.log(3), 0.0], [[7.0], [11.0]]))
    l, o, output = (np.asarray(number).item() for number in (two.l, two.o, two.output))
    return [f"{limit:.1f} {careful} {naive}", f"{online}", f"l = {l:.0f} o = {o:.0f} {output:.0f}"]


def tiling() -> list[str]:
    n, b = 1024, 128
    m, more = b * b + 2 * b, (2 * b) ** 2 + 4 * b
    least = math.ceil(2 * n**3 / math.sqrt(m) - 2 * m)
    return [
        f"2n^3/b b = sqrt(M + 1) - 1 M = {m:,} b = {b}",
        f"{more / m:.2f} {b / (2 * b):.2f}",
        f"M = {m:,} {(2 * n**3 // b + n * n) / least:.2f}",
    ]


def standard() -> list[str]:
    n, d = 1024, 64
    square, others = 4 * n * n, 4 * n * d
    blocks = choose_blocks("standard", Attention(n=n, d=d), Capacity(100 * 1024, "bytes"))
    dense, causal = (total("standard", Attention(n=n, d=d, causal=one), blocks) for one in (False, True))
    tops = range(0, n, blocks.rows)
    keys = [-(-min(n, top + blocks.rows) // blocks.cols) * blocks.cols for top in tops]  # that a tile of queries meets
    pairs = sum((min(n, top + blocks.rows) - top) * met for top, met in zip(tops, keys, strict=True))
    return [
        f"N = {n:,} d = {d} {square + others:,} {square:,} {square / (square + others):.0%}",
        f"N/d + 1 = {n // d + 1} 4Nd {2 * (len(tops) - 1) * n * d:,}",
        f"{1 - pairs / n**2:.0%} {1 - causal / dense:.0%}",
    ]


def flash() -> list[str]:
    n, d, cols = 512, 32, 64
    other = total("standard", Attention(n=n, d=d), choose_blocks("standard", Attention(n=n, d=d), Capacity(16384, "words")))
    values, weights = np.array([1.0, 3.0, 7.0, 11.0]), safe([0.0, 0.0, math.log(3), 0.0])
    first, both = values[:2].mean(), weights @ values
    return [
        f"O = {first:.0f} {both:.0f}",
        f"{flash_words(n, d, n // cols):,} {other:,} {4 * n * n * d:,}",
        f"1 {n // cols}",
    ]


def blocks() -> list[str]:
    n, d, m = 1024, 64, 16384
    side = m // (4 * d)
    square = max(b for b in range(1, n) if 4 * b * d + b * b + 8 * b <= m)
    wide = max(b for b in range(1, n) if 2 * (1 + b) * d + b + 8 <= m)
    saved = flash_words(n, d, -(-n // square)) / flash_words(n, d, -(-n // wide))
    full = (m + side * side + 8 * side) / m
    flash, flash2 = 3, 2  # matrices that move once for each outer tile: Q, O and O; K and V
    return [
        f"M/4d {full:.2f} M",
        f"M = {m:,} {saved:.2f}",
        f"{flash * 4} {flash * 2} {flash2 * 2}",
    ]


def trained_words(kernel: str, sram: int, n: int, d: int, rule: str) -> int:
    """The words of both passes in tiles that fit in ``sram`` words: by the shape of the tiles, or by the frontier for the best ones."""
    problem, asked = Attention(n=n, d=d), Options(first_pass="create") if kernel == "flash" else Options()
    words = 0
    for one in (kernel, f"{kernel}-backward"):
        if rule == "best":
            steps = frontier(one, problem, asked, upto=sram)
            words += int(steps.words[steps.at(sram)])
        else:
            words += sum(moved.reads + moved.writes for moved in predict(one, problem, largest(one, problem, sram, asked), asked).values())
    return words


def largest(kernel: str, problem: Attention, sram: int, asked: Options) -> Blocks:
    """The largest block of the outer loop that fits, the other one as large but no larger than d: keys are outside in flash alone."""
    for long in range(problem.n, 0, -1):
        sides = (min(long, problem.d), long)
        blocks = Blocks(*(sides if kernel.startswith("flash") else reversed(sides)))
        if residents(kernel, problem, blocks, asked) <= sram:
            return blocks
    raise AssertionError(f"no blocks of {kernel} fit in {sram} words")


def saved_in(sram: int, n: int, d: int, rule: str) -> float:
    """How many times fewer words FlashAttention moves than standard attention, forward and backward, each in tiles that fit."""
    return trained_words("standard", sram, n, d, rule) / trained_words("flash", sram, n, d, rule)


def backward() -> list[str]:
    n, d = 1024, 64
    fit, best = (saved_in(100 * 1024 // 4, n, d, rule) for rule in ("fit", "best"))
    more = saved_in(320 * 1024 // 4, n, d, "best")
    pytorch, flash = (2 * 1024 * words / 1e9 for words in (18 * n * n + 12 * n * d, 33 * n * d))  # of 1,024 heads, 2 bytes a word
    return [
        f"N = {n:,} d = {d} {2 + 5} {2 + 4} 100 KiB {fit:.2f} {best:.2f} 320 KiB {more:.2f}",
        f"{2 * n:,} {n * n:,}",
        f"{pytorch:.1f} {flash:.1f}",
    ]


def sparse() -> list[str]:
    tiles, n, d = 16, 4096, 64
    visited, always = sum(range(tiles + 1)), 2 * n * d + n * (d + 2)
    kept = patterns.random(n, n, 64, 64, 0.01, seed=1).nnz * 64 * (3 * d + 4)
    drawn = (np.random.default_rng(0).random((1024, 1024)) < 0.01).reshape(tiles, 64, tiles, 64).any(axis=(1, 3)).sum()
    fixed, long = always / (always + kept), 65536 // 64
    return [
        f"{tiles} x {tiles} {visited} {visited / tiles**2:.0%}",
        f"1 % {fixed:.0%}",
        f"1 % {drawn} {tiles**2} 65,536 {(math.log2(long) + 1) / long:.1%}",
    ]


def turns(problem: Attention, upto: int) -> list[int]:
    """Where flash2 and square tiles change places, below ``upto``."""
    two, square = frontier("flash2", problem, upto=upto), frontier("square-tiles", problem, Options(depth="one"), upto=upto)
    first = max(two.sram[0], square.sram[0])
    better = [two.words[two.at(m)] <= square.words[square.at(m)] for m in range(first, upto)]
    return [int(first) + place for place in range(1, len(better)) if better[place] != better[place - 1]]


def best_flash2(n: int, d: int, m: int) -> int:
    """flash2 with the largest tile of queries beside a single key: 2 (Br + 1) d + Br + 4 Br words."""
    return flash2_words(n, d, -(-n // ((m - 2 * d) // (2 * d + 5))))


def lower_bounds() -> list[str]:
    n, d = 4096, 64
    m, problem, wide = 4 * d * d, Attention(n=n, d=d), Attention(n=2**20, d=256)
    least, moved = least_words(problem, m), best_flash2(n, d, m)
    published = max(bound.words for bound in bounds(problem, m) if bound.name != "two products")
    gap = best_flash2(2**20, 256, 4 * 256**2) / least_words(wide, 4 * 256**2) - 1
    first, *_, last = turns(problem, d * d)
    return [
        f"M = 4d² {least:,} {moved:,} {moved / least:.2f}",
        f"M = {last:,} {last / d**2:.2f} d² {first:,}",
        f"{least / published:.1f} 4d² d = 256 {gap:.1%}",
    ]


def cuda() -> list[str]:
    n, nk, d, rows = 37, 29, 16, 8
    loads = -(-n // rows) * nk * d
    once, stored = n * d + 2 * loads, n * d + n
    return [
        f"{n}x{nk} d{d} {rows}x12 {once + stored:,}",
        f"{2 * once + stored:,}",
        f"{loads:,} {32 // 4}",
    ]


def flash_answers() -> list[str]:
    scores, values = np.log([1.0, 2.0, 4.0, 1.0]), np.array([[2.0], [5.0], [1.0], [4.0]])
    one, two = state(scores[:2], values[:2]), state(scores, values)
    seen = [[np.asarray(number).item() for number in (at.m, at.l, at.output)] for at in (one, two)]
    shown = [f"m = {m:.4f} (ln {np.exp(m):.0f}) l = {l:.4f} O = {o:.4f}" for m, l, o in seen]
    again, machine = np.exp(one.m - two.m).item(), float(np.dot(safe(scores), values[:, 0]))
    n, d, tiles = 2048, 64, 2048 // 128
    once, halved = flash_words(n, d, tiles), flash_words(n, d, tiles // 2)
    peaks = [residents("flash", Attention(n=length, d=d), Blocks(64, 128)) for length in (n, 2 * n)]
    rng = np.random.default_rng(7)
    q, k, v = rng.normal(size=(48, 8)), rng.normal(size=(64, 8)), rng.normal(size=(64, 8))
    off = output_bound(np.abs(q @ k.T / np.sqrt(8)).max(), nk=64, bc=16, max_v=np.abs(v).max(), dtype="float64")
    return [
        f"0 {shown[0]} 1 {again:.4f} {shown[1]} {machine:.4f}",
        f"Tc = {tiles} {2 * n * d:,} {tiles * n * d:,} {(tiles + 1) * n * d:,} {2 * n * (2 * tiles + 1):,} {once:,}",
        f"Tc = {tiles // 2} {halved:,} {halved / once:.3f}",
        f"0 {peaks[0]:,} {peaks[1]:,}",
        f"{len(q)} first 32 {off:.1e}",
    ]


SAID: dict[str, Callable[[], list[str]]] = {
    "01_memory": memory,
    "02_softmax": softmax,
    "03_tiling": tiling,
    "04_standard": standard,
    "05_flash": flash,
    "06_blocks": blocks,
    "07_backward": backward,
    "08_sparse": sparse,
    "09_bounds": lower_bounds,
    "10_cuda": cuda,
}
ANSWERS = {"05_flash": flash_answers}


def test_the_end_of_every_notebook_is_known_without_a_run(source_tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **named: object) -> None:
        pytest.fail("a machine was built for what no run should be needed for")

    monkeypatch.setattr(Machine, "__init__", refuse)
    assert [*SAID] == [source.stem for source in SOURCES]
    assert all(len(said()) == 3 for said in SAID.values())
    assert all(len(said()) == 5 for said in ANSWERS.values())


def first_read(arrays: dict[str, Traffic]) -> dict[str, Traffic]:
    name = next(name for name, moved in arrays.items() if moved.reads)
    return arrays | {name: replace(arrays[name], reads=arrays[name].reads + 1)}


def last_written(arrays: dict[str, Traffic]) -> dict[str, Traffic]:
    name = [name for name, moved in arrays.items() if moved.writes][-1]
    return arrays | {name: replace(arrays[name], writes=arrays[name].writes + 1)}


@each
@pytest.mark.parametrize("wrong", [first_read, last_written])
def test_one_wrong_word_breaks_a_notebook(
    source: Path, wrong: Callable[[dict[str, Traffic]], dict[str, Traffic]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The source is run in this process, by a machine whose counts are off by a word: one of its own assertions must see that."""
    pytest.importorskip("IPython", reason=WHY)
    right = Machine.finish

    def finish(m: Machine) -> Counts:
        counts = right(m)
        return replace(counts, arrays=wrong(counts.arrays))

    monkeypatch.setattr(Machine, "finish", finish)
    code = compile(source.read_text(encoding="utf-8"), str(source), "exec")
    with pytest.raises(AssertionError) as caught:
        exec(code, {"__name__": "__main__"})
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == str(source)


def test_the_sources_are_clean(source_tree: Path) -> None:
    pytest.importorskip("ruff", reason="ruff is in the extra test")
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        asked = [sys.executable, "-m", "ruff", *command, str(source_tree / "notebooks")]
        found = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=source_tree)
        assert found.returncode == 0, found.stdout + found.stderr


def main() -> None:
    """Write down what every notebook prints and draws."""
    KEPT.mkdir(exist_ok=True)
    for source in SOURCES:
        (KEPT / f"{source.stem}.txt").write_text(shown(run_of(source)), encoding="utf-8")


if __name__ == "__main__":
    main()
