"""What a grader says: three parts, what was wrong first, and how it was protected."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.course.spec import PartName

TITLES: dict[PartName, str] = {"values": "values match", "rules": "memory rules kept", "words": "words moved"}


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a verdict: whether it passed (None: it could not be judged), and one line that says what was found."""

    name: PartName
    passed: bool | None
    says: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The whole answer. ``score`` of ``out_of`` points; rules and words count only where the values match.

    ``reason``: why nothing could be judged (no such function, stopped after 3 s), else empty. ``mistake``: the name of a known mistake that
    does the same, with what ``advice`` to give. ``line``: of the submission. ``picture``: the tiles that moved, as text. ``seed``: with it
    the same inputs are drawn again. ``protections``: the layers that were in force, each probed.
    """

    exercise: str
    parts: tuple[Part, ...]
    score: int
    out_of: int
    seed: int
    reason: str = ""
    mistake: str | None = None
    advice: str = ""
    line: int | None = None
    picture: str = ""
    protections: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every point was given."""
        return self.score == self.out_of
