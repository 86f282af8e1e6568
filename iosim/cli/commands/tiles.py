"""What fits in M, who takes what, and what traffic follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

import click

from iosim.attention.plan import BlockChoice
from iosim.attention.report import Report
from iosim.cli import drawing, reading
from iosim.cli.commands.run import what_differs
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, takes, valued
from iosim.cli.output import Answer, Record, deliver, width
from iosim.cli.pages import tiles_best, tiles_frontier, tiles_mapper
from iosim.cli.pages.residents import at_the_peak, listed
from iosim.cli.pages.tiles_best import Accountings
from iosim.cli.pages.tiles_tries import Try, tried
from iosim.cli.plans import check_variants, problem_of
from iosim.core.described import described
from iosim.core.errors import BadInput
from iosim.core.problem import Attention
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity
from iosim.predict.formulas import FORMULAS

if TYPE_CHECKING:
    from iosim.show.plots import Figure

RULES_OF_BLOCKS: tuple[BlockChoice, ...] = ("paper", "fit", "best")
MOST_PANELS = 4


def ends(option: str, text: str) -> tuple[Capacity, ...]:
    """One size, or the two ends of a range.

    >>> [str(size) for size in ends("--sram", "1024..65536")]
    ['1024 words', '65536 words']
    """
    if text.count("..") > 1 or ":" in text or "," in text:
        raise BadInput(f"{option} must be one size or LO..HI such as 1024..65536, not {text!r}")
    found = tuple(reading.size(option, end) for end in text.split(".."))
    if len({end.unit for end in found}) > 1:
        raise BadInput(f"{option} {text} mixes words and bytes; give both ends a suffix, or none")
    if found[0].amount > found[-1].amount:
        raise BadInput(f"{option} {text} runs backwards; write {'..'.join(reversed(text.split('..')))}")
    return found


@click.command("tiles", cls=Command)
@takes(*SIZES, *RULES, "kernels")
@valued("--sram", "SIZE", ends, "Capacity M: words, or bytes with a suffix; LO..HI in words with --best.", "reach", default="100KiB")
@takes("device", "own_blocks")
@click.option("--best", is_flag=True, help="Search: the fewest words of all blocks, of powers of two, of divisors; over LO..HI all steps.")
@click.option(
    "--accounting", type=click.Choice(("honest", "ideal", "both")),
    help="With --best, what occupies SRAM: all that is named, or Q K V O S P in tiles and no statistics, as mapping tools have it.",
)  # fmt: skip
@takes(*VARIANTS, "json", "csv", "plot")
def command(reach: tuple[Capacity, ...], best: bool, accounting: Accountings | None, **given: Unpack[Given]) -> None:
    """Show which blocks each rule chooses, what they need on chip, and what traffic follows.

    paper: the printed rule, which does not ask whether they fit; fit: the largest of its shape that really fit; best: the fewest words
    of all that fit; given: those of --blocks. Who takes the room is shown for given blocks, else for those of fit. --plot draws the words
    of all blocks, and the line up to which they fit, for each kernel but block-sparse, whose mask is made for its blocks.

    \b
    iosim tiles --sram 49152 --n 4096
    iosim tiles --kernels flash2 --blocks 128x128 --dtype float16
    iosim tiles --best --kernels flash2 --sram 1024..65536 --accounting both
    iosim tiles --kernels flash,flash2 --sram 12288 --plot tiles.png
    """
    check_variants(given, given["kernels"])
    check(reach, best, accounting, given)
    asked: Given = {**given, "sram": reach[0]}
    problem = problem_of(asked)
    if len(reach) > 1:
        answer = steps(asked, problem, reach, accounting or "honest")
    else:
        answer = searched(asked, problem, accounting or "honest") if best else ruled(asked, problem)
    deliver(given, answer)


def check(reach: Sequence[Capacity], best: bool, accounting: Accountings | None, given: Given) -> None:
    """Raise :class:`BadInput` for options that do not go together."""
    many, kernels = len(reach) > 1, [kernel.name for kernel in given["kernels"]]
    if unknown := [name for name in kernels if name not in FORMULAS]:
        raise BadInput(f"tiles compares blocks in closed form, and {unknown[0]} has none; count it with iosim run, in blocks of its own")
    if not best and (many or accounting is not None):
        raise BadInput(f"tiles {'--sram LO..HI' if many else '--accounting'} searches the fewest words; add --best")
    if best and given["blocks"] is not None:
        raise BadInput("tiles --best searches the blocks and --blocks names them; leave one out")
    if many and given["plot"] is not None:
        raise BadInput("tiles --plot draws all blocks at one M, not over a range; give one --sram")
    if many and given["block_mask"] is not None:
        raise BadInput("tiles --best searches blocks over a range of M, but a block mask is made for its blocks; leave --block-mask out")
    if accounting in ("ideal", "both") and "pack" in given["variants"]:
        raise BadInput("the ideal accounting knows no packed heads; leave --pack out, or ask for --accounting honest")
    known = [name for name, form in FORMULAS.items() if form.fused is not None]
    if accounting in ("ideal", "both") and not set(kernels) & set(known):
        raise BadInput(f"the ideal accounting is known for {' and '.join(known)}, not for {', '.join(kernels)}")


def ruled(given: Given, problem: Attention) -> Answer:
    """The blocks of the rules."""
    tries = [attempt for kernel in given["kernels"] for attempt in tries_of(kernel.name, given, problem)]
    reports = [attempt.made for attempt in tries if attempt.made is not None]
    if not reports:
        raise BadInput("; ".join(dict.fromkeys(str(attempt.why) for attempt in tries)))
    records = [attempt.record() for attempt in tries]
    return Answer(text_of(given, problem, tries), records, records, figure(given, reports), failed(reports))


def tries_of(kernel: str, given: Given, problem: Attention) -> Iterator[Try]:
    """What each rule gives ``kernel``, and the given blocks, all counted with overflow recorded."""
    own = given.get("blocks")
    for choice in (*RULES_OF_BLOCKS, *([own] if own else [])):
        yield tried(kernel, choice if isinstance(choice, str) else "given", choice, given, problem)


def searched(given: Given, problem: Attention, accounting: Accountings) -> Answer:
    """The fewest words at one M."""
    found, why = tiles_best.searched(given, problem, accounting)
    records: list[Record] = [tiles_best.record(row, rows[0], problem, given["sram"]) for rows in found for row in rows]
    reports = [row.made for rows in found for row in rows if row.made is not None]
    drawn = figure(given, reports)
    text = noted(tiles_best.text_of(given, problem, found), why)
    return with_mapper(text, records, problem, [given["sram"]], accounting, drawn, failed(reports))


def steps(given: Given, problem: Attention, reach: Sequence[Capacity], accounting: Accountings) -> Answer:
    """The fewest words over a range of M."""
    tiles_frontier.check_words(reach, problem)
    found, why = tiles_frontier.searched(given, problem, reach, accounting)
    records = [record for one in found for record in one.records(problem)]
    return with_mapper(noted(tiles_frontier.text_of(problem, reach, found, width()), why), records, problem, reach, accounting)


def noted(text: str, why: Sequence[str]) -> str:
    """A page, and below it why something is missing on it."""
    return "\n".join([text, *(f"note: {reason}" for reason in why)])


def with_mapper(
    text: str, records: list[Record], problem: Attention, reach: Sequence[Capacity], accounting: Accountings,
    drawn: Callable[[], Figure] | None = None, wrong: str | None = None,
) -> Answer:  # fmt: skip
    """The answer, with the points of a mapping tool where the problem and the accounting are theirs."""
    rows = [] if accounting == "honest" else tiles_mapper.points(problem, reach)
    every = [*records, *tiles_mapper.records(rows, problem)]
    return Answer(f"{text}\n\n{tiles_mapper.text_of(rows, width())}" if rows else text, every, every, drawn, wrong)


def failed(reports: Sequence[Report]) -> str | None:
    """Which counts differ from their closed forms."""
    return "; ".join(why for made in reports if (why := what_differs(made)) is not None) or None


def figure(given: Given, reports: Sequence[Report]) -> Callable[[], Figure] | None:
    """The map of each kernel whose blocks are free, if a figure is asked for."""
    if given["plot"] is None:
        return None
    free = list({made.kernel: made for made in reports if made.problem.block_mask is None}.values())
    if not free:
        raise BadInput("tiles --plot has nothing to draw: no blocks fit, or a mask fixes them; ask for a larger --sram or other --kernels")
    if len(free) > MOST_PANELS:
        raise BadInput(f"tiles --plot draws {MOST_PANELS} kernels at most, not {len(free)}; name some with --kernels")
    return lambda: drawing.tile_map(free)


def text_of(given: Given, problem: Attention, tries: list[Try]) -> str:
    """The tries as a table, the reasons of those that found nothing, and who takes the room."""
    size = given["sram"]
    shown = "given" if given.get("blocks") else "fit"
    head = ["kernel", "rule", "Br x Bc", "tiles", f"peak SRAM ({size.unit})", "fits", "words moved"]
    rows = [line(attempt) for attempt in tries]
    for row, above in zip(rows[:0:-1], rows[-2::-1], strict=True):
        row[0] = "" if row[0] == above[0] else row[0]
    reasons = dict.fromkeys(f"note: {attempt.why}" for attempt in tries if attempt.why is not None)
    lines = [f"tiles: {described(problem)}, SRAM {size}", "", table(head, rows, right=["Br x Bc", "tiles"]), *reasons]
    plans = [attempt.made.plan for attempt in tries if attempt.rule == shown and attempt.made is not None]
    lines += ["", f"who takes the room when most is taken, {size.unit}, blocks {shown}:"] if plans else []
    return "\n".join([*lines, *(listed(at_the_peak(plan), f"{plan.kernel.name:13} ", width()) for plan in plans)])


def line(attempt: Try) -> list[Cell]:
    """A try as a line of the table."""
    made = attempt.made
    if made is None:
        return [attempt.kernel, attempt.rule, None, None, None, attempt.fits, None]
    tiles = f"{-(-made.problem.n // made.blocks.rows):,} x {-(-made.problem.nk // made.blocks.cols):,}"
    return [attempt.kernel, attempt.rule, str(made.blocks), tiles, made.peak_sram, attempt.fits, made.total]
