"""Words and bytes: the one place where sizes are parsed, converted and spelled."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from typing import Literal

from iosim.core.errors import BadInput

Unit = Literal["words", "bytes"]

SUFFIXES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BY_LOWER = {suffix.lower(): factor for suffix, factor in SUFFIXES.items()}
_SIZE = re.compile(r"\s*([0-9]{1,99}(?:\.[0-9]{1,99})?)\s*([A-Za-z]*)\s*")


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much an SRAM holds: ``amount`` words (array elements) or bytes.

    >>> capacity("100KiB").words(itemsize=2)
    51200
    """

    amount: int
    unit: Unit = "words"

    def __post_init__(self) -> None:
        if self.amount < 1:
            raise BadInput(f"an SRAM of {self.amount} {self.unit} holds nothing; ask for at least 1")

    def words(self, itemsize: int) -> int:
        """The number of elements of ``itemsize`` bytes that fit."""
        return self.amount if self.unit == "words" else self.amount // itemsize

    def __str__(self) -> str:
        if self.unit == "words":
            return f"{self.amount} words"
        for suffix in ("GiB", "MiB", "KiB"):
            if self.amount % SUFFIXES[suffix] == 0:
                return f"{self.amount // SUFFIXES[suffix]} {suffix}"
        return f"{self.amount} bytes"


def whole(name: str, value: object, least: int = 1) -> int:
    """``value`` as an ``int`` of at least ``least``; raises :class:`BadInput` for anything else.

    NumPy integers are accepted; booleans, fractions and strings are not.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]  # what is no integer raises TypeError
    except TypeError:
        number = least - 1
    if isinstance(value, bool) or (number < least and not isinstance(value, int)):
        raise BadInput(f"{name} must be a whole number >= {least}, not {value!r}")
    if number < least:
        raise BadInput(f"{name} must be a whole number >= {least}, not {number}")
    return number


def real(text: str) -> float:
    """The number that ``text`` spells in ASCII, as sizes are spelled; raises ``ValueError`` for any other text.

    >>> real("1e-3")
    0.001
    """
    if not text.isascii() or "_" in text:
        raise ValueError(f"could not convert string to float: {text!r}")
    return float(text)


def capacity(size: Capacity | int | str) -> Capacity:
    """Read an SRAM size: a bare integer means words, a suffix means bytes.

    ``KB MB GB`` are powers of 1000 and ``KiB MiB GiB`` powers of 1024; case does not matter.

    >>> capacity(12288), capacity("192 KB"), capacity("192KiB")
    (Capacity(amount=12288, unit='words'), Capacity(amount=192000, unit='bytes'), Capacity(amount=196608, unit='bytes'))
    """
    if isinstance(size, Capacity):
        return size
    if not isinstance(size, str):
        return Capacity(whole("sram", size))
    match = _SIZE.fullmatch(size)
    if match is None or (match[2] and match[2].lower() not in _BY_LOWER):
        raise BadInput(f"cannot read the size {size!r}; write words as 12288, or bytes with a suffix of {' '.join(SUFFIXES)}")
    digits, _, decimals = match[1].partition(".")
    amount, rest = divmod(int(digits + decimals) * _BY_LOWER.get(match[2].lower(), 1), 10 ** len(decimals))
    if rest or amount < 1:
        raise BadInput(f"the size {size!r} is not a whole number >= 1 of {'bytes' if match[2] else 'words'}")
    return Capacity(amount, "bytes" if match[2] else "words")
