"""What a kernel's page shows of the catalogue and the closed forms, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import cast

from iosim import KERNELS, Attention, Report, predict
from iosim.attention.catalogue import BACKWARD, Kernel
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.core.errors import BadInput
from iosim.core.options import Options
from iosim_gpu.case import KERNELS as CUDA

PROBLEM = Attention(n=1024, d=64)
SRAM = "100KiB"
ROOMY = "2MiB"  # for what keeps K and V whole
ROOT = Path(inspect.getfile(predict)).parents[2]
MEANINGS = {
    "first_pass": "What waits in HBM between visits is read at the first visit, too (`load`, as printed), or made on chip then (`create`).",
    "reuse": "K and V are read again for each query tile (`tiled`), or kept whole on chip once they were read (`ideal`).",
    "softmax": "A whole row of S is on chip for the softmax (`rows`), or S passes in tiles and is read twice (`streamed`).",
    "skip": "Tiles in which no pair may attend are left out (on), or visited like all others (off). Without a mask it changes nothing.",
    "skip_empty": "K and V are loaded for tiles of keys that no query sees, too (off, as printed), or left out there (on).",
    "accumulator": "What waits in HBM between visits has the inputs' type (`storage`), or is float32 in an array of its own (`float32`).",
    "dq_pass": "dQ is summed in HBM by the pass that makes dK and dV (`shared`), or made by a pass of its own (`own`).",
    "depth": "Products meet their factors in square tiles (`square`, as printed), or in single columns and rows (`one`), to save room.",
    "pack": "Query heads that share a K and V run one after the other (off), or in one loop over the queries of all (on).",
}
"""What each option of :class:`iosim.core.problem.Options` does, its default first."""


def facts(name: str) -> str:
    """What it is: arrays, loop, options, its other pass, how its words grow."""
    kernel = KERNELS[name]
    rows = [
        ("reads", ", ".join(f"`{array}`" for array in kernel.inputs)),
        ("fills", ", ".join(f"`{array}`" for array in kernel.outputs)),
        ("outer loop", kernel.outside),
        *(options(kernel) or [("options", "none")]),
        ("words grow as", predict.theta(name)),
        *other_pass(name, kernel),
        ("in CUDA", "[counted on three meters](../gpu.md)" if name in CUDA else "no"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {title} | {text} |" for title, text in rows)])


def options(kernel: Kernel) -> list[tuple[str, str]]:
    """What each of its options does."""
    return [(f"option `{option}`", MEANINGS[option]) for option in kernel.options]


def other_pass(name: str, kernel: Kernel) -> Iterator[tuple[str, str]]:
    """The page of its other pass."""
    if kernel.forward is not None:
        yield "backward pass of", f"[{kernel.forward}]({kernel.forward}.md)"
    elif name in BACKWARD:
        yield "backward pass", f"[{BACKWARD[name]}]({BACKWARD[name]}.md)"


def sources(name: str) -> dict[Path, list[tuple[int, int]]]:
    """The listing and every function of :mod:`iosim.attention.kernels` that it calls: by file, the first and last line of each.

    What all kernels share, the scores of a tile, is left out.
    """
    found: dict[Path, list[tuple[int, int]]] = {}
    for function in called(cast(FunctionType, KERNELS[name].listing)):
        lines, first = inspect.getsourcelines(function)
        found.setdefault(Path(inspect.getfile(function)), []).append((first, first + len(lines) - 1))
    return {path: sorted(spans) for path, spans in found.items()}


def called(listing: FunctionType) -> list[FunctionType]:
    """A function and those that it calls, and so on; each once."""
    found = [listing]
    for function in found:
        named = [function.__globals__.get(name) for name in function.__code__.co_names]
        found += [one for one in dict.fromkeys(named) if isinstance(one, FunctionType) and one not in found and is_listing(one)]
    return found


def is_listing(function: FunctionType) -> bool:
    """Whether it belongs to a kernel alone."""
    return function.__module__.startswith("iosim.attention.kernels.") and function.__module__ != "iosim.attention.kernels.masking"


def counted(name: str, **options: str | bool) -> Report:
    """It on the problem of all pages, where an SRAM of 100 KiB does not do in one of 2 MiB; counted only."""
    try:
        plan = make_plan(name, PROBLEM, SRAM, "fit", None, options)
    except BadInput:
        plan = make_plan(name, PROBLEM, ROOMY, "fit", None, options)
    return report(plan, execute=False, replay=False)


def words(name: str) -> str:
    """The terms of the closed form, in symbols and numbers, with their sum and the count."""
    made = counted(name)
    terms = predict.terms(name, made.problem, made.blocks, made.plan.options)
    rows = [f"| {t.array} | {t.direction} | ${latex(t.symbol)}$ | {int(t.total):,} | {t.why} |" for t in terms]
    total = sum(int(term.total) for term in terms)
    assert total == made.total, f"{name}: {total} predicted, {made.total} counted"
    lead = (
        f"With N = {PROBLEM.n:,}, d = {PROBLEM.d}, {PROBLEM.dtype}, an SRAM of {made.sram} and the blocks that fit, "
        f"{made.blocks} (Br x Bc), $T_r = {-(-PROBLEM.n // made.blocks.rows)}$ and $T_c = {-(-PROBLEM.nk // made.blocks.cols)}$:"
    )
    table = ["| array | move | term | words | why |", "|---|---|---|--:|---|", *rows, f"| **sum** | | | **{total:,}** | counted: equal |"]
    peak = (
        f"Peak SRAM: {made.peak_sram:,} of {made.sram.amount:,} {made.sram.unit}. `iosim explain {name}` prints the same for any problem."
    )
    return "\n".join([lead, "", *table, "", peak])


def latex(symbol: str) -> str:
    r"""A term in the notation of the papers.

    >>> print(latex("(Tc - 1) Nq dv"), latex("⌈d/Bc⌉ Nq Nk"), latex("(query rows visited) d"))
    (T_c - 1)\,N_q\,d_v \lceil d/B_c \rceil\,N_q\,N_k (\text{query rows visited})\,d
    """
    text = re.sub(r"\(([a-z ]{4,})\)", lambda found: rf"(\text{{{found[1].replace(' ', '~')}}})", symbol)
    text = re.sub(r"\b([TNdB])([a-z])\b", r"\1_\2", text)
    text = re.sub(r"(?<![-+]) (?![-+])", r"\\,", text)
    return text.replace("~", " ").replace("⌈", r"\lceil ").replace("⌉", r" \rceil")


def variants(name: str) -> str:
    """A line for each choice that is not the default: its words and its peak, in the blocks that fit it; then what changes nothing."""
    printed = counted(name)
    made = [(f"`{option}={choice!r}`".replace("'", '"'), *chosen(name, option, choice)) for option, choice in choices(name)]
    idle = [title for title, one, _ in made if (one.total, one.peak_sram) == (printed.total, printed.peak_sram)]
    rows = [row("as printed", printed), *(row(*each) for each in made if each[0] not in idle)]
    table = "\n".join(["| variant | SRAM | Br x Bc | words | peak SRAM, bytes |", "|---|---|---|--:|--:|", *rows])
    same = f"{' and '.join(idle)} {'changes' if len(idle) == 1 else 'change'} nothing on this problem." if idle else ""
    return "\n\n".join([table] * (len(rows) > 1) + [same] * bool(idle)) or "It has no variants."


def choices(name: str) -> list[tuple[str, str | bool]]:
    """Every choice of its options that is not the default."""
    others = {option: CHOICES[option][1:] if option in CHOICES else (not getattr(Options(), option),) for option in KERNELS[name].options}
    return [(option, choice) for option, chosen in others.items() for choice in chosen]


def chosen(name: str, option: str, choice: str | bool) -> tuple[Report, str]:
    """It with one option, and what had to be asked for with it."""
    if option == "accumulator" and "first_pass" in KERNELS[name].options:
        return counted(name, accumulator=str(choice), first_pass="create"), ' with `first_pass="create"`'
    return counted(name, **{option: choice}), ""


def row(title: str, made: Report, beside: str = "") -> str:
    """A line of the table of variants."""
    over = " (overflow recorded)" if made.overflow else ""
    return f"| {title}{beside} | {made.sram} | {made.blocks} | {made.total:,} | {made.peak_sram:,}{over} |"
