"""A number of a device, and what it is worth: its unit, its source, and whether it was read there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from iosim.core.errors import BadInput
from iosim.core.units import SUFFIXES

CONFIDENCES = ("read", "recalled")
LARGEST = 10**15  # in the unit it is written in: no device comes near


@dataclass(frozen=True, slots=True)
class Kind:
    """What a number measures: the unit that programs compute in, and how many of it each unit of the tables is."""

    base: str
    units: Mapping[str, int]


COUNT = Kind("SMs", {"SMs": 1})
SIZE = Kind("bytes", SUFFIXES)
SPEED = Kind("bytes/s", {"MB/s": 10**6, "GB/s": 10**9, "TB/s": 10**12})
RATE = Kind("flop/s", {"GFLOP/s": 10**9, "TFLOP/s": 10**12, "PFLOP/s": 10**15})

KINDS = {
    "sms": COUNT, "shared_memory_per_sm": SIZE, "shared_memory_per_block": SIZE, "l2": SIZE, "memory": SIZE, "bandwidth": SPEED,
    "fp16_tensor_rate": RATE, "fp32_rate": RATE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Quantity:
    """One number as a table prints it: ``value`` in ``unit``, found in ``source``, "read" there or "recalled" from memory.

    ``field`` says which number of a device it is. Raises :class:`BadInput` for a value that is not finite and above 0, a unit of another
    kind, a missing source, and a value that is not a whole number of base units.

    >>> Quantity("bandwidth", 1555, "GB/s", "PMC10448217, Table 3", "read").base
    1555000000000
    """

    field: str
    value: int | float
    unit: str
    source: str
    confidence: str

    def __post_init__(self) -> None:
        if self.field not in KINDS:
            raise BadInput(f"unknown number {self.field!r}; known: {', '.join(KINDS)}")
        checks = {
            "value": (_positive(self.value), "be a number, finite and above 0"),
            "unit": (isinstance(self.unit, str) and self.unit in self.kind.units, f"be one of {' '.join(self.kind.units)}"),
            "source": (isinstance(self.source, str) and bool(self.source.strip()), "say where the number was found"),
            "confidence": (self.confidence in CONFIDENCES, f"be {' or '.join(CONFIDENCES)}"),
        }
        for part, (sound, wanted) in checks.items():
            if not sound:
                raise BadInput(f"the {part} of {self.field} must {wanted}, not {shown(getattr(self, part))}")
        if self._exact().denominator != 1:
            raise BadInput(f"the value of {self.field}, {self}, is not a whole number of {self.kind.base}")

    @property
    def kind(self) -> Kind:
        """What is measured."""
        return KINDS[self.field]

    @property
    def base(self) -> int:
        """The number in base units: SMs, bytes, bytes/s or flop/s."""
        return int(self._exact())

    def _exact(self) -> Fraction:
        return Fraction(str(self.value)) * self.kind.units[self.unit]  # the digits as written: 0.1 is a tenth

    def __str__(self) -> str:
        return f"{self.value:,} {self.unit}"


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LARGEST  # which NaN is not


def shown(value: object) -> str:
    """A value as one line of an error names it, whatever a file held there.

    >>> shown("GB"), shown(float("nan")), shown([1, 2])
    ("'GB'", 'nan', 'a value of type list')
    """
    small = isinstance(value, int) and abs(value) < LARGEST
    text = repr(value) if small or isinstance(value, str | float) else f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
