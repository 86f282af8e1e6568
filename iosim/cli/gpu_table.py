"""What ``iosim gpu check`` shows: a line a case, the arrays of cases that differ or are asked for, and one sentence at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from iosim.cli.output import Record, width
from iosim.cli.wrapping import wrapped
from iosim.core.tables import Cell, table
from iosim_gpu.case import Case
from iosim_gpu.catalogue import OPTIONS
from iosim_gpu.check import Row

SAME, OTHER, BEYOND = "=", "DIFFERS", "ABOVE"
SHORT = {"simulator": "sim", "counters": "count", "emulator": "emu"}
"""The meters' names where the table would be too wide otherwise."""


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A case, how the model's count differs from its closed forms (or None), and the rows of each meter."""

    case: Case
    differs: str | None
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def all_rows(self) -> Iterator[Row]:
        """The rows of all meters."""
        for rows in self.rows.values():
            yield from rows

    def failures(self) -> list[str]:
        """Whatever is wrong, a line each."""
        found = [row.failure for row in self.all_rows()]
        return [*([self.differs] if self.differs else []), *(why for why in found if why is not None)]

    @property
    def counted(self) -> bool:
        """Whether every count is the model's, its own count of the listing among them."""
        return self.differs is None and all(row.equal for row in self.all_rows())

    @property
    def within(self) -> bool:
        """Whether every value that is judged is within its bound."""
        return all(row.within is not False for row in self.all_rows())

    def worst(self) -> Row | None:
        """The row with the largest error in units of its bound; None where no values were judged."""
        return max((row for row in self.all_rows() if row.bound is not None), key=_share, default=None)

    def totals(self) -> tuple[int, int]:
        """Elements that are predicted to be read and to be written."""
        words = self.case.predicted().values()
        return sum(one.reads for one in words), sum(one.writes for one in words)

    def record(self) -> Record:
        """The case as JSON has it."""
        case, (reads, writes) = self.case, self.totals()
        return {
            "kernel": case.kernel, "case": case.name, "n": case.n, "nk": case.nk, "d": case.d, "batch": case.batch, "heads": case.heads,
            "causal": case.causal,
            "block_mask": None if case.mask is None else {"tiles": case.mask.grid[0] * case.mask.grid[1], "kept": case.mask.nnz},
            "block_rows": case.rows, "block_cols": case.cols, "threads": case.threads,
            **{name: case.options.get(name) for name in OPTIONS},
            "seed": case.seed, "predicted_reads": reads, "predicted_writes": writes, "model_equal": self.differs is None,
            "equal": {meter: all(row.equal for row in rows) for meter, rows in self.rows.items()},
            "within": self.within,
        }  # fmt: skip


def text_of(checked: Sequence[Checked], meters: Sequence[str], arch: str, *, arrays: bool) -> str:
    """Everything, for people."""
    where = f"measured {'on' if 'device' in meters else 'without'} a GPU" + (f"; PTX for {arch}" if "emulator" in meters else "")
    parts = [wrapped(f"Elements that the CUDA kernels move in global memory, {where}", width()), overview(checked, meters)]
    detailed = [one for one in checked if arrays or one.failures()]
    parts += [detail(one, meters) for one in detailed]
    parts.append("\n".join(wrapped(note, width()) for note in [*legend(detailed), verdict(checked, meters)]))
    return "\n\n".join(parts)


def overview(checked: Sequence[Checked], meters: Sequence[str]) -> str:
    """A line a case under the name of its kernel: the prediction, whether each meter agrees, and the worst error.

    Where that is too wide, the names of the meters are short and the error is a share of its bound.
    """
    shown = _shown([_line(one, meters) for one in checked], meters)
    lines, group = shown[:2], ""
    for one, line in zip(checked, shown[2:], strict=True):
        if _group(one.case) != group:
            group = _group(one.case)
            lines.append(group)
        lines.append(line)
    return "\n".join(lines)


def _shown(rows: Sequence[Sequence[Cell]], meters: Sequence[str]) -> list[str]:
    head = ["case", "reads", "writes", "model", *meters, "error", "of bound"]
    lines = table(head, rows, right=head[-2:]).split("\n")
    if max(map(len, lines)) <= width():
        return lines
    narrow = [SHORT.get(name, name) for name in head if name != "error"]
    return table(narrow, [[*row[:-2], row[-1]] for row in rows], right=narrow[-1:]).split("\n")


def _group(case: Case) -> str:
    """What is compiled, in words."""
    own = "".join(f", {name}={value}" for name, value in case.changed.items())
    return f"{case.kernel}{own}: tiles {case.rows}x{case.cols}, d={case.d}, {case.threads} threads a block"


def _label(case: Case) -> str:
    """What is not, in a few characters."""
    heads = f"{case.batch}x{case.heads}x" if case.instances > 1 else ""
    mask = "" if case.mask is None else f" mask {case.mask.density:.0%}"
    return f"  {heads}{case.n}x{case.nk}{' causal' if case.causal else ''}{mask}"


def _line(one: Checked, meters: Sequence[str]) -> list[Cell]:
    equal = [SAME if one.differs is None else OTHER]
    equal += [_verdict(one.rows[meter]) for meter in meters]
    worst = one.worst()
    off = ["", ""] if worst is None else [f"{worst.max_error:.1e}", f"{'' if one.within else f'{BEYOND} '}{_share(worst):.1%}"]
    return [_label(one.case), *one.totals(), *equal, *off]


def _verdict(rows: Sequence[Row]) -> str:
    return SAME if all(row.equal for row in rows) else OTHER


def _share(row: Row) -> float:
    return 0.0 if row.max_error is None or row.bound is None else row.max_error / row.bound


def detail(one: Checked, meters: Sequence[str]) -> str:
    """One line an array of a case: predicted, what each meter measured, and the transactions that the emulator saw."""
    names = list(dict.fromkeys(row.array for row in one.all_rows()))
    by_name = {(row.meter, row.array): row for row in one.all_rows()}
    rows = [_array(name, [by_name.get((meter, name)) for meter in meters]) for name in names]
    head = ["array", "reads", "writes", *meters, "requests", "sectors", "error", "bound"]
    keep = [index for index, _ in enumerate(head) if index < 3 + len(meters) or any(row[index] not in (None, "") for row in rows)]
    cut = [[row[index] for index in keep] for row in rows]
    title = f"{one.case.kernel} {one.case.name}"
    shown = table([head[index] for index in keep], cut, right=["error", "bound"])
    if len(shown.split("\n")[1]) > width():
        shown = table([SHORT.get(head[index], head[index]) for index in keep], cut, right=["error", "bound"])
    return f"{title}\n\n{shown}"


def _array(name: str, rows: Sequence[Row | None]) -> list[Cell]:
    found = [row for row in rows if row is not None]
    first = found[0]
    seen = next((row for row in found if row.sectors is not None), None)
    worst = max((row for row in found if row.bound is not None), key=_share, default=None)
    off: list[Cell] = ["", ""]
    if worst is not None:
        off = [f"{'' if worst.within else f'{BEYOND} '}{worst.max_error:.1e}", f"{worst.bound:.1e}"]
    moved: list[Cell] = [None, None] if seen is None else [seen.requests, seen.sectors]
    return [name, first.predicted_reads, first.predicted_writes, *map(_measured, rows), *moved, *off]


def _measured(row: Row | None) -> str:
    if row is None:
        return "unseen"
    plain = f", {row.plain_loads:,} not atomically" if row.plain_loads else ""
    return SAME if row.equal else f"{row.measured_reads:,} read, {row.measured_writes:,} written{plain}"


def legend(detailed: Sequence[Checked]) -> Iterator[str]:
    """How to read the tables; ``detailed``: the cases whose arrays are shown."""
    yield "Case: batch x heads x queries x keys; mask: the share of tiles that a block mask keeps."
    yield "Reads and writes: elements, predicted by the closed forms, over all arrays and heads."
    yield "=: the same for every array, in iosim's own count of the listing (model) and as each meter measured it."
    yield "Error: against float64 attention, of the output that is nearest to the bound which float32 keeps, and how much of it that is."
    if detailed:
        yield "Arrays: d is columns, T threads a block. Error and bound: of an output's worst element; other arrays have none."
    if any(row.sectors is not None for one in detailed for row in one.all_rows()):
        yield "Requests: instructions of a warp that access the array; sectors: the 32-byte pieces of memory that these touch."


def verdict(checked: Sequence[Checked], meters: Sequence[str]) -> str:
    """What came out, of counts and of values apart."""
    cases = _cases(len(checked))
    runs = f"{len(checked) * len(meters)} runs ({cases} x {', '.join(meters)})"
    other, beyond = sum(not one.counted for one in checked), sum(not one.within for one in checked)
    if not other and not beyond:
        reads, writes = (sum(one.totals()[side] for one in checked) for side in range(2))
        return f"All {runs} equal the model to the element: {reads:,} reads, {writes:,} writes, every array of every case."
    counts = f"counts DIFFER in {other} of {cases}" if other else "all counts equal"
    if not beyond:
        return f"In {runs}, {counts}; all values within their error bounds."
    return f"In {runs}, {beyond} of {cases} {'is outside its error bound' if beyond == 1 else 'are outside their error bounds'}; {counts}."


def _cases(count: int) -> str:
    return f"{count} {'case' if count == 1 else 'cases'}"
