"""The memories of a running kernel: global arrays with bounds, and shared or local memory with one room for each owner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from iosim.core.errors import BadInput
from iosim_gpu.ptx.dtypes import Lanes

Addresses: TypeAlias = NDArray[np.int64]

_APART = 40  # arrays lie 2^40 bytes apart, so that hardly any wrong index lands in another one


class OutOfBounds(Exception):
    """An access that no memory can serve: which of the lanes asked for it, and what is wrong."""

    def __init__(self, lane: int, what: str) -> None:
        super().__init__(what)
        self.lane, self.what = lane, what


@dataclass(frozen=True, slots=True)
class Region:
    """One array in global memory."""

    name: str
    array: NDArray[Any]
    base: int
    words: dict[np.dtype[Any], NDArray[Any]]

    def cells(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """The array's elements, flat, as `dtype`, which has their width; a write goes to the array."""
        if dtype not in self.words:
            self.words[dtype] = self.array.reshape(-1).view(dtype)
        return self.words[dtype]

    def check(self, offsets: Addresses, width: int, span: int) -> None:
        """Raise OutOfBounds where an access of `span` bytes is not whole elements of `width` bytes inside the array."""
        if width != self.array.itemsize:
            raise OutOfBounds(0, f"{self.name} has elements of {self.array.itemsize} bytes, not {width}: they could not be counted")
        bad = _outside(offsets, span, self.array.nbytes)
        if bad is not None:
            raise OutOfBounds(bad, self._wrong(int(offsets[bad]), span))

    def _wrong(self, offset: int, span: int) -> str:
        if 0 <= offset <= self.array.nbytes - span:
            return f"byte {offset} of {self.name} is not a multiple of {span}: misaligned"
        element, size = offset // self.array.itemsize, self.array.size
        return f"outside {self.name}: element {element} of {size}, index {self._index(element)} of shape {self.array.shape}"

    def _index(self, element: int) -> tuple[int, ...]:
        """Where element number `element` would be if the first axis had no end."""
        index: list[int] = []
        for length in reversed(self.array.shape[1:]):
            element, last = divmod(element, max(length, 1))
            index.insert(0, last)
        return (element, *index)


def _outside(offsets: Addresses, span: int, size: int) -> int | None:
    """The first access that is misaligned or leaves `size` bytes, if there is one; two reductions where all is well."""
    unsigned = offsets.view(np.uint64)  # a negative offset is a huge one
    if np.maximum.reduce(unsigned) <= size - span and not np.bitwise_or.reduce(offsets) & (span - 1):
        return None
    return int(np.flatnonzero((offsets < 0) | (offsets > size - span) | (offsets % span != 0))[0])


class GlobalMemory:
    """The arrays that a kernel was given, by address.

    An array passed twice, or two that overlap, lie at two addresses and are counted apart, but share their values.
    """

    def __init__(self, arrays: Sequence[tuple[str, NDArray[Any]]]) -> None:
        names = [name for name, _ in arrays]
        if len(set(names)) < len(names):
            raise BadInput(f"arguments have different names, so that counts can be told apart: got {', '.join(names)}")
        for name, array in arrays:
            if not array.flags.c_contiguous or array.dtype.hasobject:
                raise BadInput(f"{name} must be a C-contiguous array of plain numbers: got dtype {array.dtype}, strides {array.strides}")
        self.regions = [Region(name, array, (i + 1) << _APART, {}) for i, (name, array) in enumerate(arrays)]

    def base(self, name: str) -> int:
        """The address of an array's first byte, a multiple of every alignment."""
        return next(region.base for region in self.regions if region.name == name)

    def parts(self, addresses: Addresses, width: int, span: int) -> Iterator[tuple[Region, slice | NDArray[np.intp], Addresses]]:
        """Split accesses by the array that each falls into: the array, which accesses, their byte offsets; all checked.

        Nearly always a single array; lanes may hold pointers to different ones, but no access reaches over an array's ends.
        """
        region = self.regions[self._nearest(int(addresses[0]))]
        offsets = addresses - region.base
        if width == region.array.itemsize and _outside(offsets, span, region.array.nbytes) is None:
            yield region, slice(None), offsets
        else:
            yield from self._mixed(addresses, width, span)

    def _mixed(self, addresses: Addresses, width: int, span: int) -> Iterator[tuple[Region, NDArray[np.intp], Addresses]]:
        numbers = np.array([self._nearest(int(address)) for address in addresses])
        for number in np.unique(numbers):
            which = np.flatnonzero(numbers == number)
            region = self.regions[number]
            offsets = addresses[which] - region.base
            try:
                region.check(offsets, width, span)
            except OutOfBounds as wrong:
                raise OutOfBounds(int(which[wrong.lane]), wrong.what) from None
            yield region, which, offsets

    def _nearest(self, address: int) -> int:
        """The number of the array that an address lies in or nearest to."""
        if not self.regions:
            raise OutOfBounds(0, f"address {address:#x}, and the kernel was given no array")
        number = (address + (1 << (_APART - 1))) >> _APART
        return min(max(number, 1), len(self.regions)) - 1


class OwnedMemory:
    """Shared or local memory: `size` bytes for each owner (a thread block, a thread), addressed from 0, all bits set at first.

    Only the end of the room is a bound: an index that runs from one array of a block into its next one is not noticed.
    """

    def __init__(self, owners: NDArray[np.int64], size: int, what: str) -> None:
        self.what, self.size = what, size
        self._stride = -(-size // 16) * 16
        self._starts = owners * self._stride
        self._bytes = np.full((int(owners.max()) + 1) * self._stride, 0xFF, np.uint8)
        self._words: dict[np.dtype[Any], NDArray[Any]] = {}

    def cells(self, dtype: np.dtype[Any]) -> NDArray[Any]:
        """All rooms, one after the other, as elements of `dtype`."""
        if dtype not in self._words:
            self._words[dtype] = self._bytes.view(dtype)
        return self._words[dtype]

    def places(self, addresses: Addresses, lanes: NDArray[np.intp] | None, span: int) -> Addresses:
        """Which byte of all rooms each access of `lanes` begins at, `span` bytes long; raises OutOfBounds."""
        bad = _outside(addresses, span, self.size)
        if bad is not None:
            fault = "is misaligned" if 0 <= addresses[bad] <= self.size - span else f"is outside its {self.size} bytes"
            raise OutOfBounds(bad, f"{self.what} memory: byte {int(addresses[bad])} {fault} for an access of {span} bytes")
        return addresses + (self._starts if lanes is None else self._starts[lanes])


def turns(places: NDArray[np.int64]) -> Iterator[Lanes | slice]:
    """Groups of accesses with no place twice, in which the first access to a place goes first, the second next, and so on.

    >>> [group.tolist() for group in turns(np.array([5, 7, 5, 5]))]
    [[0, 1], [2], [3]]
    """
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    fresh = np.concatenate(([True], ranked[1:] != ranked[:-1]))
    if fresh.all():
        yield slice(None)
        return
    begins = np.flatnonzero(fresh)
    rank = np.arange(places.size) - np.repeat(begins, np.diff(np.append(begins, places.size)))
    for turn in range(int(rank.max()) + 1):
        yield np.sort(order[rank == turn])
