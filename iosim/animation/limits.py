"""What is too much for one page: counted before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from iosim.animation.pool import Sample
from iosim.errors import BadInput
from iosim.events import Event
from iosim.plan import Plan

MOST_EVENTS = 120_000
MOST_WORDS = 4_000_000
MOST_NUMBERS = 400_000
COLUMNS = 8  # kept of each row where not all are
SIDE = 4  # of the tiles of the smaller problem


@dataclass(frozen=True, slots=True)
class Size:
    """How much a run has to show: events, words of its HBM arrays, and which of its numbers a page has room for."""

    events: int
    words: int
    sample: Sample


def measure(plan: Plan) -> Size:
    """The size of a run, from one tile of each kind; raises :class:`BadInput` where it is too large, naming a smaller problem."""
    seen: list[Event] = []
    m = plan.machine("count", [seen.append])
    plan.run(m)
    words = m.finish().peak_hbm
    events = sum(event.times for event in seen if event.kind != "use")
    if events > MOST_EVENTS:
        raise BadInput(f"a run of {events:,} events is too large to animate, the limit is {MOST_EVENTS:,}; {smaller(plan)}")
    if words > MOST_WORDS:
        raise BadInput(
            f"a run of {events:,} events over {words:,} words of HBM is too large to animate, the limits are {MOST_EVENTS:,} and "
            f"{MOST_WORDS:,}; {smaller(plan)}"
        )
    return Size(events, words, sample_of(seen))


def sample_of(events: list[Event]) -> Sample:
    """All numbers where there is room for them, else 8 columns of as many rows as have room; a tile of an input is kept once."""
    inputs = {event.name for event in events if event.kind == "input"}
    kept = [event for event in events if len(event.box) == 2 and not (event.kind == "load" and event.name in inputs)]
    blocks = [(*_sides(event), event.times * (2 if event.kind == "alloc" else 1)) for event in kept]
    samples = [Sample(), *(Sample(1 << power, COLUMNS) for power in range(12))]
    return next((one for one in samples if sum(one.size(rows, cols) * times for rows, cols, times in blocks) <= MOST_NUMBERS), samples[-1])


def smaller(plan: Plan) -> str:
    """A problem with as many tiles as can be seen one by one, up to 8 a side."""
    down, across = (min(8, -(-rows // block)) for rows, block in zip((plan.problem.n, plan.problem.nk), _blocks(plan), strict=True))
    keys = "" if down == across else f" --nk {across * SIDE}"
    return f"--n {down * SIDE}{keys} --d {SIDE} --blocks {SIDE}x{SIDE} shows the same in {down} x {across} tiles"


def _blocks(plan: Plan) -> tuple[int, int]:
    return plan.blocks.rows, plan.blocks.cols


def _sides(event: Event) -> tuple[int, int]:
    (top, bottom), (left, right) = event.box
    return bottom - top, right - left
