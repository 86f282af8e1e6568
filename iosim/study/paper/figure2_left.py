"""Figure 2, left: what both passes compute, move and take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from iosim.study.paper.claims import Claim, percent, printed
from iosim.study.paper.compared import NO_FIT, NO_KERNEL, SHOWN, Compared, Finding
from iosim.study.paper.counting import CREATED, IDEAL, Asked, Options, Work, asked_of, count, has_mask
from iosim.study.paper.data import Data
from iosim.study.paper.times import FLASH, Times
from iosim.study.published import Setup, Traffic

Unit = Literal["GB", "GFLOP", "ms"]

STANDARD, FIRST = "Standard", "arXiv v2"
TIME_CLAIM = 15  # percent: how well the bandwidth predicts all but two of thirty cells
NEAR = 0.05  # how far FLOPs, which are never measured, may be off before they fit no count
MISFIT = "does not fit the caption"
DATA_BYTES = "counted_bytes_without_statistics"
UNFILLED, STATISTICS = "as printed, no zeros written first", "as the paper, and l, m and D"
CONVENTIONS: tuple[tuple[str, str, Options], ...] = (
    ("as printed: Algorithms 1 and 4", "flash", ()),
    (UNFILLED, "flash", ()),
    ("first release: float32 accumulators", "released", ()),
    (STATISTICS, "flash", CREATED),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One method in one version of the panel, and what was counted for it; ``work`` is None where there is no kernel."""

    data: Data
    row: Traffic
    work: Work | None

    @property
    def section(self) -> str:
        """Where it stands in the summary."""
        return "Figure 2, left" + ("" if self.row.version == FIRST else f", {self.row.version} version")

    def compare(
        self, unit: Unit, ours: float | None, made: str = "", claim: Claim | None = None, word: str = SHOWN, **more: str
    ) -> Compared:  # fmt: skip
        """One of its numbers beside ours.

        Args:
            unit: Says which number.
            ours: What was counted, or None.
            made: How ours follows from what was counted.
            claim: How near ours must lie.
            word: What the comparison is worth where nothing is claimed.
            more: Labels for programs.
        """
        row = self.row
        quantity, value = {"GB": ("HBM", row.gigabytes), "GFLOP": ("FLOPs", row.gflops), "ms": ("time", row.milliseconds)}[unit]
        labels = {"quantity": quantity, "version": row.version, "method": row.method, **more}
        name = f"{self.section}, {quantity} of {row.method}"
        return Compared(name, value, unit, ours, self.data.left.source, labels, claim, word, self.work, made)

    def find(self, found: Compared, why: str = "") -> Finding:
        """The number as a line of the summary."""
        return Finding("fig2", self.section, f"{found.unit}, {self.row.method}", (found,), why)


def columns(data: Data) -> list[Column]:
    """Every method of every version of the panel."""
    wanted = [(row, asked(data.left.setup, row)) for row in data.left]
    return [Column(data, row, None if what is None else count(what)) for row, what in wanted]


def asked(setup: Setup, row: Traffic) -> Asked | None:
    """What is counted for a method; standard attention in another version without a pass for the mask, which comes nearest."""
    if row.method == FLASH:
        return asked_of(setup, "flash", "fwd+bwd", dropout=True, options=CREATED)
    if row.method != STANDARD:
        return None
    kernel = "pytorch" if row.version == FIRST else "megatron"
    return asked_of(setup, kernel, "fwd+bwd", dropout=True, masked=has_mask(setup), options=IDEAL)


def findings(found: list[Column], times: Times) -> list[Finding]:
    """Traffic, FLOPs and time of every method and version, and the traffic counted in other ways."""
    made: list[Finding] = []
    for column in found:
        if column.work is None:
            made += [column.find(column.compare(unit, None, word=NO_KERNEL)) for unit in get_args(Unit)]
        else:
            made += [traffic(column, column.work), flops(column, column.work), time(column, column.work, times), *otherwise(column)]
    sections = [column.section for column in found]
    return sorted(made, key=lambda finding: sections.index(finding.section))


def traffic(column: Column, work: Work) -> Finding:
    """Bytes through HBM."""
    row, moved, made = column.row, work.data_bytes / 1e9, f"{DATA_BYTES} / 10^9"
    if row.version == FIRST or row.method == FLASH:
        return column.find(column.compare("GB", moved, made, printed(row.gigabytes)), terms(work))
    why = f"no list of steps gives it: without a pass for the mask they move {terms(work)}"
    return column.find(column.compare("GB", moved, made, word=NO_FIT), why)


def terms(work: Work) -> str:
    """The traffic of one head as passes over N x N and N x d arrays.

    >>> from iosim.study.paper.data import load
    >>> [terms(column.work) for column in columns(load())[:2] if column.work]
    ['18 N^2 + 12 N d elements a head', '33 N d elements a head']
    """
    square, tall = (sum(work.passes(cols).values()) for cols in (work.asked.n, work.asked.d))
    return " + ".join([*([f"{square:g} N^2"] if square else []), f"{tall:g} N d"]) + " elements a head"


def flops(column: Column, work: Work) -> Finding:
    """FLOPs of the matrix products."""
    ours, published = work.flops / 1e9, column.row.gflops
    fits = abs(ours / published - 1) < NEAR
    found = column.compare("GFLOP", ours, "counted_flops / 10^9", word=SHOWN if fits else NO_FIT)
    return column.find(found, scope(column.data, work) if fits else f"{MISFIT}: {scope(column.data, work)}")


def scope(data: Data, work: Work) -> str:
    """What the FLOPs consist of, and what the printed ones might be those of."""
    asked = work.asked
    one = 2 * asked.n**2 * asked.d * work.instances
    text = f"one N x N x d product of {work.instances:,} heads is {one / 1e9:.1f} GFLOP, and there are {work.flops // one} of them"
    known = {row.method: row.gflops for row in data.left if row.version == FIRST}
    if not {STANDARD, FLASH} <= known.keys():
        return text
    apart = abs(known[FLASH] - known[STANDARD])
    return f"{text}; the printed numbers are {apart:.1f} apart, and one product of {asked.batch} heads is {one / 1e9 / asked.heads:.2f}"


def time(column: Column, work: Work, times: Times) -> Finding:
    """Milliseconds of both passes."""
    setup, taken = column.data.left.setup, column.row.milliseconds
    if column.row.method == STANDARD:
        claim = percent(taken, TIME_CLAIM) if column.row.version == FIRST else None
        why = "; ".join(["the counted bytes at the bandwidth of Table 18", *unfused_elsewhere(column.data)])
        return column.find(column.compare("ms", times.memory(work), times.made(fused=False), claim), why)
    needed = work.flops / (taken / 1e3)
    text = (
        f"{work.flops / 1e9:,.1f} GFLOP in {taken:g} ms are {needed / 1e12:.0f} TFLOP/s, where a full grid sustains {times.rate / 1e12:.0f}"
    )
    why = "; ".join([f"{text} without dropout", *flash_elsewhere(column.data)])
    fits = needed <= times.rate
    ours = times.predicted(work, setup, FLASH)
    found = column.compare("ms", ours, times.made(fused=True), word=SHOWN if fits else NO_FIT)
    return column.find(found, why if fits else f"{MISFIT}: {why}")


def flash_elsewhere(data: Data) -> Iterator[str]:
    """The time that other numbers of the paper imply for FlashAttention, which grows with N^2."""
    setup, n = data.left.setup, data.left.setup.n or 0
    for found, cell in data.cells():
        same = (found.setup.instances, found.setup.d) == (setup.instances, setup.d)
        if same and (cell.method, cell.pass_, 2 * cell.n) == (FLASH, "fwd+bwd", n):
            yield f"Table {cell.table} has the same heads at half the length: 4 x {cell.value:g} = {4 * cell.value:.1f} ms"
    for point in data.right:
        if point.method == FLASH and data.right.setup.n:
            longer, taken = data.right.setup.n / n, point.milliseconds
            yield f"the right panel has them at {longer:g} times: {taken:g} / {longer**2:g} = {taken / longer**2:.1f} ms"


def unfused_elsewhere(data: Data) -> Iterator[str]:
    """The time that the tables imply for standard attention, from fewer heads with dropout and mask."""
    setup = data.left.setup
    for found, cell in data.cells():
        if (cell.method, cell.pass_, cell.n, cell.dropout, cell.mask) == ("PyTorch Attention", "fwd+bwd", setup.n, True, True):
            heads, taken = found.setup.instances, cell.value * setup.instances / found.setup.instances
            yield f"Table {cell.table} has {cell.value:g} ms for {heads} heads, which would be {taken:.1f} here"


def otherwise(column: Column) -> Iterator[Finding]:
    """The traffic of FlashAttention counted in other ways than the paper's."""
    if column.row.method == FLASH and column.row.version == FIRST:
        rows = tuple(_otherwise(column, *convention) for convention in CONVENTIONS)
        why = "zeros written first, accumulators twice as wide, statistics: iosim paper fig2 tells them apart"
        yield Finding("fig2", column.section, "GB, counted otherwise", rows, why)


def _otherwise(column: Column, said: str, kernel: str, options: Options) -> Compared:
    work = count(asked_of(column.data.left.setup, kernel, "fwd+bwd", dropout=True, options=options))
    moved, made = {
        STATISTICS: (work.bytes, "counted_bytes"),
        UNFILLED: (work.data_bytes - work.fill_bytes, f"({DATA_BYTES} - counted_fill_bytes)"),
    }.get(said, (work.data_bytes, DATA_BYTES))
    return Column(column.data, column.row, work).compare("GB", moved / 1e9, f"{made} / 10^9", convention=said)
