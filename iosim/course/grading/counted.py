"""Whether a listing does the same when it is only counted: in process it can look at the machine, and a submission in a child cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal

from iosim.core.counts import Counts
from iosim.core.errors import KindMismatch
from iosim.machine import Machine


def same_when_counted(
    run: Callable[[Machine], object],
    executed: Counts,
    *,
    sram: int | str | None = None,
    overflow: Literal["error", "record"] = "error",
    registers: int | None = None,
    check: int = 8,
) -> None:
    """Raise :class:`KindMismatch` unless counting gives the counts that were ``executed``, naming the first one that differs.

    ``run`` declares the arrays on a machine and calls the listing, as it did when it was executed on one with the same ``sram``,
    ``overflow`` and ``registers``. Counting visits one tile of each kind and up to ``check`` others, which have to do the same.
    """
    machine = Machine(sram, mode="count", overflow=overflow, registers=registers, check=check)
    run(machine)
    first = next(differences(asdict(machine.finish()), asdict(executed)), None)
    if first is not None:
        name, found, wanted = first
        raise KindMismatch(
            f"with numbers it does one thing and another when it is only counted: {name} is {wanted} with numbers and {found} counted; "
            "a body may depend only on its tile's size, full, first and last"
        )


def differences(found: dict[str, Any], wanted: dict[str, Any], path: str = "") -> Iterator[tuple[str, object, object]]:
    """Where two nested dictionaries differ: the path, and both values."""
    for name in [*wanted, *(name for name in found if name not in wanted)]:
        one, other = found.get(name, "none"), wanted.get(name, "none")
        if isinstance(one, dict) and isinstance(other, dict):
            yield from differences(one, other, f"{path}{name} ")
        elif one != other:
            yield path + name, one, other
