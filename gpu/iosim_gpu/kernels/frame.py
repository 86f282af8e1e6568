"""What every kernel begins and ends with: its tiles in shared memory, and its counters."""

from __future__ import annotations

import numpy as np

from iosim_gpu.declaration import Step
from iosim_gpu.kernels.tiles import Device, device
from iosim_gpu.tiling import Tiling, offsets

WORD = np.dtype(np.float32)


def framed(step: Step, tiling: Tiling) -> tuple[Device, Device, Device]:
    """Three device functions, which are given what they need of ``cuda``, since they must not name it.

    ``parts`` takes ``cuda.shared.array`` and returns the tiles of the step's room. ``counters`` takes ``cuda.local.array`` and returns a
    thread's own counters, all 0. ``tell`` takes these, ``counts`` and ``cuda.atomic.add``, and adds them up if the tiling is ``counting``.
    """
    bounds, slots, counting = offsets(step.room(tiling)), len(step.slots), tiling.counting
    words, cut = 0 if tiling.dynamic else bounds[-1], cutting(bounds)

    @device
    def parts(array):  # type: ignore[no-untyped-def]
        return cut(array(words, WORD))

    @device
    def counters(array):  # type: ignore[no-untyped-def]
        n = array(slots, np.int64)
        for slot in range(slots):
            n[slot] = 0
        return n

    @device
    def tell(n, counts, add):  # type: ignore[no-untyped-def]
        if counting:
            for slot in range(slots):
                add(counts, slot, n[slot])

    return parts, counters, tell


def cutting(bounds: tuple[int, ...]) -> Device:
    """``cut``: the slices between ``bounds``; made by recursion, since the compiler must know how many there are."""
    if len(bounds) == 1:
        return device(lambda room: ())
    begin, end = bounds[:2]
    rest = cutting(bounds[1:])

    @device
    def cut(room):  # type: ignore[no-untyped-def]
        return (room[begin:end], *rest(room))

    return cut
