"""All kernels on one problem, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from iosim.attention.catalogue import FORWARD, KERNELS, Named, kernel
from iosim.attention.plan import BlockChoice, Given, make_plan
from iosim.attention.report import Report
from iosim.attention.run import report
from iosim.core.described import described
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.options import Value
from iosim.core.problem import Attention
from iosim.core.tables import Cell, html, table
from iosim.core.units import Capacity


@dataclass(frozen=True, slots=True)
class Comparison:
    """The reports of several kernels on one problem, and why those that are missing could not run."""

    reports: tuple[Report, ...]
    refused: dict[str, str]

    def __iter__(self) -> Iterator[Report]:
        return iter(self.reports)

    def __repr__(self) -> str:
        head, rows, remarks = self._parts()
        return "\n".join([self._title(), "", table(head, rows, right=head[1:]), *([""] if remarks else []), *remarks])

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        head, rows, remarks = self._parts()
        return html(self._title(), head, rows, remarks, right=head[1:])

    def _parts(self) -> tuple[list[str], list[list[Cell]], list[str]]:
        """The head, the rows and the remarks; without the column of the overflow where there is none."""
        head = ["kernel", "Br x Bc", "counted", "predicted", "lower bound", "ratio", "peak SRAM", "over M", "max error"]
        rows = [_row(report) for report in self.reports]
        if not any(report.overflow for report in self.reports):
            head, rows = [name for name in head if name != "over M"], [row[:-2] + row[-1:] for row in rows]
        return head, rows, [*(f"{name}: {why}" for name, why in self.refused.items()), *self._notes()]

    def _notes(self) -> list[str]:
        notes: dict[str, list[str]] = {}
        for made in self.reports:
            for note in made.notes:
                notes.setdefault(note, []).append(made.kernel)
        return [f"note: {', '.join(kernels)}: {note}" for note, kernels in notes.items()]

    def _title(self) -> str:
        first = self.reports[0]
        shared = next((report.problem for report in self.reports if report.problem.block_mask is None), first.problem)
        return f"{described(shared)}, SRAM {first.sram}; words moved, peak SRAM in {first.sram.unit}"


def _row(made: Report) -> list[Cell]:
    predicted = sum(moved.reads + moved.writes for moved in made.predicted.values()) if made.predicted else None
    bound = made.lower_bound or None
    ratio = None if bound is None else made.total / bound
    return [made.kernel, str(made.blocks), made.total, predicted, bound, ratio, made.peak_sram, made.overflow, made.max_error]


def compare(
    problem: Attention,
    kernels: Sequence[Named] = FORWARD,
    *,
    sram: Capacity | int | str = "100KiB",
    blocks: BlockChoice = "fit",
    execute: bool | None = None,
    **options: Value | None,
) -> Comparison:
    """Run every kernel of ``kernels`` on ``problem``; an option applies to the kernels that have it.

    A kernel that cannot run in this SRAM is listed with its reason instead. Raises :class:`BadInput` for an option that no kernel has.

    >>> compare(Attention(n=256, d=32), ["flash", "flash2"], sram=12288, execute=False).reports[1].total
    65792
    """
    check_some_have(kernels, options)
    reports, refused = [], {}
    for name in kernels:
        try:
            plan = make_plan(name, problem, sram, blocks, None, options_of(name, options))
            reports.append(report(plan, execute=execute))
        except (SramOverflow, BadInput) as error:
            if len(kernels) == 1:
                raise
            refused[kernel(name).name] = str(error)
    if not reports:
        raise BadInput("; ".join(f"{name}: {why}" for name, why in refused.items()))
    return Comparison(tuple(reports), refused)


def options_of(name: Named, options: Given) -> Given:
    """Those of ``options`` that the kernel ``name`` has."""
    return {option: value for option, value in options.items() if option in kernel(name).has}


def check_some_have(kernels: Sequence[Named], options: Given) -> None:
    """Raise :class:`BadInput` for an option that none of the ``kernels`` has, and where there are none."""
    if not kernels:
        raise BadInput(f"no kernel was named; name at least one of {', '.join(KERNELS)}")
    known = {option for name in kernels for option in kernel(name).has}
    for option, value in options.items():
        if value is not None and option not in known:
            raise BadInput(
                f"none of {', '.join(map(str, map(kernel, kernels)))} has an option {option!r}; they have: {', '.join(sorted(known))}"
            )
