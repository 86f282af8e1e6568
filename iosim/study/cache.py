"""What a cache would move in place of the scratchpad: the event stream of a run, replayed under least-recently-used replacement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from iosim.attention.plan import BlockChoice, Plan, make_plan
from iosim.core.errors import BadInput
from iosim.core.events import Event
from iosim.core.problem import Attention
from iosim.core.units import Capacity, whole
from iosim_reference.cache import ORDERS, Moved, Order, Profile, Touches, touches

__all__ = ["ORDERS", "CacheReplay", "Moved", "Order", "replay_cache", "replay_plan"]
MOST_TILES = 20_000
MOST_SPANS = 200_000
MOST_LOOKUPS = 50_000_000
_SPAN, _LOOKUP = 20e-6, 0.5e-6  # seconds, roughly: of one span in the pass over all sizes, of one lookup in a set


@dataclass(frozen=True, slots=True)
class CacheReplay:
    """One head of a plan under caches: fully associative ones of every size, and set-associative ones with ``ways`` places a set.

    A line of a cache holds one word of an HBM array, whatever its type. Computed values are taken to live elsewhere. The caches write back,
    and a store fetches nothing. In ``order`` "listing" regions are touched as in the trace; in "first-use" each is fetched when it is first
    used, after operands that are on chip already (see :mod:`iosim_reference.cache`).
    """

    plan: Plan
    order: Order
    ways: int
    touches: Touches
    profile: Profile

    @property
    def scratchpad(self) -> Moved:
        """What the listing's own loads and stores move, in words."""
        return self.touches.scratchpad

    @property
    def held(self) -> int:
        """The most words of loaded regions that stand in the scratchpad at once."""
        return self.touches.held

    @property
    def enough(self) -> int:
        """The words from which on a fully associative cache moves no more than the scratchpad."""
        return next(size for size in [1, *self.steps] if self.profile.moved(size).words <= self.scratchpad.words)

    @property
    def steps(self) -> list[int]:
        """The sizes at which a fully associative cache moves less."""
        return self.profile.steps

    def lru(self, size: int) -> Moved:
        """What a fully associative cache of ``size`` words moves."""
        return self.profile.moved(whole("the size of a cache", size))

    def set_associative(self, size: int) -> Moved:
        """What a cache of ``size`` words moves whose sets have ``ways`` places; raises :class:`BadInput` without a set."""
        if whole("the size of a cache", size) < self.ways:
            raise BadInput(f"a cache of {size} words has no set of {self.ways} ways; ask for at least {self.ways} words")
        require_reach([self], [size])
        return self.touches.set_associative(size, self.ways)

    def record(self, size: int) -> dict[str, object]:
        """Both caches of ``size`` words as plain data."""
        both = {"lru": self.lru(size), "set_associative": self.set_associative(size)}
        moved = {name: {"reads": cache.reads, "writes": cache.writes} for name, cache in both.items()}
        return {"order": self.order, "size": size, "of_held": size / self.held, "ways": self.ways, **moved}


def replay_cache(
    name: str, problem: Attention, *, sram: Capacity | int | str = "100KiB", blocks: BlockChoice = "fit", order: Order = "listing",
    ways: int = 8, **options: str | bool | None,
) -> CacheReplay:  # fmt: skip
    """Replay the trace of one head of a kernel under caches.

    Raises :class:`BadInput` for more than 20,000 tiles, and for more than 200,000 rows of regions.

    Args:
        name: The kernel.
        problem: What it runs on.
        sram: M of the scratchpad, as for :func:`iosim.simulate`.
        blocks: As for :func:`iosim.simulate`.
        order: "listing" fetches a region where the listing loads it, "first-use" where it is first used.
        ways: Places a set of the set-associative caches.
        options: Those of the kernel.

    >>> found = replay_cache("flash", Attention(n=64, d=8), sram=2048, blocks=(8, 8), order="first-use")
    >>> found.scratchpad.words, found.lru(4 * 8 * 8).words, found.lru(5 * 8 * 8).words
    (16000, 22656, 16000)
    """
    return replay_plan(make_plan(name, problem, sram, blocks, None, options), order, ways)


def replay_plan(plan: Plan, order: Order = "listing", ways: int = 8) -> CacheReplay:
    """The same for a plan."""
    if order not in ORDERS:
        raise BadInput(f"order must be {' or '.join(map(repr, ORDERS))}, not {order!r}")
    rows = plan.problem.n * plan.problem.group
    tiles = -(-rows // plan.blocks.rows) * -(-plan.problem.nk // plan.blocks.cols)
    if tiles > MOST_TILES:
        raise BadInput(f"a replay of {tiles:,} tiles takes minutes; ask for at most {MOST_TILES:,}, in larger blocks or of smaller N")
    found = touches(map(_mapping, plan.trace()), order)
    spans = sum(found.counted.values())
    if spans > MOST_SPANS:
        raise BadInput(
            f"a replay of {spans:,} rows of regions takes about {_seconds(spans * _SPAN)}; "
            f"ask for at most {MOST_SPANS:,}, in larger blocks or of smaller N"
        )
    return CacheReplay(plan, order, whole("ways", ways), found, found.lru())


def require_reach(replays: Sequence[CacheReplay], sizes: Sequence[int]) -> None:
    """Raise :class:`BadInput` where the set-associative caches of all ``sizes`` need more than 50 million lookups together."""
    lookups = sum(replay.touches.lookups(size, replay.ways) for replay in replays for size in sizes if size >= replay.ways)
    if lookups > MOST_LOOKUPS:
        raise BadInput(
            f"set-associative caches need {lookups:,} lookups, which take about {_seconds(lookups * _LOOKUP)}; "
            f"ask for at most {MOST_LOOKUPS:,}, in larger blocks, of smaller N, or for fewer or larger sizes"
        )


def _seconds(about: float) -> str:
    return f"{about:.0f} s" if about < 100 else f"{about / 60:.0f} minutes"


def _mapping(event: Event) -> dict[str, object]:
    return {"kind": event.kind, "name": event.name, "box": event.box, "times": event.times}
