"""Figure 2, left: what both passes compute, move and take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iosim.paper.claims import Claim, percent, printed
from iosim.paper.compared import NO_FIT, NO_KERNEL, SHOWN, Compared, Finding
from iosim.paper.counting import CREATED, IDEAL, Asked, Options, Work, asked_of, count, has_mask
from iosim.paper.data import Data
from iosim.paper.times import FLASH, Times
from iosim.published import Setup, Traffic

STANDARD, FIRST = "Standard", "arXiv v2"
TIME_CLAIM = 15  # percent: how well the bandwidth predicts all but two of thirty cells
FILLED, UNFILLED = "as Algorithms 1 and 4 are printed", "the same without filling arrays with zeros first"
CONVENTIONS: tuple[tuple[str, str, Options], ...] = (
    (FILLED, "flash", ()),
    (UNFILLED, "flash", ()),
    ("as the first release runs, with accumulators in float32", "released", ()),
    ("as the paper counts, and l, m and D", "flash", CREATED),
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
        self, quantity: str, value: float, unit: str, ours: float, made: str, claim: Claim | None = None, word: str = SHOWN, **more: str
    ) -> Compared:
        """One of its numbers beside ours; ``more`` labels it."""
        name = f"{self.section}, {quantity} of {self.row.method}"
        labels = {"quantity": quantity, "version": self.row.version, "method": self.row.method, **more}
        there = self.work is not None
        return Compared(
            name, value, unit, ours if there else None, self.data.left.source, labels, claim, word if there else NO_KERNEL, self.work, made
        )

    def find(self, found: Compared, why: str) -> Finding:
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
    made = []
    for column in found:
        made += [traffic(column), flops(column), time(column, times), *otherwise(column)]
    return sorted(made, key=lambda finding: [column.section for column in found].index(finding.section))


def traffic(column: Column) -> Finding:
    """Bytes through HBM."""
    row, work = column.row, column.work
    moved = 0 if work is None else work.data_bytes
    known = row.version == FIRST or row.method == FLASH
    claim, word = (printed(row.gigabytes), SHOWN) if known else (None, NO_FIT)
    found = column.compare("HBM", row.gigabytes, "GB", moved / 1e9, "counted_bytes_without_statistics / 10^9", claim, word)
    if work is None:
        return column.find(found, "")
    return column.find(found, terms(work) if known else f"no list of steps gives it; without a pass for the mask they move {terms(work)}")


def terms(work: Work) -> str:
    """The traffic of one head as passes over N x N and N x d arrays.

    >>> from iosim.paper.data import load
    >>> [terms(column.work) for column in columns(load())[:2] if column.work]
    ['18 N^2 + 12 N d elements a head', '33 N d elements a head']
    """
    square, tall = (sum(work.passes(cols).values()) for cols in (work.asked.n, work.asked.d))
    return " + ".join([*([f"{square:g} N^2"] if square else []), f"{tall:g} N d"]) + " elements a head"


def flops(column: Column) -> Finding:
    """FLOPs of the matrix products."""
    work = column.work
    counted = 0 if work is None else work.flops
    found = column.compare("FLOPs", column.row.gflops, "GFLOP", counted / 1e9, "counted_flops / 10^9", word=NO_FIT)
    return column.find(found, "" if work is None else scope(column.data, work))


def scope(data: Data, work: Work) -> str:
    """Why the FLOPs do not fit the caption, in numbers."""
    asked = work.asked
    one = 2 * asked.n**2 * asked.d * asked.batch * asked.heads
    text = f"does not fit the caption: one N x N x d product of {work.instances:,} heads is {one / 1e9:.1f} GFLOP, and there are {work.flops // one} of them"
    known = {row.method: row.gflops for row in data.left if row.version == FIRST}
    if not {STANDARD, FLASH} <= known.keys():
        return text
    apart = abs(known[FLASH] - known[STANDARD])
    return f"{text}; the printed numbers are {apart:.1f} apart, and one product of {asked.batch} heads is {one / 1e9 / asked.heads:.2f}"


def time(column: Column, times: Times) -> Finding:
    """Milliseconds of both passes."""
    row, work, setup = column.row, column.work, column.data.left.setup
    if work is None:
        return column.find(column.compare("time", row.milliseconds, "ms", 0.0, ""), "")
    if row.method == FLASH:
        needed, known = work.flops / (row.milliseconds / 1e3), times.rate
        found = column.compare(
            "time", row.milliseconds, "ms", times.predicted(work, setup, FLASH), times.made(fused=True),
            word=NO_FIT if needed > known else SHOWN,
        )  # fmt: skip
        text = f"{work.flops / 1e9:,.1f} GFLOP in {row.milliseconds:g} ms are {needed / 1e12:.0f} TFLOP/s, where a full grid sustains "
        parts = [f"{text}{known / 1e12:.0f} without dropout", *elsewhere(column.data)]
        return column.find(found, ("does not fit the caption: " if needed > known else "") + "; ".join(parts))
    claim = percent(row.milliseconds, TIME_CLAIM) if row.version == FIRST else None
    found = column.compare("time", row.milliseconds, "ms", times.memory(work), times.made(fused=False), claim)
    return column.find(found, "; ".join(["the counted bytes at the bandwidth of Table 18", *unfused_elsewhere(column.data)]))


def elsewhere(data: Data) -> Iterator[str]:
    """The time of FlashAttention here as other numbers of the paper have it: time grows with N^2."""
    setup, n = data.left.setup, data.left.setup.n or 0
    for found, cell in data.cells():
        same = found.setup.instances == setup.instances and found.setup.d == setup.d and 2 * cell.n == n
        if same and cell.method == FLASH and cell.pass_ == "fwd+bwd":
            yield f"Table {cell.table} has the same heads at half the length: 4 x {cell.value:g} = {4 * cell.value:.1f} ms"
    for point in data.right:
        if point.method == FLASH and data.right.setup.n:
            times = (data.right.setup.n / n) ** 2
            yield f"the right panel has them at {data.right.setup.n / n:g} times: {point.milliseconds:g} / {times:g} = {point.milliseconds / times:.1f} ms"


def unfused_elsewhere(data: Data) -> Iterator[str]:
    """The time of standard attention here as the tables have it, with dropout and mask, for fewer heads."""
    setup = data.left.setup
    for found, cell in data.cells():
        if (cell.method, cell.pass_, cell.n, cell.dropout, cell.mask) == ("PyTorch Attention", "fwd+bwd", setup.n, True, True):
            times = setup.instances / found.setup.instances
            yield f"Table {cell.table} has {cell.value:g} ms for {found.setup.instances} heads, which would be {cell.value * times:.1f} here"


def otherwise(column: Column) -> Iterator[Finding]:
    """The traffic of FlashAttention counted in other ways than the paper's."""
    if column.row.method == FLASH and column.row.version == FIRST:
        rows = tuple(_otherwise(column, *convention) for convention in CONVENTIONS)
        yield Finding("fig2", column.section, "GB, counted otherwise", rows, "zeros written first, accumulators twice as wide, statistics: iosim paper fig2 tells them apart")


def _otherwise(column: Column, said: str, kernel: str, options: Options) -> Compared:
    work = count(asked_of(column.data.left.setup, kernel, "fwd+bwd", dropout=True, options=options))
    moved = work.bytes if options == CREATED else work.data_bytes - (work.fill_bytes if said == UNFILLED else 0)
    made = "counted_bytes / 10^9" if options == CREATED else "counted_bytes_without_statistics / 10^9"
    made += " without the fills" if said == UNFILLED else ""
    return Column(column.data, column.row, work).compare("HBM", column.row.gigabytes, "GB", moved / 1e9, made, convention=said)
