"""What the emulator refuses to run, and what goes wrong while a kernel runs. One line each, with the line of the PTX."""

from __future__ import annotations

from iosim.core.errors import BadInput, IosimError


class UnsupportedPtx(BadInput):
    """The text holds something that the emulator does not know exactly; nothing was run."""


class KernelFault(IosimError, RuntimeError):
    """A running kernel did what no kernel may: it left its arrays, split a barrier, divided by zero or never ended."""


_LONGEST = 100  # mangled parameter names run to hundreds of characters


def quoted(line: int, text: str) -> str:
    """How a message points into the PTX, for example `PTX line 7 "ret;"`; long text is cut.

    >>> quoted(7, "ret;")
    'PTX line 7 "ret;"'
    """
    short = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return f'PTX line {line} "{short}"'
