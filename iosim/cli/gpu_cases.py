"""From the options of ``iosim gpu`` to the cases that are measured, and the model's own count of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click
from click.core import ParameterSource

from iosim.attention.catalogue import KERNELS as LISTINGS
from iosim.attention.plan import make_plan
from iosim.cli.gpu_options import SHAPING, GpuGiven
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim.core.options import Value
from iosim.core.problem import Blocks
from iosim.core.units import Capacity
from iosim_gpu import defaults
from iosim_gpu.case import KERNELS, Case
from iosim_gpu.fitting import STATIC_LIMIT, largest_fitting
from iosim_gpu.steps import Step
from iosim_gpu.tiling import Tiling

AMPLE = Capacity(2**50, "words")  # a CUDA kernel's room is checked by those who launch it

MASK_ARRAYS = ("indptr", "indices")


def cases_of(given: GpuGiven) -> list[Case]:
    """The default cases of the kernels asked for or, where an option shapes one, that case for each kernel and variant.

    What shapes none, a causal rule and a seed, is applied to every default case.
    """
    kernels = given.get("own_kernels") or KERNELS
    context = click.get_current_context()
    if all(context.get_parameter_source(name) in (None, ParameterSource.DEFAULT) for name in SHAPING):
        return [replace(case, causal=case.causal or given["causal"], seed=given["seed"]) for case in defaults.cases(kernels)]
    return [case for kernel in kernels for case in one_of(kernel, given, refuse=given.get("own_kernels") is not None)]


def one_of(kernel: str, given: GpuGiven, *, refuse: bool) -> list[Case]:
    """The case that the options describe, of ``kernel`` and once a variant; ``refuse`` options that it does not have."""
    sparse, backward = kernel == "block-sparse", kernel.endswith("-backward")
    spec, dq_pass = given.get("block_mask"), given.get("dq_pass")
    if refuse and ((spec and not sparse) or (dq_pass and not backward)):
        raise BadInput(f"{kernel} has no {'--block-mask' if spec and not sparse else '--dq-pass'} in CUDA")
    tiles = given.get("tiles") or Blocks(defaults.SMALL["rows"], defaults.SMALL["cols"])
    n = given.get("own_n") or defaults.SHAPES[0]["n"]
    nk = given.get("nk") or n
    mask = patterns.parse(spec or "butterfly", n, nk, tiles.rows, tiles.cols) if sparse else None
    variants = [variant for variant in defaults.variants(kernel) if not backward or dq_pass in (None, variant)]
    return [
        Case(
            kernel, n, given.get("own_d") or defaults.SMALL["d"], tiles.rows, tiles.cols, given.get("threads") or defaults.SMALL["threads"],
            nk=nk, batch=given["batch"], heads=given["heads"], causal=given["causal"], mask=mask, dq_pass=variant, seed=given["seed"],
        )
        for variant in variants
    ]  # fmt: skip


def model_differs(case: Case) -> str | None:
    """Where the machine's count of the listing differs from what is predicted for its CUDA kernel, in one line; None where they agree.

    The mask's own arrays are the CUDA kernel's alone: the listing knows its tiles without reading them.
    """
    own: dict[str, Value | None] = {"softmax": case.options.softmax, "dq_pass": case.dq_pass}
    given = {name: value for name, value in own.items() if name in LISTINGS[case.kernel].has}
    counts = make_plan(case.kernel, case.problem, AMPLE, case.blocks, "record", given).count()
    counted = {name: (array.reads * case.instances, array.writes * case.instances) for name, array in counts.arrays.items()}
    predicted = {name: (words.reads, words.writes) for name, words in case.predicted().items() if name not in MASK_ARRAYS}
    for name in dict.fromkeys([*counted, *predicted]):
        ours, theirs = counted.get(name, (0, 0)), predicted.get(name, (0, 0))
        if ours != theirs:
            return f"{case.kernel} {case.name}: (reads, writes) of {name} are {ours} in iosim's count of the listing, {theirs} predicted"
    return None


def check_room(step: Step, tiling: Tiling) -> None:
    """Raise :class:`BadInput`, with tiles that would fit, where a block of threads has no room for these in its static shared memory."""
    asked = step.shared_bytes(tiling)
    if asked > STATIC_LIMIT:
        found = largest_fitting(step, tiling)
        fits = f"not even 1x1 tiles fit at d = {tiling.d}" if found is None else f"{found.rows}x{found.cols} would fit"
        raise BadInput(f"{step.name} {tiling} needs {asked:,} bytes of shared memory a block; at most {STATIC_LIMIT:,} may be had: {fits}")


def unsound(failures: Sequence[str], given: GpuGiven) -> str | None:
    """The first failure, and where the others are to be found; None where there is none."""
    if not failures:
        return None
    place = "under failures in the JSON" if given["json"] else "under failures in --json"
    above = "" if given["json"] or given["csv"] else "in the tables above, and "
    others = f" (and {len(failures) - 1} more: {above}{place})" if len(failures) > 1 else ""
    return f"{failures[0]}{others}"
