"""Writing a folder or an archive that was not there before, whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from iosim.core.errors import BadInput
from iosim.course.submission import shown

LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the first date of a zip; no clock in it, so that the same files give the same bytes


def free(place: Path) -> Path:
    """A path at which something new can be written; raises :class:`BadInput` where something is, and where its folder is not."""
    if os.path.lexists(place):
        raise BadInput(f"{shown(place)} exists and is kept; move it away, or name another place with --out")
    if not place.parent.is_dir():
        raise BadInput(f"{shown(place)}: there is no folder {shown(place.parent)}; make it first")
    return place


def write_folder(place: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Make a folder with these files in it."""
    temporary = _beside(place)
    temporary.mkdir()
    try:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content)
            (temporary / name).chmod(_mode(content))
        os.rename(temporary, place)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return [place / name for name in files]


def write_file(place: Path, content: bytes) -> Path:
    """Make a file with this in it."""
    temporary = _beside(place)
    try:
        temporary.write_bytes(content)
        os.rename(temporary, place)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return place


def archive(files: Mapping[str, bytes]) -> bytes:
    """A zip of these files; the same files give the same bytes."""
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as packed:
        for name, content in files.items():
            entry = ZipInfo(name, LONG_AGO)
            entry.external_attr = (0o100000 | _mode(content)) << 16
            entry.compress_type = ZIP_DEFLATED
            packed.writestr(entry, content)
    return out.getvalue()


def _mode(content: bytes) -> int:
    """What begins as a script does can be run."""
    return 0o755 if content.startswith(b"#!") else 0o644


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{os.getpid()}.part")
