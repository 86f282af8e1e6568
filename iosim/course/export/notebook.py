"""Notebooks of exercises: the cells that every tool gets, and a notebook as a file, for which the standard library is enough."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from iosim.course.spec import Exercise, PartName
from iosim.course.text import about, file_name, function_source, page, signature

PARTS: Mapping[str, tuple[PartName, ...]] = {"function": ("values",), "kernel": ("values", "rules", "words")}
"""What gets a point, by the kind of the exercise."""

_HOW = """Write the answer into the cell below, with everything that it needs; the cells after it check it, as does, in any cell,
`iosim.exercises.check({function})`. For a hint, type `!iosim exercise hint {name}` into a cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a notebook."""

    kind: Literal["markdown", "code", "raw"]
    source: str
    metadata: Mapping[str, object] = field(default_factory=dict)


def written(cells: Sequence[Cell]) -> bytes:
    """A notebook of format 4.5 as a file; cell ids follow from places, so that the same cells give the same bytes."""
    document = {
        "cells": [_record(place, cell) for place, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n").encode()


def _record(place: int, cell: Cell) -> dict[str, Any]:
    outputs: dict[str, Any] = {"execution_count": None, "outputs": []} if cell.kind == "code" else {}
    common = {"cell_type": cell.kind, "id": f"cell-{place:03}", "metadata": dict(cell.metadata)}
    return {**common, **outputs, "source": cell.source.splitlines(keepends=True)}


def key(exercise: Exercise) -> str:
    """What an exercise is called among cells and files, such as e08_flash2."""
    return file_name(exercise).removesuffix(".py")


def name_of(exercises: Sequence[Exercise]) -> str:
    """What a notebook of these is called: as its exercise, or ``exercises``."""
    return key(exercises[0]) if len(exercises) == 1 else "exercises"


def told(exercise: Exercise) -> str:
    """The page of an exercise as Markdown; as it is, since formulas are full of signs that Markdown takes for its own."""
    how = " ".join(_HOW.format(function=exercise.function, name=exercise.name).split())
    return f"## {exercise.number}. {exercise.title}\n\n```text\n{page(exercise).rstrip()}\n```\n\n{how}"


def begun(exercise: Exercise) -> str:
    """The imports, the signature and the docstring: what stands before the answer."""
    return f"{exercise.header}\n\n\n{signature(exercise)}"


def body(exercise: Exercise) -> str:
    """The lines of the solution that a student writes."""
    return "\n".join(function_source(exercise).splitlines()[len(signature(exercise).splitlines()) :])


def left(exercise: Exercise) -> str:
    """The line that stands for them in what a student starts from."""
    return f'    raise NotImplementedError("{exercise.number} {exercise.name}: replace this line with {about(exercise)}")'


def assertion(exercise: Exercise, part: PartName) -> str:
    """Lines that check the function of this name and fail, with the whole verdict, unless ``part`` earns its point."""
    return "\n".join([
        "from iosim.exercises import check",
        f'shown = check({exercise.function}, "{exercise.name}")',
        "earned = [part.name for part in shown.verdict.parts if part.passed and shown.verdict.score]",
        f'assert "{part}" in earned, shown',
    ])  # fmt: skip
