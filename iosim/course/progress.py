"""Progress: which exercises were passed and which hints were given, in a small file of the user's own."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

try:
    import fcntl
except ImportError:  # on Windows, where updates at the very same time may still lose one
    fcntl = None  # type: ignore[assignment]

# A pipe at its place would hold up whoever opens it.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
MOST = 1 << 20  # bytes of the file; a whole course takes a thousand


@dataclass(frozen=True, slots=True)
class Progress:
    """``passed``: the exercises, by name, in the order in which they were passed; ``hints``: how many were given for each."""

    passed: tuple[str, ...] = ()
    hints: Mapping[str, int] = field(default_factory=dict)

    def passing(self, name: str) -> Self:
        """With one more that is passed."""
        return type(self)((*self.passed, name) if name not in self.passed else self.passed, self.hints)

    def joined(self, other: Self) -> Self:
        """With what ``other`` has besides, in the order of ``other`` first: progress only grows."""
        passed = tuple(dict.fromkeys((*other.passed, *self.passed)))
        levels = {name: max(self.hints.get(name, 0), other.hints.get(name, 0)) for name in (*other.hints, *self.hints)}
        return type(self)(passed, levels)

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
        with open(path or place(), "rb", opener=lambda name, flags: os.open(name, flags | _FLAGS)) as file:
            kept = json.loads(file.read(MOST)) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except (OSError, ValueError, RecursionError):
        return Progress()
    given = kept if isinstance(kept, dict) else {}
    passed, hints = given.get("passed"), given.get("hints")
    names = [name for name in passed if isinstance(name, str)] if isinstance(passed, list) else []
    levels = {name: level for name, level in hints.items() if type(level) is int and level > 0} if isinstance(hints, dict) else {}
    return Progress(tuple(dict.fromkeys(names)), levels)


def keep(progress: Progress, path: Path | None = None) -> None:
    """Add it to what is kept, whole or not at all, whoever else does so; raises :class:`OSError` where that cannot be done."""
    target = path or place()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target.with_name(f"{target.name}.lock")):
        _write(progress.joined(recall(target)), target)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process at a time, as long as the file ``lock`` is locked; it stays, since another may wait for it."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
    try:
        if fcntl is not None:
            with suppress(OSError):  # some network file systems have no locks, and progress is worth more than one update in a thousand
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which unlocks it


def _write(progress: Progress, target: Path) -> None:
    temporary = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        temporary.write_text(json.dumps({"passed": progress.passed, "hints": progress.hints}, indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
