"""Limits of one page, checked before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from iosim.attention.plan import Plan
from iosim.core.errors import BadInput, SramOverflow
from iosim.core.events import Event
from iosim.core.masks import patterns
from iosim.show.animation.pool import Sample
from iosim.show.animation.smaller import Smaller, smaller
from iosim.show.animation.steps import DECLARED

MOST_EVENTS = 120_000
MOST_WORDS = 4_000_000
MOST_NUMBERS = 400_000
MOST_ARRAYS = 512
MOST_LINES = 3 * MOST_EVENTS  # of a trace: those that say what was used are no events here, at most 1.2 for each in any kernel
COLUMNS = 8  # kept of each row where not all are
FEW = 3  # heads that tell what more of them add: the first differs, since it brings K and V, and a single one sums nothing


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a run has to show: its events, the words of its HBM arrays, and how many arrays those are."""

    events: int
    words: int
    arrays: int

    @property
    def fits(self) -> bool:
        """Whether a page can show it."""
        return self.events <= MOST_EVENTS and self.words <= MOST_WORDS and self.arrays <= MOST_ARRAYS

    def grown(self, before: Extent, times: int) -> Extent:
        """After so many more steps such as that from ``before`` to this one."""
        return Extent(*(now + times * (now - then) for now, then in zip(astuple(self), astuple(before), strict=True)))


class TooLarge(BadInput):
    """A run that is too large for a page. ``found`` says how large it is, and the limits; ``instead`` is a smaller problem, or None."""

    def __init__(self, found: str, instead: Smaller | None) -> None:
        self.found, self.instead = found, instead
        super().__init__(f"{found}; {'ask for a smaller problem' if instead is None else in_python(instead)}")


def measure(plan: Plan, beside: Sequence[Plan] = ()) -> Extent:
    """The extent of a run; raises :class:`TooLarge` where it does not fit, with a problem that fits, also for the plans ``beside``."""
    found = extent(plan)
    if not found.fits:
        raise TooLarge(excess(plan, found), smaller([plan, *beside], fits))
    return found


def extent(plan: Plan) -> Extent:
    """The extent of a run of any size: one tile of each kind is visited, and at most three heads that run one after the other."""
    problem, heads = plan.problem, plan.problem.group
    if heads <= FEW or plan.options.pack:
        return counted(plan)
    two, three = (counted(replace(plan, problem=replace(problem, heads=problem.kv_heads * few))) for few in (FEW - 1, FEW))
    return three.grown(two, heads - FEW)


def counted(plan: Plan) -> Extent:
    """The same, from every head."""
    seen, words = events_of(plan)
    shown = sum(event.times for event in seen if event.kind != "use")
    return Extent(shown, words, sum(event.kind in DECLARED for event in seen))


def events_of(plan: Plan) -> tuple[list[Event], int]:
    """The events of one tile of each kind, and the words of HBM."""
    seen: list[Event] = []
    m = plan.machine("count", [seen.append])
    plan.run(m)
    return seen, m.finish().peak_hbm


def fits(plan: Plan) -> bool:
    """Whether a page can show the run, and M holds what it needs."""
    try:
        return extent(plan).fits
    except SramOverflow:
        return False


def excess(plan: Plan, found: Extent) -> str:
    """By how much a run is too large."""
    if found.events <= MOST_EVENTS and found.words <= MOST_WORDS:
        return f"a run of {plan.kernel} with {found.arrays:,} arrays is too large to animate, the limit is {MOST_ARRAYS:,}"
    if found.words <= MOST_WORDS:
        return f"a run of {plan.kernel} with {found.events:,} events is too large to animate, the limit is {MOST_EVENTS:,}"
    told = f"{found.events:,} events over {found.words:,} words of HBM"
    return f"a run of {plan.kernel} with {told} is too large to animate, the limits are {MOST_EVENTS:,} and {MOST_WORDS:,}"


def in_python(instead: Smaller) -> str:
    """The smaller problem as a Python call; its masks are cut out of those of the large one."""
    problem, large, (rows, cols) = instead.problem, instead.large.problem, (instead.blocks.rows, instead.blocks.cols)
    told, more = repr(replace(problem, mask=None, block_mask=None)).removesuffix(")"), ""
    if large.mask is not None:
        down, across = instead.elements
        more += f", mask=mask[::{down}, ::{across}][:{problem.n}, :{problem.nk}]"
    if large.block_mask is not None and large.block_mask != patterns.butterfly(large.n, large.nk, *astuple(instead.large.blocks)):
        (down, across), (tr, tc) = instead.tiles, instead.grid
        grid = f"block_mask.dense()[::{down}, ::{across}][:{tr}, :{tc}]"
        more += f", block_mask=BlockMask.from_dense({grid}, {problem.n}, {problem.nk}, {rows}, {cols})"
    streamed = ", softmax='streamed'" if instead.streamed else ""
    return f"{told}{more}) with blocks=({rows}, {cols}){streamed} {instead.shown}"


def sample_of(plan: Plan) -> Sample:
    """All numbers where there is room for them, else 8 columns of as many rows as fit.

    The bound follows from the events: a tile of an input is kept once, and a block may be overwritten each time it is used.
    """
    events, _ = events_of(plan)
    inputs = {event.name for event in events if event.kind == "input"}
    kept = [event for event in events if len(event.box) == 2 and not (event.kind == "load" and event.name in inputs)]
    blocks = [(*_shape(event), event.times * (2 if event.kind == "alloc" else 1)) for event in kept]
    samples = [Sample(), *(Sample(1 << power, COLUMNS) for power in range(12))]
    return next((one for one in samples if sum(one.size(rows, cols) * times for rows, cols, times in blocks) <= MOST_NUMBERS), samples[-1])


def _shape(event: Event) -> tuple[int, int]:
    (top, bottom), (left, right) = event.box
    return bottom - top, right - left
