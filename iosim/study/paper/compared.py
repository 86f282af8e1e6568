"""One published number beside ours, and several that belong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from iosim.study.paper.claims import Claim
from iosim.study.paper.counting import Work

Pair = tuple[float, float]  # what was published, and ours
Thing = Literal["fig2", "runtimes", "memory", "softmax"]

AGREES, DIFFERS = "agrees", "DIFFERS"
SHOWN, NO_FIT, NO_TEST, NO_KERNEL = "shown", "no fit", "no test", "no kernel"


@dataclass(frozen=True, slots=True)
class Compared:
    """A ``published`` number and ``ours``, both in ``unit``; ours is None where there is no kernel for it.

    ``name`` says which number it is, ``labels`` the same for programs. ``work`` is what was counted, ``made`` how ours follows from it.
    ``claim``: how near ours must lie. Where that is None, ``word`` says what the comparison is worth: ``shown``: no claim; ``no fit``: the
    published number fits no count, or not the others; ``no test``: the model leaves out what matters there; ``no kernel``: ours is None.
    """

    name: str
    published: float
    unit: str
    ours: float | None
    source: str
    labels: Mapping[str, object]
    claim: Claim | None = None
    word: str = SHOWN
    work: Work | None = None
    made: str = ""
    counted_by: str | None = None

    @property
    def command(self) -> str | None:
        """What to type for the counts behind ours."""
        return self.counted_by if self.work is None else self.work.asked.command

    @property
    def ratio(self) -> float | None:
        """Ours over the published number."""
        return None if self.ours is None else self.ours / self.published

    @property
    def pair(self) -> Pair:
        """The published number, and ours; 0 where there is no kernel."""
        return self.published, self.ours or 0.0

    @property
    def agrees(self) -> bool | None:
        """Whether the claim holds; None where nothing is claimed."""
        return None if self.claim is None or self.ours is None else self.claim.holds(self.published, self.ours)

    @property
    def verdict(self) -> str:
        """What came out, in a word."""
        if self.claim is None or self.ours is None:
            return self.word
        return AGREES if self.agrees else DIFFERS

    def record(self) -> dict[str, object]:
        """Everything as one JSON-ready record; counted numbers are exact integers."""
        claim, work = self.claim, self.work
        return {
            **self.labels, "published": self.published, "unit": self.unit, "ours": self.ours, "ratio": self.ratio,
            "claim": None if claim is None else claim.said, "at_most_off": None if claim is None else claim.most,
            "agrees": self.agrees, "verdict": self.verdict, "source": self.source, "made": self.made,
            "kernels": None if work is None else " + ".join(work.kernels),
            "options": None if work is None else work.asked.described,
            "counted_bytes": None if work is None else work.bytes,
            "counted_bytes_without_statistics": None if work is None else work.data_bytes,
            "counted_fill_bytes": None if work is None else work.fill_bytes,
            "counted_flops": None if work is None else work.flops,
            "command": self.command,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """Something that is claimed of several numbers together: what it ``said``, and whether it ``holds``."""

    said: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """Published numbers that belong together, as one line of the summary: a ``title`` under a ``section``, and ``why`` in plain words.

    ``thing`` is the page that shows them one by one. ``checks`` are claimed of all together.
    """

    thing: Thing
    section: str
    title: str
    rows: tuple[Compared, ...]
    why: str = ""
    checks: tuple[Check, ...] = ()

    @property
    def failures(self) -> tuple[str, ...]:
        """What was claimed and does not hold, each in a few words."""
        rows = [f"{row.name}: {row.published:g} {row.unit} published, {row.ours:g} ours" for row in self.rows if row.agrees is False]
        return (*rows, *(f"{self.section}, {self.title}: {check.said}" for check in self.checks if not check.holds))

    @property
    def verdict(self) -> str:
        """That of all numbers: DIFFERS where a claim fails."""
        return DIFFERS if self.failures else ", ".join(dict.fromkeys(row.verdict for row in self.rows))

    @property
    def claims(self) -> list[str]:
        """What is claimed of the numbers, in words."""
        return [*dict.fromkeys(row.claim.said for row in self.rows if row.claim is not None), *(check.said for check in self.checks)]

    def records(self) -> list[dict[str, object]]:
        """The numbers, each as a record that says where it stands."""
        return [{"thing": self.thing, "section": self.section, "title": self.title, **row.record(), "why": self.why} for row in self.rows]
