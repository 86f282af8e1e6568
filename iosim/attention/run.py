"""Run a kernel on a problem, and hold every number against the other roads to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iosim import predict
from iosim.attention.catalogue import Named, ours
from iosim.attention.inputs import heads_of, random_inputs
from iosim.attention.plan import BlockChoice, Overflow, Plan, make_plan
from iosim.attention.report import Report
from iosim.core.counts import Counts
from iosim.core.errors import BadInput, MissingExtra
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.units import Capacity

if TYPE_CHECKING:
    from iosim.core.hardware import Device
    from iosim.predict.bounds import Bound

Array = NDArray[np.generic]
EXECUTE_UP_TO = 16384
REPLAY_UP_TO = 20_000


def simulate(
    name: Named,
    problem: Attention,
    *,
    sram: Capacity | int | str = "100KiB",
    blocks: BlockChoice = "fit",
    overflow: Overflow | None = None,
    execute: bool | None = None,
    inputs: Sequence[ArrayLike] | None = None,
    seed: int = 0,
    replay: bool | None = None,
    check: int = 0,
    registers: int | None = None,
    **options: Value | None,
) -> Report:
    """Run one kernel on one problem and return its :class:`Report`.

    ``sram``: words, or a size such as "100KiB". ``blocks``: "fit" (the largest of the paper's shape that really fit), "paper", "best"
    (fewest words, ragged tiles allowed) or ``(Br, Bc)``. ``execute``: compute real numbers and compare them with the float64 oracle; None
    does so up to n = nk = 16384. ``inputs``: ``(q, k, v)``, and ``do`` for a backward kernel, of layout (N, d) or (B, H, N, d), all heads
    of which are executed; None draws one head at random from ``seed``. ``replay``: recount the run's event trace independently; None does
    so up to 20,000 tiles. ``check``: count that many other tiles of each kind too, and compare. ``registers`` caps the unnamed words that
    live at once. ``options``: the fields of :class:`Options` that the kernel has, as keywords: ``first_pass="create"``.

    ``name``: a kernel, or a listing of your own: a function, or "FILE.py:FUNCTION".

    Raises :class:`BadInput`, and :class:`SramOverflow` where a value finds no room.

    >>> report = simulate("flash2", Attention(n=1024, d=64), sram=49152, blocks=(64, 64))
    >>> report.arrays["K"].reads, report.total, report.sound
    (1048576, 2229248, True)
    """
    plan = make_plan(name, problem, sram, blocks, overflow, options)
    return report(plan, execute=execute, inputs=inputs, seed=seed, replay=replay, check=check, registers=registers)


def report(
    plan: Plan,
    *,
    execute: bool | None = None,
    inputs: Sequence[ArrayLike] | None = None,
    seed: int = 0,
    replay: bool | None = None,
    check: int = 0,
    registers: int | None = None,
    device: Device | None = None,
) -> Report:
    """Count the plan, execute and replay it as asked (see :func:`simulate`), and set the results side by side."""
    backward = plan.kernel.forward is not None
    heads = None if inputs is None else heads_of(plan.problem, inputs, gradient=backward)
    counts = plan.count(check=check, registers=registers)
    run = None
    small = heads is not None or max(plan.problem.n, plan.problem.nk) <= EXECUTE_UP_TO
    if small if execute is None else execute:
        from iosim.attention import judge

        run = judge.execute(plan, heads or [random_inputs(plan.problem, seed, gradient=backward)], registers=registers)
    predicted, road = closed_form(plan)
    agreed = {} if run is None else {"executed": run.counts == counts}
    if predicted:
        agreed[road] = _words(counts) == {name: (m.reads, m.writes, m.init_writes) for name, m in predicted.items()}
        agreed[road] &= plan.formula is None or counts.peak_sram == plan.predicted_peak()
    if _small(plan) if replay is None else replay:
        from iosim.attention import judge

        agreed["replayed"] = judge.replayed_equal(plan, counts)
    notes = [] if run or execute is False else [f"counted, not executed: n or nk is above {EXECUTE_UP_TO}"]
    if not predicted:
        notes.append(road)
    if not ours(plan.kernel):
        from iosim.attention.loads_again import loads_again

        notes += loads_again(plan)
    if run and replay is None and "replayed" not in agreed:
        notes.append(f"not replayed: there are more than {REPLAY_UP_TO:,} tiles or rows")
    return Report(
        plan=plan,
        counts=counts,
        predicted=predicted,
        floors=floors(plan, counts.peak_sram),
        agreed=agreed,
        notes=(*plan.notes, *notes),
        values={} if run is None else {name: in_layout_of(inputs, plan, name, [one[name] for one in run.found]) for name in run.found[0]},
        errors={} if run is None else run.errors(),
        bounds={} if run is None else run.bounds(),
        device=device,
    )


def closed_form(plan: Plan) -> tuple[dict[str, predict.Moved], str]:
    """The words of each array in closed form, and the road to them: predicted by hand, or derived by running the listing with symbols.

    Where there is neither, no words, and why.
    """
    if plan.formula is not None:
        return predict.predict(plan.formula, plan.problem, plan.blocks, plan.options), "predicted"
    if plan.problem.masked or plan.problem.group > 1:
        return {}, "no closed form: one is derived for problems without a mask and without shared KV heads alone"
    try:
        from iosim.attention.symbolic import derived
    except MissingExtra as error:
        return {}, f"no closed form: {error}"
    try:
        return derived(plan), "derived"
    except BadInput as error:
        return {}, f"no closed form could be derived: {error}"


def floors(plan: Plan, peak: int) -> tuple[Bound, ...]:
    """The lower bounds on one KV head and its group, compulsory first, in an SRAM of M, or of ``peak`` where that is more.

    An SRAM of so many bytes holds at most as many words as fit of the narrowest type that the bounds are about, that of the inputs.
    """
    from iosim.predict.bounds import backward_bounds, bounds  # what nothing needs before there is a run

    used = Capacity(max(plan.sram.amount, peak), plan.sram.unit).words(plan.problem.itemsize)
    if plan.kernel.computes is None:
        return ()
    known = bounds if plan.kernel.forward is None else backward_bounds
    return known(plan.problem, max(used, 1))


def in_layout_of(inputs: Sequence[ArrayLike] | None, plan: Plan, name: str, heads: list[NDArray[np.generic]]) -> NDArray[np.generic]:
    """One array for all heads: (B, H, ...) where the inputs have four dimensions, else that of the first KV head and its group."""
    if inputs is None or np.ndim(inputs[0]) == 2:
        return heads[0]
    summed = any(array.name == name and array.per_kv_head for array in plan.kernel.arrays)
    inner = heads[0].shape[1:] if plan.problem.group > 1 and not summed else heads[0].shape
    return np.stack(heads).reshape(plan.problem.batch, -1, *inner)


def _small(plan: Plan) -> bool:
    rows = plan.problem.n * plan.problem.group  # one machine runs a whole group
    return max(plan.tiles, rows if plan.options.softmax == "rows" else 0) <= REPLAY_UP_TO


def _words(counts: Counts) -> dict[str, tuple[int, int, int]]:
    return {name: (array.reads, array.writes, array.init_writes) for name, array in counts.arrays.items()}
