"""``iosim trace --html FILE``: the moving picture of a run, of two, or of a trace in a file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from shlex import quote

import click
from click.core import ParameterSource

from iosim.attention.catalogue import KERNELS
from iosim.attention.declaration import Kernel
from iosim.cli import reading
from iosim.cli.files import whole_file
from iosim.cli.options import Given, no_kernel
from iosim.cli.pages.trace_smaller import advice
from iosim.cli.plans import check_variants, plan_of, problem_of
from iosim.cli.progress import working
from iosim.core.errors import BadInput
from iosim.core.problem import Attention, Blocks
from iosim.core.units import Capacity
from iosim.show.animation.limits import TooLarge
from iosim.show.animation.moving import PLENTY, SIDE, SMALL, MovingPicture, from_trace, picture, roomy

DENSE, CAUSAL = "dense", "causal"
OF_A_TRACE = ("html", "source", "sram", "device")


def kernel_or_file(option: str, text: str) -> Kernel:
    """A kernel by its name; raises :class:`BadInput` for the name of a trace, with the option that shows it."""
    if text not in KERNELS and ":" not in text and os.path.exists(text):
        raise BadInput(f"{text!r} is no kernel but a file; show a trace in it with: iosim trace --from {quote(text)} --html FILE")
    return reading.kernel(option, text)


kernel_or_none = click.argument("kernel", metavar="KERNEL", required=False, callback=reading.given(kernel_or_file))
html_option = click.option(
    "--html", metavar="FILE",
    help="Write one page on which the run moves, playable in any browser. Where not given, N = 16, d = 4, blocks are 4x4, and M is the "
    "least power of two, in words, that holds what the run needs, or the larger run with --beside: 128 for flash2, not the 100KiB of "
    "--sram, which stay with --blocks fit, paper or best.",
)  # fmt: skip
beside_option = click.option(
    "--beside", metavar="KERNEL", help="With --html: a second run beside it, of another kernel, or dense or causal for KERNEL itself."
)
from_option = click.option(
    "--from", "source", metavar="TRACE",
    help="With --html: show a trace that iosim trace wrote, in place of a run; M is the most that it holds, or --sram.",
)  # fmt: skip


def write_page(kernel: Kernel | None, given: Given, path: str, beside: str | None, source: str | None) -> None:
    """Write the page; raises :class:`BadInput` for options that do not fit, and for a run or a trace that is too large to show.

    Args:
        kernel: The kernel that runs; None for a trace.
        given: The command line.
        path: The file to write.
        beside: A second kernel, "dense" or "causal"; None for one run.
        source: The file of a trace; None for a run.
    """
    lines = [f"--{name}" for name in ("json", "csv", "out") if asked_for(name)]
    if lines:
        raise BadInput(f"--html writes a page; leave out {' and '.join(lines)}, or ask for the lines in a command of their own")
    check_page(path, kernel, source)
    if source is not None and os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise BadInput(f"--html {path} would take the place of the trace; give the page another name")
    with working("recording"):
        found = run(kernel, given, beside) if source is None else traced(kernel, given, beside, source)
    with whole_file(path) as file:
        file.write(found.html.encode())


def check_page(path: str, kernel: Kernel | None, source: str | None) -> None:
    """Raise :class:`BadInput` for a path that cannot be a page, and propose one."""
    if not path or os.path.isdir(path):
        name = (kernel and kernel.name) or Path(source or "").stem or "page"
        raise BadInput(f"--html {path!r} is no file name; give one such as {os.path.join(path, f'{name}.html')}")
    reading.output("--html", path)


def traced(kernel: Kernel | None, given: Given, beside: str | None, source: str) -> MovingPicture:
    """The picture of a trace in a file."""
    others = [option for option in click.get_current_context().params if option not in OF_A_TRACE and asked_for(option)]
    if others:
        named = ["KERNEL" if option == "kernel" else f"--{option.replace('_', '-')}" for option in others]
        raise BadInput(f"--from {source} shows a recorded trace; leave out {' and '.join(named)}")
    return from_trace(source, given["sram"] if sram_given(given) else None)


def run(kernel: Kernel | None, given: Given, beside: str | None) -> MovingPicture:
    """The picture of a run, and of a second one where one is asked for; each option applies to the kernels that have it."""
    if kernel is None:
        raise no_kernel(click.get_current_context())
    small = defaults(given)
    problem = problem_of(small)
    asked = [(kernel, problem), *([] if beside is None else [second(kernel, problem, beside)])]
    check_variants(given, [name for name, _ in asked])
    if isinstance(small["blocks"], Blocks) and not sram_given(given):
        small["sram"] = Capacity(roomy([plan_of(one, small, asks, sram=PLENTY) for one, asks in asked]))
    try:
        return picture([plan_of(one, small, asks) for one, asks in asked])
    except TooLarge as error:
        raise error if error.instead is None else BadInput(f"{error.found}; {advice(error.instead, given)}") from None


def defaults(given: Given) -> Given:
    """Fill missing sizes with small ones that display well; blocks, too, unless M is given."""
    small: Given = {**given}
    if not asked_for("n"):
        small["n"] = SMALL.n
    if not asked_for("d"):
        small["d"] = SMALL.d
    if not (asked_for("blocks") or sram_given(given)):
        small["blocks"] = Blocks(*SIDE)
    return small


def second(kernel: Kernel, problem: Attention, beside: str) -> tuple[Kernel, Attention]:
    """The other run: of a kernel on the same problem, or of the same kernel with or without the causal rule."""
    if beside not in (DENSE, CAUSAL):
        other = reading.kernel("--beside", beside)
        if other is kernel:
            raise BadInput(f"--beside {beside} shows the same run twice; name another kernel, or {DENSE} or {CAUSAL}")
        return other, problem
    if problem.causal == (beside == CAUSAL):
        raise BadInput(f"--beside {beside} shows the same run twice; {'leave out' if beside == CAUSAL else 'give'} --causal")
    return kernel, replace(problem, causal=beside == CAUSAL)


def sram_given(given: Given) -> bool:
    """Whether the command line says what M is."""
    return asked_for("sram") or given.get("device") is not None


def asked_for(option: str) -> bool:
    """Whether an option stands on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE
