"""Gradescope's autograder: a folder from which it builds its image, with iosim in it; submissions are graded out of process."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import metadata
from importlib.resources import files as resources

from iosim.core.errors import BadInput
from iosim.course.export.notebook import PARTS
from iosim.course.export.wheel import wheel
from iosim.course.spec import Exercise
from iosim.course.text import file_name
from iosim.course.verdict import TITLES


def files(exercises: Sequence[Exercise]) -> dict[str, bytes]:
    """The files of the autograder, by their names."""
    installed = distribution()
    name, content = wheel(installed)
    texts = {
        "setup.sh": beside("setup.sh").replace("VERSION", installed.version),
        "run_autograder": beside("run_autograder"),
        "grade.py": beside("autograder.py"),
        "asked.json": json.dumps(asked(exercises), indent=2, ensure_ascii=False) + "\n",
        "requirements.txt": "".join(f"{pin}\n" for pin in pins(installed)),
    }
    return {**{name: text.encode() for name, text in texts.items()}, name: content}


def beside(name: str) -> str:
    """The text of a file in the folder of this module."""
    return resources("iosim.course.export").joinpath(name).read_text(encoding="utf-8")


def asked(exercises: Sequence[Exercise]) -> dict[str, object]:
    """What the program that grades is to know: the exercises with their tests, and whether missing protections are put up with."""
    known = [
        {
            "name": one.name,
            "file": file_name(one),
            "tests": [{"part": part, "name": f"{one.number} {one.name}: {TITLES[part]}"} for part in PARTS[one.kind]],
        }
        for one in exercises
    ]
    return {"unprotected": False, "exercises": known}


def distribution() -> metadata.Distribution:
    """iosim as it is installed here; raises :class:`BadInput` where it is not."""
    try:
        return metadata.distribution("iosim")
    except metadata.PackageNotFoundError:
        raise BadInput("an export to gradescope packs iosim as it is installed, and it is not: pip install . in its folder first") from None


def pins(installed: metadata.Distribution) -> list[str]:
    """What iosim needs, and what that needs, in the versions that are installed here."""
    found: dict[str, str] = {}
    left = needed(installed)
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another system than this
            continue
        found[name] = package.version
        left += needed(package)
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def needed(package: metadata.Distribution) -> list[str]:
    """The names of what a package needs, but for its extras."""
    lines = [line for line in package.requires or [] if not re.search(r"\bextra\s*==", line)]
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower().replace("_", "-") for line in lines]
