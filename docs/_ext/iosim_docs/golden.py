"""The examples of the site: each is run, and what it prints is kept beside it. ``python -m iosim_docs.golden`` writes that anew.

``NAME.py`` is a script, ``NAME.out`` what it prints; ``NAME.console`` holds a command behind ``$``, run where the scripts are, and what it
prints. A script under ``figures/`` makes a ``figure`` and prints nothing.
"""

from __future__ import annotations

import io
import os
import re
import runpy
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from iosim.cli import main

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = Path(__file__).parents[2] / "examples"
VARYING = re.compile(r"[0-9.]+e-[0-9]+")
"""Errors of floating-point sums, which differ between versions of NumPy; nothing else is printed so."""


def printing(folder: Path = EXAMPLES) -> list[Path]:
    """Every example that prints, scripts and commands."""
    scripts = [path for path in folder.rglob("*.py") if path.parent.name != "figures"]
    return sorted([*scripts, *folder.rglob("*.console")])


def figures(folder: Path = EXAMPLES) -> list[Path]:
    """Every example that draws."""
    return sorted(folder.glob("figures/*.py"))


def printed(example: Path) -> str:
    """Run an example and return what it prints; a command must end well."""
    # Neither the width of a terminal nor what its user has passed decides what an example prints.
    plain = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with (
        tempfile.TemporaryDirectory() as state,
        patch.dict(os.environ, {**plain, "XDG_STATE_HOME": state}, clear=True),
        redirect_stdout(io.StringIO()) as out,
        chdir(EXAMPLES),
    ):
        if example.suffix == ".py":
            runpy.run_path(str(example), run_name="__main__")
        else:
            status = main(shlex.split(command(example))[1:])
            assert status == 0, f"{example.name}: exit status {status}"
    return out.getvalue()


def command(example: Path) -> str:
    """The command of a console example."""
    return example.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("$ ")


def kept(example: Path) -> str:
    """What the example printed when it was written down."""
    if example.suffix == ".py":
        return example.with_suffix(".out").read_text(encoding="utf-8")
    return example.read_text(encoding="utf-8").split("\n", 1)[1]


def same(one: str, other: str) -> bool:
    """Whether two outputs are equal but for errors of floating-point sums."""
    return VARYING.sub("~", one) == VARYING.sub("~", other)


def drawn(example: Path) -> Figure:
    """Run an example under ``figures/`` and return its figure."""
    figure: Figure = runpy.run_path(str(example))["figure"]
    return figure


def renewed() -> Iterator[Path]:
    """Write down what every example prints now; yields those that print something else than before."""
    for example in printing():
        now = printed(example)
        place = example.with_suffix(".out") if example.suffix == ".py" else example
        if not place.exists() or not same(kept(example), now):
            place.write_text(now if example.suffix == ".py" else f"$ {command(example)}\n{now}", encoding="utf-8")
            yield place


if __name__ == "__main__":
    for path in renewed():
        print(path.relative_to(EXAMPLES))  # noqa: T201  # it is a command
