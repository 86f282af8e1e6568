"""What least-recently-used caches would move in place of the scratchpad."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Unpack

import click

from iosim.attention.declaration import Kernel
from iosim.attention.plan import Plan
from iosim.cli import reading
from iosim.cli.commands.trace import writer
from iosim.cli.options import RULES, SIZES, VARIANTS, Command, Given, kernel_argument, takes, valued
from iosim.cli.output import Answer, deliver, width
from iosim.cli.plans import check_variants, plan_of, problem_of
from iosim.cli.progress import steps
from iosim.cli.wrapping import wrapped
from iosim.core.described import described
from iosim.core.tables import Cell, table
from iosim.core.units import Capacity
from iosim.study.cache import ORDERS, CacheReplay, Order, replay_plan, require_reach

if TYPE_CHECKING:
    from iosim.show.plots import Figure

OF_HELD = (0.5, 0.75, 1.0, 1.05, 1.25, 1.35, 1.5, 2.0)
IN_ORDER = {
    "listing": "fetched where the listing loads",
    "first-use": "fetched at first use, operands that are on chip before those that are not",
}


@click.command("cache", cls=Command)
@kernel_argument
@valued(
    "--sizes", "RANGE", reading.sizes,
    "Sizes of the caches: 1024..65536 doubles, 4096..8192:256 steps, 1,2,3 lists; from half to twice what the scratchpad holds.",
    "cache_sizes",
)  # fmt: skip
@valued("--ways", "COUNT", reading.whole, "Places a set of the second cache.", default="8")
@click.option("--order", type=click.Choice(ORDERS), help="When a region is fetched; both where not given.")
@takes(*SIZES, *RULES, "sram", "blocks", "overflow", *VARIANTS, "json", "csv", "plot", "out")
def command(
    kernel: Kernel, cache_sizes: tuple[Capacity, ...] | None, ways: int, order: Order | None, **given: Unpack[Given]
) -> None:  # fmt: skip
    """Replay one head of KERNEL under least-recently-used caches in place of the scratchpad.

    A listing decides what stays on chip; a cache keeps what was touched last. Both caches hold single words of HBM arrays and write
    back; computed blocks are taken to live elsewhere. One is fully associative, the other keeps an address in one of --ways places.
    --sram and --blocks make the listing, --sizes the caches.

    \b
    iosim cache flash --n 512 --d 32 --blocks 32x32
    iosim cache flash --n 512 --d 32 --blocks 32x32 --plot cliff.png
    iosim cache flash2 --sizes 8192..32768 --order listing
    """
    check_variants(given, [kernel])
    plan = plan_of(kernel, given, problem_of(given))
    replays = [replay_plan(plan, one, ways) for one in ([order] if order else ORDERS)]
    sizes = sizes_of(plan, replays[0], cache_sizes)
    require_reach(replays, sizes)
    todo = [(replay, size) for replay in replays for size in sizes]
    rows = [replay.record(size) for replay, size in steps(todo, len(todo), "replaying")]
    with writer(given["out"]) as out, redirect_stdout(out):
        deliver(given, Answer(text_of(plan, replays, rows), document(plan, replays, rows), rows, lambda: figure(plan, replays, sizes)))


def sizes_of(plan: Plan, replay: CacheReplay, asked: Sequence[Capacity] | None) -> list[int]:
    """The sizes in words; bytes are taken to hold elements of Q's type."""
    if asked is not None:
        return sorted({size.words(plan.problem.itemsize) for size in asked})
    return sorted({max(replay.ways, int(part * replay.held)) for part in OF_HELD})


def document(plan: Plan, replays: Sequence[CacheReplay], rows: Sequence[dict[str, object]]) -> dict[str, object]:
    """Everything as one record."""
    p, first = plan.problem, replays[0]
    return {
        "kernel": plan.kernel.name, "n": p.n, "nk": p.nk, "d": p.d, "dv": p.dv, "dtype": p.dtype, "block_rows": plan.blocks.rows,
        "block_cols": plan.blocks.cols, "scratchpad": {"reads": first.scratchpad.reads, "writes": first.scratchpad.writes},
        "held": first.held, "enough": {replay.order: replay.enough for replay in replays}, "caches": list(rows),
    }  # fmt: skip


def text_of(plan: Plan, replays: Sequence[CacheReplay], rows: Sequence[dict[str, object]]) -> str:
    """What the scratchpad moves and holds, and a table for each order."""
    first = replays[0]
    pad = first.scratchpad
    lines = [
        f"{plan.kernel}: {described(plan.problem)}, blocks {plan.blocks} (Br x Bc); words of one head",
        f"scratchpad  reads {pad.reads:,}, writes {pad.writes:,}; holds at most {first.held:,} words of loaded regions at once",
        "caches      least recently used, write back, one word a line, words of HBM arrays alone",
        "x           words read, over the scratchpad's reads; all x: reads and writes, over both of its",
    ]
    for replay in replays:
        some = [row for row in rows if row["order"] == replay.order]
        lines += ["", f"{IN_ORDER[replay.order]}:", table(head(replay), [line_of(replay, row) for row in some]), said(replay)]
    return "\n".join(wrapped(line, width()) if "\n" not in line else line for line in lines)


def head(replay: CacheReplay) -> list[str]:
    """The columns of the table; "x" is of the words read and "all x" of reads and writes, over what the scratchpad moves."""
    return ["words", "of held", "LRU reads", "x", "writes", "all x", f"{replay.ways}-way reads", "x", "writes", "all x"]


def line_of(replay: CacheReplay, row: dict[str, object]) -> list[Cell]:
    """One size in the table."""
    size, pad = row["size"], replay.scratchpad
    assert isinstance(size, int)
    cells: list[Cell] = [size, size / replay.held]
    for moved in (row["lru"], row["set_associative"]):
        assert isinstance(moved, dict)
        reads, writes = moved["reads"], moved["writes"]
        cells += [reads, reads / pad.reads, writes, (reads + writes) / pad.words]
    return cells


def said(replay: CacheReplay) -> str:
    """From where on a cache does no worse."""
    times = replay.enough / replay.held
    return f"fully associative: as few words as the scratchpad from {replay.enough:,} words on, {times:.2f} times what it holds"


def figure(plan: Plan, replays: Sequence[CacheReplay], sizes: Sequence[int]) -> Figure:
    """Words read over the size of the cache."""
    from iosim.show.plots.cliff import cliff

    return cliff(replays, sizes, f"{plan.kernel}: {described(plan.problem)}, blocks {plan.blocks}")
