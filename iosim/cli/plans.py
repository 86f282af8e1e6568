"""From the options of a command to the problem and the plan that the library runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from iosim.attention.declaration import Kernel
from iosim.attention.passes import kernels_of
from iosim.attention.plan import BlockChoice, Plan, make_plan
from iosim.attention.report import Report
from iosim.attention.run import report
from iosim.cli.options import OWN, Given
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim.core.masks.npy import load_elements
from iosim.core.options import Value
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity

Variants = dict[str, Value]

MOST_TILES = 1_000_000  # about a minute of NumPy
MOST_BYTES = 4 * 2**30


def problem_of(given: Given, n: int | None = None) -> Attention:
    """The problem, but for a block mask, which needs blocks; ``n`` stands in for a length that is swept."""
    rows = given["n"] if n is None else n
    keys = given.get("nk") or rows
    path = given.get("mask")
    return Attention(
        rows, given["d"], nk=keys, dv=given.get("dv"), batch=given["batch"], heads=given["heads"], kv_heads=given.get("kv_heads"),
        dtype=given["dtype"], scale=given.get("scale"), causal=given["causal"], window=given.get("window"),
        mask=None if path is None else load_elements(path, rows, keys),
        dropout=given.get("dropout", 0.0), dropout_seed=given.get("seed", 0),
    )  # fmt: skip


def plan_of(kernel: Kernel, given: Given, problem: Attention, *, sram: Capacity | None = None, blocks: BlockChoice | None = None) -> Plan:
    """The plan of one kernel in ``given`` SRAM and blocks, unless others are named; variants that it does not have are left out.

    Where a block mask is asked for that the problem does not have yet, the blocks are chosen first and the mask is made for them.
    """
    size, choice, overflow = sram or given["sram"], blocks or given["blocks"], given.get("overflow")
    variants = own_variants(given, kernel)
    plan = make_plan(kernel, problem, size, choice, overflow, variants)
    if given.get("block_mask") is None or problem.block_mask is not None:
        return plan
    return make_plan(kernel, masked(problem, given, plan.blocks), size, choice, overflow, variants)


def masked(problem: Attention, given: Given, blocks: Blocks) -> Attention:
    """The problem with the block mask that is asked for, if one is, made for ``blocks``."""
    spec = given.get("block_mask")
    return problem if spec is None else replace(problem, block_mask=patterns.parse(spec, problem.n, problem.nk, blocks.rows, blocks.cols))


def own_variants(given: Given, kernel: Kernel) -> Variants:
    """Those of the variants asked for that ``kernel`` has."""
    return {name: value for name, value in given["variants"].items() if name in kernel.has}


def check_variants(given: Given, kernels: Sequence[Kernel]) -> None:
    """Raise :class:`BadInput` for a variant that none of the kernels has."""
    known = {option.name: option.flag for kernel in kernels for option in kernel.options}
    for name in given["variants"]:
        if name not in known:
            names, flag = [kernel.name for kernel in kernels], OWN[name].flag
            who = f"{names[0]} has no" if len(names) == 1 else f"none of {', '.join(names)} has the"
            raise BadInput(f"{who} option {flag}; known here: {', '.join(known.values()) or 'none'}")


def plans_of(kernel: Kernel, given: Given) -> list[Plan]:
    """The plans of the passes of a kernel that are asked for, forward before backward.

    Where both passes need a block mask, given or brought by the kernel, it is made for the blocks of the backward one: it needs more room.
    """
    names, problem = kernels_of(kernel, given["pass_"]), problem_of(given)
    check_variants(given, names)
    if names == (kernel,) or (given.get("block_mask") is None and kernel.brings is None):
        return [plan_of(name, given, problem) for name in names]
    last = plan_of(names[-1], given, problem)
    shared = last.problem
    if shared.block_mask is None and kernel.brings is not None:
        shared = replace(shared, block_mask=kernel.brings(shared, last.blocks))
    return [plan_of(name, given, shared, blocks=last.blocks) for name in names]


def report_of(plan: Plan, given: Given) -> Report:
    """Count the plan and, unless that is too much or not wanted, execute and replay it."""
    counted_only, device = given["no_execute"], given.get("device")
    reason = too_much(plan)
    if reason is None:
        with np.errstate(all="ignore"):  # the oracle says what came of huge scales, and warnings would say it again
            return report(plan, execute=False if counted_only else None, seed=given["seed"], device=device)
    notes = () if counted_only else (f"counted, not executed: {reason}",)
    return report(replace(plan, notes=plan.notes + notes), execute=False, replay=False, device=device)


def too_much(plan: Plan) -> str | None:
    """Why the plan had better not be run tile by tile; None where it may be."""
    if plan.tiles > MOST_TILES:
        return f"{plan.tiles:,} tiles are more than {MOST_TILES:,}"
    counts = plan.count()
    held = counts.peak_hbm_bytes + counts.peak_hbm  # and one flag a word says whether it was written
    return f"its arrays take {held / 2**30:.1f} GiB, more than {MOST_BYTES >> 30} GiB" if held > MOST_BYTES else None
