"""What a kernel's page shows of the catalogue and the closed forms, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import cast

from iosim import KERNELS, Attention, Report, predict
from iosim.attention.declaration import Kernel
from iosim.attention.plan import make_plan
from iosim.attention.run import report
from iosim.core.errors import BadInput
from iosim.core.options import Option, Value
from iosim_gpu.catalogue import KERNELS as CUDA

PROBLEM = Attention(n=1024, d=64)
SRAM = "100KiB"
ROOMY = "2MiB"  # for what keeps K and V whole
FAMILIES = "iosim.attention.kernels"
ROOT = Path(inspect.getfile(predict)).parents[2]


def facts(name: str) -> str:
    """What it is: arrays, loop, options, its other pass, how its words grow."""
    kernel = KERNELS[name]
    rows = [
        ("reads", ", ".join(f"`{array}`" for array in kernel.inputs)),
        ("fills", ", ".join(f"`{array}`" for array in kernel.outputs)),
        ("outer loop", kernel.outside),
        *(options(kernel) or [("options", "none")]),
        ("words grow as", predict.theta(name)),
        *other_pass(kernel),
        ("in CUDA", "[counted on three meters](../gpu.md)" if name in CUDA else "no"),
    ]
    return "\n".join(["| | |", "|---|---|", *(f"| {title} | {text} |" for title, text in rows)])


def listed(family: str) -> str:
    """A table of contents of the kernels of one package of :mod:`iosim.attention.kernels`; ``forward`` are those outside of any."""
    names = [name for name, kernel in KERNELS.items() if family_of(kernel) == family]
    return "\n".join(["```{toctree}", ":maxdepth: 1", "", *names, "```"])


def family_of(kernel: Kernel) -> str:
    """The package that its listing is in."""
    inner = kernel.listing.__module__.removeprefix(f"{FAMILIES}.").split(".")
    return inner[0] if len(inner) > 1 else "forward"


def options(kernel: Kernel) -> list[tuple[str, str]]:
    """What each of its options does, as the command line says it."""
    return [(f"option `{option.name}`", f"{spelled(option)}: {option.help}") for option in kernel.options]


def spelled(option: Option) -> str:
    """How the command line asks for it, the default first.

    >>> print(spelled(Option("depth", "square", "...", ("one", "square"))), spelled(Option("skip", True, "...")), sep="; ")
    `--depth`, `square` or `one`; `--no-skip`
    """
    if isinstance(option.default, bool):
        return f"`{option.flag}`"
    if isinstance(option.default, int):
        return f"`{option.flag}`, a number, {option.default} where not given"
    others = [choice for choice in option.choices if choice != option.default]
    return f"`{option.flag}`, {' or '.join(f'`{choice}`' for choice in (option.default, *others))}"


def other_pass(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """The page of its other pass."""
    if kernel.forward is not None:
        yield "backward pass of", f"[{kernel.forward}]({kernel.forward}.md)"
    elif kernel.backward is not None:
        yield "backward pass", f"[{kernel.backward}]({kernel.backward}.md)"


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
    return function.__module__.startswith(f"{FAMILIES}.") and function.__module__ != f"{FAMILIES}.masking"


def counted(name: str, **options: Value) -> Report:
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


def choices(name: str) -> list[tuple[str, Value]]:
    """Every choice of its options that is not the default."""
    return [(option.name, choice) for option in KERNELS[name].options for choice in option.choices if choice != option.default]


def chosen(name: str, option: str, choice: Value) -> tuple[Report, str]:
    """It with one option, and what the kernel takes with it that it does not take otherwise."""
    made, printed = counted(name, **{option: choice}), counted(name)
    also = {other: value for other, value in made.plan.options.items() if other != option and printed.plan.options.get(other) != value}
    return made, "".join(f' with `{other}="{value}"`' for other, value in also.items())


def row(title: str, made: Report, beside: str = "") -> str:
    """A line of the table of variants."""
    over = " (overflow recorded)" if made.overflow else ""
    return f"| {title}{beside} | {made.sram} | {made.blocks} | {made.total:,} | {made.peak_sram:,}{over} |"
