"""The times of Tables 7 and 9 to 20, predicted from counted bytes and FLOPs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from iosim.study.calibration import UNFUSED
from iosim.study.paper.cell_names import labels_of, name_of
from iosim.study.paper.claims import percent
from iosim.study.paper.compared import Check, Compared, Finding
from iosim.study.paper.data import Data
from iosim.study.paper.kinds import KINDS, Kind
from iosim.study.paper.times import KERNELS, Times, fit, fixes_bandwidth, fixes_rate, work_of
from iosim.study.published import Cell, Measured, Note, cells, notes

TIGHT, OUTSIDE = 15, 2  # percent, and how many of the cells that the bandwidth predicts may lie further away


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell, its ``kind``, and what came out; ``notes`` are the known remarks on it."""

    cell: Cell
    kind: Kind
    compared: Compared
    notes: tuple[Note, ...]

    @property
    def fitted(self) -> bool:
        """Whether bandwidth or rate is fitted on it."""
        return fixes_bandwidth(self.cell) or fixes_rate(self.cell)


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Every time of the tables beside the predicted one, and the two numbers that predict them."""

    times: Times
    judged: tuple[Judged, ...]
    whole: bool = True

    @property
    def groups(self) -> list[tuple[Finding, list[Judged]]]:
        """The cells of each kind together, as a finding and one by one."""
        found = [(kind, [one for one in self.judged if one.kind is kind]) for kind in KINDS]
        return [(_finding(kind, [one.compared for one in rows], self.whole), rows) for kind, rows in found if rows]

    @property
    def findings(self) -> list[Finding]:
        """The cells of each kind together."""
        return [finding for finding, _ in self.groups]

    def of_table(self, number: int) -> Runtimes:
        """The cells of one table alone, of which nothing is claimed together."""
        return Runtimes(self.times, tuple(one for one in self.judged if one.cell.table == number), whole=False)


def runtimes(data: Data, times: Times | None = None) -> Runtimes:
    """Predict every time; ``times`` are those fitted on the data where they are not given.

    Raises :class:`iosim.core.errors.BadInput` where the cells that fix bandwidth and rate are missing.
    """
    times = times or fit(data)
    return Runtimes(times, tuple(_judged(found, cell, times) for found, cell in data.cells() if cell.unit == "ms"))


def _judged(found: Measured[Cell], cell: Cell, times: Times) -> Judged:
    kind = next(kind for kind in KINDS if kind.holds(cell))
    known = tuple(note for note in _remarks() if cell in _shipped() and note.concerns(cell))
    labels = {**labels_of(cell), "kind": kind.title, "notes": ", ".join(note.name for note in known)}
    if cell.method not in KERNELS:
        return Judged(cell, kind, Compared(name_of(cell), cell.value, "ms", None, found.source, labels, word=kind.word), known)
    work = work_of(found.setup, cell)
    claim = None if kind.claim is None else percent(cell.value, kind.claim)
    ours = times.predicted(work, found.setup, cell.method)
    compared = Compared(name_of(cell), cell.value, "ms", ours, found.source, labels, claim, kind.word, work, made_of(cell, times))
    return Judged(cell, kind, compared, known)


def made_of(cell: Cell, times: Times) -> str:
    """How the time follows from what was counted."""
    fitted = ", one of the cells that this is fitted on" if fixes_bandwidth(cell) or fixes_rate(cell) else ""
    return times.made(fused=cell.method not in UNFUSED) + fitted


def _finding(kind: Kind, rows: Sequence[Compared], whole: bool) -> Finding:
    checks = (tight(rows),) if whole and kind.claim is not None and kind.claim > TIGHT else ()
    return Finding("runtimes", kind.section, kind.title, tuple(rows), kind.why, checks)


def tight(rows: Sequence[Compared]) -> Check:
    """How many lie within 15 percent; one bandwidth for all claims all but two."""
    near = sum(row.ratio is not None and abs(row.ratio - 1) <= TIGHT / 100 for row in rows)
    return Check(f"{near} of {len(rows)} within {TIGHT} %", len(rows) - near <= OUTSIDE)


@cache
def _shipped() -> frozenset[Cell]:
    return frozenset(cells())


@cache
def _remarks() -> tuple[Note, ...]:
    return tuple(notes("tables_9_21"))
