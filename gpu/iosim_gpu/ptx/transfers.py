"""Every opcode that touches memory, with all its modifiers: a table from the whole opcode to what it reads and writes.

Cache operators, eviction hints, scopes and orderings (`.ca`, `.L2::128B`, `.gpu`, `.relaxed`, ...) are not in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from iosim_gpu.ptx.arithmetic import flushing
from iosim_gpu.ptx.dtypes import DTYPES, Lanes

Kind: TypeAlias = Literal["load", "store", "atomic"]
Space: TypeAlias = Literal["global", "shared", "local"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One opcode: what it does, where, on elements of which PTX type, and on how many of them at once (`.v2`, `.v4`).

    Untyped elements are given as unsigned ones, for a wider register takes them with zeros above. `update` is what an atomic
    makes of the old value and its `operands`; `returns` says that the old value goes to a register.
    """

    kind: Kind
    space: Space
    element: str
    vector: int = 1
    update: Callable[..., Any] | None = None
    operands: int = 1
    returns: bool = True
    dtype: np.dtype[Any] = field(init=False)
    span: int = field(init=False)
    shift: int = field(init=False)

    def __post_init__(self) -> None:
        """Work out what every access needs: the NumPy type, the bytes of a whole access, the shift from bytes to elements."""
        dtype = DTYPES[self.element]
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "span", self.vector * dtype.itemsize)
        object.__setattr__(self, "shift", dtype.itemsize.bit_length() - 1)


_Rows: TypeAlias = Iterator[tuple[str, Transfer]]

_ELEMENTS = ("b8", "b16", "b32", "b64", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64", "f32", "f64")
_VECTORS = {"": 1, ".v2": 2, ".v4": 4}
_WIDEST = 16  # bytes that a thread moves in one access

# A generic address (no space named) is a global one here: nothing in the table makes one from a shared or local address.
_SPACES: dict[str, Space] = {".global": "global", ".shared": "shared", ".local": "local", "": "global"}


_PLAIN: tuple[tuple[Kind, str], ...] = (("load", "ld"), ("store", "st"))


def _unsigned(element: str) -> str:
    return "u" + element[1:] if element.startswith("b") else element


def _plain() -> _Rows:
    for kind, name in _PLAIN:
        for spelled, space in _SPACES.items():
            for order in ("", ".volatile") if space != "local" else ("",):
                yield from _elements(f"{name}{order}{spelled}", kind, space)
    yield from _elements("ld.global.nc", "load", "global")


def _elements(prefix: str, kind: Kind, space: Space) -> _Rows:
    for spelled, count in _VECTORS.items():
        for element in _ELEMENTS:
            if count * DTYPES[element].itemsize <= _WIDEST:
                yield f"{prefix}{spelled}.{element}", Transfer(kind, space, _unsigned(element), count)


def _swap(old: Lanes, expected: Lanes, new: Lanes) -> Lanes:
    return np.where(old == expected, new, old)


def _count_up(old: Lanes, last: Lanes) -> Lanes:
    return np.where(old >= last, 0, old + 1).astype(old.dtype)


def _count_down(old: Lanes, first: Lanes) -> Lanes:
    return np.where((old == 0) | (old > first), first, old - 1).astype(old.dtype)


_UPDATES: tuple[tuple[str, tuple[str, ...], Callable[..., Any]], ...] = (
    ("add", ("s32", "u32", "u64", "f64"), np.add),
    ("min", ("s32", "u32", "s64", "u64"), np.minimum),
    ("max", ("s32", "u32", "s64", "u64"), np.maximum),
    ("and", ("b32", "b64"), np.bitwise_and),
    ("or", ("b32", "b64"), np.bitwise_or),
    ("xor", ("b32", "b64"), np.bitwise_xor),
    ("inc", ("u32",), _count_up),
    ("dec", ("u32",), _count_down),
)


def _atomics() -> _Rows:
    for spelled, space in {s: kind for s, kind in _SPACES.items() if kind != "local"}.items():
        for name, elements, update in _UPDATES:
            for element in elements:
                yield from _atomic(f"{spelled}.{name}.{element}", space, element, update)
        # Added in global memory, float32 flushes subnormals to zero; in shared memory it does not (PTX ISA, atom).
        yield from _atomic(f"{spelled}.add.f32", space, "f32", flushing(np.add) if space == "global" else np.add)
        for element in ("b32", "b64"):
            kept = _unsigned(element)
            yield f"atom{spelled}.exch.{element}", Transfer("atomic", space, kept, update=lambda _, new: new)
            yield f"atom{spelled}.cas.{element}", Transfer("atomic", space, kept, update=_swap, operands=2)


def _atomic(rest: str, space: Space, element: str, update: Callable[..., Any]) -> _Rows:
    """An update that may return the old value or not."""
    yield "atom" + rest, Transfer("atomic", space, _unsigned(element), update=update)
    yield "red" + rest, Transfer("atomic", space, _unsigned(element), update=update, returns=False)


TRANSFERS: dict[str, Transfer] = {name: transfer for rows in (_plain, _atomics) for name, transfer in rows()}
"""The whole table, such as `TRANSFERS["ld.global.f32"]`. Parameters are read by `ld.param`, which moves nothing."""
