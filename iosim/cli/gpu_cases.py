"""From the options of ``iosim gpu`` to the cases that are measured, and what the model counts for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click
from click.core import ParameterSource

from iosim.attention.plan import make_plan
from iosim.cli.gpu_options import SHAPING, GpuGiven
from iosim.core.errors import BadInput
from iosim.core.masks import patterns
from iosim.core.problem import Blocks
from iosim.core.units import Capacity
from iosim_gpu import defaults
from iosim_gpu.case import Case
from iosim_gpu.catalogue import KERNELS, OPTIONS, kernel
from iosim_gpu.checks import LISTS, would_fit
from iosim_gpu.declaration import Step
from iosim_gpu.fitting import STATIC_LIMIT
from iosim_gpu.tiling import Tiling

AMPLE = Capacity(2**50, "words")  # a CUDA kernel's room is checked by those who launch it


def cases_of(given: GpuGiven) -> list[Case]:
    """The default cases of the kernels that are asked for; where options describe a case, that case for each kernel and variant.

    The causal rule and the seed apply to the default cases too.
    """
    names = given.get("own_kernels") or tuple(KERNELS)
    context = click.get_current_context()
    if all(context.get_parameter_source(name) in (None, ParameterSource.DEFAULT) for name in SHAPING):
        return [replace(case, causal=case.causal or given["causal"], seed=given["seed"]) for case in defaults.cases(names)]
    for name in given.get("own_kernels") or ():
        refuse(name, given)
    return [case for name in names for case in cases_like(name, given)]


def refuse(name: str, given: GpuGiven) -> None:
    """Raise :class:`BadInput` for an option that a kernel does not have."""
    for option in (*options_of(given), *["block_mask"] * bool(given.get("block_mask"))):
        has = kernel(name).masked if option == "block_mask" else OPTIONS[option] in kernel(name).options
        if not has:
            raise BadInput(f"{name} has no --{option.replace('_', '-')} in CUDA")


def options_of(given: GpuGiven) -> dict[str, str]:
    """The options of kernels that are given."""
    return {option: str(value) for option, value in given.items() if option in OPTIONS and value is not None}


def cases_like(name: str, given: GpuGiven) -> list[Case]:
    """The case that the options describe, for each variant of one kernel that is asked for."""
    tiles = given.get("tiles") or Blocks(defaults.SMALL["rows"], defaults.SMALL["cols"])
    n = given.get("own_n") or defaults.SHAPES[0]["n"]
    nk = given.get("nk") or n
    spec = given.get("block_mask") or "butterfly"
    mask = patterns.parse(spec, n, nk, tiles.rows, tiles.cols) if kernel(name).masked else None
    return [
        Case(
            name, n, given.get("own_d") or defaults.SMALL["d"], tiles.rows, tiles.cols, given.get("threads") or defaults.SMALL["threads"],
            nk=nk, batch=given["batch"], heads=given["heads"], causal=given["causal"], mask=mask, options=variant, seed=given["seed"],
        )
        for variant in kernel(name).asked(options_of(given))
    ]  # fmt: skip


def model_differs(case: Case) -> str | None:
    """Where the count of the listing differs from the prediction for its CUDA kernel, in one line; None where they agree.

    The lists of a block mask are left out: a listing knows its tiles without reading them.
    """
    counts = make_plan(case.kernel, case.problem, AMPLE, case.blocks, "record", case.variant).count()
    counted = {name: (array.reads * case.instances, array.writes * case.instances) for name, array in counts.arrays.items()}
    predicted = {name: (words.reads, words.writes) for name, words in case.predicted().items() if name not in LISTS}
    for name in dict.fromkeys([*counted, *predicted]):
        ours, theirs = counted.get(name, (0, 0)), predicted.get(name, (0, 0))
        if ours != theirs:
            return f"{case.kernel} {case.name}: (reads, writes) of {name} are {ours} in iosim's count of the listing, {theirs} predicted"
    return None


def check_room(step: Step, tiling: Tiling) -> None:
    """Raise :class:`BadInput`, with tiles that would fit, where a thread block has no room for these in static shared memory."""
    asked = step.shared_bytes(tiling)
    if asked > STATIC_LIMIT:
        fits = would_fit(step, tiling)
        raise BadInput(f"{step.name} {tiling} needs {asked:,} bytes of shared memory a block; at most {STATIC_LIMIT:,} may be had: {fits}")


def unsound(failures: Sequence[str], given: GpuGiven) -> str | None:
    """The first failure, and where the others are shown; None without failures."""
    if not failures:
        return None
    place = "under failures in the JSON" if given["json"] else "under failures in --json"
    above = "" if given["json"] or given["csv"] else "in the tables above, and "
    others = f" (and {len(failures) - 1} more: {above}{place})" if len(failures) > 1 else ""
    return f"{failures[0]}{others}"
