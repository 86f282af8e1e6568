"""HBM accesses over N and over M, for several kernels."""

from __future__ import annotations

from typing import Unpack

import click

from iosim.attention.catalogue import KERNELS
from iosim.attention.declaration import Kernel
from iosim.attention.sweep import Point, count_point
from iosim.cli.drawing import curves
from iosim.cli.options import VARIANTS, Command, Given, takes
from iosim.cli.output import Answer, deliver, width
from iosim.cli.pages.curve_points import Axis, Curve
from iosim.cli.pages.curve_text import shown
from iosim.cli.plans import check_variants, masked, own_variants, plan_of, problem_of
from iosim.cli.progress import steps
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.core.units import Capacity

LENGTHS = tuple(2**power for power in range(8, 17))
LENGTH = 4096
SIZES = tuple(Capacity(2**power * step // 2) for power in range(12, 19) for step in (2, 3))[:-1]
SIZE = Capacity(100 * 2**10, "bytes")


@click.command("curve", cls=Command)
@takes("over", "lengths", "sizes", "nk", "d", "dv", "batch", "heads", "dtype", "causal", "window", "mask", "block_mask")
@takes("kernels", "blocks", "overflow", *VARIANTS, "json", "csv", "plot")
def command(**given: Unpack[Given]) -> None:
    """Count HBM accesses over N and over M, for several kernels.

    Without options: N = 256 to 65536 in an SRAM of 100 KiB, and M = 4096 to 262144 words at N = 4096. Every number is counted by
    running the listing on the machine, and compared with its closed form; exits with 1 if one differs. --block-mask is the pattern of
    block-sparse alone.

    \b
    iosim curve --n 1024..16384 --causal
    iosim curve --sram 16KiB..1MiB --n 8192 --plot curve.svg
    """
    check(given)
    made = [counted(axis, given) for axis in axes(given)]
    for curve in made:
        if all(record["total"] is None for record in curve.records):
            raise BadInput("; ".join(dict.fromkeys(str(record["error"]) for record in curve.rows[-1])))
    records = [{"over": curve.axis, **record} for curve in made for record in curve.records]
    wrong = sum(curve.differing for curve in made)
    failed = f"{wrong} of {len(records)} counts differ from their closed forms" if wrong else None
    text = "\n\n\n".join(shown(curve, width()) for curve in made)
    deliver(given, Answer(text, records, records, lambda: curves(made), failed))


def check(given: Given) -> None:
    """Raise :class:`BadInput` for options that do not go together."""
    check_variants(given, given["kernels"])
    if given["block_mask"] is not None and not any(kernel.brings for kernel in given["kernels"]):
        brings = " or ".join(name for name, kernel in KERNELS.items() if kernel.brings)
        raise BadInput(f"curve --block-mask is the pattern of {brings}, which is not among --kernels; add it")
    if given["mask"] is not None and "n" in axes(given):
        raise BadInput("curve --mask has one size and cannot be swept over N; ask for --over sram, and for its N with --n")
    fixed = {"n": ("--sram", given["sizes"]), "sram": ("--n", given["lengths"])}
    option, values = fixed.get(given["over"] or "", ("", None))
    if values is not None and len(values) > 1:
        raise BadInput(f"curve --over {given['over']} needs one {option}, not {len(values)} of them; leave --over out for both curves")


def axes(given: Given) -> list[Axis]:
    """The axis that is asked for, or those for which there is a range, or both."""
    ranges: dict[Axis, bool] = {"n": len(given["lengths"] or ()) > 1, "sram": len(given["sizes"] or ()) > 1}
    asked = [axis for axis in ranges if axis == given["over"]]
    return asked or [axis for axis, many in ranges.items() if many] or list(ranges)


def points(axis: Axis, given: Given) -> list[tuple[int, Capacity]]:
    """N and M of every point."""
    lengths, sizes = given["lengths"] or (), given["sizes"] or ()
    if axis == "n":
        swept = lengths if len(lengths) > 1 or given["over"] else ()
        return [(length, sizes[0] if len(sizes) == 1 else SIZE) for length in swept or LENGTHS]
    swept_sizes = sizes if len(sizes) > 1 or given["over"] else ()
    return [(lengths[0] if len(lengths) == 1 else LENGTH, size) for size in swept_sizes or SIZES]


def counted(axis: Axis, given: Given) -> Curve:
    """Count every kernel at every point."""
    places = points(axis, given)
    problems = {length: problem_of(given, length) for length in dict.fromkeys(length for length, _ in places)}
    kernels = given["kernels"]
    todo = [(name, problems[length], size) for length, size in places for name in kernels]
    records = [count_point(point_of(given, *one)) for one in steps(todo, len(todo), "counting")]
    rows = [records[start : start + len(kernels)] for start in range(0, len(records), len(kernels))]
    swept = [(problems[length], size) for length, size in places]
    return Curve(axis, swept, {kernel.name: kernel for kernel in kernels}, rows, str(given["blocks"]), given["block_mask"] or "butterfly")


def point_of(given: Given, kernel: Kernel, problem: Attention, size: Capacity) -> Point:
    """A point as :func:`iosim.attention.sweep.count_point` takes it; a pattern is made for the blocks that fit there."""
    if kernel.brings is not None and given["block_mask"] is not None:
        plain: Given = {**given, "block_mask": None}
        try:
            blocks = plan_of(kernel, plain, problem, sram=size).blocks
        except BadInput:
            pass  # no blocks fit: counting the point says so
        else:
            problem = masked(problem, given, blocks)
    return kernel, problem, size, given["blocks"], given["overflow"], own_variants(given, kernel)
