"""The answers in notebooks, as the files that ``iosim exercise grade`` takes: what stands in the cells that exports have marked."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath

from iosim.core.errors import BadInput
from iosim.course.catalogue import EXERCISES
from iosim.course.export.writing import free, write_folder
from iosim.course.folder import entries
from iosim.course.submission import shown
from iosim.course.text import file_name

MOST = 4 << 20
"""Bytes of a notebook; those of the whole course have less than 3 % of that, but pictures are long."""


def collect(folder: str | os.PathLike[str], out: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """Write the answers of all notebooks below ``folder`` into the new folder ``out``: the files, and for each notebook without any, why.

    Where there is no answer at all, no folder is made.

    A notebook ``alice/ps1/exercises.ipynb`` becomes the files ``alice/ps1/exercises.ipynb/e08_flash2.py`` and so on. Nothing of it is run.
    Raises :class:`BadInput` where there is no notebook.
    """
    top, place = Path(folder), free(Path(out))
    if not top.is_dir():
        raise BadInput(f"{shown(top)} is no folder; give the one that holds the notebooks")
    notebooks = [path for path in entries(top) if path.suffix == ".ipynb"]
    if not notebooks:
        raise BadInput(f"{shown(top)} holds no notebook (.ipynb); give the folder that holds those that were handed in")
    files: dict[str, bytes] = {}
    without = []
    for path in notebooks:
        try:
            files |= {str(path / name): source for name, source in answers(top, path).items()}
        except BadInput as error:
            without.append(str(error))
    return (write_folder(place, files) if files else []), without


def answers(top: Path, path: PurePath) -> dict[str, bytes]:
    """The answers in one notebook, by the names of the files that they belong in; raises :class:`BadInput` where there is none."""
    found: dict[str, list[str]] = {}
    for exercise, source in marked(notebook(top / path)):
        found.setdefault(file_name(EXERCISES[exercise]), []).append(source)
    if not found:
        raise BadInput(f"{shown(path)}: no cell of it is marked as the answer to an exercise")
    return {name: ("\n\n\n".join(sources) + "\n").encode(errors="replace") for name, sources in found.items()}


def marked(document: object) -> Iterator[tuple[str, str]]:
    """The exercise and the text of every marked cell, whatever the document is."""
    cells = document.get("cells") if isinstance(document, Mapping) else None
    for cell in cells if isinstance(cells, list) else []:
        source, exercise = text(cell), asked(cell)
        if source is not None and exercise in EXERCISES:
            yield exercise, source


def asked(cell: object) -> str:
    """The exercise that a cell is marked for; empty where it is for none."""
    place = cell
    for key in ("metadata", "iosim", "exercise"):
        place = place.get(key) if isinstance(place, Mapping) else None
    return place if isinstance(place, str) else ""


def text(cell: object) -> str | None:
    """The text of a code cell."""
    if not isinstance(cell, Mapping) or cell.get("cell_type") != "code":
        return None
    source = cell.get("source")
    lines = source if isinstance(source, list) else [source]
    told = [line for line in lines if isinstance(line, str)]
    return "".join(told) if len(told) == len(lines) else None


def notebook(path: Path) -> object:
    """What a file holds; no link is followed, and nothing waited for. Raises :class:`BadInput` for what is no notebook."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise BadInput(f"{shown(path)}: no file; links are not followed")
        with path.open("rb") as file:
            content = file.read(MOST + 1)
        if len(content) > MOST:
            raise BadInput(f"{shown(path)}: longer than {MOST >> 20} MiB; have its outputs cleared")
        return json.loads(content)
    except BadInput:  # which is a ValueError too
        raise
    except OSError as error:
        raise BadInput(f"{shown(path)}: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{shown(path)}: not a notebook") from None
