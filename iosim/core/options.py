"""Options of kernels: what each is called, which values it takes, and what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from iosim.core.errors import BadInput
from iosim.core.units import whole

Value = str | bool | int
METHODS = {*dir(Mapping), "but"}  # of Options, whose attributes the values of options are


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kernel.

    Args:
        name: the keyword of the listing; the command line spells it with dashes.
        default: its value where nothing is given. The type of the default is the type of the option: a text, a flag, or a number from 1 on.
        help: one line for the command line and the pages.
        choices: the values of a text option, or those of a number that tests try; a number takes any whole number from 1 on.
        over_m: how a comparison over M treats it where it is open: the default, each value as a rival of its own, or the best value.
    """

    name: str
    default: Value
    help: str
    choices: tuple[Value, ...] = ()
    over_m: Literal["default", "each", "best"] = "default"

    def __post_init__(self) -> None:
        name, default, kind = self.name, self.default, type(self.default)
        if not isinstance(name, str) or not name.isidentifier() or name.startswith("_") or name in METHODS:
            raise BadInput(f"an option needs a name that a parameter can have, without _ in front, not {name!r}")
        if kind not in (str, bool, int) or (kind is int and default < 1):  # type: ignore[operator]
            raise BadInput(f"the default of option {name} must be a text, a flag or a number >= 1, not {default!r}")
        choices = (default, not default) if kind is bool else tuple(self.choices)
        if any(type(choice) is not kind for choice in choices) or (kind is str and default not in choices):
            raise BadInput(f"option {name} has the choices {choices}; give it choices like its default {default!r}, and that one")
        if not isinstance(self.help, str):
            raise BadInput(f"option {name} needs a line of help, not {self.help!r}")
        object.__setattr__(self, "choices", choices)

    def checked(self, value: object) -> Value:
        """``value``, if the option takes it; raises :class:`BadInput` otherwise."""
        if isinstance(self.default, bool):
            if not isinstance(value, bool):
                raise BadInput(f"{self.name} must be True or False, not {value!r}")
            return value
        if isinstance(self.default, int):
            return whole(self.name, value)
        if not isinstance(value, str) or value not in self.choices:
            raise BadInput(f"{self.name} must be {' or '.join(map(repr, self.choices))}, not {value!r}")
        return value

    @property
    def flag(self) -> str:
        """How the command line spells it: a flag says the opposite of the default."""
        return f"--{'no-' if self.default is True else ''}{self.name.replace('_', '-')}"


FIRST_PASS = Option(
    "first_pass", "load", "what waits in HBM is read at the first visit too (load), or made on chip then (create)", ("load", "create")
)
REUSE = Option("reuse", "tiled", "K and V are read again for each query tile (tiled), or kept whole on chip (ideal)", ("tiled", "ideal"))
SOFTMAX = Option(
    "softmax", "rows", "whole rows of S on chip (rows), or tiles of S that are read twice (streamed)", ("rows", "streamed"), over_m="best"
)
SKIP = Option("skip", True, "visit tiles in which no pair may attend, too")
SKIP_EMPTY = Option("skip_empty", False, "leave out K and V of empty columns")
ACCUMULATOR = Option(
    "accumulator", "storage", "O or dQ waits in HBM in the type of the inputs (storage), or in an array of its own (float32)",
    ("storage", "float32"),
)  # fmt: skip
DQ_PASS = Option("dq_pass", "shared", "dQ is summed in HBM (shared), or made by a pass of its own (own)", ("shared", "own"))
DEPTH = Option(
    "depth", "square", "products meet square tiles of their factors (square), or single columns and rows (one)", ("square", "one"),
    over_m="each",
)  # fmt: skip
PACK = Option("pack", False, "one loop over the queries of all heads that share a K and V")
OPTIONS = {
    option.name: option for option in (FIRST_PASS, REUSE, SOFTMAX, SKIP, SKIP_EMPTY, ACCUMULATOR, DQ_PASS, DEPTH, PACK)
}  # fmt: skip
"""The options that closed forms know too; a kernel may declare others of its own."""


class Options(Mapping[str, Value]):
    """The values of a kernel's options, by name and as attributes.

    An option that was not given has its default, or None where only its kernel knows one. Raises :class:`BadInput` for a value
    that an option of :data:`OPTIONS` does not take.

    >>> Options(first_pass="create").first_pass, Options().skip, Options()
    ('create', True, Options())
    """

    __slots__ = ("_given",)

    def __init__(self, **given: Value | None) -> None:
        known = {name: OPTIONS[name].checked(value) if name in OPTIONS else value for name, value in given.items() if value is not None}
        self._given = {name: value for name, value in known.items() if name not in OPTIONS or value != OPTIONS[name].default}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._given.get(name, OPTIONS[name].default if name in OPTIONS else None)

    def __getitem__(self, name: str) -> Value:
        return self._given[name]

    def __iter__(self) -> Any:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._given == other._given

    def __hash__(self) -> int:
        return hash(frozenset(self._given.items()))

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"

    def __reduce__(self) -> tuple[object, ...]:
        return _made, (self._given,)

    def but(self, **other: Value) -> Options:
        """The same with ``other`` values."""
        return Options(**{**self._given, **other})


def _made(given: dict[str, Value]) -> Options:
    return Options(**given)
