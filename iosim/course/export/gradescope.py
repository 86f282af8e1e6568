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

SETUP = """#!/usr/bin/env bash
# Run once, when the image is built: makes a virtual environment beside this file and installs iosim, which lies here, and what it needs.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

usable() {  # a Python that is new enough and can make virtual environments
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$name"; return; }
    done
    return 1
}

if ! usable >/dev/null; then
    apt-get update
    apt-get install -y --no-install-recommends python3-venv
    usable >/dev/null || apt-get install -y --no-install-recommends python3.11 python3.11-venv
fi
python="$(usable)" || { echo "iosim needs Python 3.11 or newer: choose a newer base image" >&2; exit 1; }
"$python" -m venv "$here/venv"
"$here/venv/bin/pip" install -r "$here/requirements.txt"
# By name, but from here alone: no index is asked for it.
"$here/venv/bin/pip" install --no-index --no-deps --find-links "$here" "iosim==VERSION"
"""

RUN = """#!/usr/bin/env bash
# Run for each submission. Elsewhere than in Gradescope: run_autograder ROOT, where ROOT has source/, submission/ and results/.
set -euo pipefail
root="${1:-/autograder}"
python="${IOSIM_PYTHON:-$root/source/venv/bin/python}"
exec "$python" -I "$root/source/grade.py" "$root/submission" "$root/results/results.json"
"""


def files(exercises: Sequence[Exercise]) -> dict[str, bytes]:
    """The files of the autograder, by their names."""
    installed = distribution()
    name, content = wheel(installed)
    texts = {
        "setup.sh": SETUP.replace("VERSION", installed.version),
        "run_autograder": RUN,
        "grade.py": resources("iosim.course.export").joinpath("autograder.py").read_text(encoding="utf-8"),
        "asked.json": json.dumps(asked(exercises), indent=2, ensure_ascii=False) + "\n",
        "requirements.txt": "".join(f"{pin}\n" for pin in pins(installed)),
    }
    return {**{name: text.encode() for name, text in texts.items()}, name: content}


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
