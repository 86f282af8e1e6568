"""What a child is asked to run: a listing on the stand-in machine, or a function on fresh arguments. It holds no answer and no data set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from iosim.attention.kernels.masking import Mask
from iosim.core.errors import BadInput
from iosim.core.masks.runs import Table, complement
from iosim.machine import Hbm

Array = NDArray[np.generic]
Number = int | float
Row = list[tuple[int, int, int]]


@dataclass(frozen=True, slots=True)
class Job:
    """One run in a child; as JSON it is a dictionary of these names.

    ``kind`` "kernel": ``arrays`` are the HBM arrays (name, rows, cols), ``args`` their places in the order of the parameters (None for one
    that is not there; all of them in order where nothing is given), ``params`` what comes by keyword, ``mask`` tables (see
    :func:`tables_of`) or None. ``kind`` "function": ``calls`` are the arguments of every call, a number as it is, an array as
    ``{"dtype": "float64", "shape": [2, 3], "data": hexadecimal}`` (see :func:`argument`).
    """

    kind: Literal["kernel", "function"]
    function: str
    arrays: tuple[tuple[str, int, int], ...] = ()
    params: Mapping[str, Number | str | bool] = field(default_factory=dict)
    mask: Mapping[str, Any] | None = None
    args: tuple[int | None, ...] | None = None
    calls: tuple[tuple[Any, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.args is None:
            object.__setattr__(self, "args", tuple(range(len(self.arrays))))

    def to_json(self) -> bytes:
        """The job as the child reads it."""
        return json.dumps(asdict(self)).encode()


def kernel_job(
    function: str, arrays: Mapping[str, tuple[int, int]], params: Mapping[str, Number | str | bool], mask: Mapping[str, Any] | None = None
) -> Job:
    """A listing that gets ``arrays`` in this order, ``params`` by keyword and, where there are tables, ``mask``."""
    return Job("kernel", function, tuple((name, *shape) for name, shape in arrays.items()), params, mask)


def function_job(function: str, calls: Sequence[Sequence[Array | Number]]) -> Job:
    """A function that is called with each of ``calls``."""
    return Job("function", function, calls=tuple(tuple(map(argument, call)) for call in calls))


def argument(given: Array | Number) -> Any:
    """An argument as JSON holds it: a number as it is, an array of a plain dtype as dtype, shape and its bytes in hexadecimal."""
    if not isinstance(given, np.ndarray):
        return given
    if given.dtype.hasobject or given.dtype.names is not None:
        raise BadInput(f"an argument of dtype {given.dtype} cannot be sent to a child; use plain numbers")
    plain = given.astype(given.dtype.newbyteorder("<"))
    return {"dtype": given.dtype.name, "shape": list(given.shape), "data": plain.tobytes().hex()}


def tables_of(mask: Mask, arrays: Sequence[Hbm] = ()) -> dict[str, Any]:
    """What the stand-in knows of ``mask``: for every tile the runs (first, stop, code) of what it meets, and whether there are rules.

    ``arrays``: those of the job, among which the mask's elements lie.
    """
    tiles = mask.grid
    place = next((at for at, array in enumerate(arrays) if array is mask.elements), None)
    if mask.elements is not None and place is None:
        raise BadInput(f"the mask reads {mask.elements!r}, which is not among the arrays of the job")
    return {
        "rows": tiles.rows, "cols": tiles.cols, "by_row": _rows(tiles.by_row), "by_col": _rows(tiles.by_col),
        "unseen": _rows(complement(tiles.by_row, len(tiles.by_col.pointer) - 1)), "columns": list(tiles.columns()),
        "visited_columns": list(tiles.columns(skip_empty=True)), "unvisited_rows": list(tiles.unvisited_rows()),
        "rule": mask.rule is not None, "kept": mask.kept is not None, "kept_scale": mask.kept_scale, "elements": place,
    }  # fmt: skip


def _rows(table: Table) -> list[Row]:
    return [list(table.of(range(tile, tile + 1))) for tile in range(len(table.pointer) - 1)]
