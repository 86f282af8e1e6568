"""Devices in TOML files: the presets, and those that users write."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from iosim.core.errors import BadInput
from iosim.core.hardware.chip import Device, chip
from iosim.core.hardware.quantity import KINDS, Quantity, shown

DATA = Path(__file__).with_name("devices")
PARTS = ("value", "unit", "source", "confidence")
LARGEST = 2**20  # bytes; a preset has two thousand


def _place(path: Path) -> int:
    """Where a preset stands in lists, without reading all of it."""
    return int(path.read_text(encoding="utf-8").partition("\nplace = ")[2].partition("\n")[0])


DEVICES = tuple(path.stem for path in sorted(DATA.glob("*.toml"), key=_place))


def device(name_or_path: str | os.PathLike[str]) -> Device:
    """One of the presets ``DEVICES`` by its name, or a device from the path of a TOML file of the same form.

    The file has ``name``, ``compute_capability`` and one table for each of ``KINDS``, with value, unit, source and confidence. Raises
    :class:`BadInput` for an unknown device and for a file that cannot be read, is no TOML, or lacks or misspells something.

    >>> device("h100").sms, device("h100").bandwidth
    (132, 3350000000000)
    """
    if not isinstance(name_or_path, str | os.PathLike):
        raise BadInput(f"a device must be a name or the path of a .toml file, not {shown(name_or_path)}")
    asked = os.fsdecode(name_or_path)
    if asked in DEVICES:
        return _read(asked, DATA / f"{asked}.toml")
    if not os.path.dirname(asked) and not asked.endswith(".toml"):
        raise BadInput(f"unknown device {asked!r}; known: {', '.join(DEVICES)}, or the path of a .toml file")
    return _read(asked, Path(asked))


def _read(key: str, path: Path) -> Device:
    what = f"the device file {os.fspath(path)!r}"
    found = _parsed(what, path)
    try:
        found.pop("place", None)
        _check_names("it", found, ("name", "compute_capability", *KINDS))
        return chip(key, found["name"], found["compute_capability"], [_quantity(field, found[field]) for field in KINDS])
    except BadInput as error:
        raise BadInput(f"{what}: {error}") from None


def _parsed(what: str, path: Path) -> dict[str, object]:
    import tomllib

    if not path.is_file():
        raise BadInput(f"{what} is not a file that can be found; give the path of a .toml file, or one of {', '.join(DEVICES)}")
    size = path.stat().st_size
    if size > LARGEST:
        raise BadInput(f"{what} takes {size} bytes and at most {LARGEST} are read; a device takes about 2000")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise BadInput(f"{what} cannot be read: {fault.strerror or 'damaged file'}") from None
    except (ValueError, RecursionError) as fault:  # no UTF-8, no TOML, numbers of thousands of digits, tables of thousands of levels
        raise BadInput(f"{what} is not TOML that can be read: {' '.join(str(fault).split())}") from None


def _quantity(field: str, table: object) -> Quantity:
    if not isinstance(table, Mapping):
        raise BadInput(f"{field} must be a table with {', '.join(PARTS)}, not {shown(table)}")
    _check_names(f"[{field}]", table, PARTS)
    return Quantity(field, *(table[part] for part in PARTS))


def _check_names(what: str, found: Mapping[str, object], wanted: tuple[str, ...]) -> None:
    for name in wanted:
        if name not in found:
            raise BadInput(f"{what} has no {name}; it needs {', '.join(wanted)}")
    for name in found:
        if name not in wanted:
            raise BadInput(f"{what} has the unknown entry {shown(name)}; it needs {', '.join(wanted)}")
