"""iosim as a wheel, made from what is installed, so that it can be installed where no index has it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.metadata import Distribution
from importlib.resources import files
from importlib.resources.abc import Traversable

from iosim.course.export.writing import archive

PACKAGES = ("iosim", "iosim_reference")
"""What grading needs."""
KEPT = ("METADATA", "entry_points.txt", "licenses/LICENSE")
WHEEL = "Wheel-Version: 1.0\nGenerator: iosim\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def wheel(installed: Distribution) -> tuple[str, bytes]:
    """The name and the bytes of the wheel; the format is that of PEP 427."""
    info = f"iosim-{installed.version}.dist-info"
    contents = {name: content for package in PACKAGES for name, content in packaged(files(package), package)}
    contents |= {f"{info}/{name}": text.encode() for name in KEPT if (text := installed.read_text(name)) is not None}
    contents[f"{info}/WHEEL"] = WHEEL.encode()
    record = [f"{name},sha256={digest(content)},{len(content)}" for name, content in contents.items()]
    contents[f"{info}/RECORD"] = "".join(f"{line}\n" for line in [*record, f"{info}/RECORD,,"]).encode()
    return f"iosim-{installed.version}-py3-none-any.whl", archive(contents)


def packaged(folder: Traversable, name: str) -> Iterator[tuple[str, bytes]]:
    """Every file of a package with its path, in order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{name}/{entry.name}"
        if entry.is_file():
            yield path, entry.read_bytes()
        elif entry.name != "__pycache__":
            yield from packaged(entry, path)


def digest(content: bytes) -> str:
    """A hash as RECORD has it."""
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
