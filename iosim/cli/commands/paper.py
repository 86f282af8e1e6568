"""Every published number of the FlashAttention paper, and ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import click

from iosim.cli import reading
from iosim.cli.options import Command, Given, takes, valued
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.pages import paper_figure, paper_pages, paper_times
from iosim.core.errors import BadInput
from iosim.study.paper import Data, Figure2, Finding, Times, figure2, findings, fit, load, memory, runtimes, softmax

if TYPE_CHECKING:
    from iosim.show.plots import Figure

SUMMARY = ""
TOLD = 3  # failures that the last line names


@dataclass(frozen=True, slots=True)
class Page:
    """What is asked for: its text, its findings, the numbers from which times follow, and its figure, if it has one."""

    text: str
    findings: Sequence[Finding]
    fits: Record
    figure: Callable[[], Figure] | None = None


@click.command("paper", cls=Command)
@click.argument("thing", metavar="[fig2|runtimes|memory|softmax]", required=False, default=SUMMARY)
@valued("--table", "NUMBER", reading.whole, "runtimes: the milliseconds of one table.", "number")
@click.option(
    "--data", "files", metavar="FILE.toml", multiple=True, help="Published numbers of your own, of the form of iosim/study/published/data."
)
@takes("json", "csv", "plot")
def command(thing: str, number: int | None, files: tuple[str, ...], **given: Unpack[Given]) -> None:
    """Set every published number of the FlashAttention paper beside ours.

    Without an argument: one line for each published thing, with what is claimed and why it came out so. fig2, runtimes, memory and
    softmax show the numbers one by one, and the iosim run commands that count the same. Every number is counted by running the listings
    on the machine, in blocks of the released code, so that --sram plays no part. Exits with 1 if a number that is claimed to agree
    does not.

    \b
    iosim paper
    iosim paper fig2 --plot figure2.png
    iosim paper runtimes --table 18
    """
    if thing not in PAGES:
        raise BadInput(f"there is no page {thing!r}; ask for {', '.join(name for name in PAGES if name)}, or for none to see the summary")
    if number is not None and thing != "runtimes":
        raise BadInput("--table shows one table of times; ask for iosim paper runtimes --table NUMBER")
    page = PAGES[thing](load(files), number)
    if given["plot"] is not None and page.figure is None:
        raise BadInput("only Figure 2 is drawn; ask for iosim paper fig2 --plot FILE")
    rows = [record for one in page.findings for record in one.records()]
    document = {"fits": page.fits, "findings": [finding_of(one) for one in page.findings], "numbers": rows}
    deliver(given, Answer(page.text, document, rows, page.figure, failed(page.findings)))


def finding_of(one: Finding) -> Record:
    """A line of the summary as a record."""
    return {
        "thing": one.thing, "section": one.section, "title": one.title, "numbers": len(one.rows), "verdict": one.verdict,
        "claims": one.claims, "why": one.why, "failures": list(one.failures),
    }  # fmt: skip


def failed(found: Sequence[Finding]) -> str | None:
    """In one line what was claimed and does not hold; None where all does."""
    failures = [failure for one in found for failure in one.failures]
    more = f"; and {len(failures) - TOLD} more" if len(failures) > TOLD else ""
    count = "1 claim does" if len(failures) == 1 else f"{len(failures)} claims do"
    return f"{count} not hold: {'; '.join(failures[:TOLD])}{more}" if failures else None


def fits_of(times: Times) -> dict[str, object]:
    """What times follow from."""
    return {
        "bandwidth_bytes_per_s": times.bandwidth, "rate_flop_per_s": times.rate,
        "rate_on_the_grid_of_table_18_flop_per_s": times.fitted,
    }  # fmt: skip


def _summary(data: Data, _: int | None) -> Page:
    times, found = fit(data), findings(data)
    return Page(paper_pages.overview(found, times, width()), found, fits_of(times))


def _fig2(data: Data, _: int | None) -> Page:
    made = figure2(data)
    lines = {
        name: {"slope_per_percent": line.slope, "intercept": line.intercept, "r2": straight}
        for name, line, straight in (
            ("time_over_density_ms", made.right.time, made.right.r2_of_time),
            ("traffic_over_density_gb", made.right.traffic, made.right.r2_of_traffic),
        )
    }
    return Page(paper_figure.text_of(made, width()), made.findings, {**fits_of(made.times), **lines}, lambda: drawn(made))


def _runtimes(data: Data, number: int | None) -> Page:
    made = runtimes(data)
    if number is None:
        return Page(paper_times.text_of(made, width()), made.findings, fits_of(made.times))
    text = paper_times.table_of(data, made, number, width())
    return Page(text, made.of_table(number).findings, fits_of(made.times))


def _memory(data: Data, _: int | None) -> Page:
    found = memory.findings(data)
    return Page(paper_pages.memory(found, data, width()), found, {})


def _softmax(data: Data, _: int | None) -> Page:
    found = softmax.findings(data)
    return Page(paper_pages.softmax(found, data, width()), found, {})


def drawn(made: Figure2) -> Figure:
    """The figure in the paper's form."""
    from iosim.show.plots.paper import figure

    return figure(made)


PAGES: dict[str, Callable[[Data, int | None], Page]] = {
    SUMMARY: _summary, "fig2": _fig2, "runtimes": _runtimes, "memory": _memory, "softmax": _softmax,
}  # fmt: skip
