"""What a command answers, and the ways in which it can be printed, stored and drawn."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from iosim.cli.drawing import draw
from iosim.cli.options import Given

if TYPE_CHECKING:
    from iosim.show.plots import Figure

Record = Mapping[str, object]


class CheckFailed(Exception):
    """Numbers that must be equal differ; the message says which."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a command: as text for people, as one JSON document, as rows, and as a figure.

    ``failed`` says in one line what differed where a check failed.
    """

    text: str
    document: object
    rows: Sequence[Record]
    figure: Callable[[], Figure] | None = None
    failed: str | None = None


def deliver(given: Given, answer: Answer) -> None:
    """Draw, then print in the form that was asked for; raises :class:`CheckFailed` at the end where a check failed."""
    path = given.get("plot")
    if path is not None and answer.figure is not None:
        draw(path, answer.figure)
    if given["json"]:
        click.echo(as_json(answer.document))
    elif given["csv"]:
        click.echo(as_csv(answer.rows), nl=False)
    else:
        click.echo(answer.text)
    if answer.failed is not None:
        raise CheckFailed(answer.failed)


def as_json(document: object) -> str:
    """One document; integers stay exact, and a float that JSON cannot write is "NaN", "Infinity" or "-Infinity".

    So null says that there is no such number, as of an error where nothing was executed.

    >>> as_json({"max_error": float("nan")})
    '{\\n  "max_error": "NaN"\\n}'
    """
    return json.dumps(_written(document), indent=2)


def as_csv(rows: Sequence[Record]) -> str:
    """A head and one line for each row; nested numbers get columns of their own, except those of arrays, which only JSON has."""
    flat = [dict(_spread(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def width() -> int:
    """The width of text: that of the terminal, from 80 to 100 columns; 100 for a file."""
    return min(100, max(80, shutil.get_terminal_size((100, 0)).columns))


def _written(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _written(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_written(part) for part in value]
    return json.dumps(value) if isinstance(value, float) and not math.isfinite(value) else value


def _spread(row: Record) -> Iterable[tuple[str, object]]:
    for name, value in row.items():
        if not isinstance(value, Mapping):
            yield name, str(value).lower() if isinstance(value, bool) else value
        elif name != "arrays":
            yield from _spread({f"{name}_{part}": number for part, number in value.items()})
