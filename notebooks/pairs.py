"""Make the notebooks that people open from the files that are reviewed: ``python notebooks/pairs.py``, after every change.

``NAME.py`` in percent format is the source. ``NAME.ipynb`` has the same cells, no outputs, and cell ids that follow from a cell's place,
so that making it again changes nothing.
"""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat

FOLDER = Path(__file__).parent
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("tags", "jupyter")  # of a cell's metadata: what a check is, and which cells JupyterLab shows folded


def sources() -> list[Path]:
    """The reviewed files, in the order in which they are read."""
    return sorted(FOLDER.glob("[0-9]*.py"))


def paired(source: Path) -> str:
    """The notebook of ``source``, as it stands in its file."""
    book = jupytext.reads(source.read_text(encoding="utf-8"), fmt="py:percent")
    book.metadata = nbformat.from_dict(METADATA)
    book.nbformat, book.nbformat_minor = 4, 5
    for place, cell in enumerate(book.cells, start=1):
        cell.id = f"cell-{place:02}"
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in KEPT if cell.metadata.get(key)})
    nbformat.validate(book)
    return nbformat.writes(book) + "\n"


def main() -> None:
    """Write every notebook."""
    for source in sources():
        source.with_suffix(".ipynb").write_text(paired(source), encoding="utf-8")


if __name__ == "__main__":
    main()
