"""Exercises for the tools in which classes hand in: otter-grader, nbgrader and Gradescope.

The files are made with the standard library alone. otter-grader and nbgrader run their tests in the student's own process, where a
submission can change what the tests call: what they say is right for honest work, and :data:`IN_KERNEL` tells whoever exports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from iosim.core.errors import BadInput
from iosim.course.export import gradescope, nbgrader, otter
from iosim.course.export.writing import archive, free, write_file, write_folder
from iosim.course.spec import Exercise
from iosim.course.submission import shown

__all__ = ["IN_KERNEL", "TARGETS", "export"]

TARGETS: Mapping[str, Callable[[Sequence[Exercise]], dict[str, bytes]]] = {
    "otter": otter.files, "nbgrader": nbgrader.files, "gradescope": gradescope.files,
}  # fmt: skip
"""What makes the files for a tool, by its name."""

IN_KERNEL = (
    "otter-grader and nbgrader run the tests in the student's kernel, so that they cannot stop a submission that changes the tests, NumPy "
    "or iosim and so gets full marks: where marks count, grade again with iosim exercise grade."
)


def export(exercises: Sequence[Exercise], target: str, out: str | os.PathLike[str]) -> list[Path]:
    """Write exercises for ``target``, one of :data:`TARGETS`, and return the files.

    ``out``: a folder that is made, or for Gradescope a ``.zip``; it appears whole or not at all. Raises :class:`BadInput` for what is no
    target, and where ``out`` exists or its folder does not.
    """
    if target not in TARGETS:
        raise BadInput(f"there is no export to {target!r}; there are {', '.join(TARGETS)}")
    place = free(Path(out))
    if place.suffix.lower() != ".zip":
        return write_folder(place, TARGETS[target](exercises))
    if target != "gradescope":
        raise BadInput(f"{shown(place)}: an export to {target} is a folder; only one to gradescope can be a .zip")
    return [write_file(place, archive(TARGETS[target](exercises)))]
