"""Curves: kernels counted over a range of N or of M, in this process or on any executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from iosim.attention.catalogue import FORWARD, Named, kernel
from iosim.attention.compare import check_some_have, options_of
from iosim.attention.declaration import Kernel
from iosim.attention.plan import BlockChoice, Given, Overflow, make_plan
from iosim.attention.run import report
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.progress import bar
from iosim.core.units import Capacity, capacity

if TYPE_CHECKING:
    from concurrent.futures import Executor

Record = dict[str, object]
Point = tuple[Named, Attention, Capacity, BlockChoice, Overflow | None, Given]


def sweep(
    problem: Attention,
    kernels: Sequence[Named] = FORWARD,
    *,
    n: Sequence[int] | None = None,
    sram: Sequence[Capacity | int | str] | Capacity | int | str = "100KiB",
    blocks: BlockChoice = "fit",
    overflow: Overflow | None = None,
    executor: Executor | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Value | None,
) -> list[Record]:
    """One record for every kernel and every point of ``n`` and ``sram``, counted (not executed), kernels innermost.

    ``n``: sequence lengths; where the problem has nk = n, nk follows. ``sram``: one capacity or several. ``overflow``: as for
    :func:`iosim.simulate`. ``executor``: any ``concurrent.futures.Executor``; None counts here. A record is that of
    :meth:`Report.record`; where a kernel does not fit, its numbers are None and ``error`` says why. ``progress`` is called with
    (done, of) after each point; None shows a bar where this takes long in a notebook. Raises :class:`BadInput` for unknown kernels or
    options, and for element or block masks, which have one size, swept over ``n``.

    >>> [record["total"] for record in sweep(Attention(n=1024, d=64), ["flash2"], sram=[12288, 24576])]
    [3539968, 1836032]
    """
    check_some_have(kernels, options)
    sizes = list(sram) if isinstance(sram, Sequence) and not isinstance(sram, str) else [sram]
    lengths = [problem.n] if n is None else list(n) if isinstance(n, Sequence) else [n]
    points: list[Point] = [
        (name, resized(problem, length), capacity(size), blocks, overflow, options_of(name, options))
        for length in lengths
        for size in sizes
        for name in kernels
    ]
    run = map(count_point, points) if executor is None else executor.map(count_point, points)
    told = bar("counting") if progress is None else progress
    records = []
    for done, record in enumerate(run, 1):
        records.append(record)
        told(done, len(points))
    return records


def least(records: Sequence[Record]) -> int | None:
    """The lower bound at one point of a sweep, whose ``records`` these are; None where no kernel fits.

    It is that of the kernels that compute every pair and keep to M: one that skips pairs, or records its overflow, has a smaller bound of
    its own. Of a forward and a backward pass it is the smaller one.

    >>> least(sweep(Attention(n=1024, d=64), ["flash2", "block-sparse"], sram=24576))
    649872
    """
    known: dict[object, int] = {}
    for record in records:
        bound = record["lower_bound"]
        if isinstance(bound, int):
            known[record["pass"]] = max(bound, known.get(record["pass"], 0))
    return min(known.values(), default=None)


def least_of(kernels: Sequence[Named]) -> str:
    """What :func:`least` is called for these ``kernels``: beside others, one that brings a mask may lie below it."""
    brought = [kernel(name).brings is not None for name in kernels]
    return "lower bound for all pairs" if any(brought) and len(brought) > 1 else "lower bound"


def resized(problem: Attention, n: int) -> Attention:
    """``problem`` with another sequence length; nk follows where it was equal."""
    if n == problem.n:
        return problem
    if problem.mask is not None or problem.block_mask is not None:
        raise BadInput(f"a mask of {problem.n} x {problem.nk} pairs cannot be swept over n; sweep over sram, or use causal or window")
    return replace(problem, n=n, nk=n if problem.nk == problem.n else problem.nk)


def count_point(point: Point) -> Record:
    """Count one point; picklable, so that any executor can run it."""
    name, problem, size, blocks, overflow, options = point
    own = kernel(name)
    try:
        made = report(make_plan(own, problem, size, blocks, overflow, options), execute=False, replay=False)
    except (SramOverflow, BadInput) as error:
        return _unfit(own, problem, size, str(error))
    return {**made.record(), "error": None}


def _unfit(own: Kernel, problem: Attention, size: Capacity, why: str) -> Record:
    p = problem
    known = {field: getattr(p, field) for field in ("n", "nk", "d", "dv", "batch", "heads", "kv_heads", "dtype", "dropout")}
    asked: Record = {"kernel": own.name, **known, "pass": own.pass_, "sram": size.amount, "sram_unit": size.unit}
    missing = (
        "block_rows", "block_cols", "reads", "writes", "total", "read_bytes", "write_bytes", "total_bytes", "arrays", "flops",
        "peak_sram", "peak_hbm", "overflow", "max_error", "error_bound", "errors", "error_bounds", "max_lse_error", "lse_error_bound",
        "predicted_reads", "predicted_writes", "predicted_peak_sram", "compulsory", "lower_bound", "lower_bound_name", "agreed", "notes",
    )  # fmt: skip
    return {**asked, **dict.fromkeys(missing), "error": why}
