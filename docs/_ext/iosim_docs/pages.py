"""Which pages there must be, and which there are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from iosim import KERNELS
from iosim.cli.group import iosim as group

DIRECTIVES = {"kernels": ("kernel", "listing", "words", "variants", "picture"), "commands": ("usage",)}
SECTIONS = {"kernels": ("Idea", "Listing", "Closed form", "When it misses", "Try it", "See it move"), "commands": ("Usage",)}
REGISTRIES: dict[str, Iterable[str]] = {"kernels": KERNELS, "commands": group.known}


def wrong(docs: Path, folder: str, names: Iterable[str]) -> list[str]:
    """What is wrong with the pages of ``folder``: one for each name, with every section and directive."""
    known, there = set(names), {path.stem for path in (docs / folder).glob("*.md")} - {"index"}
    found = [f"{folder}/{name}.md is missing" for name in sorted(known - there)]
    found += [f"{folder}/{name}.md is the page of nothing" for name in sorted(there - known)]
    return found + [fault for name in sorted(known & there) for fault in faults(docs / folder / f"{name}.md", folder)]


def faults(page: Path, folder: str) -> list[str]:
    """What one page lacks."""
    text, name = page.read_text(encoding="utf-8"), page.stem
    lines = text.splitlines()
    lacking = [f"```{{{directive}}} {name}" for directive in DIRECTIVES[folder]] + [f"## {title}" for title in SECTIONS[folder]]
    lacking += [f"```{{example}} {folder}/{name}"]
    return [f"{folder}/{page.name} lacks {line!r}" for line in lacking if line not in lines]
