"""Progress: which exercises were passed and which hints were given, in a small file of the user's own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

MOST = 1 << 20  # bytes of the file; a whole course takes a thousand


@dataclass(frozen=True, slots=True)
class Progress:
    """``passed``: the exercises, by name, in the order in which they were passed; ``hints``: how many were given for each."""

    passed: tuple[str, ...] = ()
    hints: Mapping[str, int] = field(default_factory=dict)

    def passing(self, name: str) -> Self:
        """With one more that is passed."""
        return type(self)((*self.passed, name) if name not in self.passed else self.passed, self.hints)

    def hinted(self, name: str, level: int) -> Self:
        """With hints up to ``level`` given for ``name``."""
        return type(self)(self.passed, {**self.hints, name: max(level, self.hints.get(name, 0))})


def place() -> Path:
    """Where it is kept: ``iosim/exercises.json`` in the user's folder for state (XDG_STATE_HOME, else ~/.local/state)."""
    named = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(named) if os.path.isabs(named) else Path(os.path.expanduser("~")) / ".local" / "state"
    return folder / "iosim" / "exercises.json"


def recall(path: Path | None = None) -> Progress:
    """What was kept; whatever cannot be read, or makes no sense, counts as nothing."""
    try:
        with open(path or place(), "rb") as file:
            kept = json.loads(file.read(MOST))
    except (OSError, ValueError, RecursionError):
        return Progress()
    given = kept if isinstance(kept, dict) else {}
    passed, hints = given.get("passed"), given.get("hints")
    names = [name for name in passed if isinstance(name, str)] if isinstance(passed, list) else []
    levels = {name: level for name, level in hints.items() if type(level) is int and level > 0} if isinstance(hints, dict) else {}
    return Progress(tuple(dict.fromkeys(names)), levels)


def keep(progress: Progress, path: Path | None = None) -> None:
    """Write it, whole or not at all; raises :class:`OSError` where that cannot be done."""
    target = path or place()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        temporary.write_text(json.dumps({"passed": progress.passed, "hints": progress.hints}, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
