"""The notebooks: equal to their reviewed sources, stored without outputs, run top to bottom, and broken by one wrong count."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from iosim.counts import Counts, Traffic
from iosim.exercises import course
from iosim.memory import Machine

FOLDER = Path(__file__).parents[1] / "notebooks"
SOURCES = sorted(FOLDER.glob("[0-9]*.py"))
WHY = 'needs the extra: pip install -e ".[notebooks]"'
CELL_SECONDS, NOTEBOOK_SECONDS, MOST_LINES = 60, 60, 100
MARKER = re.compile(r"^# %%", re.MULTILINE)

each = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)


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
    """An executed notebook and how long it took."""

    cells: list[dict[str, Any]]
    seconds: float

    def outputs(self) -> list[dict[str, Any]]:
        return [output for cell in self.cells if cell["cell_type"] == "code" for output in cell["outputs"]]


def lines(cell: dict[str, Any]) -> list[str]:
    """What a cell says, on the screen of somebody who sees no pictures."""
    texts = [str(output.get("text", "") or output.get("data", {}).get("text/plain", "")) for output in cell["outputs"]]
    return "".join(texts).splitlines()


@pytest.fixture(scope="module", params=SOURCES, ids=lambda source: source.stem)
def run(request: pytest.FixtureRequest) -> Run:
    """A notebook, run top to bottom in a kernel of its own; an error in a cell, or a cell that takes too long, ends the test."""
    for needed in ("ipykernel", "nbformat", "nbclient"):
        pytest.importorskip(needed, reason=WHY)
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    book = nbformat.read(request.param.with_suffix(".ipynb"), as_version=4)
    begun = time.monotonic()
    nbclient.NotebookClient(book, timeout=CELL_SECONDS, resources={"metadata": {"path": str(FOLDER)}}).execute()
    return Run(book.cells, time.monotonic() - begun)


def test_a_notebook_runs_and_says_little_at_a_time(run: Run) -> None:
    assert run.seconds < NOTEBOOK_SECONDS
    code = [cell for cell in run.cells if cell["cell_type"] == "code"]
    assert max(len(lines(cell)) for cell in code) <= MOST_LINES
    assert not [output for output in run.outputs() if output["output_type"] == "stream" and output["name"] == "stderr"]


def test_a_notebook_shows_a_picture(run: Run) -> None:
    assert any("image/png" in output.get("data", {}) or "image/svg+xml" in output.get("data", {}) for output in run.outputs())


def test_a_notebook_ends_with_three_lines(run: Run) -> None:
    heading = max(place for place, cell in enumerate(run.cells) if cell["cell_type"] == "markdown" and "## Summary" in text(cell))
    printed = [lines(cell) for cell in run.cells[heading:] if cell["cell_type"] == "code" and lines(cell)]
    assert [len(said) for said in printed] == [3]
    assert all(re.search("[0-9]", line.lstrip("123.")) for line in printed[0])


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
