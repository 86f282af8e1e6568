"""From the options of a command to the problem and the plan that the library runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from iosim.cli.options import Given
from iosim.errors import BadInput
from iosim.kernels.registry import KERNELS
from iosim.masks import patterns
from iosim.masks.npy import load_elements
from iosim.plan import BlockChoice, Plan, make_plan
from iosim.report import Report
from iosim.run import report
from iosim.specs import Attention, Blocks
from iosim.units import Capacity

Variants = dict[str, str | bool | None]

MOST_TILES = 1_000_000  # about a minute of NumPy
MOST_BYTES = 4 * 2**30


def problem_of(given: Given, n: int | None = None) -> Attention:
    """The problem, but for a block mask, which needs blocks; ``n`` stands in for a length that is swept."""
    rows = given["n"] if n is None else n
    keys = given.get("nk") or rows
    path = given.get("mask")
    return Attention(
        rows,
        given["d"],
        nk=keys,
        dv=given.get("dv"),
        batch=given["batch"],
        heads=given["heads"],
        dtype=given["dtype"],
        scale=given.get("scale"),
        causal=given["causal"],
        window=given.get("window"),
        mask=None if path is None else load_elements(path, rows, keys),
    )


def plan_of(kernel: str, given: Given, problem: Attention, *, sram: Capacity | None = None, blocks: BlockChoice | None = None) -> Plan:
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


def variants_of(given: Given) -> Variants:
    """The variants asked for, by the library's names."""
    asked: Variants = {
        "first_pass": given.get("first_pass"),
        "reuse": given.get("reuse"),
        "softmax": given.get("softmax"),
        "skip_empty": given.get("skip_empty") or None,
        "skip": False if given.get("no_skip") else None,
    }
    return {name: value for name, value in asked.items() if value is not None}


def own_variants(given: Given, kernel: str) -> Variants:
    """Those of the variants asked for that ``kernel`` has."""
    return {name: value for name, value in variants_of(given).items() if name in _known(kernel)}


def check_variants(given: Given, kernels: Sequence[str]) -> None:
    """Raise :class:`BadInput` for a variant that none of the kernels has."""
    known = dict.fromkeys(name for kernel in kernels for name in _known(kernel))
    for name in variants_of(given):
        if name not in known:
            who = kernels[0] if len(kernels) == 1 else f"none of {', '.join(kernels)}"
            raise BadInput(
                f"{who} {'has no' if len(kernels) == 1 else 'has the'} option {_flag(name)}; known here: {', '.join(map(_flag, known))}"
            )


@dataclass(frozen=True, repr=False)
class OnDevice(Report):
    """The report of a run in the shared memory of a device; its record names the device."""

    device: str = ""

    def __post_init__(self) -> None:
        """Leave the numbers alone: those of the report that this one repeats are of all heads already."""

    def record(self) -> dict[str, object]:
        """The numbers, and the device."""
        return {**super().record(), "device": self.device}


def report_of(plan: Plan, given: Given) -> Report:
    """Count the plan and, unless that is too much or not wanted, execute and replay it; the report names the device, if there is one."""
    made, device = _report(plan, given), given.get("device")
    if device is None:
        return made
    return OnDevice(**{part.name: getattr(made, part.name) for part in fields(made)}, device=device.key)


def _report(plan: Plan, given: Given) -> Report:
    counted_only = given["no_execute"]
    reason = too_much(plan)
    if reason is None:
        with np.errstate(all="ignore"):  # the oracle says what came of huge scales, and warnings would say it again
            return report(plan, execute=False if counted_only else None, seed=given["seed"])
    notes = () if counted_only else (f"counted, not executed: {reason}",)
    return report(replace(plan, notes=plan.notes + notes), execute=False, replay=False)


def too_much(plan: Plan) -> str | None:
    """Why the plan had better not be run tile by tile; None where it may be."""
    tiles = -(-plan.problem.n // plan.blocks.rows) * -(-plan.problem.nk // plan.blocks.cols)
    if tiles > MOST_TILES:
        return f"{tiles:,} tiles are more than {MOST_TILES:,}"
    counts = plan.count()
    held = counts.peak_hbm_bytes + counts.peak_hbm  # and one flag a word says whether it was written
    return f"its arrays take {held / 2**30:.1f} GiB, more than {MOST_BYTES >> 30} GiB" if held > MOST_BYTES else None


def _known(kernel: str) -> tuple[str, ...]:
    return (*KERNELS[kernel].options, "skip")


def _flag(name: str) -> str:
    return "--no-skip" if name == "skip" else f"--{name.replace('_', '-')}"
