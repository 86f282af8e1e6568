"""Reading one value of the command line: sizes, ranges, blocks, windows and kernels, each refused with what would work."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import click

from iosim.attention.catalogue import KERNELS
from iosim.attention.catalogue import kernel as kernel_of
from iosim.attention.declaration import Kernel
from iosim.attention.plan import BlockChoice
from iosim.core import hardware as devices
from iosim.core.errors import BadInput
from iosim.core.problem import Blocks
from iosim.core.units import Capacity, capacity, real

T = TypeVar("T")
Callback = Callable[[click.Context, click.Parameter, str | None], T | None]

LONGEST = 2**24  # rows of an axis: counting holds a few numbers a tile row, 4 GB where tiles are single rows
LARGEST = 2**30
LARGEST_SRAM = 2**50
MOST_POINTS = 1000
RULES: tuple[Literal["fit", "paper", "best"], ...] = ("fit", "paper", "best")
FORMATS = (".png", ".svg", ".pdf")


def given(read: Callable[[str, str], T], spelling: int = 0) -> Callback[T]:
    """A click callback that reads the text of an option, if it has one; ``read`` takes one spelling of the option and the text."""

    def callback(context: click.Context, option: click.Parameter, text: str | None) -> T | None:
        return None if text is None else read(option.opts[spelling], text)

    return callback


def whole(option: str, text: str, least: int = 1, most: int = LARGEST) -> int:
    """A whole number within bounds.

    >>> whole("--n", "1024")
    1024
    """
    number = int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,99}\s*", text) else None
    if number is None or not least <= number <= most:
        raise BadInput(f"{option} must be a whole number from {least} to {most}, not {text!r}")
    return number


def rows(option: str, text: str) -> int:
    """A number of rows of an axis."""
    return whole(option, text, most=LONGEST)


def seed(option: str, text: str) -> int:
    """A seed: any whole number from 0."""
    return whole(option, text, least=0, most=2**64 - 1)


def number(option: str, text: str) -> float:
    """A real number; the library says which of them make sense."""
    try:
        return real(text)
    except ValueError:
        raise BadInput(f"{option} must be a number such as 0.125, not {text!r}") from None


def size(option: str, text: str) -> Capacity:
    """An SRAM size: words, or bytes with a suffix.

    >>> str(size("--sram", "192KiB"))
    '192 KiB'
    """
    found = capacity(text)
    if found.amount > LARGEST_SRAM:
        raise BadInput(f"{option} {text} is more than any SRAM holds; ask for at most {LARGEST_SRAM}")
    return found


def device(option: str, text: str) -> devices.Device:
    """A device by its name, or from a file."""
    return devices.device(text)


def probability(option: str, text: str) -> float:
    """A number in [0, 1)."""
    value = number(option, text)
    if not 0 <= value < 1:
        raise BadInput(f"{option} must be a number from 0 to below 1, not {text!r}")
    return value


def window(option: str, text: str) -> tuple[int, int]:
    """Two reaches, LEFT,RIGHT, -1 = unbounded.

    >>> window("--window", "128,0")
    (128, 0)
    """
    left, comma, right = text.partition(",")
    if not comma:
        raise BadInput(f"{option} must be LEFT,RIGHT such as 128,0 (-1 = unbounded), not {text!r}")
    return whole(f"{option} LEFT", left, least=-1), whole(f"{option} RIGHT", right, least=-1)


def blocks(option: str, text: str) -> BlockChoice:
    """A block rule, or BRxBC.

    >>> blocks("--blocks", "64x128")
    Blocks(rows=64, cols=128)
    """
    for rule in RULES:
        if text == rule:
            return rule
    return explicit_blocks(option, text, "fit, paper, best or ")


def explicit_blocks(option: str, text: str, otherwise: str = "") -> Blocks:
    """BRxBC alone."""
    match = re.fullmatch(r"([0-9]{1,99})[x×]([0-9]{1,99})", text.lower())
    if match is None:
        raise BadInput(f"{option} must be {otherwise}BRxBC such as 64x128, not {text!r}")
    return Blocks(*(whole(f"{option} {name}", side, most=LARGEST) for name, side in zip(("Br", "Bc"), match.groups(), strict=True)))


def kernel(option: str, text: str) -> Kernel:
    """A kernel by its name, or FILE.py:FUNCTION; the nearest is suggested for one that does not exist."""
    if text in KERNELS or ":" in text:
        return kernel_of(text)
    near = difflib.get_close_matches(text, KERNELS, 1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise BadInput(f"unknown kernel {text!r}; known: {', '.join(KERNELS)}, or FILE.py:FUNCTION{meant}")


def kernels(option: str, text: str) -> tuple[Kernel, ...]:
    """Names joined by commas, each once; raises :class:`BadInput` for two kernels of one name."""
    found = tuple(dict.fromkeys(kernel(option, name.strip()) for name in text.split(",")))
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise BadInput(f"{option} {text}: two kernels are called {twice[0]}; give one of the functions another name")
    return found


def lengths(option: str, text: str) -> tuple[int, ...]:
    """A range of row numbers: ``256..4096`` doubles, ``256..1024:256`` steps, ``1,2,3`` lists.

    >>> lengths("--n", "256..2048"), lengths("--n", "100..400:150,7")
    ((256, 512, 1024, 2048), (7, 100, 250, 400))
    """
    return tuple(sorted({value for part in text.split(",") for value in _span(option, part, rows)}))


def sizes(option: str, text: str) -> tuple[Capacity, ...]:
    """A range of SRAM sizes, all in words or all in bytes.

    >>> [str(size) for size in sizes("--sram", "16KiB..64KiB")]
    ['16 KiB', '32 KiB', '64 KiB']
    """
    units = {size(option, end).unit for part in text.split(",") for end in re.split(r"\.\.|:", part)}
    if len(units) > 1:
        raise BadInput(f"{option} {text} mixes words and bytes; give every size a suffix, or none")
    amounts = {amount for part in text.split(",") for amount in _span(option, part, lambda name, end: size(name, end).amount)}
    return tuple(Capacity(amount, *units) for amount in sorted(amounts))


def output(option: str, text: str) -> str:
    """The path of a file to write, in a folder that exists."""
    folder = os.path.dirname(text) or "."
    if not os.path.isdir(folder):
        raise BadInput(f"{option} {text}: there is no folder {folder!r}; make it first")
    if os.path.isdir(text) or not text:
        raise BadInput(f"{option} {text!r} is no file name; give one such as {os.path.join(text, 'iosim')}")
    return text


def plot(option: str, text: str) -> str:
    """The same for a figure, whose name says the format."""
    if not text.lower().endswith(FORMATS):
        raise BadInput(f"{option} {text}: cannot tell the format; end the name in {', '.join(FORMATS)}")
    return output(option, text)


def _span(option: str, text: str, read: Callable[[str, str], int]) -> Sequence[int]:
    first, dots, rest = text.partition("..")
    if not dots:
        return [read(option, first)]
    last, colon, step = rest.partition(":")
    low, high = read(option, first), read(option, last)
    if low > high:
        raise BadInput(f"{option} {text} runs backwards; write {last}..{first}")
    steps = range(low, high + 1, read(option, step)) if colon else [low << power for power in range((high // low).bit_length())]
    if len(steps) > MOST_POINTS:
        raise BadInput(f"{option} {text} has {len(steps)} points; ask for at most {MOST_POINTS}")
    return steps
