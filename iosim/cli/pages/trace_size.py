"""How large the file of a trace will be, known before its first line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from iosim.attention.plan import Plan
from iosim.core.events import Event
from iosim.show.animation.limits import events_of
from iosim.show.animation.steps import DECLARED

STEPS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def size(plan: Plan, text: Callable[[Event], str]) -> int:
    """About how many bytes the events of a plan take, each as ``text`` writes it, from one tile of each kind."""
    seen, _ = events_of(plan)
    shapes = {event.name: tuple(stop for _, stop in event.box) for event in seen if event.kind in DECLARED}
    shapes["tile"] = (plan.problem.n,)
    return sum(event.times * len(text(replace(typical(event, shapes.get(event.name, ())), times=1))) for event in seen)


def typical(event: Event, shape: tuple[int, ...]) -> Event:
    """The event moved to the middle of its array, where its numbers have as many digits as in most of its repetitions."""
    box = zip(event.box, shape, strict=False)
    middle = tuple((start, stop) if (start, stop) == (0, most) else (most // 2, most // 2) for (start, stop), most in box)
    return replace(event, box=middle or event.box)


def written(size: int) -> str:
    """Bytes to two digits.

    >>> written(1_234_567_890), written(987_654), written(48_000_000_000)
    ('1.2 GB', '990 kB', '48 GB')
    """
    unit = next((unit for unit, step in reversed(STEPS.items()) if size >= step), "kB")
    amount = float(f"{size / STEPS[unit]:.2g}")
    return f"{amount:,.0f} {unit}" if amount >= 10 else f"{amount:.1f} {unit}"
