"""Text in lines, never broken at a hyphen or at a tie."""

from __future__ import annotations

import textwrap

TIE = "\N{NO-BREAK SPACE}"


def wrapped(text: str, width: int, before: str = "", indent: int = 2) -> str:
    """``before`` and ``text`` in lines of at most ``width``, all but the first indented; ties become spaces.

    >>> print(wrapped(f"from N{TIE}={TIE}1,024 on", 12, before="b "))
    b from
      N = 1,024
      on
    """
    lines = textwrap.wrap(text, width, initial_indent=before, subsequent_indent=" " * indent, break_on_hyphens=False)
    return "\n".join(lines).replace(TIE, " ")
