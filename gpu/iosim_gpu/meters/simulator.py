"""The simulator meter: the unmodified kernel in Numba's CUDA simulator, on arrays that count their elements' reads and writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iosim_gpu.calls import Call, calls, prepared, total
from iosim_gpu.case import Case
from iosim_gpu.checks import check
from iosim_gpu.declaration import Step
from iosim_gpu.meters.internals import INDEXED, exchanged, simulator
from iosim_gpu.moved import Measured, Moved

Array = NDArray[Any]
WHOLE = (int, np.integer)


class CountedArray:
    """An array in global memory as a kernel sees it: read and written one element at a time, and every time is counted.

    The simulator hands a kernel whatever it does not know as it is, so this needs nothing of Numba's. It has a shape and elements and
    nothing else: a slice, a whole-array operation, a negative index or one past the end raises IndexError or TypeError, where the
    simulator's own arrays, and a GPU, would let it pass. Every OS thread counts in a cell of its own, without a lock.
    """

    def __init__(self, name: str, plain: Array) -> None:
        self.name, self.plain = name, plain
        self.shape, self.ndim, self.size, self.dtype = plain.shape, plain.ndim, plain.size, plain.dtype
        self._own = threading.local()
        self._cells: list[list[int]] = []

    def __len__(self) -> int:
        return len(self.plain)

    def __iter__(self) -> Any:  # by which NumPy, too, would reach for the elements
        raise TypeError(f"{self.name} is read one element at a time, not as a whole")

    def __getitem__(self, index: Any) -> Any:
        self._check(index)
        self._cell()[0] += 1
        return self.plain[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check(index)
        self._cell()[1] += 1
        self.plain[index] = value

    def updated(self, index: Any) -> Array:
        """The elements for an atomic update at ``index``, which is counted as one."""
        self._check(index)
        self._cell()[2] += 1
        return self.plain

    def moved(self) -> Moved:
        """What was moved so far."""
        loads, stores, atomics = (sum(cell[kind] for cell in self._cells) for kind in range(3))
        return Moved(loads, stores, atomics)

    def _cell(self) -> list[int]:
        try:
            return self._own.cell  # type: ignore[no-any-return]
        except AttributeError:
            self._own.cell = cell = [0, 0, 0]
            self._cells.append(cell)  # atomic in CPython, and once a thread
            return cell

    def _check(self, index: Any) -> None:
        at = index if type(index) is tuple else (index,)
        if len(at) != self.ndim:
            raise self._fault(at)
        for i, size in zip(at, self.shape, strict=True):
            if not (isinstance(i, WHOLE) and 0 <= i < size):
                raise self._fault(at)

    def _fault(self, at: tuple[Any, ...]) -> IndexError:
        asked = f"{self.name}[{', '.join(map(str, at))}]"
        if len(at) != self.ndim or not all(isinstance(i, WHOLE) for i in at):
            return IndexError(f"{asked} is no element of {self.name}: shape {self.shape} takes {self.ndim} integers")
        return IndexError(f"{asked} is outside of {self.name}, whose shape is {self.shape}")


def measure(case: Case, steps: Sequence[Step] | None = None) -> Measured:
    """``case`` in the simulator; ``steps`` stands in for the kernel's own launches.

    Raises :class:`iosim.core.errors.BadInput` in a process without the simulator, and IndexError for a kernel that leaves an array.
    """
    simulator()
    arrays = prepared(case)
    return Measured("simulator", total([launch(call) for call in calls(case, arrays, steps=steps)]), dict(arrays))


def launch(call: Call) -> dict[str, Moved]:
    """Run ``call`` in the simulator, where it writes into its arrays; what each of them moved, ``counts`` not among them."""
    inside = simulator()
    check(call)
    seen = {name: CountedArray(name, array) for name, array in call.arrays.items()}
    told = {name: _told(getattr(inside.kernelapi.FakeCUDAAtomic, name)) for name in INDEXED}
    with exchanged(inside.kernelapi.FakeCUDAAtomic, **told):
        kernel = inside.jit(call.step.make(call.tiling))
        kernel[call.grid, call.tiling.threads, 0, call.dynamic_bytes](*(seen.get(name, value) for name, value in call.args))
    return {name: array.moved() for name, array in seen.items()}


def _told(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The atomic operation, which reads the element twice, as one update of a counted array."""

    def update(module: Any, array: Any, index: Any, *values: Any) -> Any:
        counts = isinstance(array, CountedArray)
        return operation(module, array.updated(index) if counts else array, index, *values)

    return update
