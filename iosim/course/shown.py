"""Verdicts as people read them: in a terminal, and in a notebook."""

from __future__ import annotations

import textwrap
from html import escape

from iosim.course.verdict import TITLES, Part, Verdict

MARKS = {True: "✔", False: "✘", None: "–"}
WIDTH = 100


def told(verdict: Verdict, width: int = WIDTH) -> str:
    """The parts with a mark each, what went wrong, the mistake if it is a known one, and the picture."""
    before = f"{'':{2 + _titles(verdict)}}  "
    parts = [
        textwrap.fill(
            says, width, initial_indent=f"{mark} {TITLES[part.name]:<{_titles(verdict)}}  ", subsequent_indent=before,
            break_on_hyphens=False,
        )
        for part, mark, says in marked(verdict)
    ]  # fmt: skip
    said = [textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False) for line in remarks(verdict)]
    return "\n".join([heading(verdict), *parts, *said, *([verdict.picture] if verdict.picture else [])])


def marked(verdict: Verdict) -> list[tuple[Part, str, str]]:
    """The parts, each with its mark and what is said of it; no tick where it gives no point, since the values do not match."""
    counts = verdict.parts[0].passed is True
    return [
        (part, MARKS[part.passed], part.says)
        if counts or not part.passed
        else (part, MARKS[None], f"counts once the values match; now {part.says}")
        for part in verdict.parts
    ]


def heading(verdict: Verdict) -> str:
    """The exercise and the points."""
    return f"{verdict.exercise}: {verdict.score} of {verdict.out_of} point{'' if verdict.out_of == 1 else 's'}"


def remarks(verdict: Verdict, again: str = "--seed ") -> list[str]:
    """What is to be said beside the parts: why nothing was judged, in which line, which mistake it is, and what to do about it.

    ``again``: what stands before the seed, on a command line.
    """
    line = "" if verdict.line is None else f"in line {verdict.line}: "
    stopped = [f"Stopped {line}{verdict.reason}" if line else f"Stopped: {verdict.reason}"] if verdict.reason else []
    mistake = [f"A known mistake, {verdict.mistake}: {verdict.advice}"] if verdict.mistake else []
    return [*stopped, *mistake, *([] if verdict.passed else [f"The same inputs again: {again}{verdict.seed}"])]


def told_html(verdict: Verdict, drawn: str = "") -> str:
    """The same as an HTML table, with the picture ``drawn`` under it."""
    rows = "".join(f"<tr><td>{mark}</td><td>{TITLES[part.name]}</td>{_left(says)}</tr>" for part, mark, says in marked(verdict))
    said = "".join(f"<p>{escape(line)}</p>" for line in remarks(verdict, "seed="))
    return f"<div><strong>{escape(heading(verdict))}</strong><table>{rows}</table>{said}{drawn}</div>"


def _left(text: str) -> str:
    return f"<td style='text-align:left'>{escape(text)}</td>"


def _titles(verdict: Verdict) -> int:
    return max(len(TITLES[part.name]) for part in verdict.parts)
