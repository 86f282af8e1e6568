"""The notebooks: title and question of each, and the copies from which Sphinx makes their pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Cell = dict[str, Any]
FOLDER = "notebooks"
PLAIN = "import sys\n\nsys.modules['ipywidgets'] = None"
"""A slider does nothing on a page that nobody serves: without its package a notebook shows the same cell with numbers of its own."""


ASKS = re.compile(r"\*\*(predict|write down|before you run)", re.IGNORECASE)
"""How a cell asks for a prediction."""


def listed(folder: Path) -> str:
    """One paragraph for each notebook, in their order, with its length, as Markdown, and a table of contents for the side of the page."""
    paths = sources(folder)
    length = {path: sum(map(words, prose(path))) for path in paths}
    about = f"{round(sum(length.values()), -3):,}"
    lead = f"How long they take nobody has measured; there are about {about} words to read, between pieces of code."
    said = [
        f"[**{title}**]({FOLDER}/{path.stem}.ipynb) {question} *({round(length[path], -2):,} words to read)*"
        for path in paths
        for title, question in [head(path)]
    ]
    names = [f"{FOLDER}/{path.stem}" for path in paths]
    return "\n\n".join([lead, *said, "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])])


def prose(path: Path) -> Iterator[str]:
    """The text between the pieces of code of a notebook's source."""
    for cell in path.read_text(encoding="utf-8").split("# %%")[1:]:
        kind, _, text = cell.partition("\n")
        if "[markdown]" in kind:
            yield re.sub(r"^# ?", "", text, flags=re.MULTILINE)


def words(text: str) -> int:
    """How many words a text has: what stands between spaces and has a letter in it.

    >>> words("Take **N = 4** rows: how many words?")
    6
    """
    return sum(any(map(str.isalpha, part)) for part in text.split())


def sources(folder: Path) -> list[Path]:
    """Their reviewed sources."""
    return sorted(folder.glob("[0-9][0-9]_*.py"))


def head(path: Path) -> tuple[str, str]:
    """The title and the question of a notebook.

    The question is the paragraph that begins so; raises ValueError where the first cell has no title or none.
    """
    cell = path.read_text(encoding="utf-8").split("# %%", 2)[1]
    paragraphs = [" ".join(part.split()) for part in "\n".join(line.lstrip("# ") for line in cell.splitlines()[1:]).split("\n\n")]
    question = next((part for part in paragraphs if part.startswith("**Question.**")), None)
    if question is None or not paragraphs[0]:
        raise ValueError(f"{path.name} does not begin with a title and a question")
    return paragraphs[0], question.removeprefix("**Question.**").strip()


def copy(folder: Path, target: Path) -> None:
    """Make the copies of all notebooks in ``target``, and take away those of notebooks that are no more; equal ones stay as they are."""
    target.mkdir(exist_ok=True)
    made = {f"{path.stem}.ipynb": copied(path.with_suffix(".ipynb")) for path in sources(folder)}
    for gone in {path.name for path in target.glob("*.ipynb")} - set(made):
        (target / gone).unlink()
    for name, text in made.items():
        place = target / name
        if not place.exists() or place.read_text(encoding="utf-8") != text:
            place.write_text(text, encoding="utf-8")


def copied(notebook: Path) -> str:
    """A notebook as Sphinx gets it: links as they are on the site, no widgets, and words for who cannot see its pictures."""
    book = json.loads(notebook.read_text(encoding="utf-8"))
    hidden: Cell = {"cell_type": "code", "execution_count": None, "id": "plain", "metadata": {"tags": ["remove-cell"]}, "outputs": []}
    book["cells"] = [{**hidden, "source": PLAIN}, *map(linked, folded(described(book["cells"])))]
    return json.dumps(book, ensure_ascii=False, indent=1)


def linked(cell: Cell) -> Cell:
    """A cell whose links to pages, which lead through ``../docs`` from where the notebooks are, lead there from the site's copy.

    >>> linked({"cell_type": "markdown", "source": ["See [the bounds](../docs/bounds.md#backward)."]})["source"]
    'See [the bounds](../bounds.md#backward).'
    """
    text = "".join(cell["source"])
    return cell if cell["cell_type"] != "markdown" else {**cell, "source": text.replace("](../docs/", "](../")}


def described(cells: list[Cell]) -> Iterator[Cell]:
    """The cells, each code cell with the alternative text of the pictures that it may draw: where in the notebook they stand."""
    heading = ""
    for cell in cells:
        if cell["cell_type"] == "markdown":
            heading = next(iter(re.findall(r"^#+ (.*)", "".join(cell["source"]), re.MULTILINE)[::-1]), heading)
            yield cell
        else:
            alt = {"image": {"alt": f"The picture that this code draws: {heading}"}}
            yield {**cell, "metadata": {**cell["metadata"], "mystnb": alt}}


def folded(cells: Iterable[Cell]) -> Iterator[Cell]:
    """The cells, with the outputs of those behind a question for a prediction hidden until a click, up to the next text."""
    hide: list[str] = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            hide = ["hide-output"] if ASKS.search("".join(cell["source"])) else []
            yield cell
        else:
            yield {**cell, "metadata": {**cell["metadata"], "tags": [*cell["metadata"].get("tags", []), *hide]}}
