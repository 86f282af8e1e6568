"""Every load, store and allocation as JSON lines."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TextIO, Unpack

import click

from iosim.attention.declaration import Kernel
from iosim.attention.plan import Plan
from iosim.attention.trace import Seal, line
from iosim.cli.files import whole_file
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, no_kernel, takes
from iosim.cli.pages.trace_html import beside_option, from_option, html_option, kernel_or_none, write_page
from iosim.cli.pages.trace_size import size, written
from iosim.cli.plans import MOST_BYTES, MOST_TILES, check_variants, plan_of, problem_of
from iosim.cli.progress import working
from iosim.core.errors import BadInput
from iosim.core.events import Event


@click.command("trace", cls=Command)
@kernel_or_none
@html_option
@beside_option
@from_option
@takes(*SIZES, *RULES, "sram", "blocks", "overflow", *VARIANTS, "json", "csv", "out")
def command(kernel: Kernel | None, html: str | None, beside: str | None, source: str | None, **given: Unpack[Given]) -> None:
    """Print every event of one head of KERNEL, tile by tile, as JSON lines; or show them move, with --html.

    input and output declare an HBM array; begin and end bracket a tile; load, store and init move a region, box = (start, stop) per
    axis; alloc gives a computed value room; use names a region that an operation read on chip; sram is what is occupied afterwards.

    The first line also tells the version of the format, the last line says "last":true, and each line ends in a check: a checksum of it
    and of all lines before it. With these, --from finds out whether a trace was cut short or changed anywhere, and in which line.

    \b
    iosim trace flash2 --n 8 --d 4 --sram 128 | head
    iosim trace flash --n 256 --out flash.jsonl
    iosim trace flash2 --html flash2.html
    iosim trace flash2 --causal --html causal.html --beside dense
    iosim trace --from flash.jsonl --html flash.html
    """
    if html is not None:
        return write_page(kernel, given, html, beside, source)
    if beside is not None or source is not None:
        raise BadInput(f"{'--beside' if beside else '--from'} belongs to the page of --html; give --html FILE too")
    if kernel is None:
        raise no_kernel(click.get_current_context())
    print_lines(kernel, given)


def print_lines(kernel: Kernel, given: Given) -> None:
    """Print the events, or write them to a file; raises :class:`BadInput` for more than anybody can keep."""
    check_variants(given, [kernel])
    plan = plan_of(kernel, given, problem_of(given))
    taken = size(plan, form_of(given).text)  # refuses what does not fit before the first line
    check_size(plan, taken)
    path = given["out"]
    told = f"tracing {kernel}: {plan.tiles:,} tiles, a file of about {written(taken)}"
    with writer(path) as out, nullcontext() if path is None else working(told):
        write(plan, form_of(given), out)


def check_size(plan: Plan, taken: int) -> None:
    """Raise :class:`BadInput` for a trace of about so many bytes that nobody can keep, and for more HBM than one can know."""
    if plan.tiles > MOST_TILES:
        raise BadInput(
            f"a trace of {plan.tiles:,} tiles would take about {written(taken)}; ask for at most {MOST_TILES:,} tiles, "
            f"about {written(taken * MOST_TILES // plan.tiles)}, in larger blocks or of a smaller N"
        )
    words = plan.count().peak_hbm
    if words > MOST_BYTES:
        raise BadInput(f"a trace keeps a flag for each word of HBM: {words:,}, more than {MOST_BYTES:,}; ask for a smaller problem")


@dataclass(frozen=True, slots=True)
class Form:
    """How a stream of events is written: what stands before it, an event, the last one, what stands between and after."""

    before: str
    event: Callable[[Event], str]
    last: Callable[[Event], str]
    between: str
    after: str

    def text(self, event: Event) -> str:
        """An event and what parts it from the next."""
        return self.event(event) + self.between


def row(event: Event) -> str:
    """An event as a line of CSV; the box is rows and columns, as start:stop."""
    box = " ".join(f"{start}:{stop}" for start, stop in event.box)
    return f"{event.kind},{event.name},{box},{event.words},{event.itemsize},{event.times},{event.sram}"


def form_of(given: Given) -> Form:
    """The form that was asked for, with no line yet."""
    return DOCUMENT if given["json"] else TABLE if given["csv"] else lines(Seal())


DOCUMENT = Form("[\n", line, line, ",\n", "\n]\n")
TABLE = Form("kind,name,box,words,itemsize,times,sram\n", row, row, "\n", "\n")


def lines(seal: Seal) -> Form:
    """JSON lines, sealed."""
    return Form("", seal.line, partial(seal.line, last=True), "\n", "\n")


def write(plan: Plan, form: Form, out: TextIO) -> None:
    """Write the events as they happen, so that a long trace takes no memory."""
    held: list[Event] = []

    def observe(event: Event) -> None:
        out.write(form.event(held.pop()) + form.between if held else form.before)
        held.append(event)

    machine = plan.machine("trace", [observe])
    plan.run(machine)
    machine.finish()
    out.write(form.last(held.pop()) + form.after)


@contextmanager
def writer(path: str | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears whole or not at all."""
    if path is None:
        yield sys.stdout
        return
    with whole_file(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            yield text
        finally:
            text.detach()  # flushes, and leaves closing to whole_file
