"""Everything iosim refuses, by name. Each message says what was asked, what was found and what would work."""

from pathlib import Path


class IosimError(Exception):
    """The root of every error that iosim raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback: the message, and the last line that is not iosim's own."""
        import traceback

        here = str(Path(__file__).parents[1])
        theirs = [frame for frame in traceback.extract_tb(self.__traceback__) if not frame.filename.startswith(here)]
        where = f"line {theirs[-1].lineno}: {theirs[-1].line}" if theirs and theirs[-1].line else ""
        return [*([where] if where else []), f"{type(self).__name__}: {self}"]


class BadInput(IosimError, ValueError):
    """A problem, an option or a file that makes no sense; nothing was run."""


class MissingExtra(IosimError, ImportError):
    """An optional package is absent; the message says what to install."""


class SramOverflow(IosimError, MemoryError):
    """A kernel gave a value room that the machine does not have."""


class RegisterOverflow(IosimError, MemoryError):
    """More unnamed words lived at once than there are registers."""


class DeadValue(IosimError, RuntimeError):
    """An on-chip value was used after its tile ended, or an unnamed one twice or too late."""


class LoopMisuse(IosimError, RuntimeError):
    """A loop over tiles was left early, kept, restarted or resumed out of order."""


class NotWritten(IosimError, RuntimeError):
    """An HBM element was read before it was written, or an output element never was."""


class KindMismatch(IosimError, RuntimeError):
    """Two tiles of one kind did different things, so one of them cannot stand for all."""
