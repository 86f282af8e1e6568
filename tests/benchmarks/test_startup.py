"""How soon the package is imported and the command line answers, each in an interpreter of its own."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

COMMAND = "import sys; from iosim.cli import main; sys.exit(main())"


def test_import_iosim(
    turns: Callable[..., list[list[float]]], figure: Callable[[str, float, str], None], python: Callable[..., str]
) -> None:
    """Beyond `import numpy`, which anyone who uses it pays anyway."""
    iosim, numpy = turns(lambda: python("import numpy, iosim"), lambda: python("import numpy"), rounds=15)
    figure("ms beyond import numpy", median(map(float.__sub__, iosim, numpy)) * 1e3, "<= 50")


@pytest.mark.parametrize(("argument", "goal"), [("curve", "<= 1.5"), ("--help", "<= 0.4")], ids=["curve", "help"])
def test_command_line(
    argument: str,
    goal: str,
    turns: Callable[..., list[list[float]]],
    figure: Callable[[str, float, str], None],
    python: Callable[..., str],
) -> None:
    """Wall time of `iosim curve` and `iosim --help`, the interpreter's own start included."""
    command, interpreter = turns(lambda: python(COMMAND, argument), lambda: python("pass"), rounds=9)
    figure("s", median(command), goal)
    figure("s of these for Python itself", median(interpreter), "")
