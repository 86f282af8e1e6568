"""What a replay may cost at most: multiples of what the solution's own stream costs."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from iosim.course.grading.records import LENGTH, RECORD


@dataclass(frozen=True, slots=True)
class Caps:
    """What a stream may ask for. It guards the grader, and judges nobody: what is allowed in a verdict is far less.

    ``records``: operations. ``words``: of one value. ``live``: words of all values and blocks that exist at once. ``elements``: those of
    all values that are made, stored or overwritten. ``flops``: of matrix products. ``loops``: that have begun, or may, and not ended.
    """

    records: int
    words: int
    live: int
    elements: int
    flops: int
    loops: int

    def times(self, factor: int) -> Caps:
        """So many times as much of everything, and at least :data:`LEAST`: on a tiny problem other answers cost far more than ours."""
        return Caps(*(max(factor * amount, least) for amount, least in zip(astuple(self), astuple(LEAST), strict=True)))

    @property
    def stream(self) -> int:
        """Bytes of the longest stream that keeps them: what need be collected of one."""
        return self.records * (RECORD.size + LENGTH.size)


LEAST = Caps(records=20_000, words=2**16, live=2**18, elements=2**22, flops=2**26, loops=32)
UNBOUNDED = Caps(*[2**62] * 6)
