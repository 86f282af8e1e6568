"""Options that are open: what a kernel takes where they are not given, and which of them contradict one another."""

from __future__ import annotations

from collections.abc import Callable

from iosim.core import dtypes
from iosim.core.errors import BadInput
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.units import Capacity

Settle = Callable[[Attention, Capacity, dict[str, Value]], tuple[str, ...]]
STREAMED = "a row of S does not fit in this SRAM, so the softmax is streamed and reads S twice"


def softmax_that_fits(rows: int) -> Settle:
    """The softmax of whole rows, where ``rows`` of them fit at once; else the streamed one."""

    def settle(problem: Attention, size: Capacity, given: dict[str, Value]) -> tuple[str, ...]:
        if "softmax" in given:
            return ()
        row = problem.nk * (dtypes.itemsize(dtypes.intermediate(problem.dtype)) if size.unit == "bytes" else 1)
        fits = rows * row <= size.amount or given.get("reuse") == "ideal"
        given["softmax"] = "rows" if fits else "streamed"
        return () if fits else (STREAMED,)

    return settle


def accumulator_made_on_chip(_: Attention, __: Capacity, given: dict[str, Value]) -> tuple[str, ...]:
    """A float32 accumulator is made on chip at the first visit, as in released code; nobody fills it in HBM."""
    if given.get("accumulator") == "float32" and given.setdefault("first_pass", "create") == "load":
        raise BadInput("a float32 accumulator is made on chip in the first pass; leave out first_pass load, or accumulator float32")
    return ()


def accumulator_of_a_shared_pass(_: Attention, __: Capacity, given: dict[str, Value]) -> tuple[str, ...]:
    """A pass of its own for dQ accumulates nothing in HBM."""
    if given.get("accumulator") == "float32" and given.get("dq_pass") == "own":
        raise BadInput("a dq_pass of its own accumulates nothing in HBM; leave out accumulator float32")
    return ()
