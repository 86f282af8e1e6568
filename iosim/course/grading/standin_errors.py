"""What the stand-in machine raises at once, under the names that iosim has for it. Standard library only.

It raises where an operation cannot be written down as a record, or gives nothing to go on with. Everything else, such as a value
that is dead, the real machine finds when it replays the records.
"""

from __future__ import annotations


class IosimError(Exception):
    """The root of what a machine refuses."""


class BadInput(IosimError, ValueError):
    """An operand, a size or an index that makes no sense."""


class DeadValue(IosimError, RuntimeError):
    """A value without room was assigned to."""


class LoopMisuse(IosimError, RuntimeError):
    """A tile was copied, or an array indexed with something else than tiles."""


class SramOverflow(IosimError, MemoryError):
    """Never raised here: the stand-in has no capacity."""


class RegisterOverflow(IosimError, MemoryError):
    """Never raised here: the stand-in has no registers."""


class NotWritten(IosimError, RuntimeError):
    """Never raised here: the stand-in has no elements."""


class KindMismatch(IosimError, RuntimeError):
    """Never raised here: the stand-in compares no tiles."""
