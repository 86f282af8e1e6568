"""The page: one HTML file with its style, its script and its data inside."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files

MARKS = re.compile(r"\{\{(\w+)\}\}")
SCRIPTS = ("state", "stage", "panels", "player")


def page(runs: Sequence[dict[str, object]]) -> str:
    """The page of one run or of two."""
    title = " beside ".join(str(run["name"]) for run in runs)
    parts = {"title": escape(title), "style": part("page.css"), "script": script(), "data": embedded(list(runs))}
    return MARKS.sub(lambda mark: parts[mark[1]], part("page.html"))


def script() -> str:
    """The scripts, which share one scope: what a run is at a step, how it is drawn, what is told beside it, and how it is played."""
    return "\n".join(part(f"{name}.js") for name in SCRIPTS)


def part(name: str) -> str:
    """One of the files that the page is made of."""
    return files("iosim.show.animation").joinpath(name).read_text(encoding="utf-8")


def embedded(document: object) -> str:
    """JSON for a script element: no character in it can end the element, or begin a comment."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return re.sub("[<>&]", lambda sign: f"\\u{ord(sign[0]):04x}", text)
