"""One entry of a data file and its lines; each method reads a value of one type."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from inspect import get_annotations
from typing import TypeVar

from iosim.core.errors import BadInput
from iosim.core.units import whole

Form = TypeVar("Form")

LONGEST = 60  # of what was found, so that a message stays one line

MOST = 10**12  # beyond it sums and squares of what is published leave what floats and int64 hold


@dataclass(frozen=True, slots=True)
class Record:
    """The ``values`` of one entry of ``file``, which begins on ``line``; ``lines`` says where each key stands, where that is known."""

    file: str
    line: int
    values: Mapping[str, object]
    lines: Mapping[str, int] = field(default_factory=dict)

    def fault(self, key: str, problem: str) -> BadInput:
        """The error for what is wrong with ``key``: file, line and problem."""
        return BadInput(f"{self.file}, line {self.lines.get(key, self.line)}: {problem}")

    def only(self, *keys: str) -> None:
        """Raise :class:`BadInput` for a key that is none of ``keys``."""
        for key in self.values:
            if key not in keys:
                raise self.fault(key, f"{shown(key)} is unknown here; known are {', '.join(keys)}")

    def value(self, key: str) -> object:
        """What stands under ``key``; raises :class:`BadInput` where nothing does."""
        if key not in self.values:
            raise self.fault(key, f"{key} is missing; give it")
        return self.values[key]

    def text(self, key: str) -> str:
        """Words under ``key``, without the blanks around them."""
        found = self.value(key)
        if not isinstance(found, str) or not found.strip():
            raise self.fault(key, f"{key} must be words, not {shown(found)}")
        return found.strip()

    def choice(self, key: str, choices: Collection[str]) -> str:
        """One of ``choices``."""
        found = self.value(key)
        if not isinstance(found, str) or found not in choices:
            raise self.fault(key, f"{key} must be {' or '.join(choices)}, not {shown(found)}")
        return found

    def number(self, key: str, least: float | None = None) -> float:
        """A finite number: > 0, or >= ``least`` where that is given."""
        found = self.value(key)
        if not isinstance(found, int | float) or isinstance(found, bool):
            raise self.fault(key, f"{key} must be a number, not {shown(found)}")
        try:
            number = float(found)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number) or number < (least or 0) or (least is None and number == 0):
            raise self.fault(key, f"{key} must be finite and {'> 0' if least is None else f'>= {least:g}'}, not {shown(found)}")
        if number > MOST:
            raise self.fault(key, f"{key} must be at most {MOST:g}, not {shown(found)}")
        return number

    def whole(self, key: str, least: int = 1) -> int:
        """A whole number of at least ``least``."""
        try:
            number = whole(key, self.value(key), least)
        except BadInput:
            raise self.fault(key, f"{key} must be a whole number >= {least}, not {shown(self.value(key))}") from None
        if number > MOST:
            raise self.fault(key, f"{key} must be at most {MOST:g}, not {number}")
        return number

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of words; none where the key is absent."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(item, str) and item.strip() for item in found):
            raise self.fault(key, f"{key} must be a list of words, not {shown(found)}")
        return tuple(found)

    def wholes(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers >= 1; none where the key is absent."""
        found = self.values.get(key, [])
        if not isinstance(found, list):
            raise self.fault(key, f"{key} must be a list of whole numbers, not {shown(found)}")
        return tuple(Record(self.file, self.lines.get(key, self.line), {key: item}).whole(key) for item in found)

    def inner(self, key: str) -> Record:
        """The table under ``key``; an empty one where the key is absent."""
        found = self.values.get(key, {})
        if not isinstance(found, dict):
            raise self.fault(key, f"{key} must be a table, not {shown(found)}")
        return Record(self.file, self.lines.get(key, self.line), found)

    def build(self, form: Callable[..., Form], **read: Callable[[str], object]) -> Form:
        """A dataclass whose fields are the keys here, each by the reader for its type, or by its own in ``read``."""
        by_type: Mapping[str, Callable[[str], object]] = {
            "str": self.text, "float": self.number, "int": self.whole, "tuple[str, ...]": self.texts, "tuple[int, ...]": self.wholes,
            "int | None": lambda key: self.whole(key) if key in self.values else None,
            "Mapping[str, float]": lambda key: self.inner(key).numbers(),
        }  # fmt: skip
        types = get_annotations(form)
        self.only(*types)
        return form(**{name: (read.get(name) or by_type[kind])(name) for name, kind in types.items()})

    def numbers(self) -> dict[str, float]:
        """Everything here, all of it numbers > 0."""
        return {key: self.number(key) for key in self.values}


def shown(found: object) -> str:
    """What was found, on one short line, for a message."""
    text = ascii(found)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
